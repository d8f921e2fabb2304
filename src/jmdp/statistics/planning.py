"""How many pairs a comparison takes: before it (`plan`), and from the samples so far (`needed`)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, cast

import numpy as np

from jmdp.base import rounding
from jmdp.base.arrays import Floats, Scale, dimensions, floats
from jmdp.base.interval import Estimate
from jmdp.base.settings import probability_value, real_number, short
from jmdp.errors import SettingsError
from jmdp.statistics import means
from jmdp.statistics.anytime import with_largest_loss
from jmdp.statistics.assumptions import Assumptions, positive
from jmdp.statistics.means import ENOUGH, FIXED, Sampling, Shape
from jmdp.statistics.selection import Margin

_MOST = 10**12
"""Pairs that nobody draws."""

FEWEST = 8
"""Gaps of the smallest pilot."""

_EARLY = 0.19
"""What earlier looks add to the probability of a decision by one of them, in standard errors: 0.25 to 0.1."""

Aim = Literal["difference", "precision", "margin"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Gaps:
    """What the number of samples depends on: the shape of the gaps, and what else their intervals allow for."""

    shape: Shape  # [1] each
    error: float  # error probability of one interval
    least: float  # samples before a sequential decision
    mean: float = 0.0
    samples: int = 0  # that the shape is estimated from; 0 if it is given
    tails: float = 3.0  # the kurtosis from which the error of the standard deviation is computed
    hidden: float = 0.0  # error of the mean by the horizon and by rounding
    loss: float = 0.0  # what an unseen event may cost
    spread: float | None = None  # of returns, if the question is about a margin

    @classmethod
    def of(cls, values: Floats, scale: Scale, **others: Any) -> Self:
        """From at least 8 gaps, in units of the scale."""
        n, (std, skewness, kurtosis) = len(values), means.shape_of(values[:, None])
        cut = int(n / (2 * math.sqrt(n - 4)))
        about = (values - np.sort(values)[cut : n - cut].mean()) / (float(std[0]) or math.inf)
        tails = float((about**4).sum()) * n / (n - 1) ** 2
        shape = scale.restore(std), skewness, kurtosis
        return cls(shape=shape, mean=scale.restore(float(values.mean())), samples=n, tails=tails, **others)

    @property
    def std(self) -> Estimate:
        """Standard deviation, with an approximate interval if it is estimated.

        The limits of ln σ² are ln(c s²) ± z c √((κ − (n − 3)/n)/(n − 1)), c = n/(n − z), with κ the kurtosis about a
        trimmed mean (Bonett, "Approximate confidence interval for standard deviation of nonnormal distributions", CSDA
        2006). z is that of 95% below and of 99% above, where long tails are missed.
        """
        std, n = float(self.shape[0][0]), self.samples
        if n == 0:
            return Estimate(std, std, std)
        wide = math.sqrt(max(0.0, self.tails - (n - 3) / n) / (n - 1))
        ends = ((z, n / (n - abs(z))) for z in (-1.6449, 2.3263))
        low, high = (std * math.sqrt(c) * math.exp(z * c * wide / 2) for z, c in ends)
        return Estimate(std, low, high)

    def ends(self) -> list[Gaps]:
        """Gaps that need fewer and more samples; none if the standard deviation is given.

        The lower end of the standard deviation, normal; and the upper one, with twice the skewness and kurtosis of the
        samples, since the longest tails are rarely among them.
        """
        std, (_, skewness, kurtosis) = self.std, self.shape
        low: Shape = np.array([std.low]), np.zeros(1), np.full(1, 3.0)
        high: Shape = np.array([std.high]), 2 * skewness, 2 * kurtosis
        return [replace(self, shape=shape) for shape in (low, high)] if self.samples else []

    def relative_to(self, unit: float) -> Gaps:
        """The same gaps in other units, so that sums and products stay in range."""
        std, spread = max(float(self.shape[0][0]) / unit, 1e-200), None if self.spread is None else self.spread / unit
        found = replace(self, mean=self.mean / unit, hidden=self.hidden / unit, loss=self.loss / unit, spread=spread)
        return replace(found, shape=(np.array([std]), *self.shape[1:]))

    def _enough(self, n: int, size: float, aim: Aim, sampling: Sampling, quantile: float) -> bool:
        """Whether n samples suffice, if their mean or variance is as unfavourable as this normal quantile."""
        if self.spread is not None:
            both = [means.errors_with_spread(n, self.shape, sampling.radius(n, self.error), self.spread)] * 2
        elif sampling.kind == "fixed":
            std, skewness, kurtosis = self.shape  # the skewness of n normal samples is ± 2/√n on average: half counts
            both = list(means.fixed_errors_of(n, (std, skewness - 1 / math.sqrt(n), kurtosis), self.error))
        else:
            both = [means.sequential_errors(n, self.shape, sampling.radius(n, self.error), self.error)] * 2
        spread, tails = float(self.shape[0][0]), float(self.shape[2][0])
        below, above = (float(with_largest_loss(one, self.loss, n, self.error)[0]) + self.hidden for one in both)
        if aim == "precision":
            return (below + above) / 2 * math.sqrt(1 + quantile * math.sqrt((tails - 1) / n)) <= size
        return below + quantile * spread / math.sqrt(n) <= size

    def fixed(self, size: float, aim: Aim, quantile: float) -> float:
        """Number of samples to be chosen in advance; infinite if it is too large."""
        least = means.FEW + 1 if self.spread is None else ENOUGH
        most = least
        while not self._enough(most, size, aim, FIXED, quantile):
            most *= 2
            if most > _MOST:
                return math.inf
        return bisect_left(range(most), True, least, key=lambda n: self._enough(n, size, aim, FIXED, quantile))

    def sequential(self, size: float, aim: Aim, quantile: float = 0.0, after: int = 0) -> float:
        """The look at which sequential samples decide; infinite if it is too late."""
        n = max(after, math.ceil(self.least) - 1)
        while n < _MOST:
            n = Sampling().next_look(n)
            if self._enough(n, size, aim, Sampling(), quantile):
                return n
        return math.inf

    def counts(self, aim: Aim, quantile: float, early: float) -> tuple[float, float, float]:
        """Samples chosen in advance for a size of 1, and those of sequential sampling: median, and at this quantile."""
        if self.hidden >= 1 or self.std.high > math.sqrt(_MOST):
            return math.inf, math.inf, math.inf
        late = self.sequential(1.0, aim, quantile - early)
        return self.fixed(1.0, aim, quantile), self.sequential(1.0, aim, -early), late


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan:
    """How many pairs of samples a comparison will take. Printing it shows the numbers.

    `fixed` is the number for ``samples=n``. Without `samples`, sampling stops when the question is decided: for half of
    all seeds within `median` pairs, and with probability `power` within `most`; by default these are at least 64. A
    pilot gives a range of each. In simulations of differences of 0.1 to 0.5 standard deviations, the ranges of 64 gaps
    included the right number in 94% of pilots or more if gaps are normal, in 75% or more if they are exponential, and
    in 62% or more if they are lognormal or have a t distribution with 3 degrees of freedom. If the standard deviation
    is given, ranges are single numbers.
    """

    aim: Aim
    size: float  # the difference, precision or margin, in units of the return
    power: float
    confidence: float
    std: Estimate  # of the gap
    pilot: int | None  # its number of pairs; None if the standard deviation is given
    fixed: int
    fixed_range: tuple[int, int]
    median: int
    median_range: tuple[int, int]
    most: int
    most_range: tuple[int, int]

    def __repr__(self) -> str:
        power, size = f"{100 * self.power:.6g}%", rounding.without_zeros(self.size, 4, 6)
        said = {
            "difference": f"To find a mean gap of {size} with a probability of {power}",
            "precision": f"To know the mean gap to ± {size} with a probability of {power}",
            "margin": f"If there is no loss, to exclude one of {size} with a probability of {power}",
        }[self.aim]
        rows = {
            "fixed in advance (samples=n)": (self.fixed, self.fixed_range),
            "until decided, median": (self.median, self.median_range),
            f"until decided, {power} within": (self.most, self.most_range),
        }
        wide = max(len(f"{n:,}") for n, _ in rows.values())
        lines = [f"{said}, at {rounding.confidence_percent(self.confidence)} confidence:", ""]
        for name, (n, (low, high)) in rows.items():
            between = "" if self.pilot is None else f"   {low:,} to {high:,}"
            lines.append(f"  {name:<30}  {n:>{wide},} pairs{between}")
        std, low_std, high_std = (rounding.without_zeros(x, 3, 6) for x in (self.std, self.std.low, self.std.high))
        from_pilot = "" if self.pilot is None else f", {low_std} to {high_std} from a pilot of {self.pilot:,} pairs"
        return "\n".join([*lines, "", f"The standard deviation of the gap is {std}{from_pilot}."])


def plan(
    pilot: Any,
    *,
    difference: float | None = None,
    precision: float | None = None,
    margin: Margin | float | str | None = None,
    power: float = 0.9,
    confidence: float | None = None,
) -> Plan:
    """How many pairs of samples will it take?

    Parameters
    ----------
    pilot
        A comparison with a few samples, such as ``jmdp.compare_policies(…, samples=64)``, of which the gap between the
        best two, or between the best and the baseline, is used; or gaps, an array; or their standard deviation.
    difference
        The mean gap that is to be found, if it is so large.
    precision
        The half-width of the interval of the mean gap.
    margin
        The loss that is to be excluded if there is none: 5, or "2%" of the mean of the baseline. The pilot is then a
        comparison, because intervals for margins allow for unseen events that cost a whole episode.
    power
        Probability of that result.
    confidence
        Confidence level of the intervals: by default that of the comparison, or 0.95.

    Intervals are large-sample intervals, with the skewness of the pilot. A `return_range` is not used.
    """
    given = {"difference": difference, "precision": precision, "margin": margin}
    if callable(getattr(pilot, "plan", None)):
        found: Plan = pilot.plan(**given, power=power, confidence=confidence)
        return found
    confidence = probability_value("confidence", 0.95 if confidence is None else confidence)
    others: dict[str, Any] = {"error": 1 - confidence, "least": fewest(Assumptions().rarest, confidence)}
    aim, size = asked(given)
    if isinstance(size, Margin):
        raise SettingsError("margin= needs a comparison as the pilot: found.plan(margin=…). Or give difference=.")
    std = real_number(pilot)
    if 0 < std < math.inf:
        given_std = Gaps(shape=(np.array([std]), np.zeros(1), np.full(1, 3.0)), **others)
        return planned(given_std, aim, size, power, confidence)
    values = floats("pilot", pilot, "[n]", SettingsError) if dimensions(pilot) == 1 else np.empty(0)
    if len(values) < FEWEST or not np.isfinite(values).all():
        raise SettingsError(
            f"pilot is {short(pilot)}. Give a comparison, an array of at least {FEWEST} gaps, or their standard "
            "deviation, a number > 0."
        )
    scale = Scale.above(float(np.abs(values).max()))
    return planned(Gaps.of(scale.divide(values), scale, **others), aim, size, power, confidence)


def fewest(rarest: float, confidence: float) -> float:
    """Samples before a sequential decision: an outcome of probability `rarest` is among them with this confidence."""
    return max(ENOUGH, -math.log(1 - confidence) / rarest)


def asked(given: Mapping[str, Any]) -> tuple[Aim, float | Margin]:
    """The one of difference, precision and margin that is given."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        said = f"{' and '.join(names)} are given" if names else "There is nothing to plan for"
        raise SettingsError(f"{said}. Give one of difference=, precision= and margin=.")
    name = cast(Aim, names[0])
    return name, Margin.of(given[name]) if name == "margin" else cast(float, positive(name, given[name]))


