"""ExactPairs(order=n): mixed moments of two returns and moments of gaps, from tables over state pairs."""

from __future__ import annotations

import math
import pickle
import signal

import numpy as np
import pytest

import jmdp
from jmdp.errors import SettingsError, UnavailableError
from reference.containment import Checks
from reference.mixed_moments import MixedMoments
from sample_models import COUPLINGS, random_problem


def dyadic_problem(rng):
    """A small model whose exact moments of order 8 still have numerators one can compute with."""
    S, K, A = int(rng.integers(1, 3)), int(rng.integers(1, 3)), int(rng.integers(2, 4 if rng.random() < 0.3 else 3))
    p = rng.integers(1, 8) / 8
    prob = np.tile([p, 1 - p] if K == 2 else [1.0], (S, 1))
    reward = rng.integers(-8, 9, size=(S, K, A)) / 4 * float(rng.choice([2.0**-20, 1, 256]))
    next_state = rng.integers(0, S, size=(S, K, A))
    discount = float(rng.choice([0.0, 0.5, 0.875, 1 - 2**-6]))
    model = jmdp.TabularJMDP(prob, reward, next_state, discount, rng.random(S) < 0.2)
    cuts = np.sort(rng.integers(0, 9, size=(S, A - 1)), axis=1) / 8
    return model, jmdp.TabularPolicy(np.diff(cuts, axis=1, prepend=0.0, append=1.0))


def moment_violations(result, truth, order):
    """Every stated interval of a moment that does not contain the truth, and how many were looked at."""
    checks = Checks()
    checks.mixed(result, truth, order)
    return checks.missed, checks.looked


@pytest.mark.parametrize(
    "coupling",
    [pytest.param(c, id=repr(c), marks=[pytest.mark.long] * (c != COUPLINGS[0])) for c in COUPLINGS],
)
def test_orders_up_to_eight_are_certified(coupling):
    """P1 for moments: 10 models in each of six couplings, against exact rationals."""
    rng = np.random.default_rng(COUPLINGS.index(coupling))
    looked = 0
    for _ in range(10):
        model, policy = dyadic_problem(rng)
        result = jmdp.evaluate(model, policy, coupling, jmdp.ExactPairs(order=8), throw=False)
        found, count = moment_violations(result, MixedMoments(model, policy, coupling, 8), 8)
        assert found == [], f"{model}, {policy}"
        looked += count
    print(f"{looked} moments of orders up to 8, 0 violations, {coupling}")


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_any_numbers_up_to_order_four(coupling):
    rng = np.random.default_rng(7 + COUPLINGS.index(coupling))
    for _ in range(6):
        model, policy = random_problem(rng, states=2, scenarios=2, actions=2, discounts=(0.0, 0.9, 1 - 2**-10))
        truth = MixedMoments(model, policy, coupling, 4)
        for tolerance in (1e-10, 0.0):  # run to stagnation, rounding is all there is
            result = jmdp.evaluate(
                model, policy, coupling, jmdp.ExactPairs(order=4, tolerance=tolerance, max_sweeps=3000), throw=False
            )
            assert moment_violations(result, truth, 4)[0] == []


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_equal_to_jipe_of_the_same_order(coupling):
    """4 models in each of six couplings."""
    rng = np.random.default_rng(20 + COUPLINGS.index(coupling))
    for order in (3, 3, 4, 4):
        model, policy = random_problem(rng, states=3, scenarios=3, actions=2, discounts=(0.5, 0.9))
        pairs = jmdp.evaluate(model, policy, coupling, jmdp.ExactPairs(order=order))
        paper = jmdp.evaluate(model, policy, coupling, jmdp.JIPE(order=order, tolerance=1e-9))
        S, _, A = model.shape
        for x in np.ndindex(S, A):
            for y in np.ndindex(S, A):
                for i in range(order + 1):
                    at = [x] * i + [y] * (order - i)
                    one, other = pairs.moment(*at), paper.moment(*at)
                    assert one.low <= other.high, (at, one, other)
                    assert other.low <= one.high, (at, one, other)


def test_cut_at_two_it_is_order_two():
    world = jmdp.worlds.inventory()
    two = jmdp.evaluate(world.model, world.policies["base_stock"], jmdp.Local())
    four = jmdp.evaluate(world.model, world.policies["base_stock"], jmdp.Local(), method=jmdp.ExactPairs(order=4))
    np.testing.assert_array_equal(two.mean, four.mean)
    error = two.certificate.covariance_error + four.certificate.covariance_error
    assert (np.abs(two.covariance - four.covariance) <= error).all()
    assert four.gap(3, 0, 2).central_moment(2) == pytest.approx(two.gap(3, 0, 2).variance, rel=1e-8)


