"""Mistakes of new users: accepted where the meaning is clear, else refused with what is wrong and a fix that works."""

from __future__ import annotations

import math
import re
import threading

import numpy as np
import pytest

import jmdp
from jmdp.base.settings import real_number
from jmdp.errors import LabelError, ModelError, PolicyError, SettingsError, SimulatorError
from jmdp.simulators import ObjectSimulator
from jmdp.testing import check_simulator

gym = pytest.importorskip("gymnasium")
from jmdp.simulators import GymnasiumSimulator  # noqa: E402

FEW = {"seed": 0, "discount": 0.9, "max_samples": 64, "horizon": 5, "progress": False}


class Walk:
    """Ordinary object: a random walk of five steps, whose position is observation and reward."""

    def __init__(self):
        self.rng = np.random.default_rng()
        self.reset()

    def reset(self):
        self.x, self.t = 0.0, 0
        return self.x

    def step(self, action):
        self.t += 1
        self.x += [-1, 1][action] + self.rng.normal()
        return self.x, self.x, self.t >= 5


class WalkEnv(gym.Env):
    """The same as a Gymnasium environment."""

    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Box(-100, 100, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = 0.0, 0
        return np.array([self.x], np.float32), {}

    def draw(self):
        return self.np_random.normal()

    def step(self, action):
        self.t += 1
        self.x += 2 * action - 1 + self.draw()
        return np.array([self.x], np.float32), float(self.x), self.t >= 5, False, {}


class LockedEnv(WalkEnv):
    """Neither copied nor pickled."""

    def __init__(self):
        self.lock = threading.Lock()


WALK = ObjectSimulator(Walk, ["left", "right"])
TABLE = jmdp.TabularJMDP(
    np.full((3, 2), 0.5),
    np.arange(12.0).reshape(3, 2, 2),
    np.array([[[1, 2], [0, 2]], [[0, 2], [1, 1]], [[0, 1], [2, 0]]]),
    0.9,
    action_names=["left", "right"],
)


# ------------------------------------------------------------------------------------------------- environments


def test_advice_for_an_uncopyable_environment_works():
    """1. Each of the two ways that the message names is followed."""
    with pytest.raises(SimulatorError, match="its attribute lock is a lock") as refused:
        jmdp.compare(LockedEnv(), policy="uniform", **FEW)
    said = str(refused.value)
    assert "GymnasiumSimulator(env, save=lambda env: …, restore=lambda env, saved: …)" in said
    assert 'gymnasium.register("LockedEnv-v0", entry_point=LockedEnv)' in said
    assert 'GymnasiumSimulator(gymnasium.make("LockedEnv-v0"), snapshot="replay")' in said
    with pytest.raises(SimulatorError, match=r"gymnasium\.register"):
        GymnasiumSimulator(LockedEnv(), snapshot="replay")

    def restore(env, saved):
        env.x, env.t = saved

    by_hand = GymnasiumSimulator(LockedEnv(), save=lambda env: (env.x, env.t), restore=restore)
    gym.register("LockedEnv-v0", entry_point=LockedEnv)
    try:
        remade = GymnasiumSimulator(gym.make("LockedEnv-v0"), snapshot="replay")
        with pytest.raises(SimulatorError, match=r'Or use GymnasiumSimulator\(env, snapshot="replay"\)'):
            GymnasiumSimulator(gym.make("LockedEnv-v0"))
        for simulator in (by_hand, remade):
            assert jmdp.compare(simulator, policy="uniform", **FEW).leader == "1"
    finally:
        del gym.registry["LockedEnv-v0"]
    assert jmdp.compare_policies(LockedEnv(), {"a": lambda x: 0, "b": lambda x: 1}, **FEW).best == "b"


def test_an_attribute_that_is_the_module_np_random_is_named():
    """2."""

    class Global(WalkEnv):
        def __init__(self):
            self.rng = np.random

        def draw(self):
            return self.rng.normal()

    with pytest.raises(SimulatorError, match=r"global np\.random: env\.rng is that module.*self\.np_random.*"):
        jmdp.compare(Global(), policy="uniform", **FEW)
    assert jmdp.compare(GymnasiumSimulator(Global(), global_generators=True), policy="uniform", **FEW).leader == "1"


class GlobalWalk(Walk):
    def __init__(self):
        super().__init__()
        self.rng = np.random


def test_objects_that_hold_a_module_are_copied():
    """2. As an attribute of an ordinary object, np.random is keyed, and copies need no replay."""
    assert repr(ObjectSimulator(GlobalWalk, 2)) == "ObjectSimulator(GlobalWalk, copied by pickle)"
    assert (
        repr(ObjectSimulator(GlobalWalk, 2, snapshot="deepcopy")) == "ObjectSimulator(GlobalWalk, copied by deepcopy)"
    )


@pytest.mark.parametrize("given", [0.3, [0.3], np.array([0.3], np.float32)])
def test_one_number_is_an_action_of_a_box_of_shape_1(given):
    """6."""
    simulator = GymnasiumSimulator(gym.make("Pendulum-v1"))
    state, shock = simulator.reset(0), jmdp.Shock.of_sample(0, 0)
    expected = simulator.step(state, np.array([0.3], np.float32), shock)
    assert simulator.step(state, given, shock).reward == expected.reward
    found = jmdp.compare(simulator, policy=lambda seen: 0.0, actions=[0.3, -0.3], **FEW)
    assert found.alternatives == ["0.3", "-0.3"]


def test_actions_of_another_shape_are_refused_with_an_example():
    """6."""

    class Two(WalkEnv):
        action_space = gym.spaces.Box(-1, 1, (2,))

        def step(self, action):
            return super().step(float(action[0] + action[1]))

    for actions in ([0.3, -0.3], [np.zeros(3), np.ones(3)]):
        with pytest.raises(SettingsError, match=r"shape \(2,\) of the action.*np\.zeros\(\(2,\), dtype=np\.float32\)"):
            jmdp.compare(Two(), policy=lambda seen: np.zeros(2), actions=actions, **FEW)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda seen, reward, over, cut, info: (seen, reward, over, info), "4 values.*terminated is done, truncated"),
        (
            lambda seen, reward, over, cut, info: (seen, np.array([reward]), over, cut, info),
            r"reward array.*reward\[0\]",
        ),
        (lambda *result: None, "returned a NoneType. Return .observation, reward, terminated, truncated, info"),
    ],
)
@pytest.mark.parametrize("limit", [None, 10])
def test_results_of_steps_that_are_not_gymnasiums(change, says, limit):
    class Other(WalkEnv):
        def step(self, action):
            return change(*super().step(action))

    def env():
        return Other() if limit is None else gym.wrappers.TimeLimit(Other(), limit)

    with pytest.raises(SimulatorError, match=says):
        jmdp.compare(env(), policy="uniform", **FEW)
    with pytest.raises(SimulatorError, match=says):
        jmdp.compare_policies(env(), {"a": lambda x: 0, "b": lambda x: 1}, **FEW)


