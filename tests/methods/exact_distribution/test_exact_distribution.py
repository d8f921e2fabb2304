"""ExactDistribution: certified distributions of returns and gaps."""

from __future__ import annotations

import signal
from fractions import Fraction

import numpy as np
import pytest

import jmdp
from jmdp.base import machine as threads_room
from jmdp.errors import MemoryBudgetError, NotConvergedError, SettingsError, UnavailableError
from reference import enumeration
from reference.enumeration import Enumeration, distribution_violations
from sample_models import COUPLINGS

DISCOUNTS = (0.0, 0.5, 0.9, 0.99, 1 - 2**-10)


def ending_problem(rng):
    """A model that ends within three steps, with atoms that coincide now and then, and a policy."""
    S, K, A = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(2, 4))
    prob = np.broadcast_to(rng.dirichlet(np.ones(K)), (S, K))
    reward = rng.integers(-2, 3, size=(S, K, A)).astype(float) if rng.random() < 0.5 else rng.normal(size=(S, K, A))
    reward *= rng.choice([2.0**-20, 1.0, 255.0, 1e6])
    later = [rng.integers(s + 1, S, size=(K, A)) if s < S - 1 else np.full((K, A), s) for s in range(S)]
    terminal = np.arange(S) == S - 1
    model = jmdp.TabularJMDP(prob, reward, np.array(later), float(rng.choice(DISCOUNTS)), terminal)
    if rng.random() < 0.3:
        return model, jmdp.TabularPolicy.deterministic(model, rng.integers(0, A, S))
    return model, jmdp.TabularPolicy(rng.dirichlet(np.ones(A), size=S))


def hold_distributions_against_enumeration(models, seed):
    """P1 for distributions: every interval of cdf, quantile, CVaR and superiority contains the truth."""
    rng = np.random.default_rng(seed)
    widths = []
    for i in range(models):
        coupling = COUPLINGS[i % len(COUPLINGS)]
        model, policy = ending_problem(rng)
        method = jmdp.ExactDistribution(
            tolerance=float(rng.choice([0.3, 0.01])), max_cells=int(rng.choice([256, 4096]))
        )
        result = jmdp.evaluate(model, policy, coupling, method, throw=False)
        truth = Enumeration(model, policy, coupling)
        for s in range(model.shape[0]):
            for a in range(model.shape[2]):
                name = f"{s, a}, model {i}, {coupling}"
                assert (
                    distribution_violations(result.return_distribution(s, a), truth.return_distribution((s, a)), name)
                    == []
                )
                for b in range(model.shape[2]):
                    if b != a:
                        distribution = result.gap(s, a, b).distribution()
                        assert (
                            distribution_violations(
                                distribution, truth.gap_distribution((s, a), (s, b)), f"{s, a, b}, {name}"
                            )
                            == []
                        )
                        widths.append(distribution.superiority().interval.width)
    return widths


def test_p1_distributions_contain_the_truth():
    widths = hold_distributions_against_enumeration(20, seed=3)
    print(f"P1 for distributions: 20 models, {len(widths)} gaps, 0 violations, median width {np.median(widths):.1e}")
    assert np.median(widths) < 1e-9


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4, 14))
def test_p1_distributions_on_three_thousand_models(seed):
    hold_distributions_against_enumeration(300, seed)


def bernoulli(coupling):
    """One state, R a fair coin for both actions, γ = ½: Z is uniform on [0, 2], bit by bit."""
    model = jmdp.TabularJMDP([[0.5, 0.5]], [[[0.0, 1.0], [1.0, 0.0]]], np.zeros((1, 2, 2), int), 0.5)
    method = jmdp.ExactDistribution(tolerance=0.005)
    return jmdp.evaluate(model, jmdp.TabularPolicy([[0.5, 0.5]]), coupling, method)


def test_a_uniform_distribution():
    distribution = bernoulli(jmdp.Local()).return_distribution(0, 0)
    for x in np.linspace(0, 2, 21):
        assert distribution.cdf(x).low <= x / 2 <= distribution.cdf(x).high
        assert abs(distribution.cdf(x) - x / 2) < 0.005
    for p in (0.05, 0.3, 0.95):
        assert distribution.quantile(p).low <= 2 * p <= distribution.quantile(p).high
        assert distribution.cvar(p).low <= p <= distribution.cvar(p).high
        assert distribution.cvar(p) == pytest.approx(p, abs=0.005)


