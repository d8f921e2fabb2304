"""ReachablePairs against ExactPairs and exact rationals, where it must cut, and in a world of a million cells."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import jmdp
from jmdp.errors import CouplingError, ModelError, NotConvergedError, PolicyError
from jmdp.methods.exact_pairs.exact_pairs import ExactPairs
from jmdp.methods.reachable_pairs.search import Found
from reference.containment import Checks
from reference.rationals import Truth, exact
from sample_models import COUPLINGS, random_problem

INTERVALS = ("mean_interval", "variance_interval", "correlation_interval")


def room_for(states):
    """A memory budget for a table of pairs of so many states and the one where exits lead."""
    return 18 * 8 * (states + 1) ** 2


def violations(here, there, state):
    """Intervals of `here`, of one state, that miss those of `there`."""
    A = here.mean.shape[1]
    gaps = [(here.gap(here.states[0], a, b), there.gap(state, a, b)) for a in range(A) for b in range(A) if a != b]
    missed = [
        (name, one, other)
        for gap, right in gaps
        for name in INTERVALS
        for one, other in [(getattr(gap, name), getattr(right, name))]
        if one.low > other.high or one.high < other.low
    ]
    for a in range(A):
        one, other = here.mean_interval(here.states[0], a), there.mean_interval(state, a)
        missed += [] if one.low <= other.high and one.high >= other.low else [("mean", one, other)]
        for b in range(A):
            one, other = here.covariance_interval(here.states[0], a, b), there.covariance_interval(state, a, b)
            missed += [] if one.low <= other.high and one.high >= other.low else [("covariance", one, other)]
    return missed


@pytest.mark.parametrize("models", [18, pytest.param(72, marks=pytest.mark.long)])
def test_intervals_contain_the_answers_of_exact_pairs(models):
    """Models in all couplings; cut at one, three and five states and not at all; 0 violations."""
    rng = np.random.default_rng(33)
    outcomes, cuts = Counter(), 0
    for i in range(models):
        coupling = COUPLINGS[i % len(COUPLINGS)]
        model, policy = random_problem(
            rng, states=12, discounts=(0.01, 0.3, 0.6, 0.9), common_prob=coupling.shared_between_states
        )
        there = jmdp.evaluate(model, policy, coupling)
        state = int(rng.integers(model.shape[0]))
        for method in (
            jmdp.ReachablePairs(state, memory_budget=room_for(1)),
            jmdp.ReachablePairs(state, memory_budget=room_for(3)),
            jmdp.ReachablePairs(state, max_states=5),
            jmdp.ReachablePairs(state),
        ):
            here = jmdp.evaluate(model, policy, coupling, method, throw=False)
            assert violations(here, there, state) == []
            outcomes[here.outcome] += 1
            cuts += bool(here.certificate.covariance_error.max() > 1e-6)
    print(f"{models} models: {dict(outcomes)}, {cuts} of {4 * models} really cut")
    assert cuts >= 1.2 * models
    assert min(outcomes[jmdp.results.Outcome.CONVERGED], outcomes[jmdp.results.Outcome.BUDGET_EXHAUSTED]) >= models


def test_intervals_contain_exact_rationals():
    rng = np.random.default_rng(34)
    for i in range(30):
        coupling = COUPLINGS[i % len(COUPLINGS)]
        model, policy = random_problem(
            rng, states=3, scenarios=2, actions=2, discounts=(0.5, 0.9), common_prob=coupling.shared_between_states
        )
        S, _, A = model.shape
        truth = Truth(model, policy, coupling)
        for state in range(S):
            for budget in (room_for(1), None):
                method = jmdp.ReachablePairs(state, memory_budget=budget)
                here = jmdp.evaluate(model, policy, coupling, method, throw=False)
                for a in range(A):
                    mean = here.mean_interval(here.states[0], a)
                    assert exact(mean.low) <= truth.mean[truth.index[state, a]] <= exact(mean.high)
                    for b in range(A):
                        covariance = here.covariance_interval(here.states[0], a, b)
                        right = truth.covariance(state, a, state, b)
                        assert exact(covariance.low) <= right <= exact(covariance.high)


def missed_by(here, model, policy, coupling, state):
    """Intervals of `here` that exact rationals are not in."""
    checks = Checks()
    checks.moments(here, Truth(model, policy, coupling), [state])
    return checks.missed


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e-160, 1.0, 1e140])
def test_what_is_cut_off_is_bounded_at_any_scale_of_rewards(scale):
    """Only the origin is looked at, and nearly all that varies lies beyond."""
    reward = scale * np.array([[[0.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [-1.0, -1.0]], [[1.0, 1.0], [-1.0, -1.0]]])
    model = jmdp.TabularJMDP([[0.5, 0.5]] * 3, reward, [[[1, 2]] * 2, [[1, 1]] * 2, [[2, 2]] * 2], 0.5)
    policy = jmdp.TabularPolicy.uniform(model)
    method = jmdp.ReachablePairs(0, max_states=1)
    here = jmdp.evaluate(model, policy, jmdp.Local(), method, throw=False)
    assert missed_by(here, model, policy, jmdp.Local(), 0) == []
    std = here.gap(here.states[0], 0, 1).std_interval
    assert scale * np.sqrt(2 / 3) <= std.high <= max(5 * scale, 1e-160)  # squares of less are no floats


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("scale", [5e-324, 1e-320, 1e-308])
def test_means_of_subnormal_rewards_are_rounded_outwards(scale, discount):
    reward = scale * np.array([[[0.3, 0.7], [0.9, 0.1]]])
    model = jmdp.TabularJMDP([[0.5, 0.5]], reward, np.zeros((1, 2, 2), int), discount)
    policy = jmdp.TabularPolicy([[0.4, 0.6]])
    here = jmdp.evaluate(model, policy, jmdp.Local(), jmdp.ReachablePairs(0), throw=False)
    assert missed_by(here, model, policy, jmdp.Local(), 0) == []


def test_the_support_of_gaps_of_subnormal_rewards():
    """2B/(1 − γ) is 2.2 of the smallest floats."""
    bound, discount = 5e-324, 0.1
    model = jmdp.TabularJMDP([[1.0]], [[[bound, -bound]]], [[[0, 0]]], discount)
    here = jmdp.evaluate(
        model, jmdp.TabularPolicy.uniform(model), jmdp.Local(), method=jmdp.ReachablePairs(0), throw=False
    )
    most = 2 * exact(bound) / (1 - exact(discount))
    support = here.gap(here.states[0], 0, 1).support
    assert exact(support.low) <= -most < most <= exact(support.high)


def test_correlations_of_covariances_that_are_subnormal():
    """Covariances near 1e-317 keep few digits, and so do correlations computed from them."""
    model = jmdp.TabularJMDP(
        [[0.3, 0.5, 0.2]], 3e-159 * np.array([[[1.0, 0.2], [-0.4, 0.9], [0.3, -1.1]]]), np.zeros((1, 3, 2), int), 0.0
    )
    policy = jmdp.TabularPolicy.uniform(model)
    here = jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.ReachablePairs(0, tolerance=0.1))
    assert here.gap(here.states[0], 0, 1).correlation_interval.width < 0.01
    assert missed_by(here, model, policy, jmdp.Local(), 0) == []


@pytest.mark.parametrize("discount", [5e-324, 1e-300, 1e-160])
def test_discounts_whose_squares_underflow(discount):
    model = jmdp.TabularJMDP([[0.5, 0.5]] * 2, [[[1.0, 0.0], [0.0, 1.0]]] * 2, [[[1, 1]] * 2] * 2, discount)
    policy = jmdp.TabularPolicy.uniform(model)
    for max_states in (1, 2):
        here = jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.ReachablePairs(0, max_states=max_states))
        assert missed_by(here, model, policy, jmdp.Local(), 0) == []
        assert here.covariance_interval(here.states[0], 0, 0).width < 1e-12


def test_answers_scale_bit_for_bit_with_rewards():
    world = jmdp.worlds.windy_gridworld(6, 6)
    model, policy = world.model, world.policies["careless"]
    method = jmdp.ReachablePairs("3,2", max_states=12)
    plain = jmdp.evaluate(model, policy, jmdp.Local(), method=method, throw=False)
    for power in (-400, 400):
        reward = np.ldexp(model.reward, power)
        scaled = jmdp.TabularJMDP(
            model.prob, reward, model.next_state, model.discount, model.terminal, model.states.names
        )
        there = jmdp.evaluate(scaled, policy, jmdp.Local(), method=method, throw=False)
        np.testing.assert_array_equal(there.mean, np.ldexp(plain.mean, power))
        np.testing.assert_array_equal(there.covariance, np.ldexp(plain.covariance, 2 * power))
        one, other = there.certificate, plain.certificate
        np.testing.assert_array_equal(one.mean_error, np.ldexp(other.mean_error, power))
        np.testing.assert_array_equal(one.gap_variance_error, np.ldexp(other.gap_variance_error, 2 * power))
        np.testing.assert_array_equal(one.correlation_error, other.correlation_error)


def test_states_that_only_untaken_actions_lead_to_are_not_asked_for():
    """From 0 to 1 and round there; an action that is never taken in 1 leads on to 2."""
    asked = []

    def scenarios(state):
        asked.append(state)
        return {
            0: ([1.0], [[0.0, 0.0]], [[1, 1]]),
            1: ([1.0], [[0.0, 5.0]], [[1, 2]]),
            2: ([1.0], [[1.0, 1.0]], [[2, 2]]),
        }[state]

    for tolerance in (0.01, 0.0):
        model = jmdp.LazyJMDP(scenarios, 0.9, 5.0)
        result = jmdp.evaluate(
            model, lambda state: [1.0, 0.0], jmdp.Local(), method=jmdp.ReachablePairs(0, tolerance=tolerance)
        )
        assert result.certificate.kind == "exact"
        assert result.mean.tolist() == [[0.0, 0.0]]
    assert set(asked) == {0, 1}


def test_a_state_whose_mass_underflows_is_still_reached():
    """Nothing is earned but in a state that is reached with probability 2⁻¹⁰⁷⁴, at discount ¼."""
    rare = 5e-324
    model = jmdp.TabularJMDP(
        [[1.0, rare]] * 3,
        [[[0.0, 0.0]] * 2] * 2 + [[[1.0, 1.0]] * 2],
        [[[1, 1], [1, 2]], [[1, 1]] * 2, [[2, 2]] * 2],
        0.25,
    )
    policy = jmdp.TabularPolicy.uniform(model)
    here = jmdp.evaluate(model, policy, jmdp.Local(), jmdp.ReachablePairs(0, tolerance=0.0), throw=False)
    assert missed_by(here, model, policy, jmdp.Local(), 0) == []


@pytest.mark.parametrize("policy", ["goal_directed", "careless", "uniform"])
def test_the_lazy_grid_is_the_grid(policy):
    """Asked for cell by cell, at a tolerance that leaves most of it out, against the whole table."""
    rules = {"gust": 0.25, "goal_reward": 2.0, "step_reward": -0.1, "blown_reward": -0.5, "discount": 0.8}
    table, lazy = jmdp.worlds.windy_gridworld(14, 14, **rules), jmdp.worlds.lazy_windy_gridworld(14, 14, **rules)
    there = jmdp.evaluate(table.model, table.policies[policy], jmdp.Local())
    for cell in ((7, 6), (0, 0), (1, 12), (13, 13)):
        here = jmdp.evaluate(
            lazy.model, lazy.policies[policy], jmdp.Local(), method=jmdp.ReachablePairs(cell, tolerance=0.1)
        )
        assert here.outcome is jmdp.results.Outcome.CONVERGED
        assert here.states.names == (str(cell),)
        assert violations(here, there, table.model.states.index(f"{cell[0]},{cell[1]}")) == []


def test_a_state_in_a_world_of_a_million_cells():
    """1000 × 1000 cells, γ = 0.95, to 1% of every gap variance; a few thousand cells are asked for, each once."""
    world = jmdp.worlds.lazy_windy_gridworld(1000, 1000)
    asked = Counter()
    inner = world.model.scenarios

    def counted(cell):
        asked[cell] += 1
        return inner(cell)

    world.model.scenarios = counted
    for cell in ((500, 500), (2, 996)):
        result = jmdp.evaluate(
            world.model, world.policies["goal_directed"], jmdp.Local(), method=jmdp.ReachablePairs(cell)
        )
        for a in range(4):
            for b in range(4):
                gap = result.gap(0, a, b)
                assert a == b or 0 < gap.variance_interval.width <= 0.01 * gap.variance
    assert max(asked.values()) == 1
    assert 100 < len(asked) < 5000


def test_the_edge_of_a_line_by_hand():
    """Walk right for ever, reward ±1 at even chances: Var = 1/(1 − γ²), and both actions share the first coin."""

    def scenarios(n):
        return [0.5, 0.5], [[1.0, 1.0], [-1.0, -1.0]], [[n + 1, n + 2], [n + 1, n + 2]]

    model = jmdp.LazyJMDP(scenarios, 0.9, 1.0, ["one", "two"])
    result = jmdp.evaluate(model, lambda n: [1.0, 0.0], jmdp.Local(), method=jmdp.ReachablePairs(0, tolerance=1e-3))
    variance, shared = result.covariance_interval("0", "one", "one"), result.covariance_interval("0", "one", "two")
    assert variance.low <= 1 / (1 - 0.81) <= variance.high
    assert shared.low <= 1.0 <= shared.high
    gap = result.gap("0", "one", "two")
    assert gap.variance_interval.low <= 2 * 0.81 / (1 - 0.81) <= gap.variance_interval.high
    assert gap.variance_interval.width <= 1e-3 * gap.variance
    assert result.residuals[-1] <= 1e-3 < result.residuals[0]


def test_returns_that_do_not_vary():
    model = jmdp.LazyJMDP(lambda n: ([1.0], [[1.0, 2.0]], [[n + 1, n + 1]]), 0.5, 2.0)
    result = jmdp.evaluate(model, lambda n: [1.0, 0.0], jmdp.Local(), method=jmdp.ReachablePairs(0))
    mean = result.gap(0, 1, 0).mean_interval
    assert mean.low <= 1.0 <= mean.high
    assert mean.width < 0.01
    assert result.gap(0, 1, 0).variance_interval.high < 1e-3


def test_one_action_has_a_mean_and_a_variance():
    model = jmdp.LazyJMDP(lambda n: ([0.5, 0.5], [[1.0], [-1.0]], [[n + 1], [n + 1]]), 0.9, 1.0)
    result = jmdp.evaluate(model, lambda n: [1.0], jmdp.Local(), method=jmdp.ReachablePairs(0))
    variance = result.covariance_interval(0, 0, 0)
    assert variance.low <= 1 / (1 - 0.81) <= variance.high
    assert variance.width <= 0.01 * result.covariance[0, 0, 0]


@pytest.mark.parametrize("discount", [0.9, pytest.param(1 - 1e-9, marks=pytest.mark.long)])
def test_more_than_rounding_allows_ends_as_stalled(discount):
    def scenarios(n):
        return [0.5, 0.5], [[1.0, 1.0], [-1.0, -1.0]], [[n + 1, 0], [0, n + 1]]

    def no_rewards(n):
        return [0.5, 0.5], np.zeros((2, 2)), [[n + 1, 0], [0, n + 1]]

    for table in (scenarios, no_rewards):
        model = jmdp.LazyJMDP(table, discount, 1.0)
        method = jmdp.ReachablePairs(0, tolerance=1e-12, max_states=300)
        result = jmdp.evaluate(model, lambda n: [0.5, 0.5], jmdp.Local(), method=method, throw=False)
        assert result.outcome in (jmdp.results.Outcome.STALLED, jmdp.results.Outcome.BUDGET_EXHAUSTED)
        assert result.mean_interval(0, 0).low <= 0.0 <= result.mean_interval(0, 0).high


def test_the_trivial_interval_is_rounded_outwards(monkeypatch):
    discount, bound = 0.40581435425393925, 8.49485965186367
    model = jmdp.LazyJMDP(lambda n: ([1.0], [[bound]], [[n]]), discount, bound)
    monkeypatch.setattr("jmdp.methods.reachable_pairs.region.Explorer.explore", interrupt)
    result = jmdp.evaluate(model, lambda n: [1.0], jmdp.Local(), method=jmdp.ReachablePairs(0), throw=False)
    assert exact(result.mean_interval(0, 0).high) >= exact(bound) / (1 - exact(discount))


def interrupt(*arguments):
    raise KeyboardInterrupt


def test_correlations_near_one_are_turned_at_both_ends():
    """Vectors in the plane: an error of the engine and a part cut off, both the worst way."""
    error, cut = 1e-5, 1e-3
    found = Found(np.zeros(2), np.zeros(2), np.ones((2, 2)), error, np.full(2, cut))
    worst = np.cos(np.arccos(1 - error) + 2 * np.arcsin(cut))
    assert 1 - found.errors()[2][0, 1] <= worst


def test_a_terminal_state_is_exact():
    model = jmdp.LazyJMDP(lambda n: None, 0.9, 1.0, ["a", "b"])
    result = jmdp.evaluate(model, lambda n: [0.5, 0.5], jmdp.Local(), method=jmdp.ReachablePairs("end"))
    assert result.certificate.kind == "exact"
    assert result.gap("end", "a", "b").variance_interval.high == 0.0


def test_budgets_end_it_with_an_interval_that_holds(monkeypatch):
    world = jmdp.worlds.windy_gridworld(8, 8)
    policy = world.policies["careless"]
    truth = jmdp.evaluate(world.model, policy, jmdp.Local())
    state = world.model.states.index("4,3")
    for method in (
        jmdp.ReachablePairs("4,3", max_seconds=0.0),
        jmdp.ReachablePairs("4,3", max_states=7),
        jmdp.ReachablePairs("4,3", memory_budget=1),
    ):
        with pytest.raises(NotConvergedError, match=r"stopped after \d rounds: the budget is used up") as caught:
            jmdp.evaluate(world.model, policy, jmdp.Local(), method=method)
        assert violations(caught.value.evaluation, truth, state) == []
    run, calls = ExactPairs.on_table, []

    def interrupted(self, *problem):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return run(self, *problem)

    monkeypatch.setattr(ExactPairs, "on_table", interrupted)
    with pytest.raises(NotConvergedError, match="interrupted") as caught:
        jmdp.evaluate(world.model, policy, jmdp.Local(), method=jmdp.ReachablePairs("4,3"))
    assert violations(caught.value.evaluation, truth, state) == []
    assert caught.value.evaluation.residuals.size == 1


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([0.5, 0.5], r"the table of state 0 is \[0.5, 0.5\]\. Return \(prob, reward, next_state\), or None"),
        (([1.0], [1.0], [[0, 0]]), r"reward in the table of state 0 has shape \(1,\)"),
        (([0.5, 0.5], [[1.0, 1.0]], [[0, 0]]), "do not match"),
        (([1.0], [[1.0, 1.0]], [[0]]), "do not match"),
        (([1.0], [[1.0, 1.0]], [0]), "do not match"),
        (([1.0], [[1.0, 1.0]], None), "do not match"),
        (([1.0], np.zeros((1, 0)), [[]]), "do not match"),
        (([0.5], [[1.0, 1.0]], [[0, 0]]), "prob in the table of state 0 sums to 0.5, not 1"),
        (([1.5, -0.5], [[1.0, 1.0]] * 2, [[0, 0]] * 2), r"the probability -0\.5"),
        (([1.0], [[1.0, 3.0]], [[0, 0]]), r"a \|reward\| of 3\.0, more than reward_bound 1"),
        (([1.0], [[1.0, -1 - 2**-52]], [[0, 0]]), r"a \|reward\| of 1\.0000000000000002, more than reward_bound 1"),
        (([1.0], [[1.0, np.nan]], [[0, 0]]), "has the reward nan. Give finite rewards"),
        (([1.0], [[1.0]], [[0]]), "has 1 actions, but 2 are expected"),
        (([1.0], [[1.0, 1.0]], [[0, [1]]]), r"State \[1\] is not hashable"),
    ],
)
def test_bad_tables_are_refused_where_they_are(table, message):
    model = jmdp.LazyJMDP(lambda n: table, 0.9, 1.0, ["a", "b"])
    with pytest.raises(ModelError, match=message):
        jmdp.evaluate(model, lambda n: [0.5, 0.5], jmdp.Local(), method=jmdp.ReachablePairs(0))


def test_what_does_not_fit_is_refused():
    model = jmdp.LazyJMDP(lambda n: ([1.0], [[1.0, 1.0]], [[0, 1]]), 0.9, 1.0)
    with pytest.raises(ModelError, match=r"ExactPairs does not cover a LazyJMDP.*Use ReachablePairs\(state\)"):
        jmdp.evaluate(model, lambda n: [0.5, 0.5], jmdp.Local())
    with pytest.raises(PolicyError, match="give a function from a state"):
        jmdp.evaluate(model, [[0.5, 0.5]], jmdp.Local(), method=jmdp.ReachablePairs(0))
    with pytest.raises(PolicyError, match=r"Invalid policy in state 0: .* sums to 0\.9"):
        jmdp.evaluate(model, lambda n: [0.4, 0.5], jmdp.Local(), method=jmdp.ReachablePairs(0))
    with pytest.raises(PolicyError, match="The policy returned 3 probabilities in state 0; there are 2 actions"):
        jmdp.evaluate(model, lambda n: [0.2, 0.3, 0.5], jmdp.Local(), method=jmdp.ReachablePairs(0))
    with pytest.raises(ModelError, match="reward_bound is -1"):
        jmdp.LazyJMDP(lambda n: None, 0.9, -1.0)
    uneven = jmdp.LazyJMDP(lambda n: ([0.5, 0.5] if n else [0.4, 0.6], np.ones((2, 2)), [[0, 1], [1, 0]]), 0.9, 1.0)
    with pytest.raises(CouplingError, match=r"prob of state 0 and of state 1 differ by 0\.1"):
        jmdp.evaluate(uneven, lambda n: [0.5, 0.5], jmdp.Synchronous(), jmdp.ReachablePairs(0))
