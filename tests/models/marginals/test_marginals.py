"""Marginals are checked once and frozen, and the same MDP is read from the arrays of every package."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import jmdp
from jmdp.errors import ModelError
from jmdp.models.couple import CommonUniform, couple
from jmdp.models.marginals import Marginals
from sample_marginals import random_dense, random_marginals


def toy_text(R, Q):
    """P[s][a] = [(prob, next, reward, done), …]."""
    S, A = R.shape
    return {
        s: {a: [(Q[s, a, n], n, R[s, a], False) for n in range(S) if Q[s, a, n]] for a in range(A)} for s in range(S)
    }


def pairs(R, Q, rng=None):
    """R [L], sparse Q [L, S] and the indices, in a random order if a generator is given."""
    S, A = R.shape
    s, a = np.divmod(np.arange(S * A), A)
    order = np.arange(S * A) if rng is None else rng.permutation(S * A)
    return R.ravel()[order], sp.csr_array(Q.reshape(S * A, S)[order]), s[order], a[order]


def readers(R, Q, discount, rng):
    """The same MDP by every way of giving it."""
    P = Q.transpose(1, 0, 2)
    S, A = R.shape
    transitions = np.broadcast_to(R.T[:, :, None], (A, S, S))
    r, q, s, a = pairs(R, Q, rng)
    row = np.repeat(np.arange(S * A), np.diff(q.indptr))
    order = np.lexsort((-q.indices, row))
    backwards = sp.csr_array((q.data[order], q.indices[order], q.indptr), q.shape)
    halves = sp.coo_array((np.tile(q.data / 2, 2), (np.tile(row, 2), np.tile(q.indices, 2))), q.shape)
    yield "toy text", Marginals.from_toy_text(toy_text(R, Q), discount)
    yield "toy text, lists", Marginals.from_toy_text([list(row.values()) for row in toy_text(R, Q).values()], discount)
    yield "dense", Marginals.from_quantecon(R, Q, discount)
    yield "nested lists", Marginals.from_quantecon(R.tolist(), Q.tolist(), discount)
    yield "pairs in order", Marginals.from_quantecon(*(x := pairs(R, Q))[:2], discount, *x[2:])
    yield "pairs", Marginals.from_quantecon(r, q, discount, s, a)
    yield "pairs, dense", Marginals.from_quantecon(r, q.toarray(), discount, s, a)
    yield "pairs, unsorted", Marginals.from_quantecon(r, backwards, discount, s, a)
    yield "pairs, repeated entries", Marginals.from_quantecon(r, halves, discount, s, a)
    yield "pairs, csr_matrix", Marginals.from_quantecon(r, sp.csr_matrix(q), discount, s, a)
    yield "mdptoolbox", Marginals.from_mdptoolbox(P, R, discount)
    yield "mdptoolbox, transitions", Marginals.from_mdptoolbox(P, transitions, discount)
    yield "mdptoolbox, sparse", Marginals.from_mdptoolbox([sp.csr_matrix(p) for p in P], R, discount)
    everywhere = [sp.csr_array(r * (p > 0)) for r, p in zip(transitions, P, strict=True)]
    yield "mdptoolbox, sparse R", Marginals.from_mdptoolbox([sp.csc_array(p) for p in P], everywhere, discount)
    yield "mdptoolbox, sparse [S, A]", Marginals.from_mdptoolbox(tuple(P), sp.coo_array(R), discount)
    objects = np.empty(A, object)
    objects[:] = [sp.csr_matrix(p) for p in P]
    yield "mdptoolbox, object array", Marginals.from_mdptoolbox(objects, R, discount)


def assert_same(found: Marginals, expected: Marginals, name: str = "") -> None:
    for field in ("first", "prob", "reward", "next_state", "terminal"):
        np.testing.assert_array_equal(getattr(found, field), getattr(expected, field), err_msg=f"{name}: {field}")
    assert found.discount == expected.discount


@pytest.mark.parametrize("seed", range(5))
def test_the_same_mdp_in_every_layout_is_the_same(seed):
    rng = np.random.default_rng(seed)
    R, Q, discount = random_dense(rng)
    count = (Q > 0).sum(axis=2)
    s, a, n = np.nonzero(Q)
    expected = Marginals(count, Q[s, a, n], R[s, a], n, discount)
    for name, found in readers(R, Q, discount, rng):
        assert_same(found, expected, name)


@pytest.mark.parametrize("seed", range(3))
def test_means_are_those_of_quantecon(seed):
    quantecon = pytest.importorskip("quantecon")
    rng = np.random.default_rng(seed)
    R, Q, discount = random_dense(rng)
    S, A = R.shape
    r, q, s, a = pairs(R, Q, rng)
    dense = quantecon.markov.DiscreteDP(R, Q, discount)
    sparse = quantecon.markov.DiscreteDP(r, sp.csr_matrix(q), discount, s, a)
    actions = rng.integers(0, A, S)
    value = dense.evaluate_policy(actions)
    for marginals in (Marginals.from_quantecon(dense), Marginals.from_quantecon(sparse)):
        assert_same(marginals, Marginals.from_quantecon(R, Q, discount))
        model = couple(marginals, CommonUniform())
        mean = jmdp.evaluate(model, jmdp.TabularPolicy.deterministic(model, actions), jmdp.Local()).mean
        np.testing.assert_allclose(mean[np.arange(S), actions], value, rtol=0, atol=1e-10)


def test_rewards_of_transitions_are_kept():
    P = [[[0.5, 0.5], [0.0, 1.0]]]
    R = [[[1.0, 3.0], [7.0, 5.0]]]
    found = Marginals.from_mdptoolbox(P, R, 0.9)
    np.testing.assert_array_equal(found.outcomes(0, 0).reward, [1, 3])
    np.testing.assert_array_equal(found.outcomes(1, 0).reward, [5])
    by_state = Marginals.from_mdptoolbox(P * 2, [4.0, 6.0], 0.9)
    np.testing.assert_array_equal(by_state.reward, [4, 4, 4, 4, 6, 6])


def test_the_listed_order_is_kept_and_impossible_outcomes_are_left_out():
    P = {0: {0: [(0.5, 0, 3, False), (0.0, 0, 9, False), (0.25, 0, 1, False), (0.25, 0, 2, False)]}}
    found = Marginals.from_toy_text(P, 0.5)
    np.testing.assert_array_equal(found.outcomes(0, 0).reward, [3, 1, 2])
    assert repr(found) == "Marginals(1 states, 1 actions, 3 outcomes, discount=0.5, 0 terminal)"


def test_done_leads_to_a_terminal_state():
    """State 1 only stays, done and without reward; state 2 can also be left, so its ends go to an added state."""
    P = {
        0: {0: [(0.5, 1, 1.0, True), (0.5, 2, 2.0, True)]},
        1: {0: [(1.0, 1, 0.0, True)]},
        2: {0: [(1.0, 0, 5.0, False)]},
    }
    found = Marginals.from_toy_text(P, 0.5)
    np.testing.assert_array_equal(found.terminal, [False, True, False, True])
    np.testing.assert_array_equal(found.outcomes(0, 0).next_state, [1, 3])
    assert found.states.names == ("0", "1", "2", "ended")
    named = Marginals.from_toy_text(P, 0.5, ["a", "b", "c"], ["go"])
    assert named.states.names == ("a", "b", "c", "ended")
    assert named.actions.names == ("go",)
    del P[0][0][1]
    P[0][0][0] = (1.0, 1, 1.0, True)
    assert Marginals.from_toy_text(P, 0.5).states.names is None


def test_staying_with_a_reward_or_not_done_is_no_end():
    P = {0: {0: [(1.0, 1, 0.0, True)]}, 1: {0: [(1.0, 1, 2.0, True)]}}
    np.testing.assert_array_equal(Marginals.from_toy_text(P, 0.5).terminal, [False, False, True])
    P[1][0] = [(1.0, 1, 0.0, False)]
    np.testing.assert_array_equal(Marginals.from_toy_text(P, 0.5).terminal, [False, False, True])


def test_terminal_states_stay_whatever_their_rows_are():
    found = Marginals([[1, 0], [1, 2]], [9, 1, 0.5, 0.5], [np.nan, 1, 2, 3], [7, 0, 1, 0], 0.5, [True, False])
    np.testing.assert_array_equal(found.first, [0, 1, 2, 3, 5])
    np.testing.assert_array_equal(found.prob, [1, 1, 1, 0.5, 0.5])
    np.testing.assert_array_equal(found.reward, [0, 0, 1, 2, 3])
    np.testing.assert_array_equal(found.next_state, [0, 0, 0, 1, 0])


def test_probabilities_are_stored_as_given():
    """Lists are divided by their exact sums where they are used: in floats the quotients would be rounded."""
    loose = Marginals([[2]], [0.5, 0.5 + 2e-7], [0, 1], [0, 0], 0.5)
    assert loose.prob.tolist() == [0.5, 0.5 + 2e-7]
    assert abs(loose.outcomes(0, 0).prob.sum() - 1) < 1e-15
    for rule in (jmdp.models.CommonUniform(), jmdp.models.Product()):
        assert abs(jmdp.couple(loose, rule).prob.sum() - 1) < 1e-15
        assert jmdp.couple(loose, rule).normalised == 0
    rng = np.random.default_rng(0)
    for _ in range(100):
        marginals = random_marginals(rng)
        again = Marginals(marginals.count, *(getattr(marginals, x) for x in ("prob", "reward", "next_state")), 0.5)
        np.testing.assert_array_equal(again.prob, marginals.prob)  # bit for bit


def test_marginals_are_frozen_also_when_copied():
    marginals = random_marginals(np.random.default_rng(1))
    for same in (marginals, copy.deepcopy(marginals), pickle.loads(pickle.dumps(marginals))):
        for name in ("first", "prob", "reward", "next_state", "terminal"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(same, name)[...] = 0
        with pytest.raises(AttributeError):
            same.discount = 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Marginals([[1, 0]], [1.0], [0.0], [0], 0.5, action_names=["stay", "go"]),
         r"Action go has no outcomes in state 0: a table needs every action in every state\. Give it"),
        (lambda: Marginals([[1], [1]], [0.5, 0.4], [0.0, 0.0], [0, 0], 0.5),
         r"state 1, action 0 sum to 0\.4, not 1\. Divide"),
        (lambda: Marginals([[1], [2]], [1, -0.5, 1.5], [0] * 3, [0] * 3, 0.5),
         r"prob\[1\] is -0\.5 at state 1, action 0"),
        (lambda: Marginals([[1], [1]], [1, 1], [0, np.inf], [0, 0], 0.5), r"reward\[1\] is inf at state 1, action 0"),
        (lambda: Marginals([[1], [1]], [1, 1], [0, 0], [0, 2], 0.5), r"next_state\[1\] is 2 at state 1, action 0"),
        (lambda: Marginals.from_quantecon([[0.0, -np.inf]], [[[1.0], [1.0]]], 0.5),
         r"R\[0, 1\] is -inf, that is, action 1 is not available in state 0: a table needs"),
        (lambda: Marginals.from_quantecon([1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]], 0.5, [0, 1], [0, 1]),
         r"Action 1 is missing in state 0: a table needs every action"),
        (lambda: Marginals.from_quantecon([1.0, 2.0], [[1.0], [1.0]], 0.5, [0, 0], [0, 0]),
         r"state 0 with action 0 twice"),
        (lambda: Marginals.from_toy_text({0: {0: [(1.0, 0, 0, False)], 1: []}}, 0.5),
         r"Action 1 has no outcomes in state 0"),
        (lambda: Marginals.from_toy_text({0: {0: [(1.0, 1, 0, False)]}, 1: {}}, 0.5),
         r"P\[1\] has 0 actions, but P\[0\] has 1"),
        (lambda: Marginals.from_mdptoolbox([np.eye(2), [[1, 0], [0, 0]]], [0, 0], 0.5),
         r"Action 1 has no outcomes in state 1"),
    ],
)  # fmt: skip
def test_refusals_name_the_place_and_the_fix(call, message):
    with pytest.raises(ModelError, match=message):
        call()
