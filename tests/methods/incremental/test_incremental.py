"""Incremental: where it converges to, how fast, and whether its intervals cover."""

from __future__ import annotations

import functools
import math
import signal
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import t as student

import jmdp
from jmdp.errors import NotConvergedError, SettingsError, UnavailableError
from jmdp.methods.incremental import (
    BlockSampling,
    ConstantSteps,
    CoordinateSampling,
    PolynomialSteps,
    TrajectorySampling,
    UniformSampling,
)
from jmdp.methods.incremental.coordinate_sampling import MomentCells, TablePairs
from jmdp.methods.incremental.stochastic_approximation import StochasticApproximation, half_widths, segments, step_table
from sample_models import COUPLINGS, random_problem


def worlds():
    """Ten problems of known answers, in every coupling: (model, policy, coupling) by name."""
    grid, flat = jmdp.worlds.windy_gridworld(3, 3), jmdp.worlds.windy_gridworld(2, 4, blown_reward=-1.0, discount=0.9)
    shop = jmdp.worlds.inventory(3, most_ordered=2, mean_demand=1.0, discount=0.8)
    large = jmdp.worlds.inventory(4, most_ordered=2, mean_demand=1.5, discount=0.9)
    chain, bandit = jmdp.worlds.coupled_reward_chain(5), jmdp.worlds.anti_correlated_bandit()
    model, policy = random_problem(np.random.default_rng(12), states=4, scenarios=4, actions=3, discounts=(0.9,))
    return {
        "grid": (grid.model, grid.policies["careless"], jmdp.Local()),
        "grid, one wind": (grid.model, grid.policies["uniform"], jmdp.Synchronous()),
        "flat grid": (flat.model, flat.policies["goal_directed"], jmdp.Local()),
        "shop": (shop.model, shop.policies["uniform"], jmdp.Local()),
        "large shop": (large.model, large.policies["base_stock"], jmdp.Synchronous()),
        "shop, one coin": (shop.model, shop.policies["uniform"], jmdp.Local("shared")),
        "chain": (chain.model, chain.policies["uniform"], jmdp.Local()),
        "chain apart": (chain.model, chain.policies["uniform"], jmdp.Independent()),
        "bandit": (bandit.model, bandit.policies["uniform"], jmdp.Local()),
        "random": (model, policy, jmdp.Local()),
    }


TEN = worlds()


@functools.cache
def truth(name):
    return jmdp.evaluate(*TEN[name])


def size(name):
    """How many coordinates there are to learn."""
    return int(MomentCells(TEN[name][0], TEN[name][2]).block_sizes.sum())


def learned(name, **settings):
    return jmdp.evaluate(*TEN[name], jmdp.Incremental(**settings))


def deviations(name, result):
    """Of all means, in units of the largest standard deviation, and covariances, in units of the largest variance."""
    exact = truth(name)
    variance = exact.covariance.max()
    upper = np.triu_indices(exact.mean.shape[1])
    means = (result.mean - exact.mean) / math.sqrt(variance)
    covariances = (result.covariance - exact.covariance)[:, *upper] / variance
    return np.concatenate([means.ravel(), covariances.ravel()])


FALSE_ALARM = 1e-6
LOOKS = (16, 32)


def rejected_after(name, all_looks=LOOKS):
    """Look after 16, 32, … independent runs whether their mean is off the truth; None if it never is.

    Student's t of each entry, with an equal share of 1e-6 for each of ten problems, look and entry. After 32 runs a
    bias of about 1.5 standard deviations of a run is noticed as often as not, after 64 runs one of about 0.9.
    """
    runs = []
    for looks in all_looks:
        runs += [
            deviations(name, learned(name, seed=seed, updates=2000 * size(name))) for seed in range(len(runs), looks)
        ]
        values = np.array(runs)
        spread = values.std(axis=0, ddof=1)
        varies = spread > 1e-12
        threshold = student.isf(FALSE_ALARM / (2 * len(TEN) * len(all_looks) * varies.sum()), looks - 1)
        score = np.abs(values.mean(axis=0))[varies] / (spread[varies] / math.sqrt(looks))
        assert np.abs(values[:, ~varies]).max(initial=0.0) <= 1e-9
        if score.max() > threshold:
            return looks
    return None