def planned(gaps: Gaps, aim: Aim, size: float, power: float, confidence: float) -> Plan:
    """The plan for these gaps."""
    from scipy.special import ndtri

    power = probability_value("power", power)
    quantile, early = float(ndtri(power)), 0.0 if aim == "precision" else _EARLY
    if not 0 < gaps.std < math.inf:
        raise SettingsError(
            f"All {gaps.samples} gaps of the pilot are equal, so their standard deviation is not known. Draw a larger "
            "pilot."
        )
    relative = gaps.relative_to(size)
    counts = [one.counts(aim, quantile, early) for one in (relative, *relative.ends())]
    if any(math.inf in one for one in counts):
        cut = f", and an error of {gaps.hidden:.3g} by the horizon" if gaps.hidden > size / 10 else ""
        raise SettingsError(
            f"{aim} is {size:.3g}, and the gap has a standard deviation of {float(gaps.std):.3g}{cut}: more than "
            f"{_MOST:,} pairs. Give a larger {aim}."
        )
    found: dict[str, Any] = {}
    for name, values in zip(("fixed", "median", "most"), zip(*counts, strict=True), strict=True):
        found |= {name: values[0], f"{name}_range": (min(values), max(values))}
    return Plan(
        aim=aim, size=size, power=power, confidence=confidence, std=gaps.std, pilot=gaps.samples or None, **found
    )


