"""Comparisons that a simulator answers, of actions or of policies."""

from __future__ import annotations

from dataclasses import dataclass

from jmdp.sequential import Question
from jmdp.simulators.rollouts import rollouts_at_once
from jmdp.simulators.simulator import Simulator


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatorQuestion(Question):
    """A comparison that a simulator answers."""

    simulator: Simulator
    repeats: bool = True  # simulate some samples again, and raise if they differ

    def block_size(self, alternatives: int, seconds: float) -> int:
        """Number of samples that are simulated in lockstep."""
        return rollouts_at_once(self.simulator, alternatives)

    def described(self) -> str:
        """The simulator."""
        return repr(self.simulator)

    @property
    def checked(self) -> bool:
        """False if the simulator is not checked."""
        return self.simulator.check
