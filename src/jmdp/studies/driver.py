"""The driver of a study: it sends blocks of states to a pool, and writes parts and the ledger.

States climb rungs: sample sizes of the fixed schedule, each about eight times the one before. Those that are decided at
a rung are finished. The others wait until all states have been there, and are then compared anew with the next sample
size; that repeats the samples of the rung before, at most an eighth of the work, and nothing needs to be stored.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np

from jmdp.base.arrays import Integers
from jmdp.base.progress import status_bar
from jmdp.distribute.pools import Pool
from jmdp.errors import SimulatorError, StudyError
from jmdp.statistics.means import looks
from jmdp.studies.folder import Chunk, Folder
from jmdp.studies.parts import Finished
from jmdp.studies.points import Block, Points
from jmdp.studies.study import Progress
from jmdp.studies.work import Work

_FIRST_RUNG, _RUNG_FACTOR = 64, 8

_PARTS, _MOST_A_PART = 100, 2048
"""A rung has about so many parts, unless they would have more states."""

_MOST_LOST = 3
"""Blocks in a row whose worker dies before the study stops: something else than these states must be the cause."""


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


class Driver:
    """A study in progress: the work of each rung, on the same points."""

    def __init__(self, points: Points, works: Sequence[Work], folder: Folder, pool: Pool, progress: bool) -> None:
        self._points, self._works, self._folder, self._pool, self._progress = points, works, folder, pool, progress
        self._finished, self._outcomes = 0, Counter[str]()
        for chunk in folder.chunks:
            self._count(chunk.outcomes)

    def run(self) -> None:
        """Finish all rungs, from where the ledger ends."""
        done, numbers = list(self._folder.chunks), np.arange(len(self._points))
        with status_bar("study", self._progress, self._finished, len(numbers), unit="states") as report:
            for rung, work in enumerate(self._works, 1):
                ranges = _ranges(numbers, self._works[0].together)
                old, done = done[: len(ranges)], done[len(ranges) :]
                for chunk, part in zip(old, ranges, strict=False):
                    self._check(chunk, rung, part)
                waiting = [part[chunk.waiting(part.size)] for chunk, part in zip(old, ranges, strict=False)]
                for part, finished in self._results(work, ranges[len(old) :]):
                    chunk = self._folder.write(rung, part, self._points.checksum(part.tolist()), finished)
                    self._count(chunk.outcomes)
                    waiting.append(part[chunk.waiting(part.size)])
                    report(self._finished, self._status(rung))
                numbers = np.concatenate(waiting) if waiting else np.zeros(0, np.int64)
                if not numbers.size:
                    break
        if done:
            raise StudyError(f"{self._folder.path} has a ledger that does not match its settings.")

    def _check(self, chunk: Chunk, rung: int, part: Integers) -> None:
        """Raise if an earlier call has finished other states than those of this range."""
        if (chunk.rung, chunk.first, chunk.last) != (rung, part[0], part[-1]):
            raise StudyError(f"{self._folder.path} has a ledger that does not match its settings.")
        if chunk.labels != self._points.checksum(part.tolist()):
            raise StudyError(
                f"{self._folder.path} has a study in which states {chunk.first} to {chunk.last} have other labels. "
                "Give the same states in the same order, or another path."
            )

    def _results(self, work: Work, ranges: list[Integers]) -> Iterator[tuple[Integers, Finished]]:
        """The results of each range of states, in order."""
        if not ranges:
            return
        size = work.together
        blocks = [math.ceil(part.size / size) for part in ranges]

        def made(number: int) -> Block:
            which, at = divmod(number, blocks[0])  # all ranges but the last have the same size
            return self._points.block(ranges[which][at * size : (at + 1) * size].tolist(), work.pack)

        results = _in_order(self._pool, work, sum(blocks), made)
        for part, count in zip(ranges, blocks, strict=True):
            yield part, Finished.joined(list(islice(results, count)))

    def _status(self, rung: int) -> str:
        progress = Progress(len(self._points), self._outcomes, rung)
        undecided = progress.finished - progress.decided - progress.failed
        failed = f", {progress.failed:,} failed" if progress.failed else ""
        return f"{progress.decided:,} decided, {undecided:,} undecided{failed}"

    def _count(self, outcomes: dict[str, int]) -> None:
        self._outcomes.update(outcomes)
        self._finished += sum(outcomes.values())


def _ranges(numbers: Integers, together: int) -> list[Integers]:
    """Divide the states of a rung into parts."""
    size = max(together, min(_MOST_A_PART, math.ceil(numbers.size / _PARTS)))
    return [numbers[at : at + size] for at in range(0, numbers.size, size)]


def _in_order(pool: Pool, work: Work, blocks: int, made: Callable[[int], Block]) -> Iterator[Finished]:
    """Results of so many blocks, in order. States whose worker dies again and again are marked as failed."""
    done = lost = 0
    while done < blocks:
        results = pool.ordered(work, ((made(number),) for number in range(done, blocks)))
        try:
            for finished in results:
                yield finished
                done, lost = done + 1, 0
        except SimulatorError as error:  # from the pool: exceptions of the work are results
            finished, died = _one_by_one(pool, work, made(done))
            lost = lost + 1 if died else 0
            if lost > _MOST_LOST:
                raise error
            yield finished
            done += 1
        finally:
            results.close()


def _one_by_one(pool: Pool, work: Work, block: Block) -> tuple[Finished, bool]:
    """Result of a block whose worker may have died: each state alone; and whether a worker died again."""
    parts: list[Finished] = []
    died = False
    for at in range(len(block)):
        one = block.only(at)
        try:
            parts += pool.ordered(work, [(one,)])
        except SimulatorError as error:
            parts.append(work.lost(one, str(error)))
            died = True
    return Finished.joined(parts), died
