"""MonteCarlo against ExactPairs, and the coverage of its intervals."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from scipy.special import stdtrit
from scipy.stats import binom

import jmdp
from jmdp.base.interval import Interval
from jmdp.methods.monte_carlo.monte_carlo import enough_steps
from jmdp.simulators import Simulator, Step, action_labels
from jmdp.statistics.means import IntervalRule

WORLDS = {
    "windy_gridworld": (jmdp.worlds.windy_gridworld(4, 4), "careless"),
    "coupled_reward_chain": (jmdp.worlds.coupled_reward_chain(25), "uniform"),
    "anti_correlated_bandit": (jmdp.worlds.anti_correlated_bandit(), "uniform"),
    "inventory": (jmdp.worlds.inventory(6, most_ordered=3), "base_stock"),
}
COUPLINGS = [jmdp.Local(), jmdp.Synchronous(), jmdp.Independent(), jmdp.Synchronous("shared")]


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize(
    "coupling", [pytest.param(c, id=repr(c), marks=[pytest.mark.long] * (c not in COUPLINGS[:2])) for c in COUPLINGS]
)
def test_within_five_standard_errors_of_exact(name, coupling):
    """Means, covariances, gap means and gap variances of every world.

    5 standard errors are passed by chance by 6e-7 of entries with normal errors; 16 runs of at most 1,000 entries
    each: one false alarm in a hundred choices of the seed.
    """
    world, policy = WORLDS[name]
    truth = jmdp.evaluate(world.model, world.policies[policy], coupling)
    result = jmdp.evaluate(world.model, world.policies[policy], coupling, jmdp.MonteCarlo(seed=71, samples=10_000))
    widen = 5 / 1.96
    c = result.certificate
    assert (np.abs(result.mean - truth.mean) <= widen * c.mean_error).all()
    assert (np.abs(result.covariance - truth.covariance) <= widen * c.covariance_error + 1e-12).all()
    variance = np.einsum("saa->sa", truth.covariance)
    exact_gap = variance[:, :, None] + variance[:, None, :] - 2 * truth.covariance
    S, A = result.mean.shape
    for s in range(S):
        for a in range(A):
            for b in range(A):
                gap = result.gap(s, a, b)
                assert abs(gap.mean - (truth.mean[s, a] - truth.mean[s, b])) <= widen * c.gap_mean_error[s, a, b]
                off = abs(gap.variance - exact_gap[s, a, b])
                assert off <= widen * c.gap_variance_error[s, a, b] + 1e-9 * variance.max()


@pytest.mark.parametrize(
    ("world", "policy", "coupling"),
    [
        pytest.param(jmdp.worlds.windy_gridworld(2, 3, discount=0.8), "careless", jmdp.Local(), marks=pytest.mark.long),
        pytest.param(
            jmdp.worlds.inventory(3, most_ordered=2, mean_demand=1.5, discount=0.7),
            "uniform",
            jmdp.Synchronous(),
            marks=pytest.mark.long,
        ),
    ],
    ids=["windy_gridworld", "inventory"],
)
def test_intervals_cover_at_their_confidence(world, policy, coupling):
    """2,000 repetitions: each kind of interval covers 95 ± 1.5%, averaged over entries that vary."""
    model, followed = world.model, world.policies[policy]
    truth = jmdp.evaluate(model, followed, coupling)
    variance = np.einsum("saa->sa", truth.covariance)
    gap_mean = truth.mean[:, :, None] - truth.mean[:, None, :]
    gap_variance = variance[:, :, None] + variance[:, None, :] - 2 * truth.covariance
    varies = variance > 1e-12
    gap_varies = gap_variance > 1e-9
    hits = {"mean": 0.0, "covariance": 0.0, "gap mean": 0.0, "gap variance": 0.0}
    repetitions = 2000
    for seed in range(repetitions):
        result = jmdp.evaluate(model, followed, coupling, jmdp.MonteCarlo(seed=seed, samples=1000))
        c, diagonal = result.certificate, np.einsum("saa->sa", result.covariance)
        gaps = result.mean[:, :, None] - result.mean[:, None, :]
        spread = diagonal[:, :, None] + diagonal[:, None, :] - 2 * result.covariance
        both = varies[:, :, None] & varies[:, None, :]
        for name, inside, counted in (
            ("mean", np.abs(result.mean - truth.mean) <= c.mean_error, varies),
            ("covariance", np.abs(result.covariance - truth.covariance) <= c.covariance_error, both),
            ("gap mean", np.abs(gaps - gap_mean) <= c.gap_mean_error, gap_varies),
            ("gap variance", np.abs(spread - gap_variance) <= c.gap_variance_error, gap_varies),
        ):
            hits[name] += inside[counted].mean() / repetitions
    print({name: round(100 * rate, 2) for name, rate in hits.items()})
    for name, rate in hits.items():
        assert abs(rate - 0.95) <= 0.015, f"{name}: {rate:.4f}"


def coverage(n, p, errors):
    """Exact coverage of the mean −p of n returns of 0, or −1 with probability p, which are known to be in [−1, 0]."""
    covered = 0.0
    for lost, chance in enumerate(binom.pmf(np.arange(n + 1), n, p)):
        values = -(np.arange(n) < lost).astype(float)[:, None]
        covered += chance * (chance > 1e-9 and abs(values.mean() + p) <= errors(values) + 1e-12)
    return covered


@pytest.mark.parametrize("n", [2, 9, 20, 100, pytest.param(1000, marks=pytest.mark.long)])
def test_rare_outcomes_are_covered(n):
    """By enumeration, so there is no false alarm. Student's t alone has no width as long as nothing rare was seen."""
    rule = IntervalRule.fixed(n, 0.95)

    def errors(values):
        return rule.total_errors(values, 0.0, np.zeros(1), lambda a: Interval(-1.0, 0.0))[0]

    def student(values):
        return stdtrit(n - 1, 0.975) * values.std(ddof=1) / np.sqrt(n)

    rates = [1e-6, *np.geomspace(0.1 / n, 0.5, 12), 3 / n]
    assert min(coverage(n, p, errors) for p in rates if p <= 1) >= 0.95
    assert min(coverage(n, p, student) for p in rates if p <= 1) < 0.8


