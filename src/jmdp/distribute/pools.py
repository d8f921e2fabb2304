"""Interface of a pool, which runs blocks of work and returns their results in order.

A block is a pure function of the work and of the block's arguments. So any worker can run it, it can be run again after
a worker has died, and blocks that are no longer needed can be dropped. Nothing is shared between workers but what is
sent to them.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from jmdp.base.settings import function
from jmdp.errors import SettingsError

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
            with one_thread():
                result = work(*given)
            yield result

    def __repr__(self) -> str:
        return "SerialPool()"


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread: more threads slow other workers down and change the last bits of sums."""
    with _thread_limits().limit(limits=1):
        yield


_known: tuple[int, Any] = (-1, None)
"""Number of imported modules, and the controller of the libraries loaded with them."""


def _thread_limits() -> Any:
    """Controller of all loaded libraries. They are searched again (1 ms) only after further imports."""
    global _known
    if _known[0] != len(sys.modules):
        from threadpoolctl import ThreadpoolController

        _known = len(sys.modules), ThreadpoolController()
    return _known[1]
