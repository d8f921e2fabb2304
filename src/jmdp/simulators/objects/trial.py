"""Trial of an ordinary object before it is used: about a hundred steps that show whether its randomness is controlled.

The same keys must give the same steps in a second object made by the factory, whatever is drawn elsewhere in between.
Other keys must give other steps, unless the object is deterministic. A generator that a step draws from although it
cannot be keyed is named. Then ways to copy are tried until copies and original both continue as without copying.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.simulators.checking.probe import GLOBALS, SavedGenerator, fingerprint_of
from jmdp.simulators.digests import attributes_of
from jmdp.simulators.gymnasium.replayed import History
from jmdp.simulators.objects.copies import Copies
from jmdp.simulators.objects.growth import MEASURED_AT, attribute_sizes, growing
from jmdp.simulators.objects.hidden import Hidden, hidden_generators, iterators_of, lengths_of, sources_in_code
from jmdp.simulators.objects.object_steps import ObjectSteps
from jmdp.simulators.simulator import finite_reward

STEPS = MEASURED_AT[-1]
"""Steps of each run of the trial."""

_COPIED_AT, _CONTINUED = 3, 5
"""Step at which copies are made, and the number of steps that they continue."""

_ROOT = Shock.of_sample(0, 0).derived(b"trial")


@dataclass(frozen=True)
class Look:
    """What a step shows."""

    reward: float
    terminated: bool
    observation: bytes | None
    state: bytes | None


class Run:
    """An object that takes the actions in turn; a new episode begins after each end."""

    def __init__(self, steps: ObjectSteps, actions: Sequence[Any], purpose: bytes) -> None:
        self._steps, self._actions, self._purpose = steps, actions, purpose
        self.t = self.episode = 0
        self.looks: list[Look] = []
        self._begin()

    def _begin(self) -> None:
        shock = _ROOT.derived(b"begin", self.episode)
        self.thing, _ = self._steps.begin(shock)
        self.history = History(None, (None, shock))

    def step(self) -> None:
        """Take the next action."""
        action, shock = self._actions[self.t % len(self._actions)], _ROOT.derived(self._purpose, self.t)
        result = self._steps.step(self.thing, action, shock)
        reward, over = finite_reward(result.reward, action, self.t), bool(result.terminated or result.truncated)
        state = self._steps.fingerprint(self.thing)
        self.looks.append(Look(reward, over, fingerprint_of(result.observation), state))
        self.history = History(self.history, (action, shock))
        self.t += 1
        if over:
            self.episode += 1
            self._begin()

    def continued(self, thing: Any, count: int, purpose: bytes | None = None) -> list[Look]:
        """Looks of the next steps of a copy of the object."""
        run = object.__new__(Run)
        vars(run).update(vars(self) | {"thing": thing, "looks": [], "_purpose": purpose or self._purpose})
        for _ in range(count):
            run.step()
        return run.looks


@dataclass
class Trial:
    """Findings of the trial."""

    generators: list[str]  # that are keyed
    drawn: list[str]  # of these, the ones that steps drew from
    varied: bool = False  # whether another key changed a step
    starts_vary: bool = False  # whether another key changed the start
    opaque: bool = False  # whether states cannot be inspected
    growing: dict[str, list[int]] | None = None  # attribute: bytes after 0, 10 and 20 steps
    sharable: tuple[str, ...] = ()  # growing attributes that no step read
    shrinking: tuple[str, ...] = ()  # attributes with fewer numbers after each step
    globals: bool = False  # whether steps draw from the global generators

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
    other = Run(plain, actions, b"other")
    for _ in range(STEPS):
        other.step()
    trial.varied = [look for look in other.looks] != reference.looks
    trial.starts_vary = _starts_vary(plain)
    trial.opaque = reference.looks[-1].state is None
    if not trial.varied:
        _refuse_frozen(reference.thing, trial, replaced, plain.name, step)
    if steps.shared.values:
        _refuse_read_shared(steps, actions, reference.looks)
    trial.growing = {name: seen for name, seen in growing(sizes).items() if name not in steps.ignored}
    trial.sharable = tuple(name for name in list(trial.growing)[:3] if _may_share(plain, actions, name))
    return trial


def _first_run(steps: ObjectSteps, actions: Sequence[Any]) -> tuple[Run, Trial, list[dict[str, int]], list[str]]:
    """Run the object for the first time, and see which generators it draws from and what grows or shrinks."""
    run = Run(steps, actions, b"step")
    trial = Trial(steps.keys.names(run.thing), [])
    first, drawn, replaced = set(trial.generators), {}, {}
    sizes, lengths = [attribute_sizes(run.thing)], [lengths_of(run.thing)]
    for _ in range(STEPS):
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
    falls = [later < before for before, later in zip(lengths, lengths[1:], strict=False) if before]
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
        for t in range(STEPS):
            if t == 0 or run.looks[-1].terminated:
                hidden = hidden_generators(run.thing)
                states = [one.state() for one in hidden]
            thing = run.thing
            run.step()
            moved = [one for one, before in zip(hidden, states, strict=True) if one.state() != before]
            if moved:
                _refuse_hidden(steps.name, moved)
            if run.looks[-1] != reference.looks[t]:
                unknown = [one for one in hidden if one.state() is None]
                if unknown:
                    _refuse_hidden(steps.name, unknown)
                _refuse_unequal(steps, thing, reference, run, step)
    finally:
        for name, generator in GLOBALS.items():
            saved[name].put_back(generator)


def _starts_vary(steps: ObjectSteps) -> bool:
    found = [steps.fingerprint(steps.begin(_ROOT.derived(b"begin", k))[0]) for k in (0, 1, 2, 3)]
    return len(set(found)) > 1


def _refuse_hidden(name: str, moved: list[Hidden]) -> None:
    places = " and ".join(dict.fromkeys(one.where for one in moved))
    raise SimulatorError(
        f"A step of {name} draws from a random generator that cannot be set to the key of the step: {places}. "
        + " ".join(dict.fromkeys(one.fix for one in moved))
    )


def _refuse_unequal(steps: ObjectSteps, thing: Any, reference: Run, run: Run, step: Any) -> None:
    """Raise the error for a step that differs though all keys are equal."""
    t = len(run.looks) - 1
    mine, theirs = reference.looks[t], run.looks[t]
    again = Run(steps, [run._actions[k % len(run._actions)] for k in range(STEPS)], b"step")
    for _ in range(t + 1):
        other = again.thing
        again.step()
    differing = _differing(thing, other)
    what = f"the reward of step {t} was {mine.reward!r}, then {theirs.reward!r}"
    if mine.reward == theirs.reward:
        parts = [("the end", mine.terminated != theirs.terminated), ("the observation", mine.observation != theirs.observation)]
        what = f"{next((name for name, wrong in parts if wrong), 'the state')} after step {t} was not the same"
    causes = sources_in_code(other, step)
    cause = f" {'; '.join(causes)}." if causes else ""
    named = f" Attributes that differ: {', '.join(differing)}." if differing else ""
    raise SimulatorError(
        f"{steps.name} uses randomness that no key controls: two objects took the same actions with the same keys, but "
        f"{what}.{named}{cause} Make one generator in __init__ (self.rng = np.random.default_rng()) and draw from it "
        "alone, in reset and step. Attributes that only describe a run, such as a time stamp, are left out of the state "
        'by shared=("name",).'
    )


def _differing(one: Any, other: Any) -> list[str]:
    """Names of the attributes that differ between two objects."""
    mine, theirs = (attributes_of(thing) or vars(thing) for thing in (one, other))
    return [name for name in mine if name in theirs and fingerprint_of(mine[name]) != fingerprint_of(theirs[name])]


def _refuse_frozen(thing: Any, trial: Trial, replaced: list[str], name: str, step: Any) -> None:
    """Raise if no key changes a step, although the object does not look deterministic."""
    still = f"No key changes a step of {name}: in {STEPS} steps with other keys, all rewards and states were the same"
    fix = "Draw in step, from a generator that is made in __init__: self.rng = np.random.default_rng()."
    if replaced:
        raise SimulatorError(f"{still}. step replaces {', '.join(replaced)} by a new generator with a seed. {fix}")
    if trial.drawn or trial.globals:
        return
    causes = [cause for cause in sources_in_code(thing, step) if "makes" in cause]
    if causes:
        raise SimulatorError(f"{still}. {'; '.join(causes)}. {fix}")
    advanced = list(iterators_of(thing))
    if advanced:
        raise SimulatorError(f"{still}. {', '.join(advanced)}: an iterator, whose numbers are already decided. {fix}")
    if trial.shrinking and trial.generators and not trial.starts_vary:
        raise SimulatorError(
            f"{still}. {', '.join(trial.shrinking)} has fewer numbers after each step, and no step draws from "
            f"{', '.join(trial.generators)}: they were drawn before the first step. {fix}"
        )


def _refuse_read_shared(steps: ObjectSteps, actions: Sequence[Any], expected: list[Look]) -> None:
    run = Run(steps, actions, b"step")
    for t in range(STEPS):
        run.step()
        if run.looks[-1] != expected[t]:
            raise SimulatorError(
                f"shared is {tuple(steps.shared.values)}, but step {t} of {steps.name} is another one if copies share "
                "them: a step reads what earlier steps wrote. Share only attributes that steps write and never read."
            )


def _may_share(steps: ObjectSteps, actions: Sequence[Any], name: str) -> bool:
    """Whether all steps are the same if copies share this attribute."""
    runs = [Run(chosen, actions, b"step") for chosen in (steps.without_sharing({name}), steps.sharing((name,)))]
    try:
        for run in runs:
            for _ in range(STEPS):
                run.step()
    except Exception:  # the step may need what it wrote earlier
        return False
    return runs[0].looks == runs[1].looks


def choose_copies(steps: ObjectSteps, actions: Sequence[Any], ways: Sequence[Copies]) -> tuple[Copies, list[str]]:
    """The first way of copying by which copies and original continue as without copying; reasons against the others."""
    reference = Run(steps, actions, b"step")
    for _ in range(_COPIED_AT + _CONTINUED):
        reference.step()
    expected, reasons = reference.looks[_COPIED_AT:], []
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
    for _ in range(_COPIED_AT):
        run.step()
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
