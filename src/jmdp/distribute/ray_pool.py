"""Pool of Ray tasks, on this machine or on a cluster."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from jmdp.base.settings import cut, error_text, function, number, short, whole_number
from jmdp.distribute.pickling import Parcel, pickled_arguments, unpickled_error, unpickled_result
from jmdp.distribute.pools import Pool
from jmdp.distribute.ray_worker import Answer, Task, run_alone, run_task
from jmdp.errors import MissingExtraError, SettingsError, SimulatorError, WorkerError

T = TypeVar("T")

_IN_ADVANCE = 3
"""Tasks per worker that are sent before their turn: durations differ."""
_RETRIES = 2
"""How often Ray runs a block again after its worker or machine has died; then as often in a process of its own."""
_RETRIES_TOGETHER = 1
"""The same for a task with several blocks. Then they are sent one by one."""
_JOINING = 20.0
"""Seconds in which a cluster must answer."""
_DESERTED = 60.0
"""Seconds after which a call fails if no machine of the cluster can run its blocks."""
_WORKERS_A_SECOND = 125
"""Workers that are kept busy for each second of a task: the driver then needs a quarter of a core."""
_LARGEST_ANSWER = 4_000_000
"""Bytes of the results of a task, approximately. The driver holds several."""
_PATIENCE = 1.0
"""Seconds after which workers that are still busy with cancelled tasks are ended, if they are needed."""
_RECENT = 5.0
"""Seconds for which the number of cores of the cluster is taken to be the same."""


class RayPool(Pool):
    """Pool of Ray tasks. Results do not depend on the number of workers, on those that die, or on their order.

    Ray is joined or started when the first block is sent. `close` stops a Ray that this pool has started. Functions are
    sent by cloudpickle, so lambdas and functions of notebooks work; modules must be installed on all machines.

    A block whose worker or machine dies is run again, at least five times; then `WorkerError` says whether it ends its
    process by itself. An exception in a block is raised as in any other pool, with a note that names the block;
    `replay` runs that block in this process.

    Parameters
    ----------
    address
        Address of a cluster: "auto" for the one to which this machine belongs, or "host:6379". None uses the Ray of
        this process if there is one, else that of the environment variable RAY_ADDRESS, else starts one on this
        machine. A cluster that does not answer within 20 s raises `SimulatorError`.
    workers
        Maximum number of tasks that run at the same time. None uses all cores of the cluster.
    cpus_a_task
        Cores that Ray reserves for a task.
    seconds_a_task
        Approximate time of a task; short blocks are sent together. None is one second, and more with more than 125
        workers: 8 s with 1,000.
    time_limit
        Seconds after which the process of a block is ended. The call then fails with `WorkerError`. None is an hour in
        a `study` and for ``jmdp gate``, and no limit elsewhere.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        cpus_a_task: float = 1.0,
        seconds_a_task: float | None = None,
        time_limit: float | None = None,
    ) -> None:
        if address is not None and not isinstance(address, str):
            raise SettingsError(
                f"address is {short(address)}. Give the address of a Ray cluster such as 'auto', or None."
            )
        self.address = address
        self._workers = None if workers is None else whole_number("workers", workers, 1)
        self.cpus_a_task = number("cpus_a_task", cpus_a_task, 0.01)
        self.seconds_a_task = None if seconds_a_task is None else number("seconds_a_task", seconds_a_task, 0.0)
        self.time_limit = None if time_limit is None else number("time_limit", time_limit, 0.01)
        self._started = False
        self._cores = (-_RECENT, 1)  # time of the last request, cores of the cluster
        self._cancelled: list[Any] = []  # references of tasks that may still run
        self._failed: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}

    @property
    def workers(self) -> int:  # type: ignore[override]
        """Maximum number of tasks that run at the same time."""
        if self._workers is not None:
            return self._workers
        asked, cores = self._cores
        if time.monotonic() - asked > _RECENT:
            cores = int(self._ray().cluster_resources().get("CPU", 1) / self.cpus_a_task)
            self._cores = time.monotonic(), max(1, cores)
        return self._cores[1]

    def ordered(self, work: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> Generator[T, None, None]:
        """Yield the results; see `Pool.ordered`. Raise `WorkerError` if a block's worker ends again and again."""
        function("work", work, SettingsError)
        return self._results(work, Parcel.of(work, _imported().cloudpickle.dumps), iter(arguments))

    def replay(self, key: str) -> Any:
        """Run a failed block in this process, for a debugger; the note of its exception has the key."""
        if key not in self._failed:
            known = ", ".join(map(repr, self._failed)) or "none"
            raise SettingsError(f"key is {short(key)}. Give the key of a block that failed in this pool ({known}).")
        work, given = self._failed[key]
        return work(*given)

    def close(self) -> None:
        """Stop a Ray that this pool has started. It is started again if needed."""
        self._cancelled.clear()
        if self._started:
            self._started = False
            _imported().shutdown()

    def __reduce__(self) -> tuple[Any, ...]:  # settings of a method contain its pool, and are saved with results
        settings = self.address, self._workers, self.cpus_a_task, self.seconds_a_task, self.time_limit
        return _pool, settings

    def __repr__(self) -> str:
        return f"RayPool({self.address!r}, workers={self._workers})"

    def _results(
        self, work: Callable[..., T], parcel: Parcel, arguments: Iterator[tuple[Any, ...]]
    ) -> Generator[T, None, None]:
        call = _Call(self, self._ray(), work, parcel, arguments)
        try:
            while (sent := call.next_task()) is not None:
                yield from call.results(sent)
        finally:
            self._cancelled += call.cancel()

    def _ray(self) -> Any:
        """Ray, joined or started."""
        ray = _imported()
        if not ray.is_initialized():
            joined = self.address or os.environ.get("RAY_ADDRESS")
            joined = None if joined == "local" else joined
            if joined:
                _probe(joined)
            try:
                ray.init(
                    address=joined or "local",
                    num_cpus=None if joined else self._workers,
                    log_to_driver=False,
                    logging_level="error",
                )
            except Exception as error:  # Ray raises many kinds
                what = f"join the Ray cluster at {short(joined)}" if joined else "start Ray on this machine"
                raise SimulatorError(f"Cannot {what} ({error_text(error, 800)}).") from error
            self._started = True
        return ray


@dataclass(frozen=True, eq=False)
class _Sent:
    """A task that was sent."""

    first: int  # number of its first block
    arguments: list[tuple[Any, ...]]  # of its blocks
    reference: Any  # of its answer
    alone: bool  # in a process of its own, within the worker


class _Call:
    """A call of `RayPool.ordered`: its tasks whose turn has not come."""

    def __init__(
        self, pool: RayPool, ray: Any, work: Callable[..., Any], parcel: Parcel, arguments: Iterator[tuple[Any, ...]]
    ) -> None:
        self._pool, self._ray, self._work, self._arguments = pool, ray, work, arguments
        self._digest, self._key = parcel.digest, uuid.uuid4().hex[:8]
        self._tasks: deque[_Sent] = deque()  # in order
        self._unfinished: dict[Any, None] = {}  # references of those that may still run, in order
        self._error: Exception | None = None  # of the arguments
        self._taken, self._size = 0, 1
        try:
            self._parcel = [ray.put(parcel.pickled)]
        except ray.exceptions.RayError as error:
            raise SimulatorError(f"Ray cannot store the simulator and the policy ({_plain(error)}).") from error
        options = {"retry_exceptions": False, "num_cpus": pool.cpus_a_task, "name": "jmdp blocks"}
        self._one = _remote_task().options(max_retries=_RETRIES, **options)
        self._several = _remote_task().options(max_retries=_RETRIES_TOGETHER, **options)
        self._alone = _remote_task(run_alone).options(max_retries=_RETRIES, **options)
        self._moved = time.monotonic()  # when a task has finished, or was sent to workers that had none

    def next_task(self) -> _Sent | None:
        """Wait for the next task, in order; None at the end. All workers are kept busy meanwhile."""
        while True:
            self._send()
            if not self._tasks:
                if self._error is not None:
                    raise self._error
                return None
            if self._tasks[0].reference not in self._unfinished:
                return self._tasks.popleft()
            self._wait()

    def results(self, sent: _Sent) -> Iterator[Any]:
        """Yield the results of the blocks of a finished task."""
        try:
            answer: Answer = self._ray.get(sent.reference)
        except self._ray.exceptions.RayError as error:
            if sent.alone:
                raise WorkerError(
                    f"A Ray task failed: {_plain(error)} {self._failed(sent.first, sent.arguments[0])} Workers were "
                    "killed or lost, or the result does not fit in Ray's object store: nothing is known about the "
                    "block. Repeat the call.",
                    killed=True,
                ) from error
            alone = len(sent.arguments) == 1
            again = [self._sent(sent.first + i, [given], alone) for i, given in enumerate(sent.arguments)]
            self._tasks.extendleft(reversed(again))  # one by one, to find the block that failed, and then why
            return
        done, rest = len(answer.results), sent.arguments[len(answer.results) :]
        if rest and answer.error is None:  # the worker was interrupted
            self._tasks.appendleft(self._sent(sent.first + done, rest))
        for result in answer.results:
            yield unpickled_result(result)
        if answer.error is not None:
            fault = unpickled_error(answer.error, "Ray worker")
            fault.add_note(self._failed(sent.first + done, sent.arguments[done]))
            raise fault
        self._adapt(answer)

    def cancel(self) -> list[Any]:
        """Cancel the tasks that wait for their turn; return the references of those that may still run."""
        for reference in self._unfinished:
            self._ray.cancel(reference, force=False)
        return list(self._unfinished)

    def _send(self) -> None:
        """Send tasks until all workers have one."""
        workers = self._pool.workers
        at_once = workers if self._pool._workers else 2 * workers  # else Ray limits them, and can hold some
        while len(self._unfinished) < at_once and len(self._tasks) < _IN_ADVANCE * workers and self._error is None:
            given: list[tuple[Any, ...]] = []
            try:
                given.extend(islice(self._arguments, self._size))
                if not given:
                    break
                self._tasks.append(self._sent(self._taken, given))
            except Exception as error:  # raised when it is its turn
                self._error = error
                break
            self._taken += len(given)

    def _sent(self, first: int, given: list[tuple[Any, ...]], alone: bool = False) -> _Sent:
        """Send a task."""
        pickled = pickled_arguments(given, self._ray.cloudpickle.dumps)
        task = Task(self._key, self._digest, first, pickled, self._pool.time_limit)
        run = self._alone if alone else self._one if len(given) == 1 else self._several
        sent = _Sent(first, given, run.remote(task, self._parcel), alone)
        if not self._unfinished:
            self._moved = time.monotonic()
        self._unfinished[sent.reference] = None
        return sent

    def _wait(self) -> None:
        """Wait until a task has finished. End cancelled tasks if they are in the way."""
        cancelled = self._pool._cancelled
        if cancelled:
            cancelled[:] = self._ray.wait(cancelled, num_returns=len(cancelled), timeout=0)[1]
        timeout = _PATIENCE if cancelled else _RECENT
        finished, _ = self._ray.wait(list(self._unfinished), timeout=timeout, fetch_local=False)
        for reference in finished:
            del self._unfinished[reference]
        if finished:
            self._moved = time.monotonic()
        else:
            self._check_alive(time.monotonic() - self._moved)
        while cancelled and not finished:
            self._ray.cancel(cancelled.pop(), force=True)

    def _check_alive(self, idle: float) -> None:
        """Raise if no task has finished for so long that none can be expected."""
        if idle < _DESERTED:
            return
        limit = self._pool.time_limit or math.inf
        longest = (_RETRIES + 2) * self._size * limit  # of a task, run again by Ray
        cores = self._ray.cluster_resources().get("CPU", 0)
        if cores < self._pool.cpus_a_task or idle > longest + _DESERTED:
            raise WorkerError(
                f"No block has finished for {idle:.0f} s, and the cluster has {cores:g} cores for tasks of "
                f"{self._pool.cpus_a_task:g} (cpus_a_task). Its machines are lost, stopped or cut off, or were never "
                "there: `ray status` lists them. Start some, and repeat the call.",
                killed=True,
            )

    def _failed(self, number: int, given: tuple[Any, ...]) -> str:
        """Keep a failed block for `RayPool.replay`; return the text that names it."""
        key = f"{self._key}-{number}"
        self._pool._failed[key] = self._work, given
        return f"Block {key}, with the arguments {short(given)}; pool.replay({key!r}) runs it in this process."

    def _adapt(self, answer: Answer) -> None:
        """Choose the number of blocks of the next tasks from the time and the size of this answer."""
        asked, blocks = self._pool.seconds_a_task, len(answer.results)
        if asked is None:
            asked = max(1.0, self._pool.workers / _WORKERS_A_SECOND)
        by_time = asked * blocks / max(answer.seconds, 1e-6)
        by_size = _LARGEST_ANSWER * blocks / max(1, sum(map(len, answer.results)))
        self._size = max(1, min(2 * self._size, int(by_time), int(by_size)))


def _pool(
    address: str | None, workers: int | None, cpus_a_task: float, seconds_a_task: float | None, time_limit: float | None
) -> RayPool:
    return RayPool(
        address, workers=workers, cpus_a_task=cpus_a_task, seconds_a_task=seconds_a_task, time_limit=time_limit
    )


def _plain(error: Exception | str) -> str:
    """Text of an error of Ray, without colours."""
    return cut(re.sub(r"\x1b\[\d+m", "", str(error)), 500)


@cache
def _remote_task(run: Callable[..., Answer] = run_task) -> Any:
    """The remote function, made once: Ray sends each one that is made to all workers."""
    return _imported().remote(run)


_JOIN = """
import sys, ray
try:
    ray.init(sys.argv[1], log_to_driver=False, logging_level="error")
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def _probe(address: str) -> None:
    """Join the cluster in another process: if nothing answers, or something else than Ray, Ray ends or blocks it."""
    try:
        subprocess.run(
            [sys.executable, "-c", _JOIN, address], check=True, capture_output=True, text=True, timeout=_JOINING
        )
    except subprocess.TimeoutExpired:
        said = f"no answer within {_JOINING:g} s"
    except subprocess.CalledProcessError as error:
        said = _plain(error.stderr[-500:])
    else:
        return
    raise SimulatorError(
        f"Cannot join the Ray cluster at {short(address)}: {said}. Check with `ray status --address={address}` that it "
        "runs (`ray start --head` starts one), is reached from here, and has the same versions of Ray and Python, and "
        "the same token (RAY_AUTH_MODE, RAY_AUTH_TOKEN)."
    )


def _imported() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtraError('RayPool needs Ray: pip install "jmdp[ray]".') from None
    return ray
