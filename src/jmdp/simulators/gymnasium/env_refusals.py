"""Errors for Gymnasium environments, and for states, actions and results of steps, that are not supported."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmdp.base.settings import short
from jmdp.errors import SettingsError, SimulatorError
from jmdp.simulators.gymnasium.snapshots import Snapshot


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
