"""How a method or a comparison ended."""

from __future__ import annotations

from enum import Enum


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
