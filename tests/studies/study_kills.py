"""A study that is killed at any moment and resumed: its files must equal those of an uninterrupted run, byte for byte.

As a program: ``python tests/studies/study_kills.py --random 100 --every-write``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import jmdp
from jmdp.worlds import windy_gridworld

WORLD = windy_gridworld(3, 3)
WATCHED = ("write", "fsync", "replace", "ftruncate")


def study(path: Path, pool: Any = None) -> jmdp.Study:
    """A study of eight states in two rungs."""
    policy = next(iter(WORLD.policies.values()))
    return jmdp.study(WORLD, policy, seed=5, path=path, budget=100, horizon=40, pool=pool, progress=False)


def digest(path: Path) -> str:
    """All files of a study: names and contents."""
    total = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        if file.is_file():
            total.update(str(file.relative_to(path)).encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def die_at(event: int, half: bool) -> None:
    """Kill this process at a write, fsync, rename or truncation: before it, or, with `half`, after a part of it."""
    seen = 0

    def watched(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen == event:
                if half:
                    original(*((args[0], bytes(args[1])[: len(args[1]) // 2]) if name == "write" else args))
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args)

        return call

    for name in WATCHED:
        setattr(os, name, watched(name, getattr(os, name)))


def killed(path: Path, prepare: Callable[[], None], seconds: float | None = None) -> bool:
    """Run the study in a child process; True if the child was killed."""
    child = os.fork()
    if child == 0:
        prepare()
        try:
            study(path)
        except BaseException:
            os._exit(3)
        os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)


def at_every_write(folder: Path, step: int = 1) -> tuple[int, int]:
    """Kill at every `step`-th watched call, before and after it; return the numbers of kills and of differences."""
    study(folder / "whole")
    expected, kills, different, event = digest(folder / "whole"), 0, 0, 1
    while True:
        dead = False
        for half in (False, True):
            path = folder / f"{event}-{half}"
            dead = killed(path, lambda event=event, half=half: die_at(event, half))
            kills += dead
            study(path)
            different += digest(path) != expected
        if not dead:
            return kills, different
        event += step


def at_random(folder: Path, kills: int, seed: int) -> tuple[int, int]:
    """Kill at random times, resuming each study until it ends; return the numbers of kills and of differences."""
    begun = time.monotonic()
    study(folder / "whole")
    usual, expected = time.monotonic() - begun, digest(folder / "whole")
    rng, done, different, number = np.random.Generator(np.random.Philox(seed)), 0, 0, 0
    while done < kills:
        path, number = folder / f"random-{number}", number + 1
        while done < kills and killed(path, lambda: None, float(rng.uniform(0, 0.7 * usual))):
            done += 1
        study(path)
        different += digest(path) != expected
    return done, different


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random", type=int, default=0, help="number of kills at random times")
    parser.add_argument("--every-write", action="store_true")
    parser.add_argument("--step", type=int, default=1, help="with --every-write: only at every so many")
    parser.add_argument("--seed", type=int, default=25)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        if given.every_write:
            print("kills at writes, and differences:", *at_every_write(Path(place), given.step))
        if given.random:
            print("kills at random times, and differences:", *at_random(Path(place) / "r", given.random, given.seed))
