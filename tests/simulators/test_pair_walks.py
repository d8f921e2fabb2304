"""Walks in pairs, against a slow twin that goes one branch at a time, and against the exact answer."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import jmdp
from jmdp.base.luck import Shock
from jmdp.errors import CouplingError, LabelError, SettingsError, SimulatorError
from jmdp.models.actors.actor import Actor
from jmdp.models.actors.as_policy import as_policy
from jmdp.simulators import FunctionSimulator, TabularSimulator
from jmdp.simulators.rollouts.pair_walks import PairedRollouts, PairWalks, WalkPlan
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import LockstepBranches
from jmdp.simulators.simulator import Simulator, Step
from reference import walks
from sample_models import COUPLINGS

GRID = jmdp.worlds.windy_gridworld(3, 3, gust=0.4, blown_reward=-0.5, step_reward=-0.1, discount=0.7)
TABLE, UNIFORM = TabularSimulator(GRID.model), as_policy(GRID.policies["uniform"], GRID.model.actions)
PLAN = WalkPlan(visits=6, spacing=3, repeats=2, length=7)
ARRAYS = list(PairWalks.__dataclass_fields__)


def assert_equal(found: PairWalks, expected: Any) -> None:
    for name in ARRAYS:
        value, truth = getattr(found, name), expected[name] if isinstance(expected, dict) else getattr(expected, name)
        assert value.dtype == truth.dtype, name
        assert np.array_equal(value, truth, equal_nan=value.dtype.kind == "f"), name


# ------------------------------------------------------------------------------------------------ the slow twin


def ring(kind: str) -> Simulator:
    """Four places that recur often, seen as something of this kind; leaving the last one ends an episode."""
    seen = {
        "index": lambda s: s,
        "bytes": lambda s: np.full((2, 3, 1), s, np.uint8),
        "floats, one unknown": lambda s: np.array([s, np.nan], np.float32),
        "all alike": lambda s: np.zeros(2),
    }[kind]
    return FunctionSimulator(
        lambda s, a, u: (s == 0) + a * (u < 0.3),
        lambda s, a, u: 4 if s == 3 and u < 0.3 else (s + (u < 0.5) * a - (u > 0.8)) % 4,
        3, terminal=lambda s: s == 4, start=lambda rng: int(rng.integers(4)), observe=seen,
    )  # fmt: skip


def drawn_from(observation: Any, rng: np.random.Generator) -> int:
    return int(rng.integers(3))


class Spent(Simulator):
    """A table whose states know whether they were used up, and complain if one is used again."""

    actions = TABLE.actions

    def step(self, state, action, shock):
        assert not state["used"]
        reward, after, terminated = TABLE.step(state["s"], action, shock)
        return Step(reward, {"s": after, "used": False}, terminated)

    def advance(self, state, action, shock):
        step = self.step(state, action, shock)
        state["used"] = True
        return step

    def digest(self, state):
        assert not state["used"]
        return TABLE.digest(state["s"])

    def observe(self, state):
        assert not state["used"]
        return state["s"]

    def start(self, shock):
        return {"s": TABLE.start(shock), "used": False}


CASES: dict[str, tuple[Any, Any]] = {
    "table": (lambda: TABLE, GRID.policies["uniform"]),
    "table, settled": (lambda: TABLE, GRID.policies["goal_directed"]),
    "used up": (Spent, GRID.policies["uniform"]),
    **{kind: (lambda kind=kind: ring(kind), drawn_from) for kind in ("index", "bytes", "floats, one unknown")},
    "all alike": (lambda: ring("all alike"), "uniform"),
}


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
@pytest.mark.parametrize("name", CASES)
def test_equal_to_the_slow_twin(name, coupling):
    made, policy = CASES[name]
    simulator = made()
    actor, merged = as_policy(policy, simulator.actions), 0
    for number in range(3):
        found = PLAN.walk(simulator, actor, coupling, 5, number)
        assert_equal(found, walks.block(TABLE if name == "used up" else simulator, actor, coupling, PLAN, 5, number))
        assert found.length == PLAN.length
        assert len(found) == PLAN.visits * PLAN.repeats
        one = found.same & (found.action[..., 0] == found.action[..., 1])
        merged += one.sum()
        assert not found.ended[:, 0].any()
        assert found.ended[:, -1].any()
        assert (found.action[:, 0, 0] != found.action[:, 0, 1]).all()
    assert (merged > 0) == coupling.shared_in_a_state


@pytest.mark.parametrize("coupling", COUPLINGS[3:], ids=repr)
def test_met_and_earned_as_in_paired_rollouts(coupling):
    """The same walks, where luck does not ask for the place: rollouts of many branches have other names for that."""
    plan, discount = WalkPlan(visits=1, spacing=1, repeats=40, length=5), 0.9
    met = []
    for number in range(4):
        found = plan.walk(TABLE, UNIFORM, coupling, 2, number)
        root, pair = Shock.of_sample(2, number), found.action[0, 0].tolist()
        asked = BranchPlan.of_actions(
            UNIFORM,
            state=TABLE.start(root),
            actions=pair,
            coupling=coupling,
            discount=discount,
            horizon=plan.length,
            seed=0,
        )
        roots = [root.derived(b"walk", i) for i in range(plan.repeats)]
        drawn = LockstepBranches(TABLE, asked, roots).run()
        for n in range(plan.repeats):
            returns, weight = [0.0, 0.0], 1.0
            for earned in found.reward[n].tolist():
                returns = [sum_ + weight * r for sum_, r in zip(returns, earned, strict=True)]
                weight *= discount
            assert returns == drawn.returns[n].tolist()
        going = ~found.ended[:, -1].any(axis=1)
        met.append((found.same[:, -1] & (found.action[:, -1, 0] == found.action[:, -1, 1]))[going])
        assert np.array_equal(met[-1], (drawn.ends[:, 0] == drawn.ends[:, 1])[going])
    assert np.concatenate(met).any() == coupling.shared_in_a_state


# ------------------------------------------------------------------------------------------------ the truth


def weather() -> jmdp.TabularJMDP:
    """Sun or rain for all actions alike, in three places and at the end."""
    s, k, a = np.ogrid[:4, :2, :3]
    reward = (2.0 * k - 1) * (1 + 0.3 * a) + 0.2 * s
    return jmdp.TabularJMDP(np.full((4, 2), 0.5), reward, (s + a * k + 1) % 4, 0.5, np.arange(4) == 3)


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_discounted_sums_have_the_exact_moments(coupling):
    """Within 5 standard errors: of 9 numbers for each of six couplings by chance one is off with probability 3e-5."""
    model, L = weather(), 12
    simulator, uniform = TabularSimulator(model), jmdp.TabularPolicy.uniform(model)
    rollouts = PairedRollouts(simulator, as_policy(uniform, model.actions), coupling)
    found = rollouts.collect(WalkPlan(visits=1, spacing=1, repeats=10, length=L), seed=3, blocks=60)
    exact = jmdp.evaluate(model, uniform, coupling, jmdp.ExactPairs())
    mean, covariance, cut = exact.mean[0], exact.covariance[0], 2e-3  # γ^L · max |r| / (1 − γ)
    returns = np.einsum("nlb,l->nb", found.reward, 0.5 ** np.arange(L))
    first = found.action[:, 0]
    for a, b in combinations(range(3), 2):
        rows = (np.sort(first, axis=1) == [a, b]).all(axis=1)
        x, y = (np.where(first[rows, 0] == c, returns[rows, 0], returns[rows, 1]) for c in (a, b))
        products = (x - mean[a]) * (y - mean[b])
        errors = [5 * value.std() / np.sqrt(rows.sum()) + cut for value in (x, y, products)]
        assert abs(x.mean() - mean[a]) <= errors[0]
        assert abs(y.mean() - mean[b]) <= errors[1]
        assert abs(products.mean() - covariance[a, b]) <= errors[2]
        assert (products.mean() > errors[2]) == coupling.shared_in_a_state  # without shared luck it is 0


def test_rows_of_a_visit_share_no_luck():
    """Under one luck they would be equal; what they earn is uncorrelated, but for 5 standard errors (6e-7)."""
    plan = WalkPlan(visits=1, spacing=1, repeats=2, length=8)
    found = PairedRollouts(TABLE, UNIFORM, jmdp.Synchronous("shared")).collect(plan, seed=0, blocks=200)
    returns = found.reward.sum(axis=1).reshape(200, 2, 2)
    assert not np.array_equal(returns[:, 0], returns[:, 1])
    residual = returns[:, :, 0] - returns[:, :, 0].mean()
    for a in range(4):  # given the action, whose mean both share
        rows = found.action[::2, 0, 0] == a
        residual[rows] -= residual[rows].mean()
    assert abs(np.corrcoef(residual.T)[0, 1]) < 5 / np.sqrt(200)


# ------------------------------------------------------------------------------------------------ an emulator


def pong(**settings: Any) -> Simulator:
    pytest.importorskip("ale_py")
    return jmdp.simulators.ALESimulator("pong", **settings)


SMALL = WalkPlan(visits=2, spacing=20, repeats=2, length=8)


@pytest.mark.parametrize("coupling", COUPLINGS[::3], ids=repr)
def test_games_walked_again_are_the_same(coupling):
    """However many emulators there are, and however many walks are under way."""
    plain, few = pong(), pong(max_emulators=1)
    actor = as_policy("uniform", plain.actions)
    first = SMALL.walk(plain, actor, coupling, 1, 0)
    assert_equal(SMALL.walk(plain, actor, coupling, 1, 0), first)
    assert_equal(SMALL.walk(few, actor, coupling, 1, 0), first)
    assert_equal(first, walks.block(plain, actor, coupling, SMALL, 1, 0))
    assert first.observation.shape == (4, 9, 2, 128)
    assert first.observation.dtype == np.uint8


def away(s: Any, a: int, u: float) -> int:
    return (s + a) % 3


# ------------------------------------------------------------------------------------------------ at the door


def shows(observe: Any, start: Any = 0) -> Simulator:
    return FunctionSimulator(lambda s, a, u: 0.0, lambda s, a, u: s + 1, 2, start=start, observe=observe)


@pytest.mark.parametrize(
    ("seen", "what"),
    [
        (lambda s: {}, "dict"),
        (lambda s: {"side": "left"}, "str"),
        (lambda s: (1.0, None), "NoneType"),
        (lambda s: "left", "str"),
        (lambda s: [[1], [1, 2]], "list"),
        (lambda s: None, "NoneType"),
    ],
)
def test_observations_that_are_no_numbers_are_refused(seen, what):
    with pytest.raises(SimulatorError, match=rf"returned an observation of type {what}\. .* Convert them"):
        PLAN.walk(shows(seen), as_policy(lambda s: 0, None), jmdp.Local(), 0, 0)


@pytest.mark.parametrize("seen", [lambda s: {"speed": s, "at": np.ones((1, 2))}, lambda s: (s, (1, np.ones(1)))])
def test_numbers_of_dicts_and_tuples_are_one_row(seen):
    walks = PLAN.walk(shows(seen), as_policy(lambda s: 0, None), jmdp.Local(), 0, 0)
    assert walks.observation.shape[3:] == (3,)
    assert (walks.observation[..., 1:] == 1).all()


@pytest.mark.parametrize(
    ("seen", "start"),
    [
        (lambda s: np.zeros(2 if s < 3 else 1), 0),
        (lambda s: np.zeros(2) if s < 3 else 0.0, 0),
        (lambda s: s if s < 3 else s + 0.5, 0),
        (lambda s: np.zeros(2, np.float32 if s < 3 else np.float64), 0),
    ],
)
def test_observations_that_change_their_kind_are_refused(seen, start):
    """Assignment would stretch, cut or round them without a word."""
    with pytest.raises(SimulatorError, match=r"observations of .* and shape .* first, then .* Return the same"):
        WalkPlan(1, 1, 1, 5).walk(shows(seen, start), as_policy(lambda s: 0, None), jmdp.Local(), 0, 0)


def test_pairs_need_two_numbered_actions():
    alone = FunctionSimulator(away, away, 1, start=0)
    for make in (
        lambda: PairedRollouts(alone, UNIFORM, jmdp.Local()),
        lambda: PLAN.walk(alone, UNIFORM, jmdp.Local(), 0, 0),
    ):
        with pytest.raises(SettingsError, match="has one action"):
            make()
    free = Spent()
    free.actions = None
    with pytest.raises(SettingsError, match=r"Spent\(\) has no finite list of actions.*jmdp\.compare"):
        PLAN.walk(free, UNIFORM, jmdp.Local(), 0, 0)


def test_luck_that_cannot_be_shared_is_refused():
    model = GRID.model
    prob = model.prob.copy()
    prob[0] = prob[0][::-1] if not np.array_equal(prob[0], prob[0][::-1]) else np.eye(len(prob[0]))[0]
    loose = TabularSimulator(jmdp.TabularJMDP(prob, model.reward, model.next_state, 0.7, model.terminal))
    with pytest.raises(CouplingError, match="shares one scenario between states"):
        PairedRollouts(loose, UNIFORM, jmdp.Synchronous())


class Names(Actor):
    """A policy of one's own that calls an action by its name."""

    needs_luck = False

    def __init__(self, name: str) -> None:
        self.name = name

    def act(self, observations, shocks):
        assert observations
        return [self.name] * len(observations)


