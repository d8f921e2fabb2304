"""Any Gymnasium environment as a simulator: branch it where it stands, with the luck in hand."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import Any, Literal

from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.base.settings import whole_number
from jmdp.errors import SettingsError, SimulatorError, UnavailableError
from jmdp.simulators.checking.simulator_check import quick_check
from jmdp.simulators.digests import digest_of, generators_in
from jmdp.simulators.gymnasium.copied import CopiedEnvs
from jmdp.simulators.gymnasium.cores import AtariCore, Core, MuJoCoCore, UserCore
from jmdp.simulators.gymnasium.env_operations import layers, pickled, was_reset
from jmdp.simulators.gymnasium.episodes import LiveEnvs, LiveEpisode
from jmdp.simulators.gymnasium.global_generators import seeded_global_generators, untouched_global_generators
from jmdp.simulators.gymnasium.replayed import ReplayedEnvs
from jmdp.simulators.gymnasium.saved import SavedEnvs
from jmdp.simulators.gymnasium.snapshots import EnvSnapshots, Snapshot
from jmdp.simulators.simulator import Episode, Simulator, Step


class GymnasiumSimulator(Simulator):
    """A Gymnasium environment, wrappers and all.

    Your environment stays where it is: work is done in copies. Only with `save` and `restore` it is itself worked with,
    and stands somewhere else afterwards.

    The luck of a step goes in through ``np_random``. Wrappers keep what they know (frame stacks, counters). By default
    a truncation is no end: rollouts go on beyond it to their own horizon, as if its value were bootstrapped; see
    `truncated_ends`. Environments that ``copy.deepcopy`` would make anew instead of copying (`EzPickle`: Box2D and
    others) are copied by hand where that can be done, else refused.

    Parameters
    ----------
    env
        The environment. Where it has been reset, `start` is the state it stands in.
    snapshot
        None: by the emulator's or MuJoCo's own calls, else by copying. "replay": states are played again from their
        reset, which works with everything whose luck is in ``np_random``, at the price of the time it takes.
    save, restore
        ``save(env)`` and ``restore(env, saved)``: the environment's own state calls. What wrappers know is saved too.
    digest
        ``digest(env)`` or, with `save`, ``digest(saved)``: what makes two states the same. None looks at all attributes
        but those for drawing.
    action_names
        Names of discrete actions; None asks the environment, which may have none.
    truncated_ends
        Treat `truncated` as the end of the episode: the reward of that step counts, nothing after it does. For problems
        that end there, such as a season of 30 days or a data set that runs out. The steps counted by a time limit are
        then part of the state.
    global_generators
        Let the global generators of NumPy and Python follow from the shock too, for environments that draw from them.
    check
        Try a few steps now and before sampling, and raise `SimulatorError` if randomness is not shared.
    """

    def __init__(
        self,
        env: Any,
        *,
        snapshot: Literal["replay"] | None = None,
        save: Callable[[Any], Any] | None = None,
        restore: Callable[[Any, Any], object] | None = None,
        digest: Callable[[Any], Any] | None = None,
        action_names: Sequence[str] | None = None,
        truncated_ends: bool = False,
        global_generators: bool = False,
        check: bool = True,
    ) -> None:
        _refuse(env, snapshot, save, restore)
        self._truncated_ends = truncated_ends
        self._env = env
        self._own_digest, self.check = digest, check
        self.actions, self._first_action = _actions(env, action_names)
        globals_in_step: Callable[[Shock], Any] = untouched_global_generators
        if global_generators:
            globals_in_step = seeded_global_generators
        self._globals_in_step = globals_in_step
        self._live_envs: LiveEnvs | None = None
        self._snapshots: EnvSnapshots
        core = _core(env)
        if snapshot == "replay":
            self.lanes = 16
            self._snapshots = ReplayedEnvs(env, globals_in_step, self.lanes)
        elif save is not None and restore is not None:
            self._snapshots = SavedEnvs(env, UserCore(save, restore), globals_in_step, private=False)
        elif core is not None:
            self._snapshots = SavedEnvs(env, core, globals_in_step, private=True)
        else:
            self._snapshots = CopiedEnvs(env, globals_in_step)
        self._snapshots.time_counts = truncated_ends
        self._stands_somewhere = save is None or was_reset(env)  # else the simulator's own resets cannot be told apart
        if check:
            actions = range(self.actions.size) if self.actions else _samples(env.action_space, 2)
            quick_check(self, self.start(Shock(bytes(16))), list(actions)[:4])

    def start(self, shock: Shock) -> Snapshot:
        """The state the environment stands in, if it was reset and its way there is not needed; else a new episode.

        With `save` and `restore` it must have been reset before the simulator was made.
        """
        if self._stands_somewhere and was_reset(self._env) and not isinstance(self._snapshots, ReplayedEnvs):
            return self.current()
        return self.reset(int.from_bytes(shock.words[:4], "little"))

    def current(self, observation: Any = None) -> Snapshot:
        """The state the environment stands in now. Its observation is needed only if a policy is asked in it."""
        return Snapshot(self._snapshots.save(self._env), observation)

    def reset(self, seed: int, options: dict[str, Any] | None = None) -> Snapshot:
        """The first state of a new episode."""
        return Snapshot(*self._snapshots.reset(whole_number("seed", seed, 0, 2**128), options))

    def step(self, state: Snapshot, action: Any, shock: Shock) -> Step:
        """``env.step(action)`` from this state, with this luck."""
        return self._step(state, action, shock, use_up=False)

    def advance(self, state: Snapshot, action: Any, shock: Shock) -> Step:
        """Step in place, without a copy; the state cannot be used again."""
        return self._step(state, action, shock, use_up=True)

    def _step(self, state: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> Step:
        _refuse_used_up(state)
        state.used_up = use_up
        try:
            saved, result = self._snapshots.step(state, self._code(action), shock, use_up=use_up)
        except Exception as error:
            if state.truncated_at is None:
                raise
            raise SimulatorError(_after_truncation(state.truncated_at, error)) from error
        observation, reward, terminated, truncated, _ = result
        steps, truncated_at = state.steps + 1, state.truncated_at
        if truncated and truncated_at is None:
            truncated_at = steps
        ended = terminated or (truncated and self._truncated_ends)
        return Step(float(reward), Snapshot(saved, observation, steps, truncated_at), bool(ended))

    def _code(self, action: Any) -> Any:
        """What the environment is given for an action."""
        return action if self.actions is None else self._first_action + self.actions.index(action)

    def episode(
        self, shock: Shock, state: Snapshot | None = None, *, truncated_ends: bool = False, digests: bool = False
    ) -> Episode:
        """From a snapshot; or a new episode, in an environment of its own that is stepped in place."""
        if state is not None and not isinstance(state, Snapshot):
            raise SettingsError(
                f"starts has a {type(state).__name__}. Starts of an environment are snapshots of it "
                "(GymnasiumSimulator.current()); leave starts out for its own resets."
            )
        if state is None and not digests:
            return LiveEpisode(self._live(), shock, self._code, truncated_ends or self._truncated_ends)
        begun = self.reset(int.from_bytes(shock.words[:4], "little")) if state is None else state
        return super().episode(shock, begun, truncated_ends=truncated_ends)

    def _live(self) -> LiveEnvs:
        self._live_envs = self._live_envs or LiveEnvs(self._env, self._globals_in_step)
        return self._live_envs

    @property
    def episode_lanes(self) -> int:
        """As many copies of the environment as run side by side."""
        return self._live().lanes

    @property
    def episode_limit(self) -> int | None:
        """The time limit of the environment's registration, or of a wrapper around it."""
        for layer in layers(self._env):
            if type(layer).__name__ == "TimeLimit":
                return int(layer._max_episode_steps)
        limit = getattr(self._env.spec, "max_episode_steps", None) or getattr(self._env.unwrapped, "max_steps", None)
        return None if limit is None else int(limit)

    def digest(self, state: Snapshot) -> bytes:
        """Which states are the same; see `digest` above."""
        _refuse_used_up(state)
        if self._own_digest is not None:
            return digest_of(self._own_digest(self._snapshots.digest_argument(state.saved)))
        return self._snapshots.digest(state.saved)

    def observe(self, state: Snapshot) -> Any:
        """What the environment returned on arriving here."""
        if state.observation is None:
            raise UnavailableError(
                "What is seen in this state is not known: Gymnasium says it only on arriving. Give it: "
                "simulator.current(observation)."
            )
        return state.observation

    def generators(self, state: Snapshot) -> dict[str, Any]:
        """Generators kept in the environment and its spaces, besides np_random."""
        env = self._snapshots.inspectable(state.saved)
        known = [self._snapshots.generator, getattr(getattr(env, "unwrapped", None), "_np_random", None)]
        found = generators_in(env, "env").items()
        return {name: generator for name, generator in found if not any(generator is x for x in known)}

    def __getstate__(self) -> bytes:
        return pickled(vars(self))

    def __setstate__(self, state: bytes) -> None:
        vars(self).update(pickle.loads(state))

    def __repr__(self) -> str:
        spec = self._env.spec
        name = type(self._env.unwrapped).__name__ if spec is None else spec.id
        return f"GymnasiumSimulator({name}{', truncated_ends=True' * self._truncated_ends})"


