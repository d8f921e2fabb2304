"""The machine: free memory, and threads for kernels."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

from jmdp.errors import MemoryBudgetError

_SHARE = 0.8
"""Share of the free memory that a method may use by default."""


def budget(asked: int | None) -> float:
    """Return the number of bytes that may be used: as requested, or a share of the free memory."""
    return _SHARE * free_bytes() if asked is None else asked


def free_bytes() -> float:
    """Return the memory available without swapping; infinity if the system does not report it."""
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
    """Raise `MemoryBudgetError` if `needed` bytes exceed `allowed`."""
    if needed > allowed:
        raise MemoryBudgetError(
            f"{what} needs {in_words(needed)}, but only {in_words(allowed)} may be used. {fix}, or raise memory_budget."
        )


def in_words(size: float) -> str:
    """Return a number of bytes with a unit, e.g. ``1.5 GiB``."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    """Context manager of a thread pool, with one thread per core unless `count` is given."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count or cores()

    def __enter__(self) -> Threads:
        from concurrent.futures import ThreadPoolExecutor  # imported here because it also loads logging

        self._pool = ThreadPoolExecutor(self.count)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()

    def run(self, kernel: Callable[..., Any], before: tuple[Any, ...], after: tuple[Any, ...]) -> list[Any]:
        """Run kernel(*before, i, count, *after) for every i in parallel.

        An interrupt is raised only after all have ended, so that no table is left half written.
        """
        running = [self._pool.submit(kernel, *before, i, self.count, *after) for i in range(self.count)]
        try:
            return [future.result() for future in running]
        except KeyboardInterrupt:
            from concurrent.futures import wait

            wait(running)
            raise
