"""What a Ray worker runs: a task, which is a few successive blocks of one call."""

from __future__ import annotations

import contextlib
import faulthandler
import signal
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jmdp.distribute.pickling import pickled_error, pickled_result, unpickled
from jmdp.distribute.pools import run_block
from jmdp.errors import SimulatorError

_KEPT = 4
"""Number of works that a worker keeps."""
_LONGEST_STACK = 4_000
"""Characters of the stack of a hung block."""


@dataclass(frozen=True)
class Task:
    """Blocks of one call that a worker runs one after the other."""

    call: str  # unique
    digest: bytes  # of the work
    first: int  # number of the first block
    arguments: bytes  # pickled, of each block
    time_limit: float  # seconds of a block


@dataclass(frozen=True)
class Answer:
    """Results of the blocks of a task, up to the first error."""

    results: list[bytes]  # pickled
    error: bytes | None  # pickled exception and its traceback
    seconds: float


def run_task(task: Task, work: list[Any]) -> Answer:
    """Run a task. An error of a block is a value of the answer: Ray cannot send every exception.

    `work` is a list with the reference of the pickled work. It is fetched only if this process does not have the work.
    """
    begun, results, error = time.perf_counter(), [], None
    with _cancellation() as cancelled, _Watch(task) as watch:
        try:
            function = _work(task.digest, work)
            for i, given in enumerate(unpickled("the arguments of a block", task.arguments)):
                with watch.block(task.first + i):
                    results.append(pickled_result(run_block(function, given)))
                if cancelled:
                    break
        except Exception as fault:
            error = pickled_error(fault)
    return Answer(results, error, time.perf_counter() - begun)


_works: OrderedDict[bytes, Callable[..., Any]] = OrderedDict()
"""Works of this process by digest, the last used at the end."""


def _work(digest: bytes, work: list[Any]) -> Callable[..., Any]:
    if digest not in _works:
        import ray

        _works[digest] = unpickled("the simulator or the policy", ray.get(work[0]))
        if len(_works) > _KEPT:
            _works.popitem(last=False)
    _works.move_to_end(digest)
    return _works[digest]


@contextmanager
def _cancellation() -> Iterator[list[int]]:
    """Note a cancellation, which arrives as SIGINT.

    The block in progress is finished: an interrupt within an import or a simulator could break later blocks.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


class _Watch:
    """Ends this process if a block takes too long, even if it holds the GIL.

    A file is left with the number of the block and the stack. Ray runs the task again, and finds the file if that is on
    the same machine: the block then fails at once.
    """

    def __init__(self, task: Task) -> None:
        self._seconds = task.time_limit
        self._path = Path(tempfile.gettempdir(), f"jmdp-block-{task.call}-{task.first}.txt")
        self._hung, self._stack = -1, ""
        with contextlib.suppress(FileNotFoundError):
            number, _, self._stack = self._path.read_text(errors="replace").partition("\n")
            self._hung = int(number) if self._stack else -1

    def __enter__(self) -> _Watch:
        self._file = self._path.open("w")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)

    @contextmanager
    def block(self, number: int) -> Iterator[None]:
        """Watch a block."""
        if number == self._hung:
            raise SimulatorError(
                f"A block took more than {self._seconds:g} s (time_limit) and was ended. Stack of its process, the "
                f"last call first:\n{self._stack[:_LONGEST_STACK]}"
            )
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"{number}\n")
        self._file.flush()
        faulthandler.dump_traceback_later(self._seconds, exit=True, file=self._file)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
