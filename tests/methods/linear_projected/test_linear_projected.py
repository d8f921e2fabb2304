"""LinearProjected against ExactPairs, the dense twin on all pairs, and the theorems it rests on."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import jmdp
from jmdp.errors import CouplingError, LabelError, MemoryBudgetError, ModelError, SettingsError
from jmdp.methods.linear_projected import Restart, Stationary, features, psd_fit
from jmdp.methods.linear_projected.psd_fit import Cone, outer, packed, unpacked
from reference import pair_chain, projected
from reference.containment import Checks
from reference.rationals import Truth
from sample_models import ergodic, random_problem, some_features

COUPLINGS = [coupling(luck) for coupling in (jmdp.Local, jmdp.Synchronous) for luck in ("independent", "shared")]
one_hot = features.OneHot()


def going(rng, **sizes):
    """A random problem in which something goes on."""
    while True:
        model, policy = random_problem(rng, **sizes)
        if not model.terminal.all():
            return model, policy


def gap_variances(covariance):
    """[S, pairs], of all gaps of distinct actions."""
    a, b = np.triu_indices(covariance.shape[1], 1)
    own = np.einsum("saa->sa", covariance)
    return own[:, a] + own[:, b] - 2 * covariance[:, a, b]


@pytest.mark.parametrize("scale", [1e-320, 1e-160, 1e140])
@pytest.mark.parametrize("target", ["covariance", "second_moment"])
def test_rewards_of_any_scale(target, scale):
    """With 1e-320, the factor β of the norm that means and second moments share would be larger than any float."""
    reward = scale * np.array([[[1.0, 2.0], [3.0, -1.0]]])
    model = jmdp.TabularJMDP([[0.5, 0.5]], reward, np.zeros((1, 2, 2), int), 0.9)
    policy = jmdp.TabularPolicy.uniform(model)
    result = jmdp.evaluate(
        model, policy, jmdp.Local(), method=jmdp.LinearProjected(one_hot, target=target), throw=False
    )
    checks = Checks()
    checks.moments(result, Truth(model, policy, jmdp.Local()), [0])
    assert checks.missed == []
    assert np.isfinite(result.certificate.covariance_error).all()
    assert result.projection.beta is None or 0 < result.projection.beta < np.inf


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
@pytest.mark.parametrize("target", ["covariance", "second_moment"])
@pytest.mark.parametrize("weights", [Restart(), Stationary()], ids=repr)
def test_one_hot_features_are_exact_where_the_weights_look(weights, target, coupling):
    """To 1e-8 of the largest variance or, for second moments, of the largest second moment; certificates hold."""
    rng = np.random.default_rng(20261201)
    worst, done = 0.0, 0
    while done < 8:
        model, policy = going(rng, states=5, actions=3, scenarios=3)
        truth = jmdp.evaluate(model, policy, coupling)
        method = jmdp.LinearProjected(one_hot, weights=weights, target=target)
        try:
            result = jmdp.evaluate(model, policy, coupling, method)
        except ModelError:  # everything ends, and nothing is stationary
            assert isinstance(weights, Stationary)
            continue
        done += 1
        looks = result.projection.weights > 0
        assert looks[~model.terminal].all() or isinstance(weights, Stationary)
        off = np.abs(result.covariance - truth.covariance)
        scale = truth.covariance.max() + (truth.mean**2).max() * (target == "second_moment")
        assert off[looks].max(initial=0) <= 1e-8 * scale + 1e-12 * (truth.mean**2).max()
        worst = max(worst, off[looks].max(initial=0) / scale if scale > 1e-9 else 0.0)
        assert (off <= result.certificate.covariance_error + truth.certificate.covariance_error).all()
        mean_off = np.abs(result.mean - truth.mean)
        assert (mean_off <= result.certificate.mean_error + truth.certificate.mean_error).all()
        assert np.isfinite(result.certificate.covariance_error[looks]).all()
        seen = result.certificate.covariance_error[looks].max(initial=0)
        assert seen <= 1e-5 * scale + 1e-9 * (truth.mean**2).max(), "the certificate is of use"
    print(f"{coupling}, {target}, {weights}: largest relative difference {worst:.1e}")


def twin_of(model, policy, coupling, phi, psi, target, alpha):
    kernel = projected.pair_kernel(model, policy, coupling)
    w, nu = projected.restart_weights(model, policy, coupling, alpha, kernel)
    return projected.Projected(model, policy, coupling, phi, w, nu, kernel, psi, target)


@pytest.mark.parametrize("models", [12, pytest.param(50, marks=pytest.mark.long)])
@pytest.mark.parametrize("part", range(4))
def test_contraction_and_both_bounds_hold_on_random_models(part, models):
    """Weights, fixed point, measured contraction ≤ κ, the paper's bound and ours; 200 models at length."""
    rng = np.random.default_rng([20261202, part])
    slopes, constrained, loose = [], 0, []
    for i in range(models):
        coupling, target = COUPLINGS[part], ("covariance", "second_moment")[i % 2]
        model, policy = going(rng, states=3, actions=2, scenarios=3)
        S, _, A = model.shape
        X = S * A
        phi = some_features(rng, model, 3)
        psi = some_features(rng, model, 1) if rng.random() < 0.5 else None
        alpha = float(rng.uniform(model.discount**2 + 0.02 * (1 - model.discount**2), 0.98))
        method = jmdp.LinearProjected(phi, psi, Restart(alpha), target)
        result = jmdp.evaluate(model, policy, coupling, method)
        found, mean = result.projection, result.mean.ravel()
        constrained += found.constrained
        twin = twin_of(model, policy, coupling, phi, psi, target, alpha)

        where = [(x // A, x % A) for x in range(X)]
        w = np.array([[found.weight(*x, *y) for y in where] for x in where])
        np.testing.assert_allclose(w, twin.w, atol=1e-6 * twin.w.max())
        c, c_mean = twin.contractions()
        assert c <= found.contraction * (1 + 1e-6) <= (1 + 1e-5) / alpha
        assert c_mean <= found.mean_contraction * (1 + 1e-6) <= (1 + 1e-5) / alpha

        lam = np.zeros((0, 0)) if psi is None else found.same_state_parameters
        kernel = twin.kernel_of(found.pair_parameters, lam)
        size = twin.norm(kernel) + (mean**2).max() + 1e-9
        assert twin.norm(twin.project(twin.step(mean, kernel)) - kernel) <= 1e-5 * size
        assert twin.mean_norm(twin.project_mean(twin.step_mean(mean)) - mean) <= 1e-9 * (np.abs(mean).max() + 1e-9)

        beta = found.beta

        def joint(mean, kernel, twin=twin, beta=beta):
            return max(twin.mean_norm(mean), beta * twin.norm(kernel)) if beta else twin.norm(kernel)

        # Contraction, from random tables and along iterates; the covariance with the mean as it is.
        on = ~np.repeat(model.terminal, A)  # nothing is earned from a terminal state
        one = on * rng.standard_normal(X), rng.standard_normal((X, X))
        other = (on * rng.standard_normal(X) if beta else one[0]), rng.standard_normal((X, X))
        one, other = ((m, np.multiply.outer(on, on) * (k + k.T)) for m, k in (one, other))
        for _ in range(2):
            before = joint(one[0] - other[0], one[1] - other[1])
            one, other = (
                (twin.project_mean(twin.step_mean(m)) if beta else m, twin.project(twin.step(m, k), 1500))
                for m, k in (one, other)
            )
            after = joint(one[0] - other[0], one[1] - other[1])
            assert after <= found.kappa * before * (1 + 1e-6) + 1e-7
            slopes.append(after / before / found.kappa if before and found.kappa else 0.0)

        true_mean, truth = pair_chain.covariances(model, policy, coupling)
        true_mean, truth = true_mean.ravel(), truth.reshape(X, X)
        fitted_truth = truth + (np.multiply.outer(true_mean, true_mean) if beta else 0.0)
        slack = 1e-7 * size
        # The paper's, a priori.
        off = joint(mean - true_mean, kernel - fitted_truth)
        apart = joint(twin.project_mean(true_mean) - true_mean, twin.project(fitted_truth) - fitted_truth)
        if not beta:  # what the mean's error does to the source
            apart += twin.norm(twin.step(mean, truth) - twin.step(true_mean, truth))
        assert off <= apart / (1 - found.kappa) + slack
        # Ours, a posteriori.
        assert twin.mean_norm(mean - true_mean) <= found.mean_bound * (1 + 1e-6) + 1e-10 * np.abs(mean).max()
        assert twin.norm(kernel - fitted_truth) <= found.norm_bound * (1 + 1e-6) + 1e-10 * size
        loose.append(found.norm_bound / max(twin.norm(kernel - fitted_truth), 1e-300))
        for x, y in np.ndindex(X, X):
            answer = result.cross_covariance(*where[x], *where[y])
            bound = found.error_bound(*where[x], *where[y])
            assert abs(answer - truth[x, y]) <= bound * (1 + 1e-9) + 1e-11 * size
            assert found.guaranteed(*where[x], *where[y]) == bool(
                w[x, y] > 0 or model.terminal[where[x][0]] or model.terminal[where[y][0]]
            )
        inside = np.abs(result.covariance - np.einsum("satb,st->sab", truth.reshape(S, A, S, A), np.eye(S)))
        assert (inside <= result.certificate.covariance_error * (1 + 1e-9) + 1e-11 * size).all()
    print(
        f"{coupling}: measured / κ at most {max(slopes):.4f}, {constrained} of {models} constrained, "
        f"median bound / error {np.median(loose):.3g}"
    )
    assert max(slopes) <= 1 + 1e-6
    assert constrained >= 1


def test_start_pairs_in_different_states():
    """Pairs one cares about may be anywhere: weights and fixed point are those of the twin."""
    rng = np.random.default_rng(20261203)
    for i in range(8):
        coupling = COUPLINGS[i % 4]
        model, policy = ergodic(rng, 0.8)
        S, _, A = model.shape
        pairs = [((0, 1), (1, 0)), ((2, 0), (2, 1)), ((0, 0), (2, 1))]
        phi, psi = rng.standard_normal((S * A, 3)), rng.standard_normal((S * A, 2)) if i % 2 else None
        method = jmdp.LinearProjected(phi, psi, Restart(start=pairs))
        result = jmdp.evaluate(model, policy, coupling, method)
        kernel = projected.pair_kernel(model, policy, coupling)
        w0 = np.zeros((S, A, S, A))
        for (s, a), (t, b) in pairs:
            w0[s, a, t, b] += 1 / 6
            w0[t, b, s, a] += 1 / 6
        w = np.linalg.solve(np.eye(len(kernel)) - 0.8 * kernel.T, 0.2 * w0.ravel()).reshape(S * A, -1)
        P, _ = projected.chain(model, policy)
        nu = np.linalg.solve(np.eye(S * A) - 0.8 * P.T, 0.2 * w0.reshape(S * A, -1).sum(axis=1))
        twin = projected.Projected(model, policy, coupling, phi, w, nu, kernel, psi)
        for x, y in np.ndindex(S * A, S * A):
            assert result.projection.weight(*divmod(x, A), *divmod(y, A)) == pytest.approx(w[x, y], abs=1e-7)
        lam = np.zeros((0, 0)) if psi is None else result.projection.same_state_parameters
        fitted = twin.kernel_of(result.projection.pair_parameters, lam)
        off = twin.norm(twin.project(twin.step(result.mean.ravel(), fitted)) - fitted)
        assert off <= 1e-6 * twin.norm(fitted)


@pytest.mark.parametrize("models", [30, pytest.param(100, marks=pytest.mark.long)])
def test_restart_beats_stationary_on_gap_variances(models):
    """Ergodic models, 2 to 5 random features: mean square error over states and pairs of actions, all alike."""
    rng = np.random.default_rng(20261204)
    wins = []
    for i in range(models):
        model, policy = ergodic(rng, float(rng.choice([0.8, 0.9, 0.95])))
        S, _, A = model.shape
        phi = rng.standard_normal((S * A, int(rng.integers(2, min(6, S * A)))))
        coupling = COUPLINGS[2 * (i % 2)]
        truth = gap_variances(jmdp.evaluate(model, policy, coupling).covariance)
        errors = []
        for weights in (Restart(), Stationary()):
            result = jmdp.evaluate(model, policy, coupling, jmdp.LinearProjected(phi, weights=weights), throw=False)
            errors.append(((gap_variances(result.covariance) - truth) ** 2).mean())
        wins.append(errors[0] <= errors[1] * (1 + 1e-9))
    print(f"restart is no worse in {100 * np.mean(wins):.0f}% of models")
    assert np.mean(wins) >= 0.9


def test_fits_are_positive_semidefinite():
    """Θ, Λ and the covariances of each state, to rounding, also where the fit alone would not be."""
    rng = np.random.default_rng(20261206)
    constrained = 0
    for _ in range(30):
        model, policy = ergodic(rng, 0.8)
        phi, psi = some_features(rng, model, 5), some_features(rng, model, 2)
        result = jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.LinearProjected(phi, psi))
        found = result.projection
        constrained += found.constrained
        for matrix in (found.pair_parameters, found.same_state_parameters, *result.covariance):
            values = np.linalg.eigvalsh((matrix + matrix.T) / 2)
            assert values[0] >= -1e-9 * max(values[-1], 1e-3)
    assert constrained >= 5


def test_the_error_of_the_mean_is_in_the_bound():
    """A sure reward of 1, φ = 0 and ψ = 1: the fit takes E[1²] for noise and has no Bellman residual of its own."""
    model = jmdp.TabularJMDP([[1.0]], [[[1.0]]], [[[0]]], 0.5)
    policy = jmdp.TabularPolicy([[1.0]])
    result = jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.LinearProjected([[0.0]], [[1.0]]))
    assert result.mean[0, 0] == 0
    assert result.covariance[0, 0, 0] == pytest.approx(1 / (1 - 0.25))  # the truth is 0
    assert result.projection.norm_bound >= np.sqrt(result.projection.weights[0, 0, 0]) * result.covariance[0, 0, 0]
    assert result.certificate.mean_error[0, 0] == pytest.approx(2)


