"""Log of the random numbers that a step draws, to find steps that do not share their randomness.

Equal shocks give equal streams of numbers. If one step draws more of them than another, later draws of the two start at
different positions of the stream: the seed is the same, but the random numbers are not. A logged shock detects this.

Calls of a generator: how many numbers they use, and the variable to which they are assigned.

Checks that steps with one shock draw the same numbers for the same purposes, across actions and across states.

Under `Local` and `Synchronous` branches in one state share a shock, so actions must draw alike. Under `Synchronous`
branches in different states share it too, so states must draw alike. Under `Independent` nothing is shared.
"""

from __future__ import annotations

import copy
import dis
import itertools
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from numbers import Number
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.keyed_generator import philox, stream_position
from jmdp.base.luck import Shock
from jmdp.simulators.checking.probe import Probe
from jmdp.simulators.digests import digest_of
from jmdp.simulators.rollouts.episodes_in_place import EpisodesInPlace
from jmdp.simulators.rollouts.python_engine import paired_draws
from jmdp.simulators.simulator import Simulator

_CALLS_COMPARED = 256
"""Number of repetitions after which two calls are assumed to use equally many numbers."""

_LARGEST = 1000
"""Largest number of entries of an argument that is kept."""


StreamPosition = tuple[bytes, int]
"""Key of a stream, and the number of its half words that are used."""


