"""Finite horizons: the number of steps, and the value of each state after the last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats
from jmdp.base.settings import number, whole_number
from jmdp.errors import PolicyError, SettingsError
from jmdp.models.policy import TabularPolicy, refuse_order
from jmdp.models.tabular import LARGEST_RETURN, TabularJMDP, changed

_MOST_STEPS = 10_000_000


@dataclass(frozen=True, eq=False)
class Horizon:
    """Number of steps, and value [S] of each state after the last step."""

    steps: int
    final: Floats

    @classmethod
    def of(cls, model: TabularJMDP, steps: Any, final: Any) -> Horizon:
        """Check the number of steps and the values against the model."""
        count = whole_number("horizon", steps, 1)
        if count > _MOST_STEPS:
            raise SettingsError(f"horizon is {count}. Give at most {_MOST_STEPS} steps.")
        S = model.shape[0]
        values = np.zeros(S) if final is None else arrays.floats("terminal_value", final, "[S]", SettingsError)
        if values.shape != (S,) or not np.isfinite(values).all():
            raise SettingsError(f"terminal_value has shape {values.shape}. Give {S} finite numbers.")
        if values[model.terminal].any():
            s = int(np.flatnonzero(model.terminal & (values != 0))[0])
            raise SettingsError(
                f"terminal_value of state {model.states.name(s)} is {values[s]:g}, but the return from a terminal "
                "state is 0. Give 0 there, and add the amount to the reward of the step into it."
            )
        if model.reward_bound * count + np.abs(values).max() > LARGEST_RETURN:
            raise SettingsError(f"Squares of returns over {count} steps overflow. Divide the rewards by a constant.")
        return cls(count, values)


def horizon_model(model: TabularJMDP, discount: float | None) -> TabularJMDP:
    """Model with another discount from 0 to 1, which a finite horizon allows; None keeps its own."""
    if discount is None:
        return model
    return changed(model, discount=number("discount", discount, 0, 1))


def policy_steps(policy: Any, model: TabularJMDP, steps: int) -> list[TabularPolicy]:
    """Policy of each step, from one for all steps or from a list or array [H, S, A] of one per step."""
    found: list[TabularPolicy] = []
    if isinstance(policy, np.ndarray) and policy.ndim == 3:
        refuse_order(policy, model)
        arrays.refuse_masked("policy", policy, PolicyError)
        found = [TabularPolicy(table) for table in policy[: steps + 1]]
    elif isinstance(policy, (list, tuple)) and policy and all(map(_is_whole, policy)):
        found = [TabularPolicy.of(step, model) for step in policy[: steps + 1]]
    elif isinstance(policy, (list, tuple, np.ndarray)) or _is_whole(policy) or policy == "uniform":
        return [TabularPolicy.of(policy, model)] * steps
    else:
        raise PolicyError(
            f"policy is a {type(policy).__name__}. With a horizon give a policy for all steps ({{state: action}}, a "
            'function of the state, a TabularPolicy, one action for each state, probabilities [S, A], or "uniform"), a '
            "list of one policy for each step, or an array [H, S, A]."
        )
    if len(found) != steps:
        raise PolicyError(f"The policy has {len(policy)} steps, but the horizon is {steps}. Give one table per step.")
    for table in found:
        table.check_fits(model)
    return found


def _is_whole(policy: Any) -> bool:
    """Whether this is a policy of all states, and no list of actions or steps."""
    return isinstance(policy, (TabularPolicy, Mapping)) or callable(policy)
