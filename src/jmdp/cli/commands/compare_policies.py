"""`jmdp compare-policies`: whole policies of a simulator from the same starts, under the same luck."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from jmdp.cli.choices import CouplingName, coupling_of, label_of
from jmdp.cli.command import Command, Exit, aside, print_json
from jmdp.cli.environments import Environment, EnvName, environment
from jmdp.cli.options import Optionally, PolicyDraws, TruncatedEnds
from jmdp.comparing_policies import compare_policies
from jmdp.errors import SettingsError
from jmdp.results.outcome import Outcome
from jmdp.results.policy_comparison import PolicyComparison
from jmdp.simulators.simulator import Simulator

_POLICIES = (
    "Two or more, each NAME=POLICY, or POLICY alone, which is then its name. A policy is uniform; an action by name or "
    "number, which is then always taken; one for each state with commas between, 0,3,3,1; a policy of the world, by "
    "name; your own, package.module:name or file.py:name; or a saved model of stable-baselines3, PPO:model.zip."
)

_STARTS = (
    "Where episodes start, of a table: states by name or number, equally likely, or STATE=PROBABILITY. By default "
    "where the world or the environment starts them."
)


@dataclass(frozen=True, kw_only=True)
class ComparePolicies(Command):
    """Which policy is better, by how much, and how sure is that?

    Each sample runs an episode of every policy from one start, and all of them meet the same luck. It stops as soon as
    one policy is known to be better on average than every other (with --baseline, when each is known to be better or
    worse than that one; with --precision, when every gap is known to so much), and then returns 0; 1 where the budget
    was spent before. Intervals hold whenever it stops. ENV comes first, options after it.
    """

    examples: ClassVar = {
        "jmdp compare-policies world:inventory --policies base_stock reorder --starts 0 5": "two policies of a table",
        "jmdp compare-policies FrozenLake-v1 --discount 1 --policies old=uniform new=0,3,3,3,0,0,0,0,3,1,0,0,0,2,1,0 "
        "--baseline old": "is the new one better? A saved model would be new=PPO:model.zip",
        "jmdp compare-policies CartPole-v1 --discount 1 --policies left uniform --precision 5 --json": "the gap to ± 5",
    }

    env: EnvName
    policies: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=POLICY …", help=_POLICIES)]
    baseline: Annotated[Optionally[str], tyro.conf.arg(metavar="NAME")] = None
    """The policy that the others are compared with. By default the one with the largest mean."""
    starts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="STATE …", help=_STARTS, help_behavior_hint="")] = ()
    truncated_ends: TruncatedEnds = False
    discount: Optionally[float] = None
    """What a reward is worth a step later. Tables have their own; with 1 a return is that of the whole episode."""
    coupling: CouplingName = "synchronous"
    """How luck is shared: by all branches in a step, by those in the same state (local), or not at all."""
    policy_luck: PolicyDraws = "shared"
    seed: int = 0
    """Of all luck."""
    confidence: float = 0.95
    """Of the decision, and of all gaps of one policy together."""
    precision: Optionally[float] = None
    """Go on until every mean gap is known to ± this instead."""
    samples: int = 10_000
    """Episodes of each policy, at most."""
    max_steps: Optionally[int] = None
    """Steps simulated, at most."""
    horizon: Optionally[int] = None
    """Steps of an episode, at most. By default the time limit of the environment where discount is 1."""
    reward_bound: Optionally[float] = None
    """The largest reward there can be after the horizon. Tables know theirs; else the largest met is taken."""
    return_range: Annotated[Optionally[tuple[float, float]], tyro.conf.arg(metavar="LEAST MOST")] = None
    """Where all returns are, if that is known: intervals then hold for any distribution."""
    tie_tolerance: float = 0.0
    """Gaps of at most this size count as ties in chances."""
    plot: Annotated[Optionally[Path], tyro.conf.arg(metavar="FILE")] = None
    """Save a figure: FILE.png, .svg or .pdf."""

    def run(self) -> Exit:
        """Compare and print it."""
        with aside(self.quiet):
            chosen = environment(self.env, truncated_ends=self.truncated_ends)
            found = self._compared(chosen)
            answer: Any = _record(found) if self.json else found
            if self.plot is not None:
                found.plot().savefig(self.plot)
        if self.json:
            print_json({"env": self.env, **answer})
        else:
            print(answer)
        if found.outcome is Outcome.INTERRUPTED:
            return Exit.INTERRUPTED
        return Exit.YES if found.outcome.successful else Exit.NO

    def _compared(self, chosen: Environment) -> PolicyComparison:
        simulator = chosen.episode_simulator(digests=self.coupling == "local")
        if self.discount is None and simulator.discount is None:
            raise SettingsError(f"{simulator!r} has no discount of its own. Give one: --discount 1 for whole episodes.")
        return compare_policies(
            simulator,
            {name: chosen.policy(simulator, text) for name, text in _named(self.policies)},
            starts=self._starts(chosen, simulator),
            seed=self.seed,
            discount=self.discount,
            coupling=coupling_of(self.coupling, self.policy_luck),
            baseline=self.baseline,
            confidence=self.confidence,
            precision=self.precision,
            samples=self.samples,
            max_steps=self.max_steps,
            horizon=self.horizon,
            reward_bound=self.reward_bound,
            return_range=self.return_range,
            tie_tolerance=self.tie_tolerance,
            progress=not self.quiet,
        )

    def _starts(self, chosen: Environment, simulator: Simulator) -> Any:
        if not self.starts:
            return getattr(chosen.world, "start", None)
        if chosen.model is None:
            raise SettingsError("--starts is for tables. Other environments draw their own, from --seed.")
        labels = chosen.model.states
        pairs = [text.rpartition("=") if "=" in text else (text, "", "") for text in self.starts]
        states = [labels.index(label_of(labels, state)) for state, _, _ in pairs]
        if not any(chance for _, _, chance in pairs):
            return states
        try:
            return dict(zip(states, [float(chance) for _, _, chance in pairs], strict=True))
        except ValueError:
            raise SettingsError(
                f"--starts is {' '.join(self.starts)}. Give a probability for each: 0=0.5 3=0.5."
            ) from None


def _named(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Names and policies; a name is all before the first =."""
    parts = [text.partition("=") for text in texts]
    named = [(first, rest) if equals else (first, first) for first, equals, rest in parts]
    names = [name for name, _ in named]
    if len(names) < 2 or len(set(names)) < len(names):
        raise SettingsError(f"--policies is {' '.join(texts) or 'empty'}. Give two or more with different names.")
    return named


def _record(found: PolicyComparison) -> dict[str, Any]:
    """All that the table says, and what its numbers rest on."""
    pairing = found.pairing
    return {
        "answer": found.answer,
        "simulator": found.simulator,
        "coupling": found.evaluation.coupling,
        "discount": found.discount,
        "horizon": found.horizon,
        "seed": found.seed,
        "confidence": found.confidence,
        "samples": found.samples,
        "paired_samples": found.paired_samples,
        "outcome": found.outcome,
        "decided": found.outcome.successful,
        "best": found.best,
        "leader": found.leader,
        "baseline": found.baseline,
        "reference": found.reference,
        "steps": found.draws.steps,
        "pairing": {"gain": pairing.gain, "correlation": pairing.correlation, "shares": pairing.shares},
        "assumption": found.limits.assumption,
        "intervals": "large-sample" if found.bounded is None else "any distribution in return_range",
        "policies": [{"policy": name, **found.beside_reference(name)} for name in found.policies],
    }
