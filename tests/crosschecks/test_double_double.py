"""Double-double arithmetic against exact rationals of FLINT, at the scales and cancellations where it could fail."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from jmdp.base.arrays import UNDERFLOW
from jmdp.methods.shared import double_double as dd
from jmdp.methods.shared.double_double import DoubleDouble

flint = pytest.importorskip("flint")

CASES = 3000
ROOM = 990
"""Exponents up to which Dekker's splitting does not overflow; callers divide by the largest reward first."""


def exact(x: float) -> flint.fmpq:
    return flint.fmpq(*float(x).as_integer_ratio())


RELATIVE, NOTHING = exact(dd.RELATIVE_ERROR), exact(0)
UNDERFLOWS = exact(UNDERFLOW)
"""Of products; a sum of floats does not underflow."""


def value(x: DoubleDouble) -> list[flint.fmpq]:
    return [exact(high) + exact(low) for high, low in zip(*(np.ravel(word).tolist() for word in x), strict=True)]


def mantissas(rng: np.random.Generator, n: int) -> np.ndarray:
    """Random ones in ±[1, 2), and those next to powers of two, of few bits, and with half of their bits set."""
    next_to = rng.choice([1.0, 1 + 2**-52, 2 - 2**-52, 1.5, 1 + 2**-26, 1 + 2**-27, 2 - 2**-26, 1 + 2**-52 + 2**-27], n)
    return np.where(rng.random(n) < 0.5, 1 + rng.random(n), next_to) * rng.choice([-1.0, 1.0], n)


def numbers(rng: np.random.Generator, n: int, largest: int) -> DoubleDouble:
    """Normalised pairs with exponents within ±largest; the low word is often 0, tiny or half a unit of the high one."""
    high = np.ldexp(mantissas(rng, n), rng.integers(-largest, largest, n))
    high[rng.random(n) < 0.02] = 0.0
    half = np.spacing(np.abs(high)) / 2
    part = rng.choice([0.0, 1.0, -1.0, 2.0**-52, 2.0**-200], n)
    low = half * np.where(rng.random(n) < 0.5, rng.uniform(-1, 1, n), part)
    low[high + low != high] = 0.0  # half a unit below a power of two is half too much
    return DoubleDouble(high, low)


def pairs(rng: np.random.Generator, largest: int) -> tuple[DoubleDouble, DoubleDouble]:
    """Pairs of numbers: unrelated, of similar size, and −1 times each other up to a few units of either word."""
    x, other = numbers(rng, CASES, largest), numbers(rng, CASES, largest)
    similar = np.ldexp(mantissas(rng, CASES), np.frexp(x.high)[1] - 1 + rng.integers(-60, 3, CASES))
    kind = rng.integers(0, 5, CASES)
    high = np.choose(kind, [other.high, similar, -x.high, -x.high, np.nextafter(-x.high, 0)])
    unit = np.spacing(np.abs(x.low)) * rng.integers(-3, 4, CASES)
    low = np.choose(kind, [other.low, np.zeros(CASES), -x.low, unit - x.low, -x.low])
    low[high + low != high] = 0.0
    return x, DoubleDouble(high, low)


def assert_within(
    found: DoubleDouble,
    right: list[flint.fmpq],
    size: list[flint.fmpq],
    operations: int = 1,
    absolute: flint.fmpq = NOTHING,
) -> None:
    """Within the promised error of exact results, relative to the magnitudes that are added; and normalised."""
    assert np.array_equal(found.high + found.low, found.high)
    assert len(right) == np.size(found.high)
    for one, truth, most in zip(value(found), right, size, strict=True):
        assert abs(one - truth) <= operations * RELATIVE * most + absolute


@pytest.mark.parametrize("largest", [2, 60, 400, ROOM])
def test_sums_and_differences(largest):
    rng = np.random.default_rng(largest)
    x, y = pairs(rng, largest)
    X, Y, high = value(x), value(y), [exact(h) for h in y.high]
    sizes = [abs(a) + abs(b) for a, b in zip(X, Y, strict=True)]
    assert_within(dd.add(x, y), list(map(operator.add, X, Y)), sizes)
    assert_within(dd.add(x, dd.negative(y)), list(map(operator.sub, X, Y)), sizes)
    assert_within(dd.add_float(x, y.high), list(map(operator.add, X, high)), sizes)
    assert value(dd.of(x.high)) == [exact(h) for h in x.high]
    assert value(dd.difference(x.high, y.high)) == [exact(a) - exact(b) for a, b in zip(x.high, y.high, strict=True)]


