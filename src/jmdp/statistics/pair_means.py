"""Intervals for the question whether one alternative is worse than another by more than a margin."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate
from jmdp.simulators.rollouts.draws import ENDED, Draws
from jmdp.statistics.anytime import Unseen, with_largest_loss
from jmdp.statistics.bounded_returns import BoundedReturns
from jmdp.statistics.means import ENOUGH, Sampling, Strata, centred, errors_with_spread, mean_of, shape_of
from jmdp.statistics.planning import Gaps
from jmdp.statistics.selection import Limits, Margin

_SIGN = 0.1
"""Part of the error probability that a relative margin spends on the sign of the mean it refers to."""

_HALVINGS = 40
"""Steps that find the limits of a relative change: to 1e-12 of the first bracket."""


@dataclass(frozen=True, eq=False)
class PairMeans:
    """Intervals of linear combinations of two mean returns, E[new] and E[old], valid at the looks of `sampling`.

    Without a `return_range` they are large-sample intervals, and an event that was never seen may change the gap by D:
    the range of all returns of both alternatives, or the mean |return| if that is larger, which is what losing a whole
    episode costs; or `largest_loss`, if given. The intervals include it (`with_largest_loss`).

    Intervals include truncation at the horizon and rounding.
    """

    draws: Draws  # [n, 2]: new, old
    limits: Limits
    error: float  # probability that a verdict is wrong, at any of the looks
    return_range: tuple[float, float] | None
    sampling: Sampling
    largest_loss: float | None  # in an unseen event; None: a whole episode
    certain: bool = False  # nothing is random, so that one sample is exact
    enough: bool = True  # whether so many samples may decide
    strata: Strata | None = None  # starts that were drawn in shares

    @property
    def gap(self) -> Estimate:
        """E[new] − E[old]."""
        return self._combination(1.0, -1.0, self.error)

    @cached_property
    def old(self) -> Estimate:
        """E[old], with the error probability that a relative margin spends on its sign."""
        return self._combination(0.0, 1.0, _SIGN * self.error)

    def excess(self, margin: Margin) -> Estimate:
        """E[old] − E[new] − margin, the loss beyond the margin.

        It has no interval if the margin is not known, or if the samples are too few to decide. A relative margin is
        δ |E[old]|, so the loss beyond it is the mean of (1 ∓ δ) Z(old) − Z(new), a combination of returns whose
        interval includes the error of the margin.
        """
        found = self._excess(margin)
        known = self.enough and (self._sign != 0 or not margin.relative)
        return found if known else Estimate.within(float(found), None)

    def _excess(self, margin: Margin, allowance: bool = True) -> Estimate:
        error, shift = ((1 - _SIGN) * self.error, 0.0) if margin.relative else (self.error, -margin.size)
        return self._combination(*self._weights(margin), error, shift, allowance)

    def unseen(self, margin: Margin) -> Unseen | None:
        """What would reverse the verdict on a margin; None without one, with a range of returns, or without randomness.

        The distance from the margin is that of what was seen, without the allowance for unseen events.
        """
        decided = self.excess(margin)
        if decided.low <= 0 <= decided.high or self.return_range is not None or self.certain:
            return None
        seen, n = self._excess(margin, allowance=False), len(self.draws.returns)
        whole = float(self.limits.scale.restore(self._largest_loss(np.array(self._weights(margin)))))
        return Unseen(max(seen.low, -seen.high), n, whole, included=self.largest_loss is not None)

    def std(self, margin: Margin) -> float:
        """Standard deviation of the returns whose mean is `excess`; nan of a single sample."""
        if len(self.draws.returns) < 2:
            return math.nan
        return float((self.draws.returns @ np.array(self._weights(margin))).std(ddof=1))

    def _weights(self, margin: Margin) -> tuple[float, float]:
        """Weights of new and old in the loss beyond the margin."""
        return -1.0, 1 - math.copysign(margin.size, float(self.old)) if margin.relative else 1.0

    def change(self) -> Estimate | None:
        """(E[new] − E[old])/|E[old]|; None if the sign of E[old] is not known.

        The interval has all x for which 0 is in that of new − (1 ± x) old (Fieller's method), so that a relative margin
        is met if and only if it is inside. Beyond the ends the intervals stay on their side of 0, since E[old] is known
        to be away from 0.
        """
        sign = self._sign
        if sign == 0:
            return None
        middle = float(self.gap) / abs(float(self.old))
        return Estimate(middle, self._end(middle, sign, -1), self._end(middle, sign, 1))

    @property
    def _sign(self) -> int:
        """The sign of E[old]: 1, −1, or 0 if it is not known."""
        old = self.old
        return int(old.low > 0) - int(old.high < 0)

    def _end(self, middle: float, sign: int, side: int) -> float:
        """The end of the interval of the change: −1 the lower, 1 the upper one; rounded outwards."""

        def excluded(x: float) -> bool:
            found = self._combination(1.0, -(1 + sign * x), (1 - _SIGN) * self.error)
            return found.low > 0 if side < 0 else found.high < 0

        step = max(abs(middle), 1e-3)
        while not excluded(middle + side * step):
            step *= 2
            if step > 1e9:
                return side * math.inf
        inside, outside = 0.0, step
        for _ in range(_HALVINGS):
            half = (inside + outside) / 2
            inside, outside = (inside, half) if excluded(middle + side * half) else (half, outside)
        return middle + side * outside

    def _combination(self, a: float, b: float, error: float, shift: float = 0.0, allowance: bool = True) -> Estimate:
        """Return a E[new] + b E[old] + shift, with its interval."""
        weights, limits = np.array([a, b]), self.limits
        hidden = self._hidden(weights)
        rounding = 4 * (abs(a) + abs(b)) * limits.rounding + 2.0**-50 * abs(shift)
        if self.certain or self.return_range is None:
            mean, off = self._large_sample(weights, error, allowance)
            off = off + float(hidden.mean()) + rounding
            return Estimate(mean + shift, mean - off + shift, mean + off + shift)
        values = self.draws.returns @ weights
        bounded = BoundedReturns(self.draws, limits, *self.return_range, error)
        low, high = bounded.combination(values, hidden, weights, rounding)
        return Estimate(float(values.mean()) + shift, low + shift, high + shift)

    def _hidden(self, weights: Floats) -> Floats:
        """[n], bounds on the truncation errors. Branches that have merged have the same future."""
        ends, cut = self.draws.ends, self.limits.cut
        if cut == 0:
            return np.zeros(len(ends))
        merged = ends[:, 0] == ends[:, 1]
        parts = np.where(merged, np.abs(weights.sum()) * (ends[:, 0] != ENDED), (ends != ENDED) @ np.abs(weights))
        return np.asarray(np.multiply(parts, cut, out=np.zeros(len(parts)), where=parts > 0))

    def _largest_loss(self, weights: Floats) -> float:
        """What an unseen event may change a combination by, in units of the scale."""
        if self.largest_loss is not None:
            return float(self.limits.scale.divide(self.largest_loss))
        returns = self.limits.scale.divide(self.draws.returns)[:, weights != 0]
        whole = max(float(np.ptp(returns)), float(np.abs(returns).mean(axis=0).max()))
        return whole * float(np.abs(weights).max())

    def _large_sample(self, weights: Floats, error: float, allowance: bool) -> tuple[float, float]:
        """Mean of a combination and its error; infinite for too few samples, and if all returns are 0."""
        scale, used = self.limits.scale, weights != 0
        returns = scale.divide(self.draws.returns)
        mean = float(scale.restore(mean_of(returns, self.strata) @ weights))
        if self.certain:
            return mean, 0.0
        n, loss = len(returns), self._largest_loss(weights)
        if n < ENOUGH or loss <= 2 * scale.divide(self.limits.rounding):
            return mean, math.inf
        shape = shape_of(centred((returns[:, used] @ weights[used])[:, None], self.strata, error))
        off = errors_with_spread(n, shape, self.sampling.radius(n, error), self._spread(weights))
        if allowance:
            off = with_largest_loss(off, loss, n, error)
        return mean, float(scale.restore(off[0]))

    def _spread(self, weights: Floats) -> float:
        """How much returns vary, in units of the scale."""
        returns = self.limits.scale.divide(self.draws.returns)[:, weights != 0]
        return float(np.abs(weights).max()) * float(returns.std(axis=0, ddof=1).max())

    def gaps(self, margin: Margin, least: float) -> Gaps:
        """What the number of samples for a verdict on a margin depends on; the mean is that of `excess`."""
        scale, weights = self.limits.scale, np.array(self._weights(margin))
        returns = scale.divide(self.draws.returns)
        return replace(
            Gaps.of(
                centred((returns @ weights)[:, None], self.strata, self.error)[:, 0],
                scale,
                error=self.error * (1 - _SIGN * margin.relative),
                least=least,
            ),
            mean=float(self.excess(margin)),
            hidden=float(self._hidden(weights).mean()) + 4 * float(np.abs(weights).sum()) * self.limits.rounding,
            loss=float(scale.restore(self._largest_loss(weights))),
            spread=float(scale.restore(self._spread(weights))),
        )
