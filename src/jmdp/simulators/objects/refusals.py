"""Errors of the trial of an object: what its steps showed, where the cause is, and the fix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from jmdp.errors import SimulatorError
from jmdp.simulators.checking.probe import fingerprint_of
from jmdp.simulators.digests import attributes_of
from jmdp.simulators.objects.hidden import Hidden, sources_in_code
from jmdp.simulators.objects.object_steps import ObjectSteps
from jmdp.simulators.objects.trial_run import Look, Run

_FIX = "Draw in step, from a generator that is made in __init__: self.rng = np.random.default_rng()."


def refuse_hidden(name: str, found: Sequence[Hidden]) -> NoReturn:
    """Raise for generators that a step draws from and that cannot be keyed."""
    places = " and ".join(dict.fromkeys(one.where for one in found))
    raise SimulatorError(
        f"A step of {name} draws from a random generator that cannot be set to the key of the step: {places}. "
        + " ".join(dict.fromkeys(one.fix for one in found))
    )


def refuse_unequal(steps: ObjectSteps, thing: Any, expected: Look, run: Run, step: Any) -> NoReturn:
    """Raise for a step that differs though all keys are equal. `thing` is the object that took it."""
    t, found = len(run.looks) - 1, run.looks[-1]
    again = Run(steps, run.actions, b"step")
    again.steps(t)
    other = again.thing
    again.step()
    differing, causes = differing_attributes(thing, other), sources_in_code(other, step)
    cause = f" {'; '.join(causes)}." if causes else ""
    named = f" Attributes that differ: {', '.join(differing)}." if differing else ""
    raise SimulatorError(
        f"{steps.name} depends on more than actions and keys: two objects took the same actions with the same keys, "
        f"but {_difference(expected, found, t)}.{named}{cause} Make one generator in __init__ (self.rng = "
        "np.random.default_rng()) and draw from it alone, in reset and step. Attributes that only describe a run, such "
        'as a time stamp or a number, are left out of the state by shared=("name",).'
    )


def _difference(one: Look, other: Look, t: int) -> str:
    if one.reward != other.reward:
        return f"the reward of step {t} was {one.reward:g} and {other.reward:g}"
    if one.terminated != other.terminated:
        return f"only one episode ended with step {t}"
    return f"the {'observation' if one.observation != other.observation else 'state'} after step {t} was not the same"


def differing_attributes(one: Any, other: Any) -> list[str]:
    """Names of the attributes that differ between two objects."""
    mine, theirs = (attributes_of(thing) or getattr(thing, "__dict__", {}) for thing in (one, other))
    return [name for name in mine if name in theirs and fingerprint_of(mine[name]) != fingerprint_of(theirs[name])]


def refuse_frozen(name: str, cause: str, steps: int) -> NoReturn:
    """Raise for steps that no key changes, although the object does not look deterministic."""
    raise SimulatorError(
        f"No key changes a step of {name}: in {steps} steps with other keys, all rewards and states were the same. "
        f"{cause}. {_FIX}"
    )


def refuse_read_shared(names: Sequence[str], name: str, t: int) -> NoReturn:
    """Raise for shared attributes that a step reads."""
    raise SimulatorError(
        f"shared is {tuple(names)}, but step {t} of {name} is another one if copies share them: a step reads what "
        "earlier steps wrote. Share only attributes that steps write and never read."
    )
