"""Ways to keep a Gymnasium environment as it is now and to go on from there, as often as one likes.

`CopiedEnvs` copies the whole environment, as Python objects allow. Environments with a core in C are kept in one live
environment (`env_cores.SavedEnvs`) whose core is saved and restored by its own calls, or played again from their reset
(`ReplayedEnvs`). All give every draw of ``np_random`` to the shock.
"""

from __future__ import annotations

import copy
import random
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from jmdp.digests import digest_of
from jmdp.errors import SimulatorError
from jmdp.luck import Shock

REPLAY = 'States that are played again from their reset work with anything: GymnasiumSimulator(env, snapshot="replay").'

CONSTANT = ("spec", "_cached_spec", "metadata", "_metadata", "_saved_kwargs", "_ezpickle_args", "_ezpickle_kwargs",
             "action_space", "_action_space", "observation_space", "_observation_space")  # fmt: skip
"""Attributes of environments and wrappers that copies may share: a step does not change them."""

NOT_STATE = {*CONSTANT, "_np_random", "_np_random_seed", "np_random", "render_mode", "screen", "window", "clock",
              "viewer", "isopen", "window_surface", "surf", "renderer", "mujoco_renderer", "checked_reset",
             "checked_step", "checked_render", "close_called", "_has_reset", "_elapsed_steps"}  # fmt: skip
"""Attributes that say nothing of what will happen. A time limit is no end, so its count is among them."""

_TABLES = {"P", "desc", "initial_state_distrib", "lastaction", "hole_img", "cracked_hole_img", "ice_img", "elf_images",
           "goal_img", "start_img"}  # fmt: skip
"""The same for environments with a table P: it never changes, and the last action is kept for drawings only."""


def layers(env: Any) -> list[Any]:
    """An environment's wrappers, the outermost first, and the environment itself."""
    found = [env]
    while found[-1] is not found[-1].unwrapped:
        found.append(found[-1].env)
    return found


def not_state(owner: object) -> Container[str]:
    """Attributes of this object that do not matter for what will happen."""
    if not hasattr(type(owner), "reset") or not hasattr(type(owner), "step"):
        return ()
    return _NOT_STATE_OF_TABLES if "P" in vars(owner) else NOT_STATE


_NOT_STATE_OF_TABLES = NOT_STATE | _TABLES


class Snapshot:
    """An environment as it was at one time. Nothing can be seen of it but through the simulator."""

    __slots__ = ("__weakref__", "kept", "observation", "used_up")

    def __init__(self, kept: Any, observation: Any) -> None:
        self.kept, self.observation, self.used_up = kept, observation, False


class EnvSnapshots(ABC):
    """A way to keep environments."""

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


class CopiedEnvs(EnvSnapshots):
    """Whole copies. A step from a snapshot copies once; one that uses its snapshot up copies nothing."""

    def __init__(self, env: Any, luck: Callable[[Shock], Any]) -> None:
        self._luck = luck
        self._own = Shock(bytes(16)).generator()
        self._pristine = self._copy(env, self._own)

    def _copy(self, env: Any, generator: np.random.Generator) -> Any:
        """A copy in which every reference to np_random leads to this generator; constants are shared."""
        chain = layers(env)
        core = chain[-1]
        memo: dict[int, Any] = {}
        for layer in chain:
            memo.update((id(vars(layer)[name]), vars(layer)[name]) for name in CONSTANT if name in vars(layer))
        table = vars(core).get("P")
        if isinstance(table, dict):
            memo[id(table)] = table
        memo.pop(id(None), None)
        if core._np_random is not None:
            memo[id(core._np_random)] = generator
        try:
            if _rebuilds(core):  # it would be made anew, not copied, so it is copied by hand
                new = memo[id(core)] = object.__new__(type(core))
                vars(new).update(copy.deepcopy(vars(core), memo))
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
        return self._copy(env, self._own)

    def reset(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """A copy, reset."""
        env = self._copy(self._pristine, self._own)
        observation, _ = env.reset(seed=seed, options=options)
        return self._copy(env, self._own), observation  # for parts of it may hold on to the reset's own generator

    def step(self, snapshot: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> tuple[Any, tuple[Any, ...]]:
        """In a copy, or in place."""
        env = snapshot.kept
        generator = shock.restart(self._own)
        if not use_up or env.unwrapped._np_random is not generator:
            env = self._copy(env, generator)
        with self._luck(shock):
            return env, env.step(action)

    def digest(self, kept: Any) -> bytes:
        """By all attributes that matter."""
        return digest_of(kept, not_state)

    def parts(self, kept: Any) -> Any:
        """The copy."""
        return kept


class ReplayedEnvs(EnvSnapshots):
    """States are how they were reached: a seed, then actions and shocks, played again when an environment is needed.

    Some environments are kept under way, so that a rollout goes on without playing anything again.
    """

    def __init__(self, env: Any, luck: Callable[[Shock], Any], most: int) -> None:
        self._luck, self._most, self._pristine = luck, most, env
        self._own = Shock(bytes(16)).generator()
        self._under_way: list[tuple[Any, Callable[[], object]]] = []  # environments and who stands in each

    def now(self, env: Any) -> Any:
        """Not possible: nobody wrote down the way."""
        raise SimulatorError(
            "How this environment came to be where it is cannot be played again. Begin with state = "
            "simulator.reset(seed) and go on with simulator.step(state, action, shock).state."
        )

    def reset(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """A way of one event."""
        history = _History(None, (seed, options))
        env = self._free()
        observation, _ = env.reset(seed=seed, options=options)
        self._stand(env, history)
        return history, copy.deepcopy(observation)

    def step(self, snapshot: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> tuple[Any, tuple[Any, ...]]:
        """One event more."""
        history = snapshot.kept
        env = self._at(history)
        after = _History(history, (action, shock))
        result = self._play(env, action, shock)
        self._stand(env, after)
        return after, (copy.deepcopy(result[0]), *result[1:])

    def _at(self, history: _History) -> Any:
        for i, (env, standing) in enumerate(self._under_way):
            if standing() is history:
                del self._under_way[i]
                return env
        env = self._free()
        path = history.path()
        seed, options = path[0]
        env.reset(seed=seed, options=options)
        for action, shock in path[1:]:
            self._play(env, action, shock)
        return env

    def _play(self, env: Any, action: Any, shock: Shock) -> tuple[Any, ...]:
        env.unwrapped.np_random = shock.restart(self._own)
        with self._luck(shock):
            result: tuple[Any, ...] = env.step(action)
        return result

    def _free(self) -> Any:
        """An environment nobody needs: one whose state is gone, a new one, or the one left alone longest."""
        for i, (env, standing) in enumerate(self._under_way):
            if standing() is None:
                del self._under_way[i]
                return env
        if len(self._under_way) < self._most:
            return copy.deepcopy(self._pristine)
        return self._under_way.pop(0)[0]

    def _stand(self, env: Any, history: _History) -> None:
        self._under_way.append((env, weakref.ref(history)))

    def digest(self, kept: Any) -> bytes:
        """By the way that led here, so no two ways lead to the same."""
        return kept.digest()  # type: ignore[no-any-return]

    def parts(self, kept: Any) -> Any:
        """Nothing that could hide any."""
        return ()


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


def made_anew(env: Any) -> Any:
    """Another environment of the same kind, for those that deepcopy makes anew."""
    new = copy.deepcopy(env)
    new.reset(seed=0)
    return new


def _rebuilds(env: Any) -> bool:
    """Would a copy be made anew from the arguments of its constructor, in another state? (`EzPickle`)"""
    return hasattr(env, "_ezpickle_args")


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
