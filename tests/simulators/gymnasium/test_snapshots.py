"""Ways to keep environments: what they hold on to, what they let go, and what they refuse."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import numpy as np
import pytest

import jmdp
from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.simulators.adapters.gymnasium.gymnasium_simulator import GymnasiumSimulator
from jmdp.simulators.digests import digest_of

gym = pytest.importorskip("gymnasium")

BOX = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)


class Walk(gym.Env):
    """Goes up or down by what it draws; a base to spoil."""

    action_space = gym.spaces.Discrete(2)
    observation_space = BOX

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0.0
        return self.seen(), {}

    def draw(self) -> float:
        return float(self.np_random.random())

    def seen(self) -> Any:
        return np.array([self.place])

    def step(self, action):
        self.place += (1 if action else -1) * self.draw()
        return self.seen(), self.place, False, False, {}


def steps(simulator: GymnasiumSimulator, state: Any, count: int = 4) -> list[float]:
    found = []
    for i in range(count):
        step = simulator.step(state, i % 2, Shock.of_sample(0, i))
        found.append(step.reward)
        state = step.state
    return found


def truth(count: int = 4, scale: float = 1.0) -> list[float]:
    luck = [Shock.of_sample(0, i).generator().random() * (1 if i % 2 else -1) for i in range(count)]
    return np.cumsum(luck).tolist()


# -------------------------------------------------------------------------------------------------- own calls


class Core:
    """A core that neither Python nor copy can look into."""

    def __init__(self) -> None:
        self.hidden = iter([])  # cannot be fingerprinted
        self.place = 0.0

    def __deepcopy__(self, memo: Any) -> Core:
        raise TypeError("this is C")


class InC(Walk):
    def __init__(self) -> None:
        self.core = Core()
        self.restored = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.core.place = 0.0
        return self.seen(), {}

    def seen(self) -> Any:
        return np.array([self.core.place])

    def step(self, action):
        self.core.place += (1 if action else -1) * self.draw()
        return self.seen(), self.core.place, False, False, {}


def save(env: Any) -> float:
    return env.unwrapped.core.place


def restore(env: Any, saved: float) -> None:
    env.unwrapped.core.place = saved
    env.unwrapped.restored += 1


@pytest.mark.parametrize("frames", [0, 3])
def test_own_calls(frames):
    """The core by the user's calls, the wrappers by ours."""
    env: Any = InC()
    if frames:
        env = gym.wrappers.FrameStackObservation(env, frames)
    with pytest.raises(
        SimulatorError, match=r"attribute core is a Core \(this is C\).*save=lambda env.*register.*replay"
    ):
        GymnasiumSimulator(env)
    simulator = GymnasiumSimulator(env, save=save, restore=restore)
    state = simulator.reset(0)
    assert steps(simulator, state) == pytest.approx(truth(), abs=1e-15)
    one, other = (simulator.step(state, a, Shock.of_sample(0, 0)).state for a in (0, 1))
    for _ in range(2):  # interleaved
        ahead = [simulator.step(here, 1, Shock.of_sample(1, 1)) for here in (one, other)]
        seen = [simulator.observe(step.state) for step in ahead]
        luck = [Shock.of_sample(i, i).generator().random() for i in range(2)]
        assert [float(np.ravel(x)[-1]) for x in seen] == pytest.approx([luck[1] - luck[0], luck[1] + luck[0]])
        if frames:
            assert [float(x[1, 0]) for x in seen] == pytest.approx([-luck[0], luck[0]])
    assert simulator.digest(one) != simulator.digest(other)
    assert simulator.digest(one) == simulator.digest(simulator.step(state, 0, Shock.of_sample(0, 0)).state)
    assert env.unwrapped.restored > 0


def test_own_calls_and_the_users_own_steps():
    """The environment is worked with, so the user may have moved it in between."""
    env = InC()
    env.reset(seed=0)
    simulator = GymnasiumSimulator(env, save=save, restore=restore)
    state = simulator.current()
    before = simulator.step(state, 1, Shock(bytes(16)))
    env.step(1)
    env.step(1)
    again = simulator.step(before.state, 1, Shock.of_sample(0, 0)).reward
    assert again == before.reward + Shock.of_sample(0, 0).generator().random()
    assert simulator.step(state, 1, Shock(bytes(16))).reward == before.reward


def test_the_users_environment_is_left_where_it_stood():
    """The check and the rollouts step the user's own environment; each step puts it back, generator included."""
    env = InC()
    env.reset(seed=0)
    env.step(1)
    place, generator = env.core.place, env.np_random
    simulator = GymnasiumSimulator(env, save=save, restore=restore)
    comparisons = [
        jmdp.compare(simulator, policy=lambda obs: 1, seed=0, discount=0.5, max_samples=8, horizon=4) for _ in range(2)
    ]
    assert (env.core.place, env.np_random) == (place, generator)
    assert comparisons[0].summary.samples.returns.tolist() == comparisons[1].summary.samples.returns.tolist()