@pytest.mark.parametrize("name", ["shop", "large shop", "shop, one coin", "chain apart", "random"])
def test_p8_it_converges_to_the_right_point(name):
    """Sequential, on five of ten problems, with all couplings; all ten raise a false alarm with probability 1e-6."""
    assert rejected_after(name) is None


@pytest.mark.long
@pytest.mark.parametrize("name", TEN)
def test_p8_it_converges_to_the_right_point_in_64_runs(name):
    assert rejected_after(name, (*LOOKS, 64)) is None


def slope(name, factors, runs):
    """Slope of log error on log updates, which are so many for each coordinate, and many in all."""
    updates = [factor * max(size(name), 60) for factor in factors]
    errors = [
        np.sqrt(np.mean([deviations(name, learned(name, seed=seed, updates=n)) ** 2 for seed in range(runs)]))
        for n in updates
    ]
    return np.polyfit(np.log(updates), np.log(errors), 1)[0]


def test_errors_fall_like_one_over_the_root_of_updates():
    assert abs(slope("chain", (1000, 4000, 16_000), 24) + 0.5) <= 0.1


@pytest.mark.long
@pytest.mark.parametrize("name", TEN)
def test_errors_fall_at_that_rate_on_ten_problems(name):
    """Errors of one run have few degrees of freedom: 64 runs know the slope to about 0.03."""
    few = size(name) < 200
    found = slope(name, (500, 1500, 5000, 15_000, 50_000) if few else (1000, 5000, 25_000), 64 if few else 16)
    print(f"{name}: slope {found:.3f}")
    assert abs(found + 0.5) <= 0.1


def coverage(name, runs, **settings):
    """How often intervals of means, covariances, gap means, gap variances and correlations contain the truth."""
    model, exact = TEN[name][0], truth(name)
    going, (_, _, A) = ~model.terminal, model.shape
    upper = np.triu_indices(A, 1)
    inside = np.zeros((5, runs))
    variance = np.einsum("saa->sa", exact.covariance)
    gaps = variance[:, :, None] + variance[:, None, :] - 2 * exact.covariance
    for seed in range(runs):
        result = learned(name, seed=seed, **settings)
        c = result.certificate
        own = np.einsum("saa->sa", result.covariance)
        off = [
            (result.mean - exact.mean, c.mean_error),
            (result.covariance - exact.covariance, c.covariance_error),
            ((d := result.mean - exact.mean)[:, :, None] - d[:, None, :], c.gap_mean_error),
            (own[:, :, None] + own[:, None, :] - 2 * result.covariance - gaps, c.gap_variance_error),
            (result.correlation - exact.correlation, c.correlation_error),
        ]
        for kind, (difference, error) in enumerate(off):
            good = (np.abs(difference) <= error)[going]
            inside[kind, seed] = good.mean() if kind < 2 else good[:, *upper].mean()
    return inside.mean(axis=1)


COVERED = [
    ("chain", {"runs": 400, "updates": 150_000, "steps": ConstantSteps(0.1)}),
    pytest.param("chain", {"updates": 150_000, "steps": ConstantSteps(0.1)}, marks=pytest.mark.long),
    pytest.param("shop", {"updates": 300_000}, marks=pytest.mark.long),
    pytest.param("flat grid", {"updates": 400_000}, marks=pytest.mark.long),
    pytest.param("shop", {"updates": 400_000, "sampling": TrajectorySampling()}, marks=pytest.mark.long),
    pytest.param("grid", {"updates": 2_000_000}, marks=pytest.mark.long),
]


@pytest.mark.parametrize(("name", "settings"), COVERED)
def test_intervals_cover_at_their_confidence(name, settings):
    """1,000 runs, 400 on every change: 95 ± 2% of intervals of each kind, averaged over entries, hold the truth."""
    found = coverage(name, **{"runs": 1000, **settings})
    print(f"{name}: coverage {np.round(100 * found, 2)}")
    assert (np.abs(found - 0.95) <= 0.02).all()


SAMPLINGS = [UniformSampling(), BlockSampling(mean=2.0), TrajectorySampling()]


WAYS = [
    pytest.param(
        COUPLINGS[i], centred, SAMPLINGS[j], id=f"{COUPLINGS[i]}-{centred}-{SAMPLINGS[j]}",
        marks=pytest.mark.long if (i + j + centred) % 2 else (),
    )
    for i, centred, j in product(range(len(COUPLINGS)), (True, False), range(len(SAMPLINGS)))
]  # fmt: skip
"""Half of them on every change, with every pair of a coupling, a way of sampling and whether it is centred."""