@dataclass(frozen=True)
class Call:
    """A method of a generator and its arguments."""

    method: str
    key: bytes | None  # equal for equal arguments; None if they are not plain and were not kept
    arguments: Any = field(compare=False, repr=False)  # (args, kwargs)

    @classmethod
    def of(cls, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Call with a copy of the arguments, if they are plain."""
        if not args and not kwargs:
            return _without_arguments(method)
        if not all(map(_plain, (*args, *kwargs.values()))):
            return cls(method, None, None)
        return cls(method, digest_of((args, kwargs)), copy.deepcopy((args, kwargs)))

    def repeat(self, generator: np.random.Generator) -> None:
        """Make the same call of this generator."""
        args, kwargs = copy.deepcopy(self.arguments) if self.method == "shuffle" else self.arguments
        getattr(generator, self.method)(*args, **kwargs)


_NO_ARGUMENTS = digest_of(((), {}))


@cache
def _without_arguments(method: str) -> Call:
    return Call(method, _NO_ARGUMENTS, ((), {}))


def _plain(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufSU" and value.size <= _LARGEST
    if isinstance(value, (list, tuple)):
        return len(value) <= _LARGEST and all(map(_plain, value))
    return value is None or isinstance(value, (Number, str, type, np.dtype))


def consume_alike(one: tuple[Call, ...], other: tuple[Call, ...]) -> bool:
    """True if both sequences of calls used equally many numbers in all repetitions, or if arguments are unknown.

    With rejection sampling it depends on the arguments: poisson(20) and poisson(30) use equally many in most calls, not
    in all.
    """
    if [(call.method, call.key) for call in one] == [(call.method, call.key) for call in other]:
        return True
    if any(call.key is None for call in (*one, *other)):
        return True
    return _consume_alike(one, other)


@lru_cache(4096)
def _consume_alike(one: tuple[Call, ...], other: tuple[Call, ...]) -> bool:
    streams = [np.random.Generator(np.random.Philox(key=0)) for _ in range(2)]
    for repeat in range(_CALLS_COMPARED):
        for generator, calls in zip(streams, (one, other), strict=True):
            for call in calls:
                call.repeat(generator)
        if repeat % 16 in (0, 15):  # unequal positions stay unequal
            positions = [stream_position(generator.bit_generator)[1] for generator in streams]
            if positions[0] != positions[1]:
                return False
            if positions[0] > 16 * _CALLS_COMPARED and repeat:
                break
    return True


def target_of(frame: FrameType | None) -> str | None:
    """Variable or attribute to which the current call of a frame is assigned, with its function.

    If a function returns its draw, its caller is inspected. None if the number is used without assignment.
    """
    while frame is not None:
        name, returned = _stored(frame.f_code, frame.f_lasti)
        if not returned:
            code = frame.f_code
            return None if name is None else f"{code.co_filename} {code.co_qualname} {name}"
        frame = frame.f_back
    return None


@lru_cache(4096)
def _stored(code: CodeType, last: int) -> tuple[str | None, bool]:
    """Name that is stored next after this instruction, and whether the value is returned instead."""
    for instruction in dis.get_instructions(code):
        if instruction.offset <= last:
            continue
        if instruction.opname.startswith("STORE_") and instruction.opname not in ("STORE_SUBSCR", "STORE_SLICE"):
            return str(instruction.argval), False
        if instruction.opname.startswith("RETURN_"):
            return None, instruction.opname == "RETURN_VALUE"
        if "JUMP" in instruction.opname or instruction.opname in ("STORE_SUBSCR", "POP_TOP"):
            return None, False
    return None, False


class Draw(NamedTuple):
    """One call of a generator's method."""

    path: tuple[Any, ...]  # code locations, from the draw up to the simulator's step
    spot: str  # the innermost location and its caller, for messages
    target: str | None  # variable to which it is assigned, with its function
    position: StreamPosition  # position in the stream before the draw
    call: Call


class DrawLog:
    """Draws of one step, and the outcome of the step."""

    def __init__(self, most: float = math.inf) -> None:
        self.draws: list[Draw] = []
        self._most = most  # draws that are logged at most
        self.asked = False  # True once the shock was used, with or without a generator
        self.step: Any = None
        self.open = True
        self.generators: list[_LoggedGenerator] = []
        self._reached: set[StreamPosition] = set()

    def settle(self, bit_generator: np.random.BitGenerator | None = None) -> None:
        """Note how far generators got: all, or those of this bit generator, before it is set to another key."""
        for generator in self.generators[:]:
            if bit_generator is None or generator.bit_generator is bit_generator:
                self._reached.add(stream_position(generator.bit_generator))
                self.generators.remove(generator)

    def used(self) -> list[StreamPosition]:
        """Positions reached in the streams."""
        return sorted(position for position in self._reached if position[1])

    @property
    def pattern(self) -> tuple[Any, ...]:
        """The draws in order, without their arguments and numbers."""
        return tuple((draw.path, draw.call.method) for draw in self.draws)

    @property
    def calls(self) -> list[Call]:
        """The calls in order, with their arguments."""
        return [draw.call for draw in self.draws]

    def note(self, position: StreamPosition, caller: Any, call: Call) -> None:
        """Record a draw made by this frame."""
        if len(self.draws) >= self._most:
            return
        self.asked = True
        path, spot, target = _place_of(caller)
        self.draws.append(Draw(path, spot, target, position, call))


_PLACES: dict[tuple[int, ...], tuple[Any, ...]] = {}
_MOST_PLACES = 4096


def _place_of(frame: FrameType | None) -> tuple[Any, ...]:
    """Path, spot and target of a draw by this frame, which are the same for equal sequences of calls."""
    key: list[int] = []
    caller = frame
    while caller is not None and (code := id(caller.f_code)) not in _OUTSIDE:
        key += code, caller.f_lasti  # a line may contain several draws
        caller = caller.f_back
    if (known := _PLACES.get(calls := tuple(key))) is None:
        if len(_PLACES) >= _MOST_PLACES:
            _PLACES.clear()
        frames = list(itertools.islice(_frames(frame), len(key) // 2))
        path = tuple((one.f_code.co_filename, one.f_code.co_name, one.f_lasti) for one in frames)
        spot = ", called from ".join(_spot(one.f_code, one.f_lineno) for one in frames[:2])
        codes = [one.f_code for one in frames]  # kept, so that their ids are not reused
        known = _PLACES[calls] = path, spot, target_of(frame), codes
    return known[:3]


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _spot(code: CodeType, line: int | None) -> str:
    return f"{Path(code.co_filename).name}:{line} in {code.co_name}"


class _LoggedShock(Shock):
    """A shock whose generators are logged."""

    __slots__ = ("log",)

    def __init__(self, words: bytes, log: DrawLog) -> None:
        super().__init__(words)
        self.log = log

    def generator(self) -> np.random.Generator:
        return _LoggedGenerator(philox(self.words), self.log)

    def restart(self, generator: np.random.Generator) -> np.random.Generator:
        self.log.settle(generator.bit_generator)
        super().restart(generator)
        return _LoggedGenerator(generator.bit_generator, self.log)

    def uniform(self) -> float:
        self.log.asked = True
        return super().uniform()

    def uniforms(self, count: int) -> Floats:
        self.log.asked = True
        return super().uniforms(count)

    def key(self) -> Any:
        self.log.asked = True
        return super().key()

    def derived(self, purpose: bytes, step: int = 0, where: bytes = b"") -> Shock:
        return logged(super().derived(purpose, step, where), self.log)


class _LoggedGenerator(np.random.Generator):
    """A generator that logs the stream position and the caller of each draw."""

    def __init__(self, bit_generator: np.random.BitGenerator, log: DrawLog) -> None:
        super().__init__(bit_generator)
        self.log = log
        self.busy = False  # NumPy's own methods call one another
        log.generators.append(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> _LoggedGenerator:
        return _LoggedGenerator(copy.deepcopy(self.bit_generator, memo), self.log)


def _logged(name: str) -> Any:
    draw = getattr(np.random.Generator, name)

    def method(self: _LoggedGenerator, *args: Any, **kwargs: Any) -> Any:
        if self.busy or not self.log.open:
            return draw(self, *args, **kwargs)
        self.log.note(stream_position(self.bit_generator), sys._getframe(1), Call.of(name, args, kwargs))
        self.busy = True
        try:
            return draw(self, *args, **kwargs)
        finally:
            self.busy = False

    return method


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in ("bit_generator", "spawn"):
        setattr(_LoggedGenerator, _name, _logged(_name))


def logged(shock: Shock, log: DrawLog) -> Shock:
    """The same shock, whose draws are logged."""
    found = _LoggedShock(shock.words, log)
    found.recorded = shock.recorded
    return found


def draws_of(simulator: Any, state: Any, action: Any, shock: Shock) -> DrawLog:
    """Draws of a step from its shock. The outcome is the same as without a log."""
    log = DrawLog()
    log.step = simulator.step(state, action, logged(shock, log))
    log.open = False
    log.settle()
    return log


_OUTSIDE = frozenset(id(f.__code__) for f in (draws_of, paired_draws, EpisodesInPlace._play, EpisodesInPlace._goes_on))
"""Functions that simulate steps: those that called them are the same for all steps that are compared."""


def out_of_step(one: DrawLog, other: DrawLog, *, could: bool = True) -> str | None:
    """Location at which two steps under one shock make the same draw at different stream positions, or could.

    The same draw is the n-th of one path of calls; for paths that only one step has, the n-th of one line of code.
    Draws of only one step after all common draws do not matter. Whether they could takes longer to find out.
    """
    mine, theirs = _numbered(one, other), _numbered(other, one)
    for key, draw in mine.items():
        if key in theirs and theirs[key].position != draw.position:
            return draw.spot
    if not could:
        return None
    return _by_arguments(one, other, [(draw, theirs[key]) for key, draw in mine.items() if key in theirs])


def out_of_step_by_arguments(one: DrawLog, other: DrawLog) -> str | None:
    """`out_of_step` for two steps of one `pattern` under any shocks: arguments may change the amount a call uses."""
    return _by_arguments(one, other, list(zip(one.draws, other.draws, strict=True)))


def _by_arguments(one: DrawLog, other: DrawLog, same: list[tuple[Draw, Draw]]) -> str | None:
    """Location of a common draw before which calls can use different amounts, though they did not this time."""
    last = {(mine.position[0], theirs.position[0]): (mine, theirs) for mine, theirs in same}
    for mine, theirs in last.values():
        if not consume_alike(_calls_before(one, mine), _calls_before(other, theirs)):
            return mine.spot
    return None


def _calls_before(log: DrawLog, draw: Draw) -> tuple[Call, ...]:
    before = log.draws[: next(i for i, known in enumerate(log.draws) if known is draw)]
    return tuple(known.call for known in before if known.position[0] == draw.position[0])


def swapped(one: DrawLog, other: DrawLog) -> str | None:
    """Location at which two steps make the same draws in another order: for the same variables, or by the same calls.

    Calls count only on lines that one of the steps does not have, because a helper may be called for any purpose.
    """
    for name, depth in (("target", None), ("call", 1)):
        common = {draw.path[:depth] for draw in one.draws} & {draw.path[:depth] for draw in other.draws}
        mine, theirs = ([draw for draw in log.draws if draw.path[:depth] not in common] for log in (one, other))
        ours, others = ([_label(draw, name) for draw in draws] for draws in (mine, theirs))
        if None not in (*ours, *others) and ours != others and sorted(ours) == sorted(others):
            return next(draw.spot for draw, x, y in zip(mine, ours, others, strict=True) if x != y)
    return None


def _label(draw: Draw, name: str) -> Any:
    if name == "target":
        return draw.target
    return None if draw.call.key is None else (draw.call.method, draw.call.key)


def uneven(one: DrawLog, other: DrawLog) -> bool:
    """True if both steps draw, but different amounts and in different code."""
    no_common_draws = not _numbered(one, other).keys() & _numbered(other, one).keys()
    return bool(one.draws and other.draws) and no_common_draws and one.used() != other.used()


def _numbered(log: DrawLog, other: DrawLog) -> dict[Any, Draw]:
    common = {draw.path for draw in other.draws} & {draw.path for draw in log.draws}
    count: Counter[Any] = Counter()
    found = {}
    for draw in log.draws:
        key = (True, draw.path) if draw.path in common else (False, draw.path[:1])
        found[key, count[key]] = draw
        count[key] += 1
    return found


_MOST_PATTERNS = 8
"""Maximum number of patterns per action that are kept for comparison."""

AMONG_ACTIONS = ("out of step", "swapped draws")
"""Kinds of findings that are harmless under `Independent`."""

AMONG_STATES = ("out of step between states", "swapped draws between states")
"""Kinds of findings that matter under `Synchronous` only."""


class DrawProbe(Probe):
    """A probe that compares the draws of steps from their shocks."""

    def __init__(self, simulator: Simulator, actions: Sequence[Any]) -> None:
        super().__init__(simulator, actions)
        self.asked = False  # True once a step used its shock
        self.patterns: defaultdict[int, dict[Any, tuple[Any, DrawLog]]] = defaultdict(dict)  # by action

    def logged(self, state: Any, i: int, shock: Shock) -> DrawLog:
        """Simulate a step and log its draws."""
        log: DrawLog = self.call("step", self.simulator, state, self.actions[i], shock, using=draws_of)
        self.asked = self.asked or log.asked
        return log

    def is_new(self, i: int, log: DrawLog) -> bool:
        """True if the action has not had this pattern yet, and fewer than `_MOST_PATTERNS` others."""
        return log.pattern not in self.patterns[i] and len(self.patterns[i]) < _MOST_PATTERNS

    def compare_draws(self, state: Any, order: Sequence[int], shock: Shock) -> None:
        """Check that each action draws the same numbers for the same purposes, here and in earlier states."""
        logs = {i: self.logged(state, i, shock) for i in order}
        for i, j in itertools.combinations(order, 2):
            if logs[i].draws == logs[j].draws:
                continue
            if not self._draw_differently(
                logs[i], logs[j], AMONG_ACTIONS, "actions", _SAME_FOR_ACTIONS, i, j
            ) and uneven(logs[i], logs[j]):
                what = "actions draw different amounts of random numbers, in code they do not share"
                fix = f"If some draws should be shared: {_SAME_FOR_ACTIONS}"
                self.add("uneven luck", "", what, fix, i, j, fault=False)
        for i in order:
            self.compare_states(state, i, shock, logs[i])

    def compare_states(self, state: Any, i: int, shock: Shock, log: DrawLog) -> None:
        """Check that this action draws here as in earlier states."""
        known = self.patterns[i]
        if log.pattern in known and log.calls != known[log.pattern][1].calls:
            spot = out_of_step_by_arguments(log, known[log.pattern][1])
            if spot is not None:
                self._add_uneven(AMONG_STATES[0], "different states", spot, _SAME_FOR_STATES, i)
        if not self.is_new(i, log):
            return
        for other, _ in list(known.values()):
            theirs = self.logged(other, i, shock)
            self._draw_differently(log, theirs, AMONG_STATES, "different states", _SAME_FOR_STATES, i)
        known[log.pattern] = state, log

    def _add_uneven(self, kind: str, who: str, spot: str, fix: str, *actions: int) -> None:
        what = f"{who} use different amounts of the shock's numbers before {spot}, so this draw differs between them"
        self.add(kind, spot.split(",")[0], what, fix, *actions)

    def _draw_differently(
        self, one: DrawLog, other: DrawLog, kinds: tuple[str, str], who: str, fix: str, *actions: int
    ) -> bool:
        """Record a finding and return True if two steps under one shock draw differently."""
        spot = out_of_step(one, other)
        if spot is not None:
            self._add_uneven(kinds[0], who, spot, fix, *actions)
            return True
        spot = swapped(one, other)
        if spot is not None:
            what = f"{who} make the same draws in a different order: {spot} is not at the same position"
            self.add(kinds[1], "", what, fix, *actions)
        return spot is not None


STREAMS = (
    'use a separate generator for each purpose: shock.derived(b"demand").generator(), or '
    "np.random.default_rng(self.np_random.integers(2**63)) created at the beginning of a step"
)
_SAME_FOR_ACTIONS = (
    f"Make all draws before the action is used, or {STREAMS}. It matters under Synchronous() and Local(), which "
    "give all actions in a state one shock, but not under Independent()."
)
_SAME_FOR_STATES = (
    f"Make the same draws in the same order in every state, or {STREAMS}. It matters under Synchronous(), which gives "
    "all states of a time step one shock, but not under Local() and Independent()."
)