def test_samples_come_to_the_answer_of_the_table_like_the_root_of_their_number():
    """Mean errors at 8 000 and 72 000 samples, 10 seeds each: their ratio is 3, up to a factor of 1.8 either way.

    Over 60 seeds the ratio is 3.1 and 3.3, and the error of a seed varies by 40% of its mean. So the logarithm of a
    ratio of means of 10 has a standard deviation of 0.18, and log 1.8 less the bias is 2.8 of them: fewer than 1 in 100
    choices of seeds raise a false alarm.
    """
    world = jmdp.worlds.inventory(3, most_ordered=2, mean_demand=1.0, discount=0.8)
    model, policy = world.model, world.policies["uniform"]
    S, _, A = model.shape
    phi = np.random.default_rng(3).standard_normal((S * A, 3))
    for coupling, psi in ((jmdp.Local(), None), (jmdp.Synchronous(), phi[:, :1])):
        exact = jmdp.evaluate(model, policy, coupling, jmdp.LinearProjected(phi, psi))
        errors = []
        for n in (8_000, 72_000):
            off = []
            for seed in range(10):
                method = jmdp.LinearProjected(phi, psi, samples=n, seed=seed)
                result = jmdp.evaluate(model, policy, coupling, method, throw=False)
                assert result.certificate is None
                assert result.outcome is jmdp.results.Outcome.SAMPLED
                off.append(np.abs(result.covariance - exact.covariance).mean())
            errors.append(np.mean(off))
        print(f"{coupling}: {errors[0]:.3g} → {errors[1]:.3g}, ratio {errors[0] / errors[1]:.2f}")
        assert 3 / 1.8 <= errors[0] / errors[1] <= 3 * 1.8


