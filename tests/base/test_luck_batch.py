"""Keys of many shocks at once are the keys of the single shocks, byte for byte."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from jmdp.base.luck import Shock
from jmdp.base.luck_batch import Shocks
from jmdp.base.luck_kernel import hash_all


@pytest.mark.parametrize("n", [0, 1, 5, 64, 65, 200])
@pytest.mark.parametrize("length", [16, 17, 24, 25, 63, 64, 127])
def test_digests_are_those_of_hashlib(n, length):
    rng = np.random.default_rng(length)
    words = rng.integers(0, 2**64, (n, 2), dtype=np.uint64)
    rest = np.frombuffer(rng.bytes(length - 16).ljust(112, b"\0"), np.uint64)
    out = np.empty_like(words)
    hash_all(words, rest, length, np.zeros(0, np.uint64), out)
    for i in range(n):
        message = (words[i].tobytes() + rest.tobytes())[:length]
        assert out[i].tobytes() == hashlib.blake2b(message, digest_size=16).digest()


@pytest.mark.parametrize("purpose", [b"", b"environment", b"policy", b"x" * 7, b"x" * 94])
@pytest.mark.parametrize("n", [1, 70])
def test_derived_shocks_are_those_of_the_single_shocks(purpose, n):
    singles = [Shock.of_sample(3, 5 + i) for i in range(n)]
    many = Shocks.of_samples([3], 5, n)
    places = np.random.default_rng(0).integers(-(2**62), 2**62, n)
    at = np.random.default_rng(1).integers(0, n, 2 * n)
    derived, placed = many.derived(purpose, -4), many.rows(at[:n]).derived(purpose, 7, places)
    for i in range(n):
        assert many[i] == singles[i]
        assert derived[i] == singles[i].derived(purpose, -4)
        assert placed[i] == singles[at[i]].derived(purpose, 7, int(places[i]).to_bytes(8, "little", signed=True))
    repeated = derived.rows(at).derived(b"again", 1)
    assert len(repeated) == 2 * n
    assert all(repeated[i] == derived[at[i]].derived(b"again", 1) for i in range(2 * n))
    assert all(one == single for one, single in zip(Shocks.of(singles), singles, strict=True))


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_numbers_are_those_of_the_single_shocks(count):
    shocks = Shocks.of_samples([0], 0, 10).rows(np.array([3, 3, 0, 9]))
    assert not shocks.used
    np.testing.assert_array_equal(shocks.uniform(), [shocks[i].uniform() for i in range(4)])
    expected = np.array([shocks[i].uniforms(count) for i in range(4)])
    np.testing.assert_array_equal(shocks.uniforms(count), expected.reshape(4, count))
    assert shocks.used


def test_numbers_of_one_shock_are_uniform_and_distinct():
    """Mean of 4000 numbers within 5 standard errors (false alarms below 1e-6); no number occurs twice."""
    numbers = Shocks.of_samples([0], 0, 1000).uniforms(4)
    assert abs(numbers.mean() - 0.5) <= 5 * np.sqrt(1 / 12 / numbers.size)
    assert len(np.unique(numbers)) == numbers.size
    assert ((numbers >= 0) & (numbers < 1)).all()


def test_a_long_purpose_is_refused():
    with pytest.raises(ValueError, match="at most 94"):
        Shocks.of_samples([0], 0, 1).derived(b"x" * 95, 0, np.zeros(1, np.int64))
