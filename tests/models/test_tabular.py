"""Tables are checked once, refused with the place named, and frozen."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import jmdp
from jmdp.errors import LabelError, ModelError, PolicyError, SettingsError

PROB = [[0.25, 0.75], [1.0, 0.0]]
REWARD = [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[0.0, -1.0, 0.5], [0.0, 0.0, 0.0]]]
NEXT = [[[0, 1, 0], [1, 1, 0]], [[0, 0, 0], [1, 1, 1]]]


def build(prob=PROB, reward=REWARD, next_state=NEXT, discount=0.9, **rest):
    return jmdp.TabularJMDP(np.array(prob), np.array(reward), np.array(next_state), discount, **rest)


def test_a_good_table_is_taken_as_it_is():
    model = build()
    assert model.shape == (2, 2, 3)
    assert model.reward_bound == 6.0
    np.testing.assert_array_equal(model.prob, PROB)
    assert "2 states, 2 scenarios, 3 actions" in repr(model)


def test_tables_are_frozen_and_apart_from_what_they_were_made_of():
    reward = np.array(REWARD)
    model = build(reward=reward)
    reward[0, 0, 0] = 99.0
    assert model.reward[0, 0, 0] == 1.0
    for table in (model.prob, model.reward, model.next_state, model.terminal):
        with pytest.raises(ValueError, match="read-only"):
            table[...] = 0
    with pytest.raises(AttributeError):
        model.discount = 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prob": [[0.5, 0.4], [1, 0]]}, r"prob of state idle sums to 0\.9, not 1"),
        ({"prob": [[-0.5, 1.5], [1, 0]]}, r"prob\[0, 0\] is -0\.5 at state idle, scenario 0 \(1 more like it\)"),
        ({"prob": [[np.nan, 1.0], [1, 0]]}, r"prob\[0, 0\] is nan at state idle, scenario 0"),
        ({"prob": [[0.5, 0.25, 0.25], [1, 0, 0]]}, r"prob has shape \(2, 3\), but reward .* requires \(2, 2\)"),
        ({"prob": [0.5, 0.5]}, r"prob has shape \(2,\)\. Its axes are \[S, K\]"),
        ({"prob": [["a", "b"], ["c", "d"]]}, r"prob has dtype <U1, and its entry \[0, 0\] is np\.str_\('a'\)\. Give"),
        ({"reward": np.where(np.array(REWARD) == 5, np.inf, REWARD)},
         r"reward\[0, 1, 1\] is inf at state idle, scenario 1, action walk: a reward must be a finite number"),
        ({"next_state": np.where(np.array(REWARD) == 5, 2, NEXT)},
         r"next_state\[0, 1, 1\] is 2 at state idle, scenario 1, action walk: a state must be an index from 0 to 1"),
        ({"next_state": np.array(NEXT) / 1.0}, r"next_state has dtype float64\. Give integers"),
        ({"terminal": [1, 0]}, r"terminal has dtype int64"),
        ({"terminal": [True]}, r"terminal has shape \(1,\)"),
        ({"discount": 1.0}, r"discount is 1\.0\. Give 0 ≤ γ < 1"),
        ({"discount": -0.1}, r"discount is -0\.1"),
        ({"discount": float("nan")}, r"discount is nan"),
        ({"discount": "high"}, r"discount is 'high'"),
        ({"reward": np.array(REWARD) * 1e200}, r"squares overflow"),
        ({"reward": np.zeros((0, 2, 3)), "prob": np.zeros((0, 2)), "next_state": np.zeros((0, 2, 3), int),
          "state_names": []}, r"Give at least one state, scenario and action"),
        ({"state_names": ["a"]}, r"state_names has 1 entries for 2 states"),
        ({"state_names": ["a", "a"]}, r"state_names has 'a' more than once"),
        ({"action_names": [1, 2, 3]}, r"action_names must be strings"),
    ],
)  # fmt: skip
def test_bad_tables_are_refused_with_the_place_and_the_rule(change, message):
    names = {"state_names": ["idle", "busy"], "action_names": ["stay", "walk", "run"]}
    with pytest.raises(ModelError, match=message):
        build(**{**names, **change})


def test_ragged_tables_are_refused():
    with pytest.raises(ModelError, match="not a rectangular array"):
        jmdp.TabularJMDP([[1.0], [0.5, 0.5]], REWARD, NEXT, 0.9)


def test_rows_off_by_rounding_are_kept_and_rows_in_single_precision_are_divided():
    tenths = np.full((1, 10), 0.1)
    zeros = np.zeros((1, 10, 1))
    kept = jmdp.TabularJMDP(tenths, zeros, zeros.astype(int), 0.5)
    np.testing.assert_array_equal(kept.prob, tenths)
    single = np.full((1, 3), 1 / 3, np.float32)
    divided = jmdp.TabularJMDP(single, zeros[:, :3], zeros[:, :3].astype(int), 0.5)
    assert abs(divided.prob.sum() - 1) < 1e-15
    again = jmdp.TabularJMDP(divided.prob, divided.reward, divided.next_state, 0.5)
    np.testing.assert_array_equal(again.prob, divided.prob)


def test_rows_of_terminal_states_are_never_read():
    nonsense = jmdp.TabularJMDP(
        [[0.25, 0.75], [np.nan, 7.0]],
        np.where(np.arange(2)[:, None, None] == 1, np.inf, REWARD),
        np.where(np.arange(2)[:, None, None] == 1, -5, NEXT),
        0.9,
        [False, True],
    )
    clean = build(terminal=[False, True])
    for name in ("prob", "reward", "next_state"):
        np.testing.assert_array_equal(getattr(nonsense, name), getattr(clean, name))
    assert nonsense.reward_bound == 6.0


def test_what_cannot_happen_does_not_count_in_the_bound():
    model = build(reward=np.where(np.arange(2)[:, None] == 1, 50.0, 1.0) * np.ones((2, 2, 3)), prob=[[1, 0], [1, 0]])
    assert model.reward_bound == 1.0


def test_states_and_actions_by_index_or_name():
    model = build(state_names=["idle", "busy"], action_names=["stay", "walk", "run"])
    result = jmdp.evaluate(model, jmdp.TabularPolicy.uniform(model), jmdp.Local())
    assert result.gap("busy", "run", "walk") == result.gap(1, np.int64(2), 1)
    assert result.gap("busy", "run", "walk").state == "busy"
    for label, message in (
        ("asleep", "There is no state 'asleep': names are 'idle', 'busy'"),
        ("bussy", "Did you mean 'busy'"),
        (2, "There is no state 2: indices run from 0 to 1"),
        (-1, "There is no state -1"),
        (True, "There is no state True"),
        (0.0, "There is no state 0.0: indices run from 0"),
    ):
        with pytest.raises(LabelError, match=message):
            result.gap(label, 0, 1)
    plain = build()
    with pytest.raises(LabelError, match="the states have no names"):
        plain.states.index("idle")


def test_policies_are_checked_too():
    model = build()
    with pytest.raises(PolicyError, match=r"probs of state 1 sums to 0\.9"):
        jmdp.TabularPolicy([[0.5, 0.5], [0.5, 0.4]])
    with pytest.raises(PolicyError, match=r"probs\[0, 1\] is -1\.0 at state 0, action 1"):
        jmdp.TabularPolicy([[2 - 1e-9 - 1, -1.0]])
    with pytest.raises(PolicyError, match=r"shape \(1, 2\), but there are 2 states and 3 actions"):
        jmdp.evaluate(model, jmdp.TabularPolicy([[0.5, 0.5]]), jmdp.Local())
    with pytest.raises(PolicyError, match="1 entries for 2 states"):
        jmdp.TabularPolicy.deterministic(model, [0])
    with pytest.raises(PolicyError, match="weight is 2"):
        jmdp.TabularPolicy.uniform(model).mixed(jmdp.TabularPolicy.uniform(model), 2)
    with pytest.raises(PolicyError, match=r"actions is 'stay'\. Give a list"):
        jmdp.TabularPolicy.deterministic(model, "stay")
    with pytest.raises(PolicyError, match="The policy has no action for 1 of 2 states: 1"):
        jmdp.TabularPolicy.deterministic(model, {0: 2})
    directed = jmdp.TabularPolicy.deterministic(model, [0, 2])
    np.testing.assert_array_equal(jmdp.TabularPolicy.deterministic(model, {1: 2, 0: 0}).probs, directed.probs)
    np.testing.assert_array_equal(directed.probs, [[1, 0, 0], [0, 0, 1]])
    np.testing.assert_allclose(
        directed.mixed(jmdp.TabularPolicy.uniform(model), 0.3).probs, [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]
    )


def test_check_model_finds_what_is_seldom_meant():
    model = jmdp.TabularJMDP(
        [[1.0, 0.0]] * 4,
        [[[1.0, 1.0]] * 2, [[1.0, 1.0]] * 2, [[0.0, 0.0]] * 2, [[2.0, 2.0]] * 2],
        [[[2, 2]] * 2, [[2, 2]] * 2, [[2, 2]] * 2, [[0, 0]] * 2],
        0.9,
    )
    kinds = [finding.kind for finding in jmdp.testing.check_model(model)]
    assert kinds == ["copies", "equal actions", "impossible scenarios", "idle traps", "unreached", "no luck"]
    assert "states 0 and 1 have the same table" in str(jmdp.testing.check_model(model)[0])
    assert jmdp.testing.check_model(jmdp.worlds.windy_gridworld().model) == []


@pytest.mark.parametrize("discount", ["0.9", b"0.9", False, True, np.False_, None, 1j, [0.9], 10**400, math.nan])
def test_a_discount_is_a_number(discount):
    with pytest.raises(ModelError, match="discount is"):
        jmdp.TabularJMDP([[1.0]], [[[0.0]]], [[[0]]], discount)


@pytest.mark.parametrize("discount", [0, 0.5, np.float32(0.5), Fraction(1, 2), np.array(0.5)])
def test_any_real_number_is_a_discount(discount):
    assert jmdp.TabularJMDP([[1.0]], [[[0.0]]], [[[0]]], discount).discount == float(discount)


def masked(values, mask):
    return np.ma.array(values, mask=mask)


def test_masked_entries_are_refused():
    """NumPy converts a masked array to what lies under its mask, in silence."""
    table = {"prob": [[0.5, 0.5]], "reward": [[[1.0], [2.0]]], "next_state": [[[0], [0]]], "discount": 0.9}
    wrong = {
        "prob": masked([[0.5, 0.5]], [[False, True]]),
        "reward": masked([[[1.0], [2.0]]], [[[True], [False]]]),
        "next_state": masked([[[0], [0]]], [[[False], [True]]]),
        "terminal": masked([False], [True]),
    }
    for name, value in wrong.items():
        for given in (value, list(value)) if name != "terminal" else (value,):
            with pytest.raises(ModelError, match=f"{name} has masked entries"):
                jmdp.TabularJMDP(**(table | {name: given}))
    with pytest.raises(PolicyError, match="probs has masked entries"):
        jmdp.TabularPolicy(masked([[0.5, 0.5]], [[False, True]]))
    assert jmdp.TabularPolicy(masked([[0.5, 0.5]], False)).probs.tolist() == [[0.5, 0.5]]  # nothing is masked


def test_masked_features_and_answers_of_policies_are_refused():
    model = jmdp.TabularJMDP([[1.0]], [[[0.0, 1.0]]], [[[0, 0]]], 0.5)
    policy = jmdp.TabularPolicy.uniform(model)
    features = masked(np.eye(2), [[True, False], [False, False]])
    with pytest.raises(SettingsError, match="features has masked entries"):
        jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.LinearProjected(features))
    lazy = jmdp.LazyJMDP(lambda state: ([1.0], [[0.0, 1.0]], [[0, 0]]), 0.5, 1.0)
    with pytest.raises(PolicyError, match="masked entries"):
        jmdp.evaluate(
            lazy, lambda state: masked([0.5, 0.5], [False, True]), jmdp.Local(), method=jmdp.ReachablePairs(0)
        )
    with pytest.raises(PolicyError, match="masked entries"):
        jmdp.compare(model, lambda observation: masked([0.5, 0.5], [False, True]), state=0, seed=0)
