"""Sequential sampling for `compare` and `compare_policies`: draw batches until the comparison is decided."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.labels import Labels
from jmdp.base.progress import count_bar
from jmdp.base.settings import probability, whole, whole_number
from jmdp.errors import CouplingError, SettingsError
from jmdp.methods.method import check_kind
from jmdp.methods.monte_carlo.monte_carlo import LONGEST, MonteCarlo
from jmdp.models.coupling import Coupling
from jmdp.results.anytime import ENOUGH
from jmdp.results.comparison import Comparison
from jmdp.results.evaluation import Evaluation
from jmdp.results.outcome import Outcome
from jmdp.results.samples.bounded_returns import BoundedReturns
from jmdp.results.samples.drawn_evaluation import SampledProblem, Stored, Within, drawn_evaluation
from jmdp.results.samples.interval_rules import IntervalRule
from jmdp.results.samples.limits import Limits
from jmdp.results.samples.sample_moments import sample_moments
from jmdp.simulators.simulator import Draws, Simulator


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a comparison, as documented in `jmdp.compare`."""

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

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Settings:
        """Settings from all arguments of `compare` or `compare_policies`."""
        return cls(**{name: given[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True, kw_only=True, eq=False)
class Question(ABC):
    """A comparison before its first sample. Subclasses define how samples are drawn and how the result is built."""

    verb: ClassVar[str]

    simulator: Simulator
    labels: Labels  # of the alternatives
    settings: Settings
    discount: float
    horizon: int
    reward_bound: float | None
    progress: bool

    @abstractmethod
    def _draw(self, first: int, count: int, drawn: list[Draws]) -> Draws:
        """Draw samples first … first + count − 1; `drawn` has the earlier ones."""

    @abstractmethod
    def _result(self, common: dict[str, Any], draws: Any) -> Comparison:
        """Build the result from the arguments common to all comparisons and from the draws."""

    @abstractmethod
    def _one_future(self, draws: Draws, decided: bool) -> bool:
        """True if all samples are identical, so that no statistical statement is possible."""

    def answer(self, drawn: list[Draws], samples: int) -> Comparison:
        """Draw until the comparison is decided or the budget is used up; `drawn` has the samples drawn before."""
        n = sum(len(part.returns) for part in drawn)
        found = self.comparison(drawn) if drawn else None
        open_question = found is None or found.outcome is Outcome.BUDGET_EXHAUSTED
        steps_left = None if drawn else self.settings.max_steps
        try:
            with count_bar(self.verb, self.progress, n, samples) as report:
                while n < samples and not (steps_left and sum(part.steps for part in drawn) >= steps_left):
                    count = batch_size(n, samples)
                    drawn = [*drawn, self._draw(n, count, drawn)]
                    n += count
                    report(n)
                    found = self.comparison(drawn)
                    if open_question and found.outcome is not Outcome.BUDGET_EXHAUSTED:
                        break
        except KeyboardInterrupt:
            if found is None:
                raise
            if found.outcome is Outcome.BUDGET_EXHAUSTED:
                return replace(found, outcome=Outcome.INTERRUPTED)
        assert found is not None
        return found

    def comparison(self, drawn: list[Draws]) -> Comparison:
        """Result from the samples so far, with its outcome."""
        joined = drawn[0].joined(drawn)
        limits = Limits.of_draws([joined], self.discount, self.horizon, self.reward_bound)
        evaluation, bounded = self._evaluation(joined, limits)
        outcome, sure = self._decided(joined, evaluation, bounded)
        common = {
            "evaluation": evaluation,
            "draws": joined,
            "outcome": outcome,
            "best": self.labels.name(int(evaluation.mean[0].argmax())) if sure else None,
            "simulator": repr(self.simulator),
            "discount": self.discount,
            "horizon": self.horizon,
            "seed": self.settings.seed,
            "confidence": self.settings.confidence,
            "limits": limits,
            "bounded": bounded,
            "tie_tolerance": self.settings.tie_tolerance,
            "continue_with": lambda samples: self.answer(drawn, whole_number("samples", samples, 2)),
        }
        return self._result(common, joined)

    @property
    def error(self) -> float:
        """Error probability of one interval: 1 − confidence, divided among the gaps of one alternative."""
        return (1 - self.settings.confidence) / (self.labels.size - 1)

    def _evaluation(self, drawn: Draws, limits: Limits) -> tuple[Evaluation, BoundedReturns | None]:
        """Evaluation of the state and, if a range of returns is given, the bounds that follow from it."""
        settings, rule = self.settings, IntervalRule.anytime(self.settings.confidence, self.error)
        n, one = len(drawn.returns), drawn.one_coupling
        method = MonteCarlo(seed=settings.seed, samples=n, confidence=settings.confidence, horizon=self.horizon)
        within = (-math.inf, math.inf) if settings.return_range is None else settings.return_range
        evaluation = drawn_evaluation(
            SampledProblem(method, settings.coupling, Labels.of("state", 1, ["here"]), self.labels, self.discount),
            Stored([one]),
            limits,
            rule,
            Within(*within),
        )
        if one is not drawn:
            found = sample_moments(drawn, limits, rule)
            evaluation = _with_means(evaluation, found.mean, found.mean_error, found.gap_mean_error)
        if settings.return_range is None:
            return evaluation, None
        bounded = BoundedReturns(drawn, limits, *settings.return_range, self.error)
        return _within(evaluation, bounded), bounded

    def _decided(self, drawn: Draws, evaluation: Evaluation, bounded: BoundedReturns | None) -> tuple[Outcome, bool]:
        """Outcome if sampling stops now, and whether one alternative is known to be best."""
        assert evaluation.certificate is not None
        means, errors = evaluation.mean[0], np.asarray(evaluation.certificate.gap_mean_error)[0]
        low = means[:, None] - means - errors if bounded is None else bounded.gap_means[0]
        np.fill_diagonal(low := low.copy(), np.inf)
        if bounded is None and len(drawn.returns) < ENOUGH:
            low = np.full_like(low, -np.inf)
        sure = bool((low[int(means.argmax())] > 0).all())
        outcome = Outcome.BUDGET_EXHAUSTED
        if self.settings.precision is None:
            outcome = self._settled(low, sure) or outcome
        elif self._errors_asked_for(errors).max() <= self.settings.precision:
            outcome = Outcome.PRECISE
        if self._one_future(drawn, outcome is not Outcome.BUDGET_EXHAUSTED):
            outcome, sure = Outcome.ONE_FUTURE, False
        return outcome, sure

    def _settled(self, low: Floats, sure: bool) -> Outcome | None:
        """Outcome if lower limits [A, A] of mean gaps (infinite on the diagonal) decide the comparison, else None."""
        return Outcome.BEST_FOUND if sure else None

    def _errors_asked_for(self, errors: Floats) -> Floats:
        """Errors of mean gaps, of all [A, A], that must reach `precision`."""
        return errors


def batch_size(drawn: int, samples: int) -> int:
    """Size of the next batch: 64 samples first, then a quarter of those drawn, at least 32."""
    return min(samples - drawn, ENOUGH if drawn < ENOUGH else max(ENOUGH // 2, drawn // 4))


def _within(evaluation: Evaluation, bounded: BoundedReturns) -> Evaluation:
    """Replace the errors of means by bounds that are valid for any distribution within the range."""
    assert evaluation.certificate is not None
    mean = evaluation.mean[0]
    off = [
        np.maximum(high - values, values - low) * (1 + 2.0**-50)
        for values, (low, high) in ((mean, bounded.means), (mean[:, None] - mean, bounded.gap_means))
    ]
    certificate = replace(evaluation.certificate, large_sample=False)
    return _with_means(replace(evaluation, certificate=certificate), mean, *off)


def _with_means(evaluation: Evaluation, mean: Floats, mean_error: Floats, gap_mean_error: Floats) -> Evaluation:
    """Replace the means [A] and their errors [A], [A, A]."""
    assert evaluation.certificate is not None
    certificate = replace(evaluation.certificate, mean_error=mean_error[None], gap_mean_error=gap_mean_error[None])
    return replace(evaluation, mean=mean[None], certificate=certificate)


def _positive(name: str, value: Any) -> Any:
    """Check that a setting is a number > 0, or None."""
    if value is not None and (isinstance(value, bool) or not (isinstance(value, Real) and 0 < float(value) < np.inf)):
        raise SettingsError(f"{name} is {value!r}. Give a number > 0, or None.")
    return value


def _tolerance(value: Any) -> float:
    if isinstance(value, bool) or not (isinstance(value, Real) and 0 <= float(value) < np.inf):
        raise SettingsError(f"tie_tolerance is {value!r}. Give a number ≥ 0.")
    return float(value)


def _range(given: Any) -> tuple[float, float] | None:
    if given is None:
        return None
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (-np.inf < low < high < np.inf and 2 * (high - low) < np.inf):
        raise SettingsError(f"return_range is {given!r}. Give (lowest, highest), e.g. (0.0, 1.0).")
    return low, high