@pytest.mark.parametrize(("coupling", "centred", "sampling"), WAYS)
def test_every_way_of_sampling_agrees_with_exact(coupling, centred, sampling):
    """Within 6 half widths of 95%, 12 standard errors of a normal distribution; widths are known to a fifth."""
    model, policy, _ = TEN["flat grid"]
    exact = jmdp.evaluate(model, policy, coupling)
    settings = jmdp.Incremental(seed=8, updates=3_000_000, sampling=sampling, centred=centred)
    result = jmdp.evaluate(model, policy, coupling, settings)
    c, largest = result.certificate, exact.covariance.max()
    assert (np.abs(result.mean - exact.mean) <= 6 * c.mean_error + 1e-12).all()
    assert (np.abs(result.covariance - exact.covariance) <= 6 * c.covariance_error + 1e-12).all()
    assert np.median(c.covariance_error) < 0.2 * largest
    for s, a, t, b in ((0, 1, 5, 2), (4, 0, 6, 3), (1, 1, 2, 1)):
        try:
            found = result.cross_covariance(s, a, t, b)
        except UnavailableError:
            assert isinstance(sampling, TrajectorySampling)
            continue
        if not isinstance(sampling, TrajectorySampling):
            assert found == pytest.approx(exact.cross_covariance(s, a, t, b), abs=0.15 * largest)


def test_a_centred_table_is_less_noisy():
    """Where means are large beside standard deviations, by far."""
    model = TEN["flat grid"][0]
    shifted = jmdp.TabularJMDP(model.prob, model.reward - 5.0, model.next_state, model.discount, model.terminal)
    policy = TEN["flat grid"][1]
    exact = jmdp.evaluate(shifted, policy, jmdp.Local())
    off = {
        centred: np.abs(
            jmdp.evaluate(
                shifted, policy, jmdp.Local(), method=jmdp.Incremental(seed=1, updates=2_000_000, centred=centred)
            ).covariance
            - exact.covariance
        ).max()
        for centred in (True, False)
    }
    assert off[True] < off[False] / 3


def test_it_stops_when_intervals_are_narrow_enough():
    result = learned("shop", seed=3, updates=100_000_000, tolerance=0.05)
    assert result.outcome is jmdp.results.Outcome.CONVERGED
    c, variance = result.certificate, result.covariance.max()
    assert np.max(c.covariance_error) <= 0.05 * variance
    assert np.max(c.mean_error) <= 0.05 * math.sqrt(variance)
    assert result.learning.updates[-1] < 50_000_000
    with pytest.raises(NotConvergedError, match="budget"):
        learned("shop", seed=3, updates=100_000, tolerance=0.001)


@pytest.mark.parametrize("steps", [PolynomialSteps(), ConstantSteps(0.002), ConstantSteps(0.01)])
def test_a_run_too_short_says_so(steps):
    """A run that has hardly left its start, or has few samples, is within 4 half widths of the truth all the same."""
    for name in ("grid", "shop", "chain"):
        for factor in (1, 4, 16, 64, 256):
            result = learned(name, seed=0, updates=max(64, factor * size(name)), steps=steps)
            exact, c = truth(name), result.certificate
            assert (np.abs(result.mean - exact.mean) <= 4 * c.mean_error + 1e-12).all()
            assert (np.abs(result.covariance - exact.covariance) <= 4 * c.covariance_error + 1e-12).all()


def test_the_same_seed_gives_the_same_numbers():
    one, again, other = (learned("chain", seed=seed, updates=50_000) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.covariance, again.covariance)
    assert (one.mean != other.mean).any()


def test_scaling_rewards_by_a_power_of_two_scales_every_bit():
    model, policy, coupling = TEN["shop"]
    scaled = jmdp.TabularJMDP(model.prob, 1024 * model.reward, model.next_state, model.discount)
    method = jmdp.Incremental(seed=4, updates=60_000)
    one, other = (jmdp.evaluate(m, policy, coupling, method) for m in (model, scaled))
    np.testing.assert_array_equal(1024 * one.mean, other.mean)
    np.testing.assert_array_equal(1024**2 * one.covariance, other.covariance)
    np.testing.assert_array_equal(1024 * one.learning.rms[:, 0], other.learning.rms[:, 0])