def test_a_triangular_distribution():
    """Independent luck: the gap of two uniform returns on [0, 2] is triangular on [−2, 2]."""
    distribution = bernoulli(jmdp.Independent()).gap(0, 0, 1).distribution()
    for x in np.linspace(-2, 2, 17):
        right = (2 + x) ** 2 / 8 if x <= 0 else 1 - (2 - x) ** 2 / 8
        assert distribution.cdf(x).low <= right <= distribution.cdf(x).high
        assert abs(distribution.cdf(x) - right) < 0.01
    assert distribution.superiority().interval.width <= 0.0051
    assert distribution.superiority() == pytest.approx(0.5, abs=0.005)
    assert distribution.ties().low == 0.0
    assert distribution.ties().high <= 0.0051


def test_what_has_become_one_is_exactly_zero():
    """The policy always takes the first action: branches part in the first step only, G = ±1."""
    world = jmdp.worlds.anti_correlated_bandit(discount=0.99)
    distribution = (
        jmdp.evaluate(world.model, world.policies["first"], jmdp.Local(), method=jmdp.ExactDistribution())
        .gap(0, 0, 1)
        .distribution()
    )
    assert distribution.superiority() == pytest.approx(0.5, abs=1e-12)
    assert distribution.ties().high < 1e-9
    assert distribution.quantile(0.3).low == pytest.approx(-1.0)
    assert distribution.quantile(0.7).high == pytest.approx(1.0)
    assert distribution.quantile(0.7).interval.width < 1e-8


def test_gaps_the_other_way_round_are_mirrored():
    world = jmdp.worlds.windy_gridworld(3, 3)
    result = jmdp.evaluate(world.model, world.policies["careless"], jmdp.Local(), method=jmdp.ExactDistribution())
    forth, back = result.gap("2,0", "R", "U").distribution(), result.gap("2,0", "U", "R").distribution()
    assert forth.superiority().low == pytest.approx(back.inferiority().low, abs=1e-12)
    assert forth.superiority().high == pytest.approx(back.inferiority().high, abs=1e-12)
    assert forth.ties() == back.ties()
    np.testing.assert_array_equal(np.sort(forth.low), np.sort(-back.high))
    assert result.gap("2,0", "R", "R").distribution().ties() == 1.0
    assert result.gap("0,2", "R", "U").distribution().ties() == 1.0  # the goal


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_means_and_variances_are_those_of_exact_pairs(coupling):
    world = jmdp.worlds.windy_gridworld(3, 3, discount=0.9)
    result = jmdp.evaluate(
        world.model, world.policies["uniform"], coupling, jmdp.ExactDistribution(tolerance=0.1), throw=False
    )
    for s, a, b in ((0, 0, 1), (3, 1, 2), (6, 0, 3)):
        gap = result.gap(s, a, b)
        distribution = gap.distribution()
        assert distribution.mean.low <= gap.mean <= distribution.mean.high
        assert distribution.mass @ distribution.value == pytest.approx(gap.mean, abs=1e-9)  # cells keep their means
        assert (
            distribution.mass @ np.maximum(distribution.low**2, distribution.high**2)
            >= gap.variance + gap.mean**2 - 1e-9
        )
        single = result.return_distribution(s, a)
        assert single.mass @ single.value == pytest.approx(result.mean[s, a], abs=1e-9)


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
@pytest.mark.parametrize("name", [pytest.param("windy_gridworld", marks=pytest.mark.long), "inventory"])
def test_consistent_with_simulation(name, coupling):
    """Bands of 4,000 rollouts at a false alarm of 1e-6 in all: 12 tests, some 60 distributions each.

    A band is ±0.05: a distribution function that is wrong by 0.1 at one of the points is always noticed.
    """
    world = {
        "windy_gridworld": lambda: jmdp.worlds.windy_gridworld(3, 3, discount=0.9),
        "inventory": lambda: jmdp.worlds.inventory(3, most_ordered=2, mean_demand=1.0, discount=0.8),
    }[name]()
    policy = world.policies["uniform"]
    exact = jmdp.evaluate(world.model, policy, coupling, jmdp.ExactDistribution(tolerance=0.05), throw=False)
    sampled = jmdp.MonteCarlo(seed=1, samples=4000, confidence=1 - 1e-6 / (12 * 60))
    sampled = jmdp.evaluate(world.model, policy, coupling, sampled)
    S, A = exact.mean.shape
    for s, a, b in np.ndindex(S, A, A):
        if a < b:
            one, other = exact.gap(s, a, b).distribution(), sampled.gap(s, a, b).distribution()
            for x in (-1.0, -0.3, -1e-9, 0.0, 1e-9, 0.3, 1.0):
                assert one.cdf(x).low <= other.cdf(x).high, (s, a, b, x)
                assert other.cdf(x).low <= one.cdf(x).high, (s, a, b, x)


