"""Samples that are appended without a copy of those before."""

from __future__ import annotations

import numpy as np

import jmdp
from jmdp.simulators.rollouts.draws import Room


def blocks(*sizes, dtype=float, shape=(2,)):
    rng = np.random.default_rng(0)
    return [rng.integers(0, 99, (size, *shape)).astype(dtype) for size in sizes]


def test_it_concatenates_in_place():
    room, parts = Room(40), blocks(3, 5, 0, 8)
    found = room.concatenate(parts[:1])
    for n in range(2, 5):
        before, found = found, room.concatenate([found, parts[n - 1]])
        assert np.shares_memory(before, found)
        np.testing.assert_array_equal(found, np.concatenate(parts[:n]))
    whole = room.concatenate([found, *blocks(30, 30)])  # more than was expected
    np.testing.assert_array_equal(whole, np.concatenate([*parts, *blocks(30, 30)]))


def test_what_was_returned_before_stays():
    """Two arrays that continue one do not share what comes after it."""
    room, (first, one, other) = Room(40), blocks(3, 5, 6)
    common = room.concatenate([first])
    found = room.concatenate([common, one]), room.concatenate([common, other])
    for array, part in zip(found, (one, other), strict=True):
        np.testing.assert_array_equal(array, np.concatenate([first, part]))


def test_other_shapes_and_types_are_arrays_of_their_own():
    room = Room(40)
    for parts in (blocks(3, 5, dtype=np.int32), blocks(2, 2, shape=(2, 3)), [*blocks(3, dtype=np.int32), *blocks(4)]):
        found = room.concatenate([room.concatenate(parts[:1]), *parts[1:]])
        np.testing.assert_array_equal(found, np.concatenate(parts))
        assert found.dtype == np.concatenate(parts).dtype


def test_a_comparison_may_be_continued_twice():
    simulator = jmdp.simulators.FunctionSimulator(lambda s, a, u: a * u, lambda s, a, u: s, 2, start=0)
    given = {"state": 0, "horizon": 1, "discount": 1.0, "seed": 0, "precision": 1e-9, "progress": False}
    begun = jmdp.compare(simulator, lambda s: 0, max_samples=40, **given)
    found = [begun.continued(samples=n) for n in (200, 90)]
    for one, n in zip(found, (200, 90), strict=True):
        anew = jmdp.compare(simulator, lambda s: 0, max_samples=n, **given)
        np.testing.assert_array_equal(one.summary.samples.returns, anew.summary.samples.returns)
    assert begun.samples == 40
