"""Plans with some of the alternatives: episodes, compiled tables, and whether randomness was used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import jmdp
from jmdp.methods.monte_carlo.samples import CompiledTable
from jmdp.models.actors.as_policy import as_policy
from jmdp.simulators import FunctionSimulator, Simulator, Step, TabularSimulator, action_labels
from jmdp.simulators.rollouts.episodes_in_place import EpisodesInPlace
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import paired_draws
from jmdp.simulators.starts import Starts
from sample_models import COUPLINGS

GRID = jmdp.worlds.windy_gridworld(3, 3)
SETTINGS = {"discount": 0.9, "horizon": 9, "seed": 5}


def episode_plan(simulator, policies, coupling, starts) -> BranchPlan:
    actors = [as_policy(policy, simulator.actions) for policy in policies]
    return BranchPlan(starts=Starts.of(starts, simulator), actors=actors, coupling=coupling, **SETTINGS)


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_episodes_of_a_subset_are_the_same(coupling):
    simulator = TabularSimulator(GRID.model)
    plan = episode_plan(simulator, [GRID.policies["uniform"]] * 3, coupling, [4, 5])
    some = plan.some([2, 1])
    whole, drawn = (paired_draws(simulator, one, 3, 20) for one in (plan, some))
    assert np.array_equal(drawn.returns, whole.returns[:, [2, 1]])
    assert np.array_equal(drawn.starts, whole.starts[:, [2, 1]])


def rising(seen):
    return np.array([seen[0] % 1, 1 - seen[0] % 1])


@pytest.mark.parametrize("starts", [None, [(0.2, 0)], {(0.2, 0): 0.25, (0.9, 0): 0.75}], ids=["own", "one", "two"])
@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_episodes_in_lockstep_are_those_in_place(coupling, starts):
    """Bit for bit, for each kind of randomness that is redrawn: the engine in place is the slow twin."""
    simulator = FunctionSimulator(
        lambda s, a, u: u * s[0] - a,
        lambda s, a, u: (round(0.5 * s[0] + u - 0.4 * a, 1), s[1] + 1),
        2,
        terminal=lambda s: s[0] > 1.2,
        start=lambda rng: (round(rng.random(), 1), 0),
    )
    plan = episode_plan(simulator, [rising, "uniform", lambda s: int(s[0] > 0.5), "uniform"], coupling, starts)
    plan = replace(plan, branches=(4, 0, 2, 1), alternatives=5, stratify=starts is not None)
    for fresh in (frozenset(), frozenset({"steps"}), frozenset({"policies"}), frozenset({"steps", "policies"})):
        one = replace(plan, fresh=fresh)
        slow, fast = EpisodesInPlace(simulator, one, 3, 20).run(), paired_draws(simulator, one, 3, 20)
        for name in ("returns", "ends", "gains", "starts"):
            assert np.array_equal(getattr(fast, name), getattr(slow, name)), name
            assert getattr(fast, name).dtype == getattr(slow, name).dtype
        for name in ("largest_reward", "steps", "shared_steps", "drew", "paired"):
            assert getattr(fast, name) == getattr(slow, name), name
        assert (slow.ends < 0).any()
        assert (slow.ends >= 0).any()


def test_rows_of_a_table_never_repeat_the_random_numbers_of_another_subset():
    """The first two of three are drawn by another generator than three, though their numbers are 0 and 1."""
    simulator, actor = CompiledTable(GRID.model), as_policy(GRID.policies["uniform"], GRID.model.actions)
    plan = BranchPlan.of_actions(actor, state=4, actions=[0, 1, 2], coupling=jmdp.Local(), **SETTINGS)
    two = plan.some([0, 1])
    alone = BranchPlan.of_actions(actor, state=4, actions=[0, 1], coupling=jmdp.Local(), **SETTINGS)
    assert (plan.subset, alone.subset, len(two.subset)) == (b"", b"", 16)
    drawn, whole = (paired_draws(simulator, one, 0, 64).returns for one in (two, plan))
    assert not np.array_equal(drawn[0], whole[0, :2])
    assert not np.array_equal(drawn, paired_draws(simulator, alone, 0, 64).returns)
    part = paired_draws(simulator, two, 10, 20).returns
    assert np.array_equal(part, drawn[10:30])


class Counter(Simulator):
    """Draws nothing, except in its start."""

    actions = action_labels(2)

    def step(self, state, action, shock):
        return Step(float(action), state + 1, False)

    def start(self, shock):
        return 0


def test_episodes_say_whether_randomness_was_used():
    simulator = Counter()
    settled, random = [lambda s: 0, lambda s: 1], [lambda s: 0, "uniform"]
    for policies, starts, drew in [(settled, [0], False), (settled, [0, 1], True), (settled, None, True),
                                   (random, [0], True)]:  # fmt: skip
        plan = episode_plan(simulator, policies, jmdp.Synchronous(), starts)
        assert paired_draws(simulator, plan, 0, 5).drew == drew