def test_the_number_of_threads_does_not_change_a_bit(monkeypatch):
    world = jmdp.worlds.windy_gridworld(3, 3, discount=0.9)
    here = jmdp.evaluate(world.model, world.policies["uniform"], jmdp.Local(), method=jmdp.ExactDistribution())
    monkeypatch.setattr(threads_room, "cores", lambda: 3)
    there = jmdp.evaluate(world.model, world.policies["uniform"], jmdp.Local(), method=jmdp.ExactDistribution())
    one, other = here.distributions.cells, there.distributions.cells
    for mine, yours in zip((*one.atoms, *one.bounds, one.zero), (*other.atoms, *other.bounds, other.zero), strict=True):
        np.testing.assert_array_equal(mine, yours)


def test_it_stops_where_it_is_told_and_what_it_has_holds():
    world = jmdp.worlds.windy_gridworld(3, 3)
    policy = world.policies["uniform"]
    exact = jmdp.evaluate(world.model, policy, jmdp.Local(), method=jmdp.ExactDistribution(tolerance=0.001))
    for method, outcome in (
        (jmdp.ExactDistribution(max_sweeps=20), jmdp.results.Outcome.SWEEPS_EXHAUSTED),
        (jmdp.ExactDistribution(tolerance=1e-9, cells=64, max_cells=64), jmdp.results.Outcome.BUDGET_EXHAUSTED),
        (jmdp.ExactDistribution(tolerance=1e-9, memory_budget=4_000_000), jmdp.results.Outcome.BUDGET_EXHAUSTED),
    ):
        with pytest.raises(NotConvergedError) as stopped:
            jmdp.evaluate(world.model, policy, jmdp.Local(), method=method)
        result = stopped.value.evaluation
        assert result.outcome is outcome
        for s in range(9):
            one, other = (
                result.gap(s, 0, 1).distribution().superiority(),
                exact.gap(s, 0, 1).distribution().superiority(),
            )
            assert one.low <= other.high
            assert other.low <= one.high
    with pytest.raises(MemoryBudgetError, match=r"ExactDistribution on 9 states needs .*MonteCarlo"):
        jmdp.evaluate(world.model, policy, jmdp.Local(), method=jmdp.ExactDistribution(memory_budget=1000))
    rng = np.random.default_rng(0)
    many = jmdp.TabularJMDP(np.full((9, 300), 1 / 300), rng.random((9, 300, 4)), rng.integers(0, 9, (9, 300, 4)), 0.9)
    with pytest.raises(MemoryBudgetError, match=r"ExactDistribution on 5.8e\+07 outcomes of pairs of states needs"):
        jmdp.evaluate(
            many, jmdp.TabularPolicy.uniform(many), jmdp.Local(), method=jmdp.ExactDistribution(memory_budget=10**9)
        )
    for bad in ({"tolerance": -1}, {"cells": 10}, {"cells": 512, "max_cells": 256}):
        with pytest.raises(SettingsError):
            jmdp.ExactDistribution(**bad)


