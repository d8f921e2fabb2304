"""Pool of worker processes on this machine."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Generator, Iterable
from multiprocessing.connection import wait
from typing import Any, TypeVar

from jmdp.base.settings import function, whole_number
from jmdp.distribute.calls import Block, Call
from jmdp.distribute.pickling import Parcel
from jmdp.distribute.pools import Pool
from jmdp.distribute.worker_process import WorkerProcess
from jmdp.errors import SettingsError, SimulatorError

T = TypeVar("T")

_MAX_DEATHS = 3
"""Number of dead workers that are replaced during a call before an error is raised."""
_HELD = 2
"""Blocks that a worker holds: the one it runs and the next, so that it need not wait for this process."""
_IN_ADVANCE = 3
"""Blocks per worker that are begun before their turn. More than `_HELD`: durations differ."""
_PATIENCE = 1.0
"""Seconds after which a worker that is still busy with a cancelled block is replaced, if it is needed."""
_DIED = (
    "{} workers died (finished blocks: {}). Possible causes: too little memory (use fewer workers or smaller "
    'blocks); a script without `if __name__ == "__main__":` (each worker runs it again); a simulator that ends its '
    "process (pool=None shows it)."
)


class ProcessPool(Pool):
    """Pool of worker processes on this machine. Results do not depend on their number.

    Workers are started when first needed and kept until `close` or the end of a ``with`` block, so one pool serves many
    calls. A block whose worker dies is run again. Each worker uses one thread of BLAS and OpenMP.

    What is sent to workers must be picklable: define functions at the top of a module. Scripts need
    ``if __name__ == "__main__":``, because each worker imports the script.

    Parameters
    ----------
    workers
        Number of processes.
    """

    def __init__(self, workers: int) -> None:
        self.workers = whole_number("workers", workers, 1)
        self._started: list[WorkerProcess] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()  # of the pipes

    def ordered(self, work: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> Generator[T, None, None]:
        """Yield the results; see `Pool.ordered`. Raise `SimulatorError` if too many workers die."""
        function("work", work, SettingsError)
        return self._results(Call(Parcel.of(work), iter(arguments), self._numbers))

    def close(self) -> None:
        """End the workers. They are started again if needed."""
        while self._started:
            self._lose(self._started[-1])

    def __reduce__(self) -> tuple[type[ProcessPool], tuple[int]]:
        return type(self), (self.workers,)  # settings of a method contain its pool, and are saved with results

    def __repr__(self) -> str:
        return f"ProcessPool({self.workers})"

    def _results(self, call: Call) -> Generator[Any, None, None]:
        try:
            while (block := self._next_block(call)) is not None:
                yield block.result()
                call.results += 1
        finally:
            self._cancel(call)

    def _next_block(self, call: Call) -> Block | None:
        """Wait for the next block of a call, in order; None at the end. All workers are kept busy meanwhile."""
        call.take(_IN_ADVANCE * self.workers)
        if not call.blocks:
            return None
        while True:
            with self._lock:
                try:
                    self._receive(self._timeout(call))
                    self._send(call)
                except BaseException:  # an interrupt, possibly in the middle of a message
                    self.close()
                    raise
            if call.blocks[0].answered:
                return call.blocks.popleft()
            if call.deaths > _MAX_DEATHS:
                raise SimulatorError(_DIED.format(call.deaths, call.results))

    def _timeout(self, call: Call) -> float | None:
        """Seconds to wait for answers. 0 if something can be done at once: other threads may have received answers."""
        if call.blocks[0].answered or (call.unsent and self._free_worker() is not None):
            return 0
        return self._replace_stale() if call.unsent else None

    def _send(self, call: Call) -> None:
        """Send blocks of this call to workers that hold fewer than they can."""
        while call.unsent and (worker := self._free_worker()) is not None:
            block = min(call.unsent, key=lambda block: block.number)
            worker.ask(block)
            call.unsent.remove(block)

    def _free_worker(self) -> WorkerProcess | None:
        """The worker that holds the fewest blocks; one more is started rather than letting a block wait."""
        free = [worker for worker in self._started if _stale_since(worker) is None and len(worker.held) < _HELD]
        least = min(free, key=lambda worker: len(worker.held), default=None)
        if (least is None or least.held) and len(self._started) < self.workers:
            self._started.append(WorkerProcess())
            return self._started[-1]
        return least

    def _receive(self, timeout: float | None) -> None:
        """Take the answers that have arrived, and notice dead workers."""
        workers = {worker.connection: worker for worker in self._started}
        for connection in wait(list(workers), timeout):
            worker = workers[connection]  # type: ignore[index]
            answer = worker.answer()
            if answer is None:
                for call in {block.call for block in worker.held.values() if not block.answered}:
                    call.deaths += 1
                self._lose(worker)
            else:
                number, succeeded, payload = answer
                worker.held[number].answer = succeeded, payload
                del worker.held[number]

    def _replace_stale(self) -> float | None:
        """End workers that have been busy with a cancelled block for too long; seconds until the next one is."""
        now, ends = time.monotonic(), []
        for worker in list(self._started):
            since = _stale_since(worker)
            if since is None:
                continue
            if now - since >= _PATIENCE:
                self._lose(worker)
                ends.append(now)
            else:
                ends.append(since + _PATIENCE)
        return max(0.0, min(ends) - now) if ends else None

    def _lose(self, worker: WorkerProcess) -> None:
        """End a worker. Its blocks are sent again."""
        for block in worker.held.values():
            if not block.answered and block.call.cancelled is None:
                block.call.unsent.append(block)
        self._started.remove(worker)
        worker.end()

    def _cancel(self, call: Call) -> None:
        """Drop all blocks of a call. Workers skip those that they have not begun."""
        call.cancelled = time.monotonic()
        if self._lock.acquire(blocking=False):  # else another call, perhaps interrupted by this one, is using the pipes
            try:
                for worker in self._started:
                    numbers = [number for number, block in worker.held.items() if block.call is call]
                    if numbers:
                        worker.cancel(numbers)
            finally:
                self._lock.release()


def _stale_since(worker: WorkerProcess) -> float | None:
    """Time at which a block of this worker was cancelled; None if it has none."""
    times = [block.call.cancelled for block in worker.held.values() if block.call.cancelled is not None]
    return min(times, default=None)