def test_what_is_not_an_environment():
    with pytest.raises(SimulatorError, match=r"the class WalkEnv. Give an instance, WalkEnv\(…\)"):
        jmdp.compare(WalkEnv, policy="uniform", **FEW)
    with pytest.raises(
        SimulatorError, match=r"a function, not a simulator\. If it makes a Gymnasium environment, call it"
    ):
        jmdp.compare(lambda: WalkEnv(), policy="uniform", **FEW)
    with pytest.raises(SimulatorError, match=r"gymnasium\.make\('CartPole-v1'\)"):
        jmdp.compare("CartPole-v1", policy="uniform", **FEW)
    with pytest.raises(SettingsError, match=r"The state is 0, a int.*simulator\.current\(\).*reset\(seed\)"):
        jmdp.compare(WalkEnv(), "uniform", state=0, **FEW)
    with pytest.raises(SettingsError, match="a set, which has no order"):
        jmdp.compare(WALK, policy="uniform", actions={"left", "right"}, **FEW)


def test_resets_that_are_not_gymnasiums():
    class WithoutSeed(WalkEnv):
        def reset(self):
            return super().reset()

    class WithoutInfo(WalkEnv):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)[0]

    for env, says in (
        (WithoutSeed(), r"Define reset\(self, \*, seed=None, options=None\)"),
        (WithoutInfo(), "a ndarray"),
    ):
        with pytest.raises(SimulatorError, match=rf"{says}.*super\(\)\.reset\(seed=seed\).*\(observation, info\)"):
            jmdp.compare(env, policy="uniform", **FEW)


class ArrayReward(Walk):
    def step(self, action):
        seen, reward, over = super().step(action)
        return seen, np.array([reward]), over


def test_a_reward_in_an_array_is_named():
    with pytest.raises(SimulatorError, match=r"\(float, array of shape \(1,\), bool\).*where the reward is a number"):
        ObjectSimulator(ArrayReward, 2)


