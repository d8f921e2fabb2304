"""The Gymnasium door: a step from a snapshot is the step the environment itself would have taken, again and again.

Environments of seven packages go through one contract; what is particular to each is tested below it.
"""

from __future__ import annotations

import copy
import random
import warnings
from typing import Any

import numpy as np
import pytest

from jmdp.base.luck import Shock
from jmdp.errors import JMDPError, LabelError, SettingsError, SimulatorError, UnavailableError
from jmdp.simulators.adapters.gymnasium.gymnasium_simulator import GymnasiumSimulator
from jmdp.simulators.digests import digest_of
from jmdp.testing import check_simulator

gym = pytest.importorskip("gymnasium")
wrappers = gym.wrappers


def make(name: str, **settings: Any) -> Any:
    """An environment, or skip where its package is missing."""
    for package, prefix in (("ale_py", "ALE/"), ("highway_env", "highway"), ("minigrid", "MiniGrid")):
        if name.startswith(prefix):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                gym.register_envs(pytest.importorskip(package))
    if name.startswith("ALE/"):
        import ale_py

        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return gym.make(name, **settings)
    except (gym.error.DependencyNotInstalled, ImportError) as missing:
        pytest.skip(str(missing))


HIGHWAY = {"config": {"vehicles_count": 2, "lanes_count": 2, "duration": 3}}
QUIET = {"repeat_action_probability": 0.0}


def atari(frames: int) -> Any:
    env = make("ALE/Pong-v5", frameskip=1, **QUIET)
    pytest.importorskip("cv2")
    return wrappers.FrameStackObservation(wrappers.AtariPreprocessing(env, noop_max=3), frames)


