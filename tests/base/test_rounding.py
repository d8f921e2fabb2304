"""P20: what is printed is as true as what is stored. Printed intervals are read back exactly and compared."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jmdp.base import rounding
from jmdp.results import Estimate
from jmdp.results.text import percent
from jmdp.show.plots.grids import short_interval

NUMBER = r"[-−]?[\d.]+(?:e[+\-−]?\d+)?"
finite = st.floats(-1e300, 1e300)
errors = st.floats(min_value=0, max_value=1e300) | st.sampled_from([0.0, 5e-324, 1e-310])


def read(text: str) -> Fraction:
    return Fraction(Decimal(text.replace("−", "-")))


def around(value: float, below: float, above: float) -> Estimate:
    return Estimate(value, value - below, value + above)


def assert_within(number: Estimate, least: Fraction, most: Fraction) -> None:
    assert least <= Fraction(number.low) <= Fraction(number.high) <= most


@settings(max_examples=500)
@given(finite, errors, errors)
def test_plus_minus_contains_the_interval(value, below, above):
    number = around(value, below, above)
    text = rounding.plus_minus(number)
    if number.low == number.high == value:
        assert float(text) == value
        return
    if " ± " not in text:
        assert text == rounding.with_ends(number)
        assert not math.isclose(above, below, rel_tol=0.01)
        return
    middle, error = map(read, text.split(" ± "))
    assert_within(number, middle - error, middle + error)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Estimate(0.08, 0.0051, 0.1699), "0.080 [0.005, 0.170]"),  # as 0.080000 ± 0.090090 it would include 0
        (Estimate(2.43, 1.95, 2.919), "2.43 ± 0.49"),
        (Estimate(2.43, 1.951, 2.934), "2.43 [1.95, 2.94]"),
        (Estimate(-0.4, -1.0, -0.2), "-0.40 [-1.00, -0.20]"),
        (Estimate(0.0, -1.0, 3.0), "0.0 [-1.0, 3.0]"),
    ],
)
def test_an_interval_that_is_not_symmetric_is_printed_with_its_ends(number, text):
    assert rounding.plus_minus(number) == text


@settings(max_examples=500)
@given(finite, errors, errors)
def test_printed_ends_contain_the_interval(value, below, above):
    number = around(value, below, above)
    for text in (rounding.with_ends(number), repr(number), number.to_digits(4)):
        if " ± " in text:
            middle, error = map(read, text.split(" ± "))
            ends = [middle - error, middle + error]
        elif number.low == number.high == value:
            assert float(text.split(" ")[0]) == value
            continue
        else:
            ends = [read(end) for end in re.findall(NUMBER, text.split("[")[1])]
        assert_within(number, *ends)


@given(finite, st.integers(1, 6))
def test_bounds_are_rounded_to_their_side(bound, digits):
    assert read(rounding.at_least(bound, digits)) <= Fraction(bound) <= read(rounding.at_most(bound, digits))


@given(finite, errors, st.integers(0, 9))
@example(5e-324, 0.0, 7)
def test_ends_with_decimals_contain_the_interval(value, error, decimals):
    number = around(value, error, error)
    ends = rounding.ends_to_decimals(number, decimals)
    assert_within(number, *map(read, re.findall(NUMBER, ends)))
    text = rounding.with_decimals(number, decimals)
    assert text.endswith(ends) or number.error < 0.5 * 10.0**-decimals
    assert text.startswith(rounding.decimals_of(value, decimals))


@given(st.floats(0, 1), st.floats(0, 1))
def test_percentages_and_chances_contain_theirs(one, other):
    low, high = sorted((one, other))
    number = Estimate(low, low, high)
    ends = re.findall(r"\d+", percent(number).text.interval)
    assert_within(number, *(Fraction(int(end), 100) for end in ends))
    assert_within(number, *map(read, re.findall(NUMBER, rounding.ends_to_decimals(number, 2, rounding.chance))))
    assert_within(number, *map(read, re.findall(NUMBER, short_interval(number))))


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
    assert rounding.plus_minus(around(value, error, error)) == text


def test_an_interval_that_excludes_0_is_printed_so():
    assert rounding.with_ends(Estimate(0.063, 0.0004, 0.127)) == "0.0630 [0.0004, 0.1271]"
    assert rounding.with_ends(Estimate(-0.063, -0.127, -0.0004)) == "-0.0630 [-0.1271, -0.0004]"
    assert rounding.plus_minus(Estimate(0.0634, 0.0004, 0.1264)) == "0.0634 ± 0.0631"
    assert rounding.plus_minus(Estimate(-0.0634, -0.1264, -0.0004)) == "-0.0634 ± 0.0631"
    assert rounding.with_ends(Estimate(0.063, 1e-9, 0.127)) == "0.063000 [0.000000, 0.127001]"


def test_a_table_has_few_digits():
    assert rounding.with_ends(Estimate(2.0, 2 - 4e-13, 2 + 4e-13), digits=6) == "2.00000 [1.99999, 2.00001]"


def test_what_is_not_finite_is_said():
    assert rounding.plus_minus(Estimate(28.32834, -math.inf, math.inf)) == "28.3283 (no error bound)"
    assert rounding.plus_minus(Estimate(1.0, 0.5, math.inf)) == "1 (at least 0.5, no upper bound)"
    assert rounding.plus_minus(Estimate(1.0, -math.inf, 1.23456)) == "1 (at most 1.235, no lower bound)"
    assert rounding.plus_minus(Estimate(math.nan, 0.0, 1.0)) == "nan"
    assert rounding.with_ends(Estimate(1.0, 0.0, math.inf)) == "1.0 [0.0, inf]"
    assert rounding.with_ends(Estimate(1.0, -math.inf, math.inf)) == "1 [-inf, inf]"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Estimate(0.61152662, 0.61152662 - 8e-13, 0.61152662 + 8e-13), "0.6115266 ± 3e-08"),
        (Estimate(1.0, 1.0, 1.0), "1 ± 0"),
        (Estimate(0.5272, 0.353792, 0.85886), "0.5272 in [0.3537, 0.8589]"),
        (Estimate(12345.6, 11111.1, math.inf), "12350 in [11110, inf]"),
        (Estimate(-0.5, -0.75, 0.0), "-0.5 in [-0.75, 0]"),
    ],
)
def test_as_many_significant_digits_as_asked_for(number, text):
    assert number.to_digits(4) == text


@given(st.floats(-1e30, 1e30), st.sampled_from([rounding.ROUND_FLOOR, rounding.ROUND_CEILING]))
def test_three_digits_are_written_as_those_of_floats(value, direction):
    rounded = rounding._leading(Decimal(value), 3, direction)
    if not 0 < abs(rounded) < Decimal("1e-300"):  # floats that near to 0 have fewer digits
        assert rounding._general(rounded, 3) == f"{float(rounded) + 0.0:.3g}"


def test_numbers_in_figures():
    assert rounding.with_decimals(Estimate(-0.1234, -0.2, 0.0), 2) == "−0.12 [−0.21, 0]"
    assert rounding.with_decimals(Estimate(0.1234, 0.1233, 0.1235), 2) == "0.12"
    assert rounding.with_decimals(Estimate(0.97, 0.9612, 1.0), 3, rounding.chance, "; ") == "0.970; [0.961, 1]"
    assert rounding.with_decimals(Estimate(0.1249, 0.1229, 0.1269), 2) == "0.12 [0.12, 0.13]"
    assert rounding.with_decimals(Estimate(0.0, 0.0, 2e-5), 3, rounding.chance) == "<0.001"
    assert rounding.with_decimals(Estimate(1e-5, 0.0, 1.0), 3, rounding.chance) == "<0.001 [0, 1]"
    assert rounding.decimals_of(-0.0001, 2) == "0"
    assert rounding.decimals_of(12345678.9, 2) == "1.23e+07"
    assert [rounding.chance(p) for p in (0.0, 1e-5, 0.3124, 1 - 1e-5, 1.0)] == ["0", "<0.001", "0.312", ">0.999", "1"]
    assert [rounding.significant(x, 2) for x in (432.1, -0.0123, 0.0, 99.6)] == ["430", "−0.012", "0", "100"]


@given(finite, errors, st.integers(1, 6))
@example(0.125, 1e-17, 2)
@example(1.0, 0.0, 3)
def test_supported_digits_are_those_of_the_whole_interval(value, error, wanted):
    """Both ends, and so all that is between them, round to what is printed; else the interval is printed."""
    number = Estimate.around(value, error)
    text, digits = rounding.supported(number, wanted), rounding.supported_digits(number, wanted)
    if digits is None:
        assert text == rounding.plus_minus(number)
        assert wanted > 1 or error > 0
        return
    assert wanted <= digits <= wanted + 3
    for end in (number.low, number.high):
        assert read(text) == Fraction(Decimal(f"{end:.{digits}g}"))


def test_a_size_without_its_error_has_no_digit_that_is_not_known():
    assert rounding.supported(Estimate(0.000122, 0.000009, 0.000235), 3) == "0.000122 ± 0.000113"
    assert rounding.supported(Estimate(0.402, 0.321, 0.483), 3) == "0.402 ± 0.081"
    assert rounding.supported(Estimate(0.402, 0.4019, 0.4021), 3) == "0.402"
    assert rounding.supported(Estimate(0.4015, 0.4014999, 0.4015001), 3) == "0.4015"
    assert rounding.supported(Estimate(3e-320, 2.999e-320, 3.001e-320), 2) == "3e−320"


def test_shares_of_cases_have_the_digits_that_their_interval_supports():
    found = [
        rounding.share_of_cases(Estimate(*x))
        for x in ((0.31, 0.306, 0.314), (0.31, 0.3045, 0.3135), (0.125, 0.125 - 1e-6, 0.125 + 1e-6),
                  (1e-9, 0.0, 1e-8), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0195))
    ]  # fmt: skip
    assert found == ["31% of cases", "31% of cases (30.4 to 31.4%)", "12.5% of cases", "<1% of cases", "0% of cases",
                     "0% of cases (0 to 2%)"]  # fmt: skip


@pytest.mark.parametrize(
    ("level", "text"),
    [
        (0.95, "95%"),
        (0.999, "99.9%"),
        (1 - 0.05 / 3, "98.33%"),
        (1 - 0.05 / 7, "99.285%"),
        (0.9, "90%"),
        (2 / 3, "66.6%"),
    ],
)
def test_confidence_is_not_overstated(level, text):
    assert rounding.confidence_percent(level) == text
    assert Fraction(text.rstrip("%")) / 100 <= Fraction(level) + Fraction(1, 10**12)


@given(st.floats(0.001, 1 - 1e-15))
def test_no_confidence_is_overstated(level):
    printed = Fraction(rounding.confidence_percent(level).rstrip("%")) / 100
    assert Fraction(level) - (1 - Fraction(level)) / 90 <= printed <= Fraction(level) + Fraction(1, 10**9)
    assert printed < 1


@given(st.integers(0, 2000), st.integers(1, 2000))
def test_whole_percents_of_a_share_and_its_complement_add_up(k, n):
    share = min(k, n) / n
    one, other = (float(rounding.whole_percent(x).strip("<>%")) for x in (share, 1 - share))
    assert one + other == 100
    assert abs(one - 100 * share) <= 1  # <1% and >99% are bounds


def test_only_exact_shares_are_0_and_100_percent():
    shares = (0.999, 0.001, 1.0, 0.0, 0.29, 0.825, 0.175)
    assert list(map(rounding.whole_percent, shares)) == [">99%", "<1%", "100%", "0%", "29%", "82%", "18%"]
