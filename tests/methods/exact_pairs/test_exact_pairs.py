"""ExactPairs against the pair chain written out, closed forms and exact rationals."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import jmdp
from jmdp.errors import NotConvergedError, SettingsError
from jmdp.methods.shared.fixed_point import Past, StoppingRule, Sweeps, iterate
from reference import pair_chain
from reference.rationals import Truth, exact, violations
from sample_models import COUPLINGS, random_problem

MODELS = 30


def all_covariances(evaluation):
    S, A = evaluation.mean.shape
    return np.array(
        [[[[evaluation.cross_covariance(s, a, t, b) for b in range(A)] for t in range(S)] for a in range(A)]
         for s in range(S)]
    )  # fmt: skip


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_equal_to_the_pair_chain(coupling):
    """30 models a coupling, to 1e-9 of the largest covariance.

    The oracle subtracts squared means, so its own rounding, 1e-13 of the largest squared mean, is allowed for.
    """
    rng = np.random.default_rng(20261115)
    worst = 0.0
    terminals = negatives = 0
    for _ in range(MODELS):
        model, policy = random_problem(rng, common_prob=coupling.shared_between_states)
        terminals += bool(model.terminal.any())
        negatives += bool((model.reward < 0).any())
        mean, covariance = pair_chain.covariances(model, policy, coupling)
        result = jmdp.evaluate(model, policy, coupling)
        np.testing.assert_allclose(result.mean, mean, rtol=1e-9, atol=1e-9 * np.abs(mean).max())
        off = np.abs(all_covariances(result) - covariance).max()
        assert off <= 1e-9 * np.abs(covariance).max() + 1e-13 * (mean**2).max()
        if np.abs(covariance).max() > 1e-6 * (mean**2).max():
            worst = max(worst, off / np.abs(covariance).max())
    print(f"{coupling}: {MODELS} models, largest relative difference {worst:.1e}")
    assert worst < 1e-9
    assert min(terminals, negatives) >= 5


@pytest.mark.parametrize("discount", [0.0, 0.3, 0.9, 0.999])
def test_one_state_with_equal_means_and_variances(discount):
    """C = (c₁ + γ² m V)/(1 − γ²(1 − m)) with m = Σπ², V = σ²/(1 − γ²)."""
    rewards = np.array([[1.0, 0.5, -1.5], [-1.5, 1.0, 0.5], [0.5, -1.5, 1.0]])  # rows: scenarios; a Latin square
    model = jmdp.TabularJMDP([[1 / 3, 1 / 3, 1 / 3]], rewards[None], np.zeros((1, 3, 3), int), discount)
    pi = np.array([0.5, 0.3, 0.2])
    result = jmdp.evaluate(model, jmdp.TabularPolicy(pi[None]), jmdp.Local())
    variance = (rewards**2).sum() / 9 / (1 - discount**2)
    shared = (rewards[:, 0] * rewards[:, 1]).mean()
    m = (pi**2).sum()
    together = (shared + discount**2 * m * variance) / (1 - discount**2 * (1 - m))
    expected = np.where(np.eye(3, dtype=bool), variance, together)
    np.testing.assert_allclose(result.covariance[0], expected, rtol=1e-9)


def ring(states=25, discount=0.9999):
    """A chain closed into a ring, with a different spread of rewards in each state: recurrent, no end."""
    rng = np.random.default_rng(1)
    reward = rng.normal(size=(states, 2, 2))
    onward = (np.arange(states)[:, None, None] + np.array([[1, 2], [1, 1]])) % states
    return jmdp.TabularJMDP(np.full((states, 2), 0.5), reward, onward, discount)


@pytest.mark.parametrize("name", ["chain", "ring"])
def test_variances_at_discount_9999_to_1e9_relative(name):
    """25 states, γ = 0.9999: every variance to 1e-9 of itself against exact rationals."""
    model = ring() if name == "ring" else jmdp.worlds.coupled_reward_chain(25, up=0.3, discount=0.9999).model
    policy = jmdp.TabularPolicy.uniform(model)
    result = jmdp.evaluate(model, policy, jmdp.Local())
    truth = Truth(model, policy, jmdp.Local())
    worst = 0.0
    for i, (s, a) in enumerate(truth.coordinates):
        right = truth.square[i] - truth.mean[i] ** 2
        if right == 0:
            assert result.covariance[s, a, a] == 0
        else:
            worst = max(worst, abs(float((exact(result.covariance[s, a, a]) - right) / right)))
    stated = result.certificate.covariance_error.max()
    print(f"{name}: largest relative error of a variance {worst:.1e}, certified {stated:.1e}")
    assert worst <= 1e-9


@pytest.mark.parametrize("coupling", [c for c in COUPLINGS if not c.shared_between_states], ids=repr)
def test_probabilities_may_differ_between_states(coupling):
    model, policy = random_problem(np.random.default_rng(7), common_prob=False)
    result = jmdp.evaluate(model, policy, coupling)
    _, covariance = pair_chain.covariances(model, policy, coupling)
    np.testing.assert_allclose(all_covariances(result), covariance, atol=1e-10)


def test_all_terminal_and_all_zero_models_are_exact():
    for terminal, reward in ((True, 1.0), (False, 0.0)):
        model = jmdp.TabularJMDP([[1.0]], [[[reward]]], [[[0]]], 0.99, [terminal])
        for coupling in COUPLINGS:
            for method in (jmdp.ExactPairs(tolerance=0.0), jmdp.JIPE(tolerance=0.0)):
                result = jmdp.evaluate(model, jmdp.TabularPolicy([[1.0]]), coupling, method)
                assert result.certificate.kind == "exact"
                assert np.max(result.certificate.covariance_error) == result.covariance.max() == 0.0


def test_outcomes_are_loud_unless_asked_otherwise():
    world = jmdp.worlds.windy_gridworld()
    policy = world.policies["uniform"]
    few = jmdp.ExactPairs(max_sweeps=3)
    with pytest.raises(NotConvergedError, match=r"stopped after 3 sweeps: max_sweeps is used up") as caught:
        jmdp.evaluate(world.model, policy, jmdp.Local(), method=few)
    quiet = jmdp.evaluate(world.model, policy, jmdp.Local(), method=few, throw=False)
    assert quiet.outcome is caught.value.evaluation.outcome is jmdp.results.Outcome.SWEEPS_EXHAUSTED
    assert quiet.residuals.size == 3
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.evaluation.outcome is quiet.outcome
    with pytest.raises(NotConvergedError, match="rounding errors are larger than the tolerance"):
        jmdp.evaluate(world.model, policy, jmdp.Local(), method=jmdp.ExactPairs(tolerance=0.0))


class Changes(Past):
    """Recorded changes as the driver asks for them, in plain NumPy and a weighted maximum norm."""

    def __init__(self, changes, units):
        self.changes, self.length, self.units = changes, len(changes), units
        self.combined, self.asked, self.taken = np.inf, 0, 0

    def gram(self):
        differ = np.concatenate([np.diff(self.changes, axis=0), self.changes[-1:]])
        return differ @ differ.T

    def largest(self, weights):
        self.combined = float(np.abs(weights @ self.changes / self.units).max())
        self.asked += 1
        return self.combined

    def add(self, weights, point):
        assert self.combined < np.abs(self.changes[-1] / self.units).max()
        self.combined = np.inf
        self.taken += 1
        point += weights @ self.changes


def test_no_accelerated_step_is_worse_than_a_plain_sweep():
    """For an affine contraction the residual falls by at least the rate in every sweep, whatever is combined."""
    rng = np.random.default_rng(0)
    asked = taken = 0
    for _ in range(50):
        size, rate = int(rng.integers(2, 40)), float(rng.choice([0.5, 0.9, 0.99]))
        matrix = np.tril(rng.random((size, size)) ** 3)  # far from normal: where combinations go astray
        matrix *= rate / np.abs(matrix).sum(axis=1).max()
        source = rng.normal(size=size)
        units = 10 ** rng.uniform(-3, 3, size)  # small where a 2-norm hardly looks
        past = Changes(np.zeros((4, size)), units)
        matrix, source = matrix * np.divide.outer(units, units), source * units

        def measured(x, out, change, A=matrix, b=source, units=units):
            out[:] = b + A @ x
            if change is not None:
                change[:] = out - x
            return float(np.abs((out - x) / units).max())

        found = iterate(
            Sweeps(measured, past),
            np.zeros(size),
            np.zeros(size),
            StoppingRule(1e-10, lambda x: 0.0, rate, 10_000),
            lambda sweeps, residual, aim: None,
        )
        assert found.outcome is jmdp.results.Outcome.CONVERGED
        assert (found.residuals[1:] <= rate * found.residuals[:-1] * (1 + 1e-6) + 1e-12).all()
        asked, taken = asked + past.asked, taken + past.taken
        right = np.linalg.solve(np.eye(size) - matrix, source)
        np.testing.assert_allclose(found.point / units, right / units, rtol=1e-6, atol=1e-7)
    assert 10 < taken < asked - 10


def test_single_precision_says_so_in_its_certificate():
    """Half the memory; the stated error grows to single precision's, holds, and is no larger than that."""
    rng = np.random.default_rng(3)
    for coupling in COUPLINGS:
        for _ in range(5):
            model, policy = random_problem(rng, states=3, scenarios=3, actions=2, discounts=(0.5, 0.9))
            result = jmdp.evaluate(model, policy, coupling, jmdp.ExactPairs(1e-4, precision="float32"), throw=False)
            assert violations(result, Truth(model, policy, coupling)) == []
    for states, scenarios in ((2, 300), (400, 60)):  # an entry is stored once for each scenario
        signs = np.where(np.arange(scenarios) % 2, 1.0, -1.0)
        reward = np.broadcast_to(signs[None, :, None], (states, scenarios, 2))
        onward = (np.arange(states)[:, None, None] + np.arange(2)) % states
        common = jmdp.TabularJMDP(
            np.full((states, scenarios), 1 / scenarios), reward, np.broadcast_to(onward, reward.shape), 0.9
        )
        uniform = jmdp.TabularPolicy.uniform(common)
        half = jmdp.evaluate(
            common, uniform, jmdp.Synchronous(), jmdp.ExactPairs(1e-6, precision="float32"), throw=False
        )
        full = jmdp.evaluate(common, uniform, jmdp.Synchronous(), jmdp.ExactPairs(1e-11))
        assert (np.abs(half.covariance - full.covariance) <= half.certificate.covariance_error).all()
    world = jmdp.worlds.windy_gridworld(25, 25)
    policy = world.policies["careless"]
    half = jmdp.evaluate(world.model, policy, jmdp.Local(), method=jmdp.ExactPairs(1e-4, precision="float32"))
    full = jmdp.evaluate(world.model, policy, jmdp.Local())
    operator = full.cross.operator
    drawn = np.ldexp(operator.V, 2 * (operator.units.state + operator.shaped.scale.exponent))
    largest = max(full.covariance.max(), drawn.max())  # what the tolerance is relative to
    assert half.cross.H.dtype == np.float32
    assert 1e-7 * largest < half.certificate.covariance_error.max() <= 1e-4 * largest
    assert (np.abs(half.covariance - full.covariance) <= half.certificate.covariance_error).all()
    with pytest.raises(NotConvergedError, match="rounding errors are larger than"):
        jmdp.evaluate(world.model, policy, jmdp.Local(), method=jmdp.ExactPairs(1e-8, precision="float32"))
    with pytest.raises(SettingsError, match=r"precision is 'half'\. Use 'float64' or 'float32'"):
        jmdp.ExactPairs(precision="half")
