"""Ordered sweeps against their slow twin, and what they promise: the same fixed point, and certificates that hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import jmdp
from jmdp.base import machine
from jmdp.methods.exact_pairs import ordered_sweep as room
from jmdp.methods.exact_pairs import pair_sweep
from jmdp.methods.exact_pairs.ordered_sweep import OrderedSweep, order_of
from jmdp.methods.exact_pairs.pair_sweep import PairSweep, layout_of
from jmdp.methods.kernels.ordered_product import ordered_product
from jmdp.methods.kernels.tables import PairOutput, PairStep, PairWaves
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.shaping import shape_rewards
from reference.ordered_sweeps import ordered_sweep
from reference.rationals import Truth, violations
from reference.tables import lower_triangle
from sample_models import random_problem


@pytest.fixture
def always(monkeypatch):
    """Ordered sweeps for all tables of one policy under Local."""
    monkeypatch.setattr(pair_sweep, "_COMPILED_FROM", 1)
    monkeypatch.setattr(room, "_FROM", 1)
    monkeypatch.setattr(room, "_MOST_BACK", 1.0)


@pytest.mark.parametrize("size", [1, 5, 8, 9, 61, 530])
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_equal_to_the_slow_twin(size, kind):
    rng = np.random.default_rng(size)
    groups = -(-size // 8)
    starts = np.unique([0, *rng.integers(0, groups + 1, groups // 2), groups]).astype(np.uint64)
    coupled = rng.random(groups) < 0.5
    Q = np.where(rng.random((size, size)) < 6 / size, rng.random((size, size)), 0.0)
    Q /= np.maximum(Q.sum(axis=1, keepdims=True), 1.0)
    H = rng.normal(size=(size, size))
    H = (H + H.T).astype(kind)
    one, other = np.sort(rng.integers(0, size, (2, 3, size)), axis=0)
    fixed, weight = rng.normal(size=size), rng.random((3, size))
    step = csr_array(Q)
    columns = step.indices.astype(np.uint64)
    tables = PairStep(step.indptr.astype(np.uint64), columns, step.data, np.zeros(size), 1.0, 0.9, 1.0)
    up = np.uint64(max(0, int((step.tocoo().col - step.tocoo().row).max(initial=0))))
    waves = PairWaves(starts, coupled, up, fixed, (one * size + other).astype(np.uint64), weight)

    def own(latest, s):
        return fixed[s] + weight[:, s] @ latest[other[:, s], one[:, s]]

    expected = ordered_sweep(Q, H.astype(float), 0.9, starts.astype(int), coupled, own)
    for calls in (1, 3):
        new, change = np.full_like(H, np.nan), np.zeros(32 * groups * (groups + 1), np.float32)
        layout, output = layout_of(size, [step]), PairOutput(new, change, False, True)
        parts = []
        for i in range(starts.size - 1):
            wave = waves._replace(starts=starts[i : i + 2])
            parts += [ordered_product(tables, H, layout, wave, first, calls, output) for first in range(calls)]
        lower = np.tril(np.ones((size, size), bool))
        accuracy = 1e-12 if kind == "float64" else 1e-5
        np.testing.assert_allclose(new[lower], expected[lower], rtol=accuracy, atol=accuracy)
        np.testing.assert_allclose(change, lower_triangle(np.tril(new - H).astype(np.float32)), atol=1e-6)
        assert max(parts) == pytest.approx(np.abs(new - H)[lower].max(), rel=1e-6)


def windy(side, name, discount=0.97):
    world = jmdp.worlds.windy_gridworld(side, side, discount=discount, blown_reward=-0.1)
    return world.model, world.policies[name]


@pytest.mark.parametrize("name", ["goal_directed", "careless"])
def test_the_fixed_point_is_that_of_plain_sweeps(name, always):
    model, policy = windy(9, name)
    operator = PairOperator(model, policy, jmdp.Local(), shape_rewards(model, policy))
    order = order_of(operator)
    solved = jmdp.evaluate(model, policy, jmdp.Local(), jmdp.ExactPairs(1e-13), throw=False).cross
    H = np.ascontiguousarray(solved.H[order][:, order]).ravel()
    unit = solved.operator.units.state[order]
    H = np.ldexp(H.reshape(81, 81), unit[:, None] + unit).ravel()
    with OrderedSweep(operator, order) as sweep:
        assert sweep.measured(H, np.empty_like(H)) <= 1e-13


def test_states_are_ordered_by_moves_to_the_end_and_only_if_most_moves_lead_there(always, monkeypatch):
    monkeypatch.setattr(room, "_MOST_BACK", 0.25)
    model, policy = windy(9, "goal_directed")
    order = order_of(PairOperator(model, policy, jmdp.Local(), shape_rewards(model, policy)))
    rank = np.argsort(order)
    happens = model.prob[:, :, None] * policy.probs[:, None, :] * ~model.terminal[:, None, None] > 0
    assert (rank[model.next_state] <= rank[:, None, None])[happens].all()
    for coupling, other in (
        (jmdp.Local(), "uniform"),
        (jmdp.Synchronous(), "careless"),
        (jmdp.Independent(), "careless"),
    ):
        model, policy = windy(9, other)
        assert order_of(PairOperator(model, policy, coupling, shape_rewards(model, policy))) is None
    model, policy = windy(9, "careless")
    ordered = jmdp.evaluate(model, policy, jmdp.Local())
    monkeypatch.setattr(room, "_FROM", 10**9)
    plain = jmdp.evaluate(model, policy, jmdp.Local())
    assert ordered.residuals.size < plain.residuals.size / 2
    within = ordered.certificate.covariance_error + plain.certificate.covariance_error
    assert (np.abs(ordered.covariance - plain.covariance) <= within).all()


@pytest.mark.parametrize("models", [60, pytest.param(10_000, marks=pytest.mark.long)])
def test_p1_certified_intervals_contain_the_truth(models, always):
    rng = np.random.default_rng(5)
    used = 0
    for i in range(models):
        coupling = jmdp.Local(("independent", "shared")[i % 2])
        model, policy = random_problem(
            rng, states=9, scenarios=2, actions=2, discounts=(0.0, 0.5, 0.9, 0.99, 1 - 2**-20)
        )
        found = order_of(PairOperator(model, policy, coupling, shape_rewards(model, policy)))
        used += found is not None
        for tolerance in (1e-8, 0.0):
            result = jmdp.evaluate(model, policy, coupling, jmdp.ExactPairs(tolerance), throw=False)
            assert violations(result, Truth(model, policy, coupling)) == []
    assert used >= models / 3


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_number_of_threads_does_not_change_a_bit(threads, always, monkeypatch):
    monkeypatch.setattr(room, "_TOGETHER", 1)
    model, policy = windy(13, "careless")
    here = jmdp.evaluate(model, policy, jmdp.Local())
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda process: range(threads))
    there = jmdp.evaluate(model, policy, jmdp.Local())
    np.testing.assert_array_equal(here.covariance, there.covariance)
    np.testing.assert_array_equal(here.residuals, there.residuals)


def test_the_number_of_sweeps_is_limited_and_a_press_of_ctrl_c_keeps_what_is_certified(always, monkeypatch):
    model, policy = windy(13, "careless")
    for most in (1, 2, 5):
        result = jmdp.evaluate(model, policy, jmdp.Local(), jmdp.ExactPairs(max_sweeps=most), throw=False)
        assert result.outcome is jmdp.results.Outcome.SWEEPS_EXHAUSTED
        assert result.residuals.size == most
    full = jmdp.evaluate(model, policy, jmdp.Local())
    real, calls = PairSweep.measured, []

    def measured(self, *arguments):
        calls.append(type(self).__name__)
        if len(calls) == 5:
            machine.signal.raise_signal(machine.signal.SIGINT)
        return real(self, *arguments)

    monkeypatch.setattr(PairSweep, "measured", measured)
    result = jmdp.evaluate(model, policy, jmdp.Local(), throw=False)
    assert result.outcome is jmdp.results.Outcome.INTERRUPTED
    assert calls == ["OrderedSweep"] * 5 + ["PairSweep"]
    off = np.abs(result.covariance - full.covariance)
    assert (off <= result.certificate.covariance_error + full.certificate.covariance_error).all()
