"""Bootstrap intervals of averages over held-out states: states are resampled, each with all its gaps and rollouts.

Rollouts of different states are independent, so resampling states includes the noise of rollouts; resampling rollouts
as well would count it twice. `jackknife` estimates the noise of rollouts alone, for fixed states.

Verdict on a learner from its calibration: better than a constant prediction or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from statistics import NormalDist

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.interval import Estimate
from jmdp.base.luck import Shock


class Judgement(Enum):
    """Verdict on a learner from held-out states."""

    USEFUL = "better than a constant"
    NOT_BETTER = "not better than a constant"
    NOTHING_VARIED = "nothing varied"

    @classmethod
    def of(cls, gain: Estimate, *, varied: bool) -> Judgement:
        """`USEFUL` only if the whole 95% interval of the gain over the constant is above 0."""
        if not varied:
            return cls.NOTHING_VARIED
        return cls.USEFUL if gain.low > ROUNDING else cls.NOT_BETTER


CONFIDENCE = 0.95
"""Confidence of every interval in this module."""

ROUNDING = 1e-12
"""Relative differences up to this size are treated as rounding errors."""

UNKNOWN = Estimate(math.nan, -math.inf, math.inf)
"""Estimate of an undefined quantity."""

_SIDE = (1 - CONFIDENCE) / 2
NORMAL = NormalDist().inv_cdf(1 - _SIDE)
"""Normal quantile of a two-sided interval: 1.96."""

_RESAMPLES = 1000


def generator(seeds: Sequence[int], purpose: bytes) -> np.random.Generator:
    """Random generator derived from the seeds of a simulation, independent of the simulation's own draws."""
    return Shock.of_sample(seeds[0], 0).derived(purpose, where=repr(tuple(map(int, seeds))).encode()).generator()


class StateBootstrap:
    """Bootstrap intervals over states for statistics with one value per gap.

    Parameters
    ----------
    place
        [M], the state of each gap, numbered consecutively from 0.
    seeds
        Seeds of the simulation; they determine the resamples.
    """

    def __init__(self, place: Integers, seeds: Sequence[int]) -> None:
        self.states = int(place.max()) + 1
        self._place, self._seeds = place, seeds

    def sums(self, values: Floats) -> Floats:
        """Sums over the gaps of each state, [M, …] → [states, …]."""
        total = np.zeros((self.states, *values.shape[1:]))
        np.add.at(total, self._place, values)
        return total

    def quotient(self, top: Floats, bottom: Floats, least: float = -math.inf) -> Estimate:
        """Σ top / Σ bottom, with a studentised bootstrap interval (Efron & Tibshirani 1993, section 12.5).

        Its coverage is better than that of percentiles if few states dominate the sums. The interval is unbounded for a
        single state; the value is nan if Σ bottom is 0.
        """
        if not bottom.any():
            return UNKNOWN
        above, below = self.sums(top), self.sums(bottom)
        value = float(above.sum() / below.sum())
        rest = above - value * below
        error = math.sqrt(rest @ rest) / float(below.sum())
        if self.states == 1:
            return Estimate(value, least, math.inf)
        if error <= ROUNDING * abs(value):
            return Estimate(value, value, value)
        drawn = self._drawn()
        with np.errstate(divide="ignore", invalid="ignore"):
            total = below @ drawn
            off = rest @ drawn / total
            spread = rest**2 @ drawn - 2 * off * ((rest * below) @ drawn) + off**2 * (below**2 @ drawn)
            low, high = _ends(off * total / np.sqrt(np.maximum(spread, 0.0)))
        return Estimate(value, max(value - high * error, least), value - low * error)

    def percentiles(
        self, statistic: Callable[[Floats], Floats], limits: tuple[float, float] = (-math.inf, math.inf)
    ) -> Estimate:
        """A statistic of the weights [M, resamples] of the gaps, with its percentile interval."""
        gaps = self._place.size
        value = float(statistic(np.ones((gaps, 1)))[0])
        if math.isnan(value) or self.states == 1:
            return Estimate(value, *limits)
        low, high = _ends(statistic(self._drawn()[self._place]))
        return Estimate(value, max(min(low, value), limits[0]), min(max(high, value), limits[1]))

    def _drawn(self) -> Floats:
        """[states, resamples], number of times each state is drawn in a resample of the original size."""
        n = self.states
        draws = generator(self._seeds, b"bootstrap of states").integers(
            n, size=(n, _RESAMPLES)
        )  # many times faster than a multinomial
        place = draws * _RESAMPLES + np.arange(_RESAMPLES)
        return np.bincount(place.ravel(), minlength=n * _RESAMPLES).reshape(n, _RESAMPLES).astype(np.float64)


class Ranks:
    """Centred ranks of weighted values; equal values have equal ranks."""

    def __init__(self, values: Floats) -> None:
        self._order = np.argsort(values)
        self._group = np.unique(values, return_inverse=True)[1]
        self._begins = np.searchsorted(self._group[self._order], np.arange(self._group.max() + 1))

    def __call__(self, weights: Floats) -> Floats:
        """Ranks minus their mean, for weights [M, resamples]."""
        together = weights[self._order]
        if self._begins.size < self._order.size:
            together = np.add.reduceat(together, self._begins, axis=0)
        ranks = np.cumsum(together, axis=0)
        mean = ranks[-1] / 2
        together /= 2
        ranks -= together
        ranks -= mean
        return np.asarray(ranks[self._group])


def rank_correlation(weights: Floats, x: Ranks, y: Ranks) -> Floats:
    """Spearman's rank correlation, [resamples]; nan if x or y is constant."""
    one, other = x(weights), y(weights)
    weighted = weights * one
    product, squares = np.einsum("mb,mb->b", weighted, other), np.einsum("mb,mb->b", weighted, one)
    np.multiply(weights, other, out=weighted)
    return _over_roots(product, squares, np.einsum("mb,mb->b", weighted, other))


def cosine(weights: Floats, x: Floats, y: Floats) -> Floats:
    """Σ xy/√(Σx² Σy²) for x and y of shape […, M]: […, resamples]; nan if x or y is 0."""
    return _over_roots((x * y) @ weights, x**2 @ weights, y**2 @ weights)


def _over_roots(product: Floats, one: Floats, other: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((one > 0) & (other > 0), product / np.sqrt(one) / np.sqrt(other), np.nan)


def jackknife(squares: Floats) -> Floats:
    """Variance of the estimate Σ squares/(n − 1) of a variance, given squared deviations: [M, n] → [M].

    For normal samples it is 2/(n − 2) of the squared variance instead of the true 2/(n − 1): conservative.
    """
    n = squares.shape[1]
    return np.asarray(squares.var(axis=1) * n * n / ((n - 1) * (n - 2) ** 2))


def _ends(resampled: Floats) -> tuple[float, float]:
    """Ends of the percentile interval; nan counts as −∞ for the lower end and as ∞ for the upper one."""
    cut = math.floor(_SIDE * (resampled.size - 1))
    low = np.sort(np.where(np.isnan(resampled), -np.inf, resampled))
    high = np.sort(np.where(np.isnan(resampled), np.inf, resampled))
    return float(low[cut]), float(high[-1 - cut])


def square_root(estimate: Estimate) -> Estimate:
    """Square root of the value and of both ends; negative numbers count as 0."""
    return Estimate(*(math.sqrt(max(end, 0.0)) for end in (float(estimate), estimate.low, estimate.high)))
