"""Shocks are computed when used and equal eager ones; generators that are reset equal new ones, bit for bit."""

from __future__ import annotations

import copy
import hashlib
import pickle
import struct

import numpy as np
import pytest

from jmdp.base import keyed_generator
from jmdp.base.keyed_generator import KeyedGenerator, stream_position
from jmdp.base.luck import Shock, StepShocks, Usage

DRAWS = {
    "random": lambda rng: rng.random(3),
    "half words": lambda rng: [rng.integers(2**32, dtype=np.uint32) for _ in range(3)],
    "normal": lambda rng: rng.standard_normal(5),
    "poisson": lambda rng: rng.poisson(30, 5),
    "float32": lambda rng: rng.random(3, dtype=np.float32),
    "many": lambda rng: rng.integers(10, size=2000),
    "permutation": lambda rng: rng.permutation(9),
}


def new(words: bytes) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=int.from_bytes(words, "little")))


def eager(root: bytes, purpose: bytes, step: int, where: bytes) -> bytes:
    return hashlib.blake2b(root + struct.pack("<q", step) + purpose + b"\0" + where, digest_size=16).digest()


def test_lazy_shocks_equal_eager_ones():
    root = Shock.of_sample(3, 5)
    one = root.derived(b"environment", 7, b"here")
    two = one.derived(b"later")
    words = eager(root.words, b"environment", 7, b"here")
    assert two.words == eager(words, b"later", 0, b"")  # the first is not asked before
    assert one.words == words
    assert one == Shock(words)
    assert hash(one) == hash(Shock(words))
    assert pickle.loads(pickle.dumps(root.derived(b"x", 1))) == root.derived(b"x", 1)
    assert copy.deepcopy(root.derived(b"x", 1)) == root.derived(b"x", 1)
    assert root.derived(b"x", 1) != root.derived(b"x", 2)


def test_usage_is_noted_only_where_a_shock_is_used():
    usage = Usage()
    shock = Shock.of_sample(0, 0, usage).derived(b"environment", 1)
    assert shock.peek() == Shock.of_sample(0, 0).derived(b"environment", 1).words
    assert (shock == Shock(bytes(16)), hash(shock) == 0, usage.used) == (False, False, False)
    for use in (Shock.uniform, Shock.generator, Shock.seed, lambda s: s.words, Shock.note_use):
        usage.used = False
        use(shock)
        assert usage.used


@pytest.mark.parametrize("known", [True, False], ids=["memory", "public state"])
@pytest.mark.parametrize("before", DRAWS)
@pytest.mark.parametrize("after", DRAWS)
def test_a_restart_equals_a_new_generator(before, after, known, monkeypatch):
    monkeypatch.setattr(keyed_generator, "_LAYOUT_KNOWN", known)
    words = bytes(range(200, 216))
    generator = KeyedGenerator.of(bytes(16))
    DRAWS[before](generator)
    assert generator.moved
    generator.restart(words)
    assert not generator.moved
    fresh = new(words)
    assert np.array_equal(DRAWS[after](generator), DRAWS[after](fresh))
    assert np.array_equal(generator.random(5), fresh.random(5))  # and as far as the first
    assert np.array_equal(Shock(words).restart(generator).random(5), new(words).random(5))
    assert np.array_equal(Shock(words).restart(fresh).random(5), new(words).random(5))


@pytest.mark.parametrize("known", [True, False], ids=["memory", "public state"])
def test_the_position_in_a_stream_is_the_number_of_half_words_used(known, monkeypatch):
    monkeypatch.setattr(keyed_generator, "_LAYOUT_KNOWN", known)
    words = bytes(range(200, 216))
    generator = new(words)
    for count in range(40):  # from one block of numbers to the next ones
        assert stream_position(generator.bit_generator) == (words, count)
        generator.integers(2**32, dtype=np.uint32)
    generator.random()
    assert stream_position(generator.bit_generator) == (words, 42)


def test_the_layout_of_this_numpy_is_known():
    assert keyed_generator._LAYOUT_KNOWN


def test_a_generator_that_was_kept_is_not_used_again():
    one, other = Shock.of_sample(0, 1), Shock.of_sample(0, 2)
    kept = one.generator()
    expected = new(one.words)
    bits, draw, hidden = one.generator().bit_generator, one.generator().random, [other.generator()]
    for shock in (one, other) * 3:
        assert shock.generator().random() == new(shock.words).random()
    assert np.array_equal(kept.random(4), expected.random(4))
    assert np.array_equal(np.random.Generator(bits).random(4), new(one.words).random(4))
    assert draw() == new(one.words).random()
    assert hidden[0].random() == new(other.words).random()


def test_a_generator_that_nobody_keeps_is_used_again():
    first = id(Shock(bytes(16)).generator())
    assert id(Shock(b"x" * 16).generator()) == first


def test_copies_of_a_generator_are_separate():
    generator = KeyedGenerator.of(b"y" * 16)
    generator.random()
    for twin in (copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))):
        assert isinstance(twin, KeyedGenerator)
        twin.random()
        twin.restart(b"z" * 16)
        assert twin.random() == new(b"z" * 16).random()
    follows = new(b"y" * 16).random(2)[1]
    assert generator.random() == follows


@pytest.mark.parametrize("places", [None, [b"", b"a", b"bc"]], ids=["no places", "places"])
@pytest.mark.parametrize("rows", [None, [0, 0, 2, 1, 2]], ids=["one each", "shared"])
def test_shocks_of_a_step_are_those_derived_one_at_a_time(rows, places):
    usage = Usage()
    roots = [Shock.of_sample(3, i, usage) for i in range(3)]
    single = [root.derived(b"policy", 5, b"" if places is None else places[i]) for i, root in enumerate(roots)]
    expected = single if rows is None else [single[row] for row in rows]
    together = StepShocks(roots, b"policy", 5, places, None if rows is None else np.array(rows))
    assert len(together) == len(expected)
    assert list(together) == together[:] == [together[i] for i in range(len(expected))] == expected
    assert not usage.used
    if rows is not None:
        assert together[0] is together[1]
    assert together.uniform() == [shock.uniform() for shock in expected]
    for use in (StepShocks.uniform, lambda shocks: shocks[1].words):
        usage.used = False
        use(together)
        assert usage.used