def rare_loss(chance, noise):
    """Two actions that earn the same, but for the second one's loss of 1 with this probability; then noise for ever.

    Returns differ from sample to sample by the noise, gaps without the loss by rounding alone.
    """
    prob = [[1 - chance, chance], [0.5, 0.5]]
    reward = [[[0.3, 0.2], [0.3, -0.8]], [[noise] * 2, [-noise] * 2]]
    return jmdp.TabularJMDP(prob, reward, [[[1, 1]] * 2] * 2, 0.9)


@pytest.mark.parametrize("noise", [0.0, 0.7])
def test_a_rare_loss_is_inside_the_intervals(noise):
    """A loss in 1 of 300 samples, and 100 samples: it is not seen in 72% of 30 runs. False alarm 1e-6 at 5%."""
    model = rare_loss(1 / 300, noise)
    policy, coupling = jmdp.TabularPolicy.deterministic(model, [0, 0]), jmdp.Local()
    missed = 0
    for seed in range(30):
        found = jmdp.evaluate(model, policy, coupling, jmdp.MonteCarlo(seed=seed, samples=100))
        interval = found.gap(0, 0, 1).mean_interval
        assert interval.width < 0.5 * (2 + 20 * noise)
        missed += 0.1 + 1 / 300 not in interval
    assert missed <= binom.isf(1e-6, 30, 0.05)


def test_what_is_certain_has_no_error():
    """Equal actions have a mean gap of 0, and so have equal policies; a table without randomness is exact."""
    model = jmdp.TabularJMDP([[0.5, 0.5]], [[[1.0, 1.0], [-1.0, -1.0]]], [[[0, 0]] * 2], 0.9)
    policy = jmdp.TabularPolicy.uniform(model)
    method = jmdp.MonteCarlo(seed=0, samples=200)
    same = jmdp.evaluate(model, policy, jmdp.Synchronous("shared"), method).gap(0, 0, 1)
    assert same.mean_interval.width < 1e-9
    both = jmdp.evaluate(model, {"old": policy, "new": policy}, jmdp.Synchronous("shared"), method)
    assert both.gap(0, "new", "old").mean_interval.width < 1e-9
    fixed = jmdp.TabularJMDP([[1.0]], [[[1.0, 2.0]]], [[[0, 0]]], 0.9)
    found = jmdp.evaluate(fixed, jmdp.TabularPolicy.deterministic(fixed, [0]), jmdp.Local(), method)
    assert found.gap(0, 1, 0).mean_interval.width < 0.01  # of the horizon
    assert found.certificate.mean_error.max() < 0.01


