"""The answer to the question whether one alternative is worse than another by more than a margin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jmdp.base import rounding
from jmdp.base.interval import Estimate, Verdict
from jmdp.base.settings import short, whole_number
from jmdp.errors import SettingsError
from jmdp.statistics.margins import Margin
from jmdp.statistics.means import ENOUGH
from jmdp.statistics.unseen import Unseen, missing

if TYPE_CHECKING:
    from jmdp.comparisons.comparison import Comparison

_NINE_IN_TEN = 1.2816
"""90% quantile of the standard normal distribution."""


@dataclass(frozen=True, kw_only=True)
class NotWorse:
    """Whether E[new] ≥ E[old] − margin: `verdict` is YES, NO or UNKNOWN, and so is the truth value.

    If smaller returns are better (`sign` −1): whether E[new] ≤ E[old] + margin.

    Intervals are valid as those of the comparison are: for ``samples=n`` at this number of samples, which was chosen in
    advance, otherwise at all scheduled looks. They allow for an unseen event that costs a whole episode, or
    `largest_loss`, so they are wider than those of `Comparison.gap`, which describe what was seen.
    """

    new: str
    old: str
    margin: Margin
    excess: Estimate  # the loss beyond the margin: E[old] − E[new] − margin, or E[new] − E[old] − margin
    gap: Estimate  # E[new] − E[old]
    change: Estimate | None  # (E[new] − E[old])/|E[old]|; None if the margin is absolute, or E[old] may be 0
    old_mean: Estimate  # E[old], with the interval that decides its sign
    std: float  # of the loss beyond the margin in one sample
    samples: int  # that both alternatives have
    confidence: float
    effort: str  # confidence and number of samples in words
    sign: float = 1.0  # −1 if smaller returns are better
    unseen: Unseen | None = None  # what would reverse the verdict; None without one, or if nothing can
    run: str = "sample"  # the name of one sample

    @property
    def verdict(self) -> Verdict:
        """YES if the lower limit of the gap is above −margin, NO if the upper limit is below it, else UNKNOWN."""
        if self.excess.high < 0:
            return Verdict.YES
        return Verdict.NO if self.excess.low > 0 else Verdict.UNKNOWN

    @property
    def margin_known(self) -> bool:
        """False if the margin is relative to a mean that may be 0."""
        return not self.margin.relative or self.change is not None

    def smallest_loss(self, samples: int) -> float:
        """The loss of the mean that so many samples find with a probability of about 90%: then the verdict is NO.

        Margin + h + 1.28 σ/√n, where h is the distance of the lower limit of `excess` and σ = `std`, both as observed;
        h is taken to decrease as 1/√n.
        """
        samples = whole_number("samples", samples, 1)
        allowed = self.margin.size * (abs(float(self.old_mean)) if self.margin.relative else 1.0)
        off = (float(self.excess) - self.excess.low) * math.sqrt(self.samples / samples)
        return allowed + off + _NINE_IN_TEN * self.std / math.sqrt(samples)

    def __bool__(self) -> bool:
        return bool(self.verdict)

    def __str__(self) -> str:
        reversed_by = f". {self.reversed_by}".removesuffix(".") if self.unseen is not None else ""
        return f"{self.sentence}: {self.numbers}{reversed_by}"

    @property
    def reversed_by(self) -> str:
        """What outcomes that were not seen would have to cost to reverse the verdict; or how rare they may be."""
        if self.unseen is None:
            return f"{missing(self.samples, self.run)}."
        worse = self.verdict is Verdict.NO
        return self.unseen.sentence(
            self.run, "stays within the margin by more than {}" if worse else "loses more than {} beyond the margin"
        )

    @property
    def sentence(self) -> str:
        """The verdict in words, without the numbers."""
        if not self.gap.has_interval:
            nothing = "all returns are 0, so nothing is known about their size"
            few = "too few samples for an interval" if self.samples < ENOUGH else nothing
            return f"undecided: {few} ({self.effort})"
        if not self.margin_known:
            mean = rounding.with_ends(self.old_mean, digits=6)
            return (
                f"undecided: the mean return of {self.old} is {mean}, not clearly away from 0, so {self.margin} of it "
                f"is not known. Give the margin in units of the return ({self.effort})"
            )
        says = {
            Verdict.YES: f"{self.new} is not worse than {self.old} by more than {self.margin}",
            Verdict.NO: f"{self.new} is worse than {self.old} by more than {self.margin}",
            Verdict.UNKNOWN: f"undecided whether {self.new} is worse than {self.old} by more than {self.margin}",
        }[self.verdict]
        return f"{says} ({self.effort})"

    @property
    def numbers(self) -> str:
        """The gap with its interval, and the relative change if the margin is relative."""
        loss = -math.inf if self.margin.relative else -self.sign * self.margin.size
        said = f"{self.new} − {self.old} = {_beside(self.gap, loss)}"
        return said if self.change is None else f"{said}, a change of {self.percent}"

    @property
    def percent(self) -> str:
        """The relative change in percent, with its interval, if the margin is relative."""
        assert self.change is not None
        ends = (100 * end for end in (float(self.change), self.change.low, self.change.high))
        middle, _, interval = _beside(Estimate(*ends), -100 * self.sign * self.margin.size).partition(" ")
        return f"{middle}% {interval}"


def not_worse(c: Comparison, margin: Margin, new: int | None, old: int | None) -> NotWorse:
    """Answer for two alternatives by number; `new` may be omitted if there are two."""
    others = [i for i in range(len(c.actions)) if i != old]
    new = others[0] if new is None and len(others) == 1 else new
    if new is None or old is None:
        raise SettingsError('Name both alternatives: not_worse(margin, "new", "old").')
    if new == old:
        raise SettingsError(f"{short(c.actions[new])} is compared with itself. Name two different alternatives.")
    pair, sign = c.summary.pair_means(new, old), c.summary.sign
    gap, change, old_mean = pair.gap, pair.change() if margin.relative else None, pair.old
    if sign < 0:  # `pair` has the negative returns
        gap, change, old_mean = gap.negative(), None if change is None else change.negative(), old_mean.negative()
    n = len(pair.draws.returns)
    return NotWorse(
        new=c.actions[new],
        old=c.actions[old],
        margin=margin,
        excess=pair.excess(margin),
        gap=gap,
        change=change,
        old_mean=old_mean,
        std=pair.std(margin),
        samples=n,
        confidence=c.confidence,
        effort=effort_of(c, n),
        sign=sign,
        unseen=pair.unseen(margin),
        run=c.run,
    )


def effort_of(c: Comparison, n: int | None = None) -> str:
    """Confidence, and the number of samples: n, or all."""
    paired = c.paired_samples == c.samples and c.summary.coupling.shared_in_a_state
    count = c.samples if n is None else n
    runs = f"{count:,} paired {c.run}s" if paired else f"{count:,} {c.run}s of each"
    return f"{rounding.confidence_percent(c.confidence)} confidence, {runs}"


def _beside(number: Estimate, threshold: float) -> str:
    """``value [low, high]`` with enough decimals for both printed ends to be on their side of a threshold."""
    wide = number.error
    if not 0 < wide < math.inf:
        return rounding.with_ends(number, digits=6)
    decimals = max(0, 1 - math.floor(math.log10(wide)))
    for more in range(4):
        unit = 10.0 ** (decimals + more)
        low, high = math.floor(number.low * unit) / unit, math.ceil(number.high * unit) / unit
        if (low > threshold) == (number.low > threshold) and (high < threshold) == (number.high < threshold):
            break
    return rounding.with_decimals(number, decimals + more)
