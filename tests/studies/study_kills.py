"""A study that is killed at any moment and resumed: its files must equal those of an uninterrupted run, byte for byte.

As a program: ``python tests/studies/study_kills.py --random 100 --every-write --storm 200``. Killed at every write are
an undisturbed study, one whose blocks finish in another order, one that simulates a missing part again, and one that
tries failed states again. In the storm the drivers of studies with two worker processes, or one of their workers, are
killed every 0.3 to 2 seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import jmdp
from jmdp.distribute import Pool, SerialPool
from jmdp.errors import WorkerError
from jmdp.simulators import Simulator, Step, action_labels
from jmdp.studies import driver
from jmdp.worlds import windy_gridworld

WORLD = windy_gridworld(3, 3)
WATCHED = ("write", "fsync", "replace", "ftruncate", "unlink")


def study(path: Path, pool: Any = None, simulator: Any = WORLD, **given: Any) -> jmdp.studies.Study:
    """A study of eight states in two rungs."""
    policy = next(iter(WORLD.policies.values()))
    settings = {"seed": 5, "path": path, "max_samples": 100, "horizon": 40, "pool": pool, "progress": False}
    return jmdp.study(simulator, policy, **settings | given)


class PlantedPool(Pool):
    """Pool of this process in which workers seem to end: what the driver of a study does then, without waiting.

    `kills` and `crashes`: how often a block with this state ends its worker, from outside or by itself.
    """

    workers = 1

    def __init__(self, kills: Mapping[int, int] | None = None, crashes: Mapping[int, int] | None = None) -> None:
        self._plan = {"killed": Counter(kills or {}), "crashed": Counter(crashes or {})}
        self.ran: list[int] = []  # numbers of states that were simulated, in order

    def ordered(self, work: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> Generator[Any, None, None]:
        """Yield the results, up to a planted end of a worker."""
        for (block,) in arguments:
            for cause, left in self._plan.items():
                for number in block.numbers:
                    if left[number]:
                        left[number] -= 1
                        raise WorkerError(f"the worker {cause} at state {number}", cause == "killed")
            yield from SerialPool().ordered(work, [(block,)])
            self.ran += block.numbers


class Kind(NamedTuple):
    """A study that is killed: what is in the folder before, and the call."""

    prepare: Callable[[Path, Path], None]  # folder of the whole study, and of this one
    call: Callable[[Path], Any]


def nothing(whole: Path, path: Path) -> None:
    """No study is in the folder."""


def without_parts(whole: Path, path: Path) -> None:
    """A part is missing."""
    shutil.copytree(whole, path)
    sorted((path / "parts").iterdir())[2].unlink()


def with_failures(whole: Path, path: Path) -> None:
    """Two states have failed, one of which waits for the second rung if it is tried again."""
    study(path, Faulty())


def other_order(path: Path) -> Any:
    """The workers of three states are killed once."""
    driver._PAUSES = (0.0,) * 6
    return study(path, PlantedPool(kills={0: 1, 3: 2, 5: 1}))


def tried_again(path: Path) -> Any:
    """Failed states are tried again."""
    return study(path, retry_failed=True)


class Faulty(PlantedPool):
    """A pool in which two states end their workers by themselves."""

    def __init__(self) -> None:
        super().__init__(crashes={1: 10**6, 6: 10**6})


KINDS = {
    "undisturbed": Kind(nothing, study),
    "in another order": Kind(nothing, other_order),
    "with a missing part": Kind(without_parts, study),
    "tried again": Kind(with_failures, tried_again),
}


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


def killed(
    path: Path, prepare: Callable[[], None], seconds: float | None = None, call: Callable[[Path], Any] = study
) -> bool:
    """Run the study in a child process; True if the child was killed."""
    child = os.fork()
    if child == 0:
        prepare()
        try:
            call(path)
        except BaseException:
            os._exit(3)
        os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)


def at_every_write(folder: Path, kind: Kind, step: int = 1) -> tuple[int, int]:
    """Kill at every `step`-th watched call, before and after it; return the numbers of kills and of differences."""
    study(folder / "whole")
    expected, kills, different, event = digest(folder / "whole"), 0, 0, 1
    while True:
        dead = False
        for half in (False, True):
            path = folder / f"{event}-{half}"
            kind.prepare(folder / "whole", path)
            dead = killed(path, partial(die_at, event, half), call=kind.call)
            kills += dead
            study(path, retry_failed=kind.call is tried_again)
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


# ------------------------------------------------------------------------------------------------------- storm


class Slow(Simulator):
    """A walk on a line whose steps take a while."""

    actions = action_labels(["left", "stay", "right"])
    discount = 0.9

    def step(self, state: float, action: int, shock: Any) -> Step:
        """Rest, and move."""
        time.sleep(1e-4)
        after = state + action - 1 + 0.3 * shock.generator().standard_normal()
        return Step(-abs(after) - 0.02 * action, after, False)


def stay(state: float) -> int:
    """The policy."""
    return 1


def slow_study(path: Path, pool: Any = None) -> jmdp.studies.Study:
    """A study of 24 states that takes about four seconds in one process."""
    states = {f"at {k}": k / 4 for k in range(24)}
    return jmdp.study(Slow(), stay, states, seed=3, path=path, max_samples=100, horizon=2, pool=pool, progress=False)


def started_by(pid: int) -> dict[int, bytes]:
    """Processes that any thread of a process has started, with their commands."""
    found = {}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for child in task.read_text().split():
                found[int(child)] = Path(f"/proc/{child}/cmdline").read_bytes()
    return found


def is_alive(pid: int, command: bytes) -> bool:
    """Whether a process runs that was started with this command; another may have its number now."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() == command != b""
    except (FileNotFoundError, ProcessLookupError):
        return False


