"""What a child that reads a file may do, for the tests of its guard."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from jmdp.base import guard
from jmdp.errors import FileError, SimulatorError


def arrays(path: str, count: int) -> guard.Plain:
    print("a library that prints")
    made = {
        "numbers": np.arange(count, dtype=">f8").reshape(-1, 1).T,
        "flags": np.array([True, False]),
        "none": np.empty((0, 3), np.int64),
        "one": np.array(7, np.uint16),
    }
    return [path, None, {"text": "\udc80é"}], made


def limits(path: str) -> guard.Plain:
    import resource

    names = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_NOFILE")
    return {name: resource.getrlimit(getattr(resource, name)) for name in names}, {}


def states_error(path: str, text: str) -> guard.Plain:
    raise FileError(text)


def states_other_error(path: str) -> guard.Plain:
    raise SimulatorError("not an error of a reader")


def breaks(path: str) -> guard.Plain:
    raise ZeroDivisionError("in a library")


def takes_memory(path: str) -> guard.Plain:
    return None, {"much": np.ones(guard.MEMORY // 4)}


def takes_memory_by_pieces(path: str) -> guard.Plain:
    return len([bytes(1000) for _ in range(guard.MEMORY // 1000)]), {}


def aborts(path: str) -> guard.Plain:
    os.abort()


def exits(path: str) -> guard.Plain:
    os._exit(0)


def hangs(path: str) -> guard.Plain:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    while True:
        time.sleep(1)


def leaves_a_process(path: str) -> guard.Plain:
    """A process that holds the pipe."""
    if not os.fork():
        time.sleep(30)
    os._exit(0)


def writes(path: str) -> guard.Plain:
    Path(path).write_text("not wanted")
    return None, {}


def says(path: str, answer: str) -> guard.Plain:
    """A child that was taken over, and writes any bytes."""
    _write(bytes.fromhex(answer))
    time.sleep(30)
    return None, {}


def _write(data: bytes) -> None:
    os.write(max(int(name) for name in os.listdir("/proc/self/fd") if _is_pipe(name)), data)


def _is_pipe(name: str) -> bool:
    try:
        return int(name) > 2 and os.readlink(f"/proc/self/fd/{name}").startswith("pipe:")
    except OSError:
        return False


def modules(path: str) -> guard.Plain:
    return sorted({name.partition(".")[0] for name in sys.modules}), {}
