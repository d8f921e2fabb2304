"""Couplings of marginals: single actions keep their distributions, and the joint ones are the defined ones."""

from __future__ import annotations

import copy
import itertools
import pickle
from fractions import Fraction

import numpy as np
import pytest

import jmdp
from jmdp.errors import MemoryBudgetError, ModelError
from jmdp.models import outcome_lists as lists
from jmdp.models.couple import CommonUniform, JointTable, Maximal, Product, couple
from jmdp.models.marginals import Marginals
from jmdp.models.tabular import changed
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
    """Lists of the actions in a state, divided by their exact sums."""
    A, found = marginals.shape[1], []
    for row in range(s * A, (s + 1) * A):
        at = slice(*marginals.first[row : row + 2])
        p, r, n = (part[at].tolist() for part in (marginals.prob, marginals.reward, marginals.next_state))
        found.append(couplings.exact(list(zip(p, zip(r, n, strict=True), strict=True))))
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


@pytest.mark.parametrize("models", [150, pytest.param(2_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_joint_distributions_are_the_defined_ones_and_single_actions_keep_theirs(rule, models):
    rng = np.random.default_rng(1)
    for _ in range(models):
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


@pytest.mark.parametrize("rule", [CommonUniform(), CommonUniform(across_states=True)], ids=repr)
def test_breakpoints_are_one_if_they_are_equal_in_exact_arithmetic(rule):
    """The sum of three tenths does not depend on their order, and 0.1 + 0.2 is not 0.3 in floats."""
    rng = np.random.default_rng(4)
    tenths = np.array([0.1, 0.2, 0.3, 0.4])
    prob = np.concatenate([rng.permutation(tenths) for _ in range(500)])
    marginals = Marginals(np.full((100, 5), 4), prob, np.arange(2000), np.zeros(2000, int), 0.9)
    model = couple(marginals, rule)
    sums = {sum(map(Fraction, part)) for n in range(5) for part in itertools.combinations(tenths.tolist(), n)}
    assert model.shape[1] <= len(sums) - 1
    slivers = model.prob < 1e-15
    np.testing.assert_allclose(model.prob[~slivers] * 10, np.round(model.prob[~slivers] * 10), atol=1e-13)


def test_lists_of_equal_probabilities_make_as_many_scenarios_as_outcomes():
    """Their probabilities are kept bit for bit, so that no error is added."""
    thirds, ninths = np.full(3, 1 / 3), np.full(9, 1 / 9)
    prob = np.concatenate([thirds, [1.0], thirds, ninths, ninths, [1.0]])
    marginals = Marginals([[3, 1, 3], [9, 9, 1]], prob, np.arange(prob.size), np.zeros(prob.size, int), 0.9)
    model = couple(marginals, CommonUniform())
    assert model.shape[1] == 9
    np.testing.assert_array_equal(model.prob, [[*thirds, *np.zeros(6)], ninths])
    assert model.prob_error == 0


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
        s, a = int(rng.choice(live)), int(rng.integers(marginals.shape[1]))
        one = lists_of(marginals, s)[a]
        total = sum(map(Fraction, model.prob[s]))
        begin = Fraction(0)
        for k, p in enumerate(map(Fraction, model.prob[s])):
            if p > 1e-12:  # ends of rounded lengths are not exact
                assert couplings.at(one, (begin + p / 2) / total) == (model.reward[s, k, a], model.next_state[s, k, a])
            begin += p


def test_very_small_probabilities_are_kept():
    """Tails of 300 outcomes with probabilities down to 1e-40, which form a chain of close breakpoints."""
    tail = np.exp(-0.3 * np.arange(300.0))
    prob = np.concatenate([tail / tail.sum(), tail[::-1] / tail.sum()])
    marginals = Marginals([[300, 300]], prob, np.arange(600), np.zeros(600, int), 0.9)
    for rule in (CommonUniform(), CommonUniform(across_states=True), Maximal()):
        model = couple(marginals, rule)
        for a in range(2):
            found, (p, r, _) = joint_of(model, 0, a), marginals.outcomes(0, a)
            np.testing.assert_allclose([found[((x, 0),)] for x in r], p, rtol=1e-14)


@pytest.mark.parametrize("rule", [CommonUniform(across_states=True), CommonUniform(), Maximal(), Product()], ids=repr)
def test_a_residual_of_a_sum_keeps_its_probability(rule):
    """1 − .7 − .2 − .1 is 2.8e-17. Its outcome must not receive a whole scenario."""
    residual = 1 - 0.7 - 0.2 - 0.1
    assert 0 < residual < 1e-16
    marginals = Marginals(
        [[4, 2]], [0.7, 0.2, 0.1, residual, 0.5, 0.5], [0.0, 0.0, 0.0, -100.0, 0.0, 0.0], [0] * 6, 0.9
    )
    evaluation = jmdp.evaluate(couple(marginals, rule), [0], jmdp.Local())
    rare = Fraction(residual) / sum(map(Fraction, [0.7, 0.2, 0.1, residual]))
    after = -100 * rare / (1 - Fraction(0.9))
    for a, truth in enumerate((after, Fraction(0.9) * after)):
        interval = evaluation.mean_interval(0, a)
        assert interval.low <= truth <= interval.high
        assert interval.high - interval.low < 1e-25


@pytest.mark.parametrize("rule", [CommonUniform(), CommonUniform(order="reward"), Maximal(), Product()], ids=repr)
def test_a_rare_outcome_with_a_large_reward_is_kept(rule):
    marginals = Marginals([[2, 1]], [1 - 1e-16, 1e-16, 1.0], [0.0, 1e20, 1.0], [0, 0, 0], 0.5)
    mean = jmdp.evaluate(couple(marginals, rule), [0], jmdp.Local()).mean_interval(0, 0)
    truth = 2 * Fraction(1e20) * Fraction(1e-16) / (Fraction(1e-16) + Fraction(1 - 1e-16))
    assert mean.low <= truth <= mean.high
    assert mean.high - mean.low < 1e-7


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_intervals_are_those_of_lists_divided_by_their_exact_sums(rule):
    """Sums that differ from 1 by 2e-7, as in single precision."""
    prob = [0.3, 0.7 + 2e-7, 0.1 - 1e-7, 0.9, 0.25, 0.75]
    marginals = Marginals([[2, 2, 2]], prob, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0] * 6, 0.99)
    evaluation = jmdp.evaluate(couple(marginals, rule), [0], jmdp.Local())
    means = [sum(p * Fraction(r) for p, (r, _) in one) for one in lists_of(marginals, 0)]
    gamma = Fraction(0.99)
    for a, mean in enumerate(means):
        interval = evaluation.mean_interval(0, a)
        assert interval.low <= mean + gamma / (1 - gamma) * means[0] <= interval.high
        assert interval.high - interval.low < 1e-11


def test_a_joint_table_must_have_the_marginals_up_to_rounding_of_each_probability():
    """5e-13 of mass is half a thousandth of an outcome of probability 1e-9, whose reward may be large."""
    marginals = Marginals([[2, 1]], [1 - 1e-9, 1e-9, 1.0], [0.0, 1e12, 1.0], [0, 0, 0], 0.5)
    chosen = [[[0, 0], [1, 0]]]
    with pytest.raises(ModelError, match=r"outcome 1 of action 0 a probability of 1\.0005e-09, .* is 1e-09\."):
        couple(marginals, JointTable([[1 - 1e-9 - 5e-13, 1e-9 + 5e-13]], chosen))
    model = couple(marginals, JointTable([[1 - 1e-9, 1e-9 * (1 + 1e-11)]], chosen))
    assert 1e-11 < model.prob_error < 1.1e-11
    mean = jmdp.evaluate(model, [0], jmdp.Local()).mean_interval(0, 0)
    truth = 2 * Fraction(1e12) * Fraction(1e-9) / (Fraction(1e-9) + Fraction(1 - 1e-9))
    assert mean.low <= truth <= mean.high
    assert mean.high - mean.low < 1e-6


def test_probabilities_with_too_few_digits_are_refused():
    """A third of the smallest float cannot be represented, but its part of a certain outcome can."""
    marginals = Marginals([[2, 3]], [1.0, 5e-324, *[1 / 3] * 3], np.arange(5), [0] * 5, 0.5)
    with pytest.raises(ModelError, match=r"as small as 4\.94e-324\. .* Leave out outcomes below 1e-290"):
        couple(marginals, Product())
    model = couple(marginals, CommonUniform())
    assert model.prob_error < 4 * 2.0**-53
    assert 5e-324 in model.prob


def test_a_scenario_too_small_for_a_float_stays_possible():
    """Breakpoints 1/(1 + p) and (1 + p)/(1 + 2p) differ by p², and p² is below the smallest float."""
    p = 1e-300
    marginals = Marginals([[2, 3]], [1.0, p, 1.0, p, p], np.arange(5), [0] * 5, 0.5)
    model = couple(marginals, CommonUniform())
    assert len(joint_of(model, 0)) == len(couplings.common_uniform(lists_of(marginals, 0))) == 4
    assert 5e-324 in model.prob
    assert model.prob_error < 4 * 2.0**-53


def test_a_small_part_of_an_outcome_may_have_few_digits():
    """Maximal coupling splits an outcome of probability 1e-200 so that one part has 1e-400."""
    p = 1e-200
    marginals = Marginals([[2, 3], [0, 0]], [1.0, p, 0.5, p, 0.5], np.arange(5), [0, 1, 0, 1, 1], 0.5, [False, True])
    model = couple(marginals, Maximal())
    assert model.prob_error < 4 * 2.0**-53
    assert 5e-324 in model.prob[0]
    assert joint_of(model, 0, 1)[((3.0, 1),)] == pytest.approx(p, rel=1e-15)


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
    marginals = Marginals([[2, 3]], [1 / 3, 2 / 3, 0.1, 0.2, 0.7], [1, 2, 3, 4, 5], [0] * 5, 0.9)
    model = couple(marginals, CommonUniform(order="reward"))
    assert model.coupled_by == "CommonUniform(order='reward')"
    assert "coupled_by=CommonUniform(order='reward')" in repr(model)
    assert model.prob_error > 0
    for other in (
        copy.copy(model),
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        changed(model, discount=0.3),
    ):
        assert (other.coupled_by, other.prob_error) == (model.coupled_by, model.prob_error)
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
