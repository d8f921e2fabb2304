"""Operations on an environment with all its wrappers: list the layers, reset, duplicate."""

from __future__ import annotations

import copy
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from jmdp.base.keyed_generator import KeyedGenerator
from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.simulators.gymnasium.state_attributes import SPACES


def layers(env: Any) -> list[Any]:
    """Wrappers of an environment, outermost first, followed by the environment itself."""
    found = [env]
    while found[-1] is not found[-1].unwrapped:
        found.append(found[-1].env)
    return found


def was_reset(env: Any) -> bool:
    """Whether an environment has been reset."""
    for layer in layers(env):
        if hasattr(layer, "_has_reset"):
            return bool(layer._has_reset)
    return env.unwrapped._np_random is not None


def seeded_reset(env: Any, seed: int, options: dict[str, Any] | None, global_generators: Callable[[Shock], Any]) -> Any:
    """Reset with all sources of randomness seeded, and return the observation."""
    seed_spaces(env, seed)
    with global_generators(Shock.of_sample(seed, 0)):
        try:
            found = env.reset(seed=seed, options=options)
        except TypeError as error:
            if "reset() got an unexpected keyword argument" not in str(error):
                raise
            raise SimulatorError(f"{error}. Define reset(self, *, seed=None, options=None). {_RESET}") from error
        except Exception as error:
            error.add_note(f"Raised by reset(seed={seed}) of {type(env.unwrapped).__name__}.")
            raise
    if not isinstance(found, tuple) or len(found) != 2:
        raise SimulatorError(f"reset of {type(env.unwrapped).__name__} returned a {type(found).__name__}. {_RESET}")
    return found[0]


_RESET = "Call super().reset(seed=seed), which seeds self.np_random, and return (observation, info)."


def seed_spaces(env: Any, seed: int) -> None:
    """Seed the spaces of all layers."""
    for space in spaces_of(layers(env)):
        if type(space).__name__ in _SIMPLE_SPACES and type(space).__module__.startswith("gymnasium.spaces."):
            if not isinstance(space._np_random, KeyedGenerator):
                space._np_random = KeyedGenerator.of(bytes(16))
            space._np_random.restart(seed.to_bytes(16, "little"))  # much faster than space.seed(seed)
        else:
            space.seed(seed)


_SIMPLE_SPACES = {"Box", "Discrete", "MultiBinary", "MultiDiscrete"}
"""Spaces of Gymnasium with one generator, `_np_random`, and no parts."""


def spaces_of(chain: list[Any]) -> list[Any]:
    """Spaces of all layers."""
    found = [vars(layer)[name] for layer in chain for name in sorted(SPACES & vars(layer).keys())]
    return [space for space in found if space is not None]


def duplicate(env: Any) -> Any:
    """Make another environment of the same kind; its state is unspecified."""
    try:
        return copy.deepcopy(env)
    except Exception as error:  # copying may raise anything
        if env.spec is None:
            raise uncopyable(env, error) from error
        import gymnasium

        return gymnasium.make(env.spec)


def uncopyable(env: Any, error: Exception) -> SimulatorError:
    """Error for an environment that `deepcopy` cannot copy, with the ways that work for it."""
    core = env.unwrapped
    kind = type(core).__name__
    if env.spec is None:
        name = f"{kind}-v0"
        remade = (
            f'Or register it, so that new ones can be made: gymnasium.register("{name}", entry_point={kind}) and '
            f'GymnasiumSimulator(gymnasium.make("{name}"), snapshot="replay").'
        )
    else:
        remade = (
            'Or use GymnasiumSimulator(env, snapshot="replay"), which makes new ones with gymnasium.make and repeats '
            "all steps since the reset."
        )
    return SimulatorError(
        f"{kind} cannot be copied: {_uncopyable_part(env) or error}. Give functions that save and restore its state: "
        f"GymnasiumSimulator(env, save=lambda env: …, restore=lambda env, saved: …). {remade}"
    )


def _uncopyable_part(env: Any) -> str | None:
    """The first attribute that `deepcopy` cannot copy, and why; None if each of them can be copied."""
    for layer in layers(env):
        for name, value in vars(layer).items():
            if name == "env" and layer is not env.unwrapped:
                continue
            try:
                copy.deepcopy(value)
            except Exception as error:  # copying may raise anything
                return f"its attribute {name} is a {type(value).__name__} ({error})"
    return None


def replace_generator(env: Any, old: np.random.Generator, new: np.random.Generator) -> None:
    """Replace one generator by another in all attributes of an environment."""
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
"""Types that contain no generator, skipped because tables of an environment have many such entries."""


def copies_by_rebuilding(env: Any) -> bool:
    """True if `deepcopy` would call the constructor again and lose the state (`EzPickle`)."""
    return hasattr(env, "_ezpickle_args")
