"""Couplings of marginals: single actions keep their distributions, and the joint ones are the defined ones."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest

import jmdp
from jmdp.errors import MemoryBudgetError, ModelError
from jmdp.models.couple import CommonUniform, JointTable, Maximal, Product, couple
from jmdp.models.joint import common_uniform, lists
from jmdp.models.marginals import Marginals
from jmdp.models.tabular import with_discount
from reference import couplings
from sample_marginals import random_marginals

RULES = {
    CommonUniform(): couplings.common_uniform,
    CommonUniform(order="reward"): lambda lists: couplings.common_uniform([couplings.by_reward(x) for x in lists]),
    CommonUniform(across_states=True): couplings.common_uniform,
    CommonUniform(order="reward", across_states=True): lambda lists: couplings.common_uniform(
        [couplings.by_reward(x) for x in lists]
    ),
    Product(): couplings.independent,
    Maximal(): couplings.maximal,
}
ROUNDING = 1e-13


def lists_of(marginals: Marginals, s: int) -> list[couplings.List]:
    found = []
    for a in range(marginals.shape[1]):
        p, r, n = marginals.outcomes(s, a)
        found.append(couplings.exact(list(zip(p, zip(r.tolist(), n.tolist(), strict=True), strict=True))))
    return found


def joint_of(model: jmdp.TabularJMDP, s: int, actions=None) -> dict:
    found = model.outcome_distribution(s, actions)
    return {
        tuple(zip(r, n, strict=True)): p
        for p, r, n in zip(found.prob, found.reward.tolist(), found.next_state.tolist(), strict=True)
    }


def assert_same(found: dict, expected: dict, tolerance: float = ROUNDING) -> None:
    for outcome in {*found, *expected}:
        assert abs(float(found.get(outcome, 0)) - float(expected.get(outcome, 0))) <= tolerance, outcome


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_joint_distributions_are_the_defined_ones_and_single_actions_keep_theirs(rule):
    rng = np.random.default_rng(1)
    for _ in range(500):
        marginals = random_marginals(rng)
        model = couple(marginals, rule)
        assert model.coupled_by == repr(rule)
        s = int(rng.integers(marginals.shape[0]))
        assert_same(joint_of(model, s), RULES[rule](lists_of(marginals, s)))
        for a in range(marginals.shape[1]):
            assert_same(joint_of(model, s, a), couplings.independent([lists_of(marginals, s)[a]]))


def test_two_actions_differ_as_rarely_as_the_total_variation_distance_allows():
    rng = np.random.default_rng(2)
    for _ in range(200):
        marginals = random_marginals(rng, actions=2, outcomes=6)
        model = couple(marginals, Maximal())
        S, A = marginals.shape
        if A == 1:
            continue
        differ = (model.prob * (model.next_state[:, :, 0] != model.next_state[:, :, 1])).sum(axis=1)
        moves = np.zeros((S, A, S))
        row = np.repeat(np.arange(S * A), np.diff(marginals.first))
        np.add.at(moves.reshape(S * A, S), (row, marginals.next_state), marginals.prob)
        np.testing.assert_allclose(differ, np.abs(moves[:, 0] - moves[:, 1]).sum(axis=1) / 2, atol=ROUNDING)


def test_sorted_rewards_make_the_variance_of_a_difference_as_small_as_possible():
    """No permutation of four equally likely rewards comes closer than the sorted ones."""
    rng = np.random.default_rng(3)
    rewards = rng.normal(size=(2, 4))
    marginals = Marginals([[4, 4]], np.full(8, 0.25), rewards.ravel(), np.zeros(8, int), 0.0)
    model = couple(marginals, CommonUniform(order="reward"))
    gap = model.reward[0, :, 0] - model.reward[0, :, 1]
    variance = model.prob[0] @ gap**2 - (model.prob[0] @ gap) ** 2
    least = min(np.var(rewards[0] - rewards[1][list(order)]) for order in itertools.permutations(range(4)))
    assert variance == pytest.approx(least, abs=1e-14)
    assert (np.diff(model.reward[0], axis=0) >= 0).all()  # monotone in the uniform number


def test_scenarios_are_the_intervals_of_the_uniform_number():
    """Breakpoints 0.3 and 0.5 of two actions give the intervals [0, 0.3), [0.3, 0.5) and [0.5, 1)."""
    marginals = Marginals([[2, 2]], [0.3, 0.7, 0.5, 0.5], [1, 2, 3, 4], [0, 0, 0, 0], 0.9)
    model = couple(marginals, CommonUniform())
    np.testing.assert_allclose(model.prob, [[0.3, 0.2, 0.5]], atol=1e-16)
    np.testing.assert_array_equal(model.reward, [[[1, 3], [2, 3], [2, 4]]])


@pytest.mark.parametrize("A", [2, 5])
def test_breakpoints_that_differ_by_rounding_are_one(A):
    """0.1 + 0.2 is not 0.3 in floats, and the order of additions of tenths differs between actions."""
    rng = np.random.default_rng(4)
    tenths = np.array([0.1, 0.2, 0.3, 0.4])
    prob = np.concatenate([rng.permutation(tenths) for _ in range(50 * A)])
    N = prob.size
    marginals = Marginals(np.full((50, A), 4), prob, np.arange(N), np.zeros(N, int), 0.9)
    for rule in (CommonUniform(), CommonUniform(across_states=True)):
        model = couple(marginals, rule)
        np.testing.assert_allclose(model.prob * 10, np.round(model.prob * 10), atol=1e-13)
        assert (model.prob[model.prob > 0] > 0.09).all()


def test_no_consecutive_scenarios_are_equal():
    rng = np.random.default_rng(5)
    for _ in range(100):
        model = couple(random_marginals(rng, ends=0.0), CommonUniform())
        for p, r, n in zip(model.prob, model.reward, model.next_state, strict=True):
            some = p > 0
            r, n = r[some], n[some]
            assert ((r[1:] != r[:-1]) | (n[1:] != n[:-1])).any(axis=1).all()


def test_a_list_that_was_repeated_makes_no_more_scenarios():
    twice = Marginals([[4, 1]], [0.25] * 4 + [1], [1, 1, 2, 2, 0], [0] * 5, 0.9)
    assert couple(twice, CommonUniform()).shape[1] == 2
    assert couple(Marginals([[3, 3]], [0.3, 0.4, 0.3] * 2, [1, 2, 1] * 2, [0] * 6, 0.9), Product()).shape[1] == 4


def test_across_states_all_rows_are_equal_and_mean_the_same_interval():
    rng = np.random.default_rng(6)
    for _ in range(100):
        marginals = random_marginals(rng)
        model = couple(marginals, CommonUniform(across_states=True))
        jmdp.Synchronous().check_fits(model)
        live = np.flatnonzero(~model.terminal)
        if live.size == 0:
            continue
        middle = np.cumsum(model.prob[live[0]]) - model.prob[live[0]] / 2
        s, a = int(rng.choice(live)), int(rng.integers(marginals.shape[1]))
        p, r, n = marginals.outcomes(s, a)
        expected = np.searchsorted(np.cumsum(p), middle)
        np.testing.assert_array_equal(model.reward[s, :, a], r[expected])
        np.testing.assert_array_equal(model.next_state[s, :, a], n[expected])


def test_very_small_probabilities_are_kept_or_left_out_but_never_moved_far():
    """Tails of 300 outcomes with probabilities down to 1e-40 would form a chain of close breakpoints."""
    tail = np.exp(-0.3 * np.arange(300.0))
    prob = np.concatenate([tail / tail.sum(), tail[::-1] / tail.sum()])
    marginals = Marginals([[300, 300]], prob, np.arange(600), np.zeros(600, int), 0.9)
    for rule in (CommonUniform(), CommonUniform(across_states=True), Maximal()):
        model = couple(marginals, rule)
        for a in range(2):
            found = joint_of(model, 0, a)
            off = [abs(p - found.get(((r, 0),), 0.0)) for p, r, _ in zip(*marginals.outcomes(0, a), strict=True)]
            assert max(off) < 3 * 600 * 8 * 2.0**-53


@pytest.mark.parametrize("rule", [CommonUniform(), CommonUniform(across_states=True)], ids=repr)
def test_many_close_breakpoints_are_not_merged_into_one(rule):
    """999 probabilities just below the tolerance: their sum is kept, though single ones are not."""
    small = 7.5 * 1000 * 2.0**-53
    prob = np.r_[np.full(999, small), 1 - 999 * small]
    model = couple(Marginals([[1000]], prob, np.arange(1000), np.zeros(1000, int), 0.9), rule)
    found = sum(p for ((r, _),), p in joint_of(model, 0).items() if r < 999)
    assert found == pytest.approx(999 * small, abs=2 * small)


def test_states_are_processed_in_parts(monkeypatch):
    """Parts of any size give the same table, also if one state has many more outcomes than the others."""
    rng = np.random.default_rng(11)
    count = rng.integers(1, 4, (30, 2))
    count[[3, 17], 1] = 40
    N = int(count.sum())
    prob = np.concatenate([rng.dirichlet(np.ones(n)) for n in count.ravel()])
    marginals = Marginals(count, prob, rng.integers(0, 3, N), rng.integers(0, 30, N), 0.9)
    for rule in RULES:
        whole = couple(marginals, rule)
        for size in (1, 7, 100):
            monkeypatch.setattr(lists, "_CHUNK", size)
            monkeypatch.setattr(common_uniform, "_CHUNK", size)
            parts = couple(marginals, rule)
            monkeypatch.undo()
            for name in ("prob", "reward", "next_state"):
                np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


def test_explicit_tables_are_used_if_their_marginals_are_the_given_ones():
    marginals = Marginals([[2, 2], [0, 0]], [0.5, 0.5] * 2, [1, 2, 3, 4], [0, 1, 0, 1], 0.9, [False, True])
    same = JointTable([[0.5, 0.5], [7.0, 7.0]], [[[0, 0], [1, 1]], [[9, 9], [9, 9]]])
    model = couple(marginals, same)
    assert model.coupled_by == "JointTable(2 states, 2 scenarios, 2 actions)"
    np.testing.assert_array_equal(model.reward[0], [[1, 3], [2, 4]])
    opposite = couple(marginals, JointTable([[0.5, 0.5]] * 2, [[[0, 1], [1, 0]]] * 2))
    np.testing.assert_array_equal(opposite.reward[0], [[1, 4], [2, 3]])
    with pytest.raises(ModelError, match=r"outcome 0 of action 0 a probability of 0\.4, but its marginal .* is 0\.5"):
        couple(marginals, JointTable([[0.4, 0.6]] * 2, [[[0, 1], [1, 0]]] * 2))
    with pytest.raises(ModelError, match=r"outcome\[0, 0, 1\] is 2, but state 0, action 1 has 2 outcomes"):
        couple(marginals, JointTable([[0.5, 0.5]] * 2, [[[0, 2], [1, 0]]] * 2))


def test_tables_of_random_couplings_are_read_back():
    """The table of a product, given explicitly, is that product."""
    rng = np.random.default_rng(7)
    for _ in range(50):
        marginals = random_marginals(rng, states=1, actions=2, ends=0.0)
        counts = marginals.count[0]
        outcome = np.array([*itertools.product(*(range(n) for n in counts))])
        prob = np.prod([marginals.outcomes(0, a).prob[outcome[:, a]] for a in range(counts.size)], axis=0)
        model = couple(marginals, JointTable(prob[None], outcome[None]))
        assert_same(joint_of(model, 0), couplings.independent(lists_of(marginals, 0)))


def test_the_rule_is_recorded_shown_and_kept():
    marginals = random_marginals(np.random.default_rng(8))
    model = couple(marginals, CommonUniform(order="reward"))
    assert model.coupled_by == "CommonUniform(order='reward')"
    assert "coupled_by=CommonUniform(order='reward')" in repr(model)
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model)), with_discount(model, 0.3)):
        assert other.coupled_by == model.coupled_by
    given = jmdp.TabularJMDP(model.prob, model.reward, model.next_state, 0.5)
    assert given.coupled_by is None
    assert "coupled_by" not in repr(given)
    assert [repr(CommonUniform()), repr(Product()), repr(Maximal())] == ["CommonUniform()", "Product()", "Maximal()"]


def test_large_tables_are_refused_with_the_fix():
    many = Marginals(np.full((1, 40), 3), np.full(120, 1 / 3), np.arange(120), np.zeros(120, int), 0.9)
    with pytest.raises(MemoryBudgetError, match=r"1\.215766546e\+19 scenarios.*Use CommonUniform\(\)"):
        couple(many, Product())
    wide = Marginals(np.full((1, 700), 3), np.full(2100, 1 / 3), np.arange(2100), np.zeros(2100, int), 0.9)
    with pytest.raises(MemoryBudgetError, match=r"Use CommonUniform\(\)"):
        couple(wide, Product())
    S = 100_000
    p = np.random.default_rng(9).random(S)
    spread = Marginals(np.full((S, 1), 2), np.c_[p, 1 - p].ravel(), np.arange(2 * S), np.zeros(2 * S, int), 0.9)
    with pytest.raises(MemoryBudgetError, match=r"across_states"):
        couple(spread, CommonUniform(across_states=True))
    assert couple(spread, CommonUniform()).shape == (S, 2, 1)


def test_means_do_not_depend_on_the_rule():
    rng = np.random.default_rng(10)
    for _ in range(20):
        marginals = random_marginals(rng)
        models = [couple(marginals, rule) for rule in RULES]
        policy = jmdp.TabularPolicy.uniform(models[0])
        means = [jmdp.evaluate(model, policy, jmdp.Local()).mean for model in models]
        for mean in means[1:]:
            np.testing.assert_allclose(mean, means[0], atol=1e-10)
