"""States as rows of an array, for `Simulator.step_many`, and checks of what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.luck_batch import Shocks
from jmdp.errors import SimulatorError
from jmdp.simulators.simulator import Simulator, finite_reward

States = npt.NDArray[Any]
"""[n] or [n, …], real numbers."""


def has_many_steps(simulator: Simulator) -> bool:
    """True if the simulator defines `step_many`, has a finite list of actions, and no compiled programs of its own."""
    kind = type(simulator)
    own = (
        kind.compiled_draws is not Simulator.compiled_draws or kind.compiled_episodes is not Simulator.compiled_episodes
    )
    return kind.step_many is not Simulator.step_many and simulator.actions is not None and not own


def rows_of(simulator: Simulator, states: list[Any]) -> States:
    """States as rows of one array."""
    try:
        rows = np.asarray(states)
    except ValueError:
        rows = np.array(None)
    if rows.dtype.kind not in "biuf" or type(simulator).digest is not Simulator.digest:
        what = "defines digest" if rows.dtype.kind in "biuf" else f"has the state {states[0]!r}"
        raise SimulatorError(
            f"{type(simulator).__name__} defines step_many and {what}. With step_many a state is a number, or a tuple "
            "or array of numbers of fixed length, and states are equal if their numbers are. Change the state, or "
            "remove digest or step_many."
        )
    return rows


def codes_of(states: States) -> npt.NDArray[np.uint64]:
    """Codes [n, d] that are equal for equal states, as `digest_of`: −0.0 is 0.0, and all NaN are equal."""
    flat = states.reshape(len(states), -1)
    if flat.dtype.kind != "f":
        return np.ascontiguousarray(flat, np.int64).view(np.uint64)
    numbers = flat.astype(np.float64) + 0.0
    unknown = numbers != numbers
    if unknown.any():
        numbers[unknown] = np.nan
    return np.ascontiguousarray(numbers).view(np.uint64)


def state_maker(example: Any) -> Callable[[Any], Any]:
    """Function that converts a row of an array to a state like the example: an array, a tuple, a list or a number."""
    if isinstance(example, np.ndarray):
        return np.array
    if isinstance(example, (tuple, list)):
        whole = [isinstance(entry, (int, np.integer)) for entry in example]  # an array has one dtype for all entries
        kind: Any = type(example)
        make = kind._make if hasattr(kind, "_make") else kind

        def made(row: Any) -> Any:
            if row.ndim == 1 and row.dtype.kind == "f" and any(whole):
                pairs = zip(row.tolist(), whole, strict=True)
                return make([int(x) if integer and x.is_integer() else x for x, integer in pairs])
            return make(row.tolist())

        return made
    return lambda row: row.item()


def many_steps(
    simulator: Simulator, states: States, actions: Integers, shocks: Shocks, t: int
) -> tuple[Floats, States, Booleans]:
    """Call `step_many`; raise unless shapes and dtypes are right and rewards are finite."""
    outcome = simulator.step_many(states, actions, shocks)
    name, n = f"{type(simulator).__name__}.step_many", len(states)
    if not isinstance(outcome, tuple) or len(outcome) != 3:
        what = f"{len(outcome)} values" if isinstance(outcome, tuple) else f"a {type(outcome).__name__}"
        raise SimulatorError(f"{name} returned {what}. Return (rewards, states, terminated).")
    rewards, after, terminated = (np.asarray(part) for part in outcome)
    for what, array, kinds, shape in (
        ("rewards", rewards, "biuf", (n,)),
        ("states", after, "biuf", states.shape),
        ("terminated", terminated, "b", (n,)),
    ):
        if array.shape != shape or array.dtype.kind not in kinds:
            wanted = "True or False" if kinds == "b" else "numbers"
            raise SimulatorError(
                f"{name} returned {what} of shape {array.shape} and dtype {array.dtype} for states of shape "
                f"{states.shape}. Return {wanted} of shape {shape}."
            )
    earned = np.ascontiguousarray(rewards, np.float64)
    bad = np.flatnonzero(~np.isfinite(earned))
    if bad.size:
        finite_reward(rewards[bad[0]].item(), int(actions[bad[0]]), t)
    return earned, after, terminated