def test_td_errors_are_reported_for_each_block():
    curve = learned("grid", seed=1, updates=2_000_000).learning
    assert curve.blocks == ("mean", "diagonal", "same state", "cross")
    assert curve.updates[-1] == 2_000_000
    assert (np.diff(curve.updates) > 0).all()
    last = slice(-100, None)
    assert (np.abs(curve.drift[last].mean(axis=0)) < 0.1 * curve.rms[last].mean(axis=0)).all()
    assert (np.abs(curve.drift[:3]).mean(axis=0)[:2] > 5 * np.abs(curve.drift[last].mean(axis=0))[:2]).all()


def test_last_iterates_carry_no_interval():
    result = learned("chain", seed=2, updates=400_000, averaging=False)
    assert result.certificate is None
    assert np.abs(deviations("chain", result)).max() < 0.5
    average = learned("chain", seed=2, updates=400_000)
    assert np.abs(deviations("chain", average)).mean() < np.abs(deviations("chain", result)).mean()


def halving(counts):
    return 0.5 / (1 + counts / 50) ** 0.55


class OnlyMeans(CoordinateSampling):
    """A user's own rule: one coordinate after the other, means and squares in turn."""

    def draw(self, rng, size, cells, source, memory):
        at = cells.mean.ravel()
        return at[rng.integers(at.size, size=size)], np.where(rng.random(size) < 0.5, -1, -2)


def test_rules_of_ones_own():
    result = learned("chain", seed=5, updates=300_000, steps=halving, sampling=OnlyMeans())
    exact = truth("chain")
    assert (np.abs(result.mean - exact.mean) <= 3 * result.certificate.mean_error + 1e-12).all()
    own = np.abs(np.einsum("saa->sa", result.covariance - exact.covariance))
    errors = np.einsum("saa->sa", result.certificate.covariance_error)
    assert (own <= 3 * errors + 1e-12).all()
    assert np.isinf(result.certificate.covariance_error[0, 0, 1])  # never updated


class Wrong(CoordinateSampling):
    """Rules that give coordinates which are none."""

    def __init__(self, one, other, kind=np.int64):
        self.one, self.other, self.kind = one, other, kind

    def draw(self, rng, size, cells, source, memory):
        return np.full(size, self.one, self.kind), np.full(size, self.other, self.kind)


