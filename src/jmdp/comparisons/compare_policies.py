"""`compare_policies`: simulate policies from the same starts under shared randomness until the best one is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.labels import PolicyLike, SimulatorLike, StartsLike
from jmdp.base.luck import Shock, Usage
from jmdp.base.machine import interruptible
from jmdp.base.recorded_luck import RecordedLuck
from jmdp.base.settings import asks_for_seed, short
from jmdp.comparisons.comparison import Comparison
from jmdp.comparisons.explaining import TableGap
from jmdp.comparisons.policy_comparison import PolicyComparison
from jmdp.comparisons.question import ComparisonSettings, PlanBlocks, SimulatorQuestion, alternative_names, same_objects
from jmdp.comparisons.sampling import answer
from jmdp.distribute.pools import Pool
from jmdp.errors import PolicyError, SettingsError
from jmdp.methods.monte_carlo.monte_carlo import MonteCarlo, rollout_horizon
from jmdp.methods.monte_carlo.samples import compiled
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.coupling import Coupling, Synchronous
from jmdp.models.tabular import problem_discount
from jmdp.simulators import episode_simulator
from jmdp.simulators.adapters.exogenous import read_by
from jmdp.simulators.adapters.functions import TabularSimulator, table_of
from jmdp.simulators.rollouts.draws import Draws, EpisodeDraws, LuckProbe
from jmdp.simulators.rollouts.episodes_in_place import episode_rewards
from jmdp.simulators.rollouts.plan import BranchPlan, LuckSource
from jmdp.simulators.simulator import Simulator
from jmdp.simulators.starts import Starts
from jmdp.statistics.assumptions import Assumptions
from jmdp.statistics.drawn_evaluation import SamplingState
from jmdp.statistics.history import used
from jmdp.statistics.selection import Margin, known_reward_bound

_MANY_STARTS = 16
"""With more starts, the reward bound of a table covers all its states, not only the reachable ones."""

_RUN_AGAIN = 32
"""Samples simulated again to attribute variance to starts, steps and policies."""

_PROBED_FROM = 64
"""Samples after which this is done: shorter comparisons do without."""

_A_BLOCK = 8
"""Samples of one block of those."""


@interruptible
@asks_for_seed
def compare_policies(
    simulator: SimulatorLike,
    policies: Mapping[str, PolicyLike],
    *,
    starts: StartsLike = None,
    seed: int,
    luck: RecordedLuck | None = None,
    discount: float | None = None,
    coupling: Coupling = Synchronous(policy_luck="shared"),
    baseline: str | None = None,
    confidence: float = 0.95,
    precision: float | None = None,
    indifference: float | None = None,
    margin: Margin | float | str | None = None,
    samples: int | None = None,
    max_samples: int | None = None,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    looks: Literal["scheduled", "planned"] = "scheduled",
    stratify: bool = False,
    horizon: int | None = None,
    assume: Assumptions | None = None,
    pool: int | Pool | None = None,
    progress: bool = True,
) -> PolicyComparison:
    """Compare whole policies under shared randomness (luck), and stop when the comparison is decided.

    Each sample draws one start state and simulates one episode of every policy from there. The episodes share random
    numbers as `coupling` specifies. At scheduled sample sizes the confidence intervals of the mean gaps are updated,
    and policies that are known to be worse are eliminated, as in `compare`. No state is copied or restored, so
    environments that `compare` cannot branch work too.

    Parameters
    ----------
    simulator
        A Gymnasium or gymnax environment, a table (`TabularJMDP`), a world, or any `Simulator`. Environments are reset
        for each episode, with a seed derived from `seed` and the number of the sample.
    policies
        Dictionary from names to two or more policies of any kind that `as_policy` accepts. A policy with memory is an
        object that has ``reset()`` and is called with the observation; each episode uses its own copy, after a reset.
        If it has ``seen(action, reward, scenario)``, that is called after each step.
    starts
        Start states of the episodes. None: the simulator's own start, or the `start` of a world. Otherwise a list of
        equally likely states, a dictionary from states to probabilities or, for a table, an array [S] of probabilities.
    stratify
        Draw the starts that are given in shares that are their probabilities: of m equally likely ones, each once in m
        samples. Intervals of means then come from the variance within starts, and are narrower if starts differ. By
        default each sample draws its start at random.
    seed
        Random seed of all draws. Sample i depends only on the seed and i.
    luck
        A history in place of random numbers: `RecordedLuck`. Its periods are the steps of an episode, and the simulator
        reads it: `exogenous` of `ObjectSimulator` and `FunctionSimulator`. If nothing else is random, each policy is
        run once, and the result is what would have happened, exactly. With ``history.resampled()`` each sample is
        another history made of its blocks (200 by default; `samples`), run from the real start, and the result is what
        to expect of a period of this length. The discount is then 1.
    discount
        Discount factor γ; a table has its own. With 1 the return is the sum of an episode's rewards; a table then needs
        a `horizon`.
    coupling
        Which randomness the episodes share, as in `compare`. By default all policies receive the same shock in each
        step, and random policies draw their actions with the same uniform number. `Independent` also draws starts
        independently.
    baseline
        Name of the policy to compare the others with: sampling stops when each is known to be better or worse than the
        baseline, or within `indifference` of it; a policy is simulated until then. None: sampling stops when one policy
        is known to be better than all others.
    confidence
        As in `compare`.
    precision
        If given, stop when every mean gap (to the baseline, if one is given) is known to ± this value instead.
    margin
        Largest loss to accept, with a baseline: a number in units of the return, or a text such as ``"2%"`` for a share
        of the baseline's mean. Sampling stops when each policy is known to be worse than the baseline by more than
        this, or not to be; see `Comparison.not_worse`.
    indifference, samples, max_samples, max_steps, max_seconds, looks
        As in `compare`; samples are episodes of each policy.
    horizon
        Largest number of steps of an episode. Default with discount 1: the environment's time limit; otherwise as in
        `compare`. With a discount below 1 the return is that over infinitely many steps, and the intervals account for
        rewards after the horizon. For finite-horizon returns of a table, see `evaluate`.
        With discount 1, a truncation signalled by a Gymnasium environment ends the episode. With a smaller one it does
        not, unless the simulator was made with ``truncated_ends=True``.
    assume, pool, progress
        As in `compare`.

    Returns
    -------
    PolicyComparison
        A `Comparison` of policies, with `answer` (the decision in one sentence), `pairing` (variance reduction by
        shared randomness, and the sources of variance) and `by_start`. If shared randomness increases the variance,
        later samples are drawn independently. This depends on earlier samples only, so means stay unbiased and their
        intervals valid.
    """
    settings = ComparisonSettings.of(locals()).for_history(luck)
    found = answer(policy_question(simulator, policies, starts, discount, baseline, settings, luck))
    assert isinstance(found, PolicyComparison)
    return found


def policy_question(
    source: Any,
    policies: Mapping[str, PolicyLike],
    starts: StartsLike,
    discount: float | None,
    baseline: str | None,
    settings: ComparisonSettings,
    history: RecordedLuck | None = None,
) -> PolicyQuestion:
    """Check that simulator, policies, starts and settings are compatible, and combine them."""
    labels, baseline = alternative_names("policy", policies, baseline)
    if settings.margin is not None and baseline is None:
        raise SettingsError("margin is given without a baseline. Name the policy that it refers to: baseline=…")
    coupling = settings.coupling
    branches_meet = coupling.shared_in_a_state and not coupling.shared_between_states
    simulator = compiled(episode_simulator(source, digests=branches_meet))
    simulator.check_coupling(coupling)
    if history is not None:
        history = history_of_steps(history, simulator, settings.horizon)
        settings, discount = replace(settings, horizon=len(history)), 1.0 if discount is None else discount
        if not coupling.shared_in_a_state or discount != 1:
            raise SettingsError(
                f"luck is a history, with discount {discount!r} and {coupling!r}. What all policies met in it is "
                "shared, and what they earned in its periods counts alike: omit discount and coupling."
            )
    gamma = problem_discount(simulator.discount, discount, horizon=settings.horizon)
    horizon = simulator.episode_limit if settings.horizon is None and gamma == 1 else settings.horizon
    if gamma == 1 and horizon is None:
        raise SettingsError(
            f"{simulator!r} has no time limit, and discount is 1. Give horizon=… (--horizon), the largest number of "
            "steps of an episode. Episodes that end earlier are not affected."
        )
    begin = Starts.of(starts, simulator, source)
    if history is not None and not begin.given:
        begin = fixed_start(simulator, settings.seed) or begin
    if settings.stratify and not begin.given:
        raise SettingsError(
            "stratify is True, but the simulator draws its own starts. Give them: starts=[…], or {state: probability}."
        )
    plan = BranchPlan(
        starts=begin,
        actors=[_actor(labels.name(i), policy, simulator) for i, policy in enumerate(policies.values())],
        coupling=coupling,
        discount=gamma,
        horizon=rollout_horizon(simulator, gamma, horizon, MonteCarlo.samples),
        seed=settings.seed,
        stratify=settings.stratify,
    )
    question = PolicyQuestion(
        simulator=simulator,
        labels=labels,
        settings=settings,
        discount=gamma,
        horizon=plan.horizon,
        reward_bound=_reward_bound(simulator, begin, settings.assume.single().reward_bound),
        plan=plan,
        policies=list(policies.values()),
        baseline=baseline,
    )
    return question if history is None else question.in_history(history)


def history_of_steps(history: RecordedLuck, simulator: Simulator, horizon: int | None) -> RecordedLuck:
    """The periods of a history that are simulated; raise if the simulator does not read it."""
    read_by(simulator, history)
    if horizon is None or horizon == len(history):
        return history
    if horizon > len(history):
        raise SettingsError(f"horizon is {horizon}, but the history has {len(history)} periods. Omit horizon.")
    return history.first(horizon)


def fixed_start(simulator: Simulator, seed: int) -> Starts | None:
    """The simulator's own start, if it is not random."""
    usage = Usage()
    state = simulator.start(Shock.of_sample(seed, 0, usage).derived(b"start"))
    return None if usage.used else Starts([state], np.ones(1), ["start"])


