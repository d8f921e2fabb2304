"""Simulated steps before the network is asked."""

from __future__ import annotations

from dataclasses import dataclass

from jmdp.base.settings import whole


@dataclass(frozen=True)
class Lookahead:
    """Some steps of simulation from the state in question, under shared luck, before the network is asked.

    What an action does at once is seen, not remembered: the network says what follows. The variance is a compromise
    between the simulated one and the network's, by how far the network was off in held-out states.
    """

    steps: int = 8
    repeats: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        whole(self, "steps", 1)
        whole(self, "repeats", 2)
        whole(self, "seed", 0)
