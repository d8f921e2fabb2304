"""Ways to keep a Gymnasium environment as it is now and to go on from there, as often as one likes.

`CopiedEnvs` copies the whole environment, as Python objects allow. Environments with a core in C are kept in one live
environment (`env_cores.SavedEnvs`) whose core is saved and restored by its own calls, or played again from their reset
(`ReplayedEnvs`). All give every draw of ``np_random`` to the shock.
"""

from __future__ import annotations

import copy
import io
import pickle
import random
import types
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.simulators.digests import digest_of

REPLAY = 'States that are played again from their reset work with anything: GymnasiumSimulator(env, snapshot="replay").'

CONSTANT = ("spec", "_cached_spec", "metadata", "_metadata", "_saved_kwargs", "_ezpickle_args", "_ezpickle_kwargs",
             "action_space", "_action_space", "observation_space", "_observation_space")  # fmt: skip
"""Attributes of environments and wrappers that copies may share: a step does not change them."""

_SPACES = {"action_space", "_action_space", "observation_space", "_observation_space"}
"""Of these, the ones that can be drawn from."""

_NOT_STATE = {*CONSTANT, "_np_random", "_np_random_seed", "np_random", "render_mode", "mujoco_renderer"}
"""Attributes that say nothing of what will happen."""

_DRAWING = {"screen", "window", "clock", "viewer", "window_surface", "surf", "renderer"}
"""The same where they are things to draw with; a number or an array of such a name may well matter."""

_ELAPSED = {"TimeLimit": {"_elapsed_steps"}}
"""The same, of wrappers, where a time limit is no end."""

_BOOKKEEPING = {
    "OrderEnforcing": {"_has_reset"},
    "PassiveEnvChecker": {"checked_reset", "checked_step", "checked_render", "close_called", "checked_data_reuse",
                          "_previous_data"},
    "RecordEpisodeStatistics": {"episode_count", "episode_start_time", "episode_returns", "episode_lengths",
                                "time_queue", "return_queue", "length_queue"},
}  # fmt: skip
"""The same, of wrappers, always."""

_TABLES = {"P", "desc", "initial_state_distrib", "lastaction", "hole_img", "cracked_hole_img", "ice_img", "elf_images",
           "goal_img", "start_img"}  # fmt: skip
"""The same for environments with a table P: it never changes, and the last action is kept for drawings only."""


def layers(env: Any) -> list[Any]:
    """An environment's wrappers, the outermost first, and the environment itself."""
    found = [env]
    while found[-1] is not found[-1].unwrapped:
        found.append(found[-1].env)
    return found


def not_state(owner: object, *, time_counts: bool) -> Container[str]:
    """Attributes of this object that do not matter for what will happen."""
    if not hasattr(type(owner), "reset") or not hasattr(type(owner), "step"):
        return ()
    return not_state_of(type(owner), vars(owner), time_counts=time_counts)


def not_state_of(kind: type, attributes: Mapping[str, Any], *, time_counts: bool) -> set[str]:
    """`not_state` of an environment or wrapper of this class, with these attributes."""
    found = _NOT_STATE | _BOOKKEEPING.get(kind.__name__, set())
    if not time_counts:
        found |= _ELAPSED.get(kind.__name__, set())
    found |= {name for name in _DRAWING & attributes.keys() if _draws(attributes[name])}
    return found | _TABLES if _table(attributes) is not None else found


def _draws(value: object) -> bool:
    return value is None or type(value).__module__.partition(".")[0] not in ("builtins", "collections", "numpy")


def _table(attributes: Mapping[str, Any]) -> dict[Any, Any] | None:
    """P, if P[state][action] is a list of (chance, next state, reward, end)."""
    table = attributes.get("P")
    rows = next(iter(table.values()), None) if isinstance(table, dict) else None
    row = next(iter(rows.values()), None) if isinstance(rows, dict) else None
    known = isinstance(row, list) and all(isinstance(entry, tuple) and len(entry) == 4 for entry in row)
    return table if known else None


def was_reset(env: Any) -> bool:
    """Whether an environment stands somewhere in an episode."""
    for layer in layers(env):
        if hasattr(layer, "_has_reset"):
            return bool(layer._has_reset)
    return env.unwrapped._np_random is not None


class Snapshot:
    """An environment as it was at one time. Nothing can be seen of it but through the simulator."""

    __slots__ = ("__weakref__", "kept", "observation", "steps", "truncated_at", "used_up")

    def __init__(self, kept: Any, observation: Any, steps: int = 0, truncated_at: int | None = None) -> None:
        self.kept, self.observation, self.used_up = kept, observation, False
        self.steps = steps  # taken through the simulator
        self.truncated_at = truncated_at  # the step after which the environment first signalled it


