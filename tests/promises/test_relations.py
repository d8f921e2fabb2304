"""Relations that hold exactly, as properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import jmdp
from sample_models import COUPLINGS, random_problem

settings.register_profile(
    "jmdp", deadline=None, derandomize=True, max_examples=60, suppress_health_check=list(HealthCheck)
)
settings.load_profile("jmdp")

seeds = st.integers(0, 2**32 - 1)
couplings = st.sampled_from(COUPLINGS)


def problem(seed, **sizes):
    sizes = {"states": 4, "scenarios": 3, "actions": 3, "discounts": (0.0, 0.5, 0.9, 0.99), **sizes}
    return random_problem(np.random.default_rng(seed), **sizes)


def evaluate(model, policy, coupling, method=jmdp.ExactPairs()):  # noqa: B008 (settings are frozen)
    return jmdp.evaluate(model, policy, coupling, method, throw=False)


def without_ends(model):
    """Terminal states go on, with the scenario probabilities of the others, as `Synchronous` needs."""
    going = model.prob[~model.terminal][:1]
    prob = np.where(model.terminal[:, None], going if going.size else model.prob, model.prob)
    return jmdp.TabularJMDP(prob, model.reward, model.next_state, model.discount)


def rebuilt(model, *, reward=None, discount=None):
    return jmdp.TabularJMDP(
        model.prob,
        model.reward if reward is None else reward,
        model.next_state,
        model.discount if discount is None else discount,
        model.terminal,
    )


def agree(one, other, *, shift=0.0):
    a, b = one.certificate, other.certificate
    assert (np.abs(one.mean + shift - other.mean) <= a.mean_error + b.mean_error + 1e-15 * abs(shift)).all()
    assert (np.abs(one.covariance - other.covariance) <= a.covariance_error + b.covariance_error).all()


@pytest.mark.parametrize(
    "method",
    [jmdp.ExactPairs(), jmdp.JIPE(max_sweeps=300), jmdp.MonteCarlo(seed=0, samples=50, horizon=9)],
    ids=["ExactPairs", "JIPE", "MonteCarlo"],
)
@given(seeds, couplings, st.integers(-300, 300))
def test_scaling_rewards_by_a_power_of_two_scales_moments_bit_for_bit(method, seed, coupling, power):
    model, policy = problem(seed)
    one = evaluate(model, policy, coupling, method)
    other = evaluate(rebuilt(model, reward=np.ldexp(model.reward, power)), policy, coupling, method)
    np.testing.assert_array_equal(np.ldexp(one.mean, power), other.mean)
    np.testing.assert_array_equal(np.ldexp(one.covariance, 2 * power), other.covariance)
    for error, times in (("mean_error", 1), ("covariance_error", 2), ("gap_variance_error", 2)):
        scaled = np.ldexp(getattr(one.certificate, error), times * power)
        np.testing.assert_allclose(scaled, getattr(other.certificate, error), rtol=1e-15, atol=2.0**-1000)
    assert one.outcome is other.outcome


@given(seeds, couplings)
def test_at_discount_zero_one_sweep_is_the_answer(seed, coupling):
    model, policy = problem(seed, discounts=(0.0,))
    result = evaluate(model, policy, coupling)
    assert result.residuals.size == 1
    p = model.prob * ~model.terminal[:, None]
    mean = np.einsum("sk,ska->sa", p, model.reward)
    np.testing.assert_allclose(result.mean, mean, atol=1e-15)
    centred = model.reward - mean[:, None, :]
    together = np.einsum("sk,ska,skb->sab", p, centred, centred)
    if not coupling.shared_in_a_state:
        together *= np.eye(model.shape[2])
    np.testing.assert_allclose(result.covariance, together, atol=1e-15)


@given(seeds, couplings, couplings)
def test_couplings_agree_on_means_and_variances(seed, one, other):
    model, policy = problem(seed)
    a, b = evaluate(model, policy, one), evaluate(model, policy, other)
    np.testing.assert_array_equal(a.mean, b.mean)
    apart = np.abs(a.covariance - b.covariance) <= a.certificate.covariance_error + b.certificate.covariance_error
    assert np.einsum("saa->sa", apart).all()


@given(seeds, couplings)
def test_names_of_states_and_actions_do_not_matter(seed, coupling):
    rng = np.random.default_rng(seed)
    model, policy = problem(seed)
    S, _, A = model.shape
    # Under shared policy luck the order of actions says how one uniform number is inverted.
    actions = np.arange(A) if coupling.policy_luck == "shared" else rng.permutation(A)
    states = rng.permutation(S)
    place = np.argsort(states)
    moved = jmdp.TabularJMDP(
        model.prob[states],
        model.reward[states][:, :, actions],
        place[model.next_state[states][:, :, actions]],
        model.discount,
        model.terminal[states],
    )
    one = evaluate(model, policy, coupling)
    other = evaluate(moved, jmdp.TabularPolicy(policy.probs[states][:, actions]), coupling)
    a, b = one.certificate, other.certificate
    mean, mean_error = (x[states][:, actions] for x in (one.mean, a.mean_error))
    assert (np.abs(mean - other.mean) <= mean_error + b.mean_error).all()
    turned, error = (x[states][:, actions][:, :, actions] for x in (one.covariance, a.covariance_error))
    assert (np.abs(turned - other.covariance) <= error + b.covariance_error).all()


@given(seeds, couplings)
def test_states_nothing_leads_to_change_nothing(seed, coupling):
    model, policy = problem(seed)
    S, K, A = model.shape
    rng = np.random.default_rng(seed)
    going = np.flatnonzero(~model.terminal)
    row = model.prob[going[0]] if going.size else np.eye(1, K)[0]
    larger = jmdp.TabularJMDP(
        np.vstack([model.prob, [row]]),
        np.concatenate([model.reward, rng.uniform(-1, 1, (1, K, A))]),
        np.concatenate([model.next_state, rng.integers(0, S + 1, (1, K, A))]),
        model.discount,
        np.append(model.terminal, False),
    )
    one = evaluate(model, policy, coupling)
    other = evaluate(larger, jmdp.TabularPolicy(np.vstack([policy.probs, np.full((1, A), 1 / A)])), coupling)
    a, b = one.certificate, other.certificate
    assert (np.abs(one.mean - other.mean[:S]) <= a.mean_error + b.mean_error[:S]).all()
    assert (np.abs(one.covariance - other.covariance[:S]) <= a.covariance_error + b.covariance_error[:S]).all()


@given(seeds, couplings, st.sampled_from([-2.0, 0.5, 3.0]))
def test_a_constant_added_to_rewards_moves_means_only(seed, coupling, constant):
    model, policy = problem(seed)
    model = without_ends(model)
    moved = rebuilt(model, reward=np.where((model.prob > 0)[:, :, None], model.reward + constant, 0.0))
    shift = constant / (1 - model.discount)
    one, other = evaluate(model, policy, coupling), evaluate(moved, policy, coupling)
    rounding = 1e-15 * (1 + abs(constant)) / (1 - model.discount)  # of the rewards themselves
    assert (
        np.abs(one.mean + shift - other.mean) <= one.certificate.mean_error + other.certificate.mean_error + rounding
    ).all()
    slack = one.certificate.covariance_error + other.certificate.covariance_error + 10 * rounding
    assert (np.abs(one.covariance - other.covariance) <= slack).all()


def test_with_an_end_a_constant_added_to_rewards_changes_more():
    """Negative control: how long a walk lasts is random, so a constant per step is not."""
    world = jmdp.worlds.windy_gridworld()
    policy = world.policies["careless"]
    other = jmdp.worlds.windy_gridworld(goal_reward=2.0, step_reward=1.0)
    one, moved = jmdp.evaluate(world.model, policy, jmdp.Local()), jmdp.evaluate(other.model, policy, jmdp.Local())
    with pytest.raises(AssertionError):
        agree(one, moved, shift=1.0 / (1 - 0.95))
    assert np.abs(one.covariance - moved.covariance).max() > 0.1


@given(seeds, couplings)
def test_without_luck_there_is_no_covariance(seed, coupling):
    model, _ = problem(seed, scenarios=1)
    policy = jmdp.TabularPolicy.deterministic(
        model, np.random.default_rng(seed).integers(0, model.shape[2], model.shape[0])
    )
    result = evaluate(model, policy, coupling)
    assert (np.abs(result.covariance) <= result.certificate.covariance_error).all()
    assert result.certificate.covariance_error.max() <= 1e-20 * max(1.0, np.abs(result.mean).max()) ** 2


@given(seeds, couplings)
def test_covariances_are_positive_semidefinite(seed, coupling):
    model, policy = problem(seed)
    S, _, A = model.shape
    result = evaluate(model, policy, coupling)
    whole = np.array(
        [[result.cross_covariance(s, a, t, b) for t in range(S) for b in range(A)] for s in range(S) for a in range(A)]
    )
    np.testing.assert_array_equal(whole, whole.T)
    assert (
        np.linalg.eigvalsh(whole).min()
        >= -S * A * result.certificate.covariance_error.max() - 1e-13 * np.abs(whole).max()
    )


@given(seeds, couplings)
def test_gaps_are_antisymmetric_and_their_std_is_a_metric(seed, coupling):
    model, policy = problem(seed)
    A = model.shape[2]
    assume(A == 3)
    result = evaluate(model, policy, coupling)
    gaps = {(a, b): result.gap(0, a, b) for a in range(A) for b in range(A)}
    for (a, b), gap in gaps.items():
        assert gap.mean == -gaps[b, a].mean
        assert gap.variance == gaps[b, a].variance
    slack = 4 * np.sqrt(4 * result.certificate.covariance_error.max()) + 4e-16 * gaps[0, 2].std
    assert gaps[0, 2].std <= gaps[0, 1].std + gaps[1, 2].std + slack


def test_splitting_a_state_keeps_marginals_and_changes_local_covariance():
    """A modelling hazard: two copies of one place draw their scenarios apart under Local."""

    def start(n):
        return jmdp.TabularJMDP(
            [[0.5, 0.5]] * (n + 2),
            [[[0.0, 0.0]] * 2] + [[[1.0, 1.0], [-1.0, -1.0]]] * n + [[[0.0, 0.0]] * 2],
            [[[1, n]] * 2] + [[[n + 1, n + 1]] * 2] * (n + 1),
            0.9,
            [False] * (n + 1) + [True],
        )

    one, two = (
        jmdp.evaluate(model, jmdp.TabularPolicy.deterministic(model, [0] * model.shape[0]), jmdp.Local())
        for model in (start(1), start(2))
    )
    np.testing.assert_allclose(one.mean[0], two.mean[0], atol=1e-15)
    np.testing.assert_allclose(np.diag(one.covariance[0]), np.diag(two.covariance[0]), rtol=1e-12)
    assert one.correlation[0, 0, 1] == pytest.approx(1.0)
    assert two.correlation[0, 0, 1] == pytest.approx(0.0)
