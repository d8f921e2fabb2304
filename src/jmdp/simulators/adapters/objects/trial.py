"""Trial of an ordinary object before it is used: about a hundred steps that show whether its randomness is controlled.

The same keys must give the same steps in a second object made by the factory, whatever is drawn elsewhere in between.
Other keys must give other steps, unless the object is deterministic. A generator that a step draws from although it
cannot be keyed is named.

The findings of the trial of an object as text.
"""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from jmdp.base.luck import Shock
from jmdp.errors import SimulatorError
from jmdp.simulators.adapters.objects.copies import MEASURED_AT, attribute_sizes, growing
from jmdp.simulators.adapters.objects.hidden import Hidden, hidden_generators, iterators_of, lengths_of, sources_in_code
from jmdp.simulators.adapters.objects.object_steps import ObjectSteps
from jmdp.simulators.checking.probe import GLOBALS, SavedGenerator, StepOutcome, digest_or_none
from jmdp.simulators.object_graph import visible_attributes
from jmdp.simulators.simulator import finite_reward

STEPS = MEASURED_AT[-1]
"""Steps of each run of the trial, unless there are more actions to try."""

_SMALL, _SOON = 100_000, 1e-3
"""Bytes of an object and seconds of a step, with its digest, below which many objects are stepped together."""

_ROOT = Shock.of_sample(0, 0).derived(b"trial")


class ObjectRun:
    """An object that takes the actions in turn; a new episode begins after each end."""

    def __init__(self, steps: ObjectSteps, actions: Sequence[Any], purpose: bytes) -> None:
        self._steps, self.actions, self._purpose = steps, actions, purpose
        self.t = self.episode = 0
        self.looks: list[StepOutcome] = []
        self._begin()

    def _begin(self) -> None:
        self.thing, _ = self._steps.begin(start_key(self.episode))
        self._taken = 0

    def steps(self, count: int) -> list[StepOutcome]:
        """Take the next actions; return what all steps so far have shown."""
        for _ in range(count):
            self.step()
        return self.looks

    def step(self) -> None:
        """Take the next action."""
        action, shock = self.actions[self.t % len(self.actions)], _ROOT.derived(self._purpose, self.t)
        self._taken += 1
        seen, reward, terminated, truncated = self._steps.step(self.thing, action, shock, self._taken)
        reward, over = finite_reward(reward, action, self.t), bool(terminated or truncated)
        look = self._steps.fingerprint(self.thing) or b"", digest_or_none(seen)
        self.looks.append(StepOutcome(digest_or_none(reward), digest_or_none(over), look, None, over))
        self.t += 1
        if over:
            self.episode += 1
            self._begin()


def start_key(episode: int) -> Shock:
    """Key of the start of an episode."""
    return _ROOT.derived(b"begin", episode)


_FIX = "Draw in step, from a generator that is made in __init__: self.rng = np.random.default_rng()."


def refuse_hidden(name: str, found: Sequence[Hidden]) -> NoReturn:
    """Raise for generators that a step draws from and that cannot be keyed."""
    places = " and ".join(dict.fromkeys(one.where for one in found))
    raise SimulatorError(
        f"A step of {name} draws from a random generator that cannot be set to the key of the step: {places}. "
        + " ".join(dict.fromkeys(one.fix for one in found))
    )


def refuse_unequal(steps: ObjectSteps, thing: Any, expected: StepOutcome, run: ObjectRun, step: Any) -> NoReturn:
    """Raise for a step that differs though all keys are equal. `thing` is the object that took it."""
    t, wrong = len(run.looks) - 1, run.looks[-1].differs_from(expected)
    again = ObjectRun(steps, run.actions, b"step")
    again.steps(t)
    other = again.thing
    again.step()
    differing, causes = differing_attributes(thing, other), sources_in_code(other, step)
    cause = f" {'; '.join(causes)}." if causes else ""
    named = f" Attributes that differ: {', '.join(differing)}." if differing else ""
    raise SimulatorError(
        f"{steps.name} depends on more than actions and keys: two objects took the same actions with the same keys, "
        f"but step {t} differed in {' and '.join(wrong)}.{named}{cause} Make one generator in __init__ (self.rng = "
        "np.random.default_rng()) and draw from it alone, in reset and step. Attributes that only describe a run, such "
        'as a time stamp or a number, are left out of the state by shared=("name",).'
    )


