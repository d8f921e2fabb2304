"""`check_model`: each finding against a slow reference, its text, and the cost on large tables."""

from __future__ import annotations

import copy
import dataclasses
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmdp
from jmdp.errors import LabelError, ModelError, SettingsError
from jmdp.testing import check_model
from jmdp.testing.model_check import equal_actions, equal_states


def chain(after, *, terminal=(), reward=1.0, discount=0.9, names=None):
    """Table with one action and two equally likely scenarios; after[s] is one next state, or one of each scenario."""
    following = np.array([[[x] for x in (n if isinstance(n, tuple) else (n, n))] for n in after])
    S = len(after)
    coin = np.array([[[reward], [2 * reward]]]) * np.arange(1, S + 1)[:, None, None]
    ends = np.isin(np.arange(S), terminal)
    return jmdp.TabularJMDP(np.full((S, 2), 0.5), coin, following, discount, ends, names)


def kinds(model, starts=None):
    return [finding.kind for finding in check_model(model, starts)]


@st.composite
def small_tables(draw):
    """Tables with few different numbers, so that states and actions are often equal."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    S, K, A = (draw(st.integers(1, most)) for most in (7, 3, 3))
    prob = rng.choice([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]][:K], S)[:, :K]
    reward = rng.choice([0.0, -0.0, 1.0], (S, K, A), p=[0.7, 0.2, 0.1])
    following = rng.integers(0, draw(st.integers(1, S)), (S, K, A))
    return jmdp.TabularJMDP(prob, reward, following, 0.9, rng.random(S) < draw(st.sampled_from([0.0, 0.3])))


def groups_of(keys):
    found = defaultdict(list)
    for i, key in keys:
        found[key].append(i)
    return sorted(group for group in found.values() if len(group) > 1)


@given(small_tables())
@settings(max_examples=300, deadline=None)
def test_groups_and_sets_equal_those_of_the_definitions(model):
    S, _, A = model.shape
    possible = (model.prob > 0) & ~model.terminal[:, None]

    def outcome(s, a):
        return [(r + 0.0, n) for r, n in zip(model.reward[s, :, a], model.next_state[s, :, a], strict=True)]

    def table(s, a):
        return str([pair if p else None for pair, p in zip(outcome(s, a), model.prob[s] > 0, strict=True)])

    live = np.flatnonzero(~model.terminal).tolist()
    states = groups_of((s, (str(model.prob[s]), *(table(s, a) for a in range(A)))) for s in live)
    assert [group.tolist() for group in equal_states(model)] == states
    actions = groups_of((a, tuple(table(s, a) for s in range(S))) for a in range(A))
    assert [group.tolist() for group in equal_actions(model)] == actions

    reach = np.eye(S, dtype=bool)  # transitive closure
    for s in range(S):
        reach[s, model.next_state[s][possible[s]]] = True
    for k in range(S):
        reach |= reach[:, [k]] & reach[[k], :]
    found = check_model(model, [0])
    unreached = np.flatnonzero(~reach[0])
    assert found.states.get("unreached", np.zeros(0)).tolist() == unreached.tolist()
    idle = [s for s in live if reach[s].sum() == 1 and (model.reward[s] == 0).all()]
    assert found.states.get("idle traps", np.zeros(0)).tolist() == idle
    closed = [s for s in live if s not in idle and all(reach[n, s] and n not in idle for n in np.flatnonzero(reach[s]))]
    many = len({tuple(reach[s]) for s in closed}) > 1 or model.terminal.any() or bool(idle)
    assert found.states.get("closed sets", np.zeros(0)).tolist() == (closed if many else [])


def test_a_clean_table_says_so():
    found = check_model(jmdp.worlds.windy_gridworld().model)
    assert found == []
    assert len(found) == 0
    assert str(found).startswith("no problem found in TabularJMDP(25 states")
    assert repr(found) == str(found)


def test_continuing_problems_are_clean():
    assert kinds(chain([(1, 0), (0, 1)])) == []
    assert kinds(chain([1, 0, (0, 2)], names=["a", "b", "c"])) == ["unreached"]


def test_sets_that_are_never_left():
    ring = check_model(chain([(1, 4), 2, 3, 1, 0], terminal=[4], names=list("abcde")))
    assert [finding.kind for finding in ring] == ["closed sets", "unreached"]
    assert str(ring[0]) == (
        "closed sets: states b, c and d are never left, and not terminal. Returns from there never end; only the "
        "discount 0.9 limits them. Add the missing transitions, or mark states terminal in which episodes end."
    )
    two = check_model(chain([(1, 2), 1, 3, 2]))
    assert two.states["closed sets"].tolist() == [1, 2, 3]
    assert "state 1 is never left, and not terminal, and 1 more set like this (3 states in all)" in str(two)


def test_starts():
    model = chain([(1, 2), 3, 3, 3, 0], terminal=[3], names=list("abcde"))
    assert check_model(model, ["b"]).states["unreached"].tolist() == [0, 2, 4]
    assert "the starts do not lead to 3 of 5 states (a, c and e)" in str(check_model(model, ["b"]))
    assert kinds(model, {"e": 0.5, "b": 0.5}) == []
    assert kinds(model, np.eye(5)[4]) == []
    with pytest.raises(LabelError, match="no state 'x'"):
        check_model(model, ["x"])
    with pytest.raises(SettingsError, match="starts is 3"):
        check_model(model, 3)


def test_text_is_grouped_and_short():
    S = 5000
    model = chain([0] * S, reward=0.0)
    found = check_model(model)
    text = str(found)
    assert text.splitlines()[0].startswith("1 problem, 2 notes in TabularJMDP(5000 states")
    assert [line.split(":")[0] for line in text.splitlines()[1:]] == ["problem", "note", "note"]
    assert "states 0, 1, 2, 3, 4, 5, 6, 7, … (5,000 in all) have the same table" in text
    assert "4,999 of 5,000 states (1, 2, 3, 4, 5, 6, 7 and 8, …)" in text
    assert len(text) < 1500
    assert [finding.kind for finding in found.problems] == ["idle traps"]
    assert len(found.notes) == 2
    assert found.states["copies"].size == S
    pairs = chain([0, 1, 0, 1, *range(4, 8)], reward=0.0)
    assert "states 0 and 2 have the same table, and 1 more group like this (4 states in all)" in str(check_model(pairs))


def test_corrected_sums_are_known():
    rows = [[1 / 3, 1 / 3, 1 / 3], np.float32([0.1, 0.2, 0.7]).tolist()]
    model = jmdp.TabularJMDP(rows, np.arange(6.0).reshape(2, 3, 1), [[[1]] * 3, [[0]] * 3], 0.9)
    assert 1e-10 < model.normalised < 1e-6
    (finding,) = check_model(model)
    assert finding.kind == "corrected sums"
    assert "differ from 1 by up to" in str(finding)
    assert jmdp.TabularJMDP(model.prob, model.reward, model.next_state, 0.9).normalised == 0.0
    assert chain([0, 0]).normalised == 0.0


def test_a_chosen_coupling_is_named():
    model = copy.copy(chain([(1, 0), (0, 1)]))
    object.__setattr__(model, "coupled_by", "Maximal()")
    (finding,) = check_model(model)
    assert "chosen by Maximal(), not given" in finding.message
    assert finding.severity == "note"


def test_the_report_is_frozen_and_a_sequence():
    found = check_model(chain([1, 1], reward=0.0))
    assert found[0] in found
    assert found[:1] == (found[0],)
    assert found == list(found)
    assert hash(found) == hash(check_model(chain([1, 1], reward=0.0)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.model = "other"
    with pytest.raises(ModelError, match="model is a int"):
        check_model(3)


def test_only_terminal_states():
    model = jmdp.TabularJMDP(np.ones((2, 1)), np.zeros((2, 1, 1)), np.zeros((2, 1, 1), int), 0.9, [True, True])
    assert kinds(model) == ["unreached", "no luck"]


def test_equal_hashes_are_not_enough(monkeypatch):
    monkeypatch.setattr("jmdp.testing.model_check._mixed", np.zeros_like)
    assert [group.tolist() for group in equal_states(chain([0, 1, 0, 1], reward=0.0))] == [[0, 2]]
    assert equal_states(chain([0, 1, 2])) == []


def test_many_actions_are_compared_in_linear_time():
    rng = np.random.default_rng(0)
    reward = rng.random((3, 2, 5000))
    reward[:, :, 4000] = reward[:, :, 17]
    model = jmdp.TabularJMDP(np.full((3, 2), 0.5), reward, np.zeros((3, 2, 5000), int), 0.9)
    assert [group.tolist() for group in equal_actions(model)] == [[17, 4000]]
    assert "actions 17 and 4000 have the same effect" in str(check_model(model))
