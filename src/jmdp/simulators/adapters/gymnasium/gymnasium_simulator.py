"""Adapter that makes a simulator of a Gymnasium environment: snapshots, branching and controlled randomness."""

from __future__ import annotations

import copy
import pickle
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, cast

from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.base.settings import boolean_value, function, short, whole_number
from jmdp.distribute.pickling import unpickled_with
from jmdp.errors import SettingsError, SimulatorError, UnavailableError
from jmdp.simulators.adapters.gymnasium.copied import CopiedEnvs
from jmdp.simulators.adapters.gymnasium.cores import (
    AtariCore,
    Core,
    MuJoCoCore,
    SharedTable,
    UserCore,
    is_plain_table,
    transition_table,
)
from jmdp.simulators.adapters.gymnasium.env_operations import (
    EnvSnapshots,
    Snapshot,
    after_truncation,
    in_box,
    layers,
    refuse_env,
    refuse_unusable,
    seeded_global_generators,
    untouched_global_generators,
    was_reset,
    wrong_result,
)
from jmdp.simulators.adapters.gymnasium.episodes import LiveEnvs, LiveEpisode
from jmdp.simulators.adapters.gymnasium.saved import ReplayedEnvs, SavedEnvs
from jmdp.simulators.checking.visits import quick_check
from jmdp.simulators.digests import digest_of
from jmdp.simulators.object_graph import generators_in
from jmdp.simulators.simulator import Episode, Outcomes, Simulator, Step, is_over, plain_reward

T = TypeVar("T")


