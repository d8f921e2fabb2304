"""Enumeration of draws: all values with their probabilities, of the types that NumPy returns."""

from __future__ import annotations

import copy
import pickle
from collections import Counter

import numpy as np
import pytest

import jmdp
from jmdp.base.luck import Shock
from jmdp.simulators.tabulation.finite_luck import MOST_PATHS, Cells, Path


def enumerated(draw, cells=None):
    """Probabilities of all results of draw(shock), and the reason why the enumeration ended."""
    found, path = Counter(), Path(cells)
    while path is not None:
        value = draw(path.shock())
        path.close()
        if path.reason is not None:
            return found, path.reason
        found[str(value)] += path.probability
        path = path.following()
    return found, None


def by_generator(draw):
    return enumerated(lambda shock: draw(shock.generator()))


DRAWS = {
    "integers": lambda rng: rng.integers(6),
    "low and high": lambda rng: rng.integers(-2, 3),
    "endpoint": lambda rng: rng.integers(1, 6, endpoint=True),
    "unsigned": lambda rng: rng.integers(3, dtype=np.uint8),
    "bool": lambda rng: rng.integers(0, 2, dtype=bool),
    "two dice": lambda rng: rng.integers(1, 7, size=2),
    "table of dice": lambda rng: rng.integers(2, size=(2, 2)),
    "nothing": lambda rng: rng.integers(2, size=0),
    "one of n": lambda rng: rng.choice(4),
    "weighted": lambda rng: rng.choice(3, p=[0.5, 0.0, 0.5]),
    "list": lambda rng: rng.choice([3, 1, 3]),
    "words": lambda rng: rng.choice(["a", "bc"], p=[0.25, 0.75]),
    "rows": lambda rng: rng.choice([[1, 2], [3, 4]]),
    "columns": lambda rng: rng.choice(np.array([[1, 2], [3, 4]]), axis=1),
    "two of a list": lambda rng: rng.choice(["a", "b"], size=2),
    "two numbers": lambda rng: rng.choice(3, size=2, p=[0.2, 0.3, 0.5]),
    "one without replacement": lambda rng: rng.choice(3, replace=False),
    "as long as the first says": lambda rng: [rng.integers(2) for _ in range(rng.integers(3))],
    "nested": lambda rng: (rng.choice(2, p=[0.9, 0.1]), rng.integers(3)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_distribution_and_the_types_are_those_of_numpy(name):
    """Frequencies of 4000 real draws are within five standard errors; types of results are the same."""
    draw, n = DRAWS[name], 4000
    found, reason = by_generator(draw)
    assert reason is None
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)
    real = Counter(str(draw(Shock.of_sample(1, i).generator())) for i in range(n))
    assert set(real) <= set(found)
    for value, chance in found.items():
        assert abs(real[value] / n - chance) <= 5 * np.sqrt(chance * (1 - chance) / n) + 1e-12
    one, other = draw(Path().shock().generator()), draw(Shock.of_sample(1, 0).generator())
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)


@pytest.mark.parametrize(
    ("draw", "reason"),
    [
        (lambda rng: rng.random(), "calls random()"),
        (lambda rng: rng.normal(), "calls normal()"),
        (lambda rng: rng.permutation(3), "calls permutation()"),
        (lambda rng: rng.integers([1, 2]), "with arrays"),
        (lambda rng: rng.choice(3, size=2, replace=False), "without replacement"),
        (lambda rng: rng.integers(2**40), "combinations"),
        (lambda rng: rng.integers(2, size=MOST_PATHS + 1), "combinations"),
        (lambda rng: [rng.integers(10) for _ in range(5)], "combinations"),
        (lambda rng: rng.bit_generator.random_raw(), "bit generator"),
    ],
)
def test_other_draws_end_the_enumeration_with_ordinary_numbers(draw, reason):
    found, said = by_generator(draw)
    assert reason in said
    assert not found


def test_a_loop_until_six_ends():
    def rolls(rng):
        count = 1
        while rng.integers(6) != 5:
            count += 1
        return count

    assert "combinations" in by_generator(rolls)[1]


@pytest.mark.parametrize("wrong", [lambda rng: rng.integers(0), lambda rng: rng.choice(3, p=[0.5, 0.5, 0.5])])
def test_errors_are_those_of_numpy(wrong):
    with pytest.raises(ValueError, match=r"high <= 0|sum to 1"):
        by_generator(wrong)


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (lambda shock: shock.uniform(), "uniform"),
        (lambda shock: shock.uniforms(2), "uniforms"),
        (lambda shock: shock.seed(), "key"),
        (lambda shock: shock.words, "key"),
        (lambda shock: jmdp.Luck(shock).choice("a", options=[1, 2]), "key"),
        (lambda shock: shock.derived(b"x").uniform(), "uniform"),
    ],
)
def test_other_uses_of_the_shock_end_it(use, reason):
    assert reason in enumerated(use)[1]


def test_a_second_generator_repeats_the_first_and_a_derived_one_does_not():
    same, _ = enumerated(lambda shock: (shock.generator().integers(2), shock.generator().integers(2)))
    assert same == {"(np.int64(0), np.int64(0))": 0.5, "(np.int64(1), np.int64(1))": 0.5}
    free, _ = enumerated(lambda shock: (shock.generator().integers(2), shock.derived(b"x").generator().integers(2)))
    assert set(free.values()) == {0.25}
    differ = enumerated(lambda shock: (shock.generator().integers(2), shock.generator().integers(3)))
    assert "differ" in differ[1]


def test_uniform_numbers_take_every_part():
    weights = np.array([0.25, 0.0, 1e-17, 0.75])
    found, reason = enumerated(lambda shock: shock.uniform(), Cells(weights))
    assert reason is None
    assert list(found.values()) == pytest.approx([0.25, 1e-17, 0.75])
    assert [0 <= float(u) < 0.25 for u in found] == [True, False, False]
    assert all(0 <= float(u) < 1 for u in found)


def test_draws_from_a_generator_restarted_in_place_are_noticed():
    kept = Shock.of_sample(0, 0).generator()

    def in_place(shock):
        shock.restart(kept)
        return kept.integers(2)

    assert "in place" in enumerated(in_place)[1]
    returned, reason = enumerated(lambda shock: shock.restart(kept).integers(2))
    assert (reason, len(returned)) == (None, 2)


def test_a_kept_shock_repeats_its_values_and_a_kept_generator_is_an_ordinary_one():
    path = Path()
    shock = path.shock()
    first = shock.generator()
    assert first.integers(6) == 0
    path.close()
    last = path
    while (following := last.following()) is not None:
        last, kept = following, following.shock()
        value = kept.generator().integers(6)
        last.close()
    assert kept.generator().integers(6) == value == 5
    assert pickle.loads(pickle.dumps(kept)).generator().integers(6) == 5
    assert len({int(first.integers(6)) for _ in range(100)}) == 6
    assert type(pickle.loads(pickle.dumps(first))) is np.random.Generator
    assert Shock.of_sample(3, 4).restart(first).integers(1000) == Shock.of_sample(3, 4).generator().integers(1000)


def test_a_copied_generator_continues_where_it_was():
    def draw(shock):
        rng = shock.generator()
        one = rng.integers(2)
        return one, copy.deepcopy(rng).integers(3), rng.integers(3)

    found, reason = enumerated(draw)
    assert reason is None
    assert len(found) == 6
