"""Paired rollouts against a slow twin that goes one branch at a time and merges nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jmdp
from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.models.actors.actor import Actor
from jmdp.models.actors.as_policy import as_policy
from jmdp.simulators import FunctionSimulator, TabularSimulator
from jmdp.simulators.rollouts.draws import ENDED
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import paired_draws
from jmdp.simulators.simulator import Simulator, Step
from reference.rollouts import paired_branches
from sample_models import COUPLINGS

GRID = jmdp.worlds.windy_gridworld(3, 3, blown_reward=-0.5)


def drawn_by_plan(simulator, state, actions, actor, coupling, *, first, count, **settings):
    plan = BranchPlan.of_actions(actor, state=state, actions=actions, coupling=coupling, **settings)
    return paired_draws(simulator, plan, first, count)


def frozen_lake() -> Simulator:
    gym = pytest.importorskip("gymnasium")
    from jmdp.simulators import GymnasiumSimulator

    return GymnasiumSimulator(gym.make("FrozenLake-v1", desc=["SFF", "FFF", "FHG"]), check=False)


def drift() -> Simulator:
    """States that never recur, with several numbers of luck."""
    return FunctionSimulator(
        lambda s, a, u: float(s[0] * (a - 1) + u[1]),
        lambda s, a, u: (s[0] + u[0] * (a + 1), s[1] + 1),
        3,
        luck=lambda rng: rng.normal(size=2),
        terminal=lambda s: s[0] > 2,
        start=(0.0, 0),
    )


def lattice() -> Simulator:
    """States that recur often; an action must not be forgotten though states are equal."""
    return FunctionSimulator(
        lambda s, a, u: float(s == 0) + a * (u < 0.3),
        lambda s, a, u: (s + (u < 0.5) * a - (u > 0.8)) % 4,
        ["stay", "one", "two"],
        start=1,
    )


def draws_with(rng_action: int):
    def policy(observation: Any, rng: np.random.Generator) -> int:
        return int(rng.integers(rng_action))

    return policy


CASES: dict[str, tuple[Any, Any, Any]] = {
    "table": (lambda: TabularSimulator(GRID.model), 4, GRID.policies["uniform"]),
    "table, settled": (lambda: TabularSimulator(GRID.model), 4, GRID.policies["goal_directed"]),
    "FrozenLake": (frozen_lake, None, np.full((9, 4), 0.25)),
    "drift": (drift, None, lambda s: np.array([0.2, 0.3, 0.5]) if s[0] > 0 else np.array([0.6, 0.4, 0.0])),
    "lattice": (lattice, None, draws_with(3)),
}


def problem(name: str) -> tuple[Simulator, Any, list[int], Actor]:
    made, state, policy = CASES[name]
    simulator = made()
    state = simulator.start(Shock(bytes(16))) if state is None else state
    return simulator, state, list(range(simulator.actions.size)), as_policy(policy, simulator.actions)


def earned(branch):
    """What was earned and when; nothing for longer is the same as nothing."""
    return {t: reward for t, reward in enumerate(branch.rewards) if reward}


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
@pytest.mark.parametrize("name", CASES)
def test_equal_to_the_slow_twin(name, coupling):
    simulator, state, actions, actor = problem(name)
    settings = {"discount": 0.9, "horizon": 9, "seed": 5, "first": 3, "count": 6 if name == "FrozenLake" else 25}
    fast = drawn_by_plan(simulator, state, actions, actor, coupling, **settings)
    slow = paired_branches(simulator, state, actions, actor, coupling, **settings)

    assert [[branch.value for branch in row] for row in slow] == fast.returns.tolist()  # bit for bit
    assert fast.largest_reward == max(abs(r) for row in slow for branch in row for r in branch.rewards)
    steps = sum(len(branch.rewards) for row in slow for branch in row)
    assert fast.steps + fast.shared_steps == steps
    if coupling.shared_in_a_state:  # each coordinate of a sample is simulated once: all who could share did
        assert fast.steps == sum(len({(t, x) for b in row for t, x in enumerate(b.coordinates)}) for row in slow)
    else:
        assert fast.shared_steps == 0
    for row, ends, gains in zip(slow, fast.ends.tolist(), fast.gains.tolist(), strict=True):
        for i, one in enumerate(row):
            assert (ends[i] == ENDED) == (one.end is None)
            for j, other in enumerate(row[:i]):
                assert (gains[i] == gains[j]) == (earned(one) == earned(other))
                if one.end is not None and other.end is not None:
                    together = coupling.shared_in_a_state and one.end == other.end
                    assert (ends[i] == ends[j]) == together


@pytest.mark.parametrize("coupling", COUPLINGS[::2], ids=repr)
@pytest.mark.parametrize("name", ["table", "drift", "FrozenLake"])
def test_a_sample_is_a_function_of_seed_and_number(name, coupling):
    """However many are drawn with it, and however many are under way at once."""
    simulator, state, actions, actor = problem(name)
    settings = {"discount": 0.9, "horizon": 7, "seed": 8}
    whole = drawn_by_plan(simulator, state, actions, actor, coupling, first=0, count=12, **settings)
    for lanes in (1, len(actions), 11):
        simulator.lanes = lanes
        parts = [
            drawn_by_plan(simulator, state, actions, actor, coupling, first=first, count=count, **settings)
            for first, count in ((0, 5), (5, 1), (6, 6))
        ]
        for what in ("returns", "ends", "gains"):
            assert np.array_equal(np.concatenate([getattr(p, what) for p in parts]), getattr(whole, what))
        for what in ("steps", "shared_steps"):
            assert sum(getattr(p, what) for p in parts) == getattr(whole, what)
    other = drawn_by_plan(simulator, state, actions, actor, coupling, first=0, count=12, **(settings | {"seed": 9}))
    assert not np.array_equal(other.returns, whole.returns)


def test_branches_depend_on_their_own_action_alone():
    """If all luck is shared, leaving candidates out or turning them round changes no return."""
    simulator, state, actions, actor = problem("table")
    settings = {"discount": 0.9, "horizon": 9, "seed": 1, "first": 0, "count": 20}
    for coupling in [jmdp.Synchronous("shared")]:
        whole = drawn_by_plan(simulator, state, actions, actor, coupling, **settings).returns
        some = drawn_by_plan(simulator, state, [3, 1], actor, coupling, **settings).returns
        assert np.array_equal(some, whole[:, [3, 1]])


class Spent(Simulator):
    """Its states know whether they were used up, and complain if one is used again."""

    actions = jmdp.simulators.TabularSimulator(GRID.model).actions

    def __init__(self) -> None:
        self.inner = TabularSimulator(GRID.model)
        self.advanced = 0

    def step(self, state, action, shock):
        assert not state["used"]
        reward, after, terminated = self.inner.step(state["s"], action, shock)
        return Step(reward, {"s": after, "used": False}, terminated)

    def advance(self, state, action, shock):
        step = self.step(state, action, shock)
        state["used"] = True
        self.advanced += 1
        return step

    def digest(self, state):
        assert not state["used"]
        return self.inner.digest(state["s"])

    def observe(self, state):
        assert not state["used"]
        return state["s"]


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_states_that_are_used_up_are_not_looked_at_again(coupling):
    """And the one that all begin in is never used up."""
    simulator = Spent()
    state = {"s": 4, "used": False}
    actor = as_policy(GRID.policies["uniform"], simulator.actions)
    settings = {"discount": 0.9, "horizon": 8, "seed": 1, "first": 0, "count": 30}
    found = drawn_by_plan(simulator, state, range(4), actor, coupling, **settings)
    assert not state["used"]
    assert simulator.advanced > 0
    plain = drawn_by_plan(TabularSimulator(GRID.model), 4, range(4), actor, coupling, **settings)
    assert np.array_equal(found.returns, plain.returns)
    assert found.steps == plain.steps


def test_states_that_only_look_the_same_do_not_meet():
    """What a policy sees is not the state: here two rooms look alike and pay differently."""
    hidden = FunctionSimulator(
        lambda s, a, u: float(s == 2),
        lambda s, a, u: {0: 1 + a}.get(s, s),
        2,
        start=0,
        observe=lambda s: 0 if s == 0 else 1,
    )
    drawn = drawn_by_plan(
        hidden, 0, [0, 1], as_policy(lambda seen: 0, hidden.actions), jmdp.Synchronous(),
        discount=1.0, horizon=5, seed=0, first=0, count=3,
    )  # fmt: skip
    assert drawn.returns.tolist() == [[0.0, 4.0]] * 3
    assert (drawn.ends[:, 0] != drawn.ends[:, 1]).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rewards_that_are_no_numbers_are_refused(bad):
    broken = FunctionSimulator(lambda s, a, u: bad if a else 0.0, lambda s, a, u: s, 2, start=0)
    with pytest.raises(SimulatorError, match="Action 1 in step 0 of a rollout returned the reward"):
        drawn_by_plan(
            broken, 0, [0, 1], as_policy([0], broken.actions), jmdp.Local(),
            discount=0.5, horizon=2, seed=0, first=0, count=1,
        )  # fmt: skip


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
@pytest.mark.parametrize("name", ["table", "lattice"])
def test_a_subset_keeps_its_numbers(name, coupling):
    """Keys use the original numbers, in any order; a branch that never meets those left out keeps its returns."""
    simulator, state, _, actor = problem(name)
    settings = {"discount": 0.9, "horizon": 9, "seed": 5}
    plan = BranchPlan.of_actions(actor, state=state, actions=[0, 1, 2], coupling=coupling, **settings)
    some = plan.some([2, 1])
    assert (plan.branches, some.branches, plan.alternatives, some.alternatives) == ((0, 1, 2), (2, 1), 3, 3)
    fast = paired_draws(simulator, some, 4, 20)
    slow = paired_branches(simulator, state, [2, 1], actor, coupling, **settings, first=4, count=20, numbers=(2, 1))
    assert [[branch.value for branch in row] for row in slow] == fast.returns.tolist()
    whole = paired_draws(simulator, plan, 4, 20).returns[:, [2, 1]]
    if not coupling.shared_in_a_state or coupling == jmdp.Synchronous("shared"):
        assert np.array_equal(fast.returns, whole)


def test_equal_actions_are_one_branch():
    simulator, state, _, actor = problem("table")
    for coupling in COUPLINGS:
        plan = BranchPlan.of_actions(
            actor, state=state, actions=[1, np.int64(1), 0], coupling=coupling, discount=0.9, horizon=9, seed=2
        )
        drawn = paired_draws(simulator, plan, 0, 30)
        assert np.array_equal(drawn.returns[:, 0], drawn.returns[:, 1]) == coupling.shared_in_a_state


def test_whether_randomness_was_used():
    """Of steps or of the policy."""
    settings = {"coupling": jmdp.Synchronous(), "discount": 0.9, "horizon": 5, "seed": 0}

    def drew(luck, policy) -> bool:
        simulator = FunctionSimulator(lambda s, a, u: 1.0, lambda s, a, u: s + a, 2, luck=luck, start=0)
        actor = as_policy(policy, simulator.actions)
        plan = BranchPlan.of_actions(actor, state=0, actions=[0, 1], **settings)
        return paired_draws(simulator, plan, 0, 3).drew

    assert drew(None, lambda s: 0)  # the uniform number is drawn, though the functions do not use it

    class Settled(Simulator):
        actions = jmdp.simulators.action_labels(2)

        def step(self, state, action, shock):
            if action and state > self.until:
                shock.uniform()
            return Step(1.0, state + 1, False)

    simulator = Settled()
    for until, policy, used in [
        (99, lambda s: 1, False),
        (3, lambda s: 1, True),
        (3, lambda s: 0, False),
        (99, lambda s: np.array([0.5, 0.5]), True),
        (99, lambda s, rng: 0, True),
        (99, [0] * 9, False),
        (99, "uniform", True),
    ]:
        simulator.until = until
        actor = as_policy(policy, simulator.actions)
        plan = BranchPlan.of_actions(actor, state=0, actions=[0, 1], **settings)
        assert paired_draws(simulator, plan, 0, 3).drew == used


def test_memory_of_many_draws_is_small():
    simulator, state, _, actor = problem("drift")
    plan = BranchPlan.of_actions(
        actor, state=state, actions=[0, 1], coupling=jmdp.Local(), discount=0.9, horizon=3, seed=0
    )
    drawn = paired_draws(simulator, plan, 0, 50)
    assert sum(array.nbytes for array in (drawn.returns, drawn.ends, drawn.gains)) <= 20 * drawn.returns.size
