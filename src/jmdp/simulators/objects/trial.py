"""Trial of an ordinary object before it is used: about a hundred steps that show whether its randomness is controlled.

The same keys must give the same steps in a second object made by the factory, whatever is drawn elsewhere in between.
Other keys must give other steps, unless the object is deterministic. A generator that a step draws from although it
cannot be keyed is named.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from jmdp.errors import SimulatorError
from jmdp.simulators.checking.probe import GLOBALS, SavedGenerator
from jmdp.simulators.objects.growth import MEASURED_AT, attribute_sizes, growing
from jmdp.simulators.objects.hidden import Hidden, hidden_generators, iterators_of, lengths_of, sources_in_code
from jmdp.simulators.objects.object_steps import ObjectSteps
from jmdp.simulators.objects.refusals import refuse_frozen, refuse_hidden, refuse_read_shared, refuse_unequal
from jmdp.simulators.objects.trial_run import STEPS, Look, Run, start_key


@dataclass
class Trial:
    """Findings of the trial."""

    generators: list[str]  # that are keyed
    drawn: list[str]  # of these, the ones that steps drew from
    steps: int  # of each run
    varied: bool = False  # whether another key changed a step
    starts_vary: bool = False  # whether another key changed the start
    opaque: bool = False  # whether states cannot be inspected
    growing: dict[str, list[int]] | None = None  # attribute: bytes after 0, 10 and 20 steps
    sharable: tuple[str, ...] = ()  # growing attributes that no step read
    shrinking: tuple[str, ...] = ()  # attributes with fewer numbers after each step
    globals: bool = False  # whether steps draw from the global generators
    made: tuple[str, ...] = ()  # functions that make or seed generators in a step, as sentences

    @property
    def deterministic(self) -> bool:
        """Whether no step uses randomness."""
        return not (self.varied or self.drawn or self.globals)


def try_out(steps: ObjectSteps, actions: Sequence[Any], step: Any) -> Trial:
    """Run the object, and raise `SimulatorError` if its randomness is not controlled."""
    plain = steps.without_sharing() if steps.shared.values else steps
    reference, trial, sizes, replaced = _first_run(plain, actions)
    steps.uses_globals, steps.keys = plain.uses_globals, plain.keys
    _second_run(plain, actions, reference, step)
    trial.varied = Run(plain, actions, b"other").steps(trial.steps) != reference.looks
    trial.starts_vary = _starts_vary(plain)
    trial.opaque = reference.looks[-1].state is None
    trial.made = tuple(cause for cause in sources_in_code(reference.thing, step) if "makes" in cause or "sets" in cause)
    if not trial.varied:
        cause = _cause_of_frozen_steps(reference.thing, trial, replaced)
        if cause is not None:
            refuse_frozen(plain.name, cause, trial.steps)
    if steps.shared.values:
        _check_shared(steps, actions, reference.looks)
    trial.growing = {name: seen for name, seen in growing(sizes).items() if name not in steps.ignored}
    trial.sharable = tuple(name for name in list(trial.growing)[:3] if _may_share(plain, actions, name))
    return trial


def _first_run(steps: ObjectSteps, actions: Sequence[Any]) -> tuple[Run, Trial, list[dict[str, int]], list[str]]:
    """Run the object for the first time, and see which generators it draws from and what grows or shrinks."""
    run = Run(steps, actions, b"step")
    trial = Trial(steps.keys.names(run.thing), [], max(STEPS, len(actions)))  # each action at least once
    first, drawn, replaced = set(trial.generators), {}, {}
    sizes, lengths = [attribute_sizes(run.thing)], [lengths_of(run.thing)]
    for _ in range(trial.steps):
        before = {name: SavedGenerator.of(generator) for name, generator in GLOBALS.items()}
        thing = run.thing
        run.step()
        if any(SavedGenerator.of(GLOBALS[name]) != saved for name, saved in before.items()) and not steps.uses_globals:
            for name, saved in before.items():
                saved.put_back(GLOBALS[name])
            steps.uses_globals = True
            return _first_run(steps, actions)
        assert steps.last is not None
        drawn.update(dict.fromkeys(steps.last.moved()))
        replaced.update(dict.fromkeys(steps.last.replaced()))
        if set(steps.keys.names(thing)) != first:
            steps.keys.places = None  # they change with time
        if run.episode == 0:
            lengths.append(lengths_of(thing))
            if run.t in MEASURED_AT:
                sizes.append(attribute_sizes(thing))
    trial.drawn, trial.globals = list(drawn), steps.uses_globals
    trial.shrinking = tuple(name for name in lengths[0] if _shrinks([at.get(name, 0) for at in lengths]))
    return run, trial, sizes, list(replaced)


def _shrinks(lengths: list[int]) -> bool:
    falls = [later < before for before, later in pairwise(lengths) if before]
    return len(falls) >= 2 and all(falls)


def _second_run(steps: ObjectSteps, actions: Sequence[Any], reference: Run, step: Any) -> None:
    """Run another object with the same keys, after draws from all global generators; raise if a step differs."""
    saved = {name: SavedGenerator.of(generator) for name, generator in GLOBALS.items()}
    try:
        np.random.random(3), random.random()  # noqa: NPY002 (a step must not depend on them)
        run = Run(steps, actions, b"step")
        if run.thing is reference.thing:
            raise SimulatorError(
                "The factory returns the same object again. Give a class, or a function that makes a new object each "
                "time: ObjectSimulator(lambda: Warehouse(…))."
            )
        hidden: list[Hidden] = []
        states: list[Any] = []
        for t in range(len(reference.looks)):
            if t <= 1 or run.looks[-1].terminated:  # generator objects have no variables before their first value
                hidden = hidden_generators(run.thing, steps.ignored)
                states = [one.state() for one in hidden]
            thing = run.thing
            run.step()
            moved = [one for one, before in zip(hidden, states, strict=True) if one.state() != before]
            if moved:
                refuse_hidden(steps.name, moved)
            if run.looks[-1] != reference.looks[t]:
                unknown = [one for one in hidden if one.state() is None]
                if unknown:
                    refuse_hidden(steps.name, unknown)
                refuse_unequal(steps, thing, reference.looks[t], run, step)
    finally:
        for name, generator in GLOBALS.items():
            saved[name].put_back(generator)


def _starts_vary(steps: ObjectSteps) -> bool:
    found = [steps.fingerprint(steps.begin(start_key(k))[0]) for k in (0, 1, 2, 3)]
    return len(set(found)) > 1


def _cause_of_frozen_steps(thing: Any, trial: Trial, replaced: list[str]) -> str | None:
    """Why no key changes a step; None if the object seems to be deterministic, or draws without effect."""
    if replaced:
        return f"step replaces {', '.join(replaced)} by a new generator with a seed"
    if trial.made:
        return "; ".join(trial.made)
    if trial.drawn or trial.globals:
        return None
    advanced = iterators_of(thing)
    if advanced:
        return f"{', '.join(advanced)}: an iterator, whose numbers are already decided"
    if trial.shrinking and trial.generators and not trial.starts_vary:
        return (
            f"{', '.join(trial.shrinking)} has fewer numbers after each step, and no step draws from "
            f"{', '.join(trial.generators)}: they were drawn before the first step"
        )
    return None


def _check_shared(steps: ObjectSteps, actions: Sequence[Any], expected: list[Look]) -> None:
    """Raise if a step reads a shared attribute."""
    found = Run(steps, actions, b"step").steps(len(expected))
    for t, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one != other:
            refuse_read_shared(list(steps.shared.values), steps.name, t)


def _may_share(steps: ObjectSteps, actions: Sequence[Any], name: str) -> bool:
    """Whether all steps are the same if copies share this attribute."""
    runs = [Run(chosen, actions, b"step") for chosen in (steps.without_sharing({name}), steps.sharing((name,)))]
    try:
        return runs[0].steps(STEPS) == runs[1].steps(STEPS)
    except Exception:  # the step may need what it wrote earlier
        return False
