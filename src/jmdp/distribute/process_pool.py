"""Pool of worker processes on this machine.

The setting ``pool=…`` of methods and functions: a number of workers, a pool, or None.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import wait
from typing import Any, TypeVar

from jmdp.base.settings import function, number, short, whole_number
from jmdp.distribute.pickling import Parcel
from jmdp.distribute.pools import Block, Call, End, Pool, SerialPool
from jmdp.distribute.worker_process import WorkerProcess
from jmdp.errors import SettingsError, WorkerError

T = TypeVar("T")

_MOST_ENDS = 3
"""Workers of a block that may end, while no block finishes, before an error is raised."""
_HELD = 2
"""Blocks that a worker holds: the one it runs and the next, so that it need not wait for this process."""
_IN_ADVANCE = 3
"""Blocks per worker that are begun before their turn. More than `_HELD`: durations differ."""
_PATIENCE = 1.0
"""Seconds after which a worker that is still busy with a cancelled block is replaced, if it is needed."""
_POLL = 0.5
"""Seconds between looks at the processes. A process that a worker has started can hold the pipe of a dead one open."""


class ProcessPool(Pool):
    """Pool of worker processes on this machine. Results do not depend on their number.

    Workers are started when first needed and kept until `close` or the end of a ``with`` block, so one pool serves many
    calls. Each worker uses one thread of BLAS and OpenMP. A block whose worker ends is run again; if that happens four
    times while no other block finishes, the call fails with `jmdp.errors.WorkerError`.

    What is sent to workers must be picklable: define functions at the top of a module. Scripts need
    ``if __name__ == "__main__":``, because each worker imports the script.

    Parameters
    ----------
    workers
        Number of processes.
    time_limit
        Seconds after which the process of a block is ended. The call then fails with `jmdp.errors.WorkerError`, whose
        text has the stack of the process. None is no limit.
    """

    def __init__(self, workers: int, *, time_limit: float | None = None) -> None:
        self.workers = whole_number("workers", workers, 1)
        self.time_limit = None if time_limit is None else number("time_limit", time_limit, 0.01)
        self._started: list[WorkerProcess] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()  # of the pipes

    def ordered(self, work: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> Generator[T, None, None]:
        """Yield the results; see `Pool.ordered`. Raise `WorkerError` if the workers of a block end again and again."""
        function("work", work, SettingsError)
        return self._results(Call(Parcel.of(work), iter(arguments), self._numbers))

    def close(self) -> None:
        """End the workers. They are started again if needed."""
        while self._started:
            self._lose(self._started[-1])

    def __reduce__(self) -> tuple[Any, ...]:  # settings of a method contain its pool, and are saved with results
        return partial(type(self), time_limit=self.time_limit), (self.workers,)

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

    def _timeout(self, call: Call) -> float:
        """Seconds to wait for answers. 0 if something can be done at once: other threads may have received answers."""
        if call.blocks[0].answered or (call.unsent and self._free_worker() is not None):
            return 0
        return min(_POLL, self._replace_stale()) if call.unsent else _POLL

    def _send(self, call: Call) -> None:
        """Send blocks of this call to workers that hold fewer than they can."""
        while call.unsent and (worker := self._free_worker()) is not None:
            block = min(call.unsent, key=lambda block: block.number)
            worker.ask(block, self.time_limit)
            call.unsent.remove(block)

    def _free_worker(self) -> WorkerProcess | None:
        """The worker that holds the fewest blocks; one more is started rather than letting a block wait."""
        free = [worker for worker in self._started if _stale_since(worker) is None and len(worker.held) < _HELD]
        least = min(free, key=lambda worker: len(worker.held), default=None)
        if (least is None or least.held) and len(self._started) < self.workers:
            self._started.append(WorkerProcess())
            return self._started[-1]
        return least

    def _receive(self, timeout: float) -> None:
        """Take the answers that have arrived, and notice workers that have ended or do not run."""
        ready = wait([worker.connection for worker in self._started], timeout)
        for worker in list(self._started):
            if worker.connection in ready:
                if (answer := worker.answer()) is not None:
                    number, succeeded, payload = answer
                    block = worker.answered(number)
                    block.answer = succeeded, payload
                    for other in block.call.blocks:
                        other.ends.clear()
                    continue
            elif not worker.over():
                continue
            running = worker.running  # the others that it holds have not begun
            end = self._lose(worker)
            if running is not None and not running.answered and running.call.cancelled is None:
                running.ends.append(end)
                if len(running.ends) > _MOST_ENDS or end.stack:
                    running.error = _failure(running)
                    running.call.unsent.remove(running)

    def _replace_stale(self) -> float:
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
        return max(0.0, min(ends) - now) if ends else _POLL

    def _lose(self, worker: WorkerProcess) -> End:
        """End a worker. Its blocks are sent again."""
        for block in worker.held.values():
            if not block.answered and block.call.cancelled is None:
                block.call.unsent.append(block)
        self._started.remove(worker)
        return worker.end()

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


def _failure(block: Block) -> WorkerError:
    """Error of a block whose workers have ended."""
    for end in block.ends:
        if end.stack:
            return WorkerError(
                f"A block {end.text} and was ended. Stack of its process, the last call first:\n{end.stack}", False
            )
    ends = "; ".join(f"{count} by {text}" for text, count in Counter(end.text for end in block.ends).items())
    said = f"{len(block.ends)} workers of a block ended while no other block finished: {ends}. "
    if any(end.killed for end in block.ends):
        return WorkerError(
            f"{said}They were ended from outside: by the system because memory is short (use fewer workers or smaller "
            "blocks), or by another program. The same call can be repeated.",
            True,
        )
    return WorkerError(
        f"{said}Possible causes: a simulator that ends its process (pool=None shows it); a script without "
        '`if __name__ == "__main__":` (each worker runs it again); too little memory (use fewer workers or smaller '
        "blocks).",
        False,
    )


LONGEST_BLOCK = 3600.0
"""Seconds that a block may take in a study and for `jmdp gate`, which run unattended, unless the pool has a limit."""


@contextmanager
def pool_of(pool: int | Pool | None, time_limit: float | None = None) -> Iterator[Pool]:
    """Yield the pool that a setting describes. A pool that is made here is closed at the end; a given one is not.

    None and 1 run blocks in this process. A larger number starts as many worker processes. `time_limit` is for the
    blocks of a pool that has none.
    """
    pool = check_pool(pool)
    if isinstance(pool, Pool):
        own = pool.time_limit
        pool.time_limit = time_limit if own is None else own
        try:
            yield pool
        finally:
            pool.time_limit = own
        return
    if pool is None or pool == 1:
        yield SerialPool()
        return

    with ProcessPool(pool, time_limit=time_limit) as made:
        yield made


def check_pool(pool: object) -> int | Pool | None:
    """Return a valid setting ``pool=…``; raise `SettingsError` for others."""
    if pool is None or isinstance(pool, Pool):
        return pool
    try:
        return whole_number("pool", pool, 1)
    except SettingsError:
        shown = pool.__name__ if isinstance(pool, type) else short(pool)
        raise SettingsError(
            f"pool is {shown}. Give a number of worker processes of at least 1, a pool such as "
            "jmdp.distribute.ProcessPool(4), or None to use this process only."
        ) from None
