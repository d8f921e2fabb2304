"""The verb at a decision point: every action from one state, the same luck, until one is known to be better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import ANYWHERE, Interval
from jmdp.base.labels import Label, Labels
from jmdp.base.luck import Shock
from jmdp.base.progress import count_bar
from jmdp.base.settings import whole_number
from jmdp.errors import CouplingError, SettingsError
from jmdp.methods.method import check_kind
from jmdp.methods.monte_carlo.monte_carlo import MonteCarlo, enough_steps_of
from jmdp.models.actors.actor import Actor
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.coupling import Coupling, Synchronous
from jmdp.models.discount import problem_discount
from jmdp.results import anytime
from jmdp.results.anytime import ENOUGH
from jmdp.results.comparison import Comparison
from jmdp.results.evaluation import Evaluation
from jmdp.results.outcome import Outcome
from jmdp.results.samples.bounded_returns import BoundedReturns
from jmdp.results.samples.drawn_evaluation import Limits, drawn_evaluation, known_reward_bound
from jmdp.simulators import as_simulator
from jmdp.simulators.checking.sampling import check_before_sampling, check_repeatable, policy_draws
from jmdp.simulators.digests import digest_of
from jmdp.simulators.functions import TabularSimulator
from jmdp.simulators.rollouts import paired_draws
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
    question = _Question(
        simulator, state, policy, actions, discount, seed, coupling, confidence, precision, max_steps, horizon,
        reward_bound, return_range, tie_tolerance, progress,
    )  # fmt: skip
    return question.answer([], whole_number("samples", samples, 2))


class _Question:
    """All that is settled before the first rollout."""

    def __init__(
        self,
        source: Any,
        state: Any,
        policy: Any,
        actions: Sequence[Any] | Mapping[str, Any] | None,
        discount: float | None,
        seed: int,
        coupling: Coupling,
        confidence: float,
        precision: float | None,
        max_steps: int | None,
        horizon: int | None,
        reward_bound: float | None,
        return_range: tuple[float, float] | None,
        tie_tolerance: float,
        progress: bool,
    ) -> None:
        check_kind("coupling", coupling, Coupling, CouplingError)
        settings = MonteCarlo(seed=seed, confidence=confidence, horizon=horizon)
        self.precision = _positive("precision", precision)
        self.max_steps = _positive("max_steps", max_steps)
        self.return_range = _range(return_range)
        self.tie_tolerance = _tolerance(tie_tolerance)
        self.simulator = as_simulator(source)
        self.simulator.check_coupling(coupling)
        self.discount = problem_discount(self.simulator.discount, discount)
        self.horizon = enough_steps_of(self.simulator, self.discount, settings.horizon, settings.samples)
        self.coupling, self.seed, self.confidence = coupling, settings.seed, settings.confidence
        self.progress = progress
        self.state = self.simulator.start(Shock.of_sample(self.seed, 0)) if state is None else state
        self.reward_bound = known_reward_bound(self.simulator, [self.state], _positive("reward_bound", reward_bound))
        self.candidates, self.labels = _candidates(self.simulator.actions, actions)
        self.error = (1 - self.confidence) / (len(self.candidates) - 1)
        self.actor = as_policy(policy, self.simulator.actions)
        self.uses_luck = check_before_sampling(self.simulator, self.state, self.candidates, coupling)

    @cached_property
    def may_hide_luck(self) -> bool:
        """If all rollouts are the same, was randomness drawn before? Not in a table, nor if the policy draws."""
        table = isinstance(self.simulator, TabularSimulator)
        return not table and not policy_draws(self.simulator, self.state, self.candidates[0], self.actor)

    def answer(self, drawn: list[Draws], samples: int) -> Comparison:
        n = sum(len(part.returns) for part in drawn)
        found = self._comparison(drawn) if drawn else None
        open_question = found is None or found.outcome is Outcome.BUDGET_EXHAUSTED
        steps_left = None if drawn else self.max_steps
        try:
            with count_bar("compare", self.progress, n, samples) as report:
                while n < samples and not (steps_left and sum(part.steps for part in drawn) >= steps_left):
                    count = min(samples - n, ENOUGH if n < ENOUGH else max(ENOUGH // 2, n // 4))
                    drawn = [*drawn, self._checked_draw(n, count)]
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

    def _checked_draw(self, first: int, count: int) -> Draws:
        drawn = self._draw(self.actor, first, count)
        if first == 0:
            check_repeatable(drawn, self.simulator, self.state, self.actor, self._draw)
        return drawn

    def _draw(self, actor: Actor, first: int, count: int = 1) -> Draws:
        return paired_draws(
            self.simulator,
            self.state,
            self.candidates,
            actor,
            self.coupling,
            discount=self.discount,
            horizon=self.horizon,
            seed=self.seed,
            first=first,
            count=count,
        )

    def _comparison(self, drawn: list[Draws]) -> Comparison:
        """What is known by now, and whether that decides the question."""
        draws = Draws.joined(drawn)
        n = len(draws.returns)
        limits = Limits.of([draws], self.discount, self.horizon, self.reward_bound)

        def mean_errors(deviations: Floats, spread: Floats) -> Floats:
            return anytime.mean_errors(deviations, self.error, spread)

        evaluation = drawn_evaluation(
            [draws],
            method=MonteCarlo(seed=self.seed, samples=n, confidence=self.confidence, horizon=self.horizon),
            coupling=self.coupling,
            states=Labels.of("state", 1, ["here"]),
            actions=self.labels,
            discount=self.discount,
            limits=limits,
            confidence=self.confidence,
            distribution_slack=anytime.distribution_slack,
            mean_errors=mean_errors,
            within=ANYWHERE if self.return_range is None else Interval(*self.return_range),
        )
        bounded = None
        if self.return_range is not None:
            bounded = BoundedReturns(draws, limits, *self.return_range, self.error)
            evaluation = _within(evaluation, bounded)
        assert evaluation.certificate is not None
        means, errors = evaluation.mean[0], np.asarray(evaluation.certificate.gap_mean_error)[0]
        lead = int(means.argmax())
        low = means[lead] - means - errors[lead] if bounded is None else bounded.gap_means[0][lead]
        enough = bounded is not None or n >= ENOUGH
        sure = enough and bool((low > 0)[np.arange(means.size) != lead].all())
        outcome = Outcome.BUDGET_EXHAUSTED
        if self.precision is None:
            outcome = Outcome.BEST_FOUND if sure else outcome
        elif errors.max() <= self.precision:
            outcome = Outcome.PRECISE
        if draws.one_future and (outcome is not Outcome.BUDGET_EXHAUSTED or not self.uses_luck) and self.may_hide_luck:
            outcome, sure = Outcome.ONE_FUTURE, False
        return Comparison(
            evaluation=evaluation,
            draws=draws,
            outcome=outcome,
            best=self.labels.name(lead) if sure else None,
            simulator=repr(self.simulator),
            policy=repr(self.actor),
            discount=self.discount,
            horizon=self.horizon,
            seed=self.seed,
            confidence=self.confidence,
            limits=limits,
            bounded=bounded,
            tie_tolerance=self.tie_tolerance,
            numbers=None if self.simulator.actions is None else tuple(self.candidates),
            continue_with=lambda samples: self.answer(drawn, whole_number("samples", samples, 2)),
        )


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


def _candidates(numbered: Labels | None, actions: Sequence[Any] | Mapping[str, Any] | None) -> tuple[list[Any], Labels]:
    """What a simulator is given for each candidate, and how they are called."""
    if numbered is None:
        if actions is None:
            raise SettingsError(
                "The actions of this simulator are not numbered. Give the ones to compare: actions=[…], or with names, "
                'actions={"left": …, "right": …}.'
            )
        chosen = list(actions.values() if isinstance(actions, Mapping) else actions)
        names = [str(name) for name in actions] if isinstance(actions, Mapping) else [_called(one) for one in chosen]
        if len(set(names)) < len(names):
            names = [f"action {i}" for i in range(len(chosen))]
        count = len({digest_of(action) for action in chosen})
    else:
        if isinstance(actions, (Mapping, str)) or not (actions is None or hasattr(actions, "__iter__")):
            raise SettingsError(f"actions is {actions!r}. Give a list of actions, by index or name.")
        labels: Sequence[Label] = range(numbered.size) if actions is None else list(actions)
        chosen = [numbered.index(label) for label in labels]
        names = [numbered.name(a) for a in chosen]
        count = len(set(chosen))
    if len(chosen) < 2 or count != len(names):
        raise SettingsError(f"actions are {names}. Give two or more different ones.")
    return chosen, Labels.of("action", len(chosen), names)


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


def _called(action: Any) -> str:
    return np.array2string(np.asarray(action), precision=4, separator=", ") if hasattr(action, "shape") else str(action)