class Counter(Simulator):
    """Earns the number of the action, and loses 1 with a tiny probability if it is `lucky`."""

    actions = action_labels(2)
    discount = 0.9

    def __init__(self, lucky):
        self.lucky = lucky

    def start(self, shock):
        return 0

    def step(self, state, action, shock):
        return Step(float(action) - (self.lucky and shock.uniform() < 1e-9), state, True)


@pytest.mark.parametrize("lucky", [False, True])
def test_a_simulator_without_randomness_is_exact_and_another_has_no_interval(lucky):
    """Returns that were all the same, in a simulator whose range is not known."""
    method = jmdp.MonteCarlo(seed=0, samples=50, horizon=1)
    gap = jmdp.evaluate(Counter(lucky), lambda state: 0, jmdp.Synchronous(), method).gap(0, 1, 0)
    assert gap.mean_interval.width == np.inf if lucky else gap.mean_interval.width < 1e-9
    assert ("no error bound" in str(gap)) == lucky


def test_truncation_is_inside_the_interval():
    """Rewards of 1 for ever, cut after 5 steps: what is lost is stated, and nothing else."""
    model = jmdp.TabularJMDP([[1.0]], [[[1.0]]], [[[0]]], 0.9)
    result = jmdp.evaluate(
        model, jmdp.TabularPolicy([[1.0]]), jmdp.Local(), method=jmdp.MonteCarlo(seed=0, samples=50, horizon=5)
    )
    assert result.mean[0, 0] == pytest.approx((1 - 0.9**5) / 0.1)
    assert 10.0 in result.mean_interval(0, 0)
    assert result.certificate.mean_error[0, 0] == pytest.approx(0.9**5 / 0.1)
    # Covariances too: a fair coin for ever has variance 0.25/(1 − γ²), of which five steps miss a part.
    world = jmdp.worlds.anti_correlated_bandit()
    short = jmdp.MonteCarlo(seed=0, samples=100_000, horizon=5)
    seen = jmdp.evaluate(world.model, world.policies["first"], jmdp.Local(), method=short)
    assert seen.covariance[0, 0, 0] < 0.9 * 0.25 / 0.19
    assert 0.25 / 0.19 in seen.covariance_interval(0, 0, 0)


@pytest.mark.parametrize("runs", [100, pytest.param(400, marks=pytest.mark.long)])
def test_correlations_are_known_better_than_their_covariances(runs):
    """Correlation intervals cover 95 ± 3% over all runs, and are narrower than covariances alone would make them."""
    world = jmdp.worlds.inventory(4, most_ordered=2, mean_demand=1.5, discount=0.8)
    model, followed, luck = world.model, world.policies["base_stock"], jmdp.Synchronous()
    truth = jmdp.evaluate(model, followed, luck).correlation[1]
    hits, widths = [], []
    for seed in range(runs):
        result = jmdp.evaluate(model, followed, luck, jmdp.MonteCarlo(seed=seed, samples=400))
        for a, b in ((0, 1), (0, 2), (1, 2)):
            interval = result.gap(1, a, b).correlation_interval
            hits.append(truth[a, b] in interval)
            widths.append(interval.width)
    print(
        f"correlations {truth[0, 1]:.3f} to {truth[1, 2]:.3f}: covered {np.mean(hits):.3f}, width {np.mean(widths):.3f}"
    )
    assert abs(np.mean(hits) - 0.95) <= 0.03
    assert np.mean(widths) < 0.05


def test_a_correlation_of_one_still_knows_what_was_cut():
    """Both actions share today's reward and part tomorrow; cut after one step they look alike."""
    model = jmdp.TabularJMDP(
        [[0.5, 0.5]] * 3,
        [[[1.0, 1.0], [-1.0, -1.0]]] * 3,
        [[[1, 2]] * 2, [[1, 1]] * 2, [[2, 2]] * 2],
        0.1,
    )
    policy = jmdp.TabularPolicy.deterministic(model, [0, 0, 0])
    seen = jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.MonteCarlo(seed=0, samples=1000, horizon=1)).gap(
        0, 0, 1
    )
    assert seen.correlation == 1.0
    assert jmdp.evaluate(model, policy, jmdp.Local()).gap(0, 0, 1).correlation in seen.correlation_interval


