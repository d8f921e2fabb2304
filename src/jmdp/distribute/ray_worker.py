"""What a Ray worker runs: a task, which is a few successive blocks of one call."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import signal
import subprocess
import sys
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
from jmdp.errors import WorkerError

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
    time_limit: float | None  # seconds of a block


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
    return _answer(task, None if task.digest in _works else _fetched(work))


def run_alone(task: Task, work: list[Any]) -> Answer:
    """Run the block of a task in a process of its own, twice if that ends: Ray does not tell why a worker has ended.

    A process that this one starts tells it. A block that exceeds its time limit is known the second time.
    """
    pickled = _fetched(work)
    with _cancellation(), tempfile.TemporaryDirectory() as folder:
        Path(folder, "task").write_bytes(pickle.dumps((task, pickled)))
        command = [sys.executable, "-X", "faulthandler", "-c", _SERVE, folder]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        ended = []
        for _ in range(2):
            with Path(folder, "stack").open("wb") as stack:  # not a pipe: a process that the block has forked holds it
                run = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=stack, stderr=stack)
            ended.append(run.returncode)
            if not run.returncode:
                answer: Answer = pickle.loads(Path(folder, "answer").read_bytes())
                return answer
        said = Path(folder, "stack").read_text(errors="replace")[-_LONGEST_STACK:]
    killed = any(code in (-9, -15) for code in ended)  # SIGKILL, which Windows has no name for, and SIGTERM
    how = " and ".join(f"signal {-code}" if code < 0 else f"exit code {code}" for code in ended)
    why = (
        "It was killed, perhaps for its memory. Repeat the call"
        if killed
        else "The simulator or the policy ends its process"
    )
    error = WorkerError(f"A block ended its process twice, alone in it ({how}). {why}. Its output:\n{said}", killed)
    return Answer([], pickled_error(error), 0.0)


_SERVE = "import sys; from jmdp.distribute.ray_worker import serve; serve(sys.argv[1])"


def serve(folder: str) -> None:
    """Run the block of a task in this process, which `run_alone` has started."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    answer = _answer(*pickle.loads(Path(folder, "task").read_bytes()))
    Path(folder, "answer").write_bytes(pickle.dumps(answer))
    os._exit(0)  # what the simulator does at the end of a process has no meaning here


def _end_with(parent: int) -> None:
    """End this process when its parent has ended."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _answer(task: Task, pickled: bytes | None) -> Answer:
    """Run the blocks of a task. `pickled` is their work, unless this process has it."""
    begun, results, error = time.perf_counter(), [], None
    with _cancellation() as cancelled, _Watch(task) as watch:
        try:
            function = _work(task.digest, pickled)
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


def _work(digest: bytes, pickled: bytes | None) -> Callable[..., Any]:
    if pickled is not None:
        _works[digest] = unpickled("the simulator or the policy", pickled)
        if len(_works) > _KEPT:
            _works.popitem(last=False)
    _works.move_to_end(digest)
    return _works[digest]


def _fetched(work: list[Any]) -> bytes:
    """The pickled work. An error of Ray is not a result: it ends the task."""
    import ray

    pickled: bytes = ray.get(work[0])
    return pickled


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
            raise WorkerError(
                f"A block took more than {self._seconds:g} s (time_limit) and was ended. Stack of its process, the "
                f"last call first:\n{self._stack[:_LONGEST_STACK]}",
                killed=False,
            )
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"{number}\n")
        self._file.flush()
        if self._seconds is not None:
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=self._file)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