def test_differences_of_floats_are_exact_down_to_the_smallest_and_up_to_the_largest():
    ends = np.array([5e-324, 1e-310, 2.0**-1022, 2.0**-1074 * 3, 1.0, 1 + 2.0**-52, 1e300, 2.0**1022, 0.0])
    ends = np.concatenate([ends, -ends])
    found = dd.difference(ends[:, None], ends)
    assert value(found) == [exact(a) - exact(b) for a in ends for b in ends]


@pytest.mark.parametrize("largest", [2, 60, 400, ROOM // 2])
def test_products(largest):
    rng = np.random.default_rng(1000 + largest)
    x, y = numbers(rng, CASES, largest), numbers(rng, CASES, largest)
    X, Y, high = value(x), value(y), [exact(h) for h in y.high]
    right = list(map(operator.mul, X, Y))
    assert_within(dd.multiply(x, y), right, list(map(abs, right)), absolute=UNDERFLOWS)
    right = list(map(operator.mul, X, high))
    assert_within(dd.scale(x, y.high), right, list(map(abs, right)), absolute=UNDERFLOWS)
    squares = [a * a for a in X]
    assert_within(dd.multiply(x, x), squares, squares, absolute=UNDERFLOWS)


@pytest.mark.parametrize("exponent", [-780, -500, 500, ROOM])
def test_products_of_large_and_small_numbers_with_probabilities(exponent):
    """Values are multiplied by chances and discounts, which are at most 1."""
    rng = np.random.default_rng(2000 + exponent)
    x, chance = numbers(rng, CASES, 3), 1 - rng.random(CASES) * 2.0 ** -rng.integers(0, 60, CASES)
    x = DoubleDouble(*(np.ldexp(word, exponent - 4) for word in x))
    right = [a * exact(b) for a, b in zip(value(x), chance, strict=True)]
    assert_within(dd.scale(x, chance), right, list(map(abs, right)), absolute=UNDERFLOWS)


@pytest.mark.parametrize("n", [1, 2, 50, 1000])
def test_totals_that_cancel(n):
    """Sums of numbers of very different size, of which most cancel, in any order, along either axis."""
    rng = np.random.default_rng(3000 + n)
    for largest in (1, 50, 400):
        x = numbers(rng, 4 * n, largest)
        table = np.stack(x).reshape(2, 4, n)
        table[:, :, n // 2 : 2 * (n // 2)] = -table[:, :, : n // 2]
        table[:, 0, -1] = np.array([1.0, 2.0**-54])
        table = rng.permutation(table, axis=2)
        exactly = np.array(value(DoubleDouble(*table)), dtype=object).reshape(4, n)
        right, sizes = list(exactly.sum(axis=1)), list(abs(exactly).sum(axis=1))
        assert_within(dd.total(DoubleDouble(*table), axis=1), right, sizes, n)
        assert_within(dd.total(DoubleDouble(*table.transpose(0, 2, 1)), axis=0), right, sizes, n)


@pytest.mark.parametrize("n", [2, 10, 300])
def test_dot_products_with_condition_numbers_up_to_1e30(n):
    """The last product cancels the others up to their rounding error in one word: twice what one word holds."""
    rng = np.random.default_rng(4000 + n)
    for _ in range(30):
        x, y = numbers(rng, n, 40), numbers(rng, n, 40)
        so_far = dd.total(dd.multiply(x, y), axis=0).high
        x.high[-1], x.low[-1], y.high[-1], y.low[-1] = -so_far, 0.0, 1.0, 0.0
        products = list(map(operator.mul, value(x), value(y)))
        found = dd.total(dd.multiply(x, y), axis=0)
        assert_within(found, [sum(products, exact(0))], [sum(map(abs, products), exact(0))], n + 1)
