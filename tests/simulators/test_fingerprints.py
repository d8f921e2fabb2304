"""Values with equal digests have equal fingerprints, and states of all plain kinds merge where they are equal."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmdp
from jmdp.models.actors.as_policy import as_policy
from jmdp.simulators import FunctionSimulator
from jmdp.simulators.digests import differ_at_a_glance, digest_of, equal_values, fingerprint_of, fingerprints
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import paired_draws
from reference.rollouts import paired_branches
from sample_models import COUPLINGS


class Cell(NamedTuple):
    x: Any
    y: Any


NUMBERS = [0, 1, -1, 0.0, -0.0, 1.0, 0.5, float("nan"), -float("nan"), float("inf"), 2**70, 2.0**70, True, False]
NUMBERS += [
    np.int64(1),
    np.int8(1),
    np.float32(0.5),
    np.float64(1.0),
    np.float64("nan"),
    np.bool_(True),
    np.float32(0.1),
]
SCALARS = [*NUMBERS, "1", b"1", None, "nan"]
ARRAYS = [
    np.array(value, kind)
    for value in ([0.0, 1.0], [-0.0, 1.0], [np.nan, 1.0], [-np.nan, 1.0], [[0.0, 1.0]])
    for kind in (np.float64, np.float32, np.float16)
]
ARRAYS += [np.array([0, 1]), np.array([0, 1], np.uint8), np.array([False, True]), np.array(["0", "1"])]
ARRAYS += [np.array([0, 1], object), np.array([0, 1j]), np.zeros((0, 2)), np.array([0, 1], np.longdouble)]
values = st.recursive(
    st.sampled_from([*SCALARS, *ARRAYS]),
    lambda inner: st.one_of(st.tuples(inner, inner), st.lists(inner, max_size=2), st.builds(Cell, inner, inner)),
    max_leaves=4,
)


@given(st.lists(values, min_size=2, max_size=4))
def test_equal_digests_have_equal_fingerprints(some):
    found = fingerprints(some)
    for i, one in enumerate(some):
        assert found[i] == fingerprint_of(one)
        assert hash(found[i]) == hash(fingerprint_of(one))
        for j, other in enumerate(some):
            equal = digest_of(one) == digest_of(other)
            assert equal_values(one, other) == equal
            if equal:
                assert found[i] == found[j]
                assert hash(found[i]) == hash(found[j])


FIRSTS = [*NUMBERS, 1.5, 2.5, -1e308, 1e308, float("inf"), -float("inf"), "1", None, (0.5,), np.array([0.5])]
firsts = st.one_of(st.sampled_from(FIRSTS), st.sampled_from([0.5, 0.25, 1.5, 2.5]))
beginning = st.one_of(
    firsts, st.tuples(firsts, firsts), st.lists(firsts, max_size=2), st.sampled_from([*ARRAYS, (), np.array([2.5, 3])])
)


@given(st.lists(beginning, min_size=2, max_size=4))
def test_values_that_differ_at_a_glance_differ(some):
    if differ_at_a_glance(some):
        assert len(set(map(digest_of, some))) == len(some)


@pytest.mark.filterwarnings("ignore:overflow")
def test_every_pair_that_differs_at_a_glance():
    for one in FIRSTS:
        for other in FIRSTS:
            for some in ([one, other], [(one, 1), (other, 2)], [np.array([one]), np.array([other])]):
                if differ_at_a_glance(some):
                    assert digest_of(some[0]) != digest_of(some[1])


def test_what_differs_at_a_glance():
    nan = float("nan")
    for some in (
        [0.5, 1.5],
        [(0.5, 1), (1.5, 1)],
        [np.array([0.5]), np.array([1.5])],
        [1.5, 2],
        [(1e308,), (1.5e308,)],
    ):
        assert differ_at_a_glance(some)
    for some in ([0.5, 0.5], [0.0, -0.0], [nan, 0.5], [nan, -nan], [1, 2], ["a", "b"], [0.5, (1.5,)], [(), (0.5,)]):
        assert not differ_at_a_glance(some)


def test_every_pair_of_numbers():
    for one in [*SCALARS, *ARRAYS]:
        for other in [*SCALARS, *ARRAYS]:
            if digest_of(one) == digest_of(other):
                assert fingerprint_of(one) == fingerprint_of(other)
            assert equal_values(one, other) == (digest_of(one) == digest_of(other))


STATES = {
    "integer": lambda x, a: x,
    "float or integer": lambda x, a: float(x) if a else x,
    "−0 or 0": lambda x, a: (x - 1) * (-1.0 if a else 1.0) if x == 1 else float(x),
    "unknown": lambda x, a: (x, float("nan") * (-1) ** a),
    "tuple": lambda x, a: (x, (x, "a")),
    "named tuple": lambda x, a: Cell(x, np.float64(x)),
    "array": lambda x, a: np.array([x, -0.0 if a else 0.0]),
    "float32 array": lambda x, a: np.array([x, np.nan], np.float32),
    "integers": lambda x, a: np.array([[x, 0]]),
    "list": lambda x, a: [x, [x]],
    "dictionary": lambda x, a: {"x": x, "y": np.array([x])} if a else {"y": np.array([x]), "x": x},
    "text": lambda x, a: f"{x}",
}


def number(state: Any) -> int:
    while not isinstance(state, (int, float, str, np.number)):
        state = (
            state["x"]
            if isinstance(state, dict)
            else np.asarray(state).flat[0]
            if isinstance(state, np.ndarray)
            else state[0]
        )
    return round(float(state))


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
@pytest.mark.parametrize("kind", STATES)
def test_equal_states_of_all_kinds_merge(kind, coupling):
    """As many steps are simulated as there are different coordinates, also if equal states are written differently."""
    simulator = FunctionSimulator(
        lambda s, a, u: float(number(s) + a),
        lambda s, a, u: STATES[kind]((number(s) * (u < 0.5) + a) % 4, a),
        2,
        start=STATES[kind](0, 0),
    )
    actor = as_policy(lambda s: np.array([0.5, 0.5]), simulator.actions)
    settings = {"discount": 0.9, "horizon": 8, "seed": 3}
    plan = BranchPlan.of_actions(actor, state=STATES[kind](0, 0), actions=[0, 1], coupling=coupling, **settings)
    fast = paired_draws(simulator, plan, 0, 12)
    slow = paired_branches(simulator, plan.state, [0, 1], actor, coupling, **settings, first=0, count=12)
    assert [[branch.value for branch in row] for row in slow] == fast.returns.tolist()
    assert fast.drew
    if coupling.shared_in_a_state:
        assert fast.steps == sum(len({(t, x) for b in row for t, x in enumerate(b.coordinates)}) for row in slow)
        assert fast.shared_steps > 0


def test_true_is_not_one():
    """Equal to Python, but different states."""
    simulator = FunctionSimulator(
        lambda s, a, u: 1.0 if s is True else 0.0, lambda s, a, u: s if s != 0 else (True if a else 1), 2, start=0
    )
    actor = as_policy(lambda s: 0, simulator.actions)
    plan = BranchPlan.of_actions(
        actor, state=0, actions=[0, 1], coupling=jmdp.Synchronous(), discount=1.0, horizon=4, seed=0
    )
    drawn = paired_draws(simulator, plan, 0, 2)
    assert drawn.returns.tolist() == [[0.0, 3.0]] * 2
