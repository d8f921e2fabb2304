"""How a method or a comparison ended."""

from __future__ import annotations

from enum import Enum


class Outcome(Enum):
    """How a method or a comparison ended."""

    CONVERGED = "the tolerance is met"
    STALLED = "rounding keeps the error above the tolerance; more sweeps cannot help"
    SWEEPS_EXHAUSTED = "max_sweeps is used up before the tolerance is met"
    INTERRUPTED = "interrupted before it was done"
    BUDGET_EXHAUSTED = "the budget is used up before the answer is as sure as asked"
    ALL_STEPS = "all steps of the horizon are done"
    SAMPLED = "all samples asked for were drawn"
    BEST_FOUND = "one action is better on average than every other"
    BASELINE_COMPARED = "every other policy is known to be better or worse on average than the baseline"
    PRECISE = "every mean gap is known to the precision asked for"
    ONE_FUTURE = "only one future was seen: all rollouts of each action gave the same return"
    TRAINED = "learned; in held-out states, variances of gaps are better than a constant"
    NOT_BETTER = "learned, but in held-out states variances of gaps are not better than a constant"
    NOTHING_VARIED = "learned, but no gap varied in held-out states: there is nothing to judge it by"
    NOT_JUDGED = "learned, and not judged: no states were held out"

    @property
    def successful(self) -> bool:
        """Whether it ended as asked. A network that was trained did, however useful it is."""
        return self not in _UNSUCCESSFUL


_UNSUCCESSFUL = (
    Outcome.STALLED,
    Outcome.SWEEPS_EXHAUSTED,
    Outcome.INTERRUPTED,
    Outcome.BUDGET_EXHAUSTED,
    Outcome.ONE_FUTURE,
)
