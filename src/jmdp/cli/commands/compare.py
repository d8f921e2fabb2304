"""`jmdp compare`: all actions of a simulator from one state, under shared randomness."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import tyro

import jmdp
from jmdp.cli.command import Actions, Optionally, PolicyDraws, TruncatedEnds
from jmdp.cli.environments import ACTIONS_HELP, EnvName, environment
from jmdp.cli.loading import CouplingName, Found, coupling_of
from jmdp.cli.options import Sampling, sampling_record
from jmdp.cli.policy_files import FILES_HELP
from jmdp.comparisons.compare import compare
from jmdp.comparisons.comparison import ActionComparison
from jmdp.comparisons.comparison_table import Regret
from jmdp.errors import SettingsError

_POLICY = (
    "Policy to follow after the first action: uniform; an action by name or number, taken in every step; "
    f"comma-separated actions, one per state, 0,3,3,1; a policy of the world, by name; {FILES_HELP}."
)


@dataclass(frozen=True, kw_only=True)
class Compare(Sampling):
    """Compare the actions of a simulator in one state: which is best, by how much, with what confidence.

    Every action is rolled out repeatedly from the same state, with common random numbers. Sampling stops as soon as one
    action is known to be better on average than every other (with --indifference: known to be within that value of the
    best; with --precision: as soon as every mean gap is known that precisely), and the exit code is 0; it is 1 if the
    budget ran out first. Intervals are valid whenever sampling
    stops. ENV comes first, options after it.
    """

    examples: ClassVar = {
        "jmdp compare FrozenLake-v1 --discount 0.95 --state 4 --policy 0,3,3,3,0,0,0,0,3,1,0,0,0,2,1,0": "four "
        "directions next to a hole",
        "jmdp compare world:inventory --state 3 --actions 'order 3' 'order 0' --policy base_stock": "two actions of a "
        "built-in table",
        "jmdp compare CartPole-v1 --discount 0.9 --after left left --precision 0.5 --json": "two steps into an "
        "episode, every mean gap to ± 0.5, as JSON",
        "jmdp compare shop.py:simulator --discount 0.9 --policy shop.py:policy": "`simulator` and "
        "`policy` as defined in shop.py",
    }

    env: EnvName
    state: Annotated[Optionally[str], tyro.conf.arg(metavar="STATE")] = None
    """State to compare in, by name or number. For tables, and Gymnasium environments whose state is a number."""
    after: Actions = ()
    """Actions to take before the comparison. Works with any simulator."""
    reset_seed: Annotated[Optionally[int], tyro.conf.arg(metavar="SEED")] = None
    """Random seed of the episode's start and of the steps of --after. By default the value of --seed."""
    actions: Annotated[Actions, tyro.conf.arg(help=f"Actions to compare, {ACTIONS_HELP}")] = ()
    truncated_ends: TruncatedEnds = False
    policy: Annotated[str, tyro.conf.arg(metavar="POLICY", help=_POLICY)] = "uniform"
    discount: Optionally[float] = None
    """Discount factor per step. Tables have their own; with 1, give --horizon."""
    coupling: CouplingName = "synchronous"
    """Randomness shared by all branches in a step (synchronous), by those in the same state (local), or by none."""
    policy_luck: PolicyDraws = "independent"

    def policy_texts(self) -> Sequence[str]:
        """Return the policy."""
        return [self.policy]

    def found(self, stack: ExitStack) -> Found:
        """Compare."""
        chosen = environment(self.env, self.loader(), truncated_ends=self.truncated_ends)
        chosen.put(self.state, self.reset_seed, self.seed)
        simulator = chosen.simulator()
        if self.discount is None and simulator.discount is None:
            raise SettingsError(f"{simulator!r} has no discount. Give one, e.g. --discount 0.99.")
        reset_seed = self.seed if self.reset_seed is None else self.reset_seed
        actions = chosen.candidates(simulator, self.actions)
        policy = chosen.policy(simulator, self.policy)
        self.refuse_unused_net()
        found = compare(
            simulator,
            policy,
            state=chosen.place(simulator, self.state, self.after, reset_seed),
            actions=actions,
            discount=self.discount,
            coupling=coupling_of(self.coupling, self.policy_luck),
            **self.sampling(),
        )
        return self.compared(found, lambda: self._record(found))

    def _record(self, found: ActionComparison) -> dict[str, Any]:
        """The contents of the table and the settings behind them."""
        return {
            "env": self.env,
            "state": self.state,
            "after": self.after,
            **sampling_record(found),
            "policy": found.policy,
            "steps_spared": found.summary.samples.shared_steps,
            "unseen": found.unseen,
            "break_even": found.break_even,
            "tie_tolerance": float(found.summary.assume.tie_tolerance),
            "actions": [
                {"action": action, **found.beside(action), "regret": _regret(found.regret(action))}
                for action in found.alternatives
            ],
            "jmdp": jmdp.__version__,
        }


def _regret(found: Regret) -> dict[str, Any]:
    return {"mean": found.mean, "quantile_95": found.quantile(0.95), "worst_5": found.cvar(0.05)}
