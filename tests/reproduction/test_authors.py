"""The authors' chain, grid and operator."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import jmdp
from reproduction.paper.authors import PaperOperator, chain, grid, right_then_up


def random_table(seed, states=3, scenarios=2, actions=2):
    rng = np.random.default_rng(seed)
    shape = states, scenarios, actions
    model = jmdp.TabularJMDP(
        rng.dirichlet(np.ones(scenarios), states), rng.random(shape), rng.integers(states, size=shape), 0.8
    )
    return model, jmdp.TabularPolicy(rng.dirichlet(np.ones(actions), states))


def swept_slowly(model, policy, mean, second):
    """T_2 (Definition 5.1) as a sum over scenarios of both branches and their next actions."""
    S, K, A = model.shape
    g, new_mean, new_second = model.discount, np.zeros_like(mean), np.zeros_like(second)
    for x, y in product(range(S * A), repeat=2):
        (s, a), (t, b) = divmod(x, A), divmod(y, A)
        for k, l in product(range(K), repeat=2):  # noqa: E741
            p = model.prob[s, k] * (float(k == l) if s == t else model.prob[t, l])
            r, q = model.reward[s, k, a], model.reward[t, l, b]
            m, n = model.next_state[s, k, a], model.next_state[t, l, b]
            for c, d in product(range(A), repeat=2):
                together = float(c == d) if x == y else policy.probs[n, d]
                i, j = m * A + c, n * A + d
                backup = r * q + g * r * mean[j] + g * q * mean[i] + g**2 * second[i, j]
                new_second[x, y] += p * policy.probs[m, c] * together * backup
                if x == y and k == l:
                    new_mean[x] += p * policy.probs[m, c] * together * (r + g * mean[i])
    return new_mean, new_second


@pytest.mark.parametrize("seed", range(3))
def test_the_operator_is_that_of_the_definition(seed):
    model, policy = random_table(seed)
    rng = np.random.default_rng(100 + seed)
    moments = rng.normal(size=6), rng.normal(size=(6, 6))
    for found, expected in zip(
        PaperOperator(model, policy)(*moments), swept_slowly(model, policy, *moments), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-13)


@pytest.mark.parametrize("seed", range(3))
def test_its_fixed_point_has_the_exact_moments(seed):
    model, policy = random_table(seed)
    found = PaperOperator(model, policy).iterates(seed, 200)[-1]
    exact = jmdp.evaluate(model, policy, jmdp.Local())
    np.testing.assert_allclose(found[0], exact.mean.ravel(), atol=1e-10)
    for (s, a), (t, b) in product(product(range(3), range(2)), repeat=2):
        assert found[1][2 * s + a, 2 * t + b] == pytest.approx(exact.second_moment(s, a, t, b), abs=1e-10)


def test_drawing_twice_changes_only_random_policies():
    """The chain's closed forms, ¼ and −¼, and those of one draw."""
    model = chain()
    covariance = {}
    for policy in (jmdp.TabularPolicy.uniform(model), jmdp.TabularPolicy.deterministic(model, np.zeros(25, int))):
        for twice in (False, True):
            operator = PaperOperator(model, policy, drawn_twice=twice)
            mean = jmdp.evaluate(model, policy, jmdp.Local()).mean.ravel()
            moments = mean, np.outer(mean, mean)
            for _ in range(30):
                moments = operator(*moments)
            covariance[policy.probs[0, 0], twice] = operator.covariances(*moments)[0]
    g = 0.99**2
    V, half = 0.25 * (1 - g**24) / (1 - g), 0.5 * (1 - (g / 2) ** 24) / (1 - g / 2)
    np.testing.assert_allclose(covariance[0.5, True], [[0.25, -0.25], [-0.25, 0.25]], atol=1e-9)
    np.testing.assert_allclose(covariance[0.5, False], [[V, V - half], [V - half, V]], atol=1e-9)
    np.testing.assert_allclose(covariance[1.0, True], covariance[1.0, False], atol=1e-9)


def test_the_chain_is_that_of_the_authors():
    """Rewards U and 1 − U; both actions lead on; the last state pays 1 for ever."""
    model = chain(3)
    assert model.discount == 0.99
    assert model.reward[0].tolist() == [[0, 1], [1, 0]]
    assert (model.reward[2] == 1).all()
    assert model.next_state[:, 0, 0].tolist() == [1, 2, 2]
    assert (model.next_state == model.next_state[:, :1, :1]).all()
    assert not model.terminal.any()


def test_the_grid_is_that_of_the_authors():
    """10 × 7: gusts come after the move and lead down; walls stop both; the goal pays 1 on entering and later."""
    model = grid()
    assert model.shape == (70, 2, 4)
    moves = {(s, k): [model.states.name(n) for n in model.next_state[model.states.index(s), k]]
             for s in ("0,8", "6,0", "3,4") for k in (0, 1)}  # fmt: skip
    assert moves["0,8", 0] == ["0,8", "0,9", "1,8", "0,7"]  # U R D L, calm
    assert moves["0,8", 1] == ["1,8", "1,9", "2,8", "1,7"]
    assert moves["6,0", 0] == ["5,0", "6,1", "6,0", "6,0"]
    assert moves["6,0", 1] == ["6,0", "6,1", "6,0", "6,0"]
    assert moves["3,4", 1] == ["3,4", "4,5", "5,4", "4,3"]
    goal = model.states.index("0,9")
    assert (model.next_state[goal] == goal).all()
    assert ((model.reward == 1) == (model.next_state == goal)).all()
    assert set(model.prob[0]) == {0.8, 0.2}
    assert jmdp.evaluate(model, "uniform", jmdp.Local()).mean[goal] == pytest.approx([100.0] * 4)
    directed = right_then_up(model).probs.argmax(axis=1)
    assert {model.actions.name(a) for s, a in enumerate(directed) if s % 10 < 9} == {"R"}
    assert {model.actions.name(a) for s, a in enumerate(directed) if s % 10 == 9} == {"U"}