def _after_truncation(step: int, error: Exception) -> str:
    return (
        f"The environment signalled truncated at step {step} (counted from where the simulator began), and its step() "
        f"then raised {type(error).__name__}: {error}. If the truncation is the end of the problem, use "
        "GymnasiumSimulator(env, truncated_ends=True). Otherwise let rollouts end there: horizon ≤ "
        f"{step} from that beginning."
    )


def _refuse_used_up(state: Snapshot) -> None:
    if state.used_up:
        raise SimulatorError("This state was given to advance(), which uses it up. Use step() to keep a state.")


def _refuse(env: Any, snapshot: object, save: object, restore: object) -> None:
    """What cannot work is said at once."""
    if hasattr(env, "num_envs"):
        raise SimulatorError(f"{type(env).__name__} is a vector of environments. Give a single one: gymnasium.make(…).")
    known = all(hasattr(env, name) for name in ("unwrapped", "step", "reset", "action_space"))
    if not known or not hasattr(env.unwrapped, "_np_random"):
        raise SimulatorError(f"env is a {type(env).__name__}, not a Gymnasium environment. Try gymnasium.make(…).")
    if snapshot not in (None, "replay"):
        raise SimulatorError(f'snapshot is {snapshot!r}. It is None or "replay".')
    if (save is None) != (restore is None):
        raise SimulatorError("save and restore go together. Give both or neither.")
    if getattr(env, "render_mode", None) == "human":
        raise SimulatorError('The environment draws to a window. Make it without render_mode="human".')
    ale = getattr(env.unwrapped, "ale", None)
    if ale is not None and ale.getFloat("repeat_action_probability") > 0:
        raise SimulatorError(
            "Sticky actions of the emulator draw from a generator of its own and remember an action that its saved "
            "states lack. Use gymnasium.make(…, repeat_action_probability=0.0), or jmdp.simulators.ALESimulator(game, "
            f"sticky={ale.getFloat('repeat_action_probability'):g}), whose luck is in hand."
        )


