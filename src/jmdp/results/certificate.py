"""Error bounds of the numbers of an evaluation.

How a method or a comparison ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats
from jmdp.base.settings import boolean, choice, instance, nonnegative, number, probability, real_number, short
from jmdp.errors import SettingsError


@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate(arrays.FrozenArrays):
    """Error bounds of the numbers of an evaluation.

    "exact": all errors are 0. "certified": every error is at most the stated bound, including rounding errors.
    "statistical": each error is at most the stated bound with probability `confidence`, entry by entry; the bound
    includes the bias of truncated rollouts. With `large_sample` the probability is approximate: it assumes many samples
    from a distribution without very heavy tails, and the bound does not cover outcomes too rare to have been drawn.

    Errors are one number for all entries, or an array with one entry each; infinite if unknown. `ExactPairs` has one
    error per entry, so that states out of reach do not widen a state's intervals.
    """

    kind: Literal["exact", "certified", "statistical"]
    mean_error: float | Floats  # of mean: one, or [S, A]
    covariance_error: float | Floats  # of covariance: [S, A, A], or one that also applies between states
    gap_mean_error: float | Floats  # of `gap_mean` or mean[s, a] − mean[s, b]: one, or [S, A, A]
    gap_variance_error: float | Floats  # of `gap_variance` or Var(Z(s, a) − Z(s, b)): one, or [S, A, A]
    discount: float  # of the model
    reward_bound: float  # largest |reward| of the model
    confidence: float | None = None
    correlation_error: Floats | None = None  # [S, A, A], if tighter than the bound from covariances
    assumption: str | None = None  # assumption about the steps after the horizon
    large_sample: bool = False  # True if the errors are large-sample approximations

    def __post_init__(self) -> None:
        choice("kind", self.kind, ("exact", "certified", "statistical"))
        for name in ("mean_error", "covariance_error", "gap_mean_error", "gap_variance_error", "correlation_error"):
            if name != "correlation_error" or self.correlation_error is not None:
                object.__setattr__(self, name, _errors(name, getattr(self, name)))
        object.__setattr__(self, "discount", number("discount", self.discount, 0, 1))
        nonnegative(self, "reward_bound")
        if self.confidence is not None:
            probability(self, "confidence")
        if self.assumption is not None:
            instance("assumption", self.assumption, str)
        boolean(self, "large_sample")

    @classmethod
    def certified(
        cls,
        mean_error: float | Floats,
        covariance_error: float | Floats,
        discount: float,
        reward_bound: float,
        gap_mean_error: Floats | None = None,
    ) -> Certificate:
        """Certificate from error bounds of means and covariances: one number each, or [S, A] and [S, A, A].

        Those of `Evaluation.gap_mean` are given if it is.
        """
        mean_error = _errors("mean_error", mean_error)
        covariance_error = _errors("covariance_error", covariance_error)
        exact = not (np.any(mean_error) or np.any(covariance_error))
        gap_mean, gap_variance = gap_errors(mean_error, covariance_error)
        kind: Literal["exact", "certified"] = "exact" if exact else "certified"
        return cls(
            kind=kind,
            mean_error=mean_error,
            covariance_error=covariance_error,
            gap_mean_error=gap_mean if gap_mean_error is None else gap_mean_error,
            gap_variance_error=gap_variance,
            discount=discount,
            reward_bound=reward_bound,
        )


def _errors(name: str, value: object) -> float | Floats:
    """One error bound or a read-only array of them, possibly infinite."""
    if isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim > 0:
        arrays.refuse_masked(name, value, SettingsError)
        arrays.refuse_large(f"The check of {name}", float(value.size))
        if (value >= 0).all():
            arrays.frozen(value)
            return value
    found = real_number(value)
    if not found >= 0:
        raise SettingsError(f"{name} is {short(value)}. Give a number ≥ 0, or a float64 array of such numbers.")
    return found


def gap_errors(mean_error: float | Floats, covariance_error: float | Floats) -> tuple[float | Floats, float | Floats]:
    """Error bounds of the means and variances of gaps, from those of means [S, A] and covariances [S, A, A].

    If an argument is a single number, so are the results.
    """
    if not isinstance(mean_error, np.ndarray) or not isinstance(covariance_error, np.ndarray):
        return 2 * mean_error, 4 * covariance_error
    own, up = np.einsum("saa->sa", covariance_error), 1 + 2.0**-50  # the factor bounds the rounding of the sums
    gap_mean = (mean_error[:, :, None] + mean_error[:, None, :]) * up
    return gap_mean, (own[:, :, None] + own[:, None, :] + 2 * covariance_error) * up


class Outcome(Enum):
    """How a method or a comparison ended."""

    CONVERGED = "the tolerance is met"
    STALLED = "rounding errors are larger than the tolerance; more sweeps cannot help"
    SWEEPS_EXHAUSTED = "max_sweeps is used up; the tolerance is not met"
    INTERRUPTED = "interrupted by the user"
    BUDGET_EXHAUSTED = "the budget is used up; the requested confidence or precision is not reached"
    ALL_STEPS = "all steps of the horizon are computed"
    SAMPLED = "all requested samples are drawn"
    BEST_FOUND = "one alternative is better on average than every other"
    GOOD_ENOUGH = "one alternative is within `indifference` of the best"
    EQUAL_BEST = "the alternatives that remain have certainly equal means; every other one is worse"
    EQUAL_SO_FAR = "the alternatives that remain were equal in every sample so far"
    DETERMINISTIC = "no step and no policy used random numbers, so one sample is exact for this state"
    BASELINE_COMPARED = "every other alternative is known to be better or worse on average than the baseline"
    MARGIN_DECIDED = "for every other policy it is known whether it is worse than the baseline by more than the margin"
    PRECISE = "every mean gap is known to the requested precision"
    ONE_FUTURE = "nothing varied: all rollouts of each action gave the same return"
    TRAINED = "trained; on held-out states it predicts variances of gaps better than a constant"
    NOT_BETTER = "trained, but on held-out states it predicts variances of gaps no better than a constant"
    NOTHING_VARIED = "trained, but no gap varied on the held-out states, so its quality is unknown"
    FAILED = "an error stopped the comparison in this state"
    NOT_JUDGED = "trained; no states were held out, so its quality is unknown"

    @property
    def successful(self) -> bool:
        """True if it ended as requested. Training counts as successful whatever its quality."""
        return self not in _UNSUCCESSFUL


_UNSUCCESSFUL = (
    Outcome.STALLED,
    Outcome.SWEEPS_EXHAUSTED,
    Outcome.INTERRUPTED,
    Outcome.BUDGET_EXHAUSTED,
    Outcome.ONE_FUTURE,
    Outcome.EQUAL_SO_FAR,
    Outcome.DETERMINISTIC,
    Outcome.FAILED,
)