def test_actions_are_noted_by_index():
    ride = FunctionSimulator(away, away, ["walk", "ride"], start=0)
    found = PLAN.walk(ride, Names("ride"), jmdp.Local(), 0, 0)
    assert (found.action[:, 1:] == 1).all()
    with pytest.raises(LabelError, match="no action 'fly'"):
        PLAN.walk(ride, Names("fly"), jmdp.Local(), 0, 0)


@pytest.mark.parametrize("name", ["visits", "spacing", "repeats", "length"])
def test_plans_are_checked(name):
    with pytest.raises(SettingsError, match=f"{name} is 0"):
        WalkPlan(**{"visits": 1, "spacing": 1, "repeats": 1, "length": 1, name: 0})


@pytest.mark.parametrize("wrong", [{"blocks": 0}, {"first": -1}, {"seed": -1}, {"seed": 0.5}])
def test_orders_are_checked(wrong):
    with pytest.raises(SettingsError, match=f"{next(iter(wrong))} is"):
        PairedRollouts(TABLE, UNIFORM, jmdp.Local()).collect(PLAN, **{"seed": 0, "blocks": 1, **wrong})
    with pytest.raises(SettingsError, match="pool is 0"):
        PairedRollouts(TABLE, UNIFORM, jmdp.Local()).collect(PLAN, seed=0, blocks=1, pool=0)


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_episodes_of_one_step_and_starts_that_are_the_end(coupling):
    """A policy is never asked for nobody."""
    once = FunctionSimulator(lambda s, a, u: a + 1.0, lambda s, a, u: 1, 2, terminal=lambda s: s == 1, start=0)
    found = PLAN.walk(once, First(), coupling, 0, 0)
    assert np.array_equal(found.reward[:, 0], found.action[:, 0] + 1.0)
    assert not found.reward[:, 1:].any()
    assert found.ended[:, 1:].all()
    assert not found.same[:, 1:].any()
    assert (found.observation[:, 1:] == 1).all()
    assert not found.action[:, 1:].any()
    over = FunctionSimulator(lambda s, a, u: 1.0, lambda s, a, u: 1, 2, terminal=lambda s: True, start=0)
    found = PLAN.walk(over, First(), coupling, 0, 0)
    assert not found.reward.any()
    assert found.ended[:, 1:].all()


class First(Actor):
    needs_luck = False

    def act(self, observations, shocks):
        assert observations
        return [0] * len(observations)


def test_states_that_only_look_the_same_are_not():
    hidden = FunctionSimulator(
        lambda s, a, u: float(s == 2), lambda s, a, u: {0: 1 + a}.get(s, s), 2, start=0, observe=lambda s: int(s > 0)
    )
    found = WalkPlan(1, 1, 3, 5).walk(hidden, First(), jmdp.Synchronous(), 0, 0)
    assert not found.same[:, 1:].any()
    assert sorted(found.reward.sum(axis=1)[0].tolist()) == [0.0, 4.0]


def test_blocks_are_joined_and_cannot_be_changed():
    found = PairedRollouts(TABLE, UNIFORM, jmdp.Local()).collect(PLAN, seed=1, blocks=3)
    assert found.visit.tolist() == [n // 2 for n in range(36)]
    for name in ARRAYS:
        assert not getattr(found, name).flags.writeable
    part = PLAN.walk(TABLE, UNIFORM, jmdp.Local(), 1, 2)
    assert np.array_equal(found.observation[24:], part.observation)
    assert len(np.unique(found.action[:, 0], axis=0)) > 6
