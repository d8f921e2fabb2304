"""A worker process, seen from both sides of its pipe.

Workers are spawned and not forked, because threads of JAX or of an emulator do not survive a fork. Each has its own
pipe: on the shared queue of a ProcessPoolExecutor, a worker killed while sending stops all others. In the worker a
thread reads the pipe at all times. So sending to a busy worker does not block, a cancelled block that has not begun is
skipped, and the worker ends when the pipe is closed or its parent process has ended.

A worker leads a process group, with which the processes that a simulator has started end.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import queue
import signal
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO

from jmdp.base.machine import deferred_interrupts
from jmdp.distribute.pickling import pickled_error, pickled_result, unpickled
from jmdp.distribute.pools import Block, End, run_block

_KEPT = 4
"""Number of works that a worker keeps."""
_PARENT = 1.0
"""Seconds after which a worker looks whether its parent process still exists."""
_HEADER = struct.Struct("<q?")
"""Beginning of an answer: number of the block, and whether it succeeded; then the pickled result or error."""


_GRACE, _START = 5.0, 60.0
"""Seconds beyond a time limit after which a worker that has not ended itself does not run, and those to load a work."""
_ENDING = 1.0
"""Seconds that a process whose pipe is closed has to end."""
_FROM_OUTSIDE = (9, 15)
"""SIGKILL and SIGTERM."""
_LONGEST_STACK = 4_000
"""Characters of the stack of a block that took too long."""


class WorkerProcess:
    """A worker process, in its parent process."""

    def __init__(self) -> None:
        import multiprocessing
        import tempfile

        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        descriptor, self._stack_path = tempfile.mkstemp(prefix="jmdp-stack-", suffix=".txt")
        os.close(descriptor)
        self._begun = time.monotonic()  # of the block that runs
        self._limit: float | None = None  # of the last block sent
        self._late = False
        self.held: dict[int, Block] = {}
        """Blocks sent and not yet answered, by number."""
        self._works: OrderedDict[bytes, None] = OrderedDict()  # digests of those that the worker keeps
        self._process = context.Process(
            target=serve, args=(other, os.getpid(), self._stack_path), name="jmdp worker", daemon=True
        )
        with deferred_interrupts(), _no_interrupts():  # other threads may receive the signal
            self._process.start()
        other.close()

    @property
    def running(self) -> Block | None:
        """The block that the worker runs: the first one sent and not yet answered."""
        return next(iter(self.held.values()), None)

    def ask(self, block: Block, time_limit: float | None) -> None:
        """Send a block, and its work unless the worker has it."""
        if not self.held:
            self._begun = time.monotonic()
        if time_limit != self._limit:
            self._limit_sending(time_limit)
        self.held[block.number], self._limit = block, time_limit
        digest = block.call.parcel.digest
        if digest not in self._works:
            if len(self._works) == _KEPT:
                self._send("forget", self._works.popitem(last=False)[0])
            self._send("work", digest, block.call.parcel.pickled)
            self._works[digest] = None
            self._begun = time.monotonic() + _START
        self._works.move_to_end(digest)
        self._send("block", block.number, digest, block.arguments, time_limit)

    def cancel(self, numbers: Iterable[int]) -> None:
        """Skip these blocks unless they have begun. They are answered in any case."""
        self._send("cancel", list(numbers))

    def answer(self) -> tuple[int, bool, bytes] | None:
        """Receive the number of a block, whether it succeeded, and its pickled result; None if the worker is dead."""
        try:
            message = self.connection.recv_bytes()
        except (EOFError, OSError):
            self._process.join(_ENDING)
            return None
        return *_HEADER.unpack_from(message), message[_HEADER.size :]

    def answered(self, number: int) -> Block:
        """Take a block off those that the worker holds; the next one begins."""
        self._begun = max(self._begun, time.monotonic())
        return self.held.pop(number)

    def over(self) -> bool:
        """True if the process has ended, or has not run for longer than its block may take."""
        waited = time.monotonic() - self._begun
        self._late |= bool(self.held) and self._limit is not None and waited > self._limit + _GRACE
        return self._late or not self._process.is_alive()

    def end(self) -> End:
        """Kill the process and those that it has started; return how it ended."""
        pid, code = self._process.pid, self._process.exitcode
        self._process.kill()
        if pid is not None and hasattr(os, "killpg"):
            with contextlib.suppress(OSError):  # a group keeps its number until its last process has ended
                os.killpg(pid, signal.SIGKILL)
        self._process.join()
        self._process.close()
        self.connection.close()
        stack = ""
        with contextlib.suppress(OSError):
            stack = Path(self._stack_path).read_text(errors="replace")[:_LONGEST_STACK]
            os.unlink(self._stack_path)
        if stack:
            return End(f"took more than {self._limit:g} s (time_limit)", False, stack)
        if self._late:
            return End(f"a process that did not run for {self._limit:g} s (time_limit)", True)
        if code is None:
            return End("a closed pipe", False)
        return End(_signal(-code), -code in _FROM_OUTSIDE) if code < 0 else End(f"exit code {code}", False)

    def _send(self, *message: Any) -> None:
        try:
            self.connection.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
        except BlockingIOError:  # nobody has read for as long as the limit: a part of the message may be lost
            self._late = True
        except OSError:  # a dead worker is noticed in answer()
            pass

    def _limit_sending(self, seconds: float | None) -> None:
        """Give up sending if the worker does not read for longer than this: its process has been stopped."""
        if os.name != "posix":
            return
        import socket

        whole, part = divmod(0.0 if seconds is None else seconds + _GRACE, 1.0)  # 0: wait for ever
        with socket.socket(fileno=os.dup(self.connection.fileno())) as pipe:
            pipe.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(whole), int(1e6 * part)))


def _signal(number: int) -> str:
    """Name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


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


