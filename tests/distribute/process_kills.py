"""A process pool under attack for a long time: results, memory and open files of this process, processes left behind.

As a program: ``python tests/distribute/process_kills.py --minutes 30``. A worker is killed every two seconds.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import threading
import time
from pathlib import Path

import numpy as np

from jmdp.distribute import ProcessPool, SerialPool
from jmdp.errors import WorkerError

BLOCKS = 40


class Walk:
    """Sums of random walks: a pure function of the block that takes 10 to 100 ms."""

    def __call__(self, block: int) -> np.ndarray:
        time.sleep(0.1 if block % 8 == 0 else 0.01)
        return np.random.default_rng(block).standard_normal(20_000).cumsum()


def digest(pool: SerialPool | ProcessPool) -> str:
    """All results of a call."""
    told = hashlib.sha256()
    for array in pool.ordered(Walk(), ((block,) for block in range(BLOCKS))):
        told.update(array.tobytes())
    return told.hexdigest()


def children(parent: int) -> list[int]:
    """Worker processes of a process."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (path / "stat").read_text().rsplit(")", 1)[1].split()
            if int(after_name[1]) == parent and b"spawn_main" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def resident_and_files() -> tuple[float, int]:
    """Resident memory of this process in MB, and its open files."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6, len(list(Path("/proc/self/fd").iterdir()))


class Killer(threading.Thread):
    """Kills a random worker of this process at a random time, about every `seconds`."""

    def __init__(self, seconds: float, seed: int) -> None:
        super().__init__(daemon=True)
        self.kills, self._seconds, self._rng, self._over = 0, seconds, random.Random(seed), threading.Event()

    def run(self) -> None:
        """Kill until stopped."""
        while not self._over.wait(self._seconds * self._rng.uniform(0.5, 1.5)):
            workers = children(os.getpid())
            if workers:
                try:
                    os.kill(self._rng.choice(workers), signal.SIGKILL)
                except ProcessLookupError:
                    continue
                self.kills += 1

    def stop(self) -> None:
        """Kill no more."""
        self._over.set()
        self.join()


def soak(minutes: float, seconds: float, seed: int, say: bool) -> tuple[int, int, int, int, list[tuple[float, int]]]:
    """Calls, those with another result, those that gave up, kills, and memory and files after each part of the time."""
    expected, end, marks = digest(SerialPool()), time.monotonic() + 60 * minutes, []
    calls = different = gave_up = 0
    killer = Killer(seconds, seed)
    killer.start()
    told = time.monotonic()
    with ProcessPool(2) as pool:
        while time.monotonic() < end or calls < 2 or killer.kills < 3:
            try:
                different += digest(pool) != expected
            except WorkerError as error:
                if not error.killed:
                    raise
                gave_up += 1
            calls += 1
            if time.monotonic() >= told:
                marks.append(resident_and_files())
                told += 60 * minutes / 10
                if say:
                    print(
                        f"{calls} calls, {killer.kills} kills, {marks[-1][0]:.0f} MB, {marks[-1][1]} files", flush=True
                    )
        killer.stop()
    return calls, different, gave_up, killer.kills, marks


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seconds", type=float, default=2.0, help="between kills, on average")
    parser.add_argument("--seed", type=int, default=43)
    given = parser.parse_args()
    calls, different, gave_up, kills, marks = soak(given.minutes, given.seconds, given.seed, say=True)
    print(
        f"calls {calls}, different {different}, gave up {gave_up}, kills {kills}, left behind {children(os.getpid())}"
    )
    print(f"memory {marks[1][0]:.0f} → {marks[-1][0]:.0f} MB, open files {marks[1][1]} → {marks[-1][1]}")