def test_samples_are_those_of_their_seed():
    world = jmdp.worlds.inventory(3, most_ordered=2, mean_demand=1.0, discount=0.8)
    one, other, again = (
        jmdp.evaluate(
            world.model,
            world.policies["uniform"],
            jmdp.Local(),
            method=jmdp.LinearProjected(one_hot, samples=2000, seed=seed),
        )
        for seed in (1, 2, 1)
    )
    np.testing.assert_array_equal(one.covariance, again.covariance)
    assert (one.covariance != other.covariance).any()
    assert not one.projection.guaranteed(0, 0, 0, 1)


def test_rewards_in_cents_and_euros_fit_alike():
    """Bit for bit, for a factor that is a power of two; errors too."""
    model, policy = ergodic(np.random.default_rng(7))
    large = jmdp.TabularJMDP(model.prob, model.reward * 1024, model.next_state, model.discount)
    phi = np.random.default_rng(8).standard_normal((model.shape[0] * model.shape[2], 3))
    one, other = (
        jmdp.evaluate(m, policy, jmdp.Local(), method=jmdp.LinearProjected(phi, phi[:, :2])) for m in (model, large)
    )
    np.testing.assert_array_equal(one.covariance * 2.0**20, other.covariance)
    np.testing.assert_allclose(one.certificate.covariance_error * 2.0**20, other.certificate.covariance_error)


