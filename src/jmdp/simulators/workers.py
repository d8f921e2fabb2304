"""Paired rollouts on several cores: worker processes simulate blocks, which are joined in order.

A block is a pure function of the seed and its number, so any worker can simulate it, and it is simulated again if a
worker dies. Workers are spawned and not forked, because threads of JAX or of an emulator do not survive a fork. Each
has its own connection: on the shared queue of a ProcessPoolExecutor, a worker killed while sending stops all others.
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
"""Number of dead workers that are replaced before an error is raised."""
_DIED = (
    "{} workers died, with {} of {} blocks simulated. Possible causes: too little memory (use fewer workers or smaller "
    'blocks); a script without `if __name__ == "__main__":` (each worker runs it again); a simulator that ends its '
    "process (workers=1 shows it)."
)


class WorkerPool:
    """Pool of worker processes that simulate blocks of paired rollouts. Results do not depend on their number.

    Workers are started when first needed and kept until `close`, or the end of a ``with`` block. A block is simulated
    with one thread of BLAS and OpenMP, in this process too, because sums depend on the number of threads.

    Parameters
    ----------
    simulator, actor, coupling
        Arguments of ``WalkPlan.walk``. Each worker receives a copy once.
    workers
        Number of processes. With 1, blocks are simulated in this process.
    """

    def __init__(self, simulator: Simulator, actor: Actor, coupling: Coupling, *, workers: int = 1) -> None:
        self.workers = whole_number("workers", workers, 1)
        paired_actions(simulator, coupling)
        self._parts: _Parts = (simulator, actor, coupling)
        self._started: list[_Worker] = []
        self._pickled_parts = _pickled(simulator, actor, coupling) if self.workers > 1 else b""

    def collect(self, plan: WalkPlan, *, seed: int, blocks: int, first: int = 0, progress: bool = True) -> PairWalks:
        """Simulate blocks first … first + blocks − 1 of the paired rollouts with this seed, and concatenate them."""
        seed, first = whole_number("seed", seed, 0), whole_number("first", first, 0)
        numbers = range(first, first + whole_number("blocks", blocks, 1))
        with count_bar("blocks of rollouts", progress, 0, len(numbers)) as report:
            if self.workers > 1:
                return PairWalks.joined(self._collect_in_parallel(plan, seed, numbers, report))
            found = []
            for block in numbers:
                found.append(_simulated_block(self._parts, plan, seed, block))
                report(len(found))
            return PairWalks.joined(found)

    def close(self) -> None:
        """Terminate the workers. They are started again if needed."""
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
        busy: dict[Any, tuple[_Worker, int]] = {}  # by connection
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
                    left.append(block)  # the worker died: simulate the block again
                    self._started.remove(worker)
                    worker.end()
                    deaths += 1
                    if deaths > _MAX_DEATHS:
                        raise SimulatorError(_DIED.format(deaths, len(found), len(numbers)))
        except BaseException:  # after an interrupt or an error the other blocks are not needed
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
        """The simulated block; None if the worker is dead."""
        try:
            answer = self.connection.recv()
        except (EOFError, OSError):
            return None
        if isinstance(answer, PairWalks):
            return answer
        error, trace = answer
        raise error from RuntimeError(f"In a worker process:\n{trace}")

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._process.close()
        self.connection.close()


def _pickled(simulator: Simulator, actor: Actor, coupling: Coupling) -> bytes:
    """Pickle everything that a worker needs; raise an error that names a part that cannot be pickled."""
    for part, name, kind in (
        (simulator, f"{simulator!r}", SettingsError),
        (actor, f"The policy, {actor!r},", PolicyError),
    ):
        try:
            pickle.dumps(part)
        except Exception as error:  # pickling can raise any exception
            raise kind(
                f"{name} cannot be sent to worker processes ({type(error).__name__}: {error}). Define your "
                "functions at the top of a module, not as a lambda or within another function, or use workers=1."
            ) from error
    return pickle.dumps((simulator, actor, coupling))


def _simulated_block(parts: _Parts, plan: WalkPlan, seed: int, block: int) -> PairWalks:
    """Simulate a block on one thread: more threads slow other workers down and change the last bits of sums."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return plan.walk(*parts, seed, block)


# ---------------------------------------------------------------------------------------- in a worker process


def _work(connection: Any, pickled_parts: bytes) -> None:
    """Simulate the requested blocks. The parent process handles interrupts, and a worker ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    parts: _Parts | None = None
    with contextlib.suppress(EOFError, OSError):  # the parent has closed the connection
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
    except Exception:  # the constructor of its class does not accept its args
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _unpickled(pickled_parts: bytes) -> _Parts:
    try:
        parts: _Parts = pickle.loads(pickled_parts)
    except Exception as error:
        raise SettingsError(
            f"A worker process cannot load the simulator or the policy ({type(error).__name__}: {error}). Define "
            "them in a module that can be imported, not in a notebook or an interactive session, or use workers=1."
        ) from error
    return parts
