"""P20: what is printed is as true as what is stored. Printed intervals are read back exactly and compared."""

from __future__ import annotations

import math
import re
import sys
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmdp
from jmdp.base import rounding
from jmdp.plots.chances import chance, interval, number
from sample_models import random_problem

NUMBER = r"[-−]?[\d.]+(?:e[+\-−]?\d+)?"
finite = st.floats(-1e300, 1e300)
errors = st.floats(min_value=0, max_value=1e300) | st.sampled_from([0.0, 5e-324, 1e-310])


def read(text: str) -> Fraction:
    return Fraction(Decimal(text.replace("−", "-")))


def around(value: float, below: float, above: float) -> tuple[float, float]:
    return value - below, value + above


@settings(max_examples=500)
@given(finite, errors, errors)
def test_plus_minus_contains_the_interval(value, below, above):
    low, high = around(value, below, above)
    text = rounding.plus_minus(value, low, high)
    if low == high == value:
        assert float(text) == value
        return
    middle, error = map(read, text.split(" ± "))
    assert middle - error <= Fraction(low) <= Fraction(high) <= middle + error


@settings(max_examples=500)
@given(finite, errors, errors)
def test_printed_ends_contain_the_interval(value, below, above):
    low, high = around(value, below, above)
    for text in (rounding.with_ends(value, low, high), repr(jmdp.Estimate(value, low, high))):
        if " ± " in text:
            middle, error = map(read, text.split(" ± "))
            ends = [middle - error, middle + error]
        elif low == high == value:
            assert float(text.split(" ")[0]) == value
            continue
        else:
            ends = [read(end) for end in re.findall(NUMBER, text.split("[")[1])]
        assert ends[0] <= Fraction(low) <= Fraction(high) <= ends[1]


@given(finite, st.integers(1, 6))
def test_bounds_are_rounded_to_their_side(bound, digits):
    assert read(rounding.at_least(bound, digits)) <= Fraction(bound) <= read(rounding.at_most(bound, digits))


@given(finite, errors, st.integers(0, 9))
def test_intervals_in_figures_contain_theirs(value, error, decimals):
    low, high = around(value, error, error)
    ends = re.findall(NUMBER, interval(jmdp.Estimate(value, low, high), number, decimals))
    assert read(ends[0]) <= Fraction(low) <= Fraction(high) <= read(ends[1])


@given(st.floats(0, 1), st.floats(0, 1))
def test_percentages_and_chances_contain_theirs(one, other):
    low, high = sorted((one, other))
    ends = re.findall(r"\d+", rounding.percent(low, low, high).split("[")[1])
    assert int(ends[0]) <= 100 * Fraction(low) <= 100 * Fraction(high) <= int(ends[1])
    ends = re.findall(NUMBER, interval(jmdp.Estimate(low, low, high), chance, 2))
    assert read(ends[0]) <= Fraction(low) <= Fraction(high) <= read(ends[1])


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (27.62409378112345, 6e-11, "27.62409378112 ± 7e-11"),  # never 27.6241 ± 6e-11
        (27.62, 0.12, "27.62 ± 0.13"),
        (-0.0023, 0.0013, "-0.0023 ± 0.0013"),
        (1.5e200, 1e190, "1.50000000000e+200 ± 1.0e+190"),
        (0.25, 0.0, "0.25"),
        (12345.0, 5000.0, "12300 ± 5100"),
    ],
)
def test_value_and_error_end_at_the_same_digit(value, error, text):
    assert rounding.plus_minus(value, value - error, value + error) == text


def test_an_interval_that_excludes_0_is_printed_so():
    assert rounding.with_ends(0.063, 0.0004, 0.127) == "0.0630 [0.0004, 0.1271]"
    assert rounding.with_ends(-0.063, -0.127, -0.0004) == "-0.0630 [-0.1271, -0.0004]"
    assert rounding.plus_minus(0.0634, 0.0004, 0.1264) == "0.0634 ± 0.0631"
    assert rounding.plus_minus(-0.0634, -0.1264, -0.0004) == "-0.0634 ± 0.0631"
    assert rounding.with_ends(0.063, 1e-9, 0.127) == "0.063000 [0.000000, 0.127001]"


def test_a_table_has_few_digits():
    assert rounding.with_ends(2.0, 2 - 4e-13, 2 + 4e-13, digits=6) == "2.00000 [1.99999, 2.00001]"


def test_what_is_not_finite_is_said():
    assert rounding.plus_minus(1.0, -math.inf, math.inf) == "1 ± ∞"
    assert rounding.plus_minus(math.nan, 0.0, 1.0) == "nan"
    assert rounding.with_ends(1.0, 0.0, math.inf) == "1.0 [0.0, inf]"
    assert rounding.with_ends(1.0, -math.inf, math.inf) == "1 [-inf, inf]"


def test_a_printed_error_bound_is_not_below_the_stored_one():
    """4.448e-14 must not be printed as 4.4e-14."""
    assert rounding.at_most(4.448e-14, 2) == "4.5e-14"
    for seed in range(20):
        model, policy = random_problem(np.random.default_rng(seed))
        result = jmdp.evaluate(model, policy, jmdp.Local(), throw=False, progress=False)
        bounds = [read(bound) for bound in re.findall(rf"off by at most ({NUMBER})", repr(result))]
        stored = [result.certificate.mean_error, result.certificate.covariance_error]
        assert all(Fraction(float(np.max(error))) <= bound for error, bound in zip(stored, bounds, strict=True))


def test_a_printed_gap_contains_its_intervals():
    for seed in range(20):
        model, policy = random_problem(np.random.default_rng(seed))
        if model.shape[2] == 1:
            continue
        gap = jmdp.evaluate(model, policy, jmdp.Local(), throw=False, progress=False).gap(0, 0, 1)
        lines = {line.split()[0]: line for line in str(gap).splitlines()[2:]}
        for name in ("mean", "std", "correlation"):
            stored, found = getattr(gap, f"{name}_interval"), re.findall(NUMBER, lines[name])
            if stored is None or math.isnan(getattr(gap, name)):
                continue
            middle, error = read(found[0]), read(found[1]) if len(found) > 1 else Fraction(0)
            if error or stored.width:
                assert middle - error <= Fraction(stored.low) <= Fraction(stored.high) <= middle + error
        assert read(re.findall(NUMBER, lines["P(gap"])[1]) >= Fraction(gap.inferiority_bound())


def test_the_context_is_exact():
    """The sum of the largest and the smallest float fits into the digits that are kept."""
    largest, smallest = Decimal(sys.float_info.max), Decimal(math.ulp(0.0))
    assert Fraction(rounding._EXACT.add(largest, smallest)) == Fraction(largest) + Fraction(smallest)
    assert Fraction(Context(prec=28).add(largest, smallest)) != Fraction(largest) + Fraction(smallest)