def storm(folder: Path, studies: int, seed: int) -> tuple[int, int, int]:
    """Kill drivers and workers until each study is finished; numbers of kills, differences and processes left."""
    slow_study(folder / "whole")
    expected, kills, different = digest(folder / "whole"), 0, 0
    rng, seen = np.random.Generator(np.random.Philox(seed)), dict[int, bytes]()
    for number in range(studies):
        path = folder / f"storm-{number}"
        while not (path.exists() and jmdp.studies.Study.open(path).progress.complete):
            kills += stormy_run(path, rng, seen)
        slow_study(path)  # ends what was killed after the last state
        different += digest(path) != expected
        print(f"{number + 1} studies, {kills} kills, {different} differences", file=sys.stderr, flush=True)
    end = time.monotonic() + 10
    while (left := sum(is_alive(pid, command) for pid, command in seen.items())) and time.monotonic() < end:
        time.sleep(0.1)
    return kills, different, left


def stormy_run(path: Path, rng: np.random.Generator, seen: dict[int, bytes]) -> int:
    """Run a study until it or its driver ends; the number of kills. `seen`: command of each process it has started.

    A driver is rarely killed before it has finished a state, and workers are killed in one of four cases if none was
    finished since the last kill, so that the storm ends on a slow machine, too.
    """

    def lines() -> int:
        ledger = path / "ledger.jsonl"
        return ledger.read_bytes().count(b"\n") if ledger.exists() else 0

    before, kills = max(1, lines()), 0
    at_last_kill = 0
    with subprocess.Popen(
        [sys.executable, __file__, "--one", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        while True:
            try:
                process.wait(float(rng.uniform(0.3, 2)))
            except subprocess.TimeoutExpired:
                started = started_by(process.pid)
                seen |= started
                workers = [pid for pid, command in started.items() if b"spawn_main" in command]
                if rng.random() < (0.2 if lines() > before else 0.02):
                    victim = process.pid
                elif workers and (lines() > at_last_kill or rng.random() < 0.25):
                    victim = workers[int(rng.integers(len(workers)))]
                else:
                    continue
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
                kills, at_last_kill = kills + 1, lines()
                continue
            said = process.communicate()[1]
            if process.returncode not in (0, -signal.SIGKILL):
                raise RuntimeError(f"the study ended with {process.returncode}: {said}")
            return kills


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random", type=int, default=0, help="number of kills at random times")
    parser.add_argument("--every-write", action="store_true")
    parser.add_argument("--step", type=int, default=1, help="with --every-write: only at every so many")
    parser.add_argument("--seed", type=int, default=25)
    parser.add_argument("--storm", type=int, default=0, help="number of studies whose drivers and workers are killed")
    parser.add_argument("--one", type=Path, help="run one study of the storm in this folder")
    given = parser.parse_args()
    if given.one is not None:
        slow_study(given.one, 2)
        sys.exit()
    with tempfile.TemporaryDirectory() as place:
        if given.every_write:
            for name, kind in KINDS.items():
                found = at_every_write(Path(place) / name, kind, given.step)
                print(f"kills at writes, {name}, and differences:", *found)
        if given.storm:
            print("kills in the storm, differences and processes left:", *storm(Path(place), given.storm, given.seed))
        if given.random:
            print("kills at random times, and differences:", *at_random(Path(place) / "r", given.random, given.seed))
