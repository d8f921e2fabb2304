"""The distribution of one gap to a tolerance of its own: only what can follow it is computed again."""

from __future__ import annotations

import pickle

import pytest

import jmdp

COARSE = jmdp.ExactDistribution(tolerance=0.2, cells=64)


@pytest.fixture(scope="module")
def rules():
    world = jmdp.worlds.inventory(capacity=4)
    policies = {"old": world.policies["base_stock"], "new": world.policies["reorder"]}
    return world, policies


def width(distribution):
    return max(interval().interval.width for interval in (distribution.superiority, distribution.inferiority))


def agree(one, other):
    for x in (-3.0, 0.0, 1.5):
        a, b = one.cdf(x).interval, other.cdf(x).interval
        assert a.low <= b.high
        assert b.low <= a.high


@pytest.mark.parametrize(("horizon", "tolerance"), [(None, 0.03), (12, 0.004)])
def test_gaps_of_policies_and_of_their_start(rules, horizon, tolerance, tmp_path):
    world, policies = rules
    found = jmdp.evaluate(
        world.model, policies, jmdp.Synchronous(), COARSE, starts=world.start, horizon=horizon, discount=None
    )
    found.save(tmp_path / "saved.nc")
    for kept in (found, pickle.loads(pickle.dumps(found)), jmdp.load(tmp_path / "saved.nc")):
        for state in ("start", kept.states[1]) if kept is found else ("start",):
            gap = kept.gap(state, "new", "old")
            fine = gap.distribution(tolerance=tolerance)
            assert width(fine) <= tolerance < width(gap.distribution())
            agree(fine, gap.distribution())
            assert kept.gap(state, "old", "new").distribution(tolerance=tolerance).quantile(0.5).interval.width < 3


def test_gaps_of_actions_need_only_the_pairs_that_can_follow(rules):
    world, policies = rules
    found = jmdp.evaluate(world.model, policies["new"], jmdp.Local(), COARSE)
    gap = found.gap(1, 2, 0)
    table = found.distributions.refined([(1, 2, 0)], 0.03)
    assert table.steps.drawn.starts.size < found.distributions.steps.drawn.starts.size
    assert table.steps.given.starts.size == 2
    fine = gap.distribution(tolerance=0.03)
    assert width(fine) <= 0.03
    agree(fine, gap.distribution())
    agree(
        fine,
        jmdp.evaluate(world.model, policies["new"], jmdp.Local(), jmdp.ExactDistribution()).gap(1, 2, 0).distribution(),
    )


def test_what_cannot_be_reached_is_said(rules):
    world, policies = rules
    few = jmdp.ExactDistribution(cells=64, max_cells=64)
    gap = jmdp.evaluate(world.model, policies, jmdp.Synchronous(), few, throw=False).gap(1, "new", "old")
    with pytest.raises(jmdp.errors.NotConvergedError, match=r"width of .* not to the tolerance 1e-06.*max_cells"):
        gap.distribution(tolerance=1e-6)
    with pytest.raises(jmdp.errors.SettingsError, match="tolerance"):
        gap.distribution(tolerance=-1)
    sampled = jmdp.evaluate(world.model, policies, jmdp.Synchronous(), jmdp.MonteCarlo(seed=0, samples=64), throw=False)
    with pytest.raises(jmdp.errors.UnavailableError, match="more samples"):
        sampled.gap(1, "new", "old").distribution(tolerance=0.1)
