"""Base of `check_simulator`: calls that restore all generators, comparisons of outcomes, and recorded findings."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jmdp.base.luck import Shock
from jmdp.base.settings import short
from jmdp.errors import SimulatorError, UnavailableError
from jmdp.simulators.digests import digest_of
from jmdp.simulators.simulator import Simulator, three_parts


@dataclass(frozen=True)
class Finding:
    """Problem or remark found by a check of a simulator, with the fix."""

    kind: str
    message: str
    fault: bool = False  # True if it makes results wrong; otherwise it may be intended

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class Findings(list[Finding]):
    """List of the findings of a check, faults first, and a summary of the explored states."""

    def __init__(self, found: Iterable[Finding], explored: str) -> None:
        super().__init__(found)
        self.explored = explored  # a sentence

    def __str__(self) -> str:
        return "\n".join([*map(str, self)] or ["no problem found"]) + f"\n{self.explored}"


class StopVisitError(Exception):
    """Raised if a state was changed or its digest is unreliable, so that it cannot be checked further."""


Look = tuple[bytes, bytes | None]
"""Digest of a state, and a fingerprint of its observation; None if unavailable."""


@dataclass(frozen=True)
class StepOutcome:
    """Outcome of a step, for comparison with a repetition."""

    reward: bytes | None
    termination: bytes | None
    look: Look
    state: Any = field(compare=False)
    ended: bool = field(compare=False)

    def differs_from(self, other: StepOutcome) -> list[str]:
        """Names of the parts that differ."""
        names = ("reward", "termination", "next state", "observation")
        mine, theirs = (self.reward, self.termination, *self.look), (other.reward, other.termination, *other.look)
        return [name for name, x, y in zip(names, mine, theirs, strict=True) if x != y]


@dataclass(frozen=True)
class SavedGenerator:
    """Saved state of a generator."""

    key: Any  # for comparison
    state: Any = field(compare=False)

    @classmethod
    def of(cls, generator: Any) -> SavedGenerator:
        """Save the state of a generator of NumPy (old or new) or Python."""
        if isinstance(generator, random.Random):
            state: Any = generator.getstate()
            return cls(state, state)
        if isinstance(generator, np.random.RandomState):
            state = generator.get_state(legacy=False)
        else:
            state = getattr(generator, "bit_generator", generator).state  # it may be a bit generator itself
        return cls(_frozen(state), state)

    def put_back(self, generator: Any) -> None:
        """Restore the saved state in the generator."""
        if isinstance(generator, random.Random):
            generator.setstate(self.state)
        elif isinstance(generator, np.random.RandomState):
            generator.set_state(self.state)
        else:
            getattr(generator, "bit_generator", generator).state = self.state


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _frozen(entry)) for name, entry in value.items())
    return value.tobytes() if isinstance(value, np.ndarray) else value


def _global(draw: Any) -> Any:
    return draw.__self__


GLOBALS = {"np.random": _global(np.random.random_sample), "random": _global(random.random)}


def digest_or_none(value: Any) -> bytes | None:
    """Digest of any value; None if it cannot be inspected."""
    try:
        return digest_of(value)
    except SimulatorError:
        return None


@dataclass
class _Note:
    what: str
    fix: str
    fault: bool
    tried: int | None = None  # number of states, if the check has ended
    visits: set[int] = field(default_factory=set)
    actions: dict[str, None] = field(default_factory=dict)  # a set that keeps its order


class Probe:
    """A simulator, the list of actions to try, and the findings so far. Methods take indices into the list."""

    def __init__(self, simulator: Simulator, actions: Sequence[Any]) -> None:
        self.simulator = simulator
        labels = simulator.actions
        self.actions = list(actions) if labels is None else [labels.position(action) for action in actions]
        if not self.actions:
            raise SimulatorError("There are no actions to try. Give at least one: actions=[…].")
        self.names = [short(action) if labels is None else labels.name(action) for action in self.actions]
        self.visits = 0
        self.watched: dict[str, Any] = {}  # generators other than the shock's; restored after each call
        self.aliases: dict[str, str] = {}  # where the simulator or a state refers to a global generator, for messages
        self.moved_before_call: Collection[str] = ()  # names of those to draw from once before the next call
        self.after: dict[str, SavedGenerator] = {}  # their states after the last call
        self._before: dict[str, SavedGenerator] = {}
        self.careful = True  # monitor draws of digest and observe, which takes longer than the calls
        self.looking_draws = False  # True once digest or observe has drawn
        self.reliable = True  # False once the digest has changed without reason
        self.steady = True  # False once the observation has changed without reason
        self._notes: dict[tuple[str, str], _Note] = {}

    def add(self, kind: str, place: str, what: str, fix: str, *actions: int, fault: bool = True) -> None:
        """Record a finding; those of one kind and place are combined."""
        note = self._notes.setdefault((kind, place), _Note(what, fix, fault))
        note.visits.add(max(self.visits, 1))
        note.actions.update(dict.fromkeys(self.names[i] for i in actions))

    def noted(self, kind: str) -> bool:
        """True if a finding of this kind was recorded."""
        return any(known == kind for known, _ in self._notes)

    def findings(self) -> list[Finding]:
        """All findings, faults first."""
        found = []
        for (kind, _), note in self._notes.items():
            names = list(note.actions)
            who = f"action{'s' * (len(names) > 1)} {', '.join(names[:4])}{', …' * (len(names) > 4)}; " if names else ""
            often = f"{len(note.visits)} of {note.tried or max(self.visits, 1)} states visited"
            found.append(Finding(kind, f"{note.what} ({who}{often}). {note.fix}", note.fault))
        return sorted(found, key=lambda finding: not finding.fault)

    # -------------------------------------------------------------------------------------------------- calls

    def watch(self, generators: dict[str, Any]) -> None:
        """Monitor these generators and the global ones, which must not be drawn from."""
        self.watched = GLOBALS | generators
        self._before = self.generator_states()

    def generator_states(self) -> dict[str, SavedGenerator]:
        """States of all monitored generators."""
        return {name: SavedGenerator.of(generator) for name, generator in self.watched.items()}

    def call(self, verb: str, *args: Any, using: Callable[..., Any] | None = None) -> Any:
        """Call the simulator, and restore all generators other than the shock's."""
        moved_before_call, self.moved_before_call = self.moved_before_call, ()
        for name in moved_before_call:
            self.watched[name].random()
        at_call = self.generator_states() if moved_before_call else self._before
        try:
            return (using or getattr(self.simulator, verb))(*args)
        finally:
            self.after = self.generator_states()
            for name, generator in self.watched.items():
                if self.after[name] != self._before[name]:
                    self._before[name].put_back(generator)
                if self.after[name] != at_call[name] and verb not in ("step", "advance"):
                    self.add_hidden_generator(name, verb)  # step and advance may set it from the shock
                    self.looking_draws = True

    def moved(self) -> list[str]:
        """Generators other than the shock's that the last call moved."""
        return [name for name, saved in self.after.items() if saved != self._before.get(name)]

    def ask(self, verb: str, state: Any) -> Any:
        """Call `digest` or `observe`."""
        return self.call(verb, state) if self.careful else getattr(self.simulator, verb)(state)

    def add_hidden_generator(self, name: str, verb: str, *actions: int) -> None:
        """Record a draw from a generator other than the shock's."""
        fix = (
            "Draw from shock.generator(), in a FunctionSimulator from the argument of luck, or in a Gymnasium "
            "environment from self.np_random"
        )
        if name in GLOBALS:
            fix += ". If you cannot change the code, use GymnasiumSimulator(env, global_generators=True)."
            what = f"{verb} draws from the global {name}{self.aliases.get(name, '')}"
            self.add("global generator", f"{name} {verb}", what, fix, *actions)
        else:
            fix += ", and keep no generator from one step to the next."
            what = f"{verb} draws from a generator that is not the shock's, {name}"
            self.add("own generator", f"{name} {verb}", what, fix, *actions)

    def digest(self, state: Any) -> bytes:
        """The simulator's digest of a state, or `digest_or_none` the state once the digest has proved unreliable."""
        if not self.reliable:
            return digest_or_none(state) or b""
        found = self.ask("digest", state)
        if isinstance(found, bytes):
            return found
        what = f"digest returns {type(found).__name__}"
        self.add("wrong digest", "type", what, "Return bytes, e.g. jmdp.simulators.digests.digest_of(…).")
        return digest_or_none(found) or b""

    def look(self, state: Any, *, ended: bool = False) -> Look:
        """Digest and observation of a state; empty for a final state that has none."""
        try:
            digest = self.digest(state)
            try:
                return digest, digest_or_none(self.ask("observe", state)) if self.steady else None
            except UnavailableError:
                return digest, None
        except Exception:  # a final state may be anything, and no policy observes it
            if ended:
                return b"", None
            raise

    def step(self, state: Any, i: int, shock: Shock, verb: str = "step") -> StepOutcome:
        """Outcome of a call of `step`, or of `advance`."""
        step = self.call(verb, state, self.actions[i], shock)
        after = self.after  # without the calls of digest and observe below
        reward, following, terminated = three_parts(self.simulator, step)
        number = isinstance(reward, (int, float, np.integer, np.floating))
        if not number or not math.isfinite(reward):
            what = f"the reward of {verb} is {reward if number else type(reward).__name__}"
            self.add("bad reward", "", what, "Return a finite float.", i)
        if not isinstance(terminated, (bool, np.bool_)) and not (isinstance(terminated, int) and terminated in (0, 1)):
            what = f"terminated of {verb} is of type {type(terminated).__name__}"
            self.add("bad termination", "", what, "Return True or False.", i)
            terminated = False
        look = self.look(following, ended=bool(terminated))
        self.after = after
        return StepOutcome(digest_or_none(reward), digest_or_none(bool(terminated)), look, following, bool(terminated))

    # -------------------------------------------------------------------------------------------- comparisons

    def check_same_again(self, i: int, first: StepOutcome, again: StepOutcome, when: str) -> bool:
        """True if a repeated step has the same outcome; otherwise record a finding."""
        if again == first:
            return True
        self.check_digests_alone_differ(i, first, again)
        wrong = " and ".join(again.differs_from(first))
        what = f"{wrong} of a step changed {when}, though state, action and shock were the same"
        fix = "Keep all data in the state and none in the simulator, and take all randomness from the shock."
        self.add("hidden state", "step", what, fix, i)
        return False

    def check_digests_alone_differ(self, i: int, first: StepOutcome, again: StepOutcome) -> None:
        """If only the digests of equal states differ, record it and stop the visit."""
        if again.differs_from(first) == ["next state"] and digest_or_none(first.state) == digest_or_none(again.state):
            self.add_unreliable_digest("the same step returns states with different digests", i)

    def check_unchanged(self, state: Any, before: Look, by: str, *actions: int) -> None:
        """If the state has changed, record it and stop the visit."""
        if self.look(state) != before:
            self.add_mutated_state(by, *actions)

    def add_mutated_state(self, by: str, *actions: int) -> None:
        """Record that a state was changed, and stop the visit."""
        what = f"{by} changes a state that was passed to it or returned earlier"
        fix = "Copy before changing anything, e.g. with copy.deepcopy(state), and return a new state each time."
        self.add("mutated state", by, what, fix, *actions)
        raise StopVisitError

    def add_unreliable_digest(self, what: str, *actions: int) -> None:
        """Record that the digest depends on more than the state, and stop the visit."""
        fix = "Exclude from digest everything that is not part of the state: id(), counters, the time, generators."
        self.add("wrong digest", "unreliable", what, fix, *actions)
        self.stop_looking("wrong digest", "unreliable")
        self.reliable = False
        raise StopVisitError

    def stop_looking(self, kind: str, place: str) -> None:
        """Store the number of states tried, because the check ends here."""
        self._notes[kind, place].tried = max(self.visits, 1)

    def check_equal_digests(self, one: Any, other: Any, i: int, shock: Shock, first: StepOutcome | None = None) -> None:
        """Check that states with equal digests have equal outcomes. `first` is the outcome of `one`, if known."""
        if self.noted("own generator"):  # generators may differ between the states, and are in no digest
            return
        if first is None:
            first = self.step(one, i, shock)
        second = self.step(other, i, shock)
        if first == second:
            return
        structure = digest_or_none(one)
        if structure is not None and structure == digest_or_none(other):
            self.check_same_again(i, first, second, "from an equal state")
        elif self.check_same_again(i, first, self.step(one, i, shock), "when repeated"):
            self.add_coarse_digest("have different outcomes under the same action and shock", i)

    def add_coarse_digest(self, how: str, *actions: int) -> None:
        """Record that different states have the same digest."""
        fix = "Include in digest all that affects later outcomes or observations, e.g. an action that may be repeated."
        self.add("wrong digest", "coarse", f"states with the same digest {how}", fix, *actions)
