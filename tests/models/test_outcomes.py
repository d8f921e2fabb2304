"""One step of several actions under the same luck: draws, exact distributions, marginals, coupling distances."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

import jmdp
from jmdp.errors import LabelError, SettingsError
from jmdp.models.outcomes import Outcomes, rounding_allowance
from reference.step_distributions import DRAWS, g_test
from sample_models import random_problem

FALSE_ALARM = 1e-6  # of all G-tests below together


def two_rows(reward, next_state):
    """State 0 has two equally likely scenarios with these outcomes; state 1 is a trap that earns nothing."""
    stay = [[1, 1], [1, 1]]
    return jmdp.TabularJMDP([[0.5, 0.5]] * 2, [reward, np.zeros((2, 2))], [next_state, stay], 0.9)


def product_of(marginals):
    """A state where actions are independent: [(prob, reward, next_state), …] for each action, in float64."""
    combinations = list(itertools.product(*marginals))
    prob = [[np.prod([p for p, _, _ in combination]) for combination in combinations]]
    reward = [[[r for _, r, _ in combination] for combination in combinations]]
    next_state = [[[n for _, _, n in combination] for combination in combinations]]
    return prob, reward, next_state


ANTI_CORRELATED = two_rows([[0, 1], [1, 0]], [[1, 1], [1, 1]])  # R = (U, 1 − U)
SAME_STATES = two_rows([[0, 0], [0, 0]], [[0, 0], [1, 1]])  # S' = (U, U)
OTHER_STATES = two_rows([[0, 0], [0, 0]], [[0, 1], [1, 0]])  # S' = (U, 1 − U)
EXAMPLES = {
    "Example 1": (ANTI_CORRELATED, [[0, 1], [1, 0]], [[1, 1], [1, 1]]),
    "Example 2.1": (SAME_STATES, [[0, 0], [0, 0]], [[0, 0], [1, 1]]),
    "Example 2.2": (OTHER_STATES, [[0, 0], [0, 0]], [[0, 1], [1, 0]]),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_papers_examples_are_coupled_and_their_products_are_not(name):
    model, reward, next_state = EXAMPLES[name]
    distribution = model.outcome_distribution(0)
    np.testing.assert_array_equal(distribution.prob, [0.5, 0.5])
    np.testing.assert_array_equal(distribution.reward, reward)
    np.testing.assert_array_equal(distribution.next_state, next_state)
    np.testing.assert_array_equal(model.coupling_distance, [0.5, 0.0])
    assert model.is_coupled

    singles = [model.outcome_distribution(0, a) for a in range(2)]
    marginals = [list(zip(one.prob, one.reward[:, 0], one.next_state[:, 0], strict=True)) for one in singles]
    prob, reward, next_state = product_of(marginals)
    stay = np.ones((1, 4, 2), int)
    apart = jmdp.TabularJMDP(np.vstack([prob, prob]), np.vstack([reward, 0 * stay]), np.vstack([next_state, stay]), 0.9)
    np.testing.assert_array_equal(apart.coupling_distance, [0.0, 0.0])
    assert not apart.is_coupled
    for a, one in enumerate(singles):
        other = apart.outcome_distribution(0, a)
        for field in ("prob", "reward", "next_state"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
    here, there = model.marginal_mdp(), apart.marginal_mdp()
    np.testing.assert_array_equal(here.reward, there.reward)
    np.testing.assert_array_equal(here.transition.toarray(), there.transition.toarray())


def test_equal_outcomes_are_one_and_impossible_ones_none():
    model = jmdp.TabularJMDP(
        [[0.1, 0.2, 0.0, 0.3, 0.4]],
        [[[2.0, -0.0], [1.0, 7.0], [9.0, 9.0], [2.0, 0.0], [1.0, 5.0]]],
        np.zeros((1, 5, 2), int),
        0.5,
        action_names=["a", "b"],
    )
    distribution = model.outcome_distribution(0)
    np.testing.assert_array_equal(distribution.prob, [0.4, 0.2, float(Fraction(0.1) + Fraction(0.3))])
    np.testing.assert_array_equal(distribution.reward, [[1, 5], [1, 7], [2, 0]])
    assert not np.signbit(distribution.reward).any()
    turned = model.outcome_distribution(0, ["b", "a"])
    np.testing.assert_array_equal(turned.reward, [[0, 2], [5, 1], [7, 1]])
    np.testing.assert_array_equal(model.outcome_distribution(0, "a").reward, [[1], [2]])
    np.testing.assert_array_equal(model.outcome_distribution(0, "a").prob, [0.6000000000000001, 0.4])  # fl(0.2 + 0.4)
    twice = model.outcome_distribution(0, np.array([1, 1]))
    np.testing.assert_array_equal(twice.reward, [[0, 0], [5, 5], [7, 7]])
    assert model.outcome_distribution(0).next_state.shape == (3, 2)


def exact_distribution(model, s, actions):
    distribution = defaultdict(Fraction)
    for k, p in enumerate(model.prob[s].tolist()):
        if p:
            distribution[tuple((float(model.reward[s, k, a]), int(model.next_state[s, k, a])) for a in actions)] += (
                Fraction(p)
            )
    return distribution


def as_dictionary(distribution):
    rows = zip(distribution.prob.tolist(), distribution.reward.tolist(), distribution.next_state.tolist(), strict=True)
    return {tuple(zip(r, n, strict=True)): p for p, r, n in rows}


def test_distributions_are_those_of_exact_rationals_rounded_once():
    rng = np.random.default_rng(11)
    for _ in range(60):
        model, _ = random_problem(rng, states=4, scenarios=12, actions=4, common_prob=False)
        S, _, A = model.shape
        s, m = int(rng.integers(S)), int(rng.integers(1, A + 1))
        actions = rng.permutation(A)[:m]
        distribution = model.outcome_distribution(s, actions)
        assert as_dictionary(distribution) == {
            outcome: float(p) for outcome, p in exact_distribution(model, s, actions).items()
        }
        order = [
            [*zip(r, n, strict=True)]
            for r, n in zip(distribution.reward.tolist(), distribution.next_state.tolist(), strict=True)
        ]
        assert order == sorted(order)
        shuffled = rng.permutation(model.shape[1])
        again = jmdp.TabularJMDP(
            model.prob[:, shuffled], model.reward[:, shuffled], model.next_state[:, shuffled], 0.5
        ).outcome_distribution(s, actions)
        for field in ("prob", "reward", "next_state"):
            np.testing.assert_array_equal(getattr(distribution, field), getattr(again, field))
            assert not getattr(distribution, field).flags.writeable


def test_marginals_are_those_of_exact_rationals():
    rng = np.random.default_rng(12)
    for _ in range(30):
        model, _ = random_problem(rng, scenarios=6, common_prob=False)
        S, K, A = model.shape
        mdp = model.marginal_mdp()
        assert mdp.discount == model.discount
        assert mdp.reward.shape == (S, A)
        assert mdp.transition.format == "csr"
        assert (mdp.transition.data > 0).all()
        dense = mdp.transition.toarray().reshape(S, A, S)
        for s, a in itertools.product(range(S), range(A)):
            mean, chances = Fraction(0), defaultdict(Fraction)
            for ((r, n),), p in exact_distribution(model, s, [a]).items():
                mean += p * Fraction(r)
                chances[n] += p
            assert abs(mdp.reward[s, a] - mean) <= (K + 1) * 2.0**-53 * model.reward_bound
            expected = [float(chances[n]) for n in range(S)]
            np.testing.assert_allclose(dense[s, a], expected, rtol=K * 2.0**-53, atol=0)
            if model.terminal[s]:
                assert (mdp.reward[s, a], dense[s, a, s]) == (0, 1)


def exact_distance(model, s):
    """½ Σ |J − ⊗J_1| over all combinations of outcomes, in rationals, of rows divided by their exact sum."""
    A = model.shape[2]
    total = sum(map(Fraction, model.prob[s].tolist()))
    joint = exact_distribution(model, s, range(A))
    singles = [exact_distribution(model, s, [a]) for a in range(A)]
    difference = Fraction(0)
    for combination in itertools.product(*singles):
        product = Fraction(1)
        for single, outcome in zip(singles, combination, strict=True):
            product *= single[outcome] / total
        difference += abs(joint.get(tuple(o for (o,) in combination), Fraction(0)) / total - product)
    return difference / 2


def test_distances_are_those_of_all_combinations():
    rng = np.random.default_rng(13)
    distances = []
    for _ in range(150):
        model, _ = random_problem(rng, states=3, scenarios=6, actions=3, common_prob=False)
        _, K, A = model.shape
        truth = [exact_distance(model, s) for s in range(model.shape[0])]
        for found, exact in zip(model.coupling_distance, truth, strict=True):
            assert abs(Fraction(found) - exact) <= Fraction(rounding_allowance(K, A))
        assert model.is_coupled == (max(truth) > rounding_allowance(K, A))
        distances += truth
        assert A > 1 or (model.coupling_distance == 0).all()
    assert sum(d == 0 for d in distances) > 20
    assert sum(d > Fraction(1, 10) for d in distances) > 50


def test_products_in_floating_point_are_not_coupled_and_a_billionth_is():
    rng = np.random.default_rng(14)
    for _ in range(300):
        A = int(rng.integers(2, 6))
        sizes = rng.integers(1, 5 if A < 5 else 4, A)
        marginals = [
            list(zip(rng.dirichlet(np.full(n, rng.choice([0.1, 1.0]))), rng.random(n), [0] * n, strict=True))
            for n in sizes
        ]
        prob, reward, next_state = product_of(marginals)
        if rng.random() < 0.5:  # off by a scale that is divided away
            prob = np.array(prob) * (1 + 1e-7)
        assert not jmdp.TabularJMDP(prob, reward, next_state, 0.9).is_coupled
    for K, A in ((2, 2), (1000, 8)):
        assert rounding_allowance(K, A) < 1e-10
    fair = np.full((1, 4), 0.25) + 1e-9 * np.array([1, -1, -1, 1]) / 2  # 4 entries off by ½e-9: the distance is 1e-9
    model = jmdp.TabularJMDP(fair, [[[0, 0], [0, 1], [1, 0], [1, 1]]], np.zeros((1, 4, 2), int), 0.9)
    assert model.coupling_distance[0] == pytest.approx(1e-9, rel=1e-6)
    assert model.is_coupled


def test_worlds_and_copies():
    model = jmdp.worlds.windy_gridworld(gust=0.3).model
    assert model.is_coupled
    assert not jmdp.worlds.windy_gridworld(gust=0.0).model.is_coupled
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.coupling_distance, model.coupling_distance)
    assert not model.coupling_distance.flags.writeable
    assert not copy.coupling_distance.flags.writeable


def seen(outcomes):
    return Counter(
        tuple(zip(r, n, strict=True))
        for r, n in zip(outcomes.reward.tolist(), outcomes.next_state.tolist(), strict=True)
    )


def queries():
    """(model, state, actions) with one, two and all actions, in random models with something to see."""
    rng = np.random.default_rng(15)
    for _ in range(12):
        while True:
            model, _ = random_problem(rng, states=4, scenarios=6, actions=4, common_prob=False)
            s = int(rng.integers(model.shape[0]))
            if model.shape[2] >= 3 and model.coupling_distance[s] > 0.1:
                break
        for m in (1, 2, model.shape[2]):
            yield model, s, rng.permutation(model.shape[2])[:m]


QUERIES = list(queries())


def test_samples_realise_the_joint_distribution():
    """G-tests, all together with a false alarm of at most 1e-6."""
    for number, (model, s, actions) in enumerate(QUERIES):
        outcomes = model.sample(s, actions, rng=np.random.default_rng([16, number]), size=DRAWS)
        assert outcomes.reward.shape == outcomes.next_state.shape == (DRAWS, len(actions))
        g, freedom = g_test(seen(outcomes), as_dictionary(model.outcome_distribution(s, actions)))
        if freedom:
            threshold = chi2.isf(FALSE_ALARM / len(QUERIES), freedom)
            assert g <= threshold, f"{model}, actions {actions} in {s}: G = {g:.1f} over {threshold:.1f}"


def test_draws_made_action_by_action_are_told_apart():
    """The G-test has power: draws with the right marginals and a scenario for each action fail it every time."""
    tried = 0
    for number, (model, s, actions) in enumerate(QUERIES):
        if len(actions) < model.shape[2]:
            continue
        rng = np.random.default_rng([17, number])
        singles = [model.sample(s, a, rng=rng, size=DRAWS) for a in actions]
        apart = Outcomes(*(np.hstack(columns) for columns in zip(*singles, strict=True)))
        distribution = as_dictionary(model.outcome_distribution(s, actions))
        if set(seen(apart)) <= set(distribution):
            g, freedom = g_test(seen(apart), distribution)
            assert g > chi2.isf(FALSE_ALARM / len(QUERIES), freedom)
        else:
            with pytest.raises(AssertionError, match="drew what cannot happen"):
                g_test(seen(apart), distribution)
        tried += 1
    assert tried == 12


def test_the_same_luck_gives_one_action_the_same_outcome_whatever_else_is_asked():
    for model, s, actions in QUERIES:
        together = model.sample(s, actions, rng=np.random.default_rng(5), size=50)
        for i, a in enumerate(actions):
            alone = model.sample(s, a, rng=np.random.default_rng(5), size=50)
            np.testing.assert_array_equal(alone.reward[:, 0], together.reward[:, i])
            np.testing.assert_array_equal(alone.next_state[:, 0], together.next_state[:, i])


def test_shapes_names_and_terminal_states():
    world = jmdp.worlds.windy_gridworld(3, 3)
    model = world.model
    one = model.sample("2,0", "R", rng=np.random.default_rng(0))
    assert one.reward.shape == one.next_state.shape == (1,)
    assert (one.reward.dtype, one.next_state.dtype) == (np.float64, np.int64)
    assert model.sample("2,0", rng=np.random.default_rng(0)).reward.shape == (4,)
    assert model.sample(6, ("R", 0), rng=np.random.default_rng(0), size=5).next_state.shape == (5, 2)
    assert model.sample(6, np.array(["R", "U"]), rng=np.random.default_rng(0), size=0).reward.shape == (0, 2)
    end = model.sample("0,2", rng=np.random.default_rng(0), size=7)
    assert (end.reward == 0).all()
    assert (end.next_state == 2).all()
    distribution = model.outcome_distribution("0,2", np.array(1))
    assert (distribution.prob.tolist(), distribution.reward.tolist(), distribution.next_state.tolist()) == (
        [1.0],
        [[0.0]],
        [[2]],
    )


def test_messages():
    model = jmdp.worlds.windy_gridworld(3, 3).model
    rng = np.random.default_rng(0)
    with pytest.raises(SettingsError, match=r"rng is 7\. Give a generator, rng = np\.random\.default_rng\(7\)"):
        model.sample(0, rng=7)
    with pytest.raises(SettingsError, match=r"np\.random\.default_rng\(seed\)"):
        model.sample(0, rng=None)
    for size in (-1, 2.0, True, "many"):
        with pytest.raises(SettingsError, match="Give a whole number of draws"):
            model.sample(0, rng=rng, size=size)
    with pytest.raises(SettingsError, match="actions is empty"):
        model.outcome_distribution(0, [])
    with pytest.raises(LabelError, match="There is no action 'X': names are 'U', 'R', 'D', 'L'"):
        model.sample(0, ["U", "X"], rng=rng)
    with pytest.raises(LabelError, match="There is no action 4"):
        model.outcome_distribution(0, 4)
    with pytest.raises(LabelError, match="There is no state 9"):
        model.sample(9, rng=rng)
    for wrong in (0.5, {0, 1}, [[0, 1]]):
        with pytest.raises(LabelError, match="give an index or a name"):
            model.outcome_distribution(0, wrong)