def test_an_environment_that_was_not_reset_begins_a_new_episode():
    """Its own resets must not be taken for the user's: the second start would be where the first one ended."""
    simulator = GymnasiumSimulator(InC(), save=save, restore=restore)
    first = simulator.start(Shock.of_sample(0, 0))
    simulator.step(first, 1, Shock.of_sample(0, 1))
    assert simulator.digest(simulator.start(Shock.of_sample(0, 0))) == simulator.digest(first)


def test_digests_of_ones_own():
    rounded = GymnasiumSimulator(InC(), save=save, restore=restore, digest=lambda saved: saved > 0, check=False)
    state = rounded.reset(0)
    ups = [rounded.step(state, 1, Shock.of_sample(0, i)).state for i in range(3)]
    assert len({rounded.digest(up) for up in ups}) == 1 != len({rounded.digest(s) for s in (state, ups[0])})
    for snapshot in (None, "replay"):
        copied = GymnasiumSimulator(
            Walk(), snapshot=snapshot, digest=lambda env: round(env.unwrapped.place), check=False
        )
        state = copied.reset(0)
        down, up = (copied.step(state, a, Shock.of_sample(0, 0)).state for a in (0, 1))
        size = round(Shock.of_sample(0, 0).generator().random())
        assert (copied.digest(down) == copied.digest(up)) == (size == 0)
        again = copied.step(copied.reset(1), 1, Shock.of_sample(0, 0)).state  # another way to the same place
        assert copied.digest(again) == copied.digest(up)