def test_dictionaries_and_objects_in_the_wrong_place():
    with pytest.raises(SettingsError, match=r"policy is a dictionary.*compare_policies"):
        jmdp.compare(WALK, policy={"left": 0.5, "right": 0.5}, **FEW)
    with pytest.raises(ModelError, match=r"model is a Walk.*MonteCarlo\(seed=…\) and jmdp\.compare"):
        jmdp.evaluate(Walk(), "uniform", jmdp.Local())
    with pytest.raises(PolicyError, match=r"policy is a set, not a TabularPolicy. Give \{state: action\}"):
        jmdp.evaluate(TABLE, {1, 2}, jmdp.Local())


def test_check_simulator_takes_what_compare_takes():
    """7."""
    for source in (WalkEnv(), TABLE, WALK):
        assert not [finding for finding in check_simulator(source, steps=5) if finding.fault]
    for source in (Walk(), 42, None):
        with pytest.raises(SimulatorError) as refused:
            check_simulator(source)
        with pytest.raises(SimulatorError) as same:
            jmdp.compare(source, policy="uniform", **FEW)
        assert str(refused.value) == str(same.value)


# ----------------------------------------------------------------------------------------------------- policies


class Own:
    def predict(self, position):
        return int(position < 0)


class OwnWithState:
    def predict(self, position, state=None, deterministic=False):
        return int(position < 0), None


def rule(position):
    return int(position < 0)


def test_an_object_with_predict_is_called_for_one_observation():
    """3."""
    expected = jmdp.compare(WALK, policy=rule, **FEW).summary.samples.complete.returns
    for policy in (Own(), OwnWithState()):
        assert np.array_equal(jmdp.compare(WALK, policy=policy, **FEW).summary.samples.complete.returns, expected)

    class More:
        def predict(self, position, temperature):
            return 0

    with pytest.raises(PolicyError, match=r"More, has predict\(position, temperature\), but jmdp calls predict\(obs\)"):
        jmdp.compare(WALK, policy=More(), **FEW)


def test_an_estimator_is_called_for_a_batch():
    """3."""
    sklearn = pytest.importorskip("sklearn.tree")
    positions = np.linspace(-3, 3, 101)[:, None]
    tree = sklearn.DecisionTreeClassifier().fit(positions, (positions[:, 0] < 0).astype(int))

    class Alike:  # with the interface of an estimator, but of no class of scikit-learn
        n_features_in_ = 1

        def fit(self, x, y):
            return self

        def predict(self, batch):
            assert batch.shape[1:] == (1,)
            return (batch[:, 0] < 0).astype(int)

    for policy in (tree, Alike()):
        assert jmdp.compare(WALK, policy=policy, **FEW).leader == "right"


@pytest.mark.parametrize("simulator", [WALK, ObjectSimulator(Walk), WalkEnv()], ids=["named", "any values", "env"])
def test_a_policy_that_returns_none(simulator):
    """4."""

    def forgets(position):
        position < 0  # noqa: B015

    actions = [0, 1] if getattr(simulator, "actions", 1) is None else None
    with pytest.raises(PolicyError, match=r"function forgets, returned None for the observation .*return statement"):
        jmdp.compare(simulator, policy=forgets, actions=actions, **FEW)
    with pytest.raises(PolicyError, match=r"'a' \(function forgets\), returned None for the observation .*0\.?\]?"):
        jmdp.compare_policies(simulator, {"a": forgets, "b": rule}, **FEW)


def test_what_a_policy_raises_gets_a_note():
    with pytest.raises(KeyError, match="'x'") as raised:
        jmdp.compare(WALK, policy=lambda position: {}["x"], **FEW)
    assert re.search(r"Raised by the policy, function <lambda>, for the observation -?\d", raised.value.__notes__[0])
    with pytest.raises(PolicyError, match=r"takes 0 arguments. Give f\(obs\) or f\(obs, rng\)"):
        jmdp.compare(WALK, policy=lambda: 0, **FEW)


def test_wrong_values_of_named_actions():
    """11. Both the indices and the names are given."""
    with pytest.raises(PolicyError, match=r"returned 0.5, not an action.* index .*0 to 1.* name \('left', 'right'\)"):
        jmdp.compare(WALK, policy=lambda position: 0.5, **FEW)
    with pytest.raises(LabelError, match=r"no action 5: indices run from 0 to 1, and names are 'left', 'right'"):
        jmdp.compare(WALK, policy=lambda position: 5, **FEW)
    with pytest.raises(LabelError, match=r"no action True.* Convert it: int\(True\)"):
        jmdp.compare(WALK, policy=lambda position: True, **FEW)


POLICIES = [[0, 1, 0], ["left", "right", "left"], np.array([0, 1, 0]), np.eye(2)[[0, 1, 0]]]


