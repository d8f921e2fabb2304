"""The identity of a run: equal for what holds the same, in every process; other for anything else."""

from __future__ import annotations

import functools
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

import jmdp
from jmdp.base.labels import identity


@dataclass(frozen=True)
class Rule:
    weights: object
    name: str = "rule"


class Unprinted:
    def __init__(self, share):
        self.share = share


class Slotted:
    __slots__ = ("share",)

    def __init__(self, share):
        self.share = share


def scaled(factor):
    return lambda x: factor * x


OTHER = {
    "a number": (1, 2),
    "its type": (1, 1.0),
    "a truth": (1, True),
    "a text": ("a", "b"),
    "where texts end": (["ab", "c"], ["a", "bc"]),
    "where lists end": ([[1], 2], [[1, 2]]),
    "a bit of an array": (np.array([1.0]), np.array([np.nextafter(1.0, 2)])),
    "the shape of an array": (np.zeros((2, 3)), np.zeros((3, 2))),
    "the type of an array": (np.zeros(2, np.int64), np.zeros(2)),
    "an array of objects": (np.array(["a", None], object), np.array(["b", None], object)),
    "a field": (Rule(1), Rule(2)),
    "an array in a field": (Rule(np.zeros(9999)), Rule(np.r_[np.zeros(9998), 1e-300])),
    "what is not printed": (Unprinted(0.1), Unprinted(0.2)),
    "a slot": (Slotted(0.1), Slotted(0.2)),
    "a class": (Unprinted(0.1), Slotted(0.1)),
    "code": (lambda x: x + 1, lambda x: x + 2),
    "a closure": (scaled(1.0), scaled(2.0)),
    "an argument": (functools.partial(scaled, 1), functools.partial(scaled, 2)),
    "an outcome": (jmdp.results.Outcome.SAMPLED, jmdp.results.Outcome.TRAINED),
    "a coupling": (jmdp.Local(), jmdp.Local(policy_luck="shared")),
    "a set": ({1, 2}, {1, 3}),
}


@pytest.mark.parametrize("what", OTHER)
def test_what_differs_is_another(what):
    one, other = OTHER[what]
    assert identity(one) == identity(one)
    assert identity(one) != identity(other)


def test_what_holds_the_same_is_the_same():
    assert identity(Unprinted(0.1)) == identity(Unprinted(0.1))
    assert identity(scaled(2.0)) == identity(scaled(2.0))
    assert identity(np.arange(6.0).reshape(2, 3).T) == identity(np.arange(6.0).reshape(2, 3).T.copy())
    assert identity(Rule((1, 2))) == identity(replace(Rule(None), weights=(1, 2)))
    assert len(identity()) == 32


def test_loops_end():
    loop: list[object] = [1]
    loop.append(loop)
    assert identity(loop) == identity(loop) != identity([1])


def test_another_process_finds_the_same():
    """Whatever the order of its sets and the addresses of its objects."""
    code = (
        "import jmdp\nfrom jmdp.base.labels import identity\n"
        "made = lambda seen, rng: int(rng.integers(2))\n"
        "print(identity(jmdp.Incremental(seed=1), jmdp.Local(), {'a', 'b', 'c'}, made, object()).hex())"
    )
    found = {subprocess.check_output([sys.executable, "-c", code], text=True) for _ in range(2)}
    assert len(found) == 1
