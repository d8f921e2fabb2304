"""State of an ordinary object, and episodes that step an object in place."""

from __future__ import annotations

from typing import Any

from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.simulators.gymnasium.replayed import History
from jmdp.simulators.objects.copies import Copies, PickledCopies, SavedCopies
from jmdp.simulators.simulator import Simulator, SteppedEpisode


class ObjectState:
    """State of an object, opaque except to its simulator: the object itself, and what is needed to copy it."""

    __slots__ = ("__weakref__", "copies", "frozen", "history", "live", "observation", "steps", "truncated", "used_up")

    def __init__(
        self, live: Any, observation: Any, history: History | None, steps: int = 0, truncated: bool = False
    ) -> None:
        self.live, self.observation, self.steps = live, observation, steps
        self.history = history  # steps that led to the state; None if they are not needed
        self.truncated, self.used_up = truncated, False
        self.frozen: Any = None  # stored by `copies`, once the state was copied
        self.copies: Copies | None = None

    def freeze(self, copies: Copies) -> Any:
        """Return the stored state; store it at the first call."""
        if self.frozen is None:
            self.copies, self.frozen = copies, copies.freeze(self.live, self.history)
        return self.frozen

    def take(self) -> Any:
        """Return the object, which the state gives up."""
        thing, self.live = self.live, None
        return thing

    def __del__(self) -> None:
        if self.live is not None and isinstance(self.copies, SavedCopies):
            self.copies.recycle(self.live)

    def __reduce__(self) -> tuple[Any, ...]:
        # Objects that are copied in another way than by pickle may not survive it, so their steps are repeated.
        stored, path = None, [] if self.history is None else self.history.path()
        if isinstance(self.copies, (PickledCopies, SavedCopies)):
            stored = self.freeze(self.copies)
        elif path[0][0] is not None:
            raise SimulatorError(
                "The current state of this object cannot be sent to worker processes: it cannot be pickled, and the "
                "steps that led to it are unknown. Compare without pool=…, or from simulator.start(…)."
            )
        return _restored, (self.copies, stored, self.observation, path, self.steps, self.truncated)


def _restored(
    copies: Copies | None, frozen: Any, seen: Any, path: list[tuple[Any, Any]], steps: int, truncated: bool
) -> ObjectState:
    history = None
    for event in path:
        history = History(history, event)
    state = ObjectState(None, seen, history, steps, truncated)
    state.copies, state.frozen = copies, frozen
    return state


class ObjectEpisode(SteppedEpisode):
    """Episode whose object belongs to no other state, so that the first step needs no copy either."""

    def __init__(self, simulator: Simulator, state: ObjectState, *, copy_first: bool, truncated_ends: bool) -> None:
        super().__init__(simulator, state)
        self._truncated_ends = truncated_ends
        if not copy_first:
            self._go = simulator.advance

    def step(self, action: Any, shock: Shock) -> tuple[float, bool]:
        """Step the object; return the reward and whether the episode has ended."""
        reward, over = super().step(action, shock)
        return reward, over or (self._truncated_ends and self._state.truncated)
