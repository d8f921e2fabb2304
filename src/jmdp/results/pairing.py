"""What shared randomness gains in a comparison of policies, and where the randomness is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate
from jmdp.simulators.episodes import LuckProbe

_NORMAL_95 = 1.96

_WORTH_IT = 0.97
"""A gain above this is no reason to give pairing up."""


@dataclass(frozen=True)
class LuckShares:
    """Parts of the variance of a return, averaged over the policies by their variances; they sum to 1.

    By the law of total variance: that of the mean return given the start, what the steps add given the start, and what
    the policies' own draws add given both. Estimated from some samples run again with part of their randomness anew.
    """

    start: float
    steps: float
    policies: float
    samples: int  # that were run again

    @classmethod
    def of(cls, probe: LuckProbe) -> LuckShares | None:
        """From samples run again; None where no return varied."""
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
    """Does sharing randomness pay? For the mean gaps between one policy and the others."""

    gain: Estimate  # independent runs need this many times as many episodes; ends at about 95%
    correlation: float  # of the returns, pooled over the gaps
    samples: int  # paired ones
    shares: LuckShares | None  # None where it was decided before it was looked into, or nothing varied
    independent: int  # samples that were then drawn independently

    def __str__(self) -> str:
        return " ".join(self.sentences())

    def sentences(self) -> list[str]:
        """The same in plain words."""
        if math.isnan(self.gain):
            return ["No return varied, so there is nothing that pairing could gain."]
        if math.isinf(self.gain):
            said = [f"The gap never varied in {self.samples} pairs: sharing randomness removes all of its variance."]
        else:
            ends = f"{self.gain.low:.2g} to {self.gain.high:.2g}, from {self.samples:,} pairs"
            said = [f"Independent runs would need {self.gain:.2g} × as many episodes ({ends})."]
        if self.shares is not None:
            parts = self.shares
            said.append(
                f"Of the variance of returns about {100 * parts.start:.0f}% comes from the start, "
                f"{100 * parts.steps:.0f}% from the steps and {100 * parts.policies:.0f}% from the policies' own draws "
                f"({parts.samples} samples run again)."
            )
        if abs(self.correlation) < 0.1 and self.gain.low < 1.1:
            said.append(
                f"Returns of different policies are hardly correlated ({self.correlation:.2f}), although they meet the "
                "same randomness: other actions lead to unrelated episodes."
            )
        if self.independent:
            said.append(
                f"Pairing seems to cost more than it gains, so the last {self.independent:,} samples are independent; "
                f"standard deviations, correlations and chances are of the first {self.samples:,}."
            )
        return said


def pairing_gain(returns: Floats, reference: int, noise: float) -> tuple[Estimate, float, float]:
    """Σ_j (Var Z_r + Var Z_j)/Σ_j Var(Z_r − Z_j), the pooled correlation, and the standard error of log gain.

    By the delta method: the influence of a sample on the logarithm is a/A − b/B, with a and b its squared deviations
    and A and B their means. `noise` is what rounding leaves of a variance that is 0.
    """
    centred = returns - returns.mean(axis=0)
    others = np.delete(centred, reference, axis=1)
    own = centred[:, [reference]]
    alone, together = (own**2 + others**2).sum(axis=1), ((own - others) ** 2).sum(axis=1)
    A, B = float(alone.mean()), float(together.mean())
    if noise >= B:
        return Estimate.within(math.inf if noise < A else math.nan, None), math.nan, math.nan
    sizes = np.sqrt((own**2).mean() * (others**2).mean(axis=0))
    varied = sizes > 0
    products = (own * others).mean(axis=0)[varied] / sizes[varied]
    correlation = float(products.mean()) if varied.any() else math.nan
    error = float(np.std(alone / A - together / B)) / math.sqrt(len(returns)) if A > 0 else math.inf
    gain, wide = A / B, math.exp(min(700.0, _NORMAL_95 * error))
    return Estimate(gain, gain / wide, gain * wide), correlation, error


def pairing_costs(returns: Floats, reference: int) -> bool:
    """Whether paired samples [n, P] so far say that independent ones would tell more about the mean gaps.

    The gain is below 1 by more than its standard error, which is taken to be at least 1/√n, that of normal returns with
    no correlation: where rewards are rare the sample's own says too little. Until that is seen, pairing costs at most
    about √n samples.
    """
    size = float(np.abs(returns).max()) or 1.0
    gain, _, error = pairing_gain(returns / size, reference, 1e-24)
    if not math.isfinite(gain):
        return False
    return float(gain) * math.exp(max(error, 1 / math.sqrt(len(returns)))) < 1 and gain < _WORTH_IT
