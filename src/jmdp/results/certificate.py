"""How far the numbers of an evaluation can be from the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate(arrays.FrozenArrays):
    """How far the numbers can be from the truth.

    "exact": nothing is off. "certified": every error is at most the stated bound, rounding included, always.
    "statistical": each error is at most the stated bound with probability `confidence`, entry by entry; bias from
    truncated rollouts is inside the bound. With `large_sample` that is so for many samples of a distribution whose
    tails are not too heavy, and for no distribution in general: an outcome too rare to be drawn is not in the bound.

    Errors are one number for all entries, or an array of one for each; infinite where nothing is known. Those of
    `ExactPairs` are one for each: what a state cannot reach does not widen its intervals.
    """

    kind: Literal["exact", "certified", "statistical"]
    mean_error: float | Floats  # of mean: one, or [S, A]
    covariance_error: float | Floats  # of covariance: [S, A, A], or one, which then holds between states too
    gap_mean_error: float | Floats  # of mean[s, a] − mean[s, b]: one, or [S, A, A]
    gap_variance_error: float | Floats  # of Var(Z(s, a) − Z(s, b)): one, or [S, A, A]
    discount: float  # of the model it speaks of, and its largest reward
    reward_bound: float
    confidence: float | None = None
    correlation_error: Floats | None = None  # [S, A, A], where it is known better than from the covariances
    assumption: str | None = None  # what a statistical certificate takes for granted of steps not simulated
    large_sample: bool = False  # are the errors approximations for many samples?

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                arrays.frozen(value)

    @classmethod
    def certified(
        cls, mean_error: float | Floats, covariance_error: float | Floats, discount: float, reward_bound: float
    ) -> Certificate:
        """Bounds on errors of means and covariances, one each or [S, A] and [S, A, A], and what follows for gaps."""
        exact = not (np.any(mean_error) or np.any(covariance_error))
        gap_mean, gap_variance = gap_errors(mean_error, covariance_error)
        kind: Literal["exact", "certified"] = "exact" if exact else "certified"
        return cls(
            kind=kind,
            mean_error=mean_error,
            covariance_error=covariance_error,
            gap_mean_error=gap_mean,
            gap_variance_error=gap_variance,
            discount=discount,
            reward_bound=reward_bound,
        )


def gap_errors(mean_error: float | Floats, covariance_error: float | Floats) -> tuple[float | Floats, float | Floats]:
    """What errors of means [S, A] and covariances [S, A, A] add up to in gaps' means and variances; or one each."""
    if not isinstance(mean_error, np.ndarray) or not isinstance(covariance_error, np.ndarray):
        return 2 * mean_error, 4 * covariance_error
    own, up = np.einsum("saa->sa", covariance_error), 1 + 2.0**-50  # the sums are rounded
    gap_mean = (mean_error[:, :, None] + mean_error[:, None, :]) * up
    return gap_mean, (own[:, :, None] + own[:, None, :] + 2 * covariance_error) * up
