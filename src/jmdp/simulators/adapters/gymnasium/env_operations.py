"""Operations on an environment with all its wrappers: list the layers, reset, duplicate.

Steps without the wrappers that `gymnasium.make` adds, which take a part of the time of a simple step.

`OrderEnforcing` and `PassiveEnvChecker` only check, and `TimeLimit` counts steps. Their effect is reproduced here. Any
other wrapper is executed.

Context managers for the global random generators of NumPy and Python during a step.

Snapshots of a Gymnasium environment, from which any number of steps can be simulated.

There are three implementations. `copied.CopiedEnvs` copies the whole environment as a Python object. `saved.SavedEnvs`
is for environments with a core in C: one live environment whose core is saved and restored by its own functions
(`cores`). `replayed.ReplayedEnvs` repeats all steps since the reset. In each of them the shock of a step seeds
``np_random``.

Errors for Gymnasium environments, and for states, actions and results of steps, that are not supported.
"""

from __future__ import annotations

import copy
import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from jmdp.base.keyed_generator import KeyedGenerator
from jmdp.base.luck import Shock
from jmdp.base.settings import short
from jmdp.errors import SettingsError, SimulatorError
from jmdp.simulators.adapters.gymnasium.cores import SPACES
from jmdp.simulators.object_graph import put, walk

StepResult = tuple[Any, Any, Any, Any, Any]


class StandardWrappers:
    """Which wrappers of an environment and its copies can be left out in steps."""

    def __init__(self, chain: Sequence[Any]) -> None:
        from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

        kinds = list(map(type, chain[:-1]))
        known = set(kinds) <= {OrderEnforcing, PassiveEnvChecker, TimeLimit}
        own_step = any("step" in vars(layer) for layer in chain)  # of the object, not of its class
        self._known = known and not own_step and kinds.count(TimeLimit) < 2
        self._limit = kinds.index(TimeLimit) if self._known and TimeLimit in kinds else None
        self._checked = False  # whether a step was checked by PassiveEnvChecker, which does so once

    def stepper(self, chain: Sequence[Any]) -> tuple[Callable[[Any], StepResult], Any]:
        """Function that does the same as ``chain[0].step``, except for the `TimeLimit` if one is returned."""
        for layer in chain[:-1]:
            attributes = vars(layer)
            was_checked = self._checked or attributes.get("checked_step", True)
            if not (self._known and was_checked and attributes.get("_has_reset", True)):
                return partial(self._first_step, chain[0]), None
        return chain[-1].step, None if self._limit is None else chain[self._limit]

    def _first_step(self, env: Any, action: Any) -> StepResult:
        result: StepResult = env.step(action)
        self._checked = True
        return result


def limited(limit: Any, result: StepResult) -> StepResult:
    """Result of a step within this `TimeLimit`, which counts the step; the result itself if there is none."""
    if limit is None:
        return result
    limit._elapsed_steps += 1
    if not isinstance(result, tuple) or len(result) != 5:
        return result  # refused by the caller
    observation, reward, terminated, truncated, info = result
    return observation, reward, terminated, truncated or limit._elapsed_steps >= limit._max_episode_steps, info


def untouched_global_generators(shock: Shock) -> AbstractContextManager[None]:
    """Leave the global generators unchanged."""
    return nullcontext()


@contextmanager
def seeded_global_generators(shock: Shock) -> Iterator[None]:
    """Seed the global generators of NumPy and Python from the shock, and restore their states on exit."""
    before, before_python = np.random.get_state(), random.getstate()  # noqa: NPY002 (environments may draw from it)
    seed = np.frombuffer(shock.derived(b"global").words, np.uint32)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed.tobytes())
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
        random.setstate(before_python)


class Snapshot:
    """Saved state of an environment, opaque except to the simulator."""

    __slots__ = ("__weakref__", "observation", "saved", "steps", "truncated_at", "used_up")

    def __init__(self, saved: Any, observation: Any, steps: int = 0, truncated_at: int | None = None) -> None:
        self.saved, self.observation, self.used_up = saved, observation, False
        self.steps = steps  # taken through the simulator
        self.truncated_at = truncated_at  # step after which the environment first signalled a truncation


