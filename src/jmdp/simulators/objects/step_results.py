"""Results of `step` and `reset` of an ordinary object: the accepted forms, and the error for all others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jmdp.errors import SimulatorError


class _Missing:
    """Type of `MISSING`."""

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING = _Missing()
"""Observation that neither `step` nor `reset` returned."""


class StepResult(NamedTuple):
    """What a step returned."""

    observation: Any
    reward: Any
    terminated: Any
    truncated: bool


_NUMBERS = (int, float, np.integer, np.floating)
_BOOLEANS = (bool, np.bool_)


def step_result(returned: Any, owner: str) -> StepResult:
    """Observation, reward and end of an episode, from what the step of `owner` returned."""
    if isinstance(returned, tuple):
        size = len(returned)
        if size == 2 and isinstance(returned[1], _BOOLEANS):
            return _checked(StepResult(MISSING, returned[0], returned[1], False), returned, owner)
        if size == 3 or (size == 4 and isinstance(returned[3], dict)):
            return _checked(StepResult(returned[0], returned[1], returned[2], False), returned, owner)
        if size == 5 and isinstance(returned[3], _BOOLEANS):
            return _checked(StepResult(*returned[:4]), returned, owner)
    elif _is_number(returned) and not isinstance(returned, _BOOLEANS):
        return StepResult(MISSING, returned, False, False)
    raise SimulatorError(f"step of {owner} returned {_described(returned)}. {_FORMS}")


def _checked(result: StepResult, returned: Any, owner: str) -> StepResult:
    if _is_number(result.reward) and isinstance(result.terminated, _BOOLEANS):
        return result
    raise SimulatorError(f"step of {owner} returned {_described(returned)}. {_FORMS}")


def _is_number(value: Any) -> bool:
    if isinstance(value, _NUMBERS):
        return True
    scalar = hasattr(value, "shape") and hasattr(value, "item") and value.shape == ()
    return scalar and isinstance(value.item(), _NUMBERS)


def _described(returned: Any) -> str:
    if isinstance(returned, tuple):
        kinds = [
            f"array of shape {part.shape}" if isinstance(part, np.ndarray) and part.shape else type(part).__name__
            for part in returned
        ]
        return f"({', '.join(kinds)})"
    return "None" if returned is None else f"a {type(returned).__name__}"


_FORMS = (
    "Return a reward, (reward, done), (observation, reward, done), (observation, reward, done, info) or Gymnasium's "
    "(observation, reward, terminated, truncated, info), where the reward is a number, done a bool and info a dict. To "
    "keep the class as it is, give a function: ObjectSimulator(…, step=lambda thing, action: (observation, reward, "
    "done))."
)


def first_observation(returned: Any) -> Any:
    """Observation that a reset returned: the value itself, or the first of Gymnasium's (observation, info)."""
    if returned is None:
        return MISSING
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict):
        return returned[0]
    return returned
