"""One step of a reviewed episode: the decision, and the luck that followed.

Powers of the discount factor, and bounds on the errors of discounted sums, by rounding and by underflow.

Errors of averages: large-sample intervals for a number of samples that is fixed in advance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import ROUNDOFF, SMALLEST, Booleans, Floats
from jmdp.base.interval import Estimate
from jmdp.reviews.values import StepValues
from jmdp.statistics.means import IntervalRule

_UP = 1 + 2.0**-40
"""Covers the rounding of a bound that is itself computed in floats."""


@dataclass(frozen=True, eq=False)
class Weights:
    """γᵗ for t = 0 … T as floats. A power that underflows is not 0, so each has an error of its own."""

    value: Floats  # [T + 1]
    error: Floats  # [T + 1], at least |γᵗ − value[t]|

    @classmethod
    def of(cls, discount: float, steps: int) -> Weights:
        """Powers up to γ^steps."""
        value = np.multiply.accumulate(np.array([1.0, *[discount] * steps]))
        error = np.zeros(steps + 1)
        if 0 < discount < 1:
            for t in range(2, steps + 1):
                error[t] = (discount * error[t - 1] + 2 * ROUNDOFF * value[t] + 2 * SMALLEST) * _UP
        return cls(value, error)

    def since(self, t: int) -> Weights:
        """The powers from γᵗ on."""
        return Weights(self.value[t:], self.error[t:])

    def total(self, x: Sequence[float] | Floats) -> float:
        """Σ γᵗ x[t], summed in floats."""
        return float(self.value[: len(x)] @ np.asarray(x, np.float64))

    def bounds(self, errors: Sequence[float] | Floats) -> Floats:
        """[n], at least γᵗ errors[t]."""
        sizes = np.asarray(errors, np.float64)
        most = (self.value + self.error)[: len(sizes)]
        counts = (most > 0) & (sizes > 0)
        return np.multiply(most, sizes * _UP, out=np.zeros(len(sizes)), where=counts) + np.where(counts, SMALLEST, 0.0)

    def rounding(self, sizes: Sequence[float] | Floats) -> float:
        """At least the error of `total`, if each x[t] is off by at most 4 units of rounding of its size."""
        n = len(sizes)
        relative = 4 * (n + 4) * ROUNDOFF * self.value[:n] + self.error[:n]
        size = np.abs(np.asarray(sizes, np.float64))
        counts = (self.value[:n] + self.error[:n] > 0) & (size > 0)
        lost = np.multiply(relative, size, out=np.zeros(n), where=counts) + np.where(counts, 4 * SMALLEST, 0.0)
        return float(lost.sum()) * _UP


_ROUNDING = 2.0**-40
"""Relative error of averages by rounding, generously."""


def mean_errors(samples: Floats, error: float, size: float) -> tuple[Floats, Booleans]:
    """Errors [m] of means of samples [n, m], n fixed in advance, and where fewer than 8 of them differ.

    The larger side of `IntervalRule.fixed`, where that has an interval. Where too few samples differ, the error is that
    of those seen alone, and outcomes that were not seen must be allowed for: `with_unseen`. Samples are sums of returns
    up to `size`, by which their rounding error is known.
    """
    n = len(samples)
    if n == 1:
        return np.zeros(samples.shape[1]), np.zeros(samples.shape[1], bool)
    errors = np.maximum(*IntervalRule.fixed(n, 1 - error, error).errors(samples, _ROUNDING * size))
    few = np.isinf(errors)
    errors[few] = _student(samples[:, few], error)
    return errors, few


def _student(samples: Floats, error: float) -> Floats:
    """t σ/√n + t² |m₃|/(3 n σ²), with the third central moment m₃, for n ≥ 2 samples of which any number may differ."""
    from scipy.special import stdtrit

    n = len(samples)
    deviations = samples - samples.mean(axis=0)
    std, t = deviations.std(axis=0, ddof=1), float(stdtrit(n - 1, 1 - error / 2))
    unit = deviations / np.where(std > 0, std, 1.0)
    skewness = np.abs((unit**3).mean(axis=0))
    return np.asarray(t * std / math.sqrt(n) + t**2 * std * skewness / (3 * n))


def unseen(spread: float, n: int, error: float) -> float:
    """Largest effect on a mean of an outcome that n samples did not show: its chance is at most ln(1/error)/n."""
    return spread * math.log(1 / error) / n


def with_unseen(errors: Floats, few: Booleans, spread: float, n: int, error: float) -> Floats:
    """Errors that allow for an outcome that was not seen, of the size of `spread`, where too `few` samples differ.

    √(x² + y²) with x the error of what was seen and y = `unseen`: with no or few of n samples showing a rare outcome,
    intervals then miss the mean at most as often as stated (tests/reviews).
    """
    return np.where(few, np.hypot(errors, unseen(spread, n, error)), errors)


def average(values: Floats, confidence: float) -> Estimate:
    """Mean of independent values with its interval; there is none if all values are equal.

    If fewer than 8 of them differ, it allows for unseen outcomes of the size of their spread.
    """
    error, mean = 1 - confidence, float(values.mean())
    if len(values) < 2:
        return Estimate.within(mean, None)
    spread = float(values.max() - values.min())
    if spread <= _ROUNDING * float(np.abs(values).max()):  # nothing varied, so nothing is known about other outcomes
        return Estimate.within(mean, None)
    errors, few = mean_errors(values[:, None], error, float(np.abs(values).max()))
    known = float(with_unseen(errors, few, spread, len(values), error)[0])
    return Estimate.around(mean, known + _ROUNDING * abs(mean))


def jackknife(statistic: Callable[[Floats], Floats], terms: Floats, confidence: float) -> Estimate:
    """A function of the means of terms [n, m] with its interval: Student's t and the jackknife's standard error.

    `statistic` maps means [..., m] to [...]. A large-sample interval. There is none if the statistic is not finite, or
    not without one of the rows.
    """
    from scipy.special import stdtrit

    total, n = terms.sum(axis=0), len(terms)
    value = float(statistic(total / n))
    if not math.isfinite(value) or n < 3:
        return Estimate.within(value, None)
    without = statistic((total - terms) / (n - 1))
    if not np.isfinite(without).all():
        return Estimate.within(value, None)
    error = math.sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))
    radius = float(stdtrit(n - 1, (1 + confidence) / 2))
    return Estimate.around(value, radius * error + _ROUNDING * abs(value))


RIGHT, MISTAKE, OPEN = "right", "mistake", "open"
GOOD, BAD, NONE, UNCLEAR = "good", "bad", "none", "unclear"

NEGLIGIBLE = 1e-9
"""Luck and regret that are known to be below this share of the values in question are none."""


@dataclass(frozen=True)
class Decision:
    """A step of an episode. All numbers are of the reference policy and not discounted.

    `judgement` is "right" if no action is better on average, "mistake" if one is, and "open" if the intervals do not
    tell. `fortune` is "good", "bad", "none" if the outcome of the action is certain, and "unclear" if the interval of
    the luck contains 0.
    """

    step: int
    state: str  # label of the state or observation, empty if it has none
    action: str
    best: str  # the action with the largest value
    reward: float
    value: Estimate  # v(s)
    action_value: Estimate  # q(s, a)
    skill: Estimate  # q(s, a) − v(s)
    luck: Estimate  # r + γ v(s') − q(s, a)
    regret: Estimate  # max_b q(s, b) − q(s, a)
    judgement: str
    fortune: str
    samples: int  # rollouts of each action; 0 if the values are exact

    @property
    def kind(self) -> str:
        """Decision and luck in words."""
        decided = {RIGHT: "right decision", MISTAKE: "mistake", OPEN: "undecided"}[self.judgement]
        return decided if self.fortune == NONE else f"{decided}, {self.fortune} luck"


def regret_of(values: StepValues, a: int) -> Estimate:
    """maxᵦ q(s, b) − q(s, a), from the joint intervals of the gaps."""
    gaps = values.action_values - values.action_values[a]
    low, high = (gaps - values.gap_errors).max(), (gaps + values.gap_errors).max()
    if not math.isfinite(high):
        return Estimate.within(float(gaps.max()), None)
    return Estimate(float(gaps.max()), max(0.0, float(low)), float(high))


def judgement_of(values: StepValues, a: int) -> str:
    """RIGHT, MISTAKE or OPEN: whether no action is better than a, one is, or the intervals do not tell."""
    gaps = values.action_values - values.action_values[a]
    others, negligible = np.arange(len(gaps)) != a, NEGLIGIBLE * float(np.abs(values.action_values).max())
    certified = values.samples == 0  # so that rounding is in the errors
    if (gaps - values.gap_errors).max() > (0.0 if certified else negligible):
        return MISTAKE
    most = float((gaps + values.gap_errors)[others].max(initial=-math.inf))
    return RIGHT if most <= negligible else OPEN


def fortune_of(luck: Estimate, size: float, certain: bool) -> str:
    """GOOD, BAD, NONE or UNCLEAR, for luck beside values of this size."""
    if luck.low > 0:
        return GOOD
    if luck.high < 0:
        return BAD
    return NONE if certain and luck.error <= NEGLIGIBLE * size else UNCLEAR
