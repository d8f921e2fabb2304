"""Rollouts and episodes as arrays (`step_many`) have the same draws as those simulated step by step, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import jmdp
from jmdp.errors import LabelError, PolicyError, SimulatorError
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.policy import TabularPolicy
from jmdp.simulators import Simulator, Step, action_labels
from jmdp.simulators.rollouts.array_engine import BatchedBranches, batched_program
from jmdp.simulators.rollouts.draws import Draws, EpisodeDraws
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import paired_draws
from jmdp.simulators.starts import Starts
from jmdp.testing import check_simulator

COUPLINGS = [
    kind(policy_luck=luck)
    for kind in (jmdp.Synchronous, jmdp.Local, jmdp.Independent)
    for luck in ("shared", "independent")
]


class Drift(Simulator):
    """Toy with continuous states: a point moves by action and noise. Places are rounded, so that some branches meet."""

    actions = action_labels(3)
    discount = 0.9

    def step(self, state, action, shock):
        u, v = shock.uniforms(2).tolist()
        place = np.round(0.5 * state[0] + 0.4 * (action - 1) + u - 0.4, 1)
        return Step(float(place * v - 0.1 * action), np.array([place, state[1] + 1.0]), bool(place > 0.9))

    def step_many(self, states, actions, shocks):
        u, v = shocks.uniforms(2).T
        place = np.round(0.5 * states[:, 0] + 0.4 * (actions - 1) + u - 0.4, 1)
        return place * v - 0.1 * actions, np.stack([place, states[:, 1] + 1.0], axis=1), place > 0.9

    def start(self, shock):
        return np.array([shock.uniform(), 0.0])


class Level(Simulator):
    """Toy whose states are whole numbers 0 to 5, one number each."""

    actions = action_labels(["down", "up"])
    discount = 0.8

    def step(self, state, action, shock):
        moved = 2 * self.actions.index(action) - 1 if shock.uniform() < 0.6 else 0
        after = min(5, max(0, state + moved))
        return Step(after, after, after == 5)

    def step_many(self, states, actions, shocks):
        after = np.clip(states + np.where(shocks.uniform() < 0.6, 2 * actions - 1, 0), 0, 5)
        return after, after, after == 5

    def start(self, shock):
        return int(shock.uniform() * 5)


def for_one(seen):
    return min(1, int(seen[0] > 1))  # raises for many


def random_rule(seen):
    p = 1 / (1 + np.exp(-np.asarray(seen)[..., :1]))
    return np.concatenate([p, 1 - p, 0 * p], axis=-1)


INVENTORY = jmdp.worlds.InventorySimulator(6, lead_time=1, most_ordered=3, discount=0.9)
QUEUE = jmdp.worlds.QueueSimulator(5, discount=0.9)
CASES = {
    "inventory, base stock": (INVENTORY, (2, 1), INVENTORY.policies["base_stock"]),
    "inventory, one call each": (INVENTORY, (2, 1), for_one),
    "inventory, uniform": (INVENTORY, (2, 1), "uniform"),
    "inventory, rng": (INVENTORY, (2, 1), lambda seen, rng: int(rng.integers(4))),
    "queue, threshold": (QUEUE, (3, 1), QUEUE.policies["threshold"]),
    "queue, names": (QUEUE, (3, 1), lambda seen: "admit" if seen[0] < 2 else "reject"),
    "queue, some random": (QUEUE, (3, 1), lambda seen: 1 if seen[0] < 2 else np.array([0.3, 0.7])),
    "drift, softmax": (Drift(), np.array([0.3, 0.0]), random_rule),
    "drift, sign": (Drift(), np.array([0.3, 0.0]), lambda seen: np.where(np.asarray(seen)[..., 0] > 0, 0, 2)),
    "level, table": (Level(), 2, TabularPolicy(np.array([[0.2, 0.8]] * 3 + [[1.0, 0.0]] * 3))),
    "level, actions": (Level(), 2, [1, 1, 0, 1, 0, 0]),
    "level, scalar": (Level(), 2, lambda seen: 1 if seen < 3 else 0),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def plan_of(simulator, policy, state, coupling, **other):
    actions = list(range(simulator.actions.size))
    given = {"actions": actions, "discount": 0.9, "horizon": 12, "seed": 4} | other
    return BranchPlan.of_actions(as_policy(policy, simulator.actions), state=state, coupling=coupling, **given)


def assert_equal(one, other):
    for name in ("returns", "ends", "gains", *(["starts"] if isinstance(one, EpisodeDraws) else [])):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
        assert getattr(one, name).dtype == getattr(other, name).dtype
    for name in ("largest_reward", "steps", "shared_steps", "drew"):
        assert getattr(one, name) == getattr(other, name), name


@pytest.mark.parametrize("coupling", COUPLINGS, ids=str)
def test_rollouts_are_those_step_by_step(case, coupling):
    simulator, state, policy = case
    plan = plan_of(simulator, policy, state, coupling)
    alone = Draws.joined([paired_draws(simulator, plan, sample, 1) for sample in range(5, 30)])
    assert batched_program(simulator, plan) is not None
    assert_equal(paired_draws(simulator, plan, 5, 25), alone)


@pytest.mark.parametrize("coupling", COUPLINGS, ids=str)
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_some_of_the_actions_in_any_order_and_twice(coupling, discount):
    some = {"actions": [3, 1, 3, 0], "branches": (9, 0, 3, 5), "alternatives": 10, "discount": discount}
    plan = plan_of(INVENTORY, "uniform", (2, 1), coupling, **some)
    alone = Draws.joined([paired_draws(INVENTORY, plan, sample, 1) for sample in range(20)])
    assert_equal(paired_draws(INVENTORY, plan, 0, 20), alone)


def test_samples_are_the_same_in_any_parts():
    simulator, state, policy = CASES["drift, softmax"]
    coupling = jmdp.Local()
    whole = paired_draws(simulator, plan_of(simulator, policy, state, coupling), 0, 300)
    plan = plan_of(simulator, policy, state, coupling)
    cuts = [(0, 64), (64, 32), (96, 24), (0, 10), (120, 60), (180, 2), (182, 118)]  # in order, again, and onwards
    parts = {cut: paired_draws(simulator, plan, *cut) for cut in cuts}
    for (first, count), part in parts.items():
        np.testing.assert_array_equal(part.returns, whole.returns[first : first + count])
        np.testing.assert_array_equal(part.gains, whole.gains[first : first + count])
    del parts[0, 10]
    assert_equal(Draws.joined(list(parts.values())), whole)


def test_blocks_do_not_matter(monkeypatch):
    simulator, state, policy = CASES["queue, some random"]
    whole = paired_draws(simulator, plan_of(simulator, policy, state, jmdp.Synchronous()), 0, 50)
    monkeypatch.setattr("jmdp.simulators.rollouts.array_engine.WALKERS", 14)
    assert_equal(paired_draws(simulator, plan_of(simulator, policy, state, jmdp.Synchronous()), 0, 50), whole)


@pytest.mark.parametrize("coupling", COUPLINGS, ids=str)
@pytest.mark.parametrize("starts", ["own", "one", "three"])
@pytest.mark.parametrize("fresh", [frozenset(), frozenset({"steps"}), frozenset({"policies"})], ids=str)
def test_episodes_are_those_step_by_step(coupling, starts, fresh):
    states = {"own": None, "one": [np.zeros(2)], "three": [np.array([x, 0.0]) for x in (-1.0, 0.0, 0.5)]}[starts]
    simulator, policies = Drift(), [random_rule, "uniform", lambda seen: int(seen[0] > 0)]
    plan = BranchPlan(
        starts=Starts.of(states, simulator),
        actors=[as_policy(policy, simulator.actions) for policy in policies],
        coupling=coupling,
        discount=0.9,
        horizon=10,
        seed=2,
        fresh=fresh,
        branches=(4, 0, 2),
        alternatives=5,
    )
    alone = EpisodeDraws.joined([paired_draws(simulator, plan, sample, 1) for sample in range(3, 20)])
    together = paired_draws(simulator, plan, 3, 17)
    assert_equal(together, alone)
    assert together.paired == alone.paired


def without_many(simulator):
    """The same simulator without step_many."""
    kind = type(simulator)
    plain = object.__new__(type(kind.__name__, (kind,), {"step_many": Simulator.step_many}))
    vars(plain).update(vars(simulator))
    return plain


@pytest.mark.parametrize("name", ["queue, threshold", "drift, softmax", "level, scalar"])
def test_compare_gives_the_same_result(name):
    simulator, state, policy = CASES[name]
    plain = without_many(simulator)
    found = [jmdp.compare(one, policy, state=state, seed=1, samples=200) for one in (simulator, plain)]
    assert_equal(found[0].summary.samples.complete, found[1].summary.samples.complete)
    assert str(found[0]) == str(found[1])
    policies = {"given": policy, "uniform": "uniform"}
    both = [jmdp.compare_policies(one, policies, seed=1, max_samples=150, horizon=20) for one in (simulator, plain)]
    assert_equal(both[0].summary.samples.complete, both[1].summary.samples.complete)
    assert str(both[0]) == str(both[1])


def test_observations_other_than_states():
    class Partial(Drift):
        def observe(self, state):
            return round(float(state[0]), 1)

    simulator = Partial()
    plan = plan_of(simulator, lambda seen: int(seen > 0), np.zeros(2), jmdp.Synchronous())
    alone = Draws.joined([paired_draws(simulator, plan, sample, 1) for sample in range(12)])
    assert_equal(paired_draws(simulator, plan, 0, 12), alone)


def broken(**methods):
    return type("Broken", (Level,), methods)()


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (lambda n: (np.zeros(n), np.zeros(n, int)), "returned 2 values"),
        (lambda n: None, "returned a NoneType"),
        (lambda n: (np.zeros(n + 1), np.zeros(n, int), np.zeros(n, bool)), "rewards of shape"),
        (lambda n: (np.zeros(n), np.zeros((n, 2)), np.zeros(n, bool)), "states of shape"),
        (lambda n: (np.zeros(n), np.zeros(n, int), np.zeros(n)), "terminated of shape .* dtype float64"),
        (lambda n: (np.full(n, np.nan), np.zeros(n, int), np.zeros(n, bool)), "reward nan"),
        (lambda n: (np.zeros(n), np.zeros(n, int), False), "terminated of shape"),
    ],
)
def test_wrong_outcomes_are_refused(outcome, message):
    simulator = broken(step_many=lambda self, states, actions, shocks: outcome(len(states)))
    plan = plan_of(simulator, "uniform", 2, jmdp.Synchronous())
    with pytest.raises(SimulatorError, match=message):
        paired_draws(simulator, plan, 0, 8)


def test_states_that_are_not_numbers_are_refused():
    plan = plan_of(Level(), "uniform", "start", jmdp.Synchronous())
    with pytest.raises(SimulatorError, match="has the state 'start'"):
        paired_draws(Level(), plan, 0, 8)
    simulator = broken(digest=lambda self, state: b"%d" % (state // 2))
    with pytest.raises(SimulatorError, match="defines step_many and defines digest"):
        paired_draws(simulator, plan_of(simulator, "uniform", 2, jmdp.Synchronous()), 0, 8)


@pytest.mark.parametrize(
    "change",
    [
        lambda rewards, states, ended: (rewards + 1e-12, states, ended),
        lambda rewards, states, ended: (rewards, np.minimum(states + 1, 5), ended),
        lambda rewards, states, ended: (rewards, states, ~ended),
    ],
)
def test_a_step_many_that_differs_from_step_is_found(change):
    simulator = broken(step_many=lambda *given: change(*Level.step_many(*given)))
    with pytest.raises(SimulatorError, match="step_many returns"):
        jmdp.compare(simulator, "uniform", state=2, seed=0)
    assert "step_many differs" in [finding.kind for finding in check_simulator(simulator, 2)]
    assert check_simulator(Level(), 2) == []
    assert check_simulator(Drift()) == []


def test_a_difference_in_rare_states_is_found_when_samples_are_repeated():
    def late(self, states, actions, shocks):
        rewards, after, ended = Level.step_many(self, states, actions, shocks)
        return rewards + 0.5 * (states == 0), after, ended

    simulator = broken(step_many=late)
    with pytest.raises(SimulatorError, match="step_many"):
        jmdp.compare(simulator, [0] * 6, state=4, seed=0)


def test_policies_that_depend_on_other_observations_are_refused_or_called_one_by_one():
    """A function whose values for an array differ from its values for the rows."""
    simulator = Drift()

    def ranked(seen):
        return np.argsort(np.argsort(seen[..., 0])) % 3 if np.ndim(seen) > 1 else 0

    plan = plan_of(simulator, ranked, np.zeros(2), jmdp.Synchronous())
    alone = Draws.joined([paired_draws(simulator, plan, sample, 1) for sample in range(12)])
    assert_equal(paired_draws(simulator, plan, 0, 12), alone)

    calls = []

    def later(seen):
        calls.append(1)
        return np.full(len(seen), min(2, sum(calls) // 140)) if np.ndim(seen) > 1 else np.int64(0)

    plan = plan_of(simulator, later, np.zeros(2), jmdp.Local(), horizon=60)
    with pytest.raises(PolicyError, match="in an array of many"):
        paired_draws(simulator, plan, 0, 500)


@pytest.mark.parametrize("action", [7, -1, np.full(4, 9), "left", np.ma.masked_array([0.5, 0.5], [True, False])])
def test_invalid_actions_of_policies(action):
    plan = plan_of(Level(), lambda seen: action, 2, jmdp.Synchronous())
    with pytest.raises((LabelError, PolicyError)):
        paired_draws(Level(), plan, 0, 8)


def test_no_samples_are_drawn_ahead_of_those_that_may_be_asked_for(monkeypatch):
    blocks, block = [], BatchedBranches.block
    monkeypatch.setattr(
        BatchedBranches, "block", lambda self, first, count: blocks.append(first + count) or block(self, first, count)
    )
    shop = jmdp.worlds.inventory(8).simulator
    settings = {"seed": 4, "progress": False}
    found = jmdp.compare(shop, shop.policies["reorder"], samples=150, **settings)
    assert max(blocks) == 150
    assert found.continued(250).samples == 250
    policies = {name: shop.policies[name] for name in ("reorder", "base_stock")}
    blocks.clear()
    jmdp.compare_policies(shop, policies, samples=150, horizon=20, **settings)
    assert max(blocks) == 150