def test_endless_rollouts_are_refused():
    world = jmdp.worlds.anti_correlated_bandit(discount=1 - 1e-9)
    with pytest.raises(jmdp.errors.SettingsError, match="Give a horizon"):
        jmdp.evaluate(world.model, world.policies["first"], jmdp.Local(), method=jmdp.MonteCarlo(seed=0))


@pytest.mark.parametrize(("discount", "lost"), [(0.0, 1e-9), (0.5, 1e-6), (0.99, 1e-6), (0.9999, 1e-3)])
def test_the_horizon_is_the_least_that_is_enough(discount, lost):
    steps = enough_steps(discount, lost)
    assert discount**steps / (1 - discount) <= lost * (1 + 1e-9)
    assert steps == 1 or discount ** (steps - 1) / (1 - discount) > lost


def test_a_state_has_its_own_stream():
    """Numbers of a state do not depend on which other states there are; another seed changes them all."""
    small, large = (jmdp.worlds.coupled_reward_chain(n).model for n in (8, 9))
    method = jmdp.MonteCarlo(seed=9, samples=300, horizon=3)
    one, other, third = (
        jmdp.evaluate(model, jmdp.TabularPolicy.uniform(model), jmdp.Local(), method=m)
        for model, m in ((small, method), (large, method), (large, dataclasses.replace(method, seed=10)))
    )
    np.testing.assert_array_equal(one.mean[:4], other.mean[:4])
    assert (third.mean[:4] != other.mean[:4]).all()


def test_gap_samples_are_reproducible_and_signed():
    world, policy = WORLDS["inventory"]
    followed = world.policies[policy]
    draw = functools.partial(jmdp.methods.gap_samples, world.model, followed, "2", samples=500, coupling=jmdp.Local())
    np.testing.assert_array_equal(draw("order 0", "order 1", seed=3), draw(0, 1, seed=3))
    assert (draw(0, 1, seed=3) != draw(0, 1, seed=4)).any()
    exact = jmdp.evaluate(world.model, followed, jmdp.Local()).gap("2", 0, 1)
    assert abs(draw(0, 1, seed=3).mean() - exact.mean) < 5 * exact.std / np.sqrt(500)
    np.testing.assert_array_equal(draw(0, 1, seed=3, horizon=1).shape, (500,))


@pytest.mark.parametrize("name", WORLDS)
def test_cantelli_is_above_the_simulated_frequency(name):
    """P(G ≤ 0) from 20,000 draws never passes the certified bound by more than 5 standard errors."""
    world, policy = WORLDS[name]
    followed = world.policies[policy]
    truth = jmdp.evaluate(world.model, followed, jmdp.Local())
    S, A = truth.mean.shape
    best = truth.mean.argmax(axis=1)
    tested = 0
    for s in range(0, S, 3):
        for b in range(A):
            bound = truth.gap(s, int(best[s]), b).inferiority_bound()
            if b == best[s] or bound == 1:
                continue
            gaps = jmdp.methods.gap_samples(
                world.model, followed, s, int(best[s]), b, coupling=jmdp.Local(), seed=72, samples=20_000
            )
            frequency = (gaps <= 0).mean()
            assert frequency <= bound + 5 * np.sqrt(frequency * (1 - frequency) / gaps.size)
            tested += 1
    assert tested or name in ("anti_correlated_bandit", "coupled_reward_chain")  # their gaps have mean 0


def test_tiny_rewards_have_errors_too():
    model = jmdp.TabularJMDP([[0.5, 0.5]], np.array([[[1.0, 0.0], [0.0, 1.0]]]) * 1e-170, np.zeros((1, 2, 2), int), 0.5)
    result = jmdp.evaluate(
        model, jmdp.TabularPolicy([[1.0, 0.0]]), jmdp.Local(), method=jmdp.MonteCarlo(seed=0, samples=100)
    )
    gap = result.gap(0, 0, 1)
    assert gap.variance_interval.high > 0
    assert gap.cdf_bounds(-1e-171).high >= 0.4