@pytest.mark.parametrize(("one", "other"), [(-1, -1), (10, -1), (0, 10), (3, 2), (3, 3), (0, -3), (8, -1), (0, 8)])
def test_coordinates_that_are_none_never_reach_a_kernel(one, other):
    """The chain has 5 states, the last of them terminal, and 2 actions."""
    with pytest.raises(SettingsError, match="Wrong returned invalid coordinates"):
        learned("chain", seed=1, updates=1000, sampling=Wrong(one, other))
    with pytest.raises(SettingsError, match="int64"):
        learned("chain", seed=1, updates=1000, sampling=Wrong(0, -1, np.float64))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"updates": 3}, "updates"),
        ({"steps": 0.1}, "steps is 0.1"),
        ({"steps": lambda counts: counts * 0}, r"steps returned 0\.0 after 0 updates"),
        ({"steps": lambda counts: counts[:5] + 1}, "shape"),
        ({"sampling": "uniform"}, "sampling is a str"),
        ({"averaging": False, "tolerance": 0.1}, "averaging"),
        ({"checkpoint_seconds": -1.0}, "checkpoint_seconds"),
        ({"centred": "no"}, "centred is 'no'"),
        ({"averaging": 1}, "averaging is 1"),
        ({"steps": PolynomialSteps}, r"Give PolynomialSteps\(\)"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(SettingsError, match=message):
        learned("chain", **{"seed": 0, "updates": 1000, **settings})


@pytest.mark.parametrize(
    "make",
    [
        lambda: ConstantSteps(0.0),
        lambda: ConstantSteps(1.5),
        lambda: PolynomialSteps(0.5),
        lambda: PolynomialSteps(delay=0.0),
        lambda: BlockSampling(0.0, 0.0, 0.0, 0.0),
        lambda: BlockSampling(-1.0),
        lambda: TrajectorySampling(1.0),
    ],
)
def test_rules_are_checked(make):
    with pytest.raises(SettingsError):
        make()


def test_it_says_what_memory_it_needs():
    world = jmdp.worlds.windy_gridworld(20, 20)
    with pytest.raises(jmdp.errors.MemoryBudgetError, match="LinearProjected"):
        jmdp.evaluate(
            world.model,
            world.policies["uniform"],
            jmdp.Local(),
            method=jmdp.Incremental(seed=0, memory_budget=10_000_000),
        )


@pytest.mark.parametrize("updates", [32, 1000, 4097, 3_000_000])
@pytest.mark.parametrize("looks", [True, False])
def test_segments_make_up_the_run(updates, looks):
    whole = list(segments(updates, looks))
    assert sum(segment.length for segment in whole) == updates
    assert [segment.number for segment in whole] == list(range(len(whole)))
    assert sum(segment.begins_stage for segment in whole) == sum(segment.ends_stage for segment in whole)
    assert whole[-1].ends_stage


def series(rng, length, memory, count):
    """[32 batches, count], averages of AR(1) series."""
    phi = math.exp(-1 / memory)
    noise = rng.standard_normal((32 * length, count)) * math.sqrt(1 - phi * phi)
    noise[0] = rng.standard_normal(count)
    for i in range(1, noise.shape[0]):
        noise[i] += phi * noise[i - 1]
    return noise.reshape(32, length, count).mean(axis=1)


def test_half_widths_cover_averages_of_correlated_batches():
    """Averages of AR(1) series in 32 batches, of one to forty times their memory, which is not told."""
    rng = np.random.default_rng(0)
    for length, memory in ((200, 5.0), (200, 50.0), (200, 200.0)):
        parts = np.split(series(rng, length, memory, 2000), 50, axis=1)
        unknown = np.full(40, np.inf)
        inside = np.mean([np.abs(part.mean(axis=0)) <= half_widths(part, unknown, 0.95) for part in parts])
        assert abs(inside - 0.95) <= 0.025, (memory, inside)


def test_a_slow_quantity_among_fast_ones_is_covered():
    """One in forty that remembers for a batch and for ten, beside others that forget at once; 400 of each."""
    rng = np.random.default_rng(1)
    for memory in (200.0, 2000.0):
        slow, fast = series(rng, 200, memory, 400), rng.standard_normal((32, 39)) / 100
        inside = []
        for one in slow.T:
            batches = np.concatenate([one[:, None], fast], axis=1)
            times = np.array([32 * 200 / memory] + [1e6] * 39)
            inside.append(abs(one.mean()) <= half_widths(batches, times, 0.95)[0])
        assert np.mean(inside) >= 0.92, (memory, np.mean(inside))


def coin(discount):
    """One state, one action, ±1: mean 0 and variance 1/(1 − γ²)."""
    return jmdp.TabularJMDP([[0.5, 0.5]], [[[-1.0], [1.0]]], [[[0], [0]]], discount)


@pytest.mark.parametrize(("discount", "updates"), [(0.9, 20_000), (0.99, 10_000), (0.99, 100_000), (0.999, 100_000)])
def test_intervals_cover_where_the_start_is_hardly_forgotten(discount, updates):
    """Of 100 runs at least 88 cover, where 95 are expected; fewer come once in a thousand."""
    model = coin(discount)
    policy = jmdp.TabularPolicy.uniform(model)
    covered = np.zeros(2)
    for seed in range(100):
        result = jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.Incremental(seed=seed, updates=updates))
        c = result.certificate
        off = abs(result.mean[0, 0]), abs(result.covariance[0, 0, 0] - 1 / (1 - discount**2))
        covered += [off[0] <= c.mean_error[0, 0], off[1] <= c.covariance_error[0, 0, 0]]
    assert (covered >= 88).all()


def alike(S=30):
    """Two actions that always earn the same, ±1 by one coin for all states: correlation 1."""
    rng = np.random.default_rng(3)
    reward = np.broadcast_to(np.array([-1.0, 1.0])[:, None], (S, 2, 2))
    model = jmdp.TabularJMDP(np.full((S, 2), 0.5), reward, rng.integers(S, size=(S, 2, 2)), 0.9)
    return model, jmdp.TabularPolicy.uniform(model), jmdp.Synchronous()


