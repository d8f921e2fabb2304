"""Means over starts that are drawn in proportional shares: their errors come from the variance within starts alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import Floats, Integers

_FLAT = 1e-12
"""Share of the size of values below which a deviation within a start is due to rounding."""


@dataclass(frozen=True, eq=False)
class Strata:
    """Start of each sample, and the probability of each start.

    The mean over all starts is estimated by Σ p_s m_s, with m_s the mean of the n_s samples from start s. It has the
    variance Σ p_s² v_s/n_s, with v_s the variance within start s. If a start has fewer than two samples, samples are
    treated as independent, and intervals are wider.
    """

    numbers: Integers  # [samples]
    shares: Floats  # [starts]

    def of_starts(self, values: Floats) -> tuple[Integers, Floats]:
        """Numbers of samples [starts], and means [starts, A] of values [n, A] of the first n samples."""
        counts = np.bincount(self.numbers[: len(values)], minlength=self.shares.size)
        return counts, self._sums(values) / np.maximum(counts, 1)[:, None]

    def _sums(self, values: Floats) -> Floats:
        numbers = self.numbers[: len(values)]
        return np.stack([np.bincount(numbers, column, self.shares.size) for column in values.T], axis=1)

    def centred(self, values: Floats, error: float) -> Floats:
        """Values whose mean, and whose standard error if they were independent, are those of the stratified mean.

        Deviations from the mean of a start are weighted by its share, and multiplied by the ratio of the quantiles of
        Student's t for the degrees of freedom that the variances within starts have (Satterthwaite) and for n − 1.
        Columns that do not vary within starts are only moved.
        """
        from scipy.special import stdtrit

        n, (counts, means) = len(values), self.of_starts(values)
        if counts.min() < 2:
            return values
        deviations, numbers = values - means[self.numbers[:n]], self.numbers[:n]
        weights = self.shares * n / counts * np.sqrt(counts / (counts - 1) * (n - 1) / n)
        weighted = weights[numbers, None] * deviations
        parts = self._sums(weighted**2)
        flat = np.abs(deviations).max(axis=0) <= _FLAT * np.abs(values).max(axis=0)
        parts[:, flat] = 1.0
        freedom = parts.sum(axis=0) ** 2 / (parts**2 / (counts - 1)[:, None]).sum(axis=0)
        wider = stdtrit(freedom, error / 2) / stdtrit(n - 1, error / 2)
        return np.asarray(self.shares @ means + np.where(flat, values - values.mean(axis=0), wider * weighted))


def mean_of(values: Floats, strata: Strata | None) -> Floats:
    """Means over all starts of values [n, A] of the first n samples; plain ones without strata."""
    if strata is not None:
        counts, means = strata.of_starts(values)
        if counts.min() > 1:
            return np.asarray(strata.shares @ means)
    return np.asarray(values.mean(axis=0))


def centred(values: Floats, strata: Strata | None, error: float) -> Floats:
    """`Strata.centred`, or the values themselves without strata."""
    return values if strata is None else strata.centred(values, error)
