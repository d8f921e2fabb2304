"""Save and restore environment cores that are not Python objects: Atari, MuJoCo, or user-defined.

Classification of the attributes of environments and wrappers: state, constants, rendering and bookkeeping.
"""

from __future__ import annotations

import copy
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from jmdp.simulators.digests import digest_of

T = TypeVar("T")

CONSTANT = ("spec", "_cached_spec", "metadata", "_metadata", "_saved_kwargs", "_ezpickle_args", "_ezpickle_kwargs",
             "action_space", "_action_space", "observation_space", "_observation_space")  # fmt: skip
"""Attributes of environments and wrappers that a step does not change, so that copies may share them."""

SPACES = {"action_space", "_action_space", "observation_space", "_observation_space"}
"""Constant attributes that are spaces: these have random generators."""

_NOT_STATE = {*CONSTANT, "_np_random", "_np_random_seed", "np_random", "render_mode", "mujoco_renderer"}
"""Attributes that do not affect future steps."""

_DRAWING = {"screen", "window", "clock", "viewer", "window_surface", "surf", "renderer"}
"""Attributes that do not affect future steps if they are rendering objects; numbers and arrays may do so."""

_ELAPSED = {"TimeLimit": {"_elapsed_steps"}}
"""Attributes of wrappers that do not affect future steps if truncation does not end the episode."""

_BOOKKEEPING = {
    "OrderEnforcing": {"_has_reset"},
    "PassiveEnvChecker": {"checked_reset", "checked_step", "checked_render", "close_called", "checked_data_reuse",
                          "_previous_data"},
    "RecordEpisodeStatistics": {"episode_count", "episode_start_time", "episode_returns", "episode_lengths",
                                "time_queue", "return_queue", "length_queue"},
}  # fmt: skip
"""Attributes of wrappers that never affect future steps."""

_TABLES = {"P", "desc", "initial_state_distrib", "lastaction", "hole_img", "cracked_hole_img", "ice_img", "elf_images",
           "goal_img", "start_img"}  # fmt: skip
"""Irrelevant attributes of environments with a table P: it is constant, and `lastaction` is only for rendering."""


def not_state(owner: object, *, time_counts: bool, tables: bool = True) -> Container[str]:
    """Names of the attributes of this object that do not affect future steps. `tables`: no step writes to a table P."""
    if not hasattr(type(owner), "reset") or not hasattr(type(owner), "step"):
        return ()
    return not_state_of(type(owner), vars(owner), time_counts=time_counts, tables=tables)


def not_state_of(
    kind: type, attributes: Mapping[str, Any], *, time_counts: bool, tables: bool = True
) -> frozenset[str]:
    """`not_state` for an environment or wrapper of this class with these attributes."""
    found = _never_state(kind.__name__, time_counts, tables and transition_table(attributes) is not None)
    return found.union(name for name in _DRAWING & attributes.keys() if _draws(attributes[name]))


@cache
def _never_state(kind: str, time_counts: bool, table: bool) -> frozenset[str]:
    elapsed = set() if time_counts else _ELAPSED.get(kind, set())
    return frozenset(_NOT_STATE | _BOOKKEEPING.get(kind, set()) | elapsed | (_TABLES if table else set()))


def _draws(value: object) -> bool:
    return value is None or type(value).__module__.partition(".")[0] not in ("builtins", "collections", "numpy")


def transition_table(attributes: Mapping[str, Any]) -> dict[Any, Any] | None:
    """P, if P[state][action] is a list of (probability, next state, reward, terminated); else None."""
    table = attributes.get("P")
    rows = next(iter(table.values()), None) if isinstance(table, dict) else None
    row = next(iter(rows.values()), None) if isinstance(rows, dict) else None
    known = isinstance(row, list) and all(isinstance(entry, tuple) and len(entry) == 4 for entry in row)
    return table if known else None


def is_plain_table(table: dict[Any, Any]) -> bool:
    """Whether this is a table P of numbers, texts and None alone, without objects that could refer to others."""
    level: list[Any] = [table]
    for kind in (dict, dict, list, tuple):
        if set(map(type, level)) != {kind} or (kind is dict and not _ENTRIES.issuperset(map(type, chain(*level)))):
            return False
        level = list(chain.from_iterable(map(dict.values, level) if kind is dict else level))
    return _ENTRIES.issuperset(map(type, level))


_ENTRIES = frozenset({bool, int, float, str, type(None), np.bool_, np.int32, np.int64, np.float32, np.float64})