class EnvSnapshots(ABC):
    """Interface for taking snapshots of environments and stepping from them. `saved` is the content of a `Snapshot`."""

    generator: np.random.Generator  # reseeded by the shock of each step
    time_counts = False  # whether the step counter of a time limit is part of the state

    @abstractmethod
    def save(self, env: Any) -> Any:
        """Save the current state of the user's environment."""

    @abstractmethod
    def reset(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """Start a new episode; return its saved state and first observation."""

    @abstractmethod
    def step(self, snapshot: Snapshot, action: Any, shock: Shock, *, use_up: bool) -> tuple[Any, tuple[Any, ...]]:
        """Step; return the saved state after it and the result of ``env.step``."""

    @abstractmethod
    def digest(self, saved: Any) -> bytes:
        """Digest of a saved state; equal states have equal digests."""

    def same(self, one: Any, other: Any) -> bool:
        """Whether two saved states are equal."""
        return self.digest(one) == self.digest(other)

    @property
    def shared(self) -> dict[str, Any]:
        """Objects that a saved state may refer to and that are the same in all of them, by name."""
        return {"generator": self.generator}

    @abstractmethod
    def inspectable(self, saved: Any) -> Any:
        """Return the object to search for hidden generators."""

    @abstractmethod
    def digest_argument(self, saved: Any) -> Any:
        """Return the argument for the user's own `digest` function."""


def dead_reference() -> None:
    """Return None, as a weak reference to a deleted object does."""


def in_box(space: Any, action: Any) -> Any:
    """An action of a Box as an array of its shape; one number will do for shape (1,)."""
    if hasattr(action, "detach"):
        action = action.detach().cpu().numpy()  # a tensor, possibly one that requires a gradient
    if getattr(action, "shape", None) == space.shape:
        return action
    try:
        array = np.asarray(action, space.dtype)
    except (TypeError, ValueError, OverflowError):
        array = np.zeros((0, 0))
    if array.shape == space.shape:
        return array
    if array.shape == () and space.shape == (1,):
        return array.reshape(1)
    raise SettingsError(
        f"The action {short(action)} does not have the shape {space.shape} of the action space, {space}. Candidates of "
        f"compare and values that a policy returns must have this shape, e.g. np.zeros({space.shape}, "
        f"dtype=np.{space.dtype})."
    )


def wrong_result(result: Any) -> SimulatorError:
    """Error for the result of a step that is not Gymnasium's five values with a number as reward."""
    form = "Return (observation, reward, terminated, truncated, info)"
    if not isinstance(result, tuple) or len(result) != 5:
        what = f"{len(result)} values" if isinstance(result, tuple) else f"a {type(result).__name__}"
        old = " Of (observation, reward, done, info): terminated is done, truncated is False." * (what == "4 values")
        return SimulatorError(f"step of the environment returned {what}. {form}.{old}")
    fix = ": float(reward[0])" if np.shape(result[1]) == (1,) else ""
    return SimulatorError(
        f"step of the environment returned the reward {short(result[1])}. {form} with one number as reward{fix}."
    )


def after_truncation(step: int, error: Exception) -> str:
    """Message for an environment whose step raised after it had signalled truncated."""
    return (
        f"The environment signalled truncated at step {step} (counted from the simulator's first state), and its "
        f"step() then raised {type(error).__name__}: {error}. If the truncation is the end of the episode, use "
        "GymnasiumSimulator(env, truncated_ends=True). Otherwise use a horizon ≤ "
        f"{step} from the first state."
    )


def refuse_unusable(state: Any) -> None:
    """Raise unless this is a snapshot that can be used."""
    if not isinstance(state, Snapshot):
        raise SettingsError(
            f"The state is {short(state)}, a {type(state).__name__}. Give a snapshot: simulator = "
            "GymnasiumSimulator(env), then simulator.current() for the state that the environment is in, or "
            "simulator.reset(seed). With state=None, compare uses the current state."
        )
    if state.used_up:
        raise SimulatorError("This state was passed to advance() and cannot be used again. Use step() to keep a state.")


def refuse_env(env: Any, snapshot: object, save: object, restore: object) -> None:
    """Raise for environments and arguments that are not supported."""
    if isinstance(env, type):
        raise SimulatorError(f"env is the class {env.__name__}. Give an instance, {env.__name__}(…).")
    if hasattr(env, "num_envs"):
        raise SimulatorError(f"{type(env).__name__} is a vector environment. Give a single one: gymnasium.make(…).")
    known = all(hasattr(env, name) for name in ("unwrapped", "step", "reset", "action_space"))
    if not known or not hasattr(env.unwrapped, "_np_random"):
        raise SimulatorError(f"env is a {type(env).__name__}, not a Gymnasium environment. Use gymnasium.make(…).")
    if snapshot is not None and (type(snapshot) is not str or snapshot != "replay"):
        raise SimulatorError(f'snapshot is {short(snapshot)}. Use None or "replay".')
    if (save is None) != (restore is None):
        raise SimulatorError("save and restore must be given together. Give both or neither.")
    if getattr(env, "render_mode", None) == "human":
        raise SimulatorError('The environment renders to a window. Make it without render_mode="human".')
    ale = getattr(env.unwrapped, "ale", None)
    if ale is not None and ale.getFloat("repeat_action_probability") > 0:
        raise SimulatorError(
            "Sticky actions use a random generator inside the emulator and the previous action, which its saved states "
            "lack. Use gymnasium.make(…, repeat_action_probability=0.0), or jmdp.simulators.ALESimulator(game, "
            f"sticky={ale.getFloat('repeat_action_probability'):g}), which controls this randomness."
        )


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


_NO_SHOCK = Shock(bytes(16))


def seeded_reset(
    chain: Sequence[Any],
    seed: int,
    options: dict[str, Any] | None,
    global_generators: Callable[[Shock], Any],
    spaces: Sequence[Any] | None = None,
) -> Any:
    """Reset an environment, given with its layers, with all sources of randomness seeded; return the observation."""
    env = chain[0]
    seed_spaces(spaces_of(chain) if spaces is None else spaces, seed)
    touched = global_generators is not untouched_global_generators
    with global_generators(Shock.of_sample(seed, 0) if touched else _NO_SHOCK):
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


def seed_spaces(spaces: Sequence[Any], seed: int) -> None:
    """Seed these spaces."""
    simple, words = _simple_spaces(), seed.to_bytes(16, "little")
    for space in spaces:
        if type(space) in simple:
            generator = space._np_random
            if not isinstance(generator, KeyedGenerator):
                generator = space._np_random = KeyedGenerator.of(bytes(16))
            generator.restart(words)  # much faster than space.seed(seed)
        else:
            space.seed(seed)


@cache
def _simple_spaces() -> tuple[type, ...]:
    """Spaces of Gymnasium with one generator, `_np_random`, and no parts."""
    from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

    return Box, Discrete, MultiBinary, MultiDiscrete


def spaces_of(chain: Sequence[Any]) -> list[Any]:
    """Spaces of all layers."""
    return [space for layer in chain for space in map(vars(layer).get, _SORTED_SPACES) if space is not None]


_SORTED_SPACES = sorted(SPACES)


def duplicate(env: Any, memo: dict[int, Any] | None = None) -> Any:
    """Make another environment of the same kind; its state is unspecified. `memo` is that of `deepcopy`."""
    try:
        return copy.deepcopy(env, memo)
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


def held_once(core: Any) -> bool:
    """True if only ``core._np_random`` refers to this generator, so that an environment need not be searched for it."""
    return _references(core) == _HELD_ONCE


def _references(core: Any) -> int:
    return sys.getrefcount(core._np_random)


_HELD_ONCE = _references(SimpleNamespace(_np_random=object()))


def replace_generator(env: Any, old: np.random.Generator, new: np.random.Generator) -> None:
    """Replace one generator by another in all attributes of an environment."""
    for owner, hop in [(owner, hop) for (_, hop), part, owner, _ in walk(env) if part is old]:
        put(owner, hop, new)


def copies_by_rebuilding(env: Any) -> bool:
    """True if `deepcopy` would call the constructor again and lose the state (`EzPickle`)."""
    return hasattr(env, "_ezpickle_args")