def test_compiled_tables_are_those_of_the_slow_sweep(monkeypatch):
    world = jmdp.worlds.windy_gridworld(4, 5)
    slow = jmdp.evaluate(world.model, world.policies["careless"], jmdp.Local(), method=jmdp.ExactPairs(order=4))
    monkeypatch.setattr("jmdp.methods.exact_pairs.pair_sweep._COMPILED_FROM", 1)
    fast = jmdp.evaluate(world.model, world.policies["careless"], jmdp.Local(), method=jmdp.ExactPairs(order=4))
    label = slow.moments.operator.shaped.classes.label
    for key, table in slow.moments.tables.items():
        error = (slow.moments.errors[sum(key)] + fast.moments.errors[sum(key)])[label[:, None], label]
        assert (np.abs(fast.moments.tables[key] - table) <= error).all(), key
        assert error.max() < 1e-7 * max(1e-3, np.abs(table).max())


@pytest.mark.parametrize("world", ["windy_gridworld", "inventory", "coupled_reward_chain"])
def test_hankel_matrices_are_psd_within_their_intervals(world):
    world = getattr(jmdp.worlds, world)()
    result = jmdp.evaluate(
        world.model, next(iter(world.policies.values())), jmdp.Local(), method=jmdp.ExactPairs(order=8)
    )
    for s, a in np.ndindex(*result.mean.shape):
        for b in range(a):
            moments = result.gap(s, a, b).central_moments
            scale = math.sqrt(moments[2].high) or 1.0
            hankel = np.array([[moments[i + j] / scale ** (i + j) for j in range(5)] for i in range(5)])
            wide = np.array(
                [[(moments[i + j].high - moments[i + j].low) / scale ** (i + j) for j in range(5)] for i in range(5)]
            )
            assert np.linalg.eigvalsh(hankel).min() >= -np.linalg.norm(wide) - 1e-12 * np.linalg.norm(hankel)


def test_closed_forms_of_a_bandit():
    """γ = 0: the gap is R − R̃ = ±1 with equal chance."""
    world = jmdp.worlds.anti_correlated_bandit(discount=0.0)
    gap = jmdp.evaluate(world.model, world.policies["first"], jmdp.Local(), method=jmdp.ExactPairs(order=6)).gap(
        0, 0, 1
    )
    assert [round(gap.moment(n), 12) for n in range(7)] == [1, 0, 1, 0, 1, 0, 1]
    assert gap.skewness == pytest.approx(0, abs=1e-12)
    assert gap.kurtosis == pytest.approx(1)
    assert gap.kurtosis.low <= 1 <= gap.kurtosis.high


def test_cumulants_of_independent_steps_add():
    """One state, Independent luck: κ_n(G) = κ_n(one step) / (1 − γ^n), up to order 6."""
    gamma, p = 0.9, 0.25
    model = jmdp.TabularJMDP([[p, 1 - p]], [[[3.0, 0.0], [-1.0, 0.0]]], np.zeros((1, 2, 2), int), gamma)
    policy = jmdp.TabularPolicy([[1.0, 0.0]])
    result = jmdp.evaluate(model, policy, jmdp.Independent(), jmdp.ExactPairs(order=6))
    step = [p * 3.0**n + (1 - p) * (-1.0) ** n for n in range(7)]
    kappa = cumulants(step)
    raw = [float(result.moment(*[(0, 0)] * n)) for n in range(7)]
    for n, (found, right) in enumerate(zip(cumulants(raw)[1:], kappa[1:], strict=True), start=1):
        assert found == pytest.approx(right / (1 - gamma**n), rel=1e-6, abs=1e-6)


def cumulants(moments):
    kappa = [0.0]
    for n in range(1, len(moments)):
        kappa.append(moments[n] - sum(math.comb(n - 1, m - 1) * kappa[m] * moments[n - m] for m in range(1, n)))
    return kappa