def _reward_bound(simulator: Simulator, starts: Starts, given: float | None) -> float | None:
    """Largest possible |reward|, or None if unknown."""
    if not starts.given:
        return given
    if isinstance(simulator, TabularSimulator) and len(starts.states) > _MANY_STARTS:
        return simulator.model.reward_bound
    return known_reward_bound(simulator, starts.states, given)


def _actor(name: str, policy: Any, simulator: Simulator) -> Any:
    try:
        return as_policy(policy, simulator.actions, memory=True, name=name, table=table_of(simulator))
    except PolicyError as error:
        raise PolicyError(f"Policy {short(name)}: {error}") from error


@dataclass(frozen=True, kw_only=True, eq=False)
class PolicyQuestion(SimulatorQuestion):
    """Comparison of policies over whole episodes."""

    verb = "compare policies"

    policies: list[Any]  # as given

    def in_history(self, history: RecordedLuck) -> PolicyQuestion:
        """The question with this history, in which each policy is run once: its gaps choose the length of blocks."""
        rewards = episode_rewards(self.simulator, replace(self.plan, history=history.as_recorded()))
        history, uses = used(history, {None: rewards})
        return replace(self, history=history, use=uses[None], plan=replace(self.plan, history=history))

    def at(self, state: Any, seed: int) -> PolicyQuestion:
        """The same question for episodes that start in this state, with another seed."""
        model = table_of(self.simulator)
        starts = Starts.of([state if model is None else model.states[state]], self.simulator)
        return replace(
            self,
            settings=replace(self.settings, seed=seed),
            reward_bound=_reward_bound(self.simulator, starts, self.settings.assume.reward_bound),
            plan=replace(self.plan, starts=starts, seed=seed),
        )

    def block_size(self, alternatives: int, seconds: float) -> int:
        """Number of samples whose episodes are simulated side by side."""
        return max(1, self.simulator.episode_lanes // alternatives)

    def check_luck(self) -> None:
        """Do nothing: whole episodes are checked after sampling."""

    @property
    def shares(self) -> Floats | None:
        """Probabilities of the starts, if they are drawn in proportion to them."""
        return self.plan.starts.probabilities if self.plan.stratify else None

    def table_gap(self, pair: tuple[int, int]) -> TableGap | None:
        """The gap between two policies from one start, if the simulator is a table with sources."""
        model, starts = table_of(self.simulator), self.plan.starts.states
        if model is None or len(starts) != 1:
            return None
        policies = [self.plan.actors[i].table(model.shape[0], model.shape[2]) for i in pair]
        return TableGap.of(self, model, model.states.position(starts[0]), policies)

    def same(self) -> tuple[int, ...] | None:
        """Equal numbers for policies that are the same object, or the same table."""
        keys: list[Any] = list(same_objects(self.policies))
        if isinstance(self.simulator, TabularSimulator):
            S, _, A = self.simulator.model.shape
            tables = [actor.table(S, A) for actor in self.plan.actors]
            keys = [key if table is None else table.tobytes() for key, table in zip(keys, tables, strict=True)]
        return tuple(map(keys.index, keys))

    def between_looks(self, sampled: SamplingState, pool: Pool) -> SamplingState:
        """Draw independently if pairing increases the variance; attribute the variance to its sources once."""
        if self.history is not None or not sampled.paired or not self.plan.coupling.shared_in_a_state:
            return sampled
        if self.pairing_costs(sampled):
            return replace(sampled, paired=False)
        past = sampled.samples.of(*sampled.active)
        assert isinstance(past, EpisodeDraws)
        if len(past.returns) >= _PROBED_FROM and past.probe is None:
            probe, steps = self._probe(sampled, pool)
            return replace(sampled, samples=sampled.samples.with_probe(probe, steps))
        return sampled

    def _probe(self, sampled: SamplingState, pool: Pool) -> tuple[LuckProbe, int]:
        """Simulate some samples again: with the same start only; and, if policies are random, the same steps too."""
        past = sampled.samples.complete
        assert isinstance(past, EpisodeDraws)
        kinds: list[frozenset[LuckSource]] = [frozenset({"steps", "policies"})]
        if any(actor.needs_luck for actor in self.plan.actors):
            kinds.append(frozenset({"policies"}))
        everyone, again = tuple(range(self.labels.size)), []
        for fresh in kinds:
            work = PlanBlocks(self.simulator, replace(self.work.plan, fresh=fresh))
            count = min(_RUN_AGAIN, past.paired)
            blocks = [(first, min(_A_BLOCK, count - first), everyone, True) for first in range(0, count, _A_BLOCK)]
            again.append(EpisodeDraws.joined(list(pool.ordered(work, blocks))))
        both, own = again[0], again[1].returns if len(again) > 1 else None
        probe = LuckProbe(past.returns[: len(both.returns)], both.returns, own)
        return probe, sum(part.steps for part in again)

    def one_future(self, draws: Draws, decided: bool) -> bool:
        """True if all samples are identical and it is unknown whether others are possible."""
        return draws.one_future and not isinstance(self.simulator, TabularSimulator)

    def result(self, common: dict[str, Any]) -> Comparison:
        """Build the result."""
        said = ", ".join(repr(actor) for actor in self.plan.actors)
        return PolicyComparison(**common, policy=said, starts=self.plan.starts)
