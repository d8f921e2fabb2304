"""Interface of a pool, which runs blocks of work and returns their results in order.

A block is a pure function of the work and of the block's arguments. So any worker can run it, it can be run again after
a worker has died, and blocks that are no longer needed can be dropped. Nothing is shared between workers but what is
sent to them.

Calls of `ProcessPool.ordered` and their blocks.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from jmdp.base.machine import deferred_interrupts
from jmdp.base.settings import function, short
from jmdp.distribute.pickling import Parcel, pickled_arguments, unpickled_error, unpickled_result
from jmdp.errors import SettingsError


class End(NamedTuple):
    """How a worker process has ended."""

    text: str
    killed: bool  # from outside
    stack: str = ""  # of a block that took too long


class Call:
    """A call of `ordered`: the blocks whose turn has not come."""

    def __init__(self, parcel: Parcel, arguments: Iterator[tuple[Any, ...]], numbers: Iterator[int]) -> None:
        self.parcel, self._arguments, self._numbers = parcel, arguments, numbers
        self.blocks: deque[Block] = deque()  # in order
        self.unsent: list[Block] = []
        self.results = 0
        self.cancelled: float | None = None  # time

    def take(self, most: int) -> None:
        """Take arguments for new blocks, up to this number of blocks. An error is raised when it is its turn."""
        while len(self.blocks) < most:
            block = Block(self, next(self._numbers))
            try:
                block.arguments = pickled_arguments(next(self._arguments))
                self.unsent.append(block)
            except StopIteration:
                return
            except Exception as error:
                block.error, self._arguments = error, iter(())
            self.blocks.append(block)


class Block:
    """A block of work, from its arguments to its answer."""

    def __init__(self, call: Call, number: int) -> None:
        self.call, self.number = call, number  # unique in the pool
        self.arguments = b""
        self.answer: tuple[bool, bytes] | None = None  # succeeded; pickled result, or error and trace
        self.error: Exception | None = None
        self.ends: list[End] = []  # of workers that ran it, since the last block of the call has finished

    @property
    def answered(self) -> bool:
        """True if the result is known."""
        return self.answer is not None or self.error is not None

    def result(self) -> Any:
        """Return the result, or raise the error of the block."""
        if self.error is not None:
            raise self.error
        assert self.answer is not None
        succeeded, payload = self.answer
        if succeeded:
            return unpickled_result(payload)
        raise unpickled_error(payload, "worker process")


T = TypeVar("T")


class Pool(ABC):
    """Base class of pools. A pool is closed by `close` or by the end of a ``with`` block."""

    workers: int
    """Number of blocks that run at the same time."""
    time_limit: float | None = None
    """Seconds after which the process of a block is ended. Blocks that run in this process have no limit."""

    @abstractmethod
    def ordered(self, work: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> Generator[T, None, None]:
        """Yield the result of ``work(*given)`` for each ``given`` of `arguments`, in their order.

        Arguments are taken as needed, a few per worker in advance. An exception in a block is raised when it is the
        block's turn, so that the same one appears for any number of workers. Closing the generator cancels the blocks
        in progress and drops their results; the pool can be used again at once.

        Parameters
        ----------
        work
            Pure function. For workers in other processes it must be picklable. It is sent to each of them once, so
            give it everything that blocks have in common: a dataclass with a ``__call__``, for example.
        arguments
            Positional arguments of each block.
        """

    def close(self) -> None:  # noqa: B027 (a pool without workers has nothing to end)
        """End the workers. They are started again if needed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SerialPool(Pool):
    """Pool that runs blocks in this process, each when its result is requested."""

    workers = 1

    def ordered(self, work: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> Generator[T, None, None]:
        """Yield the results; see `Pool.ordered`."""
        function("work", work, SettingsError)
        for given in arguments:
            yield run_block(work, given)

    def __repr__(self) -> str:
        return "SerialPool()"


def run_block(work: Callable[..., T], given: tuple[Any, ...]) -> T:
    """Run a block with one thread. Python's MemoryError has no text: name the block, and what needs less memory."""
    try:
        with one_thread():
            return work(*given)
    except MemoryError as error:
        if not str(error):
            error.args = (
                f"A block of simulations ran out of memory: that with the arguments {short(given)}. Every worker holds "
                "the simulator and simulates the alternatives of a block side by side: use fewer workers, compare "
                "fewer alternatives at once, or give each process more memory.",
            )
        raise


_lock = threading.Lock()
_users = 0
"""Number of `one_thread` blocks in progress, in all threads."""
_limits: list[tuple[Any, Any]] = []
"""Controllers of the libraries that are limited, and what restores their original limits."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread: more threads slow other workers down and change the last bits of sums.

    Most libraries have one limit for the process: the first of several blocks at the same time sets it, and the last
    one restores it. OpenMP has one for each thread. A library that is loaded within a block is limited from the next
    block on.
    """
    global _users
    with deferred_interrupts(), _lock:
        per_process, per_thread = _libraries()
        if not _limits or _limits[-1][0] is not per_process:
            _allow(per_process)
            _limits.append((per_process, per_process.limit(limits=1)))
        own = per_thread.limit(limits=1)
        _users += 1
    try:
        yield
    finally:
        with deferred_interrupts(), _lock:
            own.restore_original_limits()
            _users -= 1
            while _limits and _users == 0:
                libraries, limit = _limits.pop()
                _allow(libraries)
                limit.restore_original_limits()
                _allow(libraries)


def _allow(libraries: Any) -> None:
    """Let any thread set limits: since threadpoolctl 3.8, those of other threads than the first one have no effect."""
    for library in libraries.lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


_known: tuple[int, Any, Any] = (-1, None, None)
"""Number of imported modules, and controllers of the libraries loaded with them: per process, and per thread."""


def _libraries() -> tuple[Any, Any]:
    """Controllers of all loaded libraries. They are searched again (1 ms) only after further imports."""
    global _known
    if _known[0] != len(sys.modules):
        from threadpoolctl import ThreadpoolController

        modules, found = len(sys.modules), ThreadpoolController()
        per_thread = found.select(user_api="openmp", threading_layer="openmp")
        of_threads = {library["filepath"] for library in per_thread.info()}
        of_process = [path for library in found.info() if (path := library["filepath"]) not in of_threads]
        _known = modules, found.select(filepath=of_process), per_thread
    return _known[1:]
