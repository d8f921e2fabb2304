"""The verb at a decision point: every action from one state, the same luck, until one is known to be better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import isfunction
from typing import Any

from jmdp.base.luck import Shock
from jmdp.errors import SettingsError
from jmdp.methods.monte_carlo.monte_carlo import MonteCarlo, rollout_horizon
from jmdp.methods.monte_carlo.table_rollouts import compiled
from jmdp.models.actors.actor import Actor
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.coupling import Coupling, Synchronous
from jmdp.models.discount import problem_discount
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.comparison import Comparison
from jmdp.results.samples.limits import known_reward_bound
from jmdp.sequential import Question, Settings
from jmdp.simulators import as_simulator
from jmdp.simulators.candidates import candidate_actions
from jmdp.simulators.checking.sampling import check_before_sampling, check_repeatable, policy_draws
from jmdp.simulators.functions import TabularSimulator
from jmdp.simulators.rollouts import RolloutPlan, paired_draws
from jmdp.simulators.simulator import Draws


def compare(
    simulator: Any,
    state: Any = None,
    policy: Any = None,
    actions: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    seed: int,
    discount: float | None = None,
    coupling: Coupling = Synchronous(),
    confidence: float = 0.95,
    precision: float | None = None,
    samples: int = 10_000,
    max_steps: int | None = None,
    horizon: int | None = None,
    reward_bound: float | None = None,
    return_range: tuple[float, float] | None = None,
    tie_tolerance: float = 0.0,
    progress: bool = True,
    policies: None = None,
) -> Comparison:
    """Compare actions from one state under shared luck, and stop when the question is decided.

    Each sample rolls out every action, then the policy, all branches meeting the luck that `coupling` has them share.
    After every batch the mean gaps have intervals that hold whenever one stops.

    Parameters
    ----------
    simulator
        A Gymnasium environment, a gymnax one, a table, or any `Simulator`.
    state
        Where to compare. None is where the simulator stands, or starts.
    policy
        What is followed after the first action: a table, a function of the observation, a model of stable-baselines3, a
        torch module, a JAX function; see `as_policy`.
    actions
        The candidates, by index or name; None takes all. Where actions are not numbered, the actions themselves, or a
        dictionary from names to actions.
    seed
        Of all luck. Sample i depends on the seed and i alone.
    discount
        γ; a table has its own. With 1 the return is the sum over `horizon` steps.
    coupling
        `Synchronous`: common random numbers, one shock for all branches in each step. `Local`, the paper's: branches
        share a shock only while they are in the same state; where states never recur that is the first step alone.
        `Independent`: nothing is shared, the baseline.
    confidence
        Of the decision, and of all gaps of one action together.
    precision
        If given, stop when every mean gap is known to ± this, instead of when one action is known to be best.
    samples, max_steps
        The budget: rollouts of each action, and simulated steps, if limited. Steps are counted after each batch, the
        first of which is 64 rollouts of each action.
    horizon
        Steps of a rollout. None is where γ^horizon ≤ 1/1000; on a table, where γ^horizon/(1 − γ) ≤ 1e-5. What is cut
        off is in the intervals, by `reward_bound`; pairs that have met or ended lose nothing.
    reward_bound
        The largest |reward| there can be after the horizon. A table knows its own, and a smaller one is refused. Other
        simulators do not: without it, later rewards are taken to be no larger than those met, and the result says so.
    return_range
        Where all returns are, if it is known. Intervals of means, of standard deviations of gaps and of regret then
        hold for any distribution and any number of samples. Without it those of means are large-sample ones, and
        standard deviations, mean regret and the mean of the worst outcomes have none. Chances and quantiles never need
        it.
    tie_tolerance
        Gaps of at most this size count as ties in chances.
    progress
        Show a bar on a terminal when the work is long.
    policies
        Not taken here: whole policies are compared by `jmdp.compare_policies`.
    """
    settings = Settings.of(locals())
    _refuse_policies(simulator, state, policy if isinstance(policy, Mapping) else policies)
    question = _question(simulator, state, policy, actions, discount, settings, progress)
    return question.answer([], settings.samples)


def _refuse_policies(source: Any, state: Any, policies: Any) -> None:
    """Raise where whole policies are given to be compared."""
    table = isinstance(getattr(source, "model", source), TabularJMDP)  # whose states are no dictionaries
    several = isinstance(state, Mapping) and state and (table or all(map(_like_policy, state.values())))
    if policies is not None or several or isfunction(state) or isinstance(state, TabularPolicy):
        what = "policies are given" if policies is not None else "state is a policy, or several"
        raise SettingsError(
            f"{what}, and jmdp.compare compares actions in one state. To compare whole policies: "
            'jmdp.compare_policies(simulator, {"old": …, "new": …}, seed=…).'
        )


def _like_policy(value: Any) -> bool:
    return callable(value) or isinstance(value, TabularPolicy) or hasattr(value, "predict")


def _question(
    source: Any,
    state: Any,
    policy: Any,
    actions: Sequence[Any] | Mapping[str, Any] | None,
    discount: float | None,
    settings: Settings,
    progress: bool,
) -> _Question:
    """What is asked, once simulator, policy, actions and settings are known to fit one another."""
    simulator = compiled(as_simulator(source))
    simulator.check_coupling(settings.coupling)
    gamma = problem_discount(simulator.discount, discount)
    horizon = rollout_horizon(simulator, gamma, settings.horizon, MonteCarlo.samples)
    place = simulator.start(Shock.of_sample(settings.seed, 0)) if state is None else state
    reward_bound = known_reward_bound(simulator, [place], settings.reward_bound)
    candidates, labels = candidate_actions(simulator.actions, actions)
    actor = as_policy(policy, simulator.actions)
    plan = RolloutPlan(
        state=place,
        actions=candidates,
        coupling=settings.coupling,
        discount=gamma,
        horizon=horizon,
        seed=settings.seed,
    )
    uses_luck = check_before_sampling(simulator, place, candidates, settings.coupling)
    return _Question(
        simulator=simulator,
        labels=labels,
        settings=settings,
        discount=gamma,
        horizon=horizon,
        reward_bound=reward_bound,
        progress=progress,
        actor=actor,
        plan=plan,
        uses_luck=uses_luck,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Question(Question):
    """Which action is better in one state, under one policy afterwards?"""

    verb = "compare"

    actor: Actor
    plan: RolloutPlan
    uses_luck: bool  # whether steps use their randomness

    @cached_property
    def may_hide_luck(self) -> bool:
        """If all rollouts are the same, was randomness drawn before? Not in a table, nor if the policy draws."""
        table = isinstance(self.simulator, TabularSimulator)
        return not table and not policy_draws(self.simulator, self.plan.state, self.plan.actions[0], self.actor)

    def _draw(self, first: int, count: int, drawn: list[Draws]) -> Draws:
        new = paired_draws(self.simulator, self.actor, self.plan, first, count)
        if first == 0:
            check_repeatable(new, self.simulator, self.actor, self.plan)
        return new

    def _one_future(self, draws: Draws, decided: bool) -> bool:
        return draws.one_future and (decided or not self.uses_luck) and self.may_hide_luck

    def _result(self, common: dict[str, Any], draws: Draws) -> Comparison:
        numbers = None if self.simulator.actions is None else tuple(self.plan.actions)
        return Comparison(**common, policy=repr(self.actor), numbers=numbers)
