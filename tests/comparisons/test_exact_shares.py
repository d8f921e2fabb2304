"""Exact shares of the variance of a gap by source, of tables that declare their sources."""

from __future__ import annotations

import numpy as np
import pytest

import jmdp
from jmdp.errors import ModelError
from reference.source_shares import SmallTable, variances

QUIET = {"seed": 0, "samples": 8, "progress": False}
COUPLINGS = {False: jmdp.Synchronous(), True: jmdp.Local()}


def policy_of(table):
    return jmdp.TabularPolicy.deterministic(table.model, table.policy.tolist())


def check(explained, variances, rel=1e-9):
    """First-order and total shares of u and w, and that of their interaction."""
    whole, u, w = variances
    for source, own, other in (("u", u, w), ("w", w, u)):
        first, total = explained.first_order(source), explained.total(source)
        assert float(first) == pytest.approx(own / whole, rel=rel)
        assert float(total) == pytest.approx((whole - other) / whole, rel=rel)
        assert first.low <= own / whole * (1 + 1e-12)
        assert first.high >= own / whole * (1 - 1e-12)
        assert first.error < 1e-6
    assert float(explained.interactions) == pytest.approx((whole - u - w) / whole, rel=rel)
    assert explained.samples == explained.runs == 0


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_finite_horizon_equals_the_enumeration(seed, local):
    """Three steps; two, if each state has draws of its own."""
    table = SmallTable.random(seed, outcomes=(2, 3) if not local else (2, 2), horizon=2 if local else 3, local=local)
    found = jmdp.compare(
        table.model, policy_of(table), state=0, discount=1, horizon=table.horizon, coupling=COUPLINGS[local], **QUIET
    )
    explained = found.explain(0, 1)
    check(explained, table.variances())
    assert explained.sources == tuple(sorted(("u", "w"), key=lambda name: -explained.total(name)))
    returns, (p, q) = table.listed()
    other = np.einsum("uwa,u->wa", returns, p)
    left = np.einsum("uwa,u,w->a", returns**2, p, q) - np.einsum("wa,w->a", other**2, q)
    moves = explained.moves("u")
    assert [float(moves["0"]), float(moves["1"])] == pytest.approx(np.sqrt(left).tolist(), rel=1e-8)


def test_policies_from_one_start():
    table = SmallTable.random(6)
    flipped = SmallTable(table.u, table.w, table.reward, table.next_state, 1 - table.policy)
    policies = {"one": policy_of(table), "other": policy_of(flipped)}
    found = jmdp.compare_policies(table.model, policies, starts=[0], discount=1, horizon=3, **QUIET)
    returns, (p, q) = table.listed()
    others, _ = flipped.listed()
    gap = returns[..., table.policy[0]] - others[..., flipped.policy[0]]
    check(found.explain("one", "other"), variances(gap, p, q))


@pytest.mark.parametrize("coupling", [jmdp.Synchronous(), jmdp.Local()], ids=repr)
def test_an_infinite_horizon(coupling):
    """Both sources together explain the variance of `evaluate`; one alone what the other's total leaves."""
    table = SmallTable.random(8, states=3, outcomes=(3, 2))
    found = jmdp.compare(table.model, policy_of(table), state=0, coupling=coupling, **QUIET).explain(0, 1)
    gap = jmdp.evaluate(table.model, policy_of(table), coupling).gap(0, 0, 1)
    for name, other in (("u", "w"), ("w", "u")):
        left = float(found.moves(name)["0 − 1"]) ** 2
        assert left == pytest.approx(float(found.total(name)) * gap.variance, rel=1e-8)
        assert float(found.first_order(other)) == pytest.approx(1 - float(found.total(name)))
    assert found.confidence is None


def test_sampled_shares_of_a_table_agree_with_the_exact_ones():
    """300 samples, intervals at 95%; the seed is fixed."""
    table = SmallTable.random(1, states=3)
    found = jmdp.compare(table.model, policy_of(table), state=0, discount=1, horizon=3, **QUIET)
    exact, sampled = found.explain(0, 1), found.explain(0, 1, samples=300)
    assert sampled.samples == 300
    for name in ("u", "w"):
        assert sampled.first_order(name).low <= exact.first_order(name) <= sampled.first_order(name).high
        assert sampled.total(name).low <= exact.total(name) <= sampled.total(name).high


def test_a_random_policy_is_a_source_and_sampled():
    table = SmallTable.random(2)
    found = jmdp.compare(table.model, "uniform", state=0, **QUIET).explain(0, 1, samples=20)
    assert set(found.sources) == {"u", "w", "policy"}
    assert found.samples == 20


def test_sources_must_be_independent_and_fit():
    prob = np.array([[0.4, 0.1, 0.1, 0.4]])
    rest = np.zeros((1, 4, 1)), np.zeros((1, 4, 1), int), 0.5
    with pytest.raises(ModelError, match=r"a, b are not independent in state 0: scenario 0 has probability 0\.4, the"):
        jmdp.TabularJMDP(prob, *rest, sources={"a": 2, "b": 2})
    for wrong in ({"a": 2}, {"a": 0, "b": 2}, {}, {1: 4}, ["a"], {"a": 2.5, "b": 2}):
        with pytest.raises(ModelError, match="Give the number of outcomes of each source"):
            jmdp.TabularJMDP(prob, *rest, sources=wrong)
    nearly = np.outer([0.5, 0.5], [0.25, 0.75]).reshape(1, 4) + np.array([1e-10, -1e-10, 0, 0])
    model = jmdp.TabularJMDP(nearly, *rest, sources={"a": 2, "b": np.int64(2)})
    assert model.sources == {"a": 2, "b": 2}


def test_sources_are_saved(tmp_path):
    pytest.importorskip("h5netcdf")
    model = SmallTable.random(0).model
    model.save(tmp_path / "table.nc")
    assert jmdp.load(tmp_path / "table.nc").sources == {"u": 2, "w": 2}
