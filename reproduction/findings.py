"""Claims of the paper with measured values, and the verdicts that follow from them."""

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
"""Relative rounding error by which a ratio of two computed numbers may exceed its limit."""

CONFIDENCE = 0.95
"""Confidence of intervals over seeds."""

AGREEMENT = 1.5
"""Largest ratio of an interval's ends for which it can count as agreement with a number."""


class Judgement(StrEnum):
    """Verdict on a claim."""

    REPRODUCED = "reproduced"
    BETTER = "better"
    NOT_REPRODUCED = "not reproduced"
    CANNOT_BE_JUDGED = "cannot be judged"


class Setting(StrEnum):
    """Settings on which a claim was tested."""

    AUTHORS = "the authors' settings"
    OURS = "our settings"


@dataclass(frozen=True)
class Measured:
    """Measured value with its interval and source.

    "certified": the interval certainly contains the true value, rounding included. "computed": nothing is random, and
    the interval is the range of the numbers that `value` summarises. "sampled": the interval contains the true value
    with probability `confidence`, from n samples with these seeds.
    """

    value: float
    low: float
    high: float
    basis: Literal["certified", "computed", "sampled"]
    n: int
    """Number of samples, or of single results if nothing is random."""
    of: str
    """Name of the things that n counts."""
    seeds: tuple[int, ...] = ()
    confidence: float | None = None

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise SettingsError(f"value {self.value!r} is outside its interval [{self.low!r}, {self.high!r}].")
        if self.n < 1:
            raise SettingsError(f"n is {self.n} ({self.of}). Give at least 1.")
        if not (self.basis == "sampled") == bool(self.seeds) == (self.confidence is not None):
            raise SettingsError("Give seeds and confidence if basis is 'sampled', and only then.")

    @classmethod
    def certified(cls, estimate: jmdp.results.Estimate, n: int, of: str) -> Measured:
        """Return a certified value. The interval is widened for the rounding of a few operations."""
        slip = 2.0**-48
        low, high = estimate.low - slip * abs(estimate.low), estimate.high + slip * abs(estimate.high)
        return cls(float(estimate), low, high, "certified", n, of)

    @classmethod
    def over_seeds(cls, values: Floats, seeds: tuple[int, ...], of: str) -> Measured:
        """Return the geometric mean of one positive number per seed, with Student's t interval on logarithms.

        With a single seed the interval is infinite.
        """
        logs, n = np.log(values), len(values)
        middle = float(logs.mean())
        half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2) * logs.std(ddof=1) / math.sqrt(n)) if n > 1 else math.inf
        low, high = float(np.exp(middle - half)), float(np.exp(middle + half))
        return cls(float(np.exp(middle)), low, high, "sampled", n, of, seeds, CONFIDENCE)


@dataclass(frozen=True)
class Finding:
    """A claim with its measured value and verdict."""

    claim: str
    """Claim of the paper, in our words."""
    where: str
    """Place in the paper."""
    quantity: str
    """Description of the measured quantity."""
    measured: Measured
    rule: str
    """Rule that decides the verdict."""
    verdict: Judgement
    paper: float | None = None
    """The paper's number, if it prints one."""
    remark: str = ""
    """Note that is needed to interpret the verdict."""
    setting: Setting = Setting.OURS
    addition: bool = False
    """The claim is not the paper's: a control or an addition of ours."""

    @property
    def failed(self) -> bool:
        """True if a claim of the paper was not reproduced."""
        return self.verdict is Judgement.NOT_REPRODUCED and not self.addition


@dataclass(frozen=True)
class Claim:
    """A claim without a verdict."""

    claim: str
    where: str
    quantity: str
    paper: float | None = None
    remark: str = ""
    setting: Setting = Setting.OURS
    addition: bool = False

    def at_most(self, limit: float, measured: Measured, *, better: bool = False) -> Finding:
        """Judge by: the whole interval is at most the limit. `better` marks a stronger claim than the paper's."""
        most = limit + ROUNDING * abs(limit)
        return self._decided(measured, f"must be ≤ {limit:.6g}", measured.high <= most, measured.low > most, better)

    def above(self, limit: float, measured: Measured) -> Finding:
        """Judge by: the whole interval is above the limit."""
        return self._decided(measured, f"must be > {limit:.6g}", measured.low > limit, measured.high <= limit)

    def no_contradiction(self, limit: float, measured: Measured) -> Finding:
        """Judge by: not all of the interval is above the limit. For numbers that may equal the limit."""
        above = measured.low > limit + ROUNDING * abs(limit)
        return self._decided(measured, f"the interval must include values ≤ {limit:.6g}", not above, above)

    def agreeing(self, measured: Measured) -> Finding:
        """Judge by: the interval contains the paper's number and is narrow."""
        assert self.paper is not None
        inside = measured.low <= self.paper <= measured.high
        rule = f"must contain {self.paper:g} and be no wider than a factor of {AGREEMENT:g}"
        return self._decided(measured, rule, inside and measured.high <= AGREEMENT * measured.low, not inside)

    def unjudged(self, why: str, measured: Measured) -> Finding:
        """Report a measured value without a verdict, for the reason given."""
        return self._finding(measured, why, Judgement.CANNOT_BE_JUDGED)

    def as_near_to_one(self, measured: Measured) -> Finding:
        """Compare with a ratio of the paper whose ideal value is 1.

        Better if the whole interval is nearer to 1 than the paper's ratio, on a log scale; reproduced if it is narrow
        and contains the paper's ratio; not reproduced if the whole interval is further from 1.
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
        rule = (
            f"interval must be nearer to 1 than {self.paper:g}, or contain it and be no wider than a factor of "
            f"{AGREEMENT:g}"
        )
        return self._finding(measured, rule, verdict)

    def _decided(self, measured: Measured, rule: str, holds: bool, fails: bool, better: bool = False) -> Finding:
        if holds:
            verdict = Judgement.BETTER if better else Judgement.REPRODUCED
        else:
            verdict = Judgement.NOT_REPRODUCED if fails else Judgement.CANNOT_BE_JUDGED
        return self._finding(measured, rule, verdict)

    def _finding(self, measured: Measured, rule: str, verdict: Judgement) -> Finding:
        return Finding(
            self.claim, self.where, self.quantity, measured, rule, verdict, self.paper, self.remark, self.setting,
            self.addition,
        )  # fmt: skip
