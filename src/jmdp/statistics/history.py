"""What a recorded history says: its gaps by period, and for how many independent periods it counts.

Length of the blocks of resampled histories, by the dependence of the gaps of successive periods.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.recorded_luck import RecordedLuck
from jmdp.errors import SettingsError
from jmdp.statistics.means import Sampling

FEWEST_PERIODS = 50
"""Effective periods below which resampled histories give no interval."""

_SURE = 1.645
"""Standard errors by which the number of effective periods must exceed this: 95% sure."""

_REACHES = 10
"""Blocks are so many times as long as the dependence reaches: their spread is then at most 5% too small."""

_FEWEST_BLOCKS = 4
"""Blocks of a history, at least."""

_LEAST_LEFT = 0.5
"""Smallest part of the variance that blocks may leave, for an interval that corrects it."""


@dataclass(frozen=True)
class HistoryUse:
    """How a comparison used a recorded history. Numbers are None if runs returned none by period."""

    name: str  # of a period: "day"
    periods: int
    first: str
    last: str
    purposes: tuple[str, ...]
    season: int
    block: int | None = None  # of resampled histories; None: the history as it was
    effective: float | None = None  # for how many independent periods the history counts, by its gaps
    lacks: str = ""  # why there is no interval
    freedom: float = 0.0  # degrees of freedom of the spread of resampled histories; 0: no interval
    widening: float = 1.0  # by which their spread is multiplied, because blocks cut the dependence at their ends
    totals: tuple[float, ...] | None = None  # what each alternative earned in the history
    marks: str = ""  # the columns that say where a purpose hides what it would have been
    censored: int = 0  # periods in which it does
    hidden: tuple[float, ...] | None = None  # what each alternative earned in these

    @classmethod
    def of(cls, history: RecordedLuck, values: Floats | None) -> HistoryUse:
        """The use of a history in which alternatives earned these values [T, A]; None if they are not known."""
        censored = history.hidden()
        totals = hidden = None
        if values is not None:
            totals, hidden = (tuple(found.sum(axis=0).tolist()) for found in (values, values[censored]))
        return cls(
            history.period,
            len(history),
            str(history.periods[0]),
            str(history.periods[-1]),
            tuple(history.purposes),
            history.season,
            history.block if history.is_resampled else None,
            totals=totals,
            marks=" or ".join(history.censored.values()),
            censored=len(censored),
            hidden=hidden,
        )

    @property
    def resampled(self) -> bool:
        """Whether samples were other histories, made of its blocks."""
        return self.block is not None

    def sampling(self, looks: int) -> Sampling:
        """How resampled histories are examined."""
        return Sampling("histories", looks=looks, freedom=self.freedom, widening=self.widening)

    def gap(self, first: int, second: int) -> float | None:
        """How much more one alternative earned than another in the history itself."""
        return None if self.totals is None else self.totals[first] - self.totals[second]

    def hidden_gap(self, first: int, second: int) -> float | None:
        """The part of this in periods that hide what would have been."""
        return None if self.hidden is None else self.hidden[first] - self.hidden[second]


@dataclass(frozen=True)
class Dependence:
    """How the values x of T successive periods depend on one another, with γ_k = Cov(x_t, x_{t+k}) and g = Σ_k γ_k.

    Estimated by autoregressions: of order 1, and of the order with the smallest AIC; the larger of both. A season is
    subtracted before, since resampled histories keep it.
    """

    periods: int  # T
    factor: float  # g/γ₀: the sum of T periods varies as much as that of T γ₀/g independent ones
    reach: float  # Σ_k |k| γ_k/g, in periods: blocks of length ℓ leave the share 1 − reach/ℓ of the variance
    differ: float  # share of the periods whose value is not the most frequent one

    @classmethod
    def of(cls, values: Floats, season: int) -> Dependence | None:
        """The dependence of values [T]; None if they do not vary."""
        T, phase = len(values), np.arange(len(values)) % season
        x = values - (np.bincount(phase, values) / np.bincount(phase))[phase]
        if np.abs(x).max() <= 1e-12 * np.abs(values).max(initial=0.0):
            return None
        differ = float((values != np.sort(values)[(T - 1) // 2]).mean())
        most = max(1, min(int(10 * math.log10(T)), T // 4))
        covariances = np.array([x[: T - k] @ x[k:] for k in range(most + 1)]) / T
        first = max(one[0] for one in _autoregressions(covariances, T))
        # The mean that was subtracted, and the missing terms of long lags, make covariances too small: once corrected.
        k = np.arange(most + 1)
        corrected = covariances * T / (T - k) + min(first, T / 4) * covariances[0] / T
        found = _autoregressions(corrected, T)
        return cls(T, max(one[0] for one in found), max((one[1] for one in found), key=abs), differ)

    @property
    def effective(self) -> float:
        """For how many independent periods these count, at most all of them."""
        return min(self.periods, self.periods / self.factor)

    def lacks(self, block: int) -> str:
        """Why these values give no interval with blocks of this length; empty if they do.

        The logarithm of the factor f has a standard error of about (1 + 1/f)/√effective, that of an autoregression of
        order 1 with this factor. If most values are equal, the others must count for half of `FEWEST_PERIODS`.
        """
        surely = self.effective * math.exp(-_SURE * (1 + 1 / self.factor) / math.sqrt(self.effective))
        if self.effective < FEWEST_PERIODS:
            return f"fewer than {FEWEST_PERIODS}"
        if surely < FEWEST_PERIODS:
            return f"perhaps only {surely:.0f}, fewer than {FEWEST_PERIODS}"
        if self.effective * self.differ < FEWEST_PERIODS / 2:
            return f"and all but about {self.effective * self.differ:.0f} of them have the same gap"
        return "" if self.left(block) >= _LEAST_LEFT else "and these blocks are too short for them, or too long"

    @property
    def block(self) -> int:
        """Length of blocks for an interval.

        With the length that makes the error of the variance smallest, (3/2 reach² T)^(1/3) (Politis & White, "Automatic
        block-length selection for the dependent bootstrap", Econometric Reviews 2004), blocks of short histories lose
        too much of it, and intervals are too narrow: blocks are at least ten times as long as the dependence reaches.
        Where gaps alternate, as those of rules that order in turn, the reach is negative, and short blocks are safe.
        """
        best = float(1.5 * self.reach**2 * self.periods) ** (1 / 3)
        longest = max(1, self.periods // _FEWEST_BLOCKS)
        wanted: int = max(1, math.ceil(_REACHES * self.reach), math.ceil(best))
        return min(longest, wanted)

    def left(self, block: int) -> float:
        """Share of the variance of the sum that blocks of this length leave: their ends and the mean take the rest."""
        return 1 - max(0.0, self.reach) / block - block / self.periods


def _autoregressions(covariances: Floats, periods: int) -> list[tuple[float, float]]:
    """g/γ₀ and the reach by autoregressions with these autocovariances: of order 1, and of the best one by AIC."""
    weights, noise = np.zeros(0), float(covariances[0])
    found: list[tuple[float, Floats, float]] = []
    for p in range(1, len(covariances)):  # Levinson's recursion
        partial = float(covariances[p] - weights @ covariances[1:p][::-1]) / noise
        if not abs(partial) < _UNIT:
            break
        weights = np.append(weights - partial * weights[::-1], partial)
        noise *= 1 - partial**2
        found.append((periods * math.log(noise) + 2 * p, weights, noise))
    if not found:  # a random walk, as far as can be seen
        return [((1 + _UNIT) / (1 - _UNIT), 2 * _UNIT / (1 - _UNIT**2))]
    return [_of_weights(*one[1:], float(covariances[0])) for one in (found[0], min(found, key=lambda one: one[0]))]


_UNIT = 0.999
"""Partial correlations from here on are those of a series without a mean."""

_LAGS = 1000
"""Lags of the covariances of an autoregression that are summed."""


def _of_weights(weights: Floats, noise: float, variance: float) -> tuple[float, float]:
    """g/γ₀ and the reach of an autoregression: from the covariances of its moving average."""
    p = len(weights)
    effects = np.zeros(_LAGS)
    effects[0] = 1.0
    for i in range(1, _LAGS):
        effects[i] = weights[: min(i, p)] @ effects[max(0, i - p) : i][::-1]
    covariances = noise * np.correlate(effects, effects, "full")[_LAGS - 1 :]
    total = noise / float(1 - weights.sum()) ** 2
    return total / variance, 2 * float(np.arange(_LAGS) @ covariances) / total


def used(
    history: RecordedLuck, values: Mapping[str | None, Floats | None]
) -> tuple[RecordedLuck, dict[str | None, HistoryUse]]:
    """The history, with blocks of the length that the gaps [T, A] of each measure need, and its use by measure."""
    if not history.is_resampled:
        return history, {name: HistoryUse.of(history, found) for name, found in values.items()}
    gaps: dict[str | None, list[Dependence]] = {}
    for name, found in values.items():
        pairs = [] if found is None else combinations(found.T, 2)
        known = (Dependence.of(first - second, history.season) for first, second in pairs)
        gaps[name] = [one for one in known if one is not None]
        if found is None and history.block is None:
            raise SettingsError(
                f"The length of blocks is chosen from the gaps of each {history.period}, but runs return one number "
                f"for all. Return a list of {len(history)} numbers, one for each {history.period}; or give the "
                "length, history.resampled(block=14), and there is no interval."
            )
    if history.block is None:
        history = history.in_blocks(max((one.block for some in gaps.values() for one in some), default=1))
    return history, {name: _of_gaps(HistoryUse.of(history, found), gaps[name]) for name, found in values.items()}


def _of_gaps(use: HistoryUse, gaps: Sequence[Dependence]) -> HistoryUse:
    """The use of a resampled history, with what its gaps say about intervals.

    The variance of sums of blocks has 3/2 T/ℓ degrees of freedom, as the Bartlett estimator that it equals.
    """
    if not gaps or use.block is None:
        return use
    weakest = min(gaps, key=lambda one: one.effective)
    lacks = next(filter(None, (one.lacks(use.block) for one in (weakest, *gaps))), "")
    if lacks:
        return replace(use, effective=weakest.effective, lacks=lacks)
    freedom, left = 1.5 * use.periods / use.block, min(one.left(use.block) for one in gaps)
    return replace(use, effective=weakest.effective, freedom=freedom, widening=1 / math.sqrt(left))
