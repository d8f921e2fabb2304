"""The machine: free memory, and threads for kernels.

Ctrl-C: when it interrupts, and what waits until it may.

Python raises KeyboardInterrupt between any two instructions of the main thread. In the middle of an import or of a
compilation this leaves modules half initialised, and between the two locks of a progress bar the first one locked, and
every later call in the process fails or hangs. So while a main function runs (`interruptible`), Ctrl-C waits for the
end of an import, a compilation or a call of tqdm, and in a block with `deferred_interrupts` for the block's next safe
point. A second Ctrl-C interrupts at once in every case.

Programs with a handler of SIGINT of their own keep it, and those that ignore SIGINT still do. The handler of
`asyncio.run` is no such handler: it cancels a task, which would have no effect before the end of a main function that
the task calls. It is replaced meanwhile, and KeyboardInterrupt ends `asyncio.run` as usual.
"""

from __future__ import annotations

import _thread
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

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


P = ParamSpec("P")
T = TypeVar("T")

_UNINTERRUPTED = ("numba", "llvmlite", "tqdm")
_IMPORT = "<frozen importlib._bootstrap>"

_AGAIN = 0.05
"""Seconds after which a Ctrl-C that had to wait is raised again."""


def interruptible(function: Callable[P, T]) -> Callable[P, T]:
    """Let Ctrl-C wait for safe points while the function runs in the main thread; see the module."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        before = signal.getsignal(signal.SIGINT)
        main = threading.current_thread() is threading.main_thread()
        if not (main and (before is signal.default_int_handler or _is_asyncio_run(before))):
            return function(*args, **kwargs)
        handler = _Handler(sys._getframe().f_code)
        try:
            signal.signal(signal.SIGINT, handler)
            result = function(*args, **kwargs)
        finally:
            handler.closed = True  # from here on it raises nothing: `signal.signal` calls it for pending signals first
            with handler.sending:  # a signal that is being raised again comes before the handler is restored
                pass
            signal.signal(signal.SIGINT, before)
            if handler.waiting:  # its safe point did not come
                raise KeyboardInterrupt
        return result

    return run


def _is_asyncio_run(handler: object) -> bool:
    """Whether `asyncio.run` (`asyncio.Runner`) has installed this handler; those of `add_signal_handler` are users'."""
    return isinstance(handler, functools.partial) and getattr(handler.func, "__module__", "") == "asyncio.runners"


@contextmanager
def deferred_interrupts() -> Iterator[Callable[[], bool]]:
    """Defer Ctrl-C to a safe point: yield a function that returns whether it was pressed.

    If the block ends without calling this function afterwards, KeyboardInterrupt is raised soon after. Nothing is
    deferred outside a function that is `interruptible`.
    """
    handler = signal.getsignal(signal.SIGINT)
    if not isinstance(handler, _Handler) or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    handler.deferred += 1
    try:
        yield handler.take
    finally:
        handler.deferred -= 1
        if handler.waiting and not handler.deferred:
            handler.come_again()


class _Handler:
    """Handler of SIGINT during one call of a main function, whose code object is given."""

    def __init__(self, top: object) -> None:
        self._top = top
        self._repeated = False  # the next signal is the first one again
        self.deferred = 0  # blocks that defer interrupts
        self.waiting = False  # Ctrl-C was pressed and has had no effect yet
        self.closed = False
        self.sending = _thread.allocate_lock()  # held from the decision to raise the signal again until it is raised

    def __call__(self, number: int, frame: FrameType | None) -> None:
        repeated, self._repeated = self._repeated, False
        if repeated and not self.waiting:  # meanwhile it has had its effect
            return
        if self.closed:
            self.waiting = True
            return
        first, self.waiting = repeated or not self.waiting, True
        if first and self.deferred:
            return
        if first and self._must_wait(frame):
            self.come_again()
            return
        self.waiting = False
        raise KeyboardInterrupt

    def take(self) -> bool:
        """Return whether Ctrl-C was pressed; the caller acts upon it."""
        pressed, self.waiting = self.waiting, False
        return pressed

    def come_again(self) -> None:
        """Raise the signal again, a moment later."""
        # Not by `threading`: its locks may be held by the code that the signal has interrupted.
        _thread.start_new_thread(self._raise_again, ())

    def _raise_again(self) -> None:
        time.sleep(_AGAIN)
        with self.sending:
            if self.waiting and not self.closed:
                self._repeated = True
                if hasattr(signal, "pthread_kill"):  # it also ends system calls in which the main thread waits
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                else:
                    signal.raise_signal(signal.SIGINT)

    def _must_wait(self, frame: FrameType | None) -> bool:
        """Whether a module, a compiler or tqdm is at work, within this call of the main function."""
        while frame is not None and frame.f_code is not self._top:
            package = str(frame.f_globals.get("__name__")).partition(".")[0]
            if frame.f_code.co_filename == _IMPORT or package in _UNINTERRUPTED:
                return True
            frame = frame.f_back
        return False