def _core(env: Any) -> Core | None:
    """The part that has state calls of its own."""
    inner = env.unwrapped
    if hasattr(getattr(inner, "ale", None), "cloneState"):
        return AtariCore()
    if type(getattr(inner, "data", None)).__name__ == "MjData":
        return MuJoCoCore()
    return None


def _samples(space: Any, count: int) -> list[Any]:
    """From a copy: the user's own draws are not disturbed."""
    space = copy.deepcopy(space)
    space.seed(0)
    return [space.sample() for _ in range(count)]


def _actions(env: Any, names: Sequence[str] | None) -> tuple[Labels | None, int]:
    """Discrete actions by index or name, and the number the first one has."""
    space = env.action_space
    if type(space).__name__ != "Discrete":
        if names is not None:
            raise SimulatorError(f"action_names is for discrete actions, and these are {space}.")
        return None, 0
    count, inner = int(space.n), env.unwrapped
    if names is None:
        meant: Sequence[str] = ()
        if hasattr(inner, "get_action_meanings"):
            meant = inner.get_action_meanings()
        elif hasattr(getattr(inner, "actions", None), "__members__"):  # an Enum
            meant = list(inner.actions.__members__)[:count]
        elif isinstance(getattr(getattr(inner, "action_type", None), "actions", None), dict):
            meant = [str(name) for name in inner.action_type.actions.values()]
        else:
            meant = _MEANINGS.get(type(inner).__name__, ())
        names = meant if len(set(meant)) == len(meant) == count else None
    return Labels.of("action", count, names), int(space.start)


_MEANINGS = {
    "AcrobotEnv": ("left", "none", "right"),
    "BlackjackEnv": ("stick", "hit"),
    "CartPoleEnv": ("left", "right"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "LunarLander": ("nothing", "left engine", "main engine", "right engine"),
    "MountainCarEnv": ("left", "none", "right"),
    "TaxiEnv": ("south", "north", "east", "west", "pick up", "drop off"),
}
"""What the actions of Gymnasium's own environments are, by their documentation."""
