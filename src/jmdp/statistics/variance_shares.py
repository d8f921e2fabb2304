"""Shares of the variance of a gap by source of randomness, from runs in which sources were drawn again.

A row of samples has the run A, the run B in which every source is drawn again, and for each source i the run M_i, which
is A with source i from B. With V the variance of the gap, and ½ E(A − M_i)² = V − Cov(A, M_i):

    first order   S_i = Var(E[gap | source i])/V      = Cov(B, M_i)/V
    total         T_i = E[Var(gap | all but i)]/V     = 1 − Cov(A, M_i)/V

Cov(A, B) = 0, so S_i and 1 − T_i are the coefficients in the regression of M_i on B and A, each in units of its own
standard deviation. Estimated in this way they have a small variance for any share: S_i = T_i = 0 exactly if source i
never changes the gap, and 1 if no other source does. Correlations are 2 Σ x y/(Σ x² + Σ y²), about a common mean
(Janon et al., "Asymptotic normality and efficiency of two Sobol index estimators", ESAIM: P&S 2014).
"""

from __future__ import annotations

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.statistics.means import fixed_errors

FEWEST = 64
"""Samples below which shares have no intervals."""

_DECIMALS = 9
"""Decimals of a share that are not rounding errors."""

_ROUNDING = 1e-12
"""Share of the size of returns below which a change of the gap is due to rounding."""


def gap_shares(returns: Floats, error: float) -> tuple[Floats, Floats]:
    """Numbers of each source [k, 5, 3], and the share of interactions [3]: estimate and both ends of its interval.

    `returns` [n, 2 + k, 2] are those of both alternatives in the runs A, B and M_i. The numbers are S_i, T_i, and the
    standard deviations due to the source with all others given: of the returns of the first and of the second
    alternative, and of their gap. Each interval fails with probability `error`.
    """
    gap = returns[..., 0] - returns[..., 1]
    changed = np.abs(gap - gap[:, :1]) > _ROUNDING * np.abs(returns).max(initial=0.0)
    gap = np.where(changed, gap, gap[:, :1])
    pseudo = _pseudo_shares(gap)
    values = np.concatenate([returns, gap[..., None]], axis=2)
    squares = (values[:, 2:] - values[:, :1]) ** 2 / 2  # [n, k, 3]
    moves = _with_interval(squares, error)
    moves = np.where(np.isinf(moves), moves, np.sqrt(np.maximum(moves, 0.0)))
    found = np.concatenate([_with_interval(pseudo, error), moves], axis=1)
    return found, _with_interval(1 - pseudo[..., :1].sum(axis=1, keepdims=True), error)[0, 0]


def _pseudo_shares(gap: Floats) -> Floats:
    """Pseudo-values [n, k, 2] of the jackknife for S_i and T_i, from the gaps [n, 2 + k] in the runs A, B and M_i."""
    n = len(gap)
    centred = gap - gap.mean()
    a, b, m = np.broadcast_arrays(centred[:, :1], centred[:, 1:2], centred[:, 2:])
    rows = np.stack([a, b, m, a * a, b * b, m * m, a * b, a * m, b * m])
    sums = rows.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):  # one row alone may vary
        whole, without = _shares(sums, n), _shares(sums - rows, n - 1)
        return np.asarray(np.round(n * whole - (n - 1) * without, _DECIMALS))  # 0 and 1 exactly, where they are


def _shares(sums: Floats, n: int) -> Floats:
    """S and T from the sums over n rows of a, b, m and their products."""
    a, b, m, aa, bb, mm, ab, am, bm = sums
    mean = (a + b + m) / (3 * n)

    def about_mean(product: Floats, x: Floats, y: Floats) -> Floats:
        return np.asarray(product - mean * (x + y) + n * mean**2)

    squares = about_mean(aa, a, a), about_mean(bb, b, b), about_mean(mm, m, m)
    ab = 2 * about_mean(ab, a, b) / (squares[0] + squares[1])
    am = 2 * about_mean(am, a, m) / (squares[0] + squares[2])
    bm = 2 * about_mean(bm, b, m) / (squares[1] + squares[2])
    return np.stack([bm - am * ab, 1 - ab**2 - am + bm * ab], axis=-1) / (1 - ab**2)[..., None]


def _with_interval(values: Floats, error: float) -> Floats:
    """Means over the rows of values [n, k, q], and both ends of their intervals, [k, q, 3].

    Intervals are as wide on both sides as on that of the longer tail. There is none if few rows differ.
    """
    n, *shape = values.shape
    mean = values.mean(axis=0)
    wide = np.full(mean.size, np.inf)
    if n >= FEWEST:
        flat = values.reshape(n, -1)
        known = np.isfinite(flat).all(axis=0)
        wide[known] = np.maximum(*fixed_errors(flat[:, known], error))
    wide = wide.reshape(shape)
    return np.stack([mean, mean - wide, mean + wide], axis=-1)
