"""Notes on exceptions of simulators, which come out unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmdp.errors import JMDPError

if TYPE_CHECKING:
    from jmdp.simulators.simulator import Simulator

REPEATED = "The same call with the same seed raises it again, unless its cause lies outside the simulator."


def note_step(error: Exception, simulator: Simulator, t: int) -> None:
    """Add the step (from 0) in which an exception was raised, unless it says more already."""
    if not isinstance(error, JMDPError) and not getattr(error, "__notes__", None):
        error.add_note(f"Raised in step {t + 1} of {simulator!r}. {REPEATED}")
