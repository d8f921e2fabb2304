"""`jmdp compare`: every action of a simulator from one state, under the same luck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import tyro

import jmdp
from jmdp.cli.choices import CouplingName, coupling_of
from jmdp.cli.command import Command, Exit, aside, print_json
from jmdp.cli.environments import ACTIONS_HELP, Environment, EnvName, environment
from jmdp.cli.options import Actions, Optionally, PolicyDraws, TruncatedEnds
from jmdp.comparing import compare
from jmdp.errors import SettingsError
from jmdp.results.comparison import Comparison
from jmdp.results.outcome import Outcome
from jmdp.simulators.simulator import Simulator

_POLICY = (
    "What is followed after the first action: uniform; an action by name or number, which is then always taken; one "
    "for each state with commas between, 0,3,3,1; a policy of the world, by name; your own, package.module:name or "
    "file.py:name; or a saved model of stable-baselines3, PPO:model.zip."
)


@dataclass(frozen=True, kw_only=True)
class Compare(Command):
    """Which action is better here, by how much, and how sure is that?

    Every action is rolled out from one state, again and again, and all of them meet the same luck. It stops as soon as
    one action is known to be better on average than every other (or, with --precision, every gap to so much), and then
    returns 0; 1 where the budget was spent before. Intervals hold whenever it stops. ENV comes first, options after it.
    """

    examples: ClassVar = {
        "jmdp compare FrozenLake-v1 --discount 0.95 --state 4 --policy 0,3,3,3,0,0,0,0,3,1,0,0,0,2,1,0": "which way, "
        "beside a hole?",
        "jmdp compare world:inventory --state 3 --actions 'order 3' 'order 0' --policy base_stock": "two actions of a "
        "built-in table",
        "jmdp compare CartPole-v1 --discount 0.9 --after left left --precision 0.5 --json": "two steps into an "
        "episode, every gap to ± 0.5",
        "jmdp compare shop.py:simulator --discount 0.9 --policy shop.py:policy": "what shop.py calls `simulator`, "
        "under what it calls `policy`",
    }

    env: EnvName
    state: Annotated[Optionally[str], tyro.conf.arg(metavar="STATE")] = None
    """Where to compare, by name or number: tables, and Gymnasium environments whose state is a number."""
    after: Actions = ()
    """Take these actions first. Works with any simulator."""
    reset_seed: Annotated[Optionally[int], tyro.conf.arg(metavar="SEED")] = None
    """Of the episode's beginning, and of what happens in --after. By default that of the rollouts, --seed."""
    actions: Annotated[Actions, tyro.conf.arg(help=f"Which to compare, {ACTIONS_HELP}")] = ()
    truncated_ends: TruncatedEnds = False
    policy: Annotated[str, tyro.conf.arg(metavar="POLICY", help=_POLICY)] = "uniform"
    discount: Optionally[float] = None
    """What a reward is worth a step later. Tables have their own; with 1, give --horizon."""
    coupling: CouplingName = "synchronous"
    """How luck is shared: by all branches in a step, by those in the same state (local), or not at all."""
    policy_luck: PolicyDraws = "independent"
    seed: int = 0
    """Of all luck in the rollouts."""
    confidence: float = 0.95
    """Of the decision, and of all gaps of one action together."""
    precision: Optionally[float] = None
    """Go on until every mean gap is known to ± this, instead of until one action is known to be best."""
    samples: int = 10_000
    """Rollouts of each action, at most."""
    max_steps: Optionally[int] = None
    """Steps simulated, at most."""
    horizon: Optionally[int] = None
    """Steps of a rollout. By default until a reward counts for less than a thousandth; on a table, longer."""
    reward_bound: Optionally[float] = None
    """The largest reward there can be after the horizon. Tables know theirs; else the largest met is taken."""
    return_range: Annotated[Optionally[tuple[float, float]], tyro.conf.arg(metavar="LEAST MOST")] = None
    """Where all returns are, if that is known: intervals then hold for any distribution."""
    tie_tolerance: float = 0.0
    """Gaps of at most this size count as ties in chances."""

    def run(self) -> Exit:
        """Compare and print it."""
        with aside(self.quiet):
            chosen = environment(self.env, truncated_ends=self.truncated_ends)
            chosen.put(self.state, self.reset_seed, self.seed)
            found = self._compared(chosen, chosen.simulator())
            answer: Any = _record(found) if self.json else found
        if self.json:
            print_json({"env": self.env, "state": self.state, "after": self.after, **answer})
        else:
            print(answer)
        if found.outcome is Outcome.INTERRUPTED:
            return Exit.INTERRUPTED
        return Exit.NO if found.outcome in (Outcome.BUDGET_EXHAUSTED, Outcome.ONE_FUTURE) else Exit.YES

    def _compared(self, chosen: Environment, simulator: Simulator) -> Comparison:
        if self.discount is None and simulator.discount is None:
            raise SettingsError(f"{simulator!r} has no discount of its own. Give one: --discount 0.99.")
        reset_seed = self.seed if self.reset_seed is None else self.reset_seed
        actions: Any = chosen.actions(simulator, self.actions) or None
        if actions is not None and simulator.actions is None:
            actions = dict(zip(self.actions, actions, strict=True))  # called as the user does
        return compare(
            simulator,
            chosen.place(simulator, self.state, self.after, reset_seed),
            chosen.policy(simulator, self.policy),
            actions,
            seed=self.seed,
            discount=self.discount,
            coupling=coupling_of(self.coupling, self.policy_luck),
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


def _record(found: Comparison) -> dict[str, Any]:
    """All that the table says, and what its numbers rest on."""

    def regret(action: str) -> dict[str, Any]:
        distribution = found.regret(action)
        return {
            "mean": distribution.mean,
            "quantile_95": distribution.quantile(0.95),
            "worst_5": distribution.cvar(0.05),
        }

    return {
        "simulator": found.simulator,
        "policy": found.policy,
        "coupling": found.evaluation.coupling,
        "discount": found.discount,
        "horizon": found.horizon,
        "seed": found.seed,
        "confidence": found.confidence,
        "samples": found.samples,
        "reward_bound": found.limits.bound,
        "assumption": found.limits.assumption,
        "outcome": found.outcome,
        "decided": found.outcome in (Outcome.BEST_FOUND, Outcome.PRECISE),
        "best": found.best,
        "leader": found.leader,
        "steps": found.draws.steps,
        "steps_spared": found.draws.shared_steps,
        "unseen": found.unseen,
        "break_even": found.break_even,
        "intervals": "large-sample" if found.bounded is None else "any distribution in return_range",
        "return_range": None if found.bounded is None else [found.bounded.least, found.bounded.most],
        "tie_tolerance": found.tie_tolerance,
        "actions": [
            {"action": action, **found.beside_leader(action), "regret": regret(action)} for action in found.actions
        ],
        "jmdp": jmdp.__version__,
    }
