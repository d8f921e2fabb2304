"""The variance reduction by shared randomness in a comparison of policies, and the sources of randomness."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate
from jmdp.base.rounding import significant
from jmdp.simulators.rollouts.draws import LuckProbe
from jmdp.statistics.means import FEW, Sampling, differ_from_median

_UNCOUNTED = 10**9
"""Factors that are not written out."""

_LARGE = 1000
"""Ceilings above this are not distinguished."""

_WORTH_IT = 0.97
"""Pairing is given up only below this gain."""


_ROUNDING = 1e-12
"""Pseudo-values of n samples that differ by at most n times this are equal: one return is a multiple of the other."""

_LARGEST_LOG = 700.0
"""Its exponential is a float."""


@dataclass(frozen=True)
class LuckShares:
    """Shares of the variance of returns by source of randomness, averaged over the policies; they sum to 1.

    By the law of total variance: the start, the steps given the start, and the policies' random actions given both.
    Estimated by running some samples again with part of their randomness redrawn.
    """

    start: float
    steps: float
    policies: float
    samples: int  # samples that were run again

    @classmethod
    def of(cls, probe: LuckProbe) -> LuckShares | None:
        """Estimate from samples that were run again; None if no return varied."""
        returns = probe.returns
        total = float(np.concatenate([returns, probe.same_start]).var(axis=0).sum())
        if total == 0:
            return None

        def differ(again: Floats) -> float:
            return min(1.0, float(((returns - again) ** 2).mean(axis=0).sum()) / 2 / total)

        after_start = differ(probe.same_start)
        policies = 0.0 if probe.same_steps is None else min(after_start, differ(probe.same_steps))
        return cls(1 - after_start, after_start - policies, policies, len(returns))


@dataclass(frozen=True)
class Pairing:
    """Variance reduction by shared randomness for the mean gaps between one policy and the others."""

    gain: Estimate  # ratio of variances: independent runs need this many times as many samples for the same precision
    ceiling: float  # the gain that no pairing of returns with these standard deviations can exceed
    correlation: float  # of the returns, pooled over the gaps
    samples: int  # number of paired samples
    shares: LuckShares | None  # None if not estimated, or if no return varied
    independent: int  # number of samples that were drawn independently afterwards
    run: str = "episode"  # the name of one sample

    def __str__(self) -> str:
        return " ".join(self.sentences())

    def sentences(self) -> list[str]:
        """The same as sentences."""
        if math.isnan(self.gain):
            return ["No return varied, so pairing makes no difference."]
        if math.isinf(self.gain):
            said = [f"The gap did not vary in {self.samples} pairs: shared randomness removes all of its variance."]
        else:
            low, gain, high = (_factor(x) for x in (self.gain.low, float(self.gain), self.gain.high))
            ends = f"{low} to {high}, from" if self.gain.has_interval else "an estimate without an interval from"
            said = [
                f"For the same precision, independent sampling would need {gain} × as many {self.run}s ({ends} "
                f"{self.samples:,} pairs): the ratio of the variances of the gap. {self._limit()}"
            ]
        if self.shares is not None:
            parts = self.shares
            said.append(
                f"About {100 * parts.start:.0f}% of the variance of returns comes from the initial state, "
                f"{100 * parts.steps:.0f}% from randomness during the episode and {100 * parts.policies:.0f}% from the "
                f"policies' random actions (estimated by rerunning {parts.samples} episodes with some random numbers "
                "redrawn)."
            )
        if abs(self.correlation) < 0.1 and self.gain.low < 1.1:
            said.append(
                f"The returns are hardly correlated ({self.correlation:.2f}) although they share randomness: different "
                f"decisions lead to unrelated {self.run}s."
            )
        if self.independent:
            said.append(
                f"Pairing increases the variance here, so the last {self.independent:,} samples are independent; "
                f"standard deviations, correlations and chances use the first {self.samples:,}."
            )
        return said

    def _limit(self) -> str:
        if self.ceiling >= _LARGE:
            return f"The standard deviations are nearly equal: they allow a factor of more than {_LARGE:,}."
        return f"No pairing of returns with these standard deviations can exceed {ceiling_text(self.ceiling)}."


def _factor(x: float) -> str:
    """A factor to two digits: 1.5, 2,000,000."""
    if x >= _UNCOUNTED:
        return f"over {_UNCOUNTED:,}"
    return significant(x, 2) if x < 100 else f"{float(f'{x:.2g}'):,.0f}"


def pairing_gain(returns: Floats, reference: int, noise: float) -> tuple[float, float, float]:
    """Σ_j (Var Z_r + Var Z_j)/Σ_j Var(Z_r − Z_j), the pooled correlation, and the standard error of log gain.

    The last by the delta method: the influence of a sample on the logarithm is a/A − b/B, with a and b its squared
    deviations and A and B their means. `noise` is the computed variance of a constant, due to rounding.
    """
    own, others = _centred(returns, reference)
    alone, together = (own**2 + others**2).sum(axis=1), ((own - others) ** 2).sum(axis=1)
    A, B = float(alone.mean()), float(together.mean())
    if noise >= B:
        return math.inf if noise < A else math.nan, math.nan, math.nan
    sizes = np.sqrt((own**2).mean() * (others**2).mean(axis=0))
    varied = sizes > 0
    products = (own * others).mean(axis=0)[varied] / sizes[varied]
    correlation = float(products.mean()) if varied.any() else math.nan
    error = float(np.std(alone / A - together / B)) / math.sqrt(len(returns)) if A > 0 else math.inf
    return A / B, correlation, error


def gain_with_interval(returns: Floats, reference: int, noise: float, sampling: Sampling, error: float) -> Estimate:
    """The gain, with a large-sample interval; without one if fewer than 8 gaps differ from the most frequent one.

    2 gain − 1 = U/B is the ratio of Σ_j Var(Z_r + Z_j) to Σ_j Var(Z_r − Z_j), between 0 and ∞. The interval of its
    logarithm is that of the mean of the jackknife's pseudo-values n ln U/B − (n − 1) ln U₋ᵢ/B₋ᵢ, whose skewness widens
    both sides. Leaving out a sample shows more than a derivative what a few large ones contribute.
    """
    n, gain = len(returns), pairing_gain(returns, reference, noise)[0]
    none = Estimate.within(gain, None)
    gaps = returns[:, [reference]] - np.delete(returns, reference, axis=1)
    if not math.isfinite(gain) or differ_from_median(gaps).max() < FEW:
        return none
    own, others = _centred(returns, reference)
    squares = np.stack([((own + sign * others) ** 2).sum(axis=1) for sign in (1, -1)])
    total = squares.sum(axis=1)
    left = total[:, None] - squares * n / (n - 1)
    if left.min() <= n * noise:  # one sample alone varied
        return none
    middle = math.log(total[0] / total[1])
    pseudo = n * middle - (n - 1) * np.log(left[0] / left[1])
    wide = float(np.max(sampling.mean_errors(pseudo[:, None], error)))
    if not abs(middle) + wide < _LARGEST_LOG or np.ptp(pseudo) <= _ROUNDING * n:
        return none
    return Estimate(gain, *((1 + math.exp(middle + side * wide)) / 2 for side in (-1, 1)))


def _centred(returns: Floats, reference: int) -> tuple[Floats, Floats]:
    """Deviations from the mean: of the reference [n, 1], and of the others [n, k − 1]."""
    centred = returns - returns.mean(axis=0)
    return centred[:, [reference]], np.delete(centred, reference, axis=1)


def pairing_ceiling(returns: Floats, reference: int, noise: float) -> float:
    """Σ_j (σ_r² + σ_j²)/Σ_j (σ_r − σ_j)²: the gain of returns with these standard deviations and correlation 1.

    Var(Z_r − Z_j) = σ_r² + σ_j² − 2 ϱ σ_r σ_j is smallest for ϱ = 1. Infinite if the standard deviations are equal.
    """
    std = returns.std(axis=0)
    own, others = std[reference], np.delete(std, reference)
    apart = float(((own - others) ** 2).sum())
    alone = float((own**2 + others**2).sum())
    if apart <= noise:
        return math.inf if alone > noise else math.nan
    return alone / apart


def ceiling_text(ceiling: float) -> str:
    """The ceiling to two digits. Large ones are differences of nearly equal numbers, and not worth more."""
    return f"{significant(ceiling, 2)} ×" if ceiling < _LARGE else f"> {_LARGE:,} ×"


def pairing_costs(returns: Floats, reference: int) -> bool:
    """Whether independent samples would give narrower mean gaps than pairs, judged by paired samples [n, P].

    True if the gain is below 1 by more than its standard error, which is taken to be at least 1/√n, the value for
    uncorrelated normal returns: with rare rewards the estimated standard error is too small. Until this is detected,
    pairing costs at most about √n samples.
    """
    size = float(np.abs(returns).max()) or 1.0
    gain, _, error = pairing_gain(returns / size, reference, 1e-24)
    if not math.isfinite(gain):
        return False
    return gain * math.exp(max(error, 1 / math.sqrt(len(returns)))) < 1 and gain < _WORTH_IT
