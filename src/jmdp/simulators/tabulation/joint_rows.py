"""Joint outcomes of all actions in one state under the same shock: enumerated if the draws are finite, else sampled."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from jmdp.base.luck import Shock
from jmdp.base.settings import short
from jmdp.errors import JMDPError, SimulatorError
from jmdp.simulators.digests import digest_of
from jmdp.simulators.simulator import Simulator, is_over, plain_reward, three_parts
from jmdp.simulators.step_notes import REPEATED
from jmdp.simulators.tabulation.finite_luck import Cells, Path

JointOutcome = tuple[tuple[float, bytes], ...]
"""Reward and digest of the next state for each action; the digest is empty if the episode has ended."""

_VERIFIED = 8
"""Number of ordinary shocks whose outcomes must be among the enumerated ones."""


@dataclass
class JointRow:
    """Joint outcomes of one state with their probabilities."""

    weights: list[float] = field(default_factory=list)
    outcomes: list[JointOutcome] = field(default_factory=list)
    reached: dict[bytes, Any] = field(default_factory=dict)  # next states by digest
    draws: bytes | None = None  # identifies the draws that lead to each outcome; None if there are none, or sampled
    counts: list[int] | None = None  # number of samples of each outcome; None if enumerated


class JointSteps:
    """Steps of all actions of a simulator from one state under the same shock."""

    def __init__(self, simulator: Simulator, cells: Cells | None = None) -> None:
        assert simulator.actions is not None
        self._simulator, self._cells = simulator, cells
        self._actions = range(simulator.actions.size)

    def digest(self, state: Any) -> bytes:
        """Digest of a state; raise if it is not bytes."""
        found = self._simulator.digest(state)
        if not isinstance(found, bytes) or not found:
            raise SimulatorError(
                f"digest of {self._simulator!r} returned {short(found)}. Return bytes that are equal for equal states, "
                "e.g. jmdp.simulators.digests.digest_of(…)."
            )
        return found

    def joint(self, state: Any, shock: Callable[[], Shock], reached: dict[bytes, Any]) -> JointOutcome:
        """Outcome of every action; next states are added to `reached`."""
        return tuple([self._outcome(state, a, shock(), reached) for a in self._actions])

    def _outcome(self, state: Any, action: int, shock: Shock, reached: dict[bytes, Any]) -> tuple[float, bytes]:
        simulator = self._simulator
        try:
            reward, after, terminated = three_parts(simulator, simulator.step(state, action, shock))
        except Exception as error:
            if not isinstance(error, JMDPError) and not getattr(error, "__notes__", None):
                where = f"action {simulator.actions.name(action)} in state {short(state)}" if simulator.actions else ""
                error.add_note(f"Raised by {where} of {simulator!r}. {REPEATED}")
            raise
        earned = plain_reward(reward)
        if not math.isfinite(earned):
            raise SimulatorError(
                f"Action {action} in state {short(state)} returned the reward {short(reward)}. Return a finite number."
            )
        if is_over(terminated):
            return earned, b""
        digest = self.digest(after)
        reached.setdefault(digest, after)
        return earned, digest

    def enumerated(self, state: Any) -> JointRow | str:
        """All joint outcomes with their probabilities, or the reason why they cannot be enumerated."""
        row, paths = JointRow(), []
        for path in self._paths():
            outcome = self.joint(state, path.shock, row.reached)
            path.close()
            if path.reason is not None:
                return path.reason
            paths.append(path)
            row.weights.append(path.probability)
            row.outcomes.append(outcome)
        if paths[0].branches:
            row.draws = digest_of([path.draws for path in paths])
        if not set(self._trial(state)) <= set(row.outcomes):
            return "a step has outcomes that its draws do not explain"
        return row

    def _paths(self) -> Iterator[Path]:
        path: Path | None = Path(self._cells)
        while path is not None:
            yield path
            path = path.following()

    def _trial(self, state: Any) -> Iterator[JointOutcome]:
        for i in range(_VERIFIED):
            shock = Shock.of_sample(0, i)
            yield self.joint(state, lambda shock=shock: shock, {})  # type: ignore[misc]

    def sampled(self, state: Any, roots: list[Shock]) -> JointRow:
        """Joint outcomes under a shock derived from each of these and from the state, with their frequencies."""
        row, count = JointRow(), dict[JointOutcome, int]()
        place = self.digest(state)
        for root in roots:
            shock = root.derived(b"tabulate", 0, place)
            outcome = self.joint(state, lambda shock=shock: shock, row.reached)  # type: ignore[misc]
            count[outcome] = count.get(outcome, 0) + 1
        row.outcomes, row.counts = list(count), list(count.values())
        row.weights = [n / len(roots) for n in row.counts]
        return row
