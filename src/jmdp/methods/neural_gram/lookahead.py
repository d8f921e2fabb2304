"""Settings of a lookahead: simulated steps before the network is evaluated."""

from __future__ import annotations

from dataclasses import dataclass

from jmdp.base.settings import whole


@dataclass(frozen=True)
class Lookahead:
    """Simulate some steps from the given state under shared randomness, then evaluate the network.

    Immediate effects of an action are simulated; the network predicts the rest. The variance is a weighted average of
    the simulated one and the network's, weighted by the network's error in held-out states.
    """

    steps: int = 8
    repeats: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        whole(self, "steps", 1)
        whole(self, "repeats", 2)
        whole(self, "seed", 0)