def test_what_there_is_not():
    world = jmdp.worlds.anti_correlated_bandit()
    two = jmdp.evaluate(world.model, world.policies["uniform"], jmdp.Local())
    with pytest.raises(UnavailableError, match=r"ExactPairs\(order=3\) for two coordinates"):
        two.moment((0, 0), (0, 0), (0, 1))
    with pytest.raises(UnavailableError, match=r"moments up to order 2\. Use ExactPairs\(order=3\)"):
        two.gap(0, 0, 1).skewness  # noqa: B018
    assert two.moment((0, 0)) == two.mean[0, 0]
    assert two.moment((0, 0), (0, 1)) == two.second_moment(0, 0, 0, 1)
    assert two.moment((0, 0), (0, 1)).interval.width < 1e-6
    assert two.moment() == 1.0
    with pytest.raises(SettingsError, match="Orders above 2 need 'float64'"):
        jmdp.ExactPairs(order=3, precision="float32")
    with pytest.raises(SettingsError, match="order is 1"):
        jmdp.ExactPairs(order=1)
    inventory = jmdp.worlds.inventory()
    three = jmdp.evaluate(inventory.model, inventory.policies["never"], jmdp.Local(), method=jmdp.ExactPairs(order=3))
    with pytest.raises(UnavailableError, match=r"Use JIPE\(order=3\)"):
        three.moment((0, 0), (0, 1), (0, 2))
    again = pickle.loads(pickle.dumps(three.gap(0, 1, 2).skewness))
    assert (again, again.low) == (three.gap(0, 1, 2).skewness, three.gap(0, 1, 2).skewness.low)


def test_an_interrupt_keeps_the_orders_that_are_done(monkeypatch):
    from jmdp.methods.exact_pairs.pair_sweep import PairSweep

    world = jmdp.worlds.inventory()
    real, calls = PairSweep.measured, []

    def measured(self, point, out, change=None):
        calls.append(self.operator)
        if type(self.operator).__name__ == "MomentOperator" and self.operator.square == world.model.discount**4:
            calls.append(None)
            if calls.count(None) == 3:
                signal.raise_signal(signal.SIGINT)
        return real(self, point, out, change)

    monkeypatch.setattr(PairSweep, "measured", measured)
    result = jmdp.evaluate(
        world.model, world.policies["never"], jmdp.Local(), method=jmdp.ExactPairs(order=5), throw=False
    )
    assert result.outcome is jmdp.results.Outcome.INTERRUPTED
    assert result.moments.order == 3
    assert math.isfinite(result.gap(2, 0, 1).skewness)


@pytest.mark.parametrize("coupling", [jmdp.Local(), jmdp.Independent()], ids=repr)
def test_sums_over_many_scenarios_round_as_stated(coupling):
    """Many tiny probabilities in two states that draw apart: K² terms, almost all below half a unit of the sum."""
    K = 1000
    tiny = math.sqrt(0.99 * 2.0**-56)
    prob = np.full(K, tiny)
    prob[0] = prob[1] = (1 - (K - 2) * tiny) / 2
    prob[0] += 1 - math.fsum(prob)
    reward = np.zeros((3, K, 2))
    reward[:2, ::2], reward[:2, 1::2] = 0.75, -0.75
    model = jmdp.TabularJMDP(np.tile(prob, (3, 1)), reward, np.full((3, K, 2), 2), 0.0, [False, False, True])
    policy = jmdp.TabularPolicy.uniform(model)
    result = jmdp.evaluate(model, policy, coupling, jmdp.ExactPairs(order=4, tolerance=0), throw=False)
    moment = result.moment((0, 0), (0, 0), (1, 0), (1, 0))
    assert moment.low <= 0.75**4 <= moment.high


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e-100, 1e-85, 1.0, 1e80, 1e149])
def test_any_scale_gives_bounds_that_hold(scale):
    reward = np.array([[[1.0, 0.0], [0.0, 0.5]]]) * scale
    model = jmdp.TabularJMDP([[0.25, 0.75]], reward, np.zeros((1, 2, 2), int), 0.5)
    policy = jmdp.TabularPolicy([[0.5, 0.5]])
    gap = jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.ExactPairs(order=4), throw=False).gap(0, 0, 1)
    plain = jmdp.TabularJMDP([[0.25, 0.75]], reward / scale, np.zeros((1, 2, 2), int), 0.5)
    distribution = (
        jmdp.evaluate(plain, policy, jmdp.Local(), method=jmdp.ExactDistribution(tolerance=0.001))
        .gap(0, 0, 1)
        .distribution()
    )
    for x in (-0.4, 0.0, 0.9):
        bounds, right = gap.cdf_bounds(x * scale), distribution.cdf(x)
        assert bounds.low <= right.high
        assert right.low <= bounds.high
    assert gap.cvar_bounds(0.1).low <= distribution.cvar(0.1).high * scale
    assert distribution.cvar(0.1).low * scale <= gap.cvar_bounds(0.1).high
    for n, shape in ((3, gap.skewness), (4, gap.kurtosis)):
        assert not shape.low > shape.high
        assert not gap.moment(n).low > gap.moment(n).high
    with pytest.raises(SettingsError):
        gap.moment(-1)


