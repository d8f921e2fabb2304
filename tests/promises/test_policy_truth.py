"""Several policies in a table: every stated interval holds against exact rationals.

``pytest -m long`` runs 300 models × 3 couplings × 2 kinds of policy luck, and as many finite horizons.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import jmdp
from jmdp.errors import LabelError, ModelError, PolicyError, SettingsError, UnavailableError
from reference.policies import PolicyTruth, contains, enumerated_gaps, exactly, start_violations, violations
from sample_models import COUPLINGS

MODELS = 2
REWARDS = (1.0, 0.1, 2.0**-30, 1e6)


def several_policies(seed, discounts=(0.0, 0.3, 0.9, 0.99, 1 - 2**-10)):
    """A small model, 2 or 3 policies (some deterministic, some equal), and a start distribution."""
    rng = np.random.default_rng(seed)
    S, K, A = rng.integers(1, 5), rng.integers(1, 4), rng.integers(1, 4)
    prob = np.broadcast_to(rng.dirichlet(np.ones(K)), (S, K))
    reward = rng.integers(-3, 4, (S, K, A)) * rng.choice(REWARDS)
    model = jmdp.TabularJMDP(
        prob, reward, rng.integers(0, S, (S, K, A)), float(rng.choice(discounts)), rng.random(S) < 0.2
    )
    deterministic = rng.random() < 0.4
    tables = [
        np.eye(A)[rng.integers(0, A, S)] if deterministic else rng.dirichlet(np.full(A, 0.7), size=S)
        for _ in range(rng.integers(2, 4))
    ]
    if rng.random() < 0.3:
        tables[1] = tables[0]
    start = rng.dirichlet(np.ones(S))
    if S > 1 and rng.random() < 0.5:
        start[0] = 0
    return model, {f"p{i}": jmdp.TabularPolicy(table) for i, table in enumerate(tables)}, start / start.sum()


def hold_against_rationals(seeds):
    for seed, coupling in product(seeds, COUPLINGS):
        model, policies, start = several_policies(seed)
        order = 2 + seed % 3
        method = jmdp.ExactPairs(order=order)
        result = jmdp.evaluate(model, policies, coupling, method, starts=start, throw=False)
        truth = PolicyTruth(model, list(policies.values()), coupling)
        found = violations(result, truth, order) + start_violations(result, truth, start, order)
        assert found == [], f"seed {seed}, {coupling}"


def hold_horizons_against_rationals(seeds):
    for seed, coupling in product(seeds, COUPLINGS):
        model, policies, start = several_policies(seed)
        rng = np.random.default_rng(seed + 1000)
        S, _, A = model.shape
        horizon, discount, order = int(rng.integers(1, 5)), (None, 1.0)[seed % 2], 2 + seed % 3
        final = np.where(model.terminal, 0.0, rng.integers(-3, 4, S)) if seed % 3 else None
        if seed % 4 == 0:
            policies = {name: rng.dirichlet(np.ones(A), size=(horizon, S)) for name in policies}
        settings = {"horizon": horizon, "discount": discount, "terminal_value": final}
        steps = {
            name: [jmdp.TabularPolicy(table) for table in policy] if isinstance(policy, np.ndarray) else policy
            for name, policy in policies.items()
        }
        method = jmdp.ExactPairs(order=order)
        result = jmdp.evaluate(model, policies, coupling, method, starts=start, **settings)
        truth = PolicyTruth(model, list(steps.values()), coupling, horizon=horizon, final=final, discount=discount)
        found = violations(result, truth, order) + start_violations(result, truth, start, order)
        assert found == [], f"seed {seed}, {coupling}, {settings}"
        hold_actions_against_rationals(model, steps["p0"], coupling, method, settings)


def hold_actions_against_rationals(model, policy, coupling, method, settings):
    """An action and then the policy is a policy that depends on time.

    Branches of actions may become one, those of policies do not. With shared policy luck that is no difference.
    """
    result = jmdp.evaluate(model, policy, coupling, method, **settings)
    S, _, A = model.shape
    later = policy[1:] if isinstance(policy, list) else [policy] * (settings["horizon"] - 1)
    firsts = [[jmdp.TabularPolicy(np.eye(A)[[a] * S]), *later] for a in range(A)]
    truth = PolicyTruth(
        model,
        firsts,
        coupling,
        horizon=settings["horizon"],
        final=settings["terminal_value"],
        discount=settings["discount"],
    )
    if coupling.policy_luck == "shared":
        assert violations(result, truth, method.order) == []
    for s, a in product(range(S), range(A)):
        assert contains(result.mean_interval(s, a), truth.mean(s, a))
        assert contains(result.covariance_interval(s, a, a), truth.covariance(s, a, a))


def test_policies_hold_against_rationals():
    hold_against_rationals(range(MODELS))


def test_horizons_hold_against_rationals():
    hold_horizons_against_rationals(range(MODELS))


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 300, 25))
def test_policies_hold_against_rationals_on_many_models(first):
    hold_against_rationals(range(1000 + first, 1025 + first))


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 300, 25))
def test_horizons_hold_against_rationals_on_many_models(first):
    hold_horizons_against_rationals(range(1000 + first, 1025 + first))


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_actions_over_a_horizon_become_one(coupling):
    """With independent policy luck too: over a long horizon the answer is that of no horizon."""
    world = jmdp.worlds.windy_gridworld(3, 3, discount=0.5)
    policy = world.policies["careless"]
    endless = jmdp.evaluate(world.model, policy, coupling, jmdp.ExactPairs(order=3))
    cut = jmdp.evaluate(world.model, policy, coupling, jmdp.ExactPairs(order=3), horizon=60)
    np.testing.assert_allclose(cut.mean, endless.mean, atol=1e-12)
    np.testing.assert_allclose(cut.covariance, endless.covariance, atol=1e-9)
    for a, b in ((0, 1), (2, 3)):
        one, other = cut.gap(4, a, b).central_moments[3], endless.gap(4, a, b).central_moments[3]
        assert float(one) == pytest.approx(float(other), abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_distributions_of_gaps_hold_against_enumeration(seed, coupling):
    """Models that end after three steps: all futures are listed."""
    rng = np.random.default_rng(seed)
    S, K, A = 5, 2, 2
    following = np.minimum(np.arange(S)[:, None, None] + rng.integers(1, 3, (S, K, A)), S - 1)
    model = jmdp.TabularJMDP(
        np.broadcast_to(rng.dirichlet(np.ones(K)), (S, K)),
        rng.integers(-1, 2, (S, K, A)),
        following,
        0.5,
        np.arange(S) == S - 1,
    )
    policies = {name: jmdp.TabularPolicy(rng.dirichlet(np.ones(A), size=S)) for name in ("old", "new")}
    start = np.array([0.5, 0.25, 0.25, 0, 0])
    result = jmdp.evaluate(model, policies, coupling, jmdp.ExactDistribution(tolerance=0.01), starts=start)
    tables = list(policies.values())
    futures = {s: enumerated_gaps(model, tables[1], tables[0], coupling, s) for s in range(3)}
    mixed: dict = {}
    for s, gaps in futures.items():
        for gap, chance in gaps.items():
            mixed[gap] = mixed.get(gap, 0) + exactly(float(start[s])) * chance
    for state, gaps in {**futures, "start": mixed}.items():
        distribution = result.gap(state, "new", "old").distribution()
        for name, value in (
            ("superiority", sum((chance for gap, chance in gaps.items() if gap > 0), exactly(0))),
            ("ties", gaps.get(exactly(0), exactly(0))),
            ("inferiority", sum((chance for gap, chance in gaps.items() if gap < 0), exactly(0))),
        ):
            stated = getattr(distribution, name)()
            assert contains(stated.interval, value), f"{name} from {state}"
            assert stated.error < 0.02


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_reachable_pairs_hold_against_rationals(coupling):
    for seed in range(MODELS):
        model, policies, _ = several_policies(seed)
        result = jmdp.evaluate(model, policies, coupling, jmdp.ReachablePairs(0), throw=False)
        truth = PolicyTruth(model, list(policies.values()), coupling)
        for i, j in product(range(len(policies)), repeat=2):
            assert contains(result.mean_interval(0, i), truth.mean(0, i))
            assert contains(result.covariance_interval(0, i, j), truth.covariance(0, i, j))
            if i != j:
                assert contains(result.gap(0, i, j).variance_interval, truth.gap_moment(0, i, j, 2))


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_samples_agree_with_the_exact_answer(coupling):
    """At 4.9 standard errors: some 300 intervals raise a false alarm with probability 3e-4. Seeds are fixed."""
    for seed in range(3):
        model, policies, start = several_policies(seed, discounts=(0.0, 0.3, 0.9))
        exact = jmdp.evaluate(model, policies, coupling, starts=start)
        method = jmdp.MonteCarlo(seed=seed, samples=4000, confidence=1 - 1e-6)
        sampled = jmdp.evaluate(model, policies, coupling, method, starts=start)
        for name in ("mean", "covariance"):
            right, found = getattr(exact, name), getattr(sampled, name)
            off = np.broadcast_to(getattr(sampled.certificate, f"{name}_error"), found.shape)
            rounding = 1e-9 * max(1.0, np.abs(right).max())
            assert (np.abs(right - found) <= off + rounding).all(), f"seed {seed}, {name}"


@pytest.mark.parametrize("policy_luck", ["shared", "independent"])
@pytest.mark.parametrize("kind", [jmdp.Local, jmdp.Synchronous])
def test_equal_policies_have_a_gap_of_exactly_zero(kind, policy_luck):
    world = jmdp.worlds.inventory(6)
    name = "uniform" if policy_luck == "shared" else "base_stock"  # deterministic where draws are not shared
    one, other = world.policies[name], jmdp.TabularPolicy(world.policies[name].probs.copy())
    policies = {"old": one, "same": other, "third": world.policies["never"]}
    for method in (jmdp.ExactPairs(order=3), jmdp.ExactDistribution(), jmdp.MonteCarlo(seed=0, samples=200)):
        result = jmdp.evaluate(world.model, policies, kind(policy_luck=policy_luck), method, starts=world.start)
        for state in ("0", "start"):
            gap = result.gap(state, "same", "old")
            assert gap.mean == gap.variance == 0
            assert gap.mean_interval.width == gap.variance_interval.width == 0
            if not isinstance(method, jmdp.ExactPairs):
                assert float(gap.distribution().ties()) == 1
            assert result.gap(state, "third", "old").variance > 0
    split = jmdp.evaluate(world.model, policies, kind(policy_luck=policy_luck), starts=world.start).variance_split(0, 1)
    assert split.within == split.between == 0


def test_two_policies_with_a_known_gap():
    """One state, U in {0, 1} by a coin. One action earns U and the other 1 − U: their returns sum to 1/(1 − γ).

    The gap is Σ γ^t (2 U_t − 1), of variance 1/(1 − γ²), and twice a return's deviation: correlation −1.
    """
    model = jmdp.TabularJMDP([[0.5, 0.5]], [[[0, 1], [1, 0]]], np.zeros((1, 2, 2), int), 0.5)
    policies = {"u": jmdp.TabularPolicy([[1, 0]]), "1 - u": jmdp.TabularPolicy([[0, 1]])}
    gap = jmdp.evaluate(model, policies, jmdp.Local()).gap(0, "u", "1 - u")
    assert gap.mean == 0
    assert gap.variance == pytest.approx(1 / (1 - 0.25), rel=1e-12)
    assert gap.correlation == pytest.approx(-1, rel=1e-9)
    apart = jmdp.evaluate(model, policies, jmdp.Independent()).gap(0, "u", "1 - u")
    assert apart.variance == pytest.approx(0.5 / (1 - 0.25), rel=1e-12)


@pytest.mark.parametrize(
    "coupling", [pytest.param(c, id=repr(c), marks=[pytest.mark.long] * (i > 2)) for i, c in enumerate(COUPLINGS)]
)
def test_compiled_sweeps_agree_with_sparse_ones(coupling, monkeypatch):
    from jmdp.methods.exact_pairs import pair_sweep

    monkeypatch.setattr(pair_sweep, "_COMPILED_FROM", 300)
    world = jmdp.worlds.windy_gridworld(13, 13)
    policies = {name: world.policies[name] for name in ("careless", "goal_directed")}
    compiled = jmdp.evaluate(world.model, policies, coupling, jmdp.ExactPairs(order=3))
    monkeypatch.setattr(pair_sweep, "_COMPILED_FROM", 10**9)
    monkeypatch.setattr(pair_sweep, "_COMPILED_FROM_TERMS", 10**12)
    sparse = jmdp.evaluate(world.model, policies, coupling, jmdp.ExactPairs(order=3))
    a, b = compiled.certificate, sparse.certificate
    assert (np.abs(compiled.covariance - sparse.covariance) <= a.covariance_error + b.covariance_error).all()
    one, other = (result.gap(5, 0, 1).central_moments[3] for result in (compiled, sparse))
    assert one.low <= other.high
    assert other.low <= one.high


def test_compare_agrees_with_a_finite_horizon():
    """Within 5 standard errors of the exact answer; a false alarm has probability 1e-5 over the 18 numbers."""
    world = jmdp.worlds.inventory(6)
    policy, horizon = world.policies["base_stock"], 12
    exact = jmdp.evaluate(world.model, policy, jmdp.Synchronous(), horizon=horizon)
    drawn = jmdp.compare(world.model, policy, state="3", seed=1, horizon=horizon, samples=4000).summary.samples.returns
    np.testing.assert_array_less(np.abs(drawn.mean(axis=0) - exact.mean[3]), 5 * drawn.std(axis=0) / np.sqrt(4000))
    policies = {name: world.policies[name] for name in ("base_stock", "reorder")}
    exact = jmdp.evaluate(world.model, policies, jmdp.Synchronous("shared"), horizon=horizon, starts=world.start)
    compared = jmdp.compare_policies(world, policies, seed=1, horizon=horizon, samples=4000).summary.samples.returns
    gaps = compared[:, 0] - compared[:, 1]
    gap = exact.gap("start", 0, 1)
    assert abs(gaps.mean() - gap.mean) < 5 * gaps.std() / np.sqrt(len(gaps))


def test_exports_are_by_policy():
    world = jmdp.worlds.inventory(4)
    result = jmdp.evaluate(world.model, dict(world.policies), jmdp.Local(), starts=world.start)
    frame = result.to_dataframe()
    assert frame.index.names == ["state", "policy"]
    assert ("start", "never") in frame.index
    assert result.to_xarray()["covariance"].dims == ("state", "policy", "policy_2")
    assert "4 policies in " in repr(result)
    assert result.plot("start").axes
    with pytest.raises(LabelError, match="no policy 'nevr'"):
        result.gap("start", "nevr", "uniform")


def test_what_is_asked_for_wrongly_is_refused():
    world = jmdp.worlds.inventory(4)
    model, policies = world.model, dict(world.policies)
    with pytest.raises(ModelError, match=r"JIPE does not cover several policies.*Use ExactPairs\(\)"):
        jmdp.evaluate(model, policies, jmdp.Local(), jmdp.JIPE())
    with pytest.raises(ModelError, match=r"does not cover a finite horizon.*Use ExactPairs\(\)"):
        jmdp.evaluate(model, policies["never"], jmdp.Local(), jmdp.MonteCarlo(seed=1), horizon=3)
    with pytest.raises(SettingsError, match="starts=… requires several policies"):
        jmdp.evaluate(model, policies["never"], jmdp.Local(), starts=world.start)
    with pytest.raises(PolicyError, match="dictionary from names"):
        jmdp.evaluate(model, {}, jmdp.Local())
    with pytest.raises(PolicyError, match="policy is a str"):
        jmdp.evaluate(model, {"old": "never"}, jmdp.Local())
    with pytest.raises(ModelError, match="compare_policies"):
        jmdp.evaluate(jmdp.simulators.TabularSimulator(model), policies, jmdp.Local())
    with pytest.raises(SettingsError, match="Give horizon"):
        jmdp.evaluate(model, policies, jmdp.Local(), terminal_value=np.zeros(5))
    with pytest.raises(SettingsError, match="terminal_value has shape"):
        jmdp.evaluate(model, policies, jmdp.Local(), horizon=3, terminal_value=np.zeros(4))
    with pytest.raises(PolicyError, match="The policy has 2 steps, but the horizon is 3"):
        jmdp.evaluate(model, [policies["never"]] * 2, jmdp.Local(), horizon=3)
    with pytest.raises(SettingsError, match="horizon is 0"):
        jmdp.evaluate(model, policies, jmdp.Local(), horizon=0)
    result = jmdp.evaluate(model, policies, jmdp.Local())
    with pytest.raises(UnavailableError, match="Evaluate that policy on its own"):
        result.cross_covariance(0, "never", 1, "never")
    with pytest.raises(UnavailableError, match="has no start"):
        result.variance_split("never", "uniform")
