"""The driver of a study: it sends blocks of states to a pool, and writes parts and the ledger.

States climb rungs: sample sizes of the fixed schedule, each about eight times the one before. Those that are decided at
a rung are finished. The others wait until all states have been there, and are then compared anew with the next sample
size; that repeats the samples of the rung before, at most an eighth of the work, and nothing needs to be stored.

A state whose worker processes end has failed only if that is its own doing: if they were killed, it is tried again
later, and the study is interrupted if the machine does not recover; otherwise it is tried alone, and workers must be
able to finish other states meanwhile.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jmdp.base.arrays import Integers
from jmdp.base.progress import status_bar
from jmdp.distribute.pools import Pool
from jmdp.errors import StudyError, WorkerError
from jmdp.results.certificate import Outcome
from jmdp.statistics.means import looks
from jmdp.studies.folder import Chunk, Folder, Key
from jmdp.studies.parts import Finished
from jmdp.studies.points import Block, Points
from jmdp.studies.study import Progress
from jmdp.studies.work import Work

_FIRST_RUNG, _RUNG_FACTOR = 64, 8

_PARTS, _MOST_A_PART = 100, 2048
"""A rung has about so many parts, unless they would have more states."""

_PAUSES: tuple[float, ...] = (0.5, 1, 2, 4, 8, 16)
"""Seconds to wait after a block whose workers were killed, by the number of such blocks since the last that finished.
After as many blocks, the machine is taken not to recover."""

_MOST_LOST = 3
"""States in a row that end their workers before a state with a known result is tried."""

Control = tuple[Work, int]
"""Work and number of a state that has been finished before."""


def rungs(budget: int) -> list[int]:
    """Sample sizes at which states that are not decided wait for the others; the last one is the budget."""
    found: list[int] = []
    aim = _FIRST_RUNG
    for n in looks():
        if n >= budget:
            return [*found, budget]
        if n >= aim:
            found.append(n)
            aim = _RUNG_FACTOR * n
    raise AssertionError("the schedule has no end")


class Unit(NamedTuple):
    """A block of a rung, or one of its states, which is tried alone."""

    block: int
    state: int | None = None


class Driver:
    """A study in progress: the work of each rung, on the same points."""

    def __init__(
        self,
        points: Points,
        works: Sequence[Work],
        folder: Folder,
        pool: Pool,
        progress: bool,
        retry_failed: bool = False,
        control: Control | None = None,
    ) -> None:
        self._points, self._works, self._folder, self._pool, self._progress = points, works, folder, pool, progress
        self._control = control
        self._again = {key for key, chunk in folder.chunks.items() if retry_failed and chunk.failed} | {*folder.damaged}
        self._finished, self._outcomes = 0, Counter[str]()
        self._count_all()

    def run(self) -> None:
        """Finish all rungs, from where the ledger ends.

        Raises `WorkerError` if worker processes end again and again; what is finished is in the folder.
        """
        folder, numbers, order = self._folder, np.arange(len(self._points)), list[Key]()
        with status_bar("study", self._progress, self._finished, len(numbers), unit="states") as report:
            for rung, work in enumerate(self._works, 1):
                ranges = _ranges(numbers, self._works[0].together)
                keys = [(rung, int(part[0]), int(part[-1])) for part in ranges]
                if not {key for key in folder.chunks if key[0] == rung} <= set(keys):
                    break
                todo = [part for key, part in zip(keys, ranges, strict=True) if self._is_open(key, part)]
                for part, finished in self._results(work, todo):
                    self._write(rung, part, finished)
                    report(self._finished, self._status(rung))
                order += keys
                waiting = [part[folder.chunks[key].waiting(part.size)] for key, part in zip(keys, ranges, strict=True)]
                numbers = np.concatenate(waiting)
                if not numbers.size:
                    break
        if set(folder.chunks) != set(order):
            raise StudyError(f"{folder.path} has a ledger that does not match its settings.")
        folder.settle(order)

    def _is_open(self, key: Key, part: Integers) -> bool:
        """Whether a range is to be simulated. Raise if an earlier call has finished other states than its own."""
        chunk = self._folder.chunks.get(key)
        if chunk is None:
            return True
        if chunk.labels != self._points.checksum(part.tolist()):
            raise StudyError(
                f"{self._folder.path} has a study in which states {chunk.first} to {chunk.last} have other labels. "
                "Give the same states in the same order, or another path."
            )
        return key in self._again

    def _write(self, rung: int, part: Integers, finished: Finished) -> None:
        chunk = self._folder.write(rung, part, self._points.checksum(part.tolist()), finished)
        if chunk.key in self._again:
            self._again.remove(chunk.key)
            self._count_all()
        else:
            self._count(chunk)

    def _results(self, work: Work, ranges: list[Integers]) -> Iterator[tuple[Integers, Finished]]:
        """The results of each range of states, as they are complete."""
        if not ranges:
            return
        size = work.together
        blocks = [math.ceil(part.size / size) for part in ranges]

        def made(unit: Unit) -> Block:
            which, at = divmod(unit.block, blocks[0])  # all ranges but the last have the same size
            numbers = ranges[which][at * size : (at + 1) * size]
            return self._points.block((numbers if unit.state is None else numbers[[unit.state]]).tolist(), work.pack)

        found: defaultdict[int, dict[tuple[int, int], Finished]] = defaultdict(dict)
        for unit, finished in _Units(self._pool, work, sum(blocks), made, self._checked).results():
            which, at = divmod(unit.block, blocks[0])
            if Outcome.FAILED.name not in finished.outcomes:
                self._control = work, int(ranges[which][at * size + (unit.state or 0)])
            found[which][unit.block, unit.state or 0] = finished
            if sum(len(one.waiting) for one in found[which].values()) == ranges[which].size:
                yield ranges[which], Finished.joined([one for _, one in sorted(found.pop(which).items())])

    def _checked(self, error: WorkerError) -> None:
        """Raise unless a state that was finished before is finished again: else the workers are at fault."""
        if self._control is None:
            raise error
        work, number = self._control
        for _ in self._pool.ordered(work, [(self._points.block([number], work.pack),)]):
            pass

    def _status(self, rung: int) -> str:
        progress = Progress(len(self._points), self._outcomes, rung)
        undecided = progress.finished - progress.decided - progress.failed
        failed = f", {progress.failed:,} failed" if progress.failed else ""
        return f"{progress.decided:,} decided, {undecided:,} undecided{failed}"

    def _count(self, chunk: Chunk) -> None:
        self._outcomes.update(chunk.outcomes)
        self._finished += chunk.finished

    def _count_all(self) -> None:
        self._finished, self._outcomes = 0, Counter()
        for key, chunk in self._folder.chunks.items():
            if key not in self._again:
                self._count(chunk)


class _Units:
    """The blocks of a rung that are not finished. Those whose workers end are tried again, or have failed."""

    def __init__(
        self,
        pool: Pool,
        work: Work,
        blocks: int,
        made: Callable[[Unit], Block],
        check: Callable[[WorkerError], None],
    ) -> None:
        self._pool, self._work, self._made, self._check = pool, work, made, check
        self._next, self._rest = deque[Unit](), range(blocks)
        self._sent = deque[Unit]()
        self._skipped: list[Unit] = []
        self._killed: list[Unit] = []
        self._lost: list[tuple[Unit, WorkerError]] = []  # failed, if the workers are not at fault
        self._ended = 0  # units whose workers ended, since one was finished

    def results(self) -> Iterator[tuple[Unit, Finished]]:
        """Result of each block or of its states, as they come."""
        while self._some():
            results = self._pool.ordered(self._work, ((self._made(unit),) for unit in self._taken()))
            try:
                for finished in results:
                    self._ended = 0
                    yield self._sent.popleft(), finished
                    yield from self._failed()
            except WorkerError as error:
                unit = self._sent.popleft()
                self._put_back()
                yield from self._without(unit, error)
            finally:
                results.close()
                self._put_back()
        if self._lost:
            self._check(self._lost[-1][1])
            yield from self._failed()

    def _some(self) -> bool:
        """Whether there are units to run; those that were skipped come before those whose workers were killed."""
        for later in (self._skipped, self._killed):
            if not self._next and not self._rest:
                self._next.extend(later)
                later.clear()
        return bool(self._next or self._rest)

    def _taken(self) -> Iterator[Unit]:
        """Units for the pool, which may take some in advance."""
        while self._next or self._rest:
            self._sent.append(self._pop())
            yield self._sent[-1]

    def _pop(self) -> Unit:
        if self._next:
            return self._next.popleft()
        unit, self._rest = Unit(self._rest[0]), self._rest[1:]
        return unit

    def _put_back(self) -> None:
        self._next.extendleft(reversed(self._sent))
        self._sent.clear()

    def _without(self, unit: Unit, error: WorkerError) -> Iterator[tuple[Unit, Finished]]:
        """Go on after the workers of a unit have ended."""
        size = len(self._made(unit))
        if not error.killed and size > 1:
            self._next.extendleft(Unit(unit.block, state) for state in reversed(range(size)))
            return
        self._ended += 1
        if error.killed:
            self._killed.append(unit)
        else:
            self._lost.append((unit, error))
        if self._lost and self._ended > (len(_PAUSES) if error.killed else _MOST_LOST):
            self._check(error)
            yield from self._failed()
            self._ended *= error.killed
        if error.killed:
            if self._ended > len(_PAUSES):
                raise error
            time.sleep(_PAUSES[self._ended - 1])
        # The cause may be common to neighbours: go on further away.
        for _ in range(min(2 ** max(0, self._ended - 1) - 1, (len(self._next) + len(self._rest)) // 2)):
            self._skipped.append(self._pop())

    def _failed(self) -> Iterator[tuple[Unit, Finished]]:
        """The states that end their workers although others are finished."""
        for unit, error in self._lost:
            yield unit, self._work.lost(self._made(unit), str(error))
        self._lost.clear()


def _ranges(numbers: Integers, together: int) -> list[Integers]:
    """Divide the states of a rung into parts."""
    size = max(together, min(_MOST_A_PART, math.ceil(numbers.size / _PARTS)))
    return [numbers[at : at + size] for at in range(0, numbers.size, size)]
