"""`compare`: simulate all actions from one state under shared randomness until the best one is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from jmdp.base.labels import PolicyLike, SimulatorLike
from jmdp.base.luck import Shock
from jmdp.base.machine import interruptible
from jmdp.base.settings import asks_for_seed
from jmdp.comparisons.comparison import ActionComparison
from jmdp.comparisons.explaining import TableGap
from jmdp.comparisons.question import ComparisonSettings, SimulatorQuestion
from jmdp.comparisons.sampling import answer
from jmdp.distribute.pools import Pool
from jmdp.errors import SettingsError
from jmdp.methods.monte_carlo.monte_carlo import MonteCarlo, rollout_horizon
from jmdp.methods.monte_carlo.samples import compiled
from jmdp.models.actors.actor import Actor
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.coupling import Coupling, Synchronous
from jmdp.models.policy import is_one_policy
from jmdp.models.tabular import TabularJMDP, problem_discount
from jmdp.simulators import as_simulator
from jmdp.simulators.adapters.functions import TabularSimulator, table_of, table_state
from jmdp.simulators.checking.sampling import check_before_sampling, policy_draws
from jmdp.simulators.digests import digest_of
from jmdp.simulators.rollouts.draws import Draws
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.simulator import candidate_actions
from jmdp.statistics.assumptions import Assumptions
from jmdp.statistics.selection import known_reward_bound


@interruptible
@asks_for_seed
def compare(
    simulator: SimulatorLike,
    policy: PolicyLike = None,
    *,
    state: Any = None,
    actions: Sequence[Any] | Mapping[str, Any] | None = None,
    seed: int,
    discount: float | None = None,
    coupling: Coupling = Synchronous(),
    confidence: float = 0.95,
    precision: float | None = None,
    indifference: float | None = None,
    samples: int | None = None,
    max_samples: int | None = None,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    looks: Literal["scheduled", "planned"] = "scheduled",
    horizon: int | None = None,
    assume: Assumptions | None = None,
    pool: int | Pool | None = None,
    progress: bool = True,
) -> ActionComparison:
    """Compare actions in one state under shared randomness (luck), and stop when the comparison is decided.

    Each sample simulates one rollout per action: the action first, then `policy`. The rollouts of a sample share random
    numbers as `coupling` specifies. At scheduled sample sizes (32, then about 25% more each time) the confidence
    intervals of the mean gaps are updated. Actions that are known to be worse are eliminated: they are simulated no
    further. The intervals hold at all these looks. With ``samples=n`` there is one look, at n samples, and the interval
    is an ordinary one. If no step and no policy draws random numbers, one rollout of each action is exact, and no more
    are simulated.

    Parameters
    ----------
    simulator
        A Gymnasium or gymnax environment, a table (`TabularJMDP`), or any `Simulator`.
    policy
        Policy followed after the first action: a table, a function of the observation, a stable-baselines3 model, a
        torch module or a JAX function; see `as_policy`.
    state
        State in which the actions are compared. None: the current state of the simulator, else its start state.
    actions
        Candidate actions, by index or name; None compares all of them. For continuous actions: a list of the actions
        to compare, or a dictionary from names to actions.
    seed
        Random seed of all draws. Sample i depends only on the seed and i.
    discount
        Discount factor γ; a table has its own. With 1 and a `horizon` the return is the sum of rewards over its steps.
    coupling
        Which randomness the rollouts share. `Synchronous`: common random numbers, one shock for all branches in each
        step. `Local`, the paper's coupling: branches share a shock only while they are in the same state; if states
        never recur, only in the first step. `Independent`: nothing is shared (baseline).
        The draws of a random policy are shared, as in the paper, by branches that took the same action in the same
        state; `compare_policies` shares them in every step by default, because other draws of a policy are no part of
        the question which policy is better.
    confidence
        Probability that the best action is kept and no other is declared the best; confidence level of all gaps of one
        action jointly.
    precision
        If given, stop when every mean gap is known to ± this value, instead of when the best action is known. No
        action is eliminated then.
    indifference
        If given, stop as soon as one action is known to be within this value of the best: differences up to this size
        do not matter. Actions with equal means are then recognised as such.
    samples
        Exactly so many rollouts of each action, and one look. Nothing is eliminated. It excludes `precision`,
        `indifference` and the budgets below.
    max_samples, max_steps, max_seconds
        Budget of sequential sampling: largest number of rollouts of each action (10,000 by default), of simulated steps
        and of seconds. Steps and time are checked at the scheduled sample sizes, so that the result depends on the seed
        and the number of samples only. Sampling stops before `max_seconds` if the next one cannot be reached in time.
    looks
        ``"planned"``: five equally spaced looks within `max_samples`, which must be given (O'Brien and Fleming). A
        decision takes fewer samples on average if `max_samples` is near the number that a fixed sample would need.
    horizon
        Length of a rollout in steps. Default: the smallest with γ^horizon ≤ 1/1000; for a table, with
        γ^horizon/(1 − γ) ≤ 1e-5. Intervals are widened by the largest effect of later rewards, from `reward_bound`;
        this is 0 for pairs of rollouts that have merged or ended.
    assume
        What is known of returns beyond the samples: `Assumptions`, such as their range or the largest possible loss.
    pool
        Worker processes: their number, or a `jmdp.distribute.ProcessPool`, which can be used for several
        comparisons. The result does not depend on it. None simulates in this process.
    progress
        Show progress if the computation takes long: a bar on a terminal, otherwise a line every minute.

    Returns
    -------
    ActionComparison
        The best action, if known with the requested confidence, with estimates and intervals of mean returns, gaps,
        probabilities of superiority and regret. `outcome` states why sampling stopped, and `survivors` are the actions
        that may be best.
    """
    settings = ComparisonSettings.of(locals())
    _refuse_policies(simulator, policy)
    question = action_question(simulator, policy, state, actions, discount, settings)
    question.check_luck()
    found = answer(question)
    assert isinstance(found, ActionComparison)
    return found


def _refuse_policies(source: Any, policy: Any) -> None:
    """Raise if the caller passed whole policies to compare."""
    model = getattr(source, "model", source)
    table = isinstance(model, TabularJMDP)
    if isinstance(policy, Mapping) and not (table and is_one_policy(policy, model)):
        raise SettingsError(
            "policy is a dictionary, but jmdp.compare compares actions in one state. Give the policy that follows as "
            'policy=…. To compare whole policies, use jmdp.compare_policies(simulator, {"old": …, "new": …}, seed=…).'
        )


def action_question(
    source: Any,
    policy: PolicyLike,
    state: Any,
    actions: Sequence[Any] | Mapping[str, Any] | None,
    discount: float | None,
    settings: ComparisonSettings,
) -> ActionQuestion:
    """Check that simulator, policy, actions and settings are compatible, and combine them."""
    simulator = compiled(as_simulator(source))
    simulator.check_coupling(settings.coupling)
    gamma = problem_discount(simulator.discount, discount, horizon=settings.horizon)
    horizon = rollout_horizon(simulator, gamma, settings.horizon, MonteCarlo.samples)
    place = simulator.start(Shock.of_sample(settings.seed, 0)) if state is None else table_state(simulator, state)
    reward_bound = known_reward_bound(simulator, [place], settings.assume.single().reward_bound)
    candidates, labels = candidate_actions(simulator.actions, actions)
    actor = as_policy(policy, simulator.actions, table=table_of(simulator))
    plan = BranchPlan.of_actions(
        actor,
        state=place,
        actions=candidates,
        coupling=settings.coupling,
        discount=gamma,
        horizon=horizon,
        seed=settings.seed,
    )
    return ActionQuestion(
        simulator=simulator,
        labels=labels,
        settings=settings,
        discount=gamma,
        horizon=horizon,
        reward_bound=reward_bound,
        plan=plan,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ActionQuestion(SimulatorQuestion):
    """Comparison of actions in one state, followed by one policy."""

    verb = "compare"

    @property
    def actor(self) -> Actor:
        """The policy after the first action."""
        return self.plan.actors[0]

    @property
    def actions(self) -> Sequence[Any]:
        """The actions that are compared."""
        assert self.plan.actions is not None
        return self.plan.actions

    def at(self, state: Any, seed: int) -> ActionQuestion:
        """The same question in another state, with another seed."""
        return replace(
            self,
            settings=replace(self.settings, seed=seed),
            reward_bound=known_reward_bound(self.simulator, [state], self.settings.assume.reward_bound),
            plan=self.plan.at(state, seed),
        )

    def check_luck(self) -> None:
        """Raise if a few steps show that randomness is not shared."""
        _ = self.uses_luck

    @cached_property
    def uses_luck(self) -> bool:
        """Whether steps use their randomness."""
        return check_before_sampling(self.simulator, self.plan.state, self.actions, self.settings.coupling)

    @cached_property
    def may_hide_luck(self) -> bool:
        """Whether hidden randomness could explain identical rollouts: not in a table, nor if the policy is random."""
        table = isinstance(self.simulator, TabularSimulator)
        return not table and not policy_draws(self.simulator, self.plan.state, self.actions[0], self.actor)

    def table_gap(self, pair: tuple[int, int]) -> TableGap | None:
        """The gap between two actions, if the simulator is a table with sources."""
        model = table_of(self.simulator)
        if model is None:
            return None
        policy = self.plan.actors[0].table(model.shape[0], model.shape[2])
        actions = [model.actions.position(self.actions[i]) for i in pair]
        return TableGap.of(self, model, model.states.position(self.plan.state), [policy, policy], actions)

    def same(self) -> tuple[int, ...] | None:
        """Equal numbers for equal actions, and for actions with the same rows in a table."""
        if isinstance(self.simulator, TabularSimulator):
            model = self.simulator.model
            s, at = model.states.position(self.plan.state), [model.actions.position(a) for a in self.actions]
            possible = model.prob[s] > 0
            keys = [model.reward[s, possible, a].tobytes() + model.next_state[s, possible, a].tobytes() for a in at]
        else:
            keys = list(map(digest_of, self.actions))
        return tuple(map(keys.index, keys))

    def one_future(self, draws: Draws, decided: bool) -> bool:
        """True if all samples are identical and it is unknown whether others are possible."""
        return draws.one_future and (decided or not self.uses_luck) and self.may_hide_luck

    def result(self, common: dict[str, Any]) -> ActionComparison:
        """Build the result."""
        actions = self.simulator.actions
        numbers = None if actions is None else tuple(self.actions)
        if actions is not None and actions.integers:
            numbers = tuple(map(actions.label, self.actions))
        return ActionComparison(**common, policy=repr(self.actor), numbers=numbers)
