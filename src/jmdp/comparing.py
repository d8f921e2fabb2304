"""The verb at a decision point: every action from one state, the same luck, until one is known to be better."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.base.progress import count_bar
from jmdp.base.settings import probability, whole, whole_number
from jmdp.errors import CouplingError, SettingsError
from jmdp.methods.method import check_kind
from jmdp.methods.monte_carlo.monte_carlo import LONGEST, MonteCarlo, rollout_horizon
from jmdp.methods.monte_carlo.table_rollouts import compiled
from jmdp.models.actors.actor import Actor
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.coupling import Coupling, Synchronous
from jmdp.models.discount import problem_discount
from jmdp.results.anytime import ENOUGH
from jmdp.results.comparison import Comparison
from jmdp.results.evaluation import Evaluation
from jmdp.results.outcome import Outcome
from jmdp.results.samples.bounded_returns import BoundedReturns
from jmdp.results.samples.drawn_evaluation import SampledProblem, Stored, Within, drawn_evaluation
from jmdp.results.samples.interval_rules import IntervalRule
from jmdp.results.samples.limits import Limits, known_reward_bound
from jmdp.simulators import as_simulator
from jmdp.simulators.candidates import candidate_actions
from jmdp.simulators.checking.sampling import check_before_sampling, check_repeatable, policy_draws
from jmdp.simulators.functions import TabularSimulator
from jmdp.simulators.rollouts import RolloutPlan, paired_draws
from jmdp.simulators.simulator import Draws, Simulator


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
    """
    settings = _Settings(
        seed=seed,
        coupling=coupling,
        confidence=confidence,
        precision=precision,
        samples=samples,
        max_steps=max_steps,
        horizon=horizon,
        reward_bound=reward_bound,
        return_range=return_range,
        tie_tolerance=tie_tolerance,
    )
    return _question(simulator, state, policy, actions, discount, settings, progress).answer([], settings.samples)


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """The settings of a comparison; `compare` says what they are."""

    seed: int
    coupling: Coupling
    confidence: float
    precision: float | None
    samples: int
    max_steps: int | None
    horizon: int | None
    reward_bound: float | None
    return_range: tuple[float, float] | None
    tie_tolerance: float

    def __post_init__(self) -> None:
        check_kind("coupling", self.coupling, Coupling, CouplingError)
        whole(self, "seed", 0)
        whole(self, "samples", 2)
        probability(self, "confidence")
        whole(self, "horizon", 1, LONGEST, optional=True)
        for name in ("precision", "max_steps", "reward_bound"):
            _positive(name, getattr(self, name))
        object.__setattr__(self, "return_range", _range(self.return_range))
        object.__setattr__(self, "tie_tolerance", _tolerance(self.tie_tolerance))


