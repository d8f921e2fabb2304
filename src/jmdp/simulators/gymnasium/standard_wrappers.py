"""Steps without the wrappers that `gymnasium.make` adds, which take a part of the time of a simple step.

`OrderEnforcing` and `PassiveEnvChecker` only check, and `TimeLimit` counts steps. Their effect is reproduced here. Any
other wrapper is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

StepResult = tuple[Any, Any, Any, Any, Any]


class StandardWrappers:
    """Which wrappers of an environment and its copies can be left out in steps."""

    def __init__(self, chain: Sequence[Any]) -> None:
        from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

        kinds = [type(layer) for layer in chain[:-1]]
        known = all(kind in (OrderEnforcing, PassiveEnvChecker, TimeLimit) for kind in kinds)
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
                return lambda action: self._first_step(chain[0], action), None
        return chain[-1].step, None if self._limit is None else chain[self._limit]

    def _first_step(self, env: Any, action: Any) -> StepResult:
        result: StepResult = env.step(action)
        self._checked = True
        return result


def limited_step(step: Callable[[Any], StepResult], limit: Any, action: Any) -> StepResult:
    """Result of this step within a `TimeLimit`, or without one if it is None."""
    if limit is None:
        return step(action)
    result = step(action)
    limit._elapsed_steps += 1
    if not isinstance(result, tuple) or len(result) != 5:
        return result  # refused by the caller
    observation, reward, terminated, truncated, info = result
    return observation, reward, terminated, truncated or limit._elapsed_steps >= limit._max_episode_steps, info
