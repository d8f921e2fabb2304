"""`jmdp compare-policies`: whole policies of a simulator from the same starts, under shared randomness."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from jmdp.base.settings import short
from jmdp.base.whole_files import replacement, reserved
from jmdp.cli.command import Exit, Flag, Optionally, aside, print_json, show, writing
from jmdp.cli.environments import Environment
from jmdp.cli.options import EpisodeSampling, sampling_record, start_states
from jmdp.cli.policy_files import FILES_HELP
from jmdp.comparisons.compare_policies import compare_policies
from jmdp.comparisons.policy_comparison import PolicyComparison
from jmdp.errors import SettingsError
from jmdp.results.certificate import Outcome

_POLICIES = (
    "Two or more policies, each as NAME=POLICY, or as POLICY, which is then also its name. A policy is uniform; an "
    "action by name or number, taken in every step; comma-separated actions, one per state, 0,3,3,1; a policy of the "
    f"world, by name; {FILES_HELP}."
)


@dataclass(frozen=True, kw_only=True)
class ComparePolicies(EpisodeSampling):
    """Compare whole policies: which is best, by how much, with what confidence.

    Each sample runs one episode of every policy from the same start, with common random numbers. Sampling stops as soon
    as one policy is known to be better on average than every other (with --baseline: as soon as each is known to be
    better or worse than the baseline; with --precision: as soon as every mean gap is known that precisely), and the
    exit code is 0; it is 1 if the budget ran out first. Intervals are valid whenever sampling stops. ENV comes first,
    options after it.
    """

    examples: ClassVar = {
        "jmdp compare-policies world:inventory --policies base_stock reorder --starts 0 5": "two policies of "
        "a built-in table",
        "jmdp compare-policies FrozenLake-v1 --discount 1 --policies old=uniform new=0,3,3,3,0,0,0,0,3,1,0,0,0,2,1,0 "
        "--baseline old": "old against new policy; a saved model would be new=PPO:model.zip",
        "jmdp compare-policies world:inventory --policies base_stock reorder --plan --difference 0.5": "how many "
        "episodes it takes to find a mean gap of 0.5",
        "jmdp compare-policies CartPole-v1 --discount 1 --policies left uniform --precision 5 --json": "the gap "
        "to ± 5, as JSON",
    }

    policies: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=POLICY …", help=_POLICIES)]
    baseline: Annotated[Optionally[str], tyro.conf.arg(metavar="NAME")] = None
    """Policy that the others are compared with. By default the one with the largest mean."""
    discount: Optionally[float] = None
    """Discount factor per step. Tables have their own; with 1, a return is the sum over the whole episode."""
    stratify: Flag = False
    """Draw the start states of --starts, or of the world, in shares that are their probabilities, and not at random:
    intervals are narrower if starts differ."""
    plot: Annotated[Optionally[Path], tyro.conf.arg(metavar="FILE")] = None
    """Save a figure to FILE, which ends in .png, .svg or .pdf."""

    def policy_texts(self) -> Sequence[str]:
        """Return the policies, with their names."""
        return self.policies

    def run(self) -> Exit:
        """Compare and print the result."""
        with aside(self.quiet), self.reserved_page(), contextlib.ExitStack() as stack:
            if self.plot is not None:  # first: a wrong path must not be found after an hour
                stack.enter_context(reserved_figure(self.plot))
            chosen = self.environment()
            found = self._compared(chosen)
            answer: Any = _record(found) if self.json else found
            self.write_page(found)
            if self.plot is not None:
                with writing("--plot", self.plot), replacement(self.plot) as file:
                    found.plot().savefig(file, format=self.plot.suffix[1:].lower())
        if self.plan:
            return self.show_plan(found)
        if self.json:
            print_json({"env": self.env, **answer})
        else:
            show(answer)
        if found.outcome is Outcome.INTERRUPTED:
            return Exit.INTERRUPTED
        return Exit.YES if found.decided else Exit.NO

    def _compared(self, chosen: Environment) -> PolicyComparison:
        simulator = chosen.episode_simulator(digests=self.coupling == "local")
        if self.discount is None and simulator.discount is None:
            raise SettingsError(f"{simulator!r} has no discount. Give one, e.g. --discount 1 for whole episodes.")
        policies = {name: chosen.policy(simulator, text) for name, text in _named(self.policies)}
        self.refuse_unused_net()
        return compare_policies(
            simulator,
            policies,
            starts=start_states(self.starts, chosen),
            discount=self.discount,
            coupling=self.shared(),
            baseline=self.baseline,
            stratify=self.stratify,
            **self.sampling(),
        )


@contextlib.contextmanager
def reserved_figure(path: Path) -> Iterator[None]:
    """Reserve the file of a figure; raise if it cannot be written."""
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise SettingsError(f"--plot is {short(str(path))}. Give a file that ends in .png, .svg or .pdf.")
    with contextlib.ExitStack() as stack:
        with writing("--plot", path):
            stack.enter_context(reserved(path))
        yield


def _named(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of name and policy; the name is the text before the first =."""
    parts = [text.partition("=") for text in texts]
    named = [(first, rest) if equals else (first, first) for first, equals, rest in parts]
    names = [name for name, _ in named]
    if len(names) < 2 or len(set(names)) < len(names):
        raise SettingsError(
            f"--policies is {' '.join(texts) or 'empty'}. Give two or more policies with different names."
        )
    return named


def _record(found: PolicyComparison) -> dict[str, Any]:
    """Return the contents of the table and the settings behind them."""
    pairing = found.pairing
    return {
        "answer": found.answer,
        **sampling_record(found),
        "paired_samples": found.paired_samples,
        "baseline": found.baseline,
        "reference": found.reference,
        "pairing": {
            "gain": pairing.gain,
            "ceiling": pairing.ceiling,
            "correlation": pairing.correlation,
            "shares": pairing.shares,
        },
        "policies": [{"policy": name, **found.beside(name)} for name in found.policies],
    }
