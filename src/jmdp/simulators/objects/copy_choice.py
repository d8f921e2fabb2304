"""Choice of the way to copy an object: by trying which copies continue exactly as the original does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jmdp.errors import SimulatorError
from jmdp.simulators.objects.copies import Copies
from jmdp.simulators.objects.object_steps import ObjectSteps
from jmdp.simulators.objects.trial_run import Look, Run

_COPIED_AT, _CONTINUED = 3, 5
"""Step at which copies are made, and the number of steps that they continue."""


def choose_copies(steps: ObjectSteps, actions: Sequence[Any], ways: Sequence[Copies]) -> tuple[Copies, list[str]]:
    """The first way of copying by which copies and original continue as without copying; reasons against the others."""
    expected = Run(steps, actions, b"step").steps(_COPIED_AT + _CONTINUED)[_COPIED_AT:]
    reasons: list[str] = []
    for way in ways:
        try:
            fault = _fault_of_copies(steps, actions, way, expected)
        except Exception as error:  # user code may raise anything
            fault = f"{type(error).__name__}: {error}"
        if fault is None:
            return way, reasons
        reasons.append(f"{way.name}: {fault}")
    raise SimulatorError(f"{steps.name} cannot be copied. " + ". ".join(reasons))


def _fault_of_copies(steps: ObjectSteps, actions: Sequence[Any], way: Copies, expected: list[Look]) -> str | None:
    """Why copies cannot be used; None if they can."""
    run = Run(steps, actions, b"step")
    run.steps(_COPIED_AT)
    frozen = way.freeze(run.thing, run.history)
    other = way.thaw(frozen)
    steps.shared.attach(other)
    run.continued(other, 1, b"elsewhere")
    way.recycle(other)
    for _ in range(2):
        thing = way.thaw(frozen)
        if thing is run.thing:
            return "it returns the object itself, not a copy"
        steps.shared.attach(thing)
        if run.continued(thing, _CONTINUED) != expected:
            return "a copy continues differently from the original"
        way.recycle(thing)
    return None if run.continued(run.thing, _CONTINUED) == expected else "steps of a copy change the original"