@pytest.mark.parametrize("settings", [{"updates": 200_000}, {"updates": 2_000_000}])
def test_intervals_of_correlations_know_of_the_start_and_reach_one(settings):
    """Every gap is 0: of 30 intervals of correlations and of variances at most 4 miss."""
    problem = alike()
    result = jmdp.evaluate(*problem, jmdp.Incremental(seed=0, **settings))
    gaps = [result.gap(s, 0, 1) for s in range(30)]
    assert sum(1.0 not in gap.correlation_interval for gap in gaps) <= 4
    assert sum(0.0 not in gap.variance_interval for gap in gaps) <= 4


def test_covariances_between_states_carry_no_interval():
    result = learned("shop", seed=1, updates=400_000)
    across, within = result.moment((0, 0), (1, 0)), result.moment((0, 0), (0, 1))
    assert (across.low, across.high) == (-math.inf, math.inf)
    assert within.low < truth("shop").moment((0, 0), (0, 1)) < within.high
    with pytest.raises(UnavailableError, match=r"\(0, order 0\) and \(1, order 1\).*too few updates"):
        learned("shop", seed=1, updates=400_000, sampling=BlockSampling(cross=0.0)).moment((0, 0), (1, 1))


def test_returns_that_do_not_vary():
    """Rounding is in the intervals, and a tolerance can be met."""
    model = jmdp.TabularJMDP([[1.0]], [[[0.3]]], [[[0]]], 0.99)
    method = jmdp.Incremental(seed=0, updates=3_000_000, tolerance=0.1, steps=ConstantSteps(0.5))
    result = jmdp.evaluate(model, jmdp.TabularPolicy.uniform(model), jmdp.Local(), method=method)
    assert result.outcome is jmdp.results.Outcome.CONVERGED
    assert abs(result.mean[0, 0] - 30) <= result.certificate.mean_error[0, 0] < 1e-9


def test_what_is_not_updated_does_not_spoil_what_is():
    """Means alone are learned; nothing is known of products, and no warning is raised."""
    result = learned("grid", seed=0, updates=2_000_000, sampling=BlockSampling(1.0, 0.0, 0.0, 0.0))
    assert np.isfinite(result.certificate.mean_error).all()
    assert np.isinf(result.certificate.covariance_error[0]).all()
    ended = jmdp.TabularJMDP([[1.0], [1.0]], [[[1.0, 2.0]]] * 2, [[[1, 1]]] * 2, 0.0, [False, True])
    method = jmdp.Incremental(seed=0, updates=10_000, steps=ConstantSteps(1.0), sampling=BlockSampling(same_state=0.0))
    result = jmdp.evaluate(ended, jmdp.TabularPolicy.uniform(ended), jmdp.Local(), method=method)
    assert not np.isnan(result.certificate.mean_error).any()
    with pytest.raises(SettingsError, match="blocks that are empty"):
        jmdp.evaluate(
            coin(0.5),
            jmdp.TabularPolicy.uniform(coin(0.5)),
            jmdp.Local(),
            method=jmdp.Incremental(seed=0, sampling=BlockSampling(0.0, 0.0)),
        )


def test_an_interrupt_waits_for_the_leg_and_saves(tmp_path, monkeypatch):
    """Ctrl-C in the middle: what was reached comes back and is saved, and going on gives the same bits."""
    settings = {"seed": 2, "updates": 3_000_000, "path": str(tmp_path / "run.npz")}
    advance, calls = StochasticApproximation.advance, []

    def pressed(self, segment):
        calls.append(segment.number)
        if len(calls) == 5:
            signal.raise_signal(signal.SIGINT)
        advance(self, segment)

    monkeypatch.setattr(StochasticApproximation, "advance", pressed)
    with pytest.raises(NotConvergedError, match=r"(?s)interrupted by the user.*reached so far\.$") as caught:
        learned("chain", **settings)
    assert len(calls) == 5
    assert caught.value.evaluation.certificate is None
    monkeypatch.undo()
    whole = learned("chain", seed=2, updates=3_000_000)
    np.testing.assert_array_equal(learned("chain", **settings).covariance, whole.covariance)


def test_a_second_interrupt_does_not_wait(monkeypatch):
    ended = []

    def pressed_twice(self, segment):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        ended.append(segment)

    monkeypatch.setattr(StochasticApproximation, "advance", pressed_twice)
    with pytest.raises(KeyboardInterrupt):
        learned("chain", seed=2, updates=1_000)
    assert not ended


