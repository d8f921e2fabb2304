"""Choice of the way to copy an object: by trying which copies continue exactly as the original does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jmdp.errors import SimulatorError
from jmdp.simulators.objects.copies import ClonedCopies, Copies, SavedCopies
from jmdp.simulators.objects.object_steps import ObjectSteps
from jmdp.simulators.objects.refusals import differing_attributes
from jmdp.simulators.objects.trial_run import Look, Run

_COPIED_AT, _CONTINUED = (0, 3), 5
"""Numbers of steps after which copies are made, and the number of steps that they continue."""


def choose_copies(steps: ObjectSteps, actions: Sequence[Any], ways: Sequence[Copies]) -> tuple[Copies, list[str]]:
    """The first way of copying by which copies and original continue as without copying, and remarks.

    Attributes that the object's own methods do not restore, and that change no reward and no observation, are from then
    on no part of a state: `steps.ignored`.
    """
    remarks: list[str] = []
    for way in ways:
        try:
            fault = _fault(steps, actions, way)
            left_out = (
                _not_restored(steps, actions, way) if fault and isinstance(way, (SavedCopies, ClonedCopies)) else ()
            )
            if left_out:
                lenient = steps.without_sharing(left_out)
                lenient.shared = steps.shared
                if _fault(lenient, actions, way) is None:
                    steps.ignored, fault = lenient.ignored, None
                    remarks.append(f"they do not restore {', '.join(left_out)}, which is then no part of the state")
        except Exception as error:  # own methods to copy, and steps of a wrong copy, may raise anything
            fault = f"{type(error).__name__}: {error}"
        if fault is None:
            return way, remarks
        remarks.append(f"not by {way.name}: {fault}")
    raise SimulatorError(f"{steps.name} cannot be copied. " + ". ".join(remarks))


def _fault(steps: ObjectSteps, actions: Sequence[Any], way: Copies) -> str | None:
    """Why copies cannot be used; None if they can."""
    looks = Run(steps, actions, b"step").steps(_COPIED_AT[-1] + _CONTINUED)
    for at in _COPIED_AT:
        fault = _fault_after(at, steps, actions, way, looks[at : at + _CONTINUED])
        if fault is not None:
            return fault
    return None


def _fault_after(
    at: int, steps: ObjectSteps, actions: Sequence[Any], way: Copies, expected: Sequence[Look]
) -> str | None:
    """Copy an object after this number of steps, and compare what copies and original do next."""
    run = Run(steps, actions, b"step")
    run.steps(at)
    frozen = way.freeze(run.thing, run.history)
    other = _thawed(steps, way, frozen)
    run.continued(other, 1, b"elsewhere")
    way.recycle(other)
    for _ in range(2):
        thing = _thawed(steps, way, frozen)
        if thing is run.thing:
            return "it returns the object itself, not a copy"
        if run.continued(thing, _CONTINUED) != expected:
            return "a copy continues differently from the original"
        way.recycle(thing)
    return None if run.continued(run.thing, _CONTINUED) == expected else "steps of a copy change the original"


def _thawed(steps: ObjectSteps, way: Copies, frozen: Any) -> Any:
    thing = way.thaw(frozen)
    steps.shared.attach(thing)
    return thing


def _not_restored(steps: ObjectSteps, actions: Sequence[Any], way: Copies) -> list[str]:
    """Attributes that differ between an object and a copy of it, made in an object that has taken other steps."""
    run = Run(steps, actions, b"step")
    run.steps(_COPIED_AT[-1])
    frozen = way.freeze(run.thing, run.history)
    other = _thawed(steps, way, frozen)
    run.continued(other, 1, b"elsewhere")
    way.recycle(other)
    return differing_attributes(run.thing, _thawed(steps, way, frozen))