def needed(
    gaps: Sequence[Gaps], *, baseline: bool, indifference: float = 0.0, precision: float | None = None
) -> tuple[float, float] | None:
    """Samples until all these gaps are decided: N(|mean| ± 1.28 standard errors), at least and at most.

    N(x) is the look at which a mean gap of x is decided; infinite if it never is. With a baseline, a gap is also
    decided if it is known to be within ± `indifference`; without one, if it is known to be above −`indifference`. None
    if gaps do not vary.
    """
    found = []
    for one in gaps:
        std, n = float(one.std), one.samples
        if not 0 < std < math.inf:
            return None
        relative, off, same = one.relative_to(std), 1.2816 / math.sqrt(n), indifference / std
        near, far = max(0.0, abs(relative.mean) - off), abs(relative.mean) + off
        if precision is not None:
            near = far = precision / std
        elif baseline:
            near, far = max(near, same - far, same / 2), max(far, same - near)
        else:
            near, far = near + same, far + same
        aim: Aim = "difference" if precision is None else "precision"
        found.append([relative.sequential(size, aim, after=n) for size in (far, near)])
    return (max(low for low, _ in found), max(high for _, high in found)) if found else None


def needed_words(low: float, high: float, unit: str, what: str = "a decision", cut: int | None = None) -> str:
    """`needed` in words, to two digits; an upper end that is much larger than the lower one says nothing.

    `cut` is the horizon, if later rewards may be left out: what no number of samples decides is hidden by them.
    """
    if low == math.inf:
        later = f": rewards after step {cut} may outweigh the gap. Give a larger horizon="
        return f"{what} is never reached{later if cut is not None else ''}"
    least, most = (f"{float(f'{n:.2g}'):,.0f}" for n in (low, high))
    if high > 100 * low:
        return f"{what} would need about {least} {unit} or more, or is never reached"
    return f"{what} would need about {least if least == most else f'{least} to {most}'} {unit}"


def expected_pairs(std: float, distance: float, error: float, *, running: bool) -> float:
    """How many pairs until the interval of a mean gap is as narrow as its distance from a margin, on average.

    For a number fixed in advance (t σ/√n), or with intervals that hold at all n; infinite if the distance is 0.
    """
    if std == 0 or distance <= 0:
        return math.inf if distance <= 0 else 2.0
    sampling, n = Sampling("sequential" if running else "fixed"), 8.0
    for _ in range(100):
        radius = sampling.radius(max(2, math.ceil(n)), error / 2 if running else error)
        again = n * 2 if math.isinf(radius) else (radius * std / distance) ** 2
        if abs(again - n) <= 1e-3 * n:
            break
        n = max(2.0, again)
    return n