class GymnasiumSimulator(Simulator):
    """Simulator of a Gymnasium environment with all its wrappers.

    The environment itself is not changed: steps are simulated in copies. Only with `save` and `restore` the environment
    itself is used; it is then restored after each step if it had been reset.

    The randomness of a step enters through ``np_random``. The state of wrappers (frame stacks, counters) is part of a
    snapshot. By default a truncation does not end a rollout, which continues to its own horizon, as if the value were
    bootstrapped; see `truncated_ends`. Environments that ``copy.deepcopy`` would rebuild instead of copying
    (`EzPickle`: Box2D and others) are copied attribute by attribute. An environment that cannot be copied raises an
    error.

    Parameters
    ----------
    env
        The environment. If it has been reset, `start` returns its current state.
    snapshot
        None: by the emulator's or MuJoCo's own functions, otherwise by copying. "replay": by repeating all steps since
        the reset, which is slow but works for every environment whose randomness comes from ``np_random``.
    save, restore
        ``save(env)`` and ``restore(env, saved)``: functions that save and restore the environment's state. The state of
        wrappers is saved in addition.
    digest
        ``digest(env)`` or, with `save`, ``digest(saved)``: value that is equal for equal states. None uses all
        attributes except those for rendering.
    action_names
        Names of discrete actions. None uses the environment's own names, if it has any.
    truncated_ends
        Treat `truncated` as the end of the episode: the reward of that step is the last. For problems that end there,
        such as a season of 30 days or a finite data set. The step counter of a time limit is then part of the state.
    global_generators
        Also seed the global generators of NumPy and Python in each step, for environments that draw from them.
    check
        Test a few steps now and before sampling, and raise `SimulatorError` if randomness is not shared.
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
        for name, given in {"save": save, "restore": restore, "digest": digest}.items():
            function(name, given, SimulatorError, optional=True)
        refuse_env(env, snapshot, save, restore)
        self._truncated_ends = truncated_ends = boolean_value("truncated_ends", truncated_ends)
        self._env = env
        self._own_digest, self.check = digest, boolean_value("check", check)
        self.actions, self._first_action = _actions(env, action_names)
        size = 0 if self.actions is None else self.actions.size
        self._codes = range(self._first_action, self._first_action + size)  # of discrete actions
        self._box = env.action_space if type(env.action_space).__name__ == "Box" else None
        globals_in_step: Callable[[Shock], Any] = untouched_global_generators
        if boolean_value("global_generators", global_generators):
            globals_in_step = seeded_global_generators
        self._globals_in_step = globals_in_step
        self._live_envs: LiveEnvs | None = None
        self._table = SharedTable()
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
            self._snapshots = copies = CopiedEnvs(env, globals_in_step, self._table)
            self.lanes = 256 if self._table.in_block(copies.quick) else self.lanes
        self._snapshots.time_counts = truncated_ends
        self._stands_somewhere = save is None or was_reset(env)  # else was_reset() may report the simulator's reset
        if self.check:
            actions = range(self.actions.size) if self.actions else _samples(env.action_space, 2)
            quick_check(self, self.start(Shock(bytes(16))), list(actions[:4]))

    def start(self, shock: Shock) -> Snapshot:
        """Current state of the environment if it has been reset, else the first state of a new episode.

        With `save` and `restore`, the reset must precede the construction of the simulator. With snapshot="replay" the
        result is always a new episode.
        """
        if self._stands_somewhere and was_reset(self._env) and not isinstance(self._snapshots, ReplayedEnvs):
            return self.current()
        return self.reset(int.from_bytes(shock.words[:4], "little"))

    def current(self, observation: Any = None) -> Snapshot:
        """Snapshot of the environment's current state. `observation` is needed only if a policy acts in this state."""
        return Snapshot(self._snapshots.save(self._env), observation)

    def reset(self, seed: int, options: dict[str, Any] | None = None) -> Snapshot:
        """Snapshot of the first state of a new episode."""
        return Snapshot(*self._snapshots.reset(whole_number("seed", seed, 0, 2**128), options))

    def step(self, state: Snapshot, action: Any, shock: Shock) -> Step:
        """Result of ``env.step(action)`` from this state under this shock."""
        return self._step(state, action, shock, use_up=False)

    def advance(self, state: Snapshot, action: Any, shock: Shock) -> Step:
        """Step in place, without a copy; the given state cannot be used again."""
        return self._step(state, action, shock, use_up=True)

    def step_all(self, states: Sequence[Snapshot], actions: Sequence[Any], shocks: Sequence[Shock]) -> Outcomes:
        """`step` from each of these states."""
        together = self._copies_in_one_loop() and type(self).step is GymnasiumSimulator.step
        return (self._go_all if together else super().step_all)(states, actions, shocks)

    def advance_all(self, states: Sequence[Snapshot], actions: Sequence[Any], shocks: Sequence[Shock]) -> Outcomes:
        """`advance` from each of these states."""
        if self._copies_in_one_loop() and type(self).advance is GymnasiumSimulator.advance:
            return self._go_all(states, actions, shocks, use_up=True)
        return super().advance_all(states, actions, shocks)

    def _copies_in_one_loop(self) -> bool:
        untouched = self._globals_in_step is untouched_global_generators
        return untouched and isinstance(self._snapshots, CopiedEnvs)

    def _go_all(
        self, states: Sequence[Snapshot], actions: Sequence[Any], shocks: Sequence[Shock], *, use_up: bool = False
    ) -> Outcomes:
        """`_step` from each of these states in one loop, because many environments take as long as some calls."""
        snapshots, ends = cast(CopiedEnvs, self._snapshots), self._truncated_ends
        generator, copy_of, codes, size = snapshots.generator, snapshots.copied, self._codes, len(self._codes)
        rewards, after, over = list[float](), list[Snapshot](), list[Any]()
        restart, ready = generator.restart, None  # shock to which the generator is set, if nothing was drawn since
        for state, action, shock in zip(states, actions, shocks, strict=True):
            usual = type(state) is Snapshot and not state.used_up and state.truncated_at is None
            if not usual or (state.saved.core._np_random is not generator if use_up else type(shock) is not Shock):
                reward, following, terminated = self._step(state, action, shock, use_up=use_up)
                rewards.append(reward)
                after.append(following)
                over.append(terminated)
                ready = None
                continue
            copied = state.saved if use_up else copy_of(state.saved)
            copied.recipe = None
            code = codes[action] if type(action) is int and 0 <= action < size else self._code(action)
            if shock is not ready:
                restart(shock._words or shock.peek())
                ready = shock
            result = copied.go(code)
            usage = shock.usage
            if usage is None or usage.used:
                ready = None  # it is not known whether a number was drawn
            elif generator.moved or copied.core._np_random is not generator:
                usage.used, ready = True, None
            try:
                observation, reward, terminated, truncated, _ = result
                if type(reward) is not float:
                    reward = plain_reward(reward)
            except (TypeError, ValueError) as error:
                raise wrong_result(result) from error
            limit = copied.limit
            if limit is not None:
                limit._elapsed_steps += 1
                truncated = truncated or limit._elapsed_steps >= limit._max_episode_steps
            state.used_up, steps = use_up, state.steps + 1
            rewards.append(reward)
            after.append(Snapshot(copied, observation, steps, steps if truncated else None))
            over.append(terminated or (truncated and ends))
        return rewards, after, over

    def _step(self, state: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> Step:
        if type(state) is not Snapshot or state.used_up:
            refuse_unusable(state)
        state.used_up = use_up
        try:
            saved, result = self._snapshots.step(state, self._code(action), shock, use_up=use_up)
        except Exception as error:  # an environment may raise anything after its end
            if state.truncated_at is None:
                raise
            raise SimulatorError(after_truncation(state.truncated_at, error)) from error
        try:
            observation, reward, terminated, truncated, _ = result
            reward = plain_reward(reward)
        except (TypeError, ValueError) as error:
            raise wrong_result(result) from error
        steps, truncated_at = state.steps + 1, state.truncated_at
        if truncated and truncated_at is None:
            truncated_at = steps
        ended = terminated or (truncated and self._truncated_ends)
        return Step(reward, Snapshot(saved, observation, steps, truncated_at), is_over(ended))

    def _code(self, action: Any) -> Any:
        """Value passed to the environment for an action."""
        if self.actions is None:
            return action if self._box is None else in_box(self._box, action)
        known = type(action) is int and 0 <= action < self.actions.size
        return self._first_action + (action if known else self.actions.index(action))

    def episode(
        self, shock: Shock, state: Snapshot | None = None, *, truncated_ends: bool = False, digests: bool = False
    ) -> Episode:
        """Episode from a snapshot, or a new episode in a separate environment that is stepped in place."""
        if state is not None and not isinstance(state, Snapshot):
            raise SettingsError(
                f"starts contains a {type(state).__name__}. Give snapshots (GymnasiumSimulator.current()), or omit "
                "starts to use the environment's own resets."
            )
        if state is None and not digests:
            return LiveEpisode(self._live(), shock, self._code, self._codes, truncated_ends or self._truncated_ends)
        begun = self.reset(int.from_bytes(shock.words[:4], "little")) if state is None else state
        return super().episode(shock, begun, truncated_ends=truncated_ends)

    def _live(self) -> LiveEnvs:
        self._live_envs = self._live_envs or LiveEnvs(self._env, self._globals_in_step, self._table)
        return self._live_envs

    def in_block(self, simulate: Callable[[], T]) -> T:
        """`Simulator.in_block`, in which copies of the environment share the table of its transitions."""
        return self._table.in_block(simulate)

    @property
    def episode_lanes(self) -> int:
        """Number of episodes simulated in parallel, each in its own environment."""
        return self._live().lanes

    @property
    def episode_limit(self) -> int | None:
        """Time limit of a wrapper or of the environment's registration; None if unavailable."""
        for layer in layers(self._env):
            if type(layer).__name__ == "TimeLimit":
                return int(layer._max_episode_steps)
        limit = getattr(self._env.spec, "max_episode_steps", None) or getattr(self._env.unwrapped, "max_steps", None)
        return None if limit is None else int(limit)

    def digest(self, state: Snapshot) -> bytes:
        """Digest of a state; equal states have equal digests. See the parameter `digest`."""
        refuse_unusable(state)
        if self._own_digest is not None:
            return digest_of(self._own_digest(self._snapshots.digest_argument(state.saved)))
        return self._snapshots.digest(state.saved)

    def same_state(self, one: Snapshot, other: Snapshot) -> bool:
        """Whether two states are equal."""
        if self._own_digest is not None:
            return self.digest(one) == self.digest(other)
        refuse_unusable(one)
        refuse_unusable(other)
        return self._snapshots.same(one.saved, other.saved)

    def observe(self, state: Snapshot) -> Any:
        """Observation that the environment returned with this state."""
        if state.observation is None:
            raise UnavailableError(
                "The observation of this state is unknown: Gymnasium returns it only from reset() and step(). Use "
                "simulator.current(observation)."
            )
        return state.observation

    def observe_all(self, states: list[Snapshot]) -> list[Any]:
        """Observation of each of these states."""
        return [self.observe(state) if state.observation is None else state.observation for state in states]

    def generators(self, state: Snapshot) -> dict[str, Any]:
        """Random generators in the environment and its spaces, other than np_random."""
        refuse_unusable(state)
        env = self._snapshots.inspectable(state.saved)
        core = getattr(env, "unwrapped", None)
        known = [self._snapshots.generator, getattr(core, "_np_random", None)]
        table = transition_table(getattr(core, "__dict__", {}))
        found = generators_in(env, "env", [table] if table and is_plain_table(table) else ()).items()
        return {name: generator for name, generator in found if not any(generator is x for x in known)}

    def pack(self, state: Snapshot) -> bytes:
        """The state without what it shares with the simulator, compressed."""
        from jmdp.simulators.adapters.gymnasium.env_pickler import pickled

        return zlib.compress(pickled(state, self._snapshots.shared), 1)

    def unpack(self, packed: bytes) -> Snapshot:
        """The state of which `pack` returned this."""
        return unpickled_with(zlib.decompress(packed), self._snapshots.shared)  # type: ignore[no-any-return]

    def __getstate__(self) -> bytes:
        from jmdp.simulators.adapters.gymnasium.env_pickler import pickled

        return pickled(vars(self))

    def __setstate__(self, state: bytes) -> None:
        vars(self).update(pickle.loads(state))

    def __repr__(self) -> str:
        spec = self._env.spec
        name = type(self._env.unwrapped).__name__ if spec is None else spec.id
        return f"GymnasiumSimulator({name}{', truncated_ends=True' * self._truncated_ends})"


def _core(env: Any) -> Core | None:
    """Core with its own save and restore functions, or None."""
    inner = env.unwrapped
    if hasattr(getattr(inner, "ale", None), "cloneState"):
        return AtariCore()
    if type(getattr(inner, "data", None)).__name__ == "MjData":
        return MuJoCoCore()
    return None


def _samples(space: Any, count: int) -> list[Any]:
    """Sample actions from a copy of the space, so that the user's own random draws do not change."""
    if not hasattr(space, "sample"):
        raise SimulatorError(f"The action space is {short(space)}. Give the environment one of gymnasium.spaces.")
    space = copy.deepcopy(space)
    space.seed(0)
    return [space.sample() for _ in range(count)]


def _actions(env: Any, names: Sequence[str] | None) -> tuple[Labels | None, int]:
    """Labels of discrete actions (None if continuous), and the number of the first action."""
    space = env.action_space
    if type(space).__name__ != "Discrete":
        if names is not None:
            raise SimulatorError(f"action_names requires discrete actions, but the action space is {space}.")
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
"""Action names of Gymnasium's own environments, from their documentation."""
