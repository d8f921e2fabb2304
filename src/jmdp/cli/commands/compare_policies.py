"""`jmdp compare-policies`: whole policies of a simulator from the same starts, under shared randomness."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from jmdp.base.settings import short
from jmdp.base.whole_files import replacement
from jmdp.cli.command import Flag, Optionally, writing
from jmdp.cli.loading import Found, reserve
from jmdp.cli.options import EpisodeSampling, sampling_record, start_states
from jmdp.cli.policy_files import FILES_HELP
from jmdp.comparisons.compare_policies import compare_policies
from jmdp.comparisons.policy_comparison import PolicyComparison
from jmdp.errors import SettingsError

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

    def found(self, stack: ExitStack) -> Found:
        """Compare, and draw the figure."""
        if self.plot is not None:
            if self.plot.suffix.lower() not in (".png", ".svg", ".pdf"):
                raise SettingsError(f"--plot is {short(str(self.plot))}. Give a file that ends in .png, .svg or .pdf.")
            reserve(stack, "--plot", self.plot)
        found = self._compared()
        if self.plot is not None:
            with writing("--plot", self.plot), replacement(self.plot) as file:
                found.plot().savefig(file, format=self.plot.suffix[1:].lower())
        return self.compared(found, lambda: self._record(found))

    def _compared(self) -> PolicyComparison:
        chosen = self.environment()
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

    def _record(self, found: PolicyComparison) -> dict[str, Any]:
        """The contents of the table and the settings behind them."""
        pairing = found.pairing
        return {
            "env": self.env,
            "answer": found.answer,
            **sampling_record(found),
            "paired_samples": found.paired_samples,
            "baseline": found.baseline,
            "reference": found.reference,
            "pairing": {name: getattr(pairing, name) for name in ("gain", "ceiling", "correlation", "shares")},
            "policies": [{"policy": name, **found.beside(name)} for name in found.policies],
        }


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
