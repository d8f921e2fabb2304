"""Randomness by purpose: which keys are equal, what is refused, distributions, coupling, and fixed values.

Tests of distributions use 10⁵ draws of fixed keys and fail by chance with probability 10⁻⁶ each.
"""

from __future__ import annotations

import copy
import enum
import hashlib
import math
import os
import pickle
import subprocess
import sys
from collections import namedtuple
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from jmdp import Luck, Shock
from jmdp.base.luck import Usage
from jmdp.base.luck_by_purpose import _inverse_poisson, _summed_poisson
from jmdp.errors import SettingsError

N = 100_000
FALSE_ALARM = 1e-6
LARGEST = 1 - 2.0**-53  # of the uniform numbers; the smallest is 2**-53


def luck(sample: int = 0, seed: int = 0) -> Luck:
    return Luck(Shock.of_sample(seed, sample))


def fixed(u: float) -> Luck:
    """Luck whose uniform number is u, to 52 bits, for every key of one part."""
    bits = min(int(u * 2**52), 2**52 - 1)

    class Fixed(Luck):
        __slots__ = ()

        def _digest(self, key: object, name: bytes) -> bytes:
            return (bits << 12).to_bytes(16, "little")

    return Fixed(Shock(bytes(16)))


# --- keys ---

SHOWN = """
import jmdp
luck = jmdp.Luck(jmdp.Shock.of_sample(7, 3))
print(luck.uniform("service", 17), luck["service", ("née", 2)].random(), luck.seed("weather", -1),
      luck.poisson("x", mean=40.0), sorted({luck.uniform(word) for word in {"a", "b", "c"}}))
"""


def test_processes_with_other_hash_seeds_agree():
    def shown(hash_seed: str) -> str:
        process_env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(
            [sys.executable, "-c", SHOWN], env=process_env, capture_output=True, text=True, check=True
        ).stdout

    assert shown("1") == shown("2")


# Recorded once. If one changes, results of earlier versions cannot be reproduced: state it in the changelog.
UNIFORM = 0.8443959343010238
UNIFORM_NESTED = 0.5964379288094125
UNIFORM_OF_NEXT_SAMPLE = 0.34447297517455067
NORMAL = 3.025380520950922
POISSON = [0, 6, 15, 16, 1001013]
CHOICE = "g"
SEED = 1688051876
STREAM = [2755316882609684243, 436348086108246077]


def test_values_are_the_same_on_every_machine():
    numbers = luck()
    assert numbers.uniform("service", 17) == UNIFORM
    assert numbers.uniform("née", (-1, ("a", 2**70))) == UNIFORM_NESTED
    assert numbers.exponential("service", 17, mean=3.0) == pytest.approx(-3 * math.log(1 - UNIFORM), rel=1e-14)
    assert numbers.normal("service", 17, mean=1.0, std=2.0) == pytest.approx(NORMAL, rel=1e-13)
    assert [numbers.poisson("service", 17, mean=mean) for mean in (0.0, 4.0, 12.0, 12.5, 1e6)] == POISSON
    assert numbers.choice("service", 17, options="abcdefgh") == CHOICE
    assert numbers.seed("weather") == SEED
    assert numbers["arrivals"].integers(2**62, size=2).tolist() == STREAM
    assert luck(1).uniform("service", 17) == UNIFORM_OF_NEXT_SAMPLE


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_numpy_integers_are_integers(kind):
    for value in (0, 1, 100, int(np.iinfo(kind).max), int(np.iinfo(kind).min)):
        assert luck().uniform("a", kind(value)) == luck().uniform("a", value)
        assert luck().uniform("a", (1, kind(value))) == luck().uniform("a", (1, value))
        assert luck()["a", kind(value)].random() == luck()["a", value].random()
        assert luck().seed(kind(value)) == luck().seed(value)


def test_numpy_strings_are_strings():
    assert luck().uniform(np.str_("a"), 1) == luck().uniform("a", 1)
    assert luck().uniform(np.array(["née"])[0]) == luck().uniform("née")


