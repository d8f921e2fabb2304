"""Which random numbers a step draws, and from where: so that actions that fall out of step can be told where.

Equal shocks are equal streams of numbers. If one action draws more of them than another, whatever both draw later
starts at different places of the stream: same seed, but not the same luck. A shock that keeps a log shows it.
"""

from __future__ import annotations

import copy
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jmdp.luck import Shock

Place = tuple[bytes, int]
"""A key, and how many half words of its stream are used up."""


class Draw(NamedTuple):
    """One call of a generator."""

    path: tuple[Any, ...]  # code locations, from the one that drew up to the simulator's step
    spot: str  # the innermost of them, and its caller, for messages
    place: Place  # where in the stream it began


class DrawLog:
    """The draws of one step."""

    def __init__(self) -> None:
        self.draws: list[Draw] = []
        self.open = True
        self._generators: list[_Recorder] = []

    def add(self, generator: _Recorder) -> None:
        """Watch this generator too."""
        self._generators.append(generator)

    def used(self) -> list[Place]:
        """How far the streams were used."""
        places = {place_of(generator) for generator in self._generators}
        return sorted(place for place in places if place[1])

    def note(self, place: Place, caller: Any) -> None:
        """A draw that was asked for in this frame."""
        path, spots = [], []
        while caller is not None and caller.f_code is not draws_of.__code__:
            code = caller.f_code
            path.append((code.co_filename, code.co_name, caller.f_lasti))  # several draws may stand on one line
            spots.append(f"{Path(code.co_filename).name}:{caller.f_lineno} in {code.co_name}")
            caller = caller.f_back
        self.draws.append(Draw(tuple(path), ", called from ".join(spots[:2]), place))


class _LoggedShock(Shock):
    """A shock whose generators keep a log."""

    __slots__ = ("log",)

    def __init__(self, words: bytes, log: DrawLog) -> None:
        super().__init__(words)
        self.log = log

    def generator(self) -> np.random.Generator:
        return _Recorder(super().generator().bit_generator, self.log)

    def restart(self, generator: np.random.Generator) -> np.random.Generator:
        super().restart(generator)  # for those who go on with the old one
        return self.generator()

    def derived(self, purpose: bytes, step: int = 0, where: bytes = b"") -> Shock:
        return _LoggedShock(super().derived(purpose, step, where).words, self.log)


class _Recorder(np.random.Generator):
    """A generator that notes where in its stream each draw begins, and who asked for it."""

    def __init__(self, bit_generator: np.random.BitGenerator, log: DrawLog) -> None:
        super().__init__(bit_generator)
        self.log = log
        self.busy = False  # NumPy's own methods call one another
        log.add(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Recorder:
        return _Recorder(copy.deepcopy(self.bit_generator, memo), self.log)


def _logged(name: str) -> Any:
    draw = getattr(np.random.Generator, name)

    def method(self: _Recorder, *args: Any, **kwargs: Any) -> Any:
        if self.busy or not self.log.open:
            return draw(self, *args, **kwargs)
        self.log.note(place_of(self), sys._getframe(1))
        self.busy = True
        try:
            return draw(self, *args, **kwargs)
        finally:
            self.busy = False

    return method


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in ("bit_generator", "spawn"):
        setattr(_Recorder, _name, _logged(_name))


def place_of(generator: np.random.Generator) -> Place:
    """Where a Philox generator stands in its stream."""
    state: Any = generator.bit_generator.state
    counter = int.from_bytes(state["state"]["counter"].tobytes(), "little")
    words = 4 * counter + state["buffer_pos"] - 4
    return state["state"]["key"].tobytes(), 2 * words - state["has_uint32"]


def draws_of(simulator: Any, state: Any, action: Any, shock: Shock) -> DrawLog:
    """What a step draws from its shock. Its outcome is that of a shock without a log."""
    log = DrawLog()
    simulator.step(state, action, _LoggedShock(shock.words, log))
    log.open = False
    return log


def out_of_step(one: DrawLog, other: DrawLog) -> str | None:
    """Where two actions make the same draw from different places of the stream, if they do.

    The same draw is the n-th of one path of calls; for paths that only one of them has, the n-th of one line of code.
    What only one action draws, after all that both do, harms nobody.
    """
    mine, theirs = _numbered(one, other), _numbered(other, one)
    for key, draw in mine.items():
        if key in theirs and theirs[key].place != draw.place:
            return draw.spot
    return None


def uneven(one: DrawLog, other: DrawLog) -> bool:
    """Do both draw, different amounts, in code that has nothing in common?"""
    apart = not _numbered(one, other).keys() & _numbered(other, one).keys()
    return bool(one.draws and other.draws) and apart and one.used() != other.used()


def _numbered(log: DrawLog, other: DrawLog) -> dict[Any, Draw]:
    common = {draw.path for draw in other.draws} & {draw.path for draw in log.draws}
    count: Counter[Any] = Counter()
    found = {}
    for draw in log.draws:
        key = (True, draw.path) if draw.path in common else (False, draw.path[:1])
        found[key, count[key]] = draw
        count[key] += 1
    return found
