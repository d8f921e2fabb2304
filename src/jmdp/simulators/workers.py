"""Walks on several cores: blocks are handed to worker processes one at a time and joined in order.

A block is a pure function of the seed and its number, so it can be walked by anybody, and again where a worker died.
Workers are started anew ("spawn") and not forked, for threads of JAX or of an emulator do not survive that. Each has a
connection of its own: on the queue of a ProcessPoolExecutor, one that is killed while it answers blocks all others.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from jmdp.base.progress import count_bar
from jmdp.base.settings import whole_number
from jmdp.errors import PolicyError, SettingsError, SimulatorError
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.simulators.pair_walks import PairWalks, WalkPlan, paired_actions
from jmdp.simulators.simulator import Simulator

_Parts = tuple[Simulator, Actor, Coupling]
_MAX_DEATHS = 3
"""How many dead workers are replaced before we give up."""
_DIED = (
    "{} workers died, with {} of {} blocks walked. Too little memory? Take fewer workers or smaller blocks. Is the "
    'script without `if __name__ == "__main__":`? Each worker starts it again. Else the simulator ends its process, '
    "which workers=1 shows."
)


class WorkerPool:
    """Pool of worker processes that simulate blocks of walks. The numbers are the same for any number of workers.

    Workers are started when first needed and kept until `close`, or the end of a ``with``. A block is walked with one
    thread of BLAS and OpenMP, in this process too, for sums depend on how many there are.

    Parameters
    ----------
    simulator, actor, coupling
        What is walked, as ``WalkPlan.walk`` takes it. Workers get a copy, once.
    workers
        How many processes. 1 is this one.
    """

    def __init__(self, simulator: Simulator, actor: Actor, coupling: Coupling, *, workers: int = 1) -> None:
        self.workers = whole_number("workers", workers, 1)
        paired_actions(simulator, coupling)
        self._parts: _Parts = (simulator, actor, coupling)
        self._started: list[_Worker] = []
        self._pickled_parts = _pickled(simulator, actor, coupling) if self.workers > 1 else b""

    def collect(self, plan: WalkPlan, *, seed: int, blocks: int, first: int = 0, progress: bool = True) -> PairWalks:
        """Blocks first … first + blocks − 1 of the walks with this seed, one after the other."""
        seed, first = whole_number("seed", seed, 0), whole_number("first", first, 0)
        numbers = range(first, first + whole_number("blocks", blocks, 1))
        with count_bar("blocks of walks", progress, 0, len(numbers)) as report:
            if self.workers > 1:
                return PairWalks.joined(self._collect_in_parallel(plan, seed, numbers, report))
            found = []
            for block in numbers:
                found.append(_simulated_block(self._parts, plan, seed, block))
                report(len(found))
            return PairWalks.joined(found)

    def close(self) -> None:
        """End the workers. Those needed again are started again."""
        while self._started:
            self._started.pop().end()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _collect_in_parallel(
        self, plan: WalkPlan, seed: int, numbers: range, report: Callable[[int], None]
    ) -> list[PairWalks]:
        from multiprocessing.connection import wait

        found: dict[int, PairWalks] = {}
        left, deaths = list(reversed(numbers)), 0
        busy: dict[Any, tuple[_Worker, int]] = {}  # by their connections
        try:
            while len(found) < len(numbers):
                while left and len(busy) < self.workers:
                    worker = self._idle_worker([worker for worker, _ in busy.values()])
                    busy[worker.connection] = worker, left.pop()
                    worker.ask(plan, seed, busy[worker.connection][1])
                for connection in wait(list(busy)):
                    worker, block = busy.pop(connection)
                    answer = worker.answer()
                    if answer is not None:
                        found[block] = answer
                        report(len(found))
                        continue
                    left.append(block)  # it died, and the block can be walked again
                    self._started.remove(worker)
                    worker.end()
                    deaths += 1
                    if deaths > _MAX_DEATHS:
                        raise SimulatorError(_DIED.format(deaths, len(found), len(numbers)))
        except BaseException:  # an interrupt, or an error in a block: nobody waits for the others
            self.close()
            raise
        return [found[block] for block in numbers]

    def _idle_worker(self, busy: list[_Worker]) -> _Worker:
        for worker in self._started:
            if worker not in busy:
                return worker
        self._started.append(_Worker(self._pickled_parts))
        return self._started[-1]


class _Worker:
    """A worker process that simulates blocks, and the pipe to it, which no other process shares."""

    def __init__(self, pickled_parts: bytes) -> None:
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self._process = context.Process(target=_work, args=(other, pickled_parts), name="jmdp worker", daemon=True)
        self._process.start()
        other.close()

    def ask(self, *question: Any) -> None:
        with contextlib.suppress(OSError):  # a dead worker is noticed in answer()
            self.connection.send(question)

    def answer(self) -> PairWalks | None:
        """The block; None if the worker is dead."""
        try:
            answer = self.connection.recv()
        except (EOFError, OSError):
            return None
        if isinstance(answer, PairWalks):
            return answer
        error, trace = answer
        raise error from RuntimeError(f"In a worker:\n{trace}")

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._process.close()
        self.connection.close()


def _pickled(simulator: Simulator, actor: Actor, coupling: Coupling) -> bytes:
    """All that a worker needs; raise, naming what cannot be sent."""
    for part, name, kind in (
        (simulator, f"{simulator!r}", SettingsError),
        (actor, f"The policy, {actor!r},", PolicyError),
    ):
        try:
            pickle.dumps(part)
        except Exception as error:  # objects raise what they like
            raise kind(
                f"{name} cannot be sent to worker processes ({type(error).__name__}: {error}). Define functions of "
                "your own at the top of a module, not as lambda or within another function. Else say workers=1."
            ) from error
    return pickle.dumps((simulator, actor, coupling))


def _simulated_block(parts: _Parts, plan: WalkPlan, seed: int, block: int) -> PairWalks:
    """A block, on one thread: with more, workers stand in each other's way, and sums have other last bits."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return plan.walk(*parts, seed, block)


# ------------------------------------------------------------------------------------------------ in a worker


def _work(connection: Any, pickled_parts: bytes) -> None:
    """Walk what is asked for. Interrupts are left to the process that asks, and a worker ends when that one is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    parts: _Parts | None = None
    with contextlib.suppress(EOFError, OSError):  # nobody asks any more, or wants to know
        while True:
            question = connection.recv()
            try:
                parts = parts or _unpickled(pickled_parts)
                answer: Any = _simulated_block(parts, *question)
            except Exception as error:
                answer = _sendable(error), traceback.format_exc()
            connection.send(answer)


def _end_with_parent() -> None:
    import multiprocessing

    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _sendable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # its class takes other arguments than it keeps
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _unpickled(pickled_parts: bytes) -> _Parts:
    try:
        parts: _Parts = pickle.loads(pickled_parts)
    except Exception as error:
        raise SettingsError(
            f"A worker cannot read the simulator or the policy ({type(error).__name__}: {error}). Define them in a "
            "module that can be imported and not in a notebook or at the prompt, or say workers=1."
        ) from error
    return parts
