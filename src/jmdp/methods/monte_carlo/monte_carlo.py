"""MonteCarlo: joint moments from simulated branches, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats, Scale, refuse_large
from jmdp.base.interval import ANYWHERE, Interval
from jmdp.base.labels import Label, Labels, names_of
from jmdp.base.luck import Shock
from jmdp.base.progress import count_bar, state_bar
from jmdp.base.settings import asks_for_seed, probability, whole
from jmdp.distribute.pools import Pool
from jmdp.distribute.process_pool import check_pool, pool_of
from jmdp.errors import SettingsError
from jmdp.methods.method import COVERS, Method, check_table
from jmdp.methods.monte_carlo.samples import (
    SAMPLE_BYTES,
    Blocks,
    CompiledTable,
    FirstSamples,
    PolicySamples,
    StateSamples,
    compiled,
    rollout_plans,
    seed_of,
)
from jmdp.methods.shared.return_range import PolicyRanges, ReturnRange
from jmdp.models.actors.actor import Actor
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.coupling import Coupling
from jmdp.models.policy import Policies, TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.certificate import Outcome
from jmdp.results.derived import start_labels
from jmdp.results.evaluation import Evaluation
from jmdp.results.parts import ReturnRanges
from jmdp.simulators.adapters.functions import TabularSimulator, table_of, table_state
from jmdp.simulators.checking.sampling import check_before_sampling, check_repeatable
from jmdp.simulators.rollouts.draws import Draws
from jmdp.simulators.rollouts.plan import BranchPlan, enough_steps
from jmdp.simulators.rollouts.python_engine import paired_draws, rollouts_at_once
from jmdp.simulators.simulator import Simulator
from jmdp.statistics.drawn_evaluation import SampledProblem, Stored, Within, drawn_evaluation
from jmdp.statistics.means import IntervalRule
from jmdp.statistics.sample_moments import SampleMoments, sample_moments
from jmdp.statistics.selection import Limits, known_reward_bound

LONGEST = 100_000_000
"""Maximum number of steps of a rollout."""

_BIAS_OVER_NOISE = 1e-3
"""Without a horizon, rollouts of a table are cut where the remainder is this fraction of B/√samples."""

_ROUND, _FEWEST = 32, 32
"""Factor between the numbers of samples of two rounds on a table, and the smallest such number."""


@asks_for_seed
@dataclass(frozen=True, kw_only=True)
class MonteCarlo(Method[Evaluation]):
    """Joint moments from rollouts of all actions of a state under common random numbers.

    Branches follow the recursive process that defines the joint distribution (paper, Section 4, "one-step coupling"):
    they share randomness as the coupling specifies, and branches in the same state with the same action merge. States
    are simulated separately, each from its own stream of random numbers, so adding a state does not change the numbers
    of the others.

    Intervals are large-sample ones (Student's t, with a correction for skewness; the standard error of a sample
    covariance), widened by a bound on the rewards after `horizon` steps. Where fewer than 8 samples differ from the
    others, those of means follow from the range of returns for tables, and there are none for other simulators. Those
    of variances and covariances reflect only the samples drawn: outcomes too rare to be sampled are not included.

    `Gap.distribution` and `Evaluation.return_distribution` give empirical distributions with a band that contains the
    whole distribution at `confidence`; for a table they simulate the state's rollouts again.

    Parameters
    ----------
    seed
        Seed of all randomness; the same seed gives the same numbers.
    samples
        Number of rollouts of each state.
    confidence
        Confidence level of each individual interval.
    horizon
        Steps of a rollout. None cuts where at most B/(1000 √samples) of the return is lost; on a simulator other than
        a table, whose steps cost more, where at most B/(1000 (1 − γ)) is. B is the largest reward. If a simulator does
        not provide it (`Simulator.largest_reward_from`), B is the largest one observed, as the certificate states.
    states
        States of a simulator to evaluate. None evaluates its start state. For tables, all states are evaluated. The
        result names a state by its text, such as "(3, 1)", and finds tuples; an integer is a position in this list.
    pool
        Number of worker processes that simulate, or a `ProcessPool`; None uses this process. Results do not depend on
        it. Tables and other compiled simulators are simulated in this process with any pool.
    """

    covers = COVERS["MonteCarlo(seed=…)"]

    seed: int
    samples: int = 10_000
    confidence: float = 0.95
    horizon: int | None = None
    states: Sequence[Any] | None = field(default=None, repr=False)
    pool: int | Pool | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        whole(self, "seed", 0)
        whole(self, "samples", 2)
        probability(self, "confidence")
        whole(self, "horizon", 1, LONGEST, optional=True)
        if self.states is not None and (not isinstance(self.states, Sequence) or isinstance(self.states, str)):
            raise SettingsError(f"states is a {type(self.states).__name__}. Give a list of states.")
        if self.states is not None and not len(self.states):
            raise SettingsError("states is empty. Give the states to evaluate, or None for the start state.")
        object.__setattr__(self, "pool", check_pool(self.pool))

    def on_table(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, progress: bool) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        self._refuse_states()
        horizon = rollout_horizon(CompiledTable(model), model.discount, self.horizon, self.samples)
        return self._in_rounds(
            SampledProblem(self, coupling, model.states, model.actions, model.discount),
            StateSamples.of_table(model, policy, coupling, horizon, self.seed),
            Limits.of_bound(model.reward_bound, model.discount, horizon),
            ReturnRange(model, policy),
            partial(_same_rows, model),
            progress,
        )

    def on_policies(
        self, model: TabularJMDP, policies: Policies, coupling: Coupling, start: Floats | None, progress: bool
    ) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        self._refuse_states()
        horizon = rollout_horizon(CompiledTable(model), model.discount, self.horizon, self.samples)
        labels = Labels.of("policy", len(policies), list(policies))
        states, tables = model.states if start is None else start_labels(model.states), list(policies.values())
        return self._in_rounds(
            SampledProblem(self, coupling, states, labels, model.discount),
            PolicySamples.of_table(model, policies, coupling, start, horizon, self.seed),
            Limits.of_bound(model.reward_bound, model.discount, horizon),
            PolicyRanges([ReturnRange(model, policy) for policy in policies.values()], start),
            lambda s, i, j: np.array_equal(tables[i].probs, tables[j].probs),
            progress,
        )

    def _in_rounds(
        self,
        problem: SampledProblem,
        draw: Callable[[int, int], Draws],
        limits: Limits,
        support: ReturnRanges,
        same: Callable[[int, int, int], bool],
        progress: bool,
    ) -> Evaluation:
        """Simulate all states of a table, first with few samples, so that Ctrl-C leaves a result for every state.

        Samples are not stored. A round simulates those of the rounds before it again, in 3% of the time at most.
        ``same(s, a, b)`` is True if two returns certainly have the same mean.
        """
        S, A, outcome = problem.states.size, problem.actions.size, Outcome.SAMPLED
        refuse_large(f"{self.samples:,} samples of {A} actions or policies", SAMPLE_BYTES * self.samples * A)
        rows = np.array([s for s in range(S) if not support.is_over(s)], np.int64)
        found, sizes = [SampleMoments.zero(A)] * S, np.zeros(S, np.int64)
        try:
            for samples in self._rounds():
                rule = IntervalRule.fixed(samples, self.confidence)
                for s in state_bar(type(self).__name__, rows, progress):
                    ranges = partial(_scaled_range, support, same, limits.scale, int(s))
                    found[s], sizes[s] = sample_moments(draw(int(s), samples), limits, rule, ranges), samples
        except KeyboardInterrupt:
            if not sizes[rows].all():
                raise
            outcome = Outcome.INTERRUPTED
            problem = replace(problem, method=replace(self, samples=int(sizes[rows].min())))
        return drawn_evaluation(
            problem,
            FirstSamples(draw, sizes),
            limits,
            IntervalRule.fixed(self.samples, self.confidence),
            support,
            found,
            outcome,
        )

    def _rounds(self) -> list[int]:
        """Numbers of samples of the rounds on a table."""
        sizes = [self.samples]
        while sizes[0] >= _ROUND * _FEWEST:
            sizes.insert(0, sizes[0] // _ROUND)
        return sizes

    def on_simulator(
        self, simulator: Simulator, actor: Actor, coupling: Coupling, discount: float, progress: bool
    ) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        actions = simulator.actions
        if actions is None:
            raise SettingsError("Continuous actions: list the ones to compare with jmdp.compare(…, actions=[…]).")
        simulator.check_coupling(coupling)
        simulator = compiled(simulator)
        horizon = rollout_horizon(simulator, discount, self.horizon, self.samples)
        if self.states is None:
            states, names = [simulator.start(Shock.of_sample(self.seed, 0))], ["start"]
        else:
            states, names = [table_state(simulator, state) for state in self.states], names_of("state", self.states)
        bound = known_reward_bound(simulator, states, None)
        settings = {"coupling": coupling, "discount": discount, "horizon": horizon}
        plans = rollout_plans(actor, actions.size, states, self.seed, **settings)
        check_before_sampling(simulator, states[0], range(actions.size), coupling)
        drawn = self._drawn(simulator, plans, progress)
        check_repeatable(drawn[0], simulator, plans[0])
        kept = replace(self, samples=len(drawn[0].returns))
        table = table_of(simulator)
        labels = Labels("state", len(states), tuple(names), integers=table is not None and table.states.integers)
        limits = Limits.of_draws(drawn, discount, horizon, bound)
        rule = IntervalRule.fixed(kept.samples, self.confidence)
        exact = IntervalRule.certain(self.confidence)  # if nothing is random; unchecked simulators may hide randomness
        return drawn_evaluation(
            SampledProblem(kept, coupling, labels, actions, discount),
            Stored(drawn),
            limits,
            rule,
            Within(ANYWHERE.low, ANYWHERE.high),
            [sample_moments(one, limits, rule if one.drew or not simulator.check else exact) for one in drawn],
            outcome=Outcome.SAMPLED if kept.samples == self.samples else Outcome.INTERRUPTED,
        )

    def _drawn(self, simulator: Simulator, plans: Sequence[BranchPlan], progress: bool) -> list[Draws]:
        """Rollouts of each plan, by a compiled program if there is one, else in blocks by a pool of any size.

        After Ctrl-C these are the first n samples of every plan: rollouts are kept by their number, because those that
        happen to be finished would be the short ones.
        """
        compiled = simulator.program(plans[0]) is not None
        parts = self._parts(rollouts_at_once(simulator, len(plans[0].actors)), growing=compiled)
        found: list[list[Draws]] = []  # [parts][plans]
        with (
            pool_of(None if compiled else self.pool) as pool,
            closing(
                pool.ordered(Blocks(simulator, plans), ((i, *p) for p in parts for i in range(len(plans))))
            ) as blocks,
            count_bar(type(self).__name__, progress, 0, self.samples) as report,
        ):
            try:
                for first, count in parts:
                    found.append([next(blocks) for _ in plans])
                    report(first + count)
            except KeyboardInterrupt:
                if sum(len(part[0].returns) for part in found) < 2:
                    raise
        return [Draws.joined(list(parts)) for parts in zip(*found, strict=True)]

    def _parts(self, size: int, growing: bool) -> list[tuple[int, int]]:
        """First number and count of successive blocks of samples, each twice as large if `growing`."""
        parts, first = [], 0
        while first < self.samples:
            count = min(max(size, first if growing else 0), self.samples - first)
            parts.append((first, count))
            first += count
        return parts

    def extent(self, answer: Any) -> str:
        """How far an unfinished run got."""
        return f"{answer.method.samples} samples"

    def _refuse_states(self) -> None:
        if self.states is not None:
            raise SettingsError("states is given for a table, whose states are all evaluated. Leave it out.")


def _same_rows(model: TabularJMDP, s: int, a: int, b: int) -> bool:
    """Whether two actions have the same outcomes in a state."""
    possible = model.prob[s] > 0
    return all(np.array_equal(x[s, possible, a], x[s, possible, b]) for x in (model.reward, model.next_state))


def _scaled_range(
    support: ReturnRanges, same: Callable[[int, int, int], bool], scale: Scale, s: int, a: int | None, b: int
) -> Interval:
    """Range of Z(s, b), or of Z(s, a) − Z(s, b), that contains its mean: 0 if both certainly have the same mean."""
    if a is not None and same(s, a, b):
        return Interval(0.0, 0.0)
    found = support.of(s, b) if a is None else support.of_gap(s, a, b)
    return Interval(scale.divide(found.low), scale.divide(found.high))


@asks_for_seed
def gap_samples(
    model: TabularJMDP,
    policy: TabularPolicy,
    s: Label,
    a: Label,
    b: Label,
    *,
    seed: int,
    coupling: Coupling,
    samples: int = 10_000,
    horizon: int | None = None,
) -> Floats:
    """Samples of the gap Z(s, a) − Z(s, b) under shared randomness, [samples].

    Under Local this is the paper's recursive-pair Monte Carlo (Section C). Settings as in `MonteCarlo`. A rollout is
    cut after `horizon` steps; the error is at most 2 γ^horizon B/(1 − γ).
    """
    table = check_table(model, policy, coupling)
    settings = MonteCarlo(seed=seed, samples=samples, horizon=horizon)
    state, pair = model.states.index(s), [model.actions.index(a), model.actions.index(b)]
    simulator = CompiledTable(model)
    length = rollout_horizon(simulator, model.discount, settings.horizon, settings.samples)
    refuse_large(f"{settings.samples:,} samples", 8.0 * settings.samples)
    if pair[0] == pair[1]:  # the same state and action have the same return
        return np.zeros(settings.samples)
    plan = BranchPlan.of_actions(
        as_policy(table, model.actions),
        state=state,
        actions=pair,
        coupling=coupling,
        discount=model.discount,
        horizon=length,
        seed=seed_of(settings.seed, state),
    )
    returns = paired_draws(simulator, plan, 0, settings.samples).returns
    return np.asarray(returns[:, 0] - returns[:, 1])


def rollout_horizon(simulator: Simulator, discount: float, horizon: int | None, samples: int) -> int:
    """Steps of a rollout: `horizon` if given, else enough for this discount. Raises if those are too many."""
    if horizon is not None:
        return horizon
    table = isinstance(simulator, TabularSimulator)
    if not table and discount > 1 - 1e-5:
        raise SettingsError(f"At discount {discount!r} rollouts would be too long. Set the number of steps: horizon=….")
    enough = enough_steps(discount, _BIAS_OVER_NOISE / math.sqrt(samples) if table else 1e-3 / (1 - discount))
    if enough > LONGEST:
        raise SettingsError(
            f"At discount {discount!r} a rollout needs {enough} steps before the remainder is negligible. "
            "Give a horizon (the intervals then include the error of the cut), or use ExactPairs()."
        )
    return enough