parts = st.recursive(
    st.one_of(st.integers(), st.text(max_size=4), st.sampled_from(["a", "1", "a1", "('a', 1)", "'", '"', "\\", "née"])),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
keys = st.lists(parts, min_size=1, max_size=4).map(tuple)


@given(keys, keys)
def test_different_keys_are_independent_and_equal_ones_equal(one, two):
    assume(one != two)
    numbers = luck()
    assert numbers.uniform(*one) == luck().uniform(*one) != numbers.uniform(*two)
    assert numbers.seed(*one) == luck().seed(*one)
    assert numbers[one] is numbers[one] is not numbers[two]


def test_keys_that_look_alike_differ():
    alike = [
        ("a", 1), ("a1",), ("a", "1"), (("a", 1),), ("a", (1,)), ("('a', 1)",), ("a,", 1), (1, "a"), ("A", 1),
        ("a", -1), ("a", 10), ("a", 1, 0), ("a", 1, ""), ("a", 1, ()), ("é",), ("e\u0301",), ("\\xe9",), ("'",), ('"',),
    ]  # fmt: skip
    assert len({luck().uniform(*key) for key in alike}) == len(alike)
    assert len({luck()[key].random() for key in alike}) == len(alike)
    assert luck()["a"].random() == luck()[("a",)].random()  # one part, with or without a tuple
    assert luck().uniform("a") != luck()["a"].random()


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    ONE = "one"


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


Point = namedtuple("Point", "x y")
REFUSED = [
    True, np.True_, 1.0, np.float32(2), math.nan, None, b"a", np.bytes_(b"a"), Colour.RED, Level.LOW, Word.ONE,
    object(), object, len, [1], {1: 2}, {1}, frozenset({1}), Text("a"), Whole(3), Point(1, 2), 1j, Ellipsis, slice(2),
    np.array(3), np.array([1]), np.timedelta64(3, "D"), np.datetime64("2026-01-01"), [10**5000],
]  # fmt: skip


@pytest.mark.parametrize("part", REFUSED, ids=lambda part: type(part).__name__)
def test_other_parts_are_refused_by_name(part):
    for key in [("a", part), ("a", ("b", (part,)))]:
        for draw in (luck().uniform, luck().seed, lambda *key: luck()[key]):
            with pytest.raises(SettingsError, match=rf"A {type(part).__name__} is part of a key"):
                draw(*key)
    with pytest.raises(SettingsError, match="part of a key"):
        luck()[part]


def test_hints_say_what_to_use():
    with pytest.raises(SettingsError, match="step number"):
        luck().uniform("arrival", 2.5)
    with pytest.raises(SettingsError, match="same key: use words"):
        luck().uniform("open", True)
    with pytest.raises(SettingsError, match="identifier"):
        luck().uniform("service", object())


def test_keys_that_cannot_be_written_are_refused():
    for draw in (luck().uniform, luck().seed, lambda *key: luck()[key]):
        with pytest.raises(SettingsError, match="names its purpose"):
            draw()
        with pytest.raises(SettingsError, match="4,300 digits"):
            draw("a", 10**4300)
        with pytest.raises(SettingsError, match="4,300 digits"):
            draw("a", (-(10**4300),))
        nested: tuple[object, ...] = ("a",)
        for _ in range(100_000):
            nested = (nested,)
        with pytest.raises(SettingsError, match="nested too deeply"):
            draw(nested)
    assert 0 < luck().uniform("a", 10**4299) < 1
    assert 0 < luck().uniform("\ud800") < 1  # half of a pair of UTF-16, which has no UTF-8


def slow_uniform(shock: Shock, key: tuple[object, ...]) -> float:
    """Slow reference: the middle of the interval of the first 52 bits of the hash of the shock and the key."""
    digest = hashlib.blake2b(shock.words + ascii(key).encode(), digest_size=16).digest()
    return ((int.from_bytes(digest[:8], "little") >> 12) + 0.5) / 2**52


@pytest.mark.parametrize(
    "numbers",
    [range(300), [7] * 5, [5, 3, 4, 4, 0, 299, 1], [-1, -2, 0, -(2**63), 2**64, 10**4000], [2**k for k in range(200)]],
    ids=["consecutive", "repeated", "out of order", "negative and huge", "powers"],
)
def test_numbers_of_one_purpose_are_those_of_the_slow_reference(numbers):
    shock = Shock.of_sample(3, 5)
    one, other = Luck(shock), Luck(shock)
    for i in numbers:
        for purpose in ("service", "née", "'", "a, 1", ""):
            expected = slow_uniform(shock, (purpose, i))
            assert one.uniform(purpose, i) == expected
            assert one.exponential(purpose, i, mean=2.0) == -2.0 * math.log1p(-expected)
            assert one.choice(purpose, i, options=range(1000)) == int(expected * 1000)
            assert other.poisson(purpose, i, mean=0.5) == _summed_poisson(expected, 0.5)


@given(keys)
def test_numbers_of_any_key_are_those_of_the_slow_reference(key):
    shock = Shock.of_sample(3, 5)
    assert Luck(shock).uniform(*key) == slow_uniform(shock, key)


def test_many_purposes_change_no_number_and_are_forgotten():
    numbers, shock = luck(), Shock.of_sample(0, 0)
    for i in [*range(2500), 0, 2499, 1]:
        assert numbers.uniform(f"customer {i}", 1) == slow_uniform(shock, (f"customer {i}", 1))
    assert len(numbers._begun) <= 1000


@pytest.mark.parametrize("key", [("a", 1), ("a",), (1, "a"), ("a", 1, 2)])
def test_any_draw_is_noted(key):
    for draw in (Luck.uniform, Luck.seed, partial(Luck.poisson, mean=1.0), lambda numbers, *key: numbers[key]):
        usage = Usage()
        numbers = Luck(Shock.of_sample(0, 0, usage))
        assert not usage.used
        draw(numbers, *key)
        assert usage.used


def test_a_shock_is_needed():
    with pytest.raises(SettingsError, match=r"shock is 3\. Give a shock"):
        Luck(3)  # type: ignore[arg-type]


# --- streams ---


def test_streams_continue_and_do_not_touch_each_other():
    numbers, alone = luck(), luck()
    expected = alone["arrivals"].random(6).tolist()
    found = []
    for i in range(6):
        found.append(numbers["arrivals"].random())
        numbers["service"].random(i)
        numbers["service", i].exponential()
        numbers.uniform("arrivals")
        numbers.seed("arrivals")
    assert found == expected
    assert numbers.uniform("arrivals") == alone.uniform("arrivals")


def test_streams_are_philox_generators_with_a_key():
    numbers = luck()
    words = numbers._digest(("a", 1), b"stream('a', 1)")
    expected = np.random.Generator(np.random.Philox(key=int.from_bytes(words, "little")))
    assert numbers["a", 1].random(9).tolist() == expected.random(9).tolist()
    assert numbers["a", 1].normal() == expected.normal()


def test_samples_and_seeds_are_independent():
    words = [luck(sample, seed).uniform("a") for sample in range(30) for seed in range(30)]
    assert len(set(words)) == len(words)
    assert luck(1, 2)["a"].random() != luck(2, 1)["a"].random()


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda found: pickle.loads(pickle.dumps(found))])
def test_copies_continue(clone):
    numbers = luck()
    numbers["a"].random(3)
    numbers["b", 1].integers(2**31, dtype=np.uint32)  # leaves half a word
    other = clone(numbers)
    assert other.uniform("x") == numbers.uniform("x")
    for key in ("a", ("b", 1), "new"):
        ahead = other[key].integers(2**31, size=5, dtype=np.uint32).tolist()
        assert numbers[key].integers(2**31, size=5, dtype=np.uint32).tolist() == ahead
    assert repr(other) == repr(numbers)