def _question(
    source: Any,
    state: Any,
    policy: Any,
    actions: Sequence[Any] | Mapping[str, Any] | None,
    discount: float | None,
    settings: _Settings,
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
    return _Question(simulator, actor, plan, labels, settings, reward_bound, uses_luck, progress)


@dataclass(frozen=True, eq=False)
class _Question:
    """All that is settled before the first rollout."""

    simulator: Simulator
    actor: Actor
    plan: RolloutPlan
    labels: Labels
    settings: _Settings
    reward_bound: float | None
    uses_luck: bool  # whether steps use their randomness
    progress: bool

    @cached_property
    def may_hide_luck(self) -> bool:
        """If all rollouts are the same, was randomness drawn before? Not in a table, nor if the policy draws."""
        table = isinstance(self.simulator, TabularSimulator)
        return not table and not policy_draws(self.simulator, self.plan.state, self.plan.actions[0], self.actor)

    def answer(self, drawn: list[Draws], samples: int) -> Comparison:
        n = sum(len(part.returns) for part in drawn)
        found = self._comparison(drawn) if drawn else None
        open_question = found is None or found.outcome is Outcome.BUDGET_EXHAUSTED
        steps_left = None if drawn else self.settings.max_steps
        try:
            with count_bar("compare", self.progress, n, samples) as report:
                while n < samples and not (steps_left and sum(part.steps for part in drawn) >= steps_left):
                    count = min(samples - n, ENOUGH if n < ENOUGH else max(ENOUGH // 2, n // 4))
                    drawn = [*drawn, self._drawn(n, count)]
                    n += count
                    report(n)
                    found = self._comparison(drawn)
                    if open_question and found.outcome is not Outcome.BUDGET_EXHAUSTED:
                        break
        except KeyboardInterrupt:
            if found is None:
                raise
            if found.outcome is Outcome.BUDGET_EXHAUSTED:
                return replace(found, outcome=Outcome.INTERRUPTED)
        assert found is not None
        return found

    def _drawn(self, first: int, count: int) -> Draws:
        drawn = paired_draws(self.simulator, self.actor, self.plan, first, count)
        if first == 0:
            check_repeatable(drawn, self.simulator, self.actor, self.plan)
        return drawn

    @property
    def error(self) -> float:
        """The chance of error of one interval: those of one action's gaps share what is allowed."""
        return (1 - self.settings.confidence) / (self.labels.size - 1)

    def _evaluation(self, drawn: Draws, limits: Limits) -> tuple[Evaluation, BoundedReturns | None]:
        """The evaluation of the one state, and where a range of returns is known what follows from that."""
        settings, plan = self.settings, self.plan
        n = len(drawn.returns)
        method = MonteCarlo(seed=settings.seed, samples=n, confidence=settings.confidence, horizon=plan.horizon)
        within = (-math.inf, math.inf) if settings.return_range is None else settings.return_range
        evaluation = drawn_evaluation(
            SampledProblem(method, plan.coupling, Labels.of("state", 1, ["here"]), self.labels, plan.discount),
            Stored([drawn]),
            limits,
            IntervalRule.anytime(settings.confidence, self.error),
            Within(*within),
        )
        if settings.return_range is None:
            return evaluation, None
        bounded = BoundedReturns(drawn, limits, *settings.return_range, self.error)
        return _within(evaluation, bounded), bounded

    def _comparison(self, drawn: list[Draws]) -> Comparison:
        """What is known by now, and whether that decides the question."""
        joined = Draws.joined(drawn)
        limits = Limits.of_draws([joined], self.plan.discount, self.plan.horizon, self.reward_bound)
        evaluation, bounded = self._evaluation(joined, limits)
        outcome, sure = self._decided(joined, evaluation, bounded)
        return Comparison(
            evaluation=evaluation,
            draws=joined,
            outcome=outcome,
            best=self.labels.name(int(evaluation.mean[0].argmax())) if sure else None,
            simulator=repr(self.simulator),
            policy=repr(self.actor),
            discount=self.plan.discount,
            horizon=self.plan.horizon,
            seed=self.settings.seed,
            confidence=self.settings.confidence,
            limits=limits,
            bounded=bounded,
            tie_tolerance=self.settings.tie_tolerance,
            numbers=None if self.simulator.actions is None else tuple(self.plan.actions),
            continue_with=lambda samples: self.answer(drawn, whole_number("samples", samples, 2)),
        )

    def _decided(self, drawn: Draws, evaluation: Evaluation, bounded: BoundedReturns | None) -> tuple[Outcome, bool]:
        """How it ends if it ends now, and whether one action is known to be best."""
        assert evaluation.certificate is not None
        means, errors = evaluation.mean[0], np.asarray(evaluation.certificate.gap_mean_error)[0]
        lead = int(means.argmax())
        low = means[lead] - means - errors[lead] if bounded is None else bounded.gap_means[0][lead]
        enough = bounded is not None or len(drawn.returns) >= ENOUGH
        sure = enough and bool((low > 0)[np.arange(means.size) != lead].all())
        outcome = Outcome.BUDGET_EXHAUSTED
        if self.settings.precision is None:
            outcome = Outcome.BEST_FOUND if sure else outcome
        elif errors.max() <= self.settings.precision:
            outcome = Outcome.PRECISE
        if drawn.one_future and (outcome is not Outcome.BUDGET_EXHAUSTED or not self.uses_luck) and self.may_hide_luck:
            outcome, sure = Outcome.ONE_FUTURE, False
        return outcome, sure


def _within(evaluation: Evaluation, bounded: BoundedReturns) -> Evaluation:
    """With errors of means that hold for any distribution within a range."""
    assert evaluation.certificate is not None
    mean = evaluation.mean[0]
    off = [
        np.maximum(high - values, values - low)[None] * (1 + 2.0**-50)
        for values, (low, high) in ((mean, bounded.means), (mean[:, None] - mean, bounded.gap_means))
    ]
    certificate = replace(evaluation.certificate, mean_error=off[0], gap_mean_error=off[1], large_sample=False)
    return replace(evaluation, certificate=certificate)


def _positive(name: str, value: Any) -> Any:
    """A number > 0, or None."""
    if value is not None and (isinstance(value, bool) or not (isinstance(value, Real) and 0 < float(value) < np.inf)):
        raise SettingsError(f"{name} is {value!r}. Give a number > 0, or None.")
    return value


def _tolerance(value: Any) -> float:
    if isinstance(value, bool) or not (isinstance(value, Real) and 0 <= float(value) < np.inf):
        raise SettingsError(f"tie_tolerance is {value!r}. Give a number of at least 0.")
    return float(value)


def _range(given: Any) -> tuple[float, float] | None:
    if given is None:
        return None
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (-np.inf < low < high < np.inf and 2 * (high - low) < np.inf):
        raise SettingsError(f"return_range is {given!r}. Give (least, most), e.g. (0.0, 1.0).")
    return low, high
