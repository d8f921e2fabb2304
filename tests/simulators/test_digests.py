"""Fingerprints of states: equal for equal values, different for any difference, refused where something is hidden."""

from __future__ import annotations

import collections
import copy
import datetime
import functools
import itertools
import logging
import random
import subprocess
import sys
import types
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmdp.errors import SimulatorError
from jmdp.simulators.digests import digest_of, same_at_a_glance
from jmdp.simulators.object_graph import attributes_of, generators_in


class Plain:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Slotted:
    __slots__ = ("__hidden", "shown")

    def __init__(self, shown: Any, hidden: Any) -> None:
        self.shown, self.__hidden = shown, hidden


class SlottedChild(Slotted):  # has a __dict__ besides
    def __init__(self, shown: Any, hidden: Any, own: Any) -> None:
        super().__init__(shown, hidden)
        self.own = own


@dataclass
class Data:
    x: Any
    y: Any = 0
    many: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Frozen:
    x: Any


class Point(NamedTuple):
    x: Any
    y: Any


class Colour(Enum):
    RED = 1
    BLUE = 2


class Number(IntEnum):
    ONE = 1


class Bits(Flag):
    A = 1
    B = 2


class Stack(list):
    """A container with an attribute."""


class Table(dict):
    """Another."""


class Pair(tuple):
    """One that is a tuple."""


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.sampled_from([Colour.RED, Colour.BLUE, Number.ONE, Bits.A | Bits.B, Fraction(1, 3), Decimal("0.1")]),
    st.sampled_from(["f2", "f4", "f8", "c16", "i1", "u2", "i8", "?"]).flatmap(
        lambda kind: st.lists(st.integers(0, 1), max_size=3).map(lambda entries: np.array(entries, kind))
    ),
)
keys = st.one_of(st.integers(), st.text(max_size=3), st.tuples(st.integers(), st.booleans()))


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3).map(lambda some: collections.deque(some, maxlen=4)),
        st.dictionaries(keys, inner, max_size=3),
        st.frozensets(keys, max_size=3),
        st.builds(lambda x, y: Plain(x=x, y=y), inner, inner),
        st.builds(Slotted, inner, inner),
        st.builds(SlottedChild, inner, inner, inner),
        st.builds(Data, inner, inner, st.lists(inner, max_size=2)),
        st.builds(Frozen, inner),
        st.builds(Point, inner, inner),
        st.lists(inner, min_size=1, max_size=3).map(_object_array),
    )


def _object_array(entries: list[Any]) -> Any:
    array = np.empty(len(entries), object)
    for i, entry in enumerate(entries):
        array[i] = entry
    return array


values = st.recursive(leaves, nested, max_leaves=12)


@given(values)
@settings(max_examples=150, deadline=None)
def test_deep_copies_are_the_same(value):
    assert digest_of(copy.deepcopy(value)) == digest_of(value)
    assert len(digest_of(value)) == 16


