"""Chances of exact ties under ExactDistribution, and when it says that it has converged."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import jmdp
from jmdp.methods.exact_distribution import ties as exact_ties
from jmdp.methods.exact_distribution.sweep import _with_ties
from reference.enumeration import Enumeration, distribution_violations
from sample_models import COUPLINGS


def intervals(distribution):
    """Those of P(G > 0), P(G = 0) and P(G < 0)."""
    return [(x.low, x.high) for x in (distribution.superiority(), distribution.ties(), distribution.inferiority())]


def now_or_later(now, later, discount, *, forever=False):
    """Action 0 earns `now` and ends; action 1 earns `later` one step on, once or in every step."""
    reward = [[[now, 0.0]], [[later, later]], [[0.0, 0.0]]]
    after = 1 if forever else 2
    return jmdp.TabularJMDP([[1.0]] * 3, reward, [[[2, 1]], [[after, after]], [[2, 2]]], discount, [False, False, True])


def solved(model, coupling=None, policy=None, **settings):
    policy = policy or jmdp.TabularPolicy.uniform(model)
    return jmdp.evaluate(model, policy, coupling or jmdp.Local(), jmdp.ExactDistribution(**settings), throw=False)


def test_an_exact_dyadic_tie_is_settled():
    """1 now, or 2 in the next step at γ = ½."""
    result = solved(now_or_later(1.0, 2.0, 0.5))
    assert result.outcome is jmdp.results.Outcome.CONVERGED
    assert intervals(result.gap(0, 0, 1).distribution()) == [(0.0, 0.0), (1.0, 1.0), (0.0, 0.0)]


@pytest.mark.parametrize(
    ("now", "later", "discount", "forever"),
    [
        (0.9, 1.0, 0.9, False),
        (-3e148, -6e148, 0.5, False),
        (5e-324, 1e-323, 0.5, False),
        (2.0**-1000, 1.0, 2.0**-1000, False),
        (1.0, 1.0, 0.5, True),
        (3.0, 1.0, 0.75, True),
        (2.0**20 - 1.0, 1.0, 1 - 2.0**-20, True),
    ],
)
@pytest.mark.parametrize("coupling", [jmdp.Local(), jmdp.Independent("shared")], ids=repr)
def test_ties_that_cancel(now, later, discount, forever, coupling):
    """r now against r/γ in the next step, or against r(1 − γ)/γ in all later ones: equal in exact arithmetic."""
    result = solved(now_or_later(now, later, discount, forever=forever), coupling, max_sweeps=300)
    assert intervals(result.gap(0, 1, 0).distribution()) == [(0.0, 0.0), (1.0, 1.0), (0.0, 0.0)]


def test_a_tie_of_rewards_that_are_tiny_beside_others():
    """A part of the model earns 1e148, and the two that are compared 2⁻¹⁰⁷⁰ and less."""
    for tiny, now, discount in ((2.0**-1070, 2.0**-1071, 0.5), (2.0**-1060, 1.0, 0.0)):
        reward = [[[now, 0.0]], [[tiny, tiny]], [[1e148, 0.0]], [[0.0, 0.0]]]
        after = [[[3, 1]], [[3, 3]], [[3, 3]], [[3, 3]]]
        model = jmdp.TabularJMDP([[1.0]] * 4, reward, after, discount, [False] * 3 + [True])
        distribution = solved(model, max_sweeps=50).gap(0, 0, 1).distribution()
        assert distribution.ties().interval == jmdp.results.Interval(*[float(discount > 0)] * 2)


def test_chances_of_a_random_tie():
    """After the first step action 1 earns 2, 3 or 1, each against 1 now at γ = ½."""
    prob = [[0.5, 0.25, 0.25]] * 3
    reward = [[[1.0, 0.0]] * 3, [[2.0] * 2, [3.0] * 2, [1.0] * 2], [[0.0] * 2] * 3]
    model = jmdp.TabularJMDP(prob, reward, [[[2, 1]] * 3, [[2, 2]] * 3, [[2, 2]] * 3], 0.5, [False, False, True])
    result = solved(model, tolerance=1e-12)
    assert result.outcome is jmdp.results.Outcome.CONVERGED
    distribution = result.gap(0, 0, 1).distribution()
    for (low, high), right in zip(intervals(distribution), (0.25, 0.5, 0.25), strict=True):
        assert low <= right <= high
        assert high - low <= 1e-12
    assert distribution.cdf(0.0).interval.width <= 1e-12
    assert distribution.below(0.0).interval.width <= 1e-12


def test_an_absorbing_state_that_earns_nothing_is_as_good_as_an_end():
    """Two actions earn ±1 or 0 on one coin and go to states that earn nothing for ever."""
    reward = np.zeros((3, 2, 2))
    reward[0] = [[1.0, 1.0], [0.0, -1.0]]
    stay = np.broadcast_to(np.arange(3)[:, None, None], (3, 2, 2)).copy()
    stay[0] = [[1, 2], [1, 2]]
    result = solved(jmdp.TabularJMDP([[0.25, 0.75]] * 3, reward, stay, 0.9), jmdp.Local(), tolerance=1e-12)
    assert result.outcome is jmdp.results.Outcome.CONVERGED
    for (low, high), right in zip(intervals(result.gap(0, 0, 1).distribution()), (0.75, 0.25, 0.0), strict=True):
        assert low <= right <= high <= low + 1e-12


def test_returns_that_stay_random_never_tie():
    """Independent coins for ever: the distribution of the gap has no atom, and that is certain."""
    model = jmdp.TabularJMDP([[0.5, 0.5]], [[[0.0, 1.0], [1.0, 0.0]]], np.zeros((1, 2, 2), int), 0.5)
    distribution = solved(model, jmdp.Independent(), tolerance=0.02).gap(0, 0, 1).distribution()
    assert distribution.ties().interval == jmdp.results.Interval(0.0, 0.0)


@pytest.mark.parametrize("rare", [0.5, 1e-3, 1e-6])
def test_branches_that_meet_late(rare):
    """Each step is safe, ends the two branches in one state, or pays one of them: chances 1 − 2q, q and q."""
    prob = [[1 - 2 * rare, rare, rare]] * 4
    reward = np.zeros((4, 3, 2))
    reward[1, 2] = 1.0
    after = np.broadcast_to(np.array([3, 1, 2, 3])[:, None, None], (4, 3, 2)).copy()
    after[0] = [1, 2]
    after[1:3, 1:] = 3
    model = jmdp.TabularJMDP(prob, reward, after, 0.5, [False, False, False, True])
    ties = solved(model, jmdp.Synchronous(), max_sweeps=100).gap(0, 0, 1).distribution().ties()
    assert ties.low <= 0.5 <= ties.high
    assert ties.interval.width <= 1e-13 / rare


def test_what_rounding_loses_of_a_reward_is_no_tie():
    """(2⁵³ − ½) − γ 2⁵⁴ at γ = ½: 0 in floats, −½ in truth."""
    big = 2.0**53
    reward = [[[big, 0.5]], [[0.0, 0.0]], [[2 * big, 2 * big]], [[0.0, 0.0]]]
    model = jmdp.TabularJMDP([[1.0]] * 4, reward, [[[1, 2]], [[3, 3]], [[3, 3]], [[3, 3]]], 0.5, [0 > 1] * 3 + [0 < 1])
    distribution = solved(model).gap(0, 0, 1).distribution()
    assert distribution.ties().interval == jmdp.results.Interval(0.0, 0.0)
    assert distribution.inferiority().high == 1.0


def two_policies_apart(prob, reward, rows, coupling):
    """State 0 leads to 1 or 2, which stay as they are for ever; returns the distribution of the gap."""
    stay = np.broadcast_to(np.arange(3)[:, None, None], reward.shape).copy()
    stay[0] = [1, 2]
    return solved(jmdp.TabularJMDP(prob, reward, stay, 0.5), coupling, jmdp.TabularPolicy(rows), max_sweeps=50).gap(
        0, 0, 1
    )


def test_an_action_too_rare_for_floats_breaks_a_tie():
    """State 1 earns 1 with chance 4e-16 in every step, so a tie with state 2, which earns nothing, has chance 0."""
    reward = np.zeros((3, 1, 2))
    reward[1, 0, 1] = 1.0
    for coupling in (jmdp.Local("shared"), jmdp.Synchronous("shared"), jmdp.Independent("shared")):
        gap = two_policies_apart([[1.0]] * 3, reward, [[1.0, 0.0], [1.0, 4e-16], [1.0, 0.0]], coupling)
        assert gap.distribution().ties().low < 1.0


def test_a_chance_that_underflows_breaks_a_tie():
    """The same with a chance of 1e-400."""
    reward = np.zeros((3, 2, 2))
    reward[1, 1, 1] = 1.0
    for coupling in (jmdp.Local(), jmdp.Synchronous(), jmdp.Independent()):
        gap = two_policies_apart([[1.0, 1e-200]] * 3, reward, [[1.0, 0.0], [1.0, 1e-200], [1.0, 0.0]], coupling)
        assert gap.distribution().ties().interval == jmdp.results.Interval(0.0, 0.0)


def test_not_converged_where_nothing_is_as_narrow_as_asked():
    """0.729 now or 1 in the third step at γ = 0.9: equal in decimals, not in floats, and closer than rounding tells."""
    reward = np.zeros((5, 1, 2))
    reward[0, 0, 0], reward[3] = 0.729, 1.0
    after = [[[4, 1]], [[2, 2]], [[3, 3]], [[4, 4]], [[4, 4]]]
    result = solved(jmdp.TabularJMDP([[1.0]] * 5, reward, after, 0.9, [False] * 4 + [True]))
    distribution = result.gap(0, 0, 1).distribution()
    assert result.outcome is jmdp.results.Outcome.STALLED
    assert distribution.ties().interval == jmdp.results.Interval(0.0, 0.0)
    assert distribution.superiority().high == distribution.inferiority().high == 1.0


@pytest.mark.parametrize("tolerance", [0.0, 1e-310, 5e-324])
def test_a_tolerance_out_of_reach(tolerance):
    """It overflowed in the time left that the bar shows."""
    world = jmdp.worlds.windy_gridworld(2, 2)
    method = jmdp.ExactDistribution(tolerance=tolerance, max_cells=256)
    result = jmdp.evaluate(world.model, world.policies["uniform"], jmdp.Local(), method=method, throw=False)
    assert result.outcome in (jmdp.results.Outcome.STALLED, jmdp.results.Outcome.BUDGET_EXHAUSTED)
    assert all(0 <= low <= high <= 1 for low, high in intervals(result.gap(0, 0, 1).distribution()))
    settled = solved(now_or_later(1.0, 3.0, 0.5), tolerance=tolerance)
    assert settled.outcome is jmdp.results.Outcome.STALLED
    assert intervals(settled.gap(0, 0, 1).distribution())[1] == (0.0, 0.0)


def test_ties_are_taken_from_the_innermost_ends():
    """Masses ¼ in [−2, 1] and [−1, 4], ½ above: with 0.3 at 0, what is left is at −2 or above, and at 4 or below."""
    low, high = np.array([-2.0, -1.0, 5.0]), np.array([1.0, 4.0, 6.0])
    low, high, mass = _with_ties(low, high, np.array([0.25, 0.25, 0.5]), 0.3)
    assert dict(zip(low, mass, strict=True)) == pytest.approx({5.0: 0.5, -2.0: 0.2, 0.0: 0.3})
    assert dict(zip(high, mass, strict=True)) == pytest.approx({6.0: 0.5, 4.0: 0.2, 0.0: 0.3})
    low, high, mass = _with_ties(np.array([-2.0, -1.0]), np.array([1.0, 4.0]), np.array([0.25, 0.75]), 0.1)
    np.testing.assert_array_equal(np.c_[low, high], [[-2.0, 4.0], [-1.0, 4.0], [-1.0, 1.0], [0.0, 0.0]])
    np.testing.assert_allclose(mass, [0.25, 0.5, 0.15, 0.1])


def test_a_limited_number_of_outcomes_is_followed(monkeypatch):
    """What is not followed may tie or not."""
    model = now_or_later(1.0, 2.0, 0.5)
    monkeypatch.setattr(exact_ties, "_MOST_FOLLOWED", (1, 0))
    result = solved(model)
    assert result.outcome is not jmdp.results.Outcome.CONVERGED
    assert intervals(result.gap(0, 0, 1).distribution())[1] == (0.0, 1.0)


def tying_problem(rng):
    """A model that ends within three steps, whose rewards are few and of any scale, and a policy."""
    S, K, A = int(rng.integers(2, 5)), int(rng.integers(1, 3)), int(rng.integers(2, 4))
    discount = float(rng.choice([0.0, 5e-324, 0.25, 0.5, 0.5, 0.75, 0.9, 1 - 2.0**-53]))
    unit = 10.0 ** rng.uniform(-320, 150) * min(1.0, 1 - discount) / 100
    small = np.array([-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, discount, -discount])
    reward = rng.choice(small, size=(S, K, A)) * unit
    if rng.random() < 0.2:
        reward *= 2.0 ** rng.integers(-60, 1, size=(S, K, A))
    if rng.random() < 0.1:
        reward *= rng.choice([1.0, 2.0**-900], size=(S, K, A))
    later = [rng.integers(s + 1, S, size=(K, A)) if s < S - 1 else np.full((K, A), s) for s in range(S)]
    prob = np.broadcast_to(rng.dirichlet(np.ones(K)), (S, K))
    model = jmdp.TabularJMDP(prob, reward, np.array(later), discount, np.arange(S) == S - 1)
    return model, jmdp.TabularPolicy(rng.dirichlet(np.ones(A), size=S))


def hold_ties_against_enumeration(models, seed):
    """No interval misses the truth, ties are settled, and CONVERGED means what it says; returns how many gaps tie."""
    rng = np.random.default_rng(seed)
    tying = 0
    for i in range(models):
        coupling, tolerance = COUPLINGS[i % len(COUPLINGS)], float(rng.choice([0.0, 1e-310, 1e-3, 1e-12]))
        model, policy = tying_problem(rng)
        result = solved(model, coupling, policy, tolerance=tolerance, cells=64, max_cells=256, max_sweeps=200)
        truth = Enumeration(model, policy, coupling)
        for s, a, b in np.ndindex(model.shape[0], model.shape[2], model.shape[2]):
            if a == b or model.terminal[s]:
                continue
            distribution, right = result.gap(s, a, b).distribution(), truth.gap_distribution((s, a), (s, b))
            assert distribution_violations(distribution, right, f"{s, a, b}, model {i}, {coupling}") == []
            assert distribution.ties().interval.width <= 1e-12
            tying += Fraction(0) in right
            if result.outcome is jmdp.results.Outcome.CONVERGED:
                assert all(high - low <= tolerance for low, high in intervals(distribution))
    return tying


def test_ties_at_any_scale_and_tolerance():
    assert hold_ties_against_enumeration(40, seed=5) > 50


@pytest.mark.long
def test_ties_of_a_thousand_models():
    assert hold_ties_against_enumeration(1000, seed=6) > 1000