def test_an_interrupt_keeps_what_there_is(monkeypatch):
    from jmdp.methods.exact_distribution.sweep import DistributionSweep

    real, calls = DistributionSweep.__call__, []

    def sweep(self, cells):
        calls.append(cells)
        if len(calls) == 30:
            signal.raise_signal(signal.SIGINT)
        real(self, cells)

    monkeypatch.setattr(DistributionSweep, "__call__", sweep)
    world = jmdp.worlds.windy_gridworld(3, 3)
    result = jmdp.evaluate(
        world.model, world.policies["uniform"], jmdp.Local(), method=jmdp.ExactDistribution(), throw=False
    )
    assert result.outcome is jmdp.results.Outcome.INTERRUPTED
    assert result.gap(3, 0, 1).distribution().superiority().low >= 0
    assert len(calls) == 30


def test_an_interrupt_while_moments_are_computed_ends_it(monkeypatch):
    from jmdp.methods.exact_pairs.pair_sweep import PairSweep

    real = PairSweep.measured

    def measured(self, point, out, change=None):
        signal.raise_signal(signal.SIGINT)
        return real(self, point, out, change)

    monkeypatch.setattr(PairSweep, "measured", measured)
    world = jmdp.worlds.windy_gridworld(3, 3)
    with pytest.raises(KeyboardInterrupt):
        jmdp.evaluate(world.model, world.policies["uniform"], jmdp.Local(), method=jmdp.ExactDistribution())


def test_other_methods_have_no_distribution():
    world = jmdp.worlds.anti_correlated_bandit()
    result = jmdp.evaluate(world.model, world.policies["first"], jmdp.Local())
    for ask in (lambda: result.gap(0, 0, 1).distribution(), lambda: result.return_distribution(0, 0)):
        with pytest.raises(UnavailableError, match=r"ExactDistribution\(\) and MonteCarlo\(seed=…\)"):
            ask()


def test_sampled_bands_cover_at_their_confidence():
    """The band holds the whole distribution in at least 90% of 400 runs; below 85.5% has probability 0.002."""
    rng = np.random.default_rng(8)
    model, policy = ending_problem(rng)
    truth = Enumeration(model, policy, jmdp.Local()).gap_distribution((0, 0), (0, 1))
    points = sorted(float(x) for x in truth)
    right = [float(enumeration.cdf(truth, Fraction(x) + Fraction(1, 10**9))) for x in points]
    held = 0
    for seed in range(400):
        method = jmdp.MonteCarlo(seed=seed, samples=100, confidence=0.9)
        distribution = jmdp.evaluate(model, policy, jmdp.Local(), method=method).gap(0, 0, 1).distribution()
        held += all(
            distribution.cdf(x + 1e-9).low <= p <= distribution.cdf(x + 1e-9).high
            for x, p in zip(points, right, strict=True)
        )
    assert held >= 342
    assert distribution.slack == pytest.approx(np.sqrt(np.log(2 / 0.1) / 200))  # and no wider than that


def test_sampled_distributions_know_what_the_cut_can_hide():
    """Branches that have not met after one step may still part by γ B/(1 − γ) each; those that have met may not."""
    world = jmdp.worlds.anti_correlated_bandit(discount=0.5)
    apart = jmdp.evaluate(
        world.model, world.policies["uniform"], jmdp.Independent(), jmdp.MonteCarlo(seed=0, samples=50, horizon=1)
    )
    distribution = apart.gap(0, 0, 1).distribution()
    assert (distribution.high - distribution.low).min() >= 2.0
    met = jmdp.evaluate(
        world.model, world.policies["first"], jmdp.Local(), method=jmdp.MonteCarlo(seed=0, samples=50, horizon=1)
    )
    distribution = met.gap(0, 0, 1).distribution()
    assert (distribution.high - distribution.low).max() < 1e-12
    assert set(distribution.value) == {-1.0, 1.0}