@given(values, st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_any_changed_leaf_makes_a_difference(value, luck):
    """A leaf anywhere is replaced by one that stands nowhere else."""
    changed, done = _changed(copy.deepcopy([value]), luck)
    assert done
    assert digest_of(changed) != digest_of([value])


def _changed(value: Any, luck: random.Random) -> tuple[Any, bool]:
    """The value with one of its leaves replaced."""
    if isinstance(value, list) and value:
        i = luck.randrange(len(value))
        value[i], done = _changed(value[i], luck)
        return value, done
    if isinstance(value, collections.deque) and value:
        i = luck.randrange(len(value))
        value[i], done = _changed(value[i], luck)
        return value, done
    if isinstance(value, tuple) and value:
        i = luck.randrange(len(value))
        part, done = _changed(value[i], luck)
        parts = [*value[:i], part, *value[i + 1 :]]
        return (type(value)(*parts) if isinstance(value, Point) else tuple(parts)), done
    if isinstance(value, dict) and value:
        key = luck.choice(list(value))
        if luck.random() < 0.3:
            value["another key"] = value.pop(key)
            return value, True
        value[key], done = _changed(value[key], luck)
        return value, done
    if isinstance(value, frozenset) and value:
        return frozenset([*list(value)[1:], "another entry"]), True
    if isinstance(value, np.ndarray) and value.dtype == object:
        i = luck.randrange(len(value))
        value[i], done = _changed(value[i], luck)
        return value, done
    if isinstance(value, np.ndarray) and value.size:
        i = luck.randrange(value.size)
        value[i] = not value[i]  # entries are 0 and 1
        return value, True
    if isinstance(value, Frozen):
        part, done = _changed(value.x, luck)
        return Frozen(part), done
    if isinstance(value, (Plain, Slotted, Data)):
        name = luck.choice(list(attributes_of(value) or {}))
        part, done = _changed(getattr(value, name), luck)
        setattr(value, name, part)
        return value, done
    return "another leaf", True


SAME: list[tuple[Any, Any]] = [
    (0.0, -0.0),
    (1, 1.0),
    (np.float32(0.5), 0.5),
    (np.int8(3), 3),
    (np.str_("a"), "a"),
    (float("nan"), -float("nan")),
    (np.array([np.nan, 0.0]), np.array([-np.nan, -0.0])),
    (np.array(-0.0), np.array(0.0)),
    (np.array([complex(0.0, -0.0)]), np.array([0j])),
    (complex(-0.0, 1), complex(0.0, 1)),
    ({1: 2, "a": 3}, {"a": 3, 1: 2}),
    ({(1, 2), (3, 4), "x"}, {"x", (3, 4), (1, 2)}),
    (np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2).T.copy().T.reshape(2, 3)),
    (np.arange(8)[::2], np.array([0, 2, 4, 6])),
    (Point(1, 2), (1, 2)),
    (np.random.default_rng(1), np.random.default_rng(2)),
    (Plain(rng=np.random.default_rng(1), x=1), Plain(x=1, rng=random.Random(3))),
    (logging.getLogger("a"), logging.getLogger("a")),
    (functools.partial(max, 1), functools.partial(max, 1)),
]

DIFFERENT: list[tuple[Any, Any]] = [
    (1, True),
    (1, "1"),
    ("1", b"1"),
    (None, 0),
    ((), None),
    ([], ()),
    ([1, 2], (1, 2)),
    ([1, [2]], [1, 2]),
    ([[1], 2], [[1, 2]]),
    (["ab", "c"], ["a", "bc"]),
    ({1: 2}, {2: 1}),
    ({1, 2}, frozenset({1, 3})),
    (collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1)),
    (collections.deque([1], 2), collections.deque([1], 3)),
    (np.zeros(2), np.zeros(3)),
    (np.zeros((2, 1)), np.zeros((1, 2))),
    (np.zeros(2, "f4"), np.zeros(2, "f8")),
    (np.zeros(2, "i4"), np.zeros(1, "i8")),
    (np.zeros(1, [("a", "i4")]), np.zeros(1, [("b", "i4")])),
    (np.array([1, 2]), np.array([1, 2], object)),
    (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[1, 0])),
    (np.longdouble(1), np.longdouble(1) + np.finfo(np.longdouble).eps),
    (np.array([1], np.longdouble), np.array([1], np.longdouble) + np.finfo(np.longdouble).eps),
    (np.timedelta64(1, "D"), np.timedelta64(1, "h")),
    (np.datetime64("2020-01-01"), np.datetime64("2020-01-02")),
    (datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)),
    (Decimal("1.5"), Decimal("1.6")),
    (range(3), range(4)),
    (Colour.RED, Colour.BLUE),
    (Bits.A, Bits.A | Bits.B),
    (Number.ONE, 1),
    (Plain(x=1), Data(1)),
    (Plain(x=1), Plain(y=1)),
    (Slotted(1, 2), Slotted(1, 3)),
    (SlottedChild(1, 2, 3), SlottedChild(1, 2, 4)),
    (types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
    (functools.partial(max, 1), functools.partial(max, 2)),
    ([1].append, [2].append),
    (Plain(x=1).__init__, Plain(x=2).__init__),
    (lambda: 1, lambda: 2),
    (logging.getLogger("a"), logging.getLogger("b")),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=range(len(SAME)))
