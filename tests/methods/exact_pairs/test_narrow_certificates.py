"""Certificates of ExactPairs are of use: narrow for each part of a model, or the outcome says that they are not."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

import jmdp
from jmdp.errors import CertificateError
from jmdp.methods.exact_pairs.direct_solve import refine
from jmdp.methods.exact_pairs.pair_table import PairTable
from jmdp.methods.shared import shaping
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.policy_chain import ChainSolver
from jmdp.methods.shared.same_state import StateClasses
from jmdp.methods.shared.state_units import StateUnits
from jmdp.testing import check_certificate
from reference.rationals import Truth, exact, violations
from sample_models import COUPLINGS, random_problem

COIN = np.array([[1.0, 0.0], [0.0, 1.0]])  # scenario × action: one action wins where the other loses


def coins(scales, leads_to, discount=0.9):
    """One state for each scale; in scenario 1 action 1 leads to another state, all else stays."""
    S = len(scales)
    onward = np.repeat(np.arange(S), 4).reshape(S, 2, 2)
    onward[:, 1, 1] = leads_to
    reward = np.multiply.outer(np.array(scales), COIN)
    return jmdp.TabularJMDP(np.full((S, 2), 0.5), reward, onward, discount)


def solved(model, coupling=None, **settings):
    policy, coupling = jmdp.TabularPolicy.uniform(model), coupling or jmdp.Local()
    result = jmdp.evaluate(model, policy, coupling, jmdp.ExactPairs(**settings), throw=False)
    truth = Truth(model, policy, coupling)
    assert violations(result, truth) == []
    return result, truth


def worst_ratio(result, truth):
    """The largest stated error over the true one, of any mean and any covariance within a state."""
    worst = 0.0
    S, A = result.mean.shape
    for s in range(S):
        for a in range(A):
            off = abs(float(exact(result.mean[s, a]) - truth.mean[truth.index[s, a]]))
            worst = max(worst, result.certificate.mean_error[s, a] / off)
            for b in range(A):
                off = abs(float(exact(result.covariance[s, a, b]) - truth.covariance(s, a, s, b)))
                worst = max(worst, result.certificate.covariance_error[s, a, b] / off)
    return worst


@pytest.mark.parametrize("coupling", [jmdp.Local(), jmdp.Synchronous()], ids=repr)
@pytest.mark.parametrize("leads_to", [[0, 1], [1, 1], [0, 0]], ids=["apart", "large into small", "small into large"])
def test_parts_of_reward_scale_1e8_and_1_are_certain_to_ten_times_their_true_error(leads_to, coupling):
    result, truth = solved(coins([1e8, 1.0], leads_to), coupling)
    assert result.outcome is jmdp.results.Outcome.CONVERGED
    ratio = worst_ratio(result, truth)
    print(f"{leads_to}, {coupling}: stated errors up to {ratio:.2f} times the true ones")
    assert ratio <= 10
    if leads_to[1] == 1:  # the small part is on its own
        assert result.gap(1, 0, 1).variance_interval.width < 1e-13


@pytest.mark.parametrize("scale", [1e-120, 1e8, 1e120])
@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_a_part_that_is_not_reached_changes_no_interval(scale, coupling):
    """With and without refinement, which shared policy luck does not get."""
    for tolerance in (1e-10, 1e-4):
        alone, truth = solved(coins([1.0], [0]), coupling, tolerance=tolerance)
        beside, _ = solved(coins([scale, 1.0], [0, 1]), coupling, tolerance=tolerance)
        assert alone.outcome is beside.outcome is jmdp.results.Outcome.CONVERGED
        allowed = tolerance * float(truth.covariance(0, 0, 0, 0))
        assert beside.certificate.covariance_error[1].max() <= allowed
        assert (beside.certificate.mean_error[1] <= 2 * alone.certificate.mean_error[0]).all()


def test_a_chain_of_classes_is_certain_in_units_of_what_each_can_reach():
    """1 → 1e8 → 1e-8: the first class inherits the scale of the second, the third has its own."""
    model = coins([1.0, 1e8, 1e-8], [1, 2, 2])
    policy = jmdp.TabularPolicy.uniform(model)
    shaped = shaping.shape_rewards(model, policy)
    assert shaped.classes.count == 3
    units = StateUnits.of(model, policy, shaped).state
    assert units[0] == units[1] > units[2] + 50
    result, _ = solved(model, jmdp.Local("shared"), tolerance=1e-9)
    assert result.outcome is jmdp.results.Outcome.CONVERGED
    variance = np.einsum("saa->sa", result.covariance)
    errors = np.einsum("saa->sa", result.certificate.covariance_error)
    assert (errors[1:] <= 1e-9 * variance[1:]).all()
    assert (errors[0] <= 1e-9 * variance[:2].max()).all()


def test_rewards_with_an_offset_of_1e12():
    for discount in (0.0, 0.9, 0.999):
        model = jmdp.TabularJMDP([[0.5, 0.5]], 1e12 + COIN[None], np.zeros((1, 2, 2), int), discount)
        result, truth = solved(model)
        met = result.certificate.covariance_error.max() <= 1e-10 * float(truth.covariance(0, 0, 0, 0))
        assert (result.outcome is jmdp.results.Outcome.CONVERGED) == met
        assert met or discount > 0.9
        assert result.gap(0, 0, 1).variance_interval.width <= 1e-6


@pytest.mark.parametrize("power", [6, 9, 12, 15])
def test_discounts_near_one_are_narrow_or_said_not_to_be(power):
    model = jmdp.TabularJMDP([[0.5, 0.5]], COIN[None], np.zeros((1, 2, 2), int), 1 - 10.0**-power)
    result, truth = solved(model)
    gap = result.gap(0, 0, 1)
    met = result.certificate.covariance_error.max() <= 1e-10 * float(truth.covariance(0, 0, 0, 0))
    assert (result.outcome is jmdp.results.Outcome.CONVERGED) == met
    if power <= 9:
        assert gap.variance_interval.width < 0.5
    print(f"1 − 1e-{power}: {result.outcome.name}, variance of the gap in {gap.variance_interval}")


def test_converged_means_that_each_part_reached_the_tolerance():
    """Random models side by side with a copy of 2**-40 of the rewards: each part against its own largest variance."""
    rng = np.random.default_rng(5)
    outcomes = set()
    for i in range(18):
        coupling = COUPLINGS[i % len(COUPLINGS)]
        model, policy = random_problem(rng, states=3, scenarios=2, actions=2, discounts=(0.5, 0.99))
        S = model.shape[0]
        both = jmdp.TabularJMDP(
            np.concatenate([model.prob] * 2),
            np.concatenate([model.reward, 2.0**-40 * model.reward]),
            np.concatenate([model.next_state, model.next_state + S]),
            model.discount,
            np.concatenate([model.terminal] * 2),
        )
        twice = jmdp.TabularPolicy(np.concatenate([policy.probs] * 2))
        tolerance = float(rng.choice([1e-3, 1e-9, 1e-17]))
        result = jmdp.evaluate(both, twice, coupling, jmdp.ExactPairs(tolerance), throw=False)
        outcomes.add(result.outcome)
        for part in (slice(0, S), slice(S, 2 * S)):
            largest = result.covariance[part].max()
            if result.outcome is jmdp.results.Outcome.CONVERGED and largest > 0:
                floor = 2.0**-100 * np.abs(result.mean[part]).max() ** 2
                assert result.certificate.covariance_error[part].max() <= tolerance * max(largest, floor) * (1 + 1e-9)
    assert {jmdp.results.Outcome.CONVERGED, jmdp.results.Outcome.STALLED} <= outcomes


def test_classes_and_what_they_reach():
    """0 ⇄ 1 → 2, 3 apart; action 1 of state 2 leads to 3 and is never taken."""
    onward = np.array([[[1, 1]], [[0, 2]], [[2, 3]], [[3, 3]]])
    model = jmdp.TabularJMDP(np.ones((4, 1)), np.zeros((4, 1, 2)), onward, 0.9)
    policy = jmdp.TabularPolicy([[0.5, 0.5], [0.5, 0.5], [1.0, 0.0], [1.0, 0.0]])
    classes = StateClasses.of(model, policy)
    assert classes.count == 3
    assert classes.label[0] == classes.label[1]
    np.testing.assert_array_equal(classes.reachable_max(np.array([1.0, 2.0, 3.0, 9.0])), [3.0, 3.0, 3.0, 9.0])
    np.testing.assert_array_equal(classes.reachable_max(np.array([7.0, 2.0, 3.0, 0.0])), [7.0, 7.0, 3.0, 0.0])


def test_a_class_has_the_error_of_v_that_it_reaches(monkeypatch):
    """With values that are off in the second class alone, the first has the error that comes from there."""
    monkeypatch.setattr(shaping, "_MOST_REFINEMENTS", 1)
    monkeypatch.setattr(
        shaping, "policy_chain_solver", lambda *problem: ChainSolver(lambda b: np.array([9.0, 10.5]), lambda b: b)
    )
    model = jmdp.TabularJMDP([[1.0]] * 2, [[[0.0]], [[1.0]]], [[[1]], [[1]]], 0.9)  # v = 0.9 × 10, and 10
    shaped = shaping.shape_rewards(model, jmdp.TabularPolicy([[1.0]] * 2))
    off = np.abs(shaped.scale.restore(shaped.mean)[:, 0] - [9.0, 10.0])
    assert (off > 0.4).all()
    assert (shaped.scale.restore(shaped.mean_errors)[:, 0] >= off).all()


def test_what_a_refinement_leaves_is_in_the_error():
    """A correction that is stopped after one sweep: the intervals are wide and hold."""
    model = coins([1.0, 3.0, 0.7], [1, 2, 0], 0.99)
    policy, coupling = jmdp.TabularPolicy.uniform(model), jmdp.Local()
    shaped = shaping.shape_rewards(model, policy)
    operator = PairOperator(model, policy, coupling, shaped, units=StateUnits.of(model, policy, shaped))
    H = operator.start().reshape(3, 3)
    H += 0.1
    refined = refine(operator, H, 0, 1)
    table = PairTable(operator, H, 0.0, refined)
    truth = Truth(model, policy, coupling)
    errors, found = table.covariance_error(), table.covariance()
    off = np.array(
        [
            [[abs(float(exact(found[s, a, b]) - truth.covariance(s, a, s, b))) for b in range(2)] for a in range(2)]
            for s in range(3)
        ]
    )
    assert off.max() > 0.01
    assert (off <= errors).all()


def test_the_checker_holds_each_part_to_its_own_errors():
    """A change far below the errors of the large part is noticed in the small one."""
    model = coins([1e8, 1.0], [0, 1])
    policy = jmdp.TabularPolicy.uniform(model)
    result = jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.ExactPairs(1e-6))
    check_certificate(model, policy, result)
    covariance, table = result.covariance.copy(), result.cross.H.copy()
    covariance[1, 0, 1] += 1e-9
    table[1, 1] += 1e-9
    for changed in (
        dataclasses.replace(result, covariance=covariance),
        dataclasses.replace(result, cross=dataclasses.replace(result.cross, H=table)),
    ):
        with pytest.raises(CertificateError, match="an error of"):
            check_certificate(model, policy, changed)


def digests() -> str:
    """Of answers for tables whose products BLAS used to make."""
    rng = np.random.default_rng(0)
    found = hashlib.sha256()
    for S, K, A in ((60, 6, 6), (290, 6, 6)):
        prob = np.broadcast_to(rng.dirichlet(np.ones(K)), (S, K))
        model = jmdp.TabularJMDP(prob, rng.normal(size=(S, K, A)), rng.integers(0, S, (S, K, A)), 0.95)
        policy = jmdp.TabularPolicy(rng.dirichlet(np.ones(A), S))
        for order in (2, 3) if S < 100 else (2,):
            result = jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.ExactPairs(order=order))
            for array in (result.mean, result.covariance, result.certificate.covariance_error, result.cross.H):
                found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def test_the_number_of_blas_threads_does_not_change_a_bit():
    command = [sys.executable, "-c", "import test_narrow_certificates as t; print(t.digests())"]
    paths = [os.path.dirname(__file__), os.path.dirname(os.path.dirname(os.path.dirname(__file__))), *sys.path]
    found = {
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        ).stdout
        for threads in ("1", "2")
    }
    assert len(found) == 1


def test_an_interrupt_during_the_refinement_keeps_the_table(monkeypatch):
    world = jmdp.worlds.windy_gridworld(4, 4)
    policy = world.policies["uniform"]
    whole = jmdp.evaluate(world.model, policy, jmdp.Local())
    from jmdp.methods.exact_pairs import direct_solve

    def interrupted(*args):
        return dataclasses.replace(iterate(*args), outcome=jmdp.results.Outcome.INTERRUPTED)

    iterate = direct_solve.iterate
    monkeypatch.setattr(direct_solve, "iterate", interrupted)
    found = jmdp.evaluate(world.model, policy, jmdp.Local(), throw=False)
    assert found.outcome is jmdp.results.Outcome.INTERRUPTED
    error = np.asarray(found.certificate.covariance_error)
    assert (np.abs(found.covariance - whole.covariance) <= error + whole.certificate.covariance_error).all()
