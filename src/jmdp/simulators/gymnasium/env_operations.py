"""Operations on a whole environment, wrappers included: list its layers, reset, duplicate, pickle."""

from __future__ import annotations

import copy
import io
import pickle
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.simulators.gymnasium.state_attributes import SPACES


def layers(env: Any) -> list[Any]:
    """An environment's wrappers, the outermost first, and the environment itself."""
    found = [env]
    while found[-1] is not found[-1].unwrapped:
        found.append(found[-1].env)
    return found


def was_reset(env: Any) -> bool:
    """Whether an environment stands somewhere in an episode."""
    for layer in layers(env):
        if hasattr(layer, "_has_reset"):
            return bool(layer._has_reset)
    return env.unwrapped._np_random is not None


def seeded_reset(env: Any, seed: int, options: dict[str, Any] | None, global_generators: Callable[[Shock], Any]) -> Any:
    """Reset, so that whatever it draws from follows from the seed; return the observation."""
    seed_spaces(env, seed)
    with global_generators(Shock.of_sample(seed, 0)):
        observation, _ = env.reset(seed=seed, options=options)
    return observation


def seed_spaces(env: Any, seed: int) -> None:
    """Seed the spaces of all layers."""
    for layer in layers(env):
        for name in sorted(SPACES & vars(layer).keys()):
            if vars(layer)[name] is not None:
                vars(layer)[name].seed(seed)


def duplicate(env: Any) -> Any:
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


def replace_generator(env: Any, old: np.random.Generator, new: np.random.Generator) -> None:
    """Replace one generator by another wherever an environment holds it."""
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
                elif type(part) not in _LEAVES:
                    todo.append(part)
        if isinstance(value, (tuple, set, frozenset, deque)):
            todo += [part for part in value if type(part) not in _LEAVES]


_LEAVES = frozenset({bool, bytes, complex, float, int, str, type(None), np.ndarray})
"""Types that hold no generator: tables of an environment have many of them."""


def copies_by_rebuilding(env: Any) -> bool:
    """Would a copy be made anew from the arguments of its constructor, in another state? (`EzPickle`)"""
    return hasattr(env, "_ezpickle_args")


class _Pickler(pickle.Pickler):
    """Environments that would be made anew are written as what they are, like all others."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type) or not copies_by_rebuilding(value):
            return NotImplemented
        return object.__new__, (type(value),), vars(value), None, None, _set_attributes


def pickled(value: Any) -> bytes:
    """A pickle of something with environments in it."""
    written = io.BytesIO()
    _Pickler(written).dump(value)
    return written.getvalue()


def _set_attributes(value: Any, attributes: dict[str, Any]) -> None:
    vars(value).update(attributes)