def test_the_same(one, other):
    assert digest_of(one) == digest_of(other)
    assert digest_of([one, {"k": (one,)}]) == digest_of([other, {"k": (other,)}])


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_different(one, other):
    assert digest_of(one) != digest_of(other)
    assert digest_of(Plain(x=[one])) != digest_of(Plain(x=[other]))


@pytest.mark.parametrize("kind", [Stack, Table, Pair, collections.UserDict])
def test_attributes_of_containers_count(kind):
    one, other = kind(), kind()
    one.extra, other.extra = 1, 2
    assert digest_of(one) != digest_of(other)
    other.extra = 1
    assert digest_of(one) == digest_of(other)


def test_the_order_of_attributes_does_not_matter():
    one, other = Plain(a=1, b=2), Plain(b=2, a=1)
    assert digest_of(one) == digest_of(other)


def test_closures_and_defaults_count():
    def made(x):
        return lambda: x

    def with_default(x):
        def function(y=x):
            return y

        return function

    assert digest_of(made(1)) != digest_of(made(2))
    assert digest_of(made(1)) == digest_of(made(1))
    assert digest_of(with_default(1)) != digest_of(with_default(2))
    rng = np.random.default_rng(0)
    assert generators_in({"draw": lambda: rng.random()}, "state") == {"state['draw'].rng": rng}


def test_cycles():
    def ring(length: int, mark: int) -> Any:
        nodes = [Plain(mark=0) for _ in range(length)]
        for i, node in enumerate(nodes):
            node.next, node.all, node.near = nodes[(i + 1) % length], nodes, {nodes[(i + 1) % length], nodes[i - 1]}
        nodes[-1].mark = mark
        return nodes[0]

    assert digest_of(ring(5, 1)) == digest_of(ring(5, 1))
    assert digest_of(ring(5, 1)) == digest_of(copy.deepcopy(ring(5, 1)))
    assert len({digest_of(ring(4, 1)), digest_of(ring(5, 1)), digest_of(ring(5, 2))}) == 3
    round_a_frozenset = Plain(x=1)
    round_a_frozenset.near = frozenset([round_a_frozenset, Plain(back=round_a_frozenset)])
    assert digest_of(round_a_frozenset) == digest_of(copy.deepcopy(round_a_frozenset))
    itself: list[Any] = []
    itself.append(itself)
    assert digest_of(itself) == digest_of(copy.deepcopy(itself)) != digest_of([[]])


def test_one_object_in_two_places_is_not_two_equal_ones():
    """A change to the one would be seen in the other place."""
    part = [1]
    assert digest_of([part, part]) != digest_of([[1], [1]])
    assert digest_of([part, part]) == digest_of(copy.deepcopy([part, part]))


def test_what_cannot_change_has_no_identity():
    pair, array = (1, 2), np.zeros(3)
    assert digest_of([pair, pair]) == digest_of([(1, 2), (1, 2)])
    assert digest_of(["ab" * 40] * 2) == digest_of(["ab" * 40, "ba"[::-1] * 40])
    assert digest_of([array, array]) == digest_of([array, array.copy()])  # as if: kept cheap


def test_sets_of_objects_in_any_order():
    """Where objects lie in memory decides the order of a set, and must decide nothing else."""
    digests = set()
    for _ in range(20):
        some = [Plain(x=i, y=[i]) for i in range(6)]
        random.Random(0).shuffle(some)
        digests.add(digest_of({frozenset([one]) for one in some}) + digest_of(set(some)))
    assert len(digests) == 1


def test_the_same_in_another_process():
    """Under Local luck follows from digests: with hashes of the process it could not be had again."""
    code = (
        "import numpy as np\nfrom jmdp.simulators.digests import digest_of\n"
        "f = lambda x, k=3: x\n"
        "print(digest_of([{'a', 'b', ('c', 1.5)}, {'x': 1, 'y': {2, 3}}, np.arange(3.0), f, len, str.upper]).hex())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": hash_seed}
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(found) == 1


HIDDEN: list[Any] = [
    object(),
    itertools.count(),
    iter([1]),
    (i for i in [1]),
]