def test_the_kernel_of_one_state_helps():
    """Independent noise in each state: a smooth kernel spreads it over neighbours, one of their own holds it."""
    rng = np.random.default_rng(9)
    S = 12
    reward = rng.choice([-1.0, 1.0], (S, 2, 2))
    reward[:, 1] = -reward[:, 0]
    next_state = np.stack([np.arange(1, S + 1) % S, np.arange(S)], axis=1)[:, None, :].repeat(2, axis=1)
    model = jmdp.TabularJMDP(np.full((S, 2), 0.5), reward, next_state, 0.5)
    policy = jmdp.TabularPolicy.uniform(model)
    truth = jmdp.evaluate(model, policy, jmdp.Local()).covariance
    few = features.Polynomial(np.cos(2 * np.pi * np.arange(S) / S)[:, None], 1)
    without, with_it = (
        jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.LinearProjected(few, own, target="covariance"))
        for own in (None, one_hot)
    )
    assert np.abs(with_it.covariance - truth).max() < 0.2 * np.abs(without.covariance - truth).max()


def test_triangles():
    """⟨outer(u, v), packed(Θ)⟩ = uᵀ Θ v, and the cone's nearest point is nearest."""
    rng = np.random.default_rng(10)
    u, v = rng.standard_normal((2, 5, 4))
    theta = rng.standard_normal((4, 4))
    theta += theta.T
    np.testing.assert_allclose(outer(u, v) @ packed(theta), np.einsum("xi,ij,xj->x", u, theta, v))
    np.testing.assert_allclose(unpacked(packed(theta), 4), theta)
    clipped, least = Cone([4]).nearest(packed(theta))
    values = np.linalg.eigvalsh(theta)
    assert least == pytest.approx(values[0] / np.abs(values).max())
    assert np.linalg.norm(clipped - packed(theta)) == pytest.approx(np.linalg.norm(np.minimum(values, 0)))