def serve(connection: Connection, parent: int, stack_path: str) -> None:
    """Run the requested blocks. The parent process handles interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
        os.register_at_fork(after_in_child=connection.close)
    tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
    reader = threading.Thread(target=_read, args=(connection, parent, tasks, stack_path), daemon=True)
    with open(stack_path, "wb") as stack, contextlib.suppress(OSError):  # the parent has closed the pipe
        reader.start()
        worker = os.getpid()
        while True:
            answer = tasks.get().answer(stack)
            if os.getpid() != worker:  # the work has forked, and its child has returned
                os._exit(0)
            connection.send_bytes(answer)


def _read(connection: Connection, parent: int, tasks: queue.SimpleQueue[_Task], stack_path: str) -> None:
    works: dict[bytes, _Work] = {}
    waiting: dict[int, _Task] = {}
    try:
        while True:
            while not connection.poll(_PARENT):
                if os.getppid() != parent:  # another process that it has started holds the pipe open
                    return
            kind, *content = pickle.loads(connection.recv_bytes())
            if kind == "work":
                works[content[0]] = _Work(content[1])
            elif kind == "forget":
                del works[content[0]]
            elif kind == "block":
                number, digest, arguments, limit = content
                waiting[number] = _Task(number, works[digest], arguments, limit, waiting)
                tasks.put(waiting[number])
            else:
                for number in content[0]:
                    if number in waiting:
                        waiting[number].cancelled = True
    finally:  # the pipe is closed, a message is incomplete, or the parent has ended
        with contextlib.suppress(OSError):
            os.unlink(stack_path)
        if hasattr(os, "killpg"):
            os.killpg(0, signal.SIGKILL)
        os._exit(1)


class _Work:
    """Work that is unpickled when first needed, in the thread that runs it."""

    def __init__(self, pickled: bytes) -> None:
        self._pickled = pickled
        self._work: Callable[..., Any] | None = None

    def loaded(self) -> Callable[..., Any]:
        """Return the function, unpickled the first time."""
        work: Callable[..., Any] = self._work or unpickled("the simulator or the policy", self._pickled)
        self._work = work
        return work


class _Task:
    """A requested block. Tasks that have not begun are in `waiting`, where the reader finds those to cancel."""

    def __init__(
        self, number: int, work: _Work, arguments: bytes, limit: float | None, waiting: dict[int, _Task]
    ) -> None:
        self.cancelled = False
        self._number, self._work, self._arguments, self._limit, self._waiting = number, work, arguments, limit, waiting

    def answer(self, stack: BinaryIO) -> bytes:
        """Run the block; return the message for the parent process.

        Beyond the time limit the process ends, also if the block holds the GIL, and leaves its stack in this file.
        """
        self._waiting.pop(self._number, None)
        if self.cancelled:
            return _HEADER.pack(self._number, False)
        try:
            work, arguments = self._work.loaded(), unpickled("the arguments of a block", self._arguments)
            if self._limit is not None:
                faulthandler.dump_traceback_later(self._limit, exit=True, file=stack)
            return _HEADER.pack(self._number, True) + pickled_result(run_block(work, arguments))
        except Exception as error:
            return _HEADER.pack(self._number, False) + pickled_error(error)
        finally:
            faulthandler.cancel_dump_traceback_later()