@pytest.mark.parametrize("value", HIDDEN, ids=lambda v: type(v).__name__)
def test_what_hides_its_insides_is_refused(value):
    with pytest.raises(SimulatorError, match=r"cannot be inspected\. Define which states are equal with digest="):
        digest_of({"a": [value]})


@pytest.mark.parametrize("package", ["pybind11", "nanobind", "SWIG"])
def test_objects_of_c_libraries_are_refused(package):
    if package == "pybind11":
        mujoco = pytest.importorskip("mujoco")
        value: Any = mujoco.MjModel.from_xml_string("<mujoco/>")
    elif package == "nanobind":
        ale_py = pytest.importorskip("ale_py")
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        value = ale_py.ALEInterface()
    else:
        box2d = pytest.importorskip("Box2D", exc_type=ImportError)
        value = box2d.b2World()

    with pytest.raises(SimulatorError, match="cannot be inspected"):
        digest_of(value)
    with pytest.raises(SimulatorError, match="cannot be inspected"):
        digest_of(Plain(inner=value))
    assert attributes_of(value) is None or package == "SWIG"  # whose object is one attribute further in


def test_a_python_class_on_a_c_class_is_refused():
    ale_py = pytest.importorskip("ale_py")

    class Mine(ale_py.ALEInterface):
        pass

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    mine = Mine()
    mine.visible = 1
    with pytest.raises(SimulatorError, match="Mine, which cannot be inspected"):
        digest_of(mine)


def test_too_deep_is_said():
    value: Any = None
    for _ in range(3000):
        value = [value]
    with pytest.raises(SimulatorError, match="nested too deeply"):
        digest_of(value)


def test_ignored_attributes():
    def ignored(owner: object) -> set[str]:
        return {"x"} if isinstance(owner, Plain) else set()

    assert digest_of([Plain(x=1, y=2)], ignored) == digest_of([Plain(x=5, y=2)], ignored)
    assert digest_of([Plain(x=1, y=2)], ignored) != digest_of([Plain(x=1, y=3)], ignored)
    assert digest_of(Data(1), ignored) != digest_of(Data(2), ignored)


def test_generators_are_found_wherever_they_hide():
    rng = np.random.default_rng(0)
    hiding = {
        "dict": {"a": rng},
        "list": [rng],
        "attribute": Plain(deep=Plain(rng=rng)),
        "slot": Slotted(1, rng),
        "bound method": Plain(draw=rng.random),
        "method": Plain(act=Plain(rng=rng).__init__),
        "partial": functools.partial(rng.normal, 3),
        "objects": _object_array([1, rng]),
        "attribute of a list": Stack(),
    }
    hiding["attribute of a list"].rng = rng  # type: ignore[attr-defined]
    for where, value in hiding.items():
        assert list(generators_in(value, "state").values()) == [rng], where
    assert generators_in([Plain(x=1), np.zeros(2), "a"], "state") == {}
    loop = Plain(rng=random.Random(1))
    loop.again = loop
    assert list(generators_in(loop, "s")) == ["s.rng"]


class Plain:
    def __init__(self, **attributes):
        vars(self).update(attributes)


class Sub(Plain):
    pass


AT_A_GLANCE = [
    Plain(a=1, b=2.0),
    Plain(b=2.0, a=1),
    Plain(a=1, b=3.0),
    Plain(a=True, b=2.0),
    Plain(a=1.0, b=2.0),
    Plain(a=1, b=float("nan")),
    Plain(a=-0.0),
    Plain(a=0.0),
    Plain(a="x"),
    Plain(a=[1]),
    Plain(a=[1]),
    Sub(a=1, b=2.0),
    Plain(a=np.float32(0.1)),
    Plain(a=0.1),
    3,
]


@pytest.mark.parametrize("ignored", [(), ("b",)])
def test_a_glance_at_attributes_tells_what_digests_tell(ignored):
    told = 0
    for one, other in itertools.product(AT_A_GLANCE, repeat=2):
        found = same_at_a_glance(one, other, ignored)
        told += found is not None
        digests = [digest_of(value, lambda owner: ignored) for value in (one, other)]
        assert found in (None, digests[0] == digests[1])
    assert told > 20