@pytest.mark.parametrize("policy", POLICIES, ids=["indices", "names", "array", "probabilities"])
def test_a_list_of_actions_is_a_policy_of_a_table(policy):
    """5."""
    table = jmdp.TabularPolicy.deterministic(TABLE, [0, 1, 0])
    local, few = jmdp.Local(), {"seed": 0, "max_samples": 33, "progress": False}
    assert np.array_equal(jmdp.evaluate(TABLE, policy, local).mean, jmdp.evaluate(TABLE, table, local).mean)
    several = [jmdp.evaluate(TABLE, {"a": one, "b": "uniform"}, local).mean for one in (policy, table)]
    assert np.array_equal(*several)
    over = [jmdp.evaluate(TABLE, one, local, horizon=3).mean for one in (policy, table)]
    assert np.array_equal(*over)
    drawn = [jmdp.compare(TABLE, one, state=0, **few).mean for one in (policy, table)]
    assert np.array_equal(*drawn)
    whole = [
        jmdp.compare_policies(TABLE, {"a": one, "b": [1, 1, 1]}, starts=[0], **few).mean for one in (policy, table)
    ]
    assert np.array_equal(*whole)


@pytest.mark.parametrize(
    ("policy", "error", "says"),
    [
        ([0, 1], PolicyError, "2 actions for 3 states. Give one action for each state"),
        ([0, 1, 7], LabelError, "action 7 in state 2.*indices run from 0 to 1.*'left', 'right'"),
        (["left", "rigt", "left"], LabelError, "action 'rigt' in state 1.*Did you mean 'right'"),
        ([0.5, 0.5, 0.5], PolicyError, r"Give one action for each state .*or probabilities \[S, A\]"),
        ([[1, 0], [1]], PolicyError, "rows have different lengths"),
    ],
)
def test_lists_that_are_no_policies_of_a_table(policy, error, says):
    """5."""
    with pytest.raises(error, match=says):
        jmdp.evaluate(TABLE, policy, jmdp.Local())
    with pytest.raises(error, match=says):
        jmdp.compare(TABLE, policy, state=0, seed=0, progress=False)
    with pytest.raises(error, match=says):
        jmdp.compare_policies(TABLE, {"a": policy, "b": [1, 1, 1]}, starts=[0], seed=0, progress=False)


def test_numbers_with_an_imaginary_part_and_text_in_arrays_are_none():
    for value in (np.complex128(0.9 + 1j), np.complex64(0.9), 0.5j, np.array("0.9"), np.array(b"0.5"), np.array(True)):
        assert math.isnan(real_number(value))
    assert real_number(np.array(0.5)) == real_number(np.float32(0.5)) == 0.5


def test_policies_of_a_table_by_name_and_index():
    world = jmdp.worlds.anti_correlated_bandit()
    names = [world.model.actions.name(0), world.model.actions.name(1)]
    S = world.model.shape[0]
    for given in ([names[1]] * S, [1] * S, np.array([names[1]] * S, object), ([names[1], 1] * S)[:S]):
        found = jmdp.TabularPolicy.of(given, world.model)
        np.testing.assert_array_equal(found.probs[:, 1], 1.0)
    with pytest.raises(jmdp.errors.PolicyError, match=f"actions is '{names[1]}'. Give a list"):
        jmdp.TabularPolicy.deterministic(world.model, names[1])
    with pytest.raises(jmdp.errors.MemoryBudgetError, match="10,000,000,001 actions"):
        jmdp.as_policy([10**10], None)


def test_lists_that_are_too_long_are_refused_and_not_cut(monkeypatch):
    from jmdp.methods.linear_projected import pair_steps

    monkeypatch.setattr(pair_steps, "_MOST_STARTS", 3)
    with pytest.raises(jmdp.errors.SettingsError, match="start has more than 3 pairs"):
        pair_steps.Restart(start=[((0, 0), (0, 1))] * 5)
    assert len(pair_steps.Restart(start=[((0, 0), (0, 1))] * 3).start) == 3


def test_entries_of_a_table_that_are_no_numbers_are_named():
    with pytest.raises(jmdp.errors.ModelError, match=r"reward has dtype object, and its entry \[0, 0, 1\] is None"):
        jmdp.TabularJMDP([[1.0]], [[[1.0, None]]], [[[0, 0]]], 0.5)


def test_small_arrays_need_no_look_at_the_memory(monkeypatch):
    from jmdp.base import arrays

    monkeypatch.setattr(arrays, "budget", lambda _: pytest.fail("looked"))
    arrays.refuse_large("a small array", 1e6)
