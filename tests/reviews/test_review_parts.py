"""Expectation, skill and luck add up to the return; luck has mean 0. The long runs are in review_evidence.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from identity_runs import luck_scores, of_tables, simulator_settings
from review_worlds import climb, erratic, residual, table_of, truncated_values, walk

import jmdp
from jmdp.reviews.trajectory import state_label


def test_parts_add_up_on_tables():
    assert max(of_tables(10)) <= 1e-12


@pytest.mark.parametrize("seed", range(10))
def test_parts_add_up_with_estimated_values(seed):
    simulator, policy, settings = simulator_settings(seed)
    if "episodes" in settings:
        settings["episodes"] = [0, 1, 4] if settings["method"] != jmdp.reviews.LookaheadValues(samples=2) else 5
    made = jmdp.review(simulator, policy, **settings)
    for one in made if isinstance(made, jmdp.reviews.Reviews) else [made]:
        assert residual(one) <= 1e-12
        wrong = replace(one, values=[*one.values[:-1], replace(one.values[-1], value=one.values[-1].value + 1)])
        assert residual(wrong) <= 1e-12  # any values add up, so this test cannot see wrong values


def test_luck_has_mean_zero_on_tables():
    whole, single, count = luck_scores(6, 100)
    assert max(whole, single) < 5
    assert count > 40


@pytest.mark.parametrize("bug", ["γ forgotten", "v of the state before"])
def test_a_planted_bug_in_luck_is_seen(bug):
    assert max(luck_scores(6, 100, bug)[:2]) > 8


@pytest.mark.parametrize("seed", range(4))
def test_exact_values_are_those_of_the_table(seed):
    model, policy, reference, _ = table_of(seed)
    one = jmdp.review(model, policy, seed=0, reference=reference, starts=[0], steps=range(4), progress=False)
    q = truncated_values(model, reference.probs, 2000)[-1]
    states = [int(state) for state in one.trajectory.states]
    size = 1 + np.abs(q).max()
    for i, decision in enumerate(one.decisions):
        s, a = states[i], one.trajectory.actions[i]
        assert one.values[i].action_values == pytest.approx(q[s], abs=1e-9 * size)
        assert float(decision.regret) == pytest.approx(q[s].max() - q[s][a], abs=1e-9 * size)
        assert float(decision.skill) == pytest.approx(q[s][a] - reference.probs[s] @ q[s], abs=1e-9 * size)
        ahead = 0.0 if model.terminal[states[i + 1]] else float(reference.probs[states[i + 1]] @ q[states[i + 1]])
        assert float(decision.luck) == pytest.approx(
            decision.reward + model.discount * ahead - q[s][a], abs=1e-9 * size
        )


def test_a_policy_without_randomness_has_no_skill_against_itself():
    one = jmdp.review(
        walk(), climb, seed=1, discount=0.9, horizon=10, method=jmdp.reviews.RolloutValues(8), progress=False
    )
    assert all(decision.skill.low == decision.skill.high == 0 for decision in one.decisions)
    assert one.reference is None


def test_skill_of_a_random_policy_has_an_interval_if_all_rollouts_are_equal():
    """Rewards of chance 0.002 are not seen in most rollouts, but the skill is not known to be 0."""
    prob = np.array([[0.998, 0.002]] * 2)
    reward = np.zeros((2, 2, 2))
    reward[0, :, 0], reward[1, 1, 1] = 1.0, 100.0  # state 1 pays rarely
    model = jmdp.TabularJMDP(prob, reward, np.ones((2, 2, 2), int), 0.5)
    policy = jmdp.TabularPolicy(np.full((2, 2), 0.5))
    one = jmdp.review(
        model, policy, seed=0, starts=[0], steps=range(4), method=jmdp.reviews.RolloutValues(8), progress=False
    )
    assert all(decision.skill.low < decision.skill.high for decision in one.decisions[1:])


def test_error_of_the_sum_of_luck_allows_for_the_same_rollouts_in_expectation_and_skill():
    """q(s₀, a₀) = v(s₀) + skill, and their errors may add up instead of cancelling."""
    prob, reward = np.full((2, 2), 0.5), np.zeros((2, 2, 2))
    reward[0, 0, 1] = 2.0  # action 1 varies twice as much as action 0, which the reference takes
    reward[0, 0, 0] = 1.0
    model = jmdp.TabularJMDP(prob, reward, np.ones((2, 2, 2), int), 0.5, np.array([False, True]))
    first, second = (jmdp.TabularPolicy.deterministic(model, np.array([a, a])) for a in (0, 1))
    one = jmdp.review(
        model, second, reference=first, seed=0, starts=[0], method=jmdp.reviews.RolloutValues(64), progress=False
    )
    assert one.luck.error == pytest.approx(one.values[0].action_errors[1], rel=1e-9)
    assert one.luck.error > np.hypot(one.expectation.error, one.skill.error)


def test_nothing_is_random_in_cart_pole():
    gymnasium = pytest.importorskip("gymnasium")
    one = jmdp.review(
        gymnasium.make("CartPole-v1"), lambda seen: int(seen[2] > 0), seed=0, discount=0.95, steps=range(20),
        progress=False,
    )  # fmt: skip
    assert {decision.fortune for decision in one.decisions} == {"none"}
    assert {decision.samples for decision in one.decisions} == {1}
    assert abs(float(one.luck)) <= 1e-9 * float(one.expectation)
    assert "nothing was random" in one.answer


def test_shares_of_a_table_are_exact():
    """A reference that is a table needs no draws to find its shares."""
    model, policy, _, _ = table_of(8)
    one = jmdp.review(
        model, policy, seed=0, starts=[0], steps=range(2), method=jmdp.reviews.RolloutValues(16), progress=False
    )
    for i, values in enumerate(one.values[:-1]):
        row = policy.probs[int(one.trajectory.states[i])]
        assert values.average == pytest.approx(float(row @ values.action_values), rel=1e-12)


def test_expectation_is_the_first_value():
    one = jmdp.review(
        walk(), erratic, seed=1, discount=1.0, horizon=8, method=jmdp.reviews.RolloutValues(4), progress=False
    )
    assert float(one.expectation) == one.values[0].value
    assert float(one.final) == 0.0


def test_states_of_dict_observations_have_labels():
    def label(seen):
        return state_label(Observing(seen), 0)

    assert label({"hour": 7, "price": np.float64(54.23912)}) == "hour=7, price=54.24"
    assert label({"picture": np.zeros((8, 8))}) == ""
    assert label({"text": "x" * 500}) == ""
    assert label((3, "left")) == "(3, 'left')"


class Observing(jmdp.simulators.Simulator):
    """Has this observation in every state."""

    actions = jmdp.simulators.action_labels(["go"])

    def __init__(self, seen):
        self.seen = seen

    def observe(self, state):
        return self.seen

    def step(self, state, action, shock):
        return jmdp.simulators.Step(0.0, state, False)
