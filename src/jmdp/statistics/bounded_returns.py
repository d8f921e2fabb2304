"""Anytime-valid confidence intervals for any distribution of returns within a known range."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Floats
from jmdp.base.interval import Interval
from jmdp.errors import SettingsError
from jmdp.simulators.rollouts.draws import ENDED, Draws
from jmdp.statistics import anytime
from jmdp.statistics.selection import Limits


@dataclass(frozen=True, eq=False)
class BoundedReturns:
    """Intervals of means of returns and gaps, and of variances of gaps, for returns within [least, most].

    Returns up to the horizon must be within the range too: their mean is the estimate that the interval belongs to.

    The intervals include truncation at the horizon and rounding: a truncated sample enters with both ends of the
    interval that contains its return.
    """

    draws: Draws
    limits: Limits
    least: float
    most: float
    error: float  # probability that an interval fails at any time

    def __post_init__(self) -> None:
        returns, off = self.draws.returns, self.limits.rounding
        outside = (returns < self.least - off) | (returns > self.most + off)
        if outside.any():
            at = np.unravel_index(int(outside.argmax()), outside.shape)
            cut = "" if self.draws.ends[at] == ENDED else " up to the horizon"
            raise SettingsError(
                f"return_range is ({self.least!r}, {self.most!r}), but a return of {returns[at]:.6g}{cut} was "
                "observed. Widen return_range or omit it."
            )

    @property
    def width(self) -> float:
        """Width of the range: the largest possible gap and regret."""
        return self.most - self.least

    @cached_property
    def means(self) -> tuple[Floats, Floats]:
        """Lower and upper confidence limits of E[Z(a)], [A]."""
        hidden = np.where(self.draws.ends == ENDED, 0.0, self.limits.cut)
        returns = self.draws.returns
        return self._limits(returns - hidden, returns + hidden, self.least, self.most, self.limits.rounding)

    @cached_property
    def gap_means(self) -> tuple[Floats, Floats]:
        """Lower and upper confidence limits of E[Z(a) − Z(b)], [A, A]; 0 on the diagonal."""
        A = self.draws.returns.shape[1]
        first, second = np.triu_indices(A, 1)
        gaps, hidden = self._gaps(first, second)
        found = self._limits(gaps - hidden, gaps + hidden, -self.width, self.width, 2 * self.limits.rounding)
        low, high = np.zeros((2, A, A))
        low[first, second], high[first, second] = found
        low[second, first], high[second, first] = -found[1], -found[0]
        return low, high

    def gaps_of(self, a: int) -> tuple[Floats, Floats]:
        """Lower and upper confidence limits of E[Z(a) − Z(b)] for all b, [A]."""
        others = np.delete(np.arange(self.draws.returns.shape[1]), a)
        gaps, hidden = self._gaps(np.full_like(others, a), others)
        low, high = np.zeros((2, others.size + 1))
        low[others], high[others] = self._limits(
            gaps - hidden, gaps + hidden, -self.width, self.width, 2 * self.limits.rounding
        )
        return low, high

    def combination(self, values: Floats, hidden: Floats, weights: Floats, off: float) -> tuple[float, float]:
        """Confidence limits of the mean of Σ weight × return: `values` [n], known up to `hidden` [n] and `off`."""
        ends = weights * self.least, weights * self.most
        least, most = float(np.minimum(*ends).sum()), float(np.maximum(*ends).sum())
        low, high = self._limits((values - hidden)[:, None], (values + hidden)[:, None], least, most, off)
        return float(low[0]), float(high[0])

    def gap_variance(self, a: int, b: int) -> Interval:
        """Interval of Var(Z(a) − Z(b)), the mean of half the squared difference of disjoint pairs of samples."""
        gaps, hidden = self._gaps(np.array([a]), np.array([b]))
        even = len(gaps) - len(gaps) % 2
        apart = np.abs(gaps[0:even:2] - gaps[1:even:2])
        unsure = hidden[0:even:2] + hidden[1:even:2] + 4 * self.limits.rounding
        low, high = np.maximum(apart - unsure, 0.0), apart + unsure
        size = 2 * self.width  # divides before squaring, so that the squares are at most 1
        found = self._limits((low / size) ** 2, (high / size) ** 2, 0.0, 1.0, 0.0)
        spread = size / np.sqrt(2) * np.sqrt([max(0.0, end) for end in (found[0][0], found[1][0])])
        with np.errstate(over="ignore"):
            wide = np.square(np.clip(spread, 0.0, self.width)) * (1 + np.array([-1, 1]) * 2.0**-48)
        return Interval(float(wide[0]), float(wide[1]))

    def _gaps(self, first: npt.NDArray[Any], second: npt.NDArray[Any]) -> tuple[Floats, Floats]:
        """Gaps [n, P] and bounds on their truncation errors."""
        returns, ends = self.draws.returns, self.draws.ends
        hidden = np.where(ends[:, first] == ends[:, second], 0.0, 2 * self.limits.cut)
        return returns[:, first] - returns[:, second], hidden

    def _limits(self, low: Floats, high: Floats, least: float, most: float, off: float) -> tuple[Floats, Floats]:
        return bounded_limits(low, high, least, most, off, self.error)


def bounded_limits(
    low: Floats, high: Floats, least: float, most: float, off: float, error: float
) -> tuple[Floats, Floats]:
    """Confidence limits [P] of means of variables within [least, most], from samples in [low − off, high + off]."""
    if not len(low):  # nothing is known
        return np.full(low.shape[1], least), np.full(low.shape[1], most)
    size = most - least
    first, last = (np.clip((values - least) / size, 0.0, 1.0) for values in (low, high))
    below, above = anytime.bounded_means(first, last, error)
    rounding = off + 2.0**-48 * max(abs(least), abs(most))
    return np.maximum(least, least + size * below - rounding), np.minimum(most, least + size * above + rounding)
