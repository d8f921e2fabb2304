"""Check that `step_many` of a simulator returns the outcomes of `step`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jmdp.base.luck import Shock
from jmdp.base.luck_batch import Shocks
from jmdp.simulators.batched_states import codes_of, has_many_steps, many_steps, rows_of
from jmdp.simulators.simulator import Simulator, finite_step

_VISITS = 6
"""States in which all actions are tried."""


def many_steps_fault(simulator: Simulator, state: Any, actions: Sequence[int], seed: int = 0) -> str | None:
    """Description of the first difference between `step_many` and `step`, in a few states; None if there is none."""
    if not has_many_steps(simulator):
        return None
    root = Shock.of_sample(seed, 0)
    calls: list[tuple[Any, int, Shock]] = []
    outcomes = []
    for t in range(_VISITS):
        shock = root.derived(b"many", t)
        calls += [(state, action, shock) for action in actions]
        outcomes += [finite_step(simulator, simulator.step(state, action, shock), action, t) for action in actions]
        unfinished = [step.state for step in outcomes[-len(actions) :] if not step.terminated]
        if not unfinished:
            break
        state = unfinished[t % len(unfinished)]
    states, taken, shocks = zip(*calls, strict=True)
    rewards, after, ended = many_steps(
        simulator, rows_of(simulator, list(states)), np.array(taken), Shocks.of(list(shocks)), 0
    )
    found = codes_of(after)
    for i, step in enumerate(outcomes):
        row = rows_of(simulator, [step.state])
        same_state = step.terminated or (codes_of(row.astype(after.dtype)) == found[i]).all()
        if rewards[i] == step.reward and ended[i] == step.terminated and same_state:
            continue
        many = f"({rewards[i].item()!r}, {after[i].tolist()}, {bool(ended[i])})"
        return (
            f"step_many returns {many} for action {taken[i]} in the state {states[i]!r}, but step returns "
            f"{tuple(step)!r}. Both must be equal to the last bit: use the same operations in the same order, and the "
            "same numbers of the shock"
        )
    return None