def cycle(states=2, discount=0.5):
    """Round and round, one action, a reward of 1."""
    ahead = (np.arange(states)[:, None, None] + 1) % states
    model = jmdp.TabularJMDP(np.ones((states, 1)), np.ones((states, 1, 1)), ahead, discount)
    return model, jmdp.TabularPolicy.uniform(model)


def test_converged_means_that_the_tolerance_is_met():
    """In most fits that need the cone, within 1000 sweeps; and few sweeps, or a tolerance of 0, are owned up to."""
    rng = np.random.default_rng(20261207)
    met = []
    while len(met) < 30:
        model, policy = ergodic(rng, 0.9)
        phi, psi = some_features(rng, model, 5), some_features(rng, model, 2)
        result = jmdp.evaluate(
            model, policy, jmdp.Local(), method=jmdp.LinearProjected(phi, psi, max_sweeps=1000), throw=False
        )
        if not result.projection.constrained:
            continue
        met.append(result.outcome is jmdp.results.Outcome.CONVERGED)
        assert met[-1] == (result.residuals[-1] <= 1e-10)
        for settings in ({"max_sweeps": 1}, {"tolerance": 0.0}):
            other = jmdp.evaluate(
                model, policy, jmdp.Local(), method=jmdp.LinearProjected(phi, psi, **settings), throw=False
            )
            assert not other.outcome.successful or other.residuals[-1] == 0
    print(f"converged {100 * np.mean(met):.0f}%")
    assert np.mean(met) >= 0.9


