"""Pool of Ray tasks, on this machine or on a cluster."""

from __future__ import annotations

import pickle
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from jmdp.base.settings import function, number, short, whole_number
from jmdp.distribute.pickling import Parcel, pickled_arguments, unpickled_result
from jmdp.distribute.pools import Pool
from jmdp.distribute.ray_worker import Answer, Task, run_task
from jmdp.errors import MissingExtraError, SettingsError, SimulatorError

T = TypeVar("T")

_IN_ADVANCE = 3
"""Tasks per worker that are begun before their turn: durations differ."""
_RETRIES = 5
"""How often Ray runs a task again after its worker or machine has died."""
_WORKERS_A_SECOND = 125
"""Workers that are kept busy for each second of a task: the driver then needs a quarter of a core."""
_PATIENCE = 1.0
"""Seconds after which workers that are still busy with cancelled tasks are ended, if they are needed."""
_RECENT = 5.0
"""Seconds for which the number of cores of the cluster is taken to be the same."""


class RayPool(Pool):
    """Pool of Ray tasks. Results do not depend on the number of workers, on those that die, or on their order.

    Ray is joined or started when the first block is sent. `close` stops a Ray that this pool has started. Functions are
    sent by cloudpickle, so lambdas and functions of notebooks work; modules must be installed on all machines.

    A block whose worker or machine dies is run again, up to five times. An exception in a block is raised as in any
    other pool, with a note that names the block; `replay` runs that block in this process.

    Parameters
    ----------
    address
        Address of a cluster, such as "auto" or "ray://host:10001". None joins the Ray of this process, or starts one
        on this machine.
    workers
        Number of tasks that run at the same time. None uses all cores of the cluster.
    cpus_a_task
        Cores that Ray reserves for a task.
    seconds_a_task
        Approximate time of a task; short blocks are sent together. None is one second, and more with more than 125
        workers: 8 s with 1,000.
    time_limit
        Seconds after which the process of a block is ended. The call then fails with `SimulatorError`.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        cpus_a_task: float = 1.0,
        seconds_a_task: float | None = None,
        time_limit: float = 3600.0,
    ) -> None:
        if address is not None and not isinstance(address, str):
            raise SettingsError(
                f"address is {short(address)}. Give the address of a Ray cluster such as 'auto', or None."
            )
        self.address = address
        self._workers = None if workers is None else whole_number("workers", workers, 1)
        self.cpus_a_task = number("cpus_a_task", cpus_a_task, 0.01)
        self.seconds_a_task = None if seconds_a_task is None else number("seconds_a_task", seconds_a_task, 0.0)
        self.time_limit = number("time_limit", time_limit, 0.01)
        self._started = False
        self._cores = (-_RECENT, 1)  # time of the last request, cores of the cluster
        self._cancelled: list[Any] = []  # references of tasks that may still run
        self._failed: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}

    @property
    def workers(self) -> int:  # type: ignore[override]
        """Number of tasks that run at the same time."""
        if self._workers is not None:
            return self._workers
        asked, cores = self._cores
        if time.monotonic() - asked > _RECENT:
            cores = int(self._ray().cluster_resources().get("CPU", 1) / self.cpus_a_task)
            self._cores = time.monotonic(), max(1, cores)
        return self._cores[1]

    def ordered(self, work: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> Generator[T, None, None]:
        """Yield the results; see `Pool.ordered`. Raise `SimulatorError` if a block ends its worker again and again."""
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
            while call.send(_IN_ADVANCE * self.workers):
                yield from call.next_results()
        finally:
            self._cancelled += call.cancel()

    def _ray(self) -> Any:
        """Ray, joined or started."""
        ray = _imported()
        if not ray.is_initialized():
            local = {} if self.address else {"num_cpus": self._workers}
            ray.init(address=self.address, log_to_driver=False, logging_level="error", **local)
            self._started = True
        return ray


class _Call:
    """A call of `RayPool.ordered`: its tasks whose turn has not come."""

    def __init__(
        self, pool: RayPool, ray: Any, work: Callable[..., Any], parcel: Parcel, arguments: Iterator[tuple[Any, ...]]
    ) -> None:
        self._pool, self._ray, self._work, self._arguments = pool, ray, work, arguments
        self._digest, self._key = parcel.digest, uuid.uuid4().hex[:8]
        self._tasks: deque[tuple[int, list[tuple[Any, ...]], Any]] = deque()  # first block, arguments, reference
        self._error: Exception | None = None  # of the arguments
        self._taken, self._size, self._seconds = 0, 1, 0.0
        try:
            self._parcel = [ray.put(parcel.pickled)]
        except ray.exceptions.RayError as error:
            raise SimulatorError(
                f"Ray cannot store the simulator and the policy ({short(str(error), 300)})."
            ) from error
        self._run = ray.remote(run_task).options(
            max_retries=_RETRIES, retry_exceptions=False, num_cpus=pool.cpus_a_task, name="jmdp blocks"
        )

    def send(self, most: int) -> bool:
        """Send tasks until this many wait for their turn; False if there are no more."""
        while len(self._tasks) < most and self._error is None:
            given: list[tuple[Any, ...]] = []
            try:
                given.extend(islice(self._arguments, self._size))
                pickled = pickled_arguments(given, self._ray.cloudpickle.dumps)
            except Exception as error:  # raised when it is its turn
                self._error = error
                break
            if not given:
                break
            task = Task(self._key, self._digest, self._taken, pickled, self._pool.time_limit)
            self._tasks.append((self._taken, given, self._run.remote(task, self._parcel)))
            self._taken += len(given)
        if not self._tasks and self._error is not None:
            raise self._error
        return bool(self._tasks)

    def next_results(self) -> Iterator[Any]:
        """Wait for the next task, and yield the results of its blocks."""
        first, given, running = self._tasks.popleft()
        answer = self._answer(first, given, running)
        for result in answer.results:
            yield unpickled_result(result)
        if answer.error is not None:
            done = len(answer.results)
            error, trace = pickle.loads(answer.error)
            error.add_note(self._failed(first + done, given[done]))
            raise error from RuntimeError(f"In a Ray worker:\n{trace}")
        self._adapt(len(given), answer.seconds)

    def _answer(self, first: int, given: list[tuple[Any, ...]], running: Any) -> Answer:
        try:
            if self._pool._cancelled and not self._ray.wait([running], timeout=_PATIENCE)[0]:
                while self._pool._cancelled:
                    self._ray.cancel(self._pool._cancelled.pop(), force=True)
            answer: Answer = self._ray.get(running)
            return answer
        except self._ray.exceptions.RayError as error:
            raise SimulatorError(
                f"A Ray task with {len(given)} blocks failed: {short(str(error), 500)} {self._failed(first, given[0])} "
                "Possible causes: a simulator that ends its process, too little memory, or more than "
                f"{self._pool.time_limit:g} s for a block (time_limit)."
            ) from error

    def _failed(self, number: int, given: tuple[Any, ...]) -> str:
        """Keep a failed block for `RayPool.replay`; return the text that names it."""
        key = f"{self._key}-{number}"
        self._pool._failed[key] = self._work, given
        return f"Block {key}, with the arguments {short(given)}; pool.replay({key!r}) runs it in this process."

    def _adapt(self, blocks: int, seconds: float) -> None:
        """Choose the number of blocks of the next tasks from the time of this one."""
        asked = self._pool.seconds_a_task or max(1.0, self._pool.workers / _WORKERS_A_SECOND)
        self._size = max(1, min(2 * self._size, int(asked * blocks / max(seconds, 1e-6))))

    def cancel(self) -> list[Any]:
        """Cancel the tasks that wait for their turn, and return their references."""
        references = [running for _, _, running in self._tasks]
        for running in references:
            self._ray.cancel(running, force=False)
        return references


def _pool(
    address: str | None, workers: int | None, cpus_a_task: float, seconds_a_task: float | None, time_limit: float
) -> RayPool:
    return RayPool(
        address, workers=workers, cpus_a_task=cpus_a_task, seconds_a_task=seconds_a_task, time_limit=time_limit
    )


def _imported() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtraError('RayPool needs Ray: pip install "jmdp[ray]".') from None
    return ray
