"""A simulator and a policy that draws, for tests of pools."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmdp.base.luck import Shock
from jmdp.simulators import Simulator, Step, action_labels


class Drift(Simulator):
    """A noisy walk on the line; the reward falls with the distance from 0."""

    actions = action_labels(3)
    discount = 0.9

    def start(self, shock: Shock) -> float:
        return shock.uniform()

    def step(self, state: Any, action: Any, shock: Shock) -> Step:
        rng = shock.generator()
        after = 0.8 * state + action - 1 + rng.standard_normal()
        return Step(-abs(after), after, after > 4)


def policy(state: float, rng: np.random.Generator) -> int:
    return int(rng.integers(3)) if abs(state) < 1 else int(state < 0) * 2
