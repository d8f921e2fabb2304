"""A claim of the paper beside what was measured, and the verdict that follows from the numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

import jmdp
from jmdp.errors import SettingsError

Floats = npt.NDArray[np.float64]

ROUNDING = 1e-9
"""A ratio of two computed numbers may exceed its limit by this fraction of it."""

CONFIDENCE = 0.95
"""Of intervals over seeds."""

AGREEMENT = 1.5
"""An interval wider than this factor agrees with too much to agree with a number."""


class Judgement(StrEnum):
    """What the numbers say of a claim."""

    REPRODUCED = "reproduced"
    BETTER = "better"
    NOT_REPRODUCED = "not reproduced"
    CANNOT_BE_JUDGED = "cannot be judged"


@dataclass(frozen=True)
class Measured:
    """A number with its interval and where it comes from.

    "certified": the interval holds the truth for sure, rounding included. "computed": nothing is random, and the
    interval is the range of the numbers that `value` summarises. "sampled": the interval holds at `confidence`, from n
    samples of these seeds.
    """

    value: float
    low: float
    high: float
    basis: Literal["certified", "computed", "sampled"]
    n: int
    """How many numbers it is drawn from: samples, or single results where nothing is random."""
    of: str
    """What n counts."""
    seeds: tuple[int, ...] = ()
    confidence: float | None = None

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise SettingsError(f"{self.value!r} is not in its own interval [{self.low!r}, {self.high!r}].")
        if self.n < 1:
            raise SettingsError(f"A number drawn from {self.n} {self.of} is none.")
        if not (self.basis == "sampled") == bool(self.seeds) == (self.confidence is not None):
            raise SettingsError("A sampled number, and no other, has seeds and a confidence.")

    @classmethod
    def certified(cls, estimate: jmdp.Estimate, n: int, of: str) -> Measured:
        """A number that is surely in its interval, also after the few roundings it took to form it from others."""
        slip = 2.0**-48
        low, high = estimate.low - slip * abs(estimate.low), estimate.high + slip * abs(estimate.high)
        return cls(float(estimate), low, high, "certified", n, of)

    @classmethod
    def over_seeds(cls, values: Floats, seeds: tuple[int, ...], of: str) -> Measured:
        """The geometric mean of one positive number a seed, and its interval: Student's t on logarithms.

        Of one seed nothing is known.
        """
        logs, n = np.log(values), len(values)
        middle = float(logs.mean())
        half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2) * logs.std(ddof=1) / math.sqrt(n)) if n > 1 else math.inf
        low, high = float(np.exp(middle - half)), float(np.exp(middle + half))
        return cls(float(np.exp(middle)), low, high, "sampled", n, of, seeds, CONFIDENCE)


@dataclass(frozen=True)
class Finding:
    """One claim, and how it fared."""

    claim: str
    """What the paper says, in our words."""
    where: str
    """In the paper."""
    quantity: str
    """What was measured for it."""
    measured: Measured
    rule: str
    """What decides."""
    verdict: Judgement
    paper: float | None = None
    """The paper's own number, where it prints one."""
    remark: str = ""
    """What a reader of the verdict has to know."""

    @property
    def failed(self) -> bool:
        """A failure to reproduce is one."""
        return self.verdict is Judgement.NOT_REPRODUCED


@dataclass(frozen=True)
class Claim:
    """A claim before it is judged."""

    claim: str
    where: str
    quantity: str
    paper: float | None = None
    remark: str = ""

    def at_most(self, limit: float, measured: Measured, *, better: bool = False) -> Finding:
        """It holds if the whole interval is at most the limit. `better` is for a claim that goes beyond the paper's."""
        most = limit + ROUNDING * abs(limit)
        return self._decided(measured, f"must be ≤ {limit:.6g}", measured.high <= most, measured.low > most, better)

    def above(self, limit: float, measured: Measured) -> Finding:
        """It holds if the whole interval is above the limit."""
        return self._decided(measured, f"must be > {limit:.6g}", measured.low > limit, measured.high <= limit)

    def no_contradiction(self, limit: float, measured: Measured) -> Finding:
        """It holds unless the whole interval is above the limit: for numbers that may be at the limit itself."""
        above = measured.low > limit + ROUNDING * abs(limit)
        return self._decided(measured, f"must not surely be above {limit:.6g}", not above, above)

    def unjudged(self, why: str, measured: Measured) -> Finding:
        """Shown, but nothing to be held against the paper's number."""
        return self._finding(measured, why, Judgement.CANNOT_BE_JUDGED)

    def as_near_to_one(self, measured: Measured) -> Finding:
        """Beside a ratio of the paper that would be 1 at best.

        Better if the whole interval is nearer to 1, by factors; reproduced if it is narrow and holds the paper's
        number; not reproduced if all of it is further from 1.
        """
        assert self.paper is not None
        theirs = abs(math.log(self.paper))
        ends = [abs(math.log(end)) if 0 < end < math.inf else math.inf for end in (measured.low, measured.high)]
        nearest = 0.0 if measured.low <= 1 <= measured.high else min(ends)
        if max(ends) < theirs:
            verdict = Judgement.BETTER
        elif measured.low <= self.paper <= measured.high <= AGREEMENT * measured.low:
            verdict = Judgement.REPRODUCED
        else:
            verdict = Judgement.NOT_REPRODUCED if nearest > theirs else Judgement.CANNOT_BE_JUDGED
        rule = f"must surely be nearer to 1 than {self.paper:g}, or agree with it within a factor of {AGREEMENT:g}"
        return self._finding(measured, rule, verdict)

    def _decided(self, measured: Measured, rule: str, holds: bool, fails: bool, better: bool = False) -> Finding:
        if holds:
            verdict = Judgement.BETTER if better else Judgement.REPRODUCED
        else:
            verdict = Judgement.NOT_REPRODUCED if fails else Judgement.CANNOT_BE_JUDGED
        return self._finding(measured, rule, verdict)

    def _finding(self, measured: Measured, rule: str, verdict: Judgement) -> Finding:
        return Finding(self.claim, self.where, self.quantity, measured, rule, verdict, self.paper, self.remark)
