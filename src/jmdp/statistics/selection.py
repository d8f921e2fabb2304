"""Interim looks of a comparison: which alternatives are known to be worse, and whether the comparison is decided.

Looks follow a fixed schedule. At each of them the leader (largest mean) is compared with every other alternative that
is still simulated, by intervals of the mean gaps that hold at all looks, with error probability (1 − confidence)/
(k − 1) each. An alternative is eliminated if its gap is known to be negative. The best alternative is eliminated, or
another one is declared best, only if one of the k − 1 intervals of its own gaps fails at some look: by the union bound
this has probability at most 1 − confidence, whatever was eliminated before and at whichever look sampling stops.

Nothing is promised about the others. Of several that are equally good, each one is kept with this probability; that
some of them is eliminated is more likely (38% for 100 equal ones), and harmless: an equally good one stays.

Margins of non-inferiority: is the new alternative worse than the old one by more than a margin?

Errors of sampled returns: truncation at the horizon, and rounding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Floats, Scale, largest
from jmdp.base.rounding import at_most
from jmdp.base.settings import boolean, real_number, short
from jmdp.errors import SettingsError, SimulatorError
from jmdp.simulators.rollouts.draws import Draws
from jmdp.simulators.simulator import Simulator

_PERCENT = re.compile(r"\s*(?P<number>[^%\s]+)\s*%\s*")


@dataclass(frozen=True)
class Margin:
    """The largest loss that is accepted: in units of the return, or relative to the size of the old mean.

    Parameters
    ----------
    size
        The loss, ≥ 0. If `relative`, a fraction of |E[old]|, below 1.
    relative
        Whether `size` is a fraction.
    """

    size: float
    relative: bool = False

    def __post_init__(self) -> None:
        boolean(self, "relative")
        number = real_number(self.size)
        if not 0 <= number < math.inf:
            raise SettingsError(f"margin is {short(self.size)}. {_GIVE}")
        if self.relative and number >= 1:
            raise SettingsError(f"margin is {100 * number:g}% of the old mean. Give less than 100%.")
        object.__setattr__(self, "size", number)

    @classmethod
    def of(cls, given: object) -> Margin:
        """Read a margin: a `Margin`, a number (5), or a text ("5", or "2%" of the old mean)."""
        if isinstance(given, Margin):
            return given
        if isinstance(given, str):
            percent = _PERCENT.fullmatch(given)
            try:
                number = float(given if percent is None else percent["number"])
            except ValueError:
                raise SettingsError(f"margin is {short(given)}. {_GIVE}") from None
            if not 0 <= number < math.inf:
                raise SettingsError(f"margin is {short(given)}. {_GIVE}")
            return cls(number) if percent is None else cls(number / 100, relative=True)
        return cls(given)  # type: ignore[arg-type]  # made a float, or refused

    def __str__(self) -> str:
        return f"{100 * self.size:.12g}%" if self.relative else f"{self.size:.12g}"


_GIVE = 'Give the largest loss to accept, ≥ 0: a number in units of the return (5), or a share of the old mean ("2%").'


class Conclusion(Enum):
    """State of a comparison at a look."""

    OPEN = "not decided"
    BEST = "one alternative is better than every other"
    GOOD_ENOUGH = "one alternative is within `indifference` of the best"
    EQUAL = "the remaining alternatives are certainly equal"
    EQUAL_SO_FAR = "the remaining alternatives were equal in all of many samples"
    SETTLED = "every alternative is compared with the baseline"
    MARGIN = "every alternative is known to be worse than the baseline by more than the margin, or not to be"


@dataclass(frozen=True)
class LookResult:
    """Alternatives still simulated after a look, by number, and the gaps of one of them over the others."""

    reference: int  # the leader, or the baseline
    survivors: tuple[int, ...]  # in increasing order
    low: dict[int, float]  # lower limits of the mean gaps reference − other, for all that were examined
    high: dict[int, float]
    decision: Conclusion
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
    ) -> LookResult:
        """Eliminate and decide, from the limits [active] of the mean gaps reference − alternative, less the margin.

        The gaps of `tied` alternatives were 0 in all samples. `leader` has the best mean; by default the reference.
        """
        lows, highs = dict(zip(active, low.tolist(), strict=True)), dict(zip(active, high.tolist(), strict=True))
        del lows[reference], highs[reference]
        kept, differ = [], []  # that need more samples; of these, those that are not certainly equal to the reference
        for i in lows:
            if not self._settled(lows[i], highs[i]):
                kept.append(i)
                if self.same is None or self.same[i] != self.same[reference]:
                    differ.append(i)
        decision = Conclusion.OPEN
        if self.margin is not None:
            decision = Conclusion.OPEN if kept else Conclusion.MARGIN
        elif self.baseline is not None and not kept:
            decision = Conclusion.SETTLED
        elif self.baseline is None and not differ:
            decision = Conclusion.EQUAL if kept else Conclusion.BEST
        elif set(differ) <= set(tied):
            decision = Conclusion.EQUAL_SO_FAR
        elif self.baseline is None and min(map(lows.__getitem__, differ)) > -self.indifference:
            decision = Conclusion.GOOD_ENOUGH
        ahead = reference if leader is None else leader
        return LookResult(reference, tuple(sorted([reference, *kept])), lows, highs, decision, ahead)

    def _settled(self, low: float, high: float) -> bool:
        """Whether an alternative needs no more samples."""
        if low > 0:
            return True
        return self.baseline is not None and (high < 0 or -self.indifference < low <= high < self.indifference)


_LARGEST_RETURN = 2.0**1000
"""Sums and differences of returns up to this size are finite."""


@dataclass(frozen=True)
class Limits:
    """Bounds on the error of a sampled return relative to the untruncated return."""

    bound: float  # the largest |reward|
    cut: float  # bound on the truncation error of one return
    rounding: float
    scale: Scale  # returns and cut are at most 1 in this unit
    assumption: str | None = None  # assumption of `cut`, if no reward bound is known

    @classmethod
    def of_bound(cls, bound: float, discount: float, horizon: int) -> Limits:
        """Limits for |rewards| of at most `bound` and a discount below 1."""
        most = bound / (1 - discount)
        cut = math.nextafter(discount**horizon * most, math.inf) if bound and discount else 0.0
        return cls(bound, cut, (horizon + 64) * ROUNDOFF * most, Scale.above(most))

    @classmethod
    def of_draws(cls, draws: Sequence[Draws], discount: float, horizon: int, reward_bound: float | None) -> Limits:
        """Limits from rollouts. Without a `reward_bound`, later rewards are assumed not to exceed the observed ones.

        With discount 1 the horizon is part of the problem and nothing is truncated. If rollouts were truncated, all
        rewards were 0 and no bound is known, the truncation error is unbounded.
        """
        highest, met, is_open = 0.0, 0.0, False
        for drawn in draws:
            size = largest(drawn.returns)
            if not size <= _LARGEST_RETURN:
                raise SimulatorError("A return is too large for a float. Scale the rewards down, e.g. by 1e-100.")
            highest, met = max(highest, size), max(met, drawn.largest_reward)
            is_open = is_open or (reward_bound is None and bool(drawn.open_returns.any()))
        if reward_bound is not None and met > reward_bound:
            raise SettingsError(
                f"reward_bound is {reward_bound!r}, but a reward of size {met!r} was observed. Increase or omit it."
            )
        bound = met if reward_bound is None else float(reward_bound)
        most = bound * horizon if discount == 1 else bound / (1 - discount)
        cut, assumption = 0.0, None
        if bound and 0 < discount < 1:
            cut = math.nextafter(discount**horizon * most, math.inf)
        if reward_bound is None and 0 < discount < 1 and is_open:
            if bound == 0:
                cut = math.inf
            else:
                assumption = (
                    f"rewards after step {horizon} are at most {at_most(met)} in absolute value, the largest observed"
                )
        scale = Scale.above(max(highest, cut if math.isfinite(cut) else 0.0))
        return cls(bound, cut, (horizon + 64) * ROUNDOFF * most, scale, assumption)


def known_reward_bound(simulator: Simulator, states: Sequence[Any], given: float | None) -> float | None:
    """The largest |reward| reachable from these states: the simulator's bound if available, else the given one."""
    largest = 0.0
    for state in states:
        bound = simulator.largest_reward_from(state)
        if bound is None:
            return given
        largest = max(largest, bound)
    if given is not None and given < largest:
        raise SettingsError(
            f"reward_bound is {given!r}, but rewards of size {largest!r} are possible from here. Omit it: "
            f"{simulator!r} has its own bound."
        )
    return largest