class SampledPairs:
    """Steps drawn through `model.sample` alone, as a simulator would give them."""

    def __init__(self, model, policy):
        self.model, self.policy = model, policy

    def draw(self, rng, one, other):
        A = self.model.shape[2]
        gains, ahead = np.zeros((2, one.size)), np.zeros((2, one.size), np.int64)
        for k, (x, y) in enumerate(zip(one.tolist(), other.tolist(), strict=True)):
            (s, a), (t, b) = divmod(x, A), divmod(y, A)
            asked = [(s, [a, b], (0, 1))] if y >= 0 and s == t else [(s, [a], (0,))]
            if y >= 0 and s != t:
                asked.append((t, [b], (1,)))
            for state, actions, branches in asked:
                drawn = self.model.sample(state, actions, rng=rng)
                for branch, r, n in zip(branches, drawn.reward, drawn.next_state, strict=True):
                    ends = self.model.terminal[n]
                    gains[branch, k] = r
                    ahead[branch, k] = -1 if ends else n * A + rng.choice(A, p=self.policy.probs[n])
        return gains, ahead


def test_a_sampler_can_stand_in_for_the_table():
    """30,000 updates from `model.sample`: within 4 half widths of exact."""
    model, policy, coupling = TEN["chain"]
    cells = MomentCells(model, coupling)
    steps = step_table(PolynomialSteps())
    estimates = StochasticApproximation(
        cells, SampledPairs(model, policy), BlockSampling(), steps, model.discount, True, 30_000, 3
    )
    for segment in segments(30_000, looks=False):
        estimates.advance(segment)
    found, exact = estimates.moments(0.95), truth("chain")
    going = ~model.terminal
    assert (np.abs(found.mean - exact.mean[going]) <= 4 * found.mean_error).all()
    assert (np.abs(found.covariance - exact.covariance[going]) <= 4 * found.covariance_error).all()
    assert np.median(found.covariance_error) < exact.covariance.max()


def test_a_new_reference_changes_no_covariance():
    """Where a stage begins, what was averaged in the one before is written anew for Z − m, and means what it meant."""
    model, policy, coupling = TEN["flat grid"]
    cells = MomentCells(model, coupling)
    source = TablePairs(model, policy, coupling, cells, model.reward)
    steps = step_table(PolynomialSteps())
    estimates = StochasticApproximation(cells, source, BlockSampling(), steps, model.discount, True, 10_000_000, 3)
    first, second, *_ = segments(10_000_000, looks=False)
    estimates.advance(first)
    mean, before = estimates.average(cells.mean), estimates.table[:, 0].copy()
    X = cells.coordinates
    shift = np.zeros(X)
    shift[cells.mean] = mean
    assert (np.abs(mean) > 0.01).any()
    estimates.advance(replace(second, length=0))
    np.testing.assert_allclose(estimates.reference, shift)
    np.testing.assert_allclose(estimates.table[:X, 0], before[:X] - shift)
    np.testing.assert_allclose(estimates.table[X : 2 * X, 0], before[X : 2 * X] - shift**2)
    x, y = np.triu_indices(X)
    at = cells.product(x, y)
    np.testing.assert_allclose(estimates.table[at, 0], before[at] - shift[x] * shift[y])


def test_one_state_with_one_action():
    """Z = Σ γᵗ Uₜ with fair coins U: mean 5 and variance ¼/(1 − 0.81)."""
    model = jmdp.TabularJMDP([[0.5, 0.5]], [[[0.0], [1.0]]], [[[0], [0]]], 0.9)
    for sampling in SAMPLINGS:
        method = jmdp.Incremental(seed=0, updates=100_000, sampling=sampling)
        result = jmdp.evaluate(model, jmdp.TabularPolicy.uniform(model), jmdp.Local(), method=method)
        assert abs(result.mean[0, 0] - 5) <= 3 * result.certificate.mean_error[0, 0]
        assert abs(result.covariance[0, 0, 0] - 0.25 / 0.19) <= 3 * result.certificate.covariance_error[0, 0, 0]


def test_all_terminal_is_nothing_to_learn():
    model = jmdp.TabularJMDP([[1.0]], [[[1.0]]], [[[0]]], 0.5, [True])
    result = jmdp.evaluate(model, jmdp.TabularPolicy.uniform(model), jmdp.Local(), method=jmdp.Incremental(seed=0))
    assert result.mean[0, 0] == result.covariance[0, 0, 0] == np.max(result.certificate.mean_error) == 0