def test_an_answer_of_zero_is_found():
    """The best fit in the cone may be 0: here the only feature is wanted with a negative sign."""
    found = psd_fit.fit(np.eye(1), np.eye(1), np.array([-1.0]), Cone([1, 0]), 1e-10, 1000)
    assert found.outcome is jmdp.results.Outcome.CONVERGED
    assert found.parameters[0] == 0


def test_weights_too_small_for_a_float_void_nothing():
    """Pairs far apart in a corridor of 300 have weights like 0.05^300."""
    S = 300
    ahead = np.minimum(np.arange(S) + 1, S - 1)[:, None, None] * np.ones((1, 1, 2), int)
    ahead[:, 0, 1] = np.arange(S)
    model = jmdp.TabularJMDP(np.ones((S, 1)), np.random.default_rng(0).random((S, 1, 2)), ahead, 0.05)
    result = jmdp.evaluate(
        model, jmdp.TabularPolicy.uniform(model), jmdp.Local(), method=jmdp.LinearProjected(np.ones((S * 2, 1)))
    )
    assert result.projection.contraction <= (1 + 1e-6) / 0.05
    assert np.isfinite(result.certificate.covariance_error).all()


@pytest.mark.parametrize("settings", [{}, {"same_state": True}, {"weights": Stationary()}, {"samples": 9, "seed": 1}])
def test_features_that_vanish_fit_zero(settings):
    model, policy = cycle()
    result = jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.LinearProjected(np.zeros((2, 1)), **settings))
    assert not result.mean.any()
    assert not result.covariance.any()
    assert result.certificate is None or (result.certificate.mean_error >= 2).all()


@pytest.mark.parametrize("factor", [1e160, 1e-170])
def test_the_size_of_features_does_not_matter(factor):
    model, policy = ergodic(np.random.default_rng(7))
    phi = np.random.default_rng(8).standard_normal((model.shape[0] * model.shape[2], 3))
    one, other = (
        jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.LinearProjected(f, f[:, :2]))
        for f in (phi, phi * factor)
    )
    np.testing.assert_allclose(one.covariance, other.covariance, atol=1e-9)


def test_memory_is_refused_before_it_is_used():
    """One-hot features of 20 000 coordinates are a matrix of 3 GiB."""
    model, policy = cycle(20_000)
    tracemalloc.start()
    with pytest.raises(MemoryBudgetError, match="Use fewer features"):
        jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.LinearProjected(one_hot, memory_budget=10**9))
    assert tracemalloc.get_traced_memory()[1] < 10**8
    tracemalloc.stop()


def test_projections_are_asked_by_name_or_index():
    model, policy = cycle()
    named = jmdp.TabularJMDP(
        model.prob, model.reward, model.next_state, 0.5, state_names=["a", "b"], action_names=["go"]
    )
    found = jmdp.evaluate(named, policy, jmdp.Local(), method=jmdp.LinearProjected(one_hot)).projection
    for ask in (found.weight, found.error_bound, found.guaranteed):
        assert ask("a", "go", "b", "go") == ask(0, 0, 1, 0)
        with pytest.raises(LabelError):
            ask(-1, 0, 0, 0)


