"""Verdicts follow from numbers; numbers carry where they come from (P19)."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from jmdp.errors import SettingsError
from reproduction.findings import Claim, Judgement, Measured
from reproduction.paper.gap_validation import GapValidation
from reproduction.report import measured_text

CLAIM = Claim("It holds.", "Figure 0", "how much", 4.0)


def between(low, high):
    return Measured((low + high) / 2, low, high, "sampled", 100, "rollouts", (1,), 0.95)


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (between(0.1, 0.9), Judgement.REPRODUCED),
        (between(0.1, 1.0), Judgement.REPRODUCED),
        (between(0.1, 1.0 + 1e-12), Judgement.REPRODUCED),
        (between(0.9, 1.1), Judgement.CANNOT_BE_JUDGED),
        (between(1.1, 1.2), Judgement.NOT_REPRODUCED),
    ],
    ids=["below", "at the limit", "rounding", "across", "above"],
)
def test_at_most(measured, verdict):
    assert CLAIM.at_most(1.0, measured).verdict is verdict


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (between(1.1, 1.2), Judgement.REPRODUCED),
        (between(0.9, 1.1), Judgement.CANNOT_BE_JUDGED),
        (between(0.8, 1.0), Judgement.NOT_REPRODUCED),
    ],
    ids=["above", "across", "at the limit"],
)
def test_above(measured, verdict):
    assert CLAIM.above(1.0, measured).verdict is verdict


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [(between(0.9, 1.1), Judgement.REPRODUCED), (between(1.01, 1.1), Judgement.NOT_REPRODUCED)],
    ids=["across", "above"],
)
def test_no_contradiction(measured, verdict):
    assert CLAIM.no_contradiction(1.0, measured).verdict is verdict


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (between(0.9, 1.1), Judgement.BETTER),
        (between(0.3, 3.9), Judgement.BETTER),
        (between(3.5, 4.5), Judgement.REPRODUCED),
        (between(2.0, 5.0), Judgement.CANNOT_BE_JUDGED),
        (between(0.2, 1.1), Judgement.CANNOT_BE_JUDGED),
        (between(0.0, 0.3), Judgement.CANNOT_BE_JUDGED),
        (Measured(5.0, 0.0, math.inf, "sampled", 1, "networks", (1,), 0.95), Judgement.CANNOT_BE_JUDGED),
        (between(4.1, 5.0), Judgement.NOT_REPRODUCED),
        (between(0.1, 0.2), Judgement.NOT_REPRODUCED),
    ],
    ids=["around 1", "within", "agrees", "wide", "beyond at one end", "from below", "anything", "above", "below"],
)
def test_nearness_to_one_is_by_factors_on_both_sides(measured, verdict):
    assert CLAIM.as_near_to_one(measured).verdict is verdict


def test_beyond_the_paper():
    assert CLAIM.at_most(1.0, between(0.1, 0.9), better=True).verdict is Judgement.BETTER
    assert CLAIM.at_most(1.0, between(0.9, 1.9), better=True).verdict is Judgement.CANNOT_BE_JUDGED
    assert CLAIM.at_most(1.0, between(1.8, 1.9), better=True).failed


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": 2.0},
        {"value": math.nan},
        {"low": math.nan},
        {"n": 0},
        {"seeds": ()},
        {"confidence": None},
        {"basis": "certified"},
        {"basis": "computed", "confidence": None},
    ],
    ids=json.dumps,
)
def test_a_number_without_its_source_is_none(wrong):
    given = vars(between(0.0, 1.0))
    Measured(**given)
    with pytest.raises(SettingsError):
        Measured(**given | wrong)


def test_intervals_over_seeds_cover():
    """Log-normal falls, three seeds, 95%: of 4,000 intervals 95% hold the truth; false alarm about 1e-6 (4.9 σ)."""
    rng = np.random.default_rng(0)
    found = [Measured.over_seeds(np.exp(rng.normal(-1.0, 0.5, 3)), (1, 2, 3), "networks") for _ in range(4000)]
    covered = np.mean([interval.low <= math.exp(-1.0) <= interval.high for interval in found])
    assert abs(covered - 0.95) < 4.9 * math.sqrt(0.95 * 0.05 / 4000)


def test_of_one_seed_nothing_is_known():
    measured = Measured.over_seeds(np.array([0.5]), (1,), "networks")
    assert (measured.low, measured.high) == (0.0, math.inf)
    assert CLAIM.at_most(1.0, measured).verdict is Judgement.CANNOT_BE_JUDGED


def test_intervals_of_frequencies_cover():
    """Clopper and Pearson's are exact, so at least as many hold as they say: here 2,000 at 1 − 0.2/200."""
    experiment = GapValidation(family_confidence=0.8)
    counts = np.random.default_rng(0).binomial(400, 0.03, 2000)
    missed = sum(
        not low <= 0.03 <= high for low, high in (experiment._binomial(count, 200, 400) for count in counts.tolist())
    )
    assert missed <= 14  # 2 expected at most; more than 14 in fewer than 1 of 10⁷ runs
    assert experiment._binomial(0, 200, 400)[0] == 0
    assert experiment._binomial(400, 200, 400)[1] == 1


def test_what_cannot_be_held_against_the_paper_is_not():
    assert CLAIM.unjudged("depends on a scale of ours", between(0.1, 0.2)).verdict is Judgement.CANNOT_BE_JUDGED


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (0.61152662, 0.61152662 - 8e-13, 0.61152662 + 8e-13, "0.6115266 ± 3e−08"),
        (1.0, 1.0, 1.0, "1 ± 0"),
        (-2.5, -2.5, -2.5, "−2.5 ± 0"),
        (0.5272, 0.353792, 0.85886, "0.5272 in [0.3537, 0.8589]"),
        (0.5, 0.0, math.inf, "0.5 in [0, ∞]"),
    ],
    ids=["narrow", "exact", "negative", "outwards", "unknown"],
)
def test_what_is_printed_holds_what_was_found(value, low, high, text):
    assert measured_text(Measured(value, low, high, "computed", 1, "runs")) == text