def test_use_is_noted():
    for draw in (lambda found: found.uniform("a"), lambda found: found["a"], lambda found: found.seed("a")):
        usage = Usage()
        numbers = Luck(Shock.of_sample(0, 0, usage))
        assert not usage.used
        draw(numbers)
        assert usage.used


# --- distributions ---


def uniform_fit(u: np.ndarray) -> float:
    return float(stats.kstest(u, "uniform").pvalue)


def test_uniform():
    numbers = luck()
    by_customer = np.array([numbers.uniform("service", i) for i in range(N)])
    by_sample = np.array([luck(i).uniform("service") for i in range(N)])
    by_step = np.array([numbers.uniform("infect", i % 300, i // 300) for i in range(N)])
    for u in (by_customer, by_sample, by_step):
        assert 0 < u.min() < u.max() < 1
        assert uniform_fit(u) > FALSE_ALARM
        cells = np.histogram2d(u[:-1:2], u[1::2], bins=10, range=((0, 1), (0, 1)))[0]  # neighbours are independent
        assert stats.chisquare(cells.ravel()).pvalue > FALSE_ALARM
    cells = np.histogram2d(by_customer, by_sample, bins=10, range=((0, 1), (0, 1)))[0]
    assert stats.chisquare(cells.ravel()).pvalue > FALSE_ALARM


def test_first_numbers_of_streams_are_uniform_too():
    numbers = luck()
    u = np.array([numbers["service", i].random() for i in range(N // 10)])
    assert uniform_fit(u) > FALSE_ALARM


def test_exponential_normal_and_a_range():
    numbers = luck()
    draws = np.array([numbers.exponential("e", i, mean=2.5) for i in range(N)])
    assert stats.kstest(draws, stats.expon(scale=2.5).cdf).pvalue > FALSE_ALARM
    draws = np.array([numbers.normal("n", i, mean=-1.0, std=3.0) for i in range(N)])
    assert stats.kstest(draws, stats.norm(-1.0, 3.0).cdf).pvalue > FALSE_ALARM
    draws = np.array([numbers.uniform("u", i, low=-2.0, high=6.0) for i in range(N)])
    assert stats.kstest(draws, stats.uniform(-2.0, 8.0).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("mean", [0.3, 12.0, 12.5])
def test_poisson(mean):
    numbers = luck()
    draws = np.array([numbers.poisson("p", i, mean=mean) for i in range(N)])
    law = stats.poisson(mean)
    edges = np.unique(law.ppf(np.linspace(0.001, 0.999, 40)))
    expected = N * np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
    counts = np.diff(np.concatenate([[0], np.searchsorted(np.sort(draws), edges, side="right"), [N]]))
    assert stats.chisquare(counts, expected).pvalue > FALSE_ALARM


def test_choice():
    numbers = luck()
    probabilities = [0.2, 0.0, 0.5, 0.3]
    draws = [numbers.choice("c", i, options="abcd", probabilities=probabilities) for i in range(N)]
    counts = [draws.count(option) for option in "abcd"]
    assert counts[1] == 0
    assert stats.chisquare(np.delete(counts, 1), N * np.array([0.2, 0.5, 0.3])).pvalue > FALSE_ALARM
    equal = [numbers.choice("c", i, options=[10, 20, 30]) for i in range(N)]
    assert stats.chisquare([equal.count(option) for option in (10, 20, 30)]).pvalue > FALSE_ALARM


def test_seed():
    seeds = np.array([luck().seed("s", i) for i in range(N)])
    assert 0 <= seeds.min() < seeds.max() < 2**31
    assert uniform_fit((seeds + 0.5) / 2**31) > FALSE_ALARM


# --- inversion ---

GRID = [2.0**-53, 1e-12, 1e-6, *np.linspace(0.001, 0.999, 101).tolist(), 1 - 1e-6, 1 - 1e-12, LARGEST]
MEANS = [1e-300, 1e-9, 0.1, 1.0, 4.0, 11.9, 12.0, math.nextafter(12, 13), 12.1, 13.0, 50.0, 1e3, 1e4, 1e5, 1e6]


@pytest.mark.parametrize("mean", MEANS)
def test_poisson_is_the_inverse_of_the_distribution_function(mean):
    found = [fixed(u).poisson("p", mean=mean) for u in GRID]
    inside = slice(None, -1)  # at 1 − 2⁻⁵³ sums of probabilities are rounded by as much as the rest
    assert found[inside] == stats.poisson.ppf(GRID, mean)[inside].astype(int).tolist()
    assert found == sorted(found)
    assert abs(found[-1] - stats.poisson.ppf(LARGEST, mean)) <= 3


def test_both_ways_of_inverting_poisson_agree():
    for mean in (1.0, 6.0, 11.99, 12.0):
        for u in GRID[:-1]:
            assert _summed_poisson(u, mean) == _inverse_poisson(u, mean)


@pytest.mark.parametrize("mean", [1e7, 1e9, 2.0**31])
def test_large_poisson_means_follow_the_expansion(mean):
    """Cornish and Fisher: mean + z √mean + (z² − 1)/6 + O(1/√mean)."""
    for u in GRID:
        z = stats.norm.ppf(u)
        assert fixed(u).poisson("p", mean=mean) == pytest.approx(
            mean + z * math.sqrt(mean) + (z * z - 1) / 6, abs=1.5, rel=1e-15
        )


probability = st.floats(2.0**-53, 1 - 1e-12)


@given(probability, probability, st.floats(0, 100), st.floats(0, 100))
def test_draws_are_monotone_in_the_uniform_number_and_in_the_parameter(u, v, mean, other):
    low, high = fixed(min(u, v)), fixed(max(u, v))
    less, more = min(mean, other), max(mean, other)
    for draw in (Luck.exponential, Luck.poisson, partial(Luck.normal, std=1.0)):
        assert draw(low, "k", mean=mean) <= draw(high, "k", mean=mean)
        assert draw(low, "k", mean=less) <= draw(low, "k", mean=more)
    assert low.choice("k", options=range(7)) <= high.choice("k", options=range(7))
    weights = (0.1, 0.25, 0.65)
    assert low.choice("k", options=range(3), probabilities=weights) <= high.choice(
        "k", options=range(3), probabilities=weights
    )


@given(probability, st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
def test_uniform_stays_in_its_range(u, one, two):
    low, high = min(one, two), max(one, two)
    assert low <= fixed(u).uniform("k", low=low, high=high) <= high


@given(probability, st.integers(1, 2**40))
def test_choice_never_passes_the_end(u, n):
    assert 0 <= fixed(u).choice("k", options=range(n)) < n
    assert fixed(LARGEST).choice("k", options=range(n)) == n - 1


def test_degenerate_parameters():
    numbers = luck()
    assert (numbers.exponential("k", mean=0), numbers.poisson("k", mean=0), numbers.normal("k", mean=2, std=0)) == (
        0,
        0,
        2,
    )
    assert numbers.choice("k", options=["x"]) == "x"
    assert fixed(LARGEST).choice("k", options="ab", probabilities=[1.0, 0.0]) == "a"
    assert fixed(LARGEST).choice("k", options="abc", probabilities=np.array([0.1, 0.2, 0.7])) == "c"


@pytest.mark.parametrize(
    ("draw", "settings", "match"),
    [
        (Luck.uniform, {"low": 2.0, "high": 1.0}, "at least low"),
        (Luck.uniform, {"low": math.nan, "high": 1.0}, "finite"),
        (Luck.uniform, {"high": math.inf}, "finite"),
        (Luck.exponential, {"mean": -1.0}, "≥ 0"),
        (Luck.exponential, {"mean": math.inf}, "finite"),
        (Luck.exponential, {"mean": math.nan}, "finite"),
        (Luck.normal, {"mean": 0, "std": -1.0}, "std is -1.0. Give a finite number ≥ 0"),
        (Luck.normal, {"mean": math.nan, "std": 1}, "finite"),
        (Luck.poisson, {"mean": -0.1}, "from 0"),
        (Luck.poisson, {"mean": math.nan}, "from 0"),
        (Luck.poisson, {"mean": 2.0**31 + 1}, "from 0"),
        (Luck.choice, {"options": ""}, "at least one option"),
        (Luck.choice, {"options": {1, 2}}, "a list of"),
        (Luck.choice, {"options": 5}, "a list of"),
        (Luck.choice, {"options": "ab", "probabilities": 0.5}, "2 numbers"),
        (Luck.poisson, {"mean": "3"}, "from 0"),
        (Luck.exponential, {"mean": None}, "finite"),
        (Luck.exponential, {"mean": np.ones(2)}, "finite"),
        (Luck.choice, {"options": "ab", "probabilities": [1.0]}, "2 numbers"),
        (Luck.choice, {"options": "ab", "probabilities": [1.5, -0.5]}, "a probability is 1.5"),
        (Luck.choice, {"options": "ab", "probabilities": [math.nan, 1.0]}, "a probability is nan"),
        (Luck.choice, {"options": "ab", "probabilities": [0.5, 0.6]}, "sum to 1"),
    ],
)
def test_wrong_parameters_are_refused(draw, settings, match):
    with pytest.raises(SettingsError, match=match):
        draw(luck(), "k", **settings)


# --- coupling ---


def correlation(draw_one, draw_two, n=5_000) -> float:
    return float(np.corrcoef([draw_one(i) for i in range(n)], [draw_two(i) for i in range(n)])[0, 1])


def test_inversion_keeps_designs_coupled_and_numpy_does_not():
    """Correlation of Poisson numbers with means 9 and 11. NumPy multiplies uniforms below 10 and rejects above."""
    one, two = luck(), luck()
    by_key = correlation(lambda i: one.poisson("k", i, mean=9.0), lambda i: two.poisson("k", i, mean=11.0))
    by_numpy = correlation(lambda i: one["k", i].poisson(9.0), lambda i: two["k", i].poisson(11.0))
    assert by_key > 0.98
    assert by_numpy < 0.3
    assert (
        correlation(lambda i: one.exponential("k", i, mean=9.0), lambda i: two.exponential("k", i, mean=11.0)) > 0.9999
    )


def test_other_distributions_are_pointed_out():
    with pytest.raises(AttributeError, match=r"gamma.*luck\["):
        luck().gamma("k", 2.0)
    with pytest.raises(AttributeError, match="no attribute 'expovariate'"):
        luck().expovariate(1.0)
    assert not hasattr(Luck, "gamma")
    with pytest.raises(TypeError, match="mean"):
        luck().normal("svc", 1, 10, 2)