def test_probabilities_too_small_to_keep_are_in_the_slack():
    """Ten scenarios of probability 5e-18 each are too little to keep."""
    rare = 5e-18
    prob = np.array([[1.0, *[rare] * 10], [1.0] + [0.0] * 10])
    reward = np.zeros((2, 11, 2))
    reward[0, 1:, 0] = np.arange(1, 11)
    model = jmdp.TabularJMDP(prob, reward, np.ones((2, 11, 2), int), 0.5, [False, True])
    policy = jmdp.TabularPolicy([[1.0, 0.0]] * 2)
    distribution = (
        jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.ExactDistribution()).gap(0, 0, 1).distribution()
    )
    assert (
        distribution_violations(
            distribution, Enumeration(model, policy, jmdp.Local()).gap_distribution((0, 0), (0, 1)), "rare"
        )
        == []
    )
    assert distribution.superiority().high >= 10 * rare


def nearly_a_tie():
    """4 − 5 γ for γ the float next to 0.8: below 0, but not in floats."""
    return jmdp.TabularJMDP(
        [[1.0]] * 3,
        [[[4.0, 0.0]], [[5.0, 5.0]], [[0.0, 0.0]]],
        [[[2, 1]], [[2, 2]], [[2, 2]]],
        0.8,
        [0 > 1, 0 > 1, 0 < 1],
    )


@pytest.mark.parametrize(
    "method", [jmdp.ExactDistribution(), jmdp.MonteCarlo(seed=1, samples=100)], ids=["exact", "sampled"]
)
def test_a_coincidence_in_floats_is_no_tie(method):
    model = nearly_a_tie()
    result = jmdp.evaluate(model, jmdp.TabularPolicy([[1.0, 0.0]] * 3), jmdp.Local(), method=method, throw=False)
    distribution = result.gap(0, 0, 1).distribution()
    assert distribution.ties().low == 0.0
    assert distribution.inferiority().high == 1.0
    if isinstance(method, jmdp.ExactDistribution):
        assert distribution.ties().high == 0.0
        assert result.outcome is jmdp.results.Outcome.STALLED  # rounding hides on which side of 0 it is


def test_rare_actions_under_shared_luck_are_in_the_slack():
    """An action of probability 4e-16 has no length between its break points; sixty sweeps of the range miss it too."""
    model = jmdp.TabularJMDP([[1.0]], [[[0.0, 1.0]]], [[[0, 0]]], 0.5)
    policy = jmdp.TabularPolicy([[1.0, 4e-16]])
    rare = Fraction(4e-16) / (1 + Fraction(4e-16))
    for coupling in (jmdp.Local("shared"), jmdp.Synchronous("shared"), jmdp.Independent("shared")):
        distribution = jmdp.evaluate(
            model, policy, coupling, jmdp.ExactDistribution(), throw=False
        ).return_distribution(0, 0)
        for n in (10, 30, 58):  # Z ≤ 0.9 × 2⁻ⁿ needs n steps without it
            assert Fraction(distribution.cdf(0.9 * 0.5**n).low) <= (1 - rare) ** n


@pytest.mark.parametrize(
    ("rewards", "discount"),
    [((1e-300, 2e-300, 1e100), 0.5), ((0.0, 1e-140, 1e-140), 1e-200), ((3e-322, 1e-322, 0.0), 0.3)],
)
def test_underflow_makes_no_ties(rewards, discount):
    """Two actions that differ by next to nothing, now or one step on, beside large rewards elsewhere."""
    small, other, large = rewards
    reward = [[[small, other]], [[large, 0.0]], [[0.0, 0.0]]]
    model = jmdp.TabularJMDP([[1.0]] * 3, reward, [[[1, 2]], [[2, 2]], [[2, 2]]], discount, [False, False, True])
    policy = jmdp.TabularPolicy([[1.0, 0.0]] * 3)
    result = jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.ExactDistribution(), throw=False)
    truth = Enumeration(model, policy, jmdp.Local())
    assert (
        distribution_violations(result.gap(0, 0, 1).distribution(), truth.gap_distribution((0, 0), (0, 1)), "gap") == []
    )
    for a in range(2):
        assert (
            distribution_violations(result.return_distribution(0, a), truth.return_distribution((0, a)), f"return {a}")
            == []
        )


