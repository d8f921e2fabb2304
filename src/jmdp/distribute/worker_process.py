"""A worker process, seen from both sides of its pipe.

Workers are spawned and not forked, because threads of JAX or of an emulator do not survive a fork. Each has its own
pipe: on the shared queue of a ProcessPoolExecutor, a worker killed while sending stops all others. In the worker a
thread reads the pipe at all times. So sending to a busy worker does not block, a cancelled block that has not begun is
skipped, and the worker ends when the pipe is closed, at the latest at the end of its parent process.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from jmdp.base.interrupts import deferred_interrupts
from jmdp.distribute.calls import Block
from jmdp.distribute.pickling import pickled_error, pickled_result, unpickled
from jmdp.distribute.pools import one_thread

_KEPT = 4
"""Number of works that a worker keeps."""
_HEADER = struct.Struct("<q?")
"""Beginning of an answer: number of the block, and whether it succeeded; then the pickled result or error."""


class WorkerProcess:
    """A worker process, in its parent process."""

    def __init__(self) -> None:
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.held: dict[int, Block] = {}
        """Blocks sent and not yet answered, by number."""
        self._works: OrderedDict[bytes, None] = OrderedDict()  # digests of those that the worker keeps
        self._process = context.Process(target=serve, args=(other,), name="jmdp worker", daemon=True)
        with deferred_interrupts(), _no_interrupts():  # other threads may receive the signal
            self._process.start()
        other.close()

    def ask(self, block: Block) -> None:
        """Send a block, and its work unless the worker has it."""
        self.held[block.number] = block
        digest = block.call.parcel.digest
        if digest not in self._works:
            if len(self._works) == _KEPT:
                self._send("forget", self._works.popitem(last=False)[0])
            self._send("work", digest, block.call.parcel.pickled)
            self._works[digest] = None
        self._works.move_to_end(digest)
        self._send("block", block.number, digest, block.arguments)

    def cancel(self, numbers: Iterable[int]) -> None:
        """Skip these blocks unless they have begun. They are answered in any case."""
        self._send("cancel", list(numbers))

    def answer(self) -> tuple[int, bool, bytes] | None:
        """Receive the number of a block, whether it succeeded, and its pickled result; None if the worker is dead."""
        try:
            message = self.connection.recv_bytes()
        except (EOFError, OSError):
            return None
        return *_HEADER.unpack_from(message), message[_HEADER.size :]

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self.connection.close()

    def _send(self, *message: Any) -> None:
        with contextlib.suppress(OSError):  # a dead worker is noticed in answer()
            self.connection.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    """Delay interrupts of this process; a process started meanwhile ignores them from its beginning."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ---------------------------------------------------------------------------------------- in a worker process


def serve(connection: Connection) -> None:
    """Run the requested blocks. The parent process handles interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(connection, tasks), daemon=True).start()
    with contextlib.suppress(OSError):  # the parent has closed the pipe
        while True:
            connection.send_bytes(tasks.get().answer())


def _read(connection: Connection, tasks: queue.SimpleQueue[_Task]) -> None:
    works: dict[bytes, _Work] = {}
    waiting: dict[int, _Task] = {}
    try:
        while True:
            kind, *content = pickle.loads(connection.recv_bytes())
            if kind == "work":
                works[content[0]] = _Work(content[1])
            elif kind == "forget":
                del works[content[0]]
            elif kind == "block":
                number, digest, arguments = content
                waiting[number] = _Task(number, works[digest], arguments, waiting)
                tasks.put(waiting[number])
            else:
                for number in content[0]:
                    if number in waiting:
                        waiting[number].cancelled = True
    finally:  # the pipe is closed, or a message is incomplete
        os._exit(1)


class _Work:
    """Work that is unpickled when first needed, in the thread that runs it."""

    def __init__(self, pickled: bytes) -> None:
        self._pickled = pickled
        self._work: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        work = self._work or unpickled("the simulator or the policy", self._pickled)
        self._work = work
        return work(*arguments)


class _Task:
    """A requested block. Tasks that have not begun are in `waiting`, where the reader finds those to cancel."""

    def __init__(self, number: int, work: _Work, arguments: bytes, waiting: dict[int, _Task]) -> None:
        self.cancelled = False
        self._number, self._work, self._arguments, self._waiting = number, work, arguments, waiting

    def answer(self) -> bytes:
        """Run the block; return the message for the parent process."""
        self._waiting.pop(self._number, None)
        if self.cancelled:
            return _HEADER.pack(self._number, False)
        try:
            arguments = unpickled("the arguments of a block", self._arguments)
            with one_thread():
                result = self._work(*arguments)
            return _HEADER.pack(self._number, True) + pickled_result(result)
        except Exception as error:
            return _HEADER.pack(self._number, False) + pickled_error(error)