class EnvSnapshots(ABC):
    """A way to keep environments."""

    own: np.random.Generator  # which the shock of each step restarts
    time_counts = False  # whether the steps a time limit has counted are part of the state

    @abstractmethod
    def now(self, env: Any) -> Any:
        """What to keep of the user's environment as it stands."""

    @abstractmethod
    def reset(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """What to keep of a new episode, and its first observation."""

    @abstractmethod
    def step(self, snapshot: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> tuple[Any, tuple[Any, ...]]:
        """What to keep after a step, and what the step returned."""

    @abstractmethod
    def digest(self, kept: Any) -> bytes:
        """Which are the same."""

    @abstractmethod
    def parts(self, kept: Any) -> Any:
        """What can be looked into for hidden generators."""

    @abstractmethod
    def shown(self, kept: Any) -> Any:
        """What a digest of the user's is given."""


class CopiedEnvs(EnvSnapshots):
    """Whole copies. A step from a snapshot copies once; one that uses its snapshot up copies nothing."""

    def __init__(self, env: Any, luck: Callable[[Shock], Any]) -> None:
        self._luck = luck
        self.own = Shock(bytes(16)).generator()
        self._pristine = self._copy(env, self.own)

    def _copy(self, env: Any, generator: np.random.Generator) -> Any:
        """A copy in which every reference to np_random leads to this generator; constants are shared."""
        chain = layers(env)
        core = chain[-1]
        shared = CONSTANT if core._np_random is self.own else set(CONSTANT) - _SPACES  # those of others stay theirs
        memo: dict[int, Any] = {}
        for layer in chain:
            memo.update((id(vars(layer)[name]), vars(layer)[name]) for name in shared if name in vars(layer))
        table = _table(vars(core))
        if table is not None:
            memo[id(table)] = table
        memo.pop(id(None), None)
        if core._np_random is not None:
            memo[id(core._np_random)] = generator
        try:
            for layer in chain[::-1]:
                if _rebuilds(layer):  # it would be made anew, not copied, so it is copied by hand
                    new = memo[id(layer)] = object.__new__(type(layer))
                    vars(new).update(copy.deepcopy(vars(layer), memo))
            made = copy.deepcopy(env, memo)
        except Exception as error:
            raise SimulatorError(
                f"{type(core).__name__} cannot be copied: {error}. {REPLAY} So does one with state calls of its own: "
                "GymnasiumSimulator(env, save=lambda env: …, restore=lambda env, saved: …)."
            ) from error
        made.unwrapped._np_random = generator
        return made

    def now(self, env: Any) -> Any:
        """A copy."""
        return self._copy(env, self.own)

    def reset(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """A copy, reset."""
        env = self._copy(self._pristine, self.own)
        observation = begin(env, seed, options, self._luck)
        return self._copy(env, self.own), observation  # for parts of it may hold on to the reset's own generator

    def step(self, snapshot: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> tuple[Any, tuple[Any, ...]]:
        """In a copy, or in place."""
        env = snapshot.kept
        generator = shock.restart(self.own)
        if not use_up or env.unwrapped._np_random is not generator:
            env = self._copy(env, generator)
        with self._luck(shock):
            return env, env.step(action)

    def digest(self, kept: Any) -> bytes:
        """By all attributes that matter."""
        return digest_of(kept, partial(not_state, time_counts=self.time_counts))

    def parts(self, kept: Any) -> Any:
        """The copy."""
        return kept

    def shown(self, kept: Any) -> Any:
        """The copy."""
        return kept


class ReplayedEnvs(EnvSnapshots):
    """States are how they were reached: a seed, then actions and shocks, played again when an environment is needed.

    Some environments are kept under way, so that a rollout goes on without playing anything again. Each begins as a new
    copy, for some remember more than their reset takes back (running means of wrappers, say).
    """

    def __init__(self, env: Any, luck: Callable[[Shock], Any], most: int) -> None:
        self._luck, self._most, self._pristine = luck, most, another(env)
        self.own = Shock(bytes(16)).generator()
        self._under_way: list[tuple[Any, Callable[[], object]]] = []  # environments and who stands in each

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_under_way": []}

    def now(self, env: Any) -> Any:
        """Not possible: nobody wrote down the way."""
        raise SimulatorError(
            "How this environment came to be where it is cannot be played again. Begin with state = "
            "simulator.reset(seed) and go on with simulator.step(state, action, shock).state."
        )

    def reset(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """A way of one event."""
        history = _History(None, (seed, options))
        env, observation = self._begin(seed, options)
        self._stand(env, history)
        return history, copy.deepcopy(observation)

    def step(self, snapshot: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> tuple[Any, tuple[Any, ...]]:
        """One event more."""
        history = snapshot.kept
        env = self._at(history)
        after = _History(history, (copy.deepcopy(action), shock))
        result = self._play(env, action, shock)
        self._stand(env, after)
        return after, (copy.deepcopy(result[0]), *result[1:])

    def _at(self, history: _History) -> Any:
        for i, (env, standing) in enumerate(self._under_way):
            if standing() is history:
                del self._under_way[i]
                return env
        path = history.path()
        env, _ = self._begin(*path[0])
        for action, shock in path[1:]:
            self._play(env, action, shock)
        return env

    def _begin(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        env = another(self._pristine)
        observation = begin(env, seed, options, self._luck)
        seed_spaces(env, seed)  # for a reset may make new ones
        hand_over(env, env.unwrapped.np_random, self.own)
        return env, observation

    def _play(self, env: Any, action: Any, shock: Shock) -> tuple[Any, ...]:
        env.unwrapped.np_random = shock.restart(self.own)
        with self._luck(shock):
            result: tuple[Any, ...] = env.step(action)
        return result

    def _stand(self, env: Any, history: _History) -> None:
        """Keep it, but for those whose state is gone, and no more than so many."""
        self._under_way = [(other, standing) for other, standing in self._under_way if standing() is not None]
        self._under_way = [*self._under_way[1 - self._most :], (env, weakref.ref(history))]

    def digest(self, kept: Any) -> bytes:
        """By the way that led here, so no two ways lead to the same."""
        return kept.digest()  # type: ignore[no-any-return]

    def parts(self, kept: Any) -> Any:
        """An environment that was played to here."""
        return self.shown(kept)

    def shown(self, kept: Any) -> Any:
        """An environment that was played to here."""
        env = self._at(kept)
        self._stand(env, kept)
        return env


class _History:
    """How a state was reached: a list that states share."""

    __slots__ = ("__weakref__", "_before", "_digest", "_event")

    def __init__(self, before: _History | None, event: tuple[Any, Any]) -> None:
        self._before, self._event = before, event
        self._digest: bytes | None = None

    def path(self) -> list[tuple[Any, Any]]:
        events, at = [], self
        while at is not None:
            events.append(at._event)
            at = at._before  # type: ignore[assignment]
        return events[::-1]

    def digest(self) -> bytes:
        """By the way that led here, so no two ways lead to the same."""
        if self._digest is None:
            before = b"" if self._before is None else self._before.digest()
            what, luck = self._event
            self._digest = digest_of((before, what, luck.words if isinstance(luck, Shock) else luck))
        return self._digest


def begin(env: Any, seed: int, options: dict[str, Any] | None, luck: Callable[[Shock], Any]) -> Any:
    """Reset; whatever it draws from follows from the seed. What is seen then."""
    seed_spaces(env, seed)
    with luck(Shock.of_sample(seed, 0)):
        observation, _ = env.reset(seed=seed, options=options)
    return observation


def seed_spaces(env: Any, seed: int) -> None:
    """Of all layers."""
    for layer in layers(env):
        for name in sorted(_SPACES & vars(layer).keys()):
            if vars(layer)[name] is not None:
                vars(layer)[name].seed(seed)


def another(env: Any) -> Any:
    """Another environment of the same kind, in whatever state."""
    try:
        return copy.deepcopy(env)
    except Exception as error:
        if env.spec is None:
            raise SimulatorError(
                f"{type(env.unwrapped).__name__} cannot be copied: {error}. Register it and use gymnasium.make(…), "
                "which can make another, or give its state calls: save=lambda env: …, restore=lambda env, saved: …."
            ) from error
        import gymnasium

        return gymnasium.make(env.spec)


def hand_over(env: Any, old: np.random.Generator, new: np.random.Generator) -> None:
    """Let everything in an environment that holds the one generator hold the other."""
    seen: set[int] = set()
    todo: list[Any] = [env]
    while todo:
        value = todo.pop()
        if id(value) in seen or isinstance(value, (type, types.ModuleType, types.FunctionType)):
            continue
        seen.add(id(value))
        places: Any = vars(value) if hasattr(value, "__dict__") else value
        if isinstance(places, (dict, list)):
            for name, part in list(places.items() if isinstance(places, dict) else enumerate(places)):
                if part is old:
                    places[name] = new
                todo.append(part)
        if isinstance(value, (dict, list, tuple, set, frozenset, deque)):
            todo += value.values() if isinstance(value, dict) else value


def _rebuilds(env: Any) -> bool:
    """Would a copy be made anew from the arguments of its constructor, in another state? (`EzPickle`)"""
    return hasattr(env, "_ezpickle_args")


class _Packer(pickle.Pickler):
    """Environments that would be made anew are written as what they are, like all others."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type) or not _rebuilds(value):
            return NotImplemented
        return object.__new__, (type(value),), vars(value), None, None, _set_attributes


def packed(value: Any) -> bytes:
    """A pickle of something with environments in it."""
    written = io.BytesIO()
    _Packer(written).dump(value)
    return written.getvalue()


def _set_attributes(value: Any, attributes: dict[str, Any]) -> None:
    vars(value).update(attributes)


def nobody() -> None:
    """Like a reference to what is gone."""


def no_global_luck(shock: Shock) -> AbstractContextManager[None]:
    """Global generators are left alone."""
    return nullcontext()


@contextmanager
def global_luck(shock: Shock) -> Iterator[None]:
    """Within, the global generators of NumPy and Python follow from the shock; after, they are as before."""
    before, before_python = np.random.get_state(), random.getstate()  # noqa: NPY002 (others draw from it)
    seed = np.frombuffer(shock.derived(b"global").words, np.uint32)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed.tobytes())
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
        random.setstate(before_python)