def test_orders_that_overflow_are_refused():
    model = jmdp.TabularJMDP([[1.0]], [[[1.0]]], [[[0]]], 1 - 1e-10)
    with pytest.raises(SettingsError, match="Give at most 27: higher moments can overflow"):
        jmdp.evaluate(model, jmdp.TabularPolicy([[1.0]]), jmdp.Local(), method=jmdp.ExactPairs(order=32))


def two_parts(large):
    """Two separate parts of two states each, the rewards of the second multiplied."""
    rng = np.random.default_rng(0)
    reward, onward = rng.normal(size=(4, 2, 2)), rng.integers(0, 2, (4, 2, 2))
    reward[2:] *= large
    onward[2:] += 2
    return jmdp.TabularJMDP(np.full((4, 2), 0.5), reward, onward, 0.99)


@pytest.mark.parametrize("policy", ["uniform", {"first": [0] * 4, "uniform": "uniform"}], ids=["actions", "policies"])
def test_second_moments_are_as_narrow_as_without_higher_orders(policy):
    """The second central moment of a gap was ± 0.001, its variance ± 2e-14."""
    plain, higher = (
        jmdp.evaluate(two_parts(1e4), policy, jmdp.Local(), jmdp.ExactPairs(order=order)) for order in (2, 4)
    )
    one, other = plain.gap(0, 1, 0).central_moments[2], higher.gap(0, 1, 0).central_moments[2]
    assert other.high - other.low <= one.high - one.low
    one, other = plain.moment((0, 0), (0, 1)), higher.moment((0, 0), (0, 1))
    assert other.high - other.low <= one.high - one.low
    one, other = plain.moment((0, 0)), higher.moment((0, 0))
    assert other.high - other.low <= one.high - one.low


@pytest.mark.parametrize("policy", ["uniform", {"first": [0] * 4, "uniform": "uniform"}], ids=["actions", "policies"])
@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_a_part_with_large_rewards_does_not_widen_moments_of_another(coupling, policy):
    """With rewards 1e4 times as large there, the fourth moment of a gap of 18 was 101 ± 3e8."""
    method = jmdp.ExactPairs(order=4)
    alone, beside = (jmdp.evaluate(two_parts(large), policy, coupling, method) for large in (1.0, 1e4))
    asked = [lambda result, order=order: result.gap(0, 1, 0).central_moments[order] for order in (3, 4)]
    asked.append(lambda result: result.moment((0, 0), (0, 0), (0, 1)))
    for question in asked:
        one, other = question(alone), question(beside)
        assert max(one.low, other.low) <= min(one.high, other.high)
        assert other.high - other.low <= 100 * (one.high - one.low)


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_parts_of_different_sizes_hold_against_rationals(coupling):
    """Two states, the second of which never leads back, with rewards of very different sizes."""
    rng = np.random.default_rng(40 + COUPLINGS.index(coupling))
    for order in (3, 4):
        sizes = 10.0 ** rng.integers(-9, 7, size=(2, 1, 1))
        onward = np.maximum(np.arange(2)[:, None, None], rng.integers(0, 2, (2, 2, 2)))
        prob = np.tile(rng.dirichlet(np.ones(2)), (2, 1))
        discount = float(rng.choice([0.9, 1 - 2.0**-10, 1 - 2.0**-40]))
        model = jmdp.TabularJMDP(prob, sizes * rng.normal(size=(2, 2, 2)), onward, discount, rng.random(2) < 0.2)
        policy = jmdp.TabularPolicy(rng.dirichlet(np.ones(2), 2))
        result = jmdp.evaluate(model, policy, coupling, jmdp.ExactPairs(order=order), throw=False)
        assert moment_violations(result, MixedMoments(model, policy, coupling, order), order)[0] == []
