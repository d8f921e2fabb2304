"""Pool of Ray tasks, on this machine or on a cluster."""

from __future__ import annotations

import faulthandler
import itertools
import pickle
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

from jmdp.base.settings import real_number, short, whole_number
from jmdp.distribute.pickling import Parcel, pickled_result, sendable, unpickled
from jmdp.distribute.pools import Pool, one_thread
from jmdp.errors import MissingExtraError, SettingsError, SimulatorError

T = TypeVar("T")

_IN_ADVANCE = 3
"""Blocks per worker that are begun before their turn: durations differ."""
_RETRIES = 5
"""How often a block is run again after its worker or machine has died."""
_KEPT = 4
"""Number of works that a worker keeps."""


class RayPool(Pool):
    """Pool of Ray tasks. Results do not depend on the number of workers, on those that die, or on their order.

    Ray is started, or joined, when the first block is sent. A Ray that this pool has started is stopped by `close`.
    Functions are sent by cloudpickle: lambdas and functions of notebooks work.

    Parameters
    ----------
    address
        Address of a cluster, e.g. "auto" or "ray://host:10001". None joins the Ray of this process, or starts one on
        this machine.
    workers
        Number of blocks that run at the same time. None: as many as the cluster has cores when the pool is first used.
    block_seconds
        Time limit of a block. The worker of a block that takes longer is ended, and the block counts as failed.
    """

    def __init__(self, address: str | None = None, *, workers: int | None = None, block_seconds: float = 3600.0) -> None:
        if address is not None and not isinstance(address, str):
            raise SettingsError(f"address is {short(address)}. Give the address of a Ray cluster, e.g. 'auto', or None.")
        self.address, self.block_seconds = address, real_number(block_seconds)
        if not self.block_seconds > 0:
            raise SettingsError(f"block_seconds is {short(block_seconds)}. Give a number of seconds.")
        self._asked = None if workers is None else whole_number("workers", workers, 1)
        self._started = False

    @property
    def workers(self) -> int:  # type: ignore[override]
        """Number of blocks that run at the same time."""
        return self._asked or max(1, int(self._ray().cluster_resources().get("CPU", 1)))

    def ordered(self, work: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> Generator[T, None, None]:
        """Yield the results; see `Pool.ordered`. Raise `SimulatorError` if a block fails again and again."""
        return self._results(Parcel.of(work, _imported().cloudpickle.dumps), iter(arguments))

    def close(self) -> None:
        """Stop the Ray that this pool has started. It is started again if needed."""
        if self._started:
            self._started = False
            _imported().shutdown()

    def __reduce__(self) -> tuple[Any, ...]:
        return _pool, (self.address, self._asked, self.block_seconds)  # settings of a method contain its pool

    def __repr__(self) -> str:
        return f"RayPool({self.address!r}, workers={self._asked})"

    def _results(self, parcel: Parcel, arguments: Iterator[tuple[Any, ...]]) -> Generator[Any, None, None]:
        ray = self._ray()
        run = ray.remote(_run).options(max_retries=_RETRIES, retry_exceptions=False, num_cpus=1)
        work = [ray.put(parcel.pickled)]  # in a list: a worker fetches it only if it does not have this work
        sent: deque[tuple[tuple[Any, ...], Any]] = deque()
        most = _IN_ADVANCE * self.workers
        try:
            while True:
                for given in itertools.islice(arguments, most - len(sent)):
                    sent.append((given, run.remote(parcel.digest, work, given, self.block_seconds)))
                if not sent:
                    return
                given, running = sent.popleft()
                yield self._result(ray, given, running)
        finally:
            for _, running in sent:
                ray.cancel(running, force=False)

    def _result(self, ray: Any, given: tuple[Any, ...], running: Any) -> Any:
        """Wait for a block; return its result, or raise its error."""
        try:
            succeeded, payload = ray.get(running)
        except ray.exceptions.RayError as error:
            raise SimulatorError(
                f"The block with arguments {short(given)} failed {_RETRIES + 1} times: {short(str(error), 300)}. Possible "
                f"causes: a simulator that ends its process, too little memory, or more than {self.block_seconds:g} s for "
                "a block (block_seconds). RayPool.replay runs it in this process."
            ) from error
        if succeeded:
            return pickle.loads(payload)
        error, trace = pickle.loads(payload)
        raise error from RuntimeError(f"In a Ray worker, block {short(given)}:\n{trace}")

    def _ray(self) -> Any:
        """Ray, started or joined."""
        ray = _imported()
        if not ray.is_initialized():
            ray.init(address=self.address, num_cpus=None if self.address else self._asked, log_to_driver=False,
                     include_dashboard=None, logging_level="error")
            self._started = True
        return ray


def _pool(address: str | None, workers: int | None, block_seconds: float) -> RayPool:
    return RayPool(address, workers=workers, block_seconds=block_seconds)


def _imported() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtraError('RayPool needs Ray: pip install "jmdp[ray]".') from None
    return ray


# ---------------------------------------------------------------------------------------- in a worker

_works: OrderedDict[bytes, Callable[..., Any]] = OrderedDict()
"""Works of this worker process by digest, the last used at the end."""


def _run(digest: bytes, work: list[Any], arguments: tuple[Any, ...], seconds: float) -> tuple[bool, bytes]:
    """Run a block. An error is returned as a value: Ray cannot send every exception."""
    try:
        faulthandler.dump_traceback_later(seconds, exit=True)  # ends a hung simulator even if it holds the GIL
        function = _work(digest, work)
        with one_thread():
            result = function(*arguments)
        return True, pickled_result(result)
    except Exception as error:
        return False, pickle.dumps((sendable(error), traceback.format_exc()))
    finally:
        faulthandler.cancel_dump_traceback_later()


def _work(digest: bytes, work: list[Any]) -> Callable[..., Any]:
    if digest not in _works:
        _works[digest] = unpickled("the simulator or the policy", _imported().get(work[0]))
        if len(_works) > _KEPT:
            _works.popitem(last=False)
    _works.move_to_end(digest)
    return _works[digest]
