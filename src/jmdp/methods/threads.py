"""Kernels on all cores: each takes which share of the rows is its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any


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
