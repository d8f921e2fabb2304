"""Interim looks of a comparison: which alternatives are known to be worse, and whether the comparison is decided.

Looks follow a fixed schedule. At each of them the leader (largest mean) is compared with every other alternative that
is still simulated, by intervals of the mean gaps that hold at all looks, with error probability (1 − confidence)/
(k − 1) each. An alternative is eliminated if its gap is known to be negative. The best alternative is eliminated, or
another one is declared best, only if one of the k − 1 intervals of its own gaps fails at some look: by the union bound
this has probability at most 1 − confidence, whatever was eliminated before and at whichever look sampling stops.

Nothing is promised about the others. Of several that are equally good, each one is kept with this probability; that
some of them is eliminated is more likely (38% for 100 equal ones), and harmless: an equally good one stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.statistics.margins import Margin


class Decision(Enum):
    """State of a comparison at a look."""

    OPEN = "not decided"
    BEST = "one alternative is better than every other"
    GOOD_ENOUGH = "one alternative is within `indifference` of the best"
    EQUAL = "the remaining alternatives are certainly equal"
    EQUAL_SO_FAR = "the remaining alternatives were equal in all of many samples"
    SETTLED = "every alternative is compared with the baseline"
    MARGIN = "every alternative is known to be worse than the baseline by more than the margin, or not to be"


@dataclass(frozen=True)
class Standing:
    """Alternatives still simulated after a look, by number, and the gaps of one of them over the others."""

    reference: int  # the leader, or the baseline
    survivors: tuple[int, ...]  # in increasing order
    low: dict[int, float]  # lower limits of the mean gaps reference − other, for all that were examined
    high: dict[int, float]
    decision: Decision
    leader: int  # the one with the best mean so far, also if it is no longer simulated

    @property
    def rival(self) -> int | None:
        """The survivor whose gap has the smallest lower limit."""
        others = [i for i in self.survivors if i != self.reference]
        return min(others, key=lambda i: self.low[i], default=None)

    def described(self, name: Callable[[int], str], rule: SelectionRule) -> str:
        """The leader, its interval over the baseline or else that of the worst rival, and the number of survivors."""
        leader, reference, rival = self.leader, name(self.reference), self.rival
        said = f"{name(leader)} leads" if rule.margin is None else f"{reference} less the margin"
        if rule.margin is None and leader in self.low:
            said += f", {-self.high[leader]:.3g} to {-self.low[leader]:.3g} over {reference}"
        elif rival is not None:
            said += ", " if leader == self.reference or rule.margin is not None else f"; {reference} "
            said += f"{self.low[rival]:.3g} to {self.high[rival]:.3g} over {name(rival)}"
        return f"{said}; {len(self.survivors)} of {rule.alternatives} remain"


@dataclass(frozen=True, kw_only=True)
class SelectionRule:
    """When to eliminate an alternative, and when to stop.

    With a baseline, an alternative is dropped once it is known to be better or worse than the baseline, or within
    `indifference` of it; with a margin, once it is known whether it is worse by more than this. The limits that are
    examined are then those of the loss beyond the margin.
    """

    alternatives: int  # k, at the start
    confidence: float = 0.95  # that the best is kept and no other declared the best, or all gaps to the baseline right
    indifference: float = 0.0  # decided when one alternative is known to be within this of the best; 0: the best
    baseline: int | None = None  # number of the alternative to compare the others with; None to find the best
    margin: Margin | None = None
    same: tuple[int, ...] | None = None  # equal numbers for alternatives whose returns are certainly equal

    @property
    def error(self) -> float:
        """Error probability of one interval."""
        return (1 - self.confidence) / max(1, self.alternatives - 1)

    def reference(self, means: Floats, active: Sequence[int]) -> int:
        """The alternative whose gaps are examined: the baseline, or the one with the largest mean."""
        return active[int(np.argmax(means))] if self.baseline is None else self.baseline

    def examine(
        self,
        reference: int,
        active: Sequence[int],
        low: Floats,
        high: Floats,
        *,
        tied: Collection[int] = (),
        leader: int | None = None,
    ) -> Standing:
        """Eliminate and decide, from the limits [active] of the mean gaps reference − alternative, less the margin.

        The gaps of `tied` alternatives were 0 in all samples. `leader` has the best mean; by default the reference.
        """
        ends = {i: (float(low[at]), float(high[at])) for at, i in enumerate(active) if i != reference}
        kept = [i for i, (least, most) in ends.items() if not self._settled(least, most)]
        equal = {i for i in kept if self._equal(i, reference)}
        decision = Decision.OPEN
        if self.margin is not None:
            decision = Decision.OPEN if kept else Decision.MARGIN
        elif self.baseline is not None and not kept:
            decision = Decision.SETTLED
        elif self.baseline is None and equal == set(kept):
            decision = Decision.EQUAL if kept else Decision.BEST
        elif equal | set(tied) >= set(kept):
            decision = Decision.EQUAL_SO_FAR
        elif self.baseline is None and all(ends[i][0] > -self.indifference or self._equal(i, reference) for i in kept):
            decision = Decision.GOOD_ENOUGH
        lows, highs = ({i: pair[side] for i, pair in ends.items()} for side in (0, 1))
        ahead = reference if leader is None else leader
        return Standing(reference, tuple(sorted([reference, *kept])), lows, highs, decision, ahead)

    def _settled(self, low: float, high: float) -> bool:
        """Whether an alternative needs no more samples."""
        if low > 0:
            return True
        return self.baseline is not None and (high < 0 or -self.indifference < low <= high < self.indifference)

    def _equal(self, i: int, j: int) -> bool:
        return self.same is not None and self.same[i] == self.same[j]