class SharedTable:
    """Transition table of an environment, which its copies share in a block of simulations.

    If a step has written to it, its first contents are restored, the block is simulated again, and nothing is shared
    from then on.
    """

    def __init__(self) -> None:
        self.table: dict[Any, Any] | None = None
        self.written = self._in_block = False
        self._first: dict[Any, Any] | None = None  # the same, to be compared with
        self._stored = b""

    def replaces(self, table: dict[Any, Any] | None) -> bool:
        """Whether copies may have the shared table in place of this one."""
        if table is None or not self.sharing:
            return False
        if table is self.table:
            return True
        stored = _pickled(table)
        if self.table is None and stored:
            self.table, self._first, self._stored = pickle.loads(stored), pickle.loads(stored), stored
        return bool(stored) and stored == self._stored

    @property
    def sharing(self) -> bool:
        """Whether copies that are made now may share the table."""
        return self._in_block and not self.written

    def in_block(self, simulate: Callable[[], T]) -> T:
        """`Simulator.in_block`."""
        self._in_block = True
        try:
            found = simulate()
        except Exception:  # perhaps because steps wrote to what others read
            if self.unwritten():
                raise
            return simulate()
        finally:
            self._in_block = False
        return found if self.unwritten() else simulate()

    def unwritten(self) -> bool:
        """Whether the shared table is as it was; otherwise it is from now on, and is not shared."""
        if self.table is None or self.written or self._is_first():
            return True
        self.table.clear()
        self.table.update(pickle.loads(self._stored))
        self.written = True
        return False

    def _is_first(self) -> bool:
        with suppress(Exception):  # comparing entries may raise anything
            if self.table == self._first:  # which takes a tenth of the time
                return True
        assert self.table is not None
        return _pickled(self.table) == self._stored


def _pickled(table: dict[Any, Any]) -> bytes:
    """Bytes of a table; none if it cannot be pickled."""
    try:
        return pickle.dumps(table, 5)
    except Exception:  # pickling may raise anything
        return b""


class Core(ABC):
    """Save and restore functions for the part of an environment that is not a Python object."""

    hidden: tuple[str, ...] = ()  # attributes of the environment that contain the core

    @abstractmethod
    def save(self, env: Any) -> Any:
        """Save the current state of the core."""

    @abstractmethod
    def restore(self, env: Any, saved: Any) -> None:
        """Restore a saved state, which may be restored any number of times."""

    def digest(self, saved: Any) -> bytes:
        """Digest of a saved state; equal states have equal digests."""
        return digest_of(saved)

    def shared(self, env: Any) -> dict[str, Any]:
        """Objects of the live environment that all saved states share, by name."""
        return {}

    def adopt(self, live: Any, env: Any) -> None:  # noqa: B027 (most cores need no adoption)
        """Copy to a new environment the settings of `env` that are not part of its state."""


class UserCore(Core):
    """Core saved and restored by two user-supplied functions."""

    def __init__(self, save: Callable[[Any], Any], restore: Callable[[Any, Any], object]) -> None:
        self._save, self._restore = save, restore

    def save(self, env: Any) -> Any:
        """Save the core's state."""
        return self._save(env)

    def restore(self, env: Any, saved: Any) -> None:
        """Restore a saved state."""
        self._restore(env, saved)


class AtariCore(Core):
    """Atari emulator, by its own clone and restore functions."""

    hidden = ("ale",)

    def save(self, env: Any) -> Any:
        """Save the core's state."""
        return env.unwrapped.ale.cloneState()

    def restore(self, env: Any, saved: Any) -> None:
        """Restore a saved state."""
        env.unwrapped.ale.restoreState(saved)

    def digest(self, saved: Any) -> bytes:
        """Digest of the cloned emulator state."""
        return digest_of(saved.__getstate__())


class MuJoCoCore(Core):
    """MuJoCo, by copies of mjData.

    All of mjData is copied: body poses lag behind joint positions, so restoring the integration state alone would
    change them. Allocating an mjData takes a hundred times as long as copying into one, so unused ones are recycled.
    """

    hidden = ("model", "data")

    def __init__(self) -> None:
        self._free: list[Any] = []

    def __getstate__(self) -> dict[str, Any]:
        return {"_free": []}

    def save(self, env: Any) -> Any:
        """Save the core's state."""
        import mujoco

        model, data = env.unwrapped.model, env.unwrapped.data
        into = self._free.pop() if self._free else mujoco.MjData(model)
        mujoco.mj_copyData(into, model, data)
        return _ReusableData(into, model, self._free)

    def restore(self, env: Any, saved: Any) -> None:
        """Restore a saved state."""
        import mujoco

        mujoco.mj_copyData(env.unwrapped.data, saved.model, saved.data)

    def shared(self, env: Any) -> dict[str, Any]:
        """The model and the list of unused mjData."""
        return {"model": env.unwrapped.model, "free": self._free}

    def adopt(self, live: Any, env: Any) -> None:
        """Copy the model, whose masses or gravity may have been changed."""
        import mujoco

        live.unwrapped.model = copy.deepcopy(env.unwrapped.model)
        live.unwrapped.data = mujoco.MjData(live.unwrapped.model)
        renderer = getattr(live.unwrapped, "mujoco_renderer", None)
        if renderer is not None:
            renderer.model, renderer.data = live.unwrapped.model, live.unwrapped.data

    def digest(self, saved: Any) -> bytes:
        """Digest of the integration state."""
        import mujoco

        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        state = np.empty(mujoco.mj_stateSize(saved.model, kind))
        mujoco.mj_getState(saved.model, saved.data, state, kind)
        return digest_of(state)


class _ReusableData:
    """An mjData that returns to the free list when it is garbage-collected."""

    __slots__ = ("_free", "data", "model")

    def __init__(self, data: Any, model: Any, free: list[Any]) -> None:
        self.data, self.model, self._free = data, model, free

    def __del__(self) -> None:
        self._free.append(self.data)