def test_digests_of_ones_own_see_the_environment_of_mujoco(tmp_path, monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    env = gym.make("Hopper-v5")
    simulator = GymnasiumSimulator(env, digest=lambda env: np.round(env.unwrapped.data.qpos, 9), check=False)
    state = simulator.reset(0)
    ahead = [simulator.step(state, np.full(3, x), Shock(bytes(16))).state for x in (0.5, 0.5, -0.5)]
    digests = [simulator.digest(one) for one in ahead]
    assert digests[0] == digests[1] != digests[2]


# ----------------------------------------------------------------------------------------------- hidden luck


class Secret(Walk):
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.mine: Any = {"generator": np.random.default_rng(1), "python": random.Random(1)}.get(kind)
        if kind == "bound method":
            self.mine = np.random.default_rng(1).random
        elif kind == "closure":
            rng = np.random.default_rng(1)
            self.mine = lambda: rng.random()
        elif kind == "space":
            self.observation_space = gym.spaces.Box(0, 1, (1,), np.float64, seed=3)

    def draw(self) -> float:
        if self.kind == "global numpy":
            return float(np.random.random())  # noqa: NPY002
        if self.kind == "global python":
            return random.random()
        if self.kind == "space":
            return float(self.observation_space.sample()[0])
        if self.kind in ("bound method", "closure"):
            return float(self.mine())
        return float(self.mine.random())


@pytest.mark.parametrize("snapshot", [None, "replay"])
@pytest.mark.parametrize("kind", ["generator", "python", "bound method", "closure", "space"])
def test_a_generator_inside_is_found(kind, snapshot):
    env = Secret(kind)
    env.reset(seed=0)
    with pytest.raises(SimulatorError, match=r"own generator|hidden state"):
        GymnasiumSimulator(env, snapshot=snapshot)
    simulator = GymnasiumSimulator(env, snapshot=snapshot, check=False)
    assert len(simulator.generators(simulator.reset(0))) == 1


@pytest.mark.parametrize("snapshot", [None, "replay"])
@pytest.mark.parametrize("kind", ["global numpy", "global python"])
def test_global_generators(kind, snapshot):
    """Refused, unless they are to follow from the shock; then they are left as they were."""
    with pytest.raises(SimulatorError, match=r"draws from the global.*global_generators=True"):
        GymnasiumSimulator(Secret(kind), snapshot=snapshot)
    before = digest_of((np.random.get_state()[1:3], random.getstate()))  # noqa: NPY002
    simulator = GymnasiumSimulator(Secret(kind), snapshot=snapshot, global_generators=True)
    state = simulator.reset(0)
    assert digest_of(simulator.observe(simulator.reset(0))) == digest_of(simulator.observe(state))
    found = steps(simulator, state)
    assert digest_of((np.random.get_state()[1:3], random.getstate())) == before  # noqa: NPY002
    np.random.random(5)  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    random.seed(2)
    assert steps(simulator, state) == found
    assert len({simulator.step(state, 0, Shock.of_sample(0, i)).reward for i in range(5)}) == 5


class GlobalStart(Walk):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = float(np.random.random())  # noqa: NPY002
        return self.seen(), {}


@pytest.mark.parametrize("snapshot", [None, "replay"])
def test_a_start_drawn_from_a_global_generator_is_its_seeds(snapshot):
    simulator = GymnasiumSimulator(GlobalStart(), snapshot=snapshot, global_generators=True)
    starts = [simulator.reset(i) for i in (0, 0, 1)]
    places = [float(simulator.observe(start)[0]) for start in starts]
    assert places[0] == places[1] != places[2]
    for _ in range(simulator.lanes):
        simulator.reset(5)  # so that nothing is under way any more
    shock = Shock.of_sample(0, 0)
    for start, place in zip(starts, places, strict=True):
        assert simulator.step(start, 1, shock).reward == place + shock.generator().random()


# ------------------------------------------------------------------------------------------------- what is state


class Queue(Walk):
    """Calls its state by names that others use for drawing and counting."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock, self._elapsed_steps, self.isopen = 0.0, 0, True
        self.window: deque[float] = deque([0.0], maxlen=2)
        self.P, self.lastaction = {"pressure": 1.0}, 0
        return self.seen(), {}

    def seen(self) -> Any:
        return np.zeros(1)

    def step(self, action):
        luck = self.draw()
        reward = self.clock + self._elapsed_steps + self.window[-1] + self.P["pressure"] + self.lastaction + self.isopen
        which = int(luck * 6)
        self.clock += which == 0
        self._elapsed_steps += which == 1
        self.window.append(float(which == 2))
        self.P["pressure"] += which == 3
        self.lastaction = int(which == 4 and action)
        self.isopen = which != 5
        return self.seen(), reward, False, False, {}


def test_names_do_not_make_state_disappear():
    """A simulated clock, a window of numbers, a dictionary P that changes: they decide what comes, so they count."""
    simulator = GymnasiumSimulator(Queue())
    state = simulator.reset(0)
    seen: dict[bytes, Any] = {}
    for i in range(40):
        step = simulator.step(state, 1, Shock.of_sample(0, i))
        env = step.state.saved.env
        known = env.clock, env._elapsed_steps, env.window[-1], env.window[0], env.P["pressure"], env.lastaction
        known += (env.isopen,)
        assert seen.setdefault(simulator.digest(step.state), known) == known
        again = simulator.step(step.state, 0, Shock.of_sample(1, i))
        assert simulator.step(step.state, 0, Shock.of_sample(1, i)).reward == again.reward
    assert len(seen) >= 6
    assert simulator.step(state, 1, Shock.of_sample(0, 0)).reward == 2.0  # and branches do not share P


class Rebuilt(gym.Wrapper, gym.utils.EzPickle):
    """A wrapper that copies make anew from its arguments."""

    def __init__(self, env: Any) -> None:
        gym.utils.EzPickle.__init__(self, env)
        super().__init__(env)
        self.count = 0

    def step(self, action):
        self.count += 1
        observation, reward, *rest = self.env.step(action)
        return (observation, reward + 100 * self.count, *rest)


class RebuiltCore(Walk, gym.utils.EzPickle):
    def __init__(self) -> None:
        gym.utils.EzPickle.__init__(self)


@pytest.mark.parametrize("env", [lambda: Rebuilt(Walk()), lambda: Rebuilt(RebuiltCore()), RebuiltCore])
def test_what_copies_make_anew_keeps_its_state(env):
    simulator = GymnasiumSimulator(env())
    counted = 100.0 if isinstance(env(), Rebuilt) else 0.0
    expected = [x + counted * (i + 1) for i, x in enumerate(truth())]
    assert steps(simulator, simulator.reset(0)) == pytest.approx(expected, abs=1e-12)


class LateWrapper(gym.Wrapper):
    def step(self, action):
        bonus = 10.0 if hasattr(self, "late") else 0.0
        self.late = True
        observation, reward, *rest = self.env.step(action)
        return (observation, reward + bonus, *rest)


def test_attributes_made_on_the_way_are_gone_on_the_way_back():
    simulator = GymnasiumSimulator(LateWrapper(InC()), save=save, restore=restore, check=False)
    state = simulator.reset(0)
    first = simulator.step(state, 1, Shock(bytes(16)))
    second = simulator.step(first.state, 1, Shock(bytes(16)))
    assert second.reward > 10 > first.reward
    assert simulator.step(state, 1, Shock(bytes(16))).reward == first.reward


class Uncopyable(InC):
    pass


def test_replay_of_what_cannot_be_copied():
    """Another is made where Gymnasium knows how; else it is said."""
    with pytest.raises(SimulatorError, match=r"this is C.*gymnasium\.make"):
        GymnasiumSimulator(Uncopyable(), snapshot="replay")
    gym.register("jmdp-test/Uncopyable-v0", Uncopyable)
    try:
        simulator = GymnasiumSimulator(gym.make("jmdp-test/Uncopyable-v0"), snapshot="replay")
        assert steps(simulator, simulator.reset(0)) == pytest.approx(truth(), abs=1e-15)
    finally:
        del gym.registry["jmdp-test/Uncopyable-v0"]


def test_replay_does_not_hold_on_to_the_users_action():
    class Free(Walk):
        action_space = BOX

        def step(self, action):
            self.place += float(action[0])
            return self.seen(), self.place, False, False, {}

    simulator = GymnasiumSimulator(Free(), snapshot="replay", check=False)
    state, action = simulator.reset(0), np.array([1.0])
    after = simulator.step(state, action, Shock(bytes(16))).state
    action[0] = 50.0
    for _ in range(2):  # the second time it is played again
        assert simulator.step(after, np.array([1.0]), Shock(bytes(16))).reward == 2.0