def test_where_nothing_goes_on():
    model = jmdp.TabularJMDP([[1.0]] * 2, np.ones((2, 1, 2)), np.zeros((2, 1, 2), int), 0.5, [True, True])
    result = jmdp.evaluate(model, jmdp.TabularPolicy.uniform(model), jmdp.Local(), method=jmdp.ExactDistribution())
    assert result.gap(0, 0, 1).distribution().ties() == 1.0
    assert result.return_distribution(1, 0).quantile(0.5) == 0.0


@pytest.fixture
def cells_used(monkeypatch):
    """Numbers of cells of all sweeps, in their order."""
    from jmdp.methods.exact_distribution.sweep import DistributionSweep

    real, used = DistributionSweep.__call__, []

    def sweep(self, cells):
        used.append(cells)
        real(self, cells)

    monkeypatch.setattr(DistributionSweep, "__call__", sweep)
    return used


def test_all_cells_that_are_allowed_are_used(cells_used):
    """A number of cells that would grow beyond a limit is that limit."""
    model = jmdp.TabularJMDP([[0.5, 0.5]], [[[0.0, 1.0], [1.0, 0.0]]], np.zeros((1, 2, 2), int), 0.5)
    policy = jmdp.TabularPolicy([[0.5, 0.5]])
    for limit, most in (({"max_cells": 1000}, 1000), ({"memory_budget": 700_000}, 700_000 // (56 * (2 * 3 + 3)))):
        method = jmdp.ExactDistribution(tolerance=1e-9, cells=300, **limit)
        with pytest.raises(NotConvergedError, match="larger max_cells") as stopped:
            jmdp.evaluate(model, policy, jmdp.Independent(), method)
        assert stopped.value.evaluation.outcome is jmdp.results.Outcome.BUDGET_EXHAUSTED
        assert cells_used[-1] == max(cells_used) == most


def inventory_rules():
    world = jmdp.worlds.inventory(capacity=10)
    return world, {"old": world.policies["base_stock"], "new": world.policies["reorder"]}


@pytest.mark.parametrize(("tolerance", "width", "most"), [(0.05, 0.04, 2500), (0.01, 0.009, 12_000)])
def test_few_cells_are_enough_for_two_rules_of_an_inventory(cells_used, tolerance, width, most):
    """With intervals that join in cells over the whole range, 16,384 cells gave a width of 0.037."""
    world, rules = inventory_rules()
    method = jmdp.ExactDistribution(tolerance=tolerance)
    result = jmdp.evaluate(world.model, rules, jmdp.Synchronous(), method, starts=world.start)
    chance = result.gap("start", "new", "old").distribution().inferiority()
    assert chance.interval.width <= width
    assert chance.low <= 0.2021 <= 0.2025 <= chance.high
    assert max(cells_used) <= most


def test_the_tolerance_is_for_the_start_states():
    """Two chains that never meet: one gap is uniform, which takes many cells, and the other is known."""
    reward = np.array([[[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
    model = jmdp.TabularJMDP([[0.5, 0.5]] * 2, reward, [[[0, 0]] * 2, [[1, 1]] * 2], 0.5)
    rules = {"first": [0, 0], "second": [1, 1]}
    method = jmdp.ExactDistribution(tolerance=1e-6, cells=64, max_cells=64)
    known = jmdp.evaluate(model, rules, jmdp.Synchronous(), method, starts=[1], throw=False)
    assert known.residuals[-1] <= 1e-6
    assert known.gap("start", "second", "first").distribution().superiority().low > 1 - 1e-9
    both = jmdp.evaluate(model, rules, jmdp.Synchronous(), method, starts=[0, 1], throw=False)
    assert both.residuals[-1] > 0.001


def test_pairs_that_no_gap_can_reach_have_no_distribution():
    """From one state, the two rules reach a third of all pairs of states."""
    world, rules = inventory_rules()
    result = jmdp.evaluate(world.model, rules, jmdp.Synchronous(), jmdp.ExactDistribution(max_sweeps=1), throw=False)
    steps = result.distributions.steps
    assert steps.drawn.starts.size - 1 == 45  # of 144
    assert max(steps.drawn.source.max(), steps.given.source.max()) <= 44