ENVS: dict[str, Any] = {
    "FrozenLake": lambda: make("FrozenLake-v1"),
    "Taxi": lambda: make("Taxi-v4", is_rainy=True, fickle_passenger=True),
    "Blackjack": lambda: make("Blackjack-v1"),
    "CartPole": lambda: make("CartPole-v1"),
    "Pendulum": lambda: make("Pendulum-v1"),
    "MiniGrid": lambda: make("MiniGrid-Dynamic-Obstacles-5x5-v0"),
    "highway": lambda: make("highway-fast-v0", **HIGHWAY),
    "HalfCheetah": lambda: make("HalfCheetah-v5"),
    "Ant": lambda: make("Ant-v5"),
    "Hopper": lambda: make("Hopper-v5"),
    "Pong": lambda: make("ALE/Pong-v5", **QUIET),
    "Pong, preprocessed": lambda: atari(4),
    "LunarLander": lambda: make("LunarLander-v3"),
    "LunarLander, windy": lambda: make("LunarLander-v3", enable_wind=True),
    "FrameStack": lambda: wrappers.FrameStackObservation(make("FrozenLake-v1"), 3),
    "TimeAware": lambda: wrappers.TimeAwareObservation(make("CartPole-v1")),
    "Statistics": lambda: wrappers.RecordEpisodeStatistics(make("FrozenLake-v1")),
    "Normalized": lambda: wrappers.NormalizeObservation(make("CartPole-v1")),
    "Normalized Hopper": lambda: wrappers.NormalizeObservation(make("Hopper-v5")),
    "Sticky": lambda: wrappers.StickyAction(make("CartPole-v1"), 0.5),
    "Sticky stack of Pong": lambda: wrappers.StickyAction(atari(2), 0.5),
}
REPLAYED = {"LunarLander", "LunarLander, windy"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """MuJoCo writes a file where it runs."""
    monkeypatch.chdir(tmp_path)


def simulator_of(name: str, env: Any, **settings: Any) -> GymnasiumSimulator:
    return GymnasiumSimulator(env, snapshot="replay" if name in REPLAYED else None, **settings)


def shocks(seed: int, count: int) -> list[Shock]:
    return [Shock.of_sample(seed, i) for i in range(count)]


def some_actions(env: Any, count: int, seed: int = 3) -> list[Any]:
    space = copy.deepcopy(env.action_space)
    space.seed(seed)
    return [space.sample() - int(getattr(space, "start", 0)) for _ in range(count)]


def everything(env: Any) -> bytes:
    """All that can be seen of an environment, and where its generators stand."""
    try:
        inside = digest_of(env)
    except SimulatorError:  # a core in C
        core = env.unwrapped
        inside = core.ale.getRAM().tobytes() if hasattr(core, "ale") else b""
        inside += b"".join(np.asarray(getattr(core.data, x)).tobytes() for x in ("qpos", "qvel")) if hasattr(
            core, "data"
        ) else b""  # fmt: skip
    generators = [env.unwrapped._np_random, env.action_space._np_random, env.observation_space._np_random]
    stand = [None if one is None else str(one.bit_generator.state) for one in generators]
    return digest_of((inside, stand, np.random.get_state()[1], random.getstate()))  # noqa: NPY002


def result(step: Any, simulator: GymnasiumSimulator) -> tuple[Any, ...]:
    return step.reward, step.terminated, digest_of(simulator.observe(step.state)), simulator.digest(step.state)


def alone(env: Any, seed: int, actions: list[Any], luck: list[Shock], first: int = 0) -> list[tuple[Any, ...]]:
    """The slow twin: one environment, never saved or copied, that plays all actions in one go with the shocks' luck.

    Whoever took hold of np_random at the reset must get that luck too, so its generator is changed and not replaced.
    """
    observation, _ = env.reset(seed=seed)
    holder = env.unwrapped
    road = getattr(holder, "road", None)
    seen = []
    for action, shock in zip(actions, luck, strict=True):
        holder.np_random = shock.generator()
        if road is not None:
            road.np_random = holder.np_random
        observation, reward, terminated, _, _ = env.step(action + first)
        seen.append((float(reward), bool(terminated), digest_of(observation)))
        if terminated:
            break
    return seen


@pytest.mark.parametrize("name", ENVS)
def test_contract(name):
    """Branches from snapshots, in any order, are the uninterrupted run; the user's environment notices nothing."""
    env, twin = ENVS[name](), ENVS[name]()
    env.reset(seed=11)
    twin.reset(seed=11)
    before = everything(env)
    simulator = simulator_of(name, env)
    length = 5 if name == "highway" else 12
    actions, luck = some_actions(env, length), shocks(5, length)
    truth = alone(twin, 7, actions, luck)
    actions, luck = actions[: len(truth)], luck[: len(truth)]

    # step after step from kept snapshots
    states, steps = [simulator.reset(7)], []
    for action, shock in zip(actions, luck, strict=True):
        steps.append(simulator.step(states[-1], action, shock))
        states.append(steps[-1].state)
    found = [result(step, simulator) for step in steps]
    assert [one[:3] for one in found] == truth

    # any state again, in another order, after other branches went elsewhere
    order = np.random.default_rng(0).permutation(len(actions)).tolist()
    other = some_actions(env, len(actions), seed=4)
    for i in [*order, *order[::-1]]:
        digest = simulator.digest(states[i])
        simulator.step(states[i], other[i], luck[i].derived(b"elsewhere"))
        assert result(simulator.step(states[i], actions[i], luck[i]), simulator) == found[i]
        assert simulator.digest(states[i]) == digest

    # in place
    state = simulator.reset(7)
    for i, (action, shock) in enumerate(zip(actions, luck, strict=True)):
        used = state
        step = simulator.advance(state, action, shock)
        state = step.state
        assert result(step, simulator) == found[i]
        with pytest.raises(SimulatorError, match="cannot be used again"):
            simulator.step(used, action, shock)
        with pytest.raises(SimulatorError, match="cannot be used again"):
            simulator.digest(used)

    assert everything(env) == before


@pytest.mark.parametrize("name", [name for name in ENVS if name not in REPLAYED])
def test_it_goes_on_from_where_the_environment_stands(name):
    """And the environment then goes on as if nothing had been."""
    env, twin = ENVS[name](), ENVS[name]()
    warm = some_actions(env, 3)
    for one in (env, twin):
        one.reset(seed=2)
        for action in warm:
            observation, _, terminated, _, _ = one.step(action)
            if terminated:
                observation, _ = one.reset(seed=3)
    simulator = simulator_of(name, env)
    here = simulator.current(observation)
    assert digest_of(simulator.observe(here)) == digest_of(observation)
    assert simulator.digest(simulator.start(Shock(bytes(16)))) == simulator.digest(here)
    action, shock = warm[0], Shock.of_sample(1, 1)
    ahead = [simulator.step(here, action, shock) for _ in range(2)]
    assert result(ahead[0], simulator) == result(ahead[1], simulator)
    generator = twin.unwrapped.np_random
    for _ in range(3):  # what the user's environment does next is what its twin does that nobody looked at
        mine, theirs = env.step(action), twin.step(action)
        assert digest_of(mine[:4]) == digest_of(theirs[:4])
        assert str(env.unwrapped.np_random.bit_generator.state) == str(generator.bit_generator.state)
        if mine[2]:
            break
    with pytest.raises(UnavailableError, match="current\\(observation\\)"):
        simulator.observe(simulator.current())


@pytest.mark.parametrize("name", ["FrozenLake", "Taxi", "Blackjack", "MiniGrid", "FrameStack", "Statistics"])
def test_digests_are_equal_exactly_for_equal_states(name):
    """Along random walks, against what we know makes a state: two walks that meet have met for ever."""

    def known(env: Any) -> Any:
        core = env.unwrapped
        if name == "MiniGrid":
            grid = core.grid.encode().tobytes()
            return (
                grid,
                tuple(core.agent_pos),
                core.agent_dir,
                core.step_count,
                str([o.cur_pos for o in core.obstacles]),
            )
        if name == "Blackjack":
            return str(core.player), str(core.dealer)
        if name == "Taxi":
            return core.s, core.fickle_step, getattr(core, "taxi_orientation", 0)
        frames = np.asarray(env.obs_queue).tobytes() if name == "FrameStack" else b""
        return core.s, frames

    env = ENVS[name]()
    env.reset(seed=0)
    simulator = GymnasiumSimulator(env)
    pairs: dict[Any, bytes] = {}
    for walk in range(12):
        state = simulator.reset(walk % 3)
        rng = np.random.default_rng(walk)
        for i in range(8):
            step = simulator.step(state, int(rng.integers(simulator.actions.size)), Shock.of_sample(walk % 4, i))
            state = step.state
            pairs.setdefault(known(state.saved.env), simulator.digest(state))
            assert pairs[known(state.saved.env)] == simulator.digest(state)
            if step.terminated:
                break
    assert len(set(pairs.values())) == len(pairs) > 5


@pytest.mark.parametrize("name", ["FrozenLake", "Blackjack", "MiniGrid", "LunarLander, windy", "Sticky"])
def test_nothing_is_found_by_the_check(name):
    simulator = simulator_of(name, ENVS[name]())
    faults = [finding for finding in check_simulator(simulator, simulator.reset(0), steps=6) if finding.fault]
    assert faults == []


def test_the_same_luck_is_the_same_for_all_actions():
    """FrozenLake inverts one uniform number, so under one shock all actions slip the same way."""
    env = make("FrozenLake-v1", desc=["FFF", "SFF", "FFG"])
    simulator = GymnasiumSimulator(env)
    state = simulator.reset(0)
    for shock in shocks(0, 6):
        slip = int(np.searchsorted(np.cumsum([1 / 3] * 3), shock.generator().random(), side="right"))
        for a in range(4):
            after = simulator.observe(simulator.step(state, a, shock).state)
            assert after == env.unwrapped.P[3][a][slip][1]


def test_luck_reaches_whoever_holds_the_generator():
    """The road of highway-env keeps np_random of the reset; under "replay" and in copies it must be the shock's."""
    for snapshot in (None, "replay"):
        simulator = GymnasiumSimulator(make("highway-fast-v0", **HIGHWAY), snapshot=snapshot, check=False)
        state = simulator.reset(1)
        shock = Shock.of_sample(0, 0)
        step = simulator.step(state, 1, shock)
        env = simulator._snapshots.digest_argument(step.state.saved)
        assert env.unwrapped.road.np_random is env.unwrapped.np_random is simulator._snapshots.generator
        assert env.unwrapped.road.np_random.random() == shock.generator().random()  # it drew nothing


class Holding(gym.Env):
    """Draws from a generator that a part took hold of when it was reset; one list under two names."""

    action_space = gym.spaces.Discrete(2, start=5)
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.log: list[float] = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.parts = {"wind": [self.np_random]}
        self.log = [float(self.np_random.random()), float((options or {}).get("extra", 0))]
        self.again = self.log
        self.time = 0
        return np.array(self.log), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.log[0] += float(self.parts["wind"][0].random()) * (action - 4)
        self.again[1] += 1
        self.time += 1
        return np.array(self.log), self.log[0], self.log[0] > 8, self.time >= 2, {}


@pytest.mark.parametrize("snapshot", [None, "replay"])
def test_references_survive(snapshot):
    """Copies keep which objects are one, and every holder of np_random draws the shock's luck."""
    simulator = GymnasiumSimulator(Holding(), snapshot=snapshot)
    state = simulator.reset(4, {"extra": 3})
    first = float(simulator.observe(state)[0])
    assert simulator.observe(state)[1] == 3
    for shock in shocks(3, 4):
        for a in (0, 1):
            step = simulator.step(state, a, shock)
            assert step.reward == first + shock.generator().random() * (a + 1)
            assert simulator.observe(step.state)[1] == 4
            env = simulator._snapshots.digest_argument(step.state.saved)
            assert env.log is env.again
    assert simulator.generators(state) == {}


def test_actions_that_do_not_start_at_0():
    simulator = GymnasiumSimulator(Holding(), action_names=["slow", "fast"])
    state = simulator.reset(0)
    shock = Shock.of_sample(0, 0)
    assert simulator.step(state, "fast", shock).reward == simulator.step(state, 1, shock).reward
    assert simulator.step(state, "slow", shock).reward == simulator.step(state, 0, shock).reward
    with pytest.raises(LabelError, match="5"):
        simulator.step(state, 5, shock)


def test_truncation_is_no_end():
    """Nor does its count make states different."""
    simulator = GymnasiumSimulator(wrappers.TimeLimit(Holding(), 1))
    state = simulator.reset(0)
    for i in range(4):
        step = simulator.step(state, 0, Shock.of_sample(0, i))
        assert not step.terminated
        state = step.state
    lake = GymnasiumSimulator(make("FrozenLake-v1", desc=["SFF", "FFG"], is_slippery=False, max_episode_steps=2))
    state, digests = lake.reset(0), []
    for a in (0, 0, 2, 0, 2, 0):  # against the wall, right, left, …
        state = lake.step(state, a, Shock(bytes(16))).state
        digests.append(lake.digest(state))
    assert digests[0] == digests[1] == digests[3] == digests[5] != digests[2] == digests[4]


def test_wrappers_that_count_the_past_do_not_make_states_different():
    """Statistics of an episode decide nothing; the time of day, which they hold, must not decide luck."""
    env = wrappers.RecordEpisodeStatistics(make("FrozenLake-v1", desc=["SFF", "FFG"], is_slippery=False))
    plain = GymnasiumSimulator(env)
    state = plain.reset(0)
    there_and_back = state
    for a in (2, 0):
        there_and_back = plain.step(there_and_back, a, Shock(bytes(16))).state
    assert plain.digest(there_and_back) == plain.digest(state) == plain.digest(plain.reset(1))


def test_what_wrappers_know_is_state_where_it_is_seen():
    env = wrappers.TimeAwareObservation(make("FrozenLake-v1", desc=["SFF", "FFG"], is_slippery=False))
    simulator = GymnasiumSimulator(env)
    state = simulator.reset(0)
    later = simulator.step(simulator.step(state, 2, Shock(bytes(16))).state, 0, Shock(bytes(16))).state
    assert simulator.digest(later) != simulator.digest(state)


@pytest.mark.parametrize("name", ["Normalized", "Normalized Hopper"])
def test_a_reset_is_a_function_of_its_seed(name):
    """Though running means of a wrapper go on over resets."""
    env = ENVS[name]()
    env.reset(seed=0)
    simulator = GymnasiumSimulator(env)
    first = simulator.reset(5)
    action, shock = some_actions(env, 1)[0], Shock.of_sample(0, 0)
    step = result(simulator.step(first, action, shock), simulator)
    for other in range(3):
        simulator.step(simulator.reset(other), action, shock)
    again = simulator.reset(5)
    assert simulator.digest(again) == simulator.digest(first)
    assert digest_of(simulator.observe(again)) == digest_of(simulator.observe(first))
    assert result(simulator.step(again, action, shock), simulator) == step


def test_replay_starts_from_the_environment_as_it_was_given():
    """Running means of its wrappers, which the user's own steps change later, are those of that time."""
    env = wrappers.NormalizeObservation(make("LunarLander-v3"))
    env.reset(seed=0)
    simulator = GymnasiumSimulator(env, snapshot="replay", check=False)
    state = simulator.reset(1)
    shock = Shock.of_sample(0, 0)
    before = [result(simulator.step(state, a, shock), simulator) for a in (0, 2)]
    for _ in range(20):
        env.step(2)
    again = simulator.reset(1)
    assert [result(simulator.step(again, a, shock), simulator) for a in (0, 2)] == before


def test_a_changed_mujoco_model_is_kept():
    """Gravity as the user set it, not as a new environment has it; and bodies lag behind positions as they did."""
    env, twin = make("Hopper-v5"), make("Hopper-v5")
    for one in (env, twin):
        one.reset(seed=1)
        one.unwrapped.model.opt.gravity[:] = [0, 0, -2.0]
    simulator = GymnasiumSimulator(env, check=False)
    action, state = some_actions(env, 1)[0], simulator.current()
    for i in range(4):
        step = simulator.step(state, action, Shock.of_sample(0, i))
        observation, reward, *_ = twin.step(action)
        assert step.reward == reward
        assert digest_of(simulator.observe(step.state)) == digest_of(observation)
        state = step.state


# ------------------------------------------------------------------------------------------------ what is refused


def test_box2d_is_refused_with_the_mend():
    with pytest.raises(SimulatorError, match='GymnasiumSimulator\\(env, snapshot="replay"\\)'):
        GymnasiumSimulator(make("LunarLander-v3"))


def test_replay_cannot_begin_in_the_middle():
    env = make("LunarLander-v3")
    env.reset(seed=0)
    simulator = GymnasiumSimulator(env, snapshot="replay", check=False)
    with pytest.raises(SimulatorError, match="cannot be replayed"):
        simulator.current()
    assert simulator.digest(simulator.start(Shock(bytes(16)))) != simulator.digest(simulator.reset(5))


def test_replay_keeps_few_environments_and_needs_none():
    simulator = GymnasiumSimulator(Holding(), snapshot="replay", check=False)
    states = [simulator.reset(i) for i in range(40)]
    found = [simulator.step(state, 0, Shock.of_sample(0, 0)).reward for state in states]
    assert [simulator.step(state, 0, Shock.of_sample(0, 0)).reward for state in states[::-1]] == found[::-1]
    assert len(simulator._snapshots._running) <= simulator.lanes


def test_sticky_actions_of_the_emulator_are_refused():
    with pytest.raises(SimulatorError, match=r"repeat_action_probability=0\.0.*ALESimulator\(game, sticky=0\.25\)"):
        GymnasiumSimulator(make("ALE/Pong-v5"))


def test_wrong_things_are_refused():
    with pytest.raises(SimulatorError, match="vector environment"):
        GymnasiumSimulator(gym.make_vec("CartPole-v1", num_envs=2))
    with pytest.raises(SimulatorError, match="not a Gymnasium environment"):
        GymnasiumSimulator(object())
    with pytest.raises(SimulatorError, match='without render_mode="human"'):
        GymnasiumSimulator(Holding(render_mode="human"))
    with pytest.raises(SimulatorError, match='Use None or "replay"'):
        GymnasiumSimulator(Holding(), snapshot="copy")  # type: ignore[arg-type]
    with pytest.raises(SimulatorError, match="must be given together"):
        GymnasiumSimulator(Holding(), save=lambda env: 1)
    with pytest.raises(SimulatorError, match="requires discrete actions"):
        GymnasiumSimulator(make("Pendulum-v1"), action_names=["a"])
    with pytest.raises(JMDPError, match="more than 2 entries"):
        GymnasiumSimulator(Holding(), action_names=["a", "b", "c"])
    with pytest.raises(SettingsError, match="seed"):
        GymnasiumSimulator(Holding()).reset(-1)


def test_action_names():
    assert GymnasiumSimulator(make("ALE/Pong-v5", **QUIET)).actions.names[:2] == ("NOOP", "FIRE")
    assert GymnasiumSimulator(ENVS["MiniGrid"]()).actions.names == ("left", "right", "forward")
    assert GymnasiumSimulator(Holding()).actions.names is None
    assert GymnasiumSimulator(make("Pendulum-v1")).actions is None