def test_guaranteed_pairs_are_counted():
    rng = np.random.default_rng(11)
    for weights in (Restart(start=[((0, 0), (0, 1))]), Stationary()):
        model, policy = ergodic(rng)
        found = jmdp.evaluate(
            model, policy, jmdp.Local(), method=jmdp.LinearProjected(one_hot, weights=weights)
        ).projection
        S, _, A = model.shape
        each = [found.guaranteed(s, a, s, b) for s in range(S) for a in range(A) for b in range(a)]
        assert found.guaranteed_pairs == (sum(each), len(each))


def test_one_hot_twice_needs_no_cone():
    """Θ and Λ overlap in all of one state: shared out well, both are positive semidefinite."""
    world = jmdp.worlds.inventory(3, most_ordered=2, mean_demand=1.0, discount=0.8)
    result = jmdp.evaluate(
        world.model, world.policies["uniform"], jmdp.Local(), method=jmdp.LinearProjected(one_hot, True)
    )
    assert not result.projection.constrained


def test_features_that_are_none_are_refused():
    for bad in ("onehot", False, np.True_, 3.0, [[1.0], [1.0, 2.0]], np.eye(2) * 1j):
        with pytest.raises(SettingsError, match=r"^features"):
            jmdp.LinearProjected(bad)
        with pytest.raises(SettingsError, match=r"^same_state"):
            jmdp.LinearProjected(one_hot, bad)
    nothing = jmdp.TabularJMDP([[1.0]], [[[0.0]]], [[[0]]], 0.5, terminal=[True])
    with pytest.raises(SettingsError, match="Every state is terminal"):
        jmdp.evaluate(nothing, jmdp.TabularPolicy([[1.0]]), jmdp.Local(), method=jmdp.LinearProjected([[1.0]]))


def test_what_is_refused():
    world = jmdp.worlds.windy_gridworld(3, 3)
    model, policy = world.model, world.policies["careless"]
    for settings, said in (
        ({"weights": "restart"}, r"Give Restart\(\) or Stationary\(\)"),
        ({"target": "variance"}, "Use 'covariance' or 'second_moment'"),
        ({"samples": 100}, "Give both, or neither"),
        ({"samples": 100, "seed": 1, "weights": Stationary()}, r"Use weights=Restart\(\)"),
    ):
        with pytest.raises(SettingsError, match=said):
            jmdp.LinearProjected(one_hot, **settings)
    with pytest.raises(SettingsError, match=r"between that and 1"):
        jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.LinearProjected(one_hot, weights=Restart(0.9)))
    with pytest.raises(SettingsError, match="start is empty"):
        Restart(start=[])
    with pytest.raises(SettingsError, match="which is terminal"):
        jmdp.evaluate(
            model, policy, jmdp.Local(), method=jmdp.LinearProjected(one_hot, weights=Restart(start=[((2, 0), (0, 0))]))
        )
    with pytest.raises(ModelError, match=r"Use weights=Restart\(\)"):
        jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.LinearProjected(one_hot, weights=Stationary()))
    with pytest.raises(CouplingError, match=r"Use ExactPairs\(\)"):
        jmdp.evaluate(model, policy, jmdp.Independent(), jmdp.LinearProjected(one_hot))
    with pytest.raises(MemoryBudgetError, match="Use fewer features"):
        jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.LinearProjected(one_hot, memory_budget=1_000_000))


def test_settings_compare_and_print():
    array = np.eye(4)
    one, other = jmdp.LinearProjected(array), jmdp.LinearProjected(array.copy())
    assert one == other
    assert hash(one) == hash(other)
    assert one != jmdp.LinearProjected(2 * array)
    method = jmdp.LinearProjected(one_hot, True, Restart(0.95), tolerance=1e-6)
    said = "LinearProjected(features.OneHot(), same_state=True, weights=Restart(continuation=0.95, start=None), "
    assert repr(method) == said + "tolerance=1e-06)"
    assert eval(repr(method), vars(jmdp.methods.linear_projected)) == method