def differing_attributes(one: Any, other: Any) -> list[str]:
    """Names of the attributes that differ between two objects."""
    mine, theirs = map(visible_attributes, (one, other))
    return [name for name in mine if name in theirs and digest_or_none(mine[name]) != digest_or_none(theirs[name])]


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
    small: bool = False  # whether hundreds of objects take little memory, and their steps little time
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
    begun = time.perf_counter()
    trial.varied = ObjectRun(plain, actions, b"other").steps(trial.steps) != reference.looks
    trial.small = sum(sizes[-1].values()) < _SMALL and time.perf_counter() - begun < _SOON * trial.steps
    trial.starts_vary = _starts_vary(plain)
    trial.opaque = not reference.looks[-1].look[0]
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


def _first_run(steps: ObjectSteps, actions: Sequence[Any]) -> tuple[ObjectRun, Trial, list[dict[str, int]], list[str]]:
    """Run the object for the first time, and see which generators it draws from and what grows or shrinks."""
    run = ObjectRun(steps, actions, b"step")
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


def _second_run(steps: ObjectSteps, actions: Sequence[Any], reference: ObjectRun, step: Any) -> None:
    """Run another object with the same keys, after draws from all global generators; raise if a step differs."""
    saved = {name: SavedGenerator.of(generator) for name, generator in GLOBALS.items()}
    try:
        np.random.random(3), random.random()  # noqa: NPY002 (a step must not depend on them)
        run = ObjectRun(steps, actions, b"step")
        if run.thing is reference.thing:
            raise SimulatorError(
                "The factory returns the same object again. Give a class, or a function that makes a new object each "
                "time: ObjectSimulator(lambda: Warehouse(…))."
            )
        hidden: list[Hidden] = []
        states: list[Any] = []
        for t in range(len(reference.looks)):
            if t <= 1 or run.looks[-1].ended:  # generator objects have no variables before their first value
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


def _check_shared(steps: ObjectSteps, actions: Sequence[Any], expected: list[StepOutcome]) -> None:
    """Raise if a step reads a shared attribute."""
    found = ObjectRun(steps, actions, b"step").steps(len(expected))
    for t, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one != other:
            refuse_read_shared(list(steps.shared.values), steps.name, t)


def _may_share(steps: ObjectSteps, actions: Sequence[Any], name: str) -> bool:
    """Whether all steps are the same if copies share this attribute."""
    runs = [ObjectRun(chosen, actions, b"step") for chosen in (steps.without_sharing({name}), steps.sharing((name,)))]
    try:
        return runs[0].steps(STEPS) == runs[1].steps(STEPS)
    except Exception:  # the step may need what it wrote earlier
        return False


_SHARE = '; no step read it: shared=("{}",) makes copies faster'


def report_of(name: str, copies: str, remarks: Sequence[str], trial: Trial) -> str:
    """One line for each finding."""
    lines = [("object", name), ("copies", f"by {copies}")]
    lines += [("", remark) for remark in remarks]
    lines += [("randomness", _randomness(trial)), ("start", _start(trial))]
    if trial.opaque:
        lines.append(("states", "cannot be inspected, so rollouts do not merge; digest=… defines which are equal"))
    for attribute, sizes in (trial.growing or {}).items():
        advice = "" if attribute not in trial.sharable else _SHARE.format(attribute)
        grown = ", ".join(f"{size:,}" for size in sizes)
        lines.append(("growth", f"{attribute}: {grown} bytes after 0, 10, 20 steps{advice}"))
    if trial.shrinking:
        names = ", ".join(trial.shrinking)
        lines.append(("warning", f"{names} has fewer numbers after each step; random ones must be drawn in step"))
    lines += [("warning", f"{made}; the seed must be drawn from a keyed generator") for made in trial.made]
    return _table(lines)


def warn_of_seeds(name: str, made: Sequence[str]) -> None:
    """Warn of generators that steps make or seed: only the reader of the code can know where their seeds come from."""
    warnings.warn(
        f"{'; '.join(made)}. Nothing is wrong if the seed is drawn from a generator of {name}. Otherwise its numbers "
        "are the same in all samples, and intervals are too short: draw from a generator that is made in __init__ "
        "(self.rng = np.random.default_rng()), or draw the seed from it (np.random.default_rng(self.rng.integers("
        "2**63))).",
        stacklevel=4,
    )


def _randomness(trial: Trial) -> str:
    if trial.deterministic:
        idle = f"; no step draws from {', '.join(trial.generators)}" if trial.generators else ""
        return f"none: {trial.steps} steps were the same with other keys{idle}"
    sources = [*trial.drawn, *(["the global generators of NumPy and Python"] if trial.globals else [])]
    effect = "" if trial.varied else f"; it changed no reward and no state in {trial.steps} steps"
    return f"{', '.join(sources)}, set to the key of each step{effect}"


def _start(trial: Trial) -> str:
    return "drawn by reset" if trial.starts_vary else "always the same"


def _table(lines: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"{label:11s} {text}" for label, text in lines)
