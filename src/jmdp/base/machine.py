"""The machine: how much memory is free, threads for kernels, and interrupts that wait for a safe point."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from jmdp.errors import MemoryBudgetError

_SHARE = 0.8
"""Of the memory that is free, how much a method may take without being told."""


def budget(asked: int | None) -> float:
    """Bytes that may be used: what was asked for, or a share of what is free now."""
    return _SHARE * free_bytes() if asked is None else asked


def free_bytes() -> float:
    """Memory that can be had without swapping; unlimited where the system does not tell."""
    try:
        with open("/proc/meminfo") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        return 1024.0 * int(fields["MemAvailable"].split()[0])
    except (OSError, KeyError):
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def require(needed: float, allowed: float, what: str, fix: str) -> None:
    """Raise unless `needed` bytes fit in what is allowed."""
    if needed > allowed:
        raise MemoryBudgetError(
            f"{what} needs {in_words(needed)}, and {in_words(allowed)} may be used. {fix}, or raise memory_budget."
        )


def in_words(size: float) -> str:
    """A number of bytes as a person would write it."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    """A context that holds as many threads as there are cores, or as were asked for."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count or cores()

    def __enter__(self) -> Threads:
        from concurrent.futures import ThreadPoolExecutor  # loads logging too

        self._pool = ThreadPoolExecutor(self.count)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()

    def run(self, kernel: Callable[..., Any], before: tuple[Any, ...], after: tuple[Any, ...]) -> list[Any]:
        """Run kernel(*before, i, count, *after) for every i at once.

        An interrupt is let through when all have ended, so that no table is left half written.
        """
        running = [self._pool.submit(kernel, *before, i, self.count, *after) for i in range(self.count)]
        try:
            return [future.result() for future in running]
        except KeyboardInterrupt:
            from concurrent.futures import wait

            wait(running)
            raise


@contextmanager
def deferred_interrupts() -> Iterator[Callable[[], bool]]:
    """Ctrl-C is noted and told by what is yielded; a second one interrupts at once. In the main thread only."""
    noted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield noted.is_set
        return

    def note(number: int, frame: object) -> None:
        if noted.is_set():
            raise KeyboardInterrupt
        noted.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield noted.is_set
    finally:
        signal.signal(signal.SIGINT, before)
