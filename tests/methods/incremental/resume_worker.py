"""Runs that are killed and resumed: one process imports and compiles, and forks children that die.

``python resume_worker.py random DIRECTORY KILLS`` or ``every DIRECTORY STRIDE``; figures come out as lines of JSON.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import sys
import time
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from tqdm import tqdm

import jmdp
from jmdp.base import whole_files
from jmdp.methods.incremental import ConstantSteps, TrajectorySampling, incremental, stochastic_approximation

WINDY = jmdp.worlds.windy_gridworld(3, 3)
STOCK = jmdp.worlds.inventory(3, most_ordered=2, mean_demand=1.5, discount=0.7)
BANDIT = jmdp.worlds.anti_correlated_bandit()
CASES = {
    "blocks, centred": (
        WINDY,
        "careless",
        jmdp.Local(),
        jmdp.Incremental(seed=1, updates=200_000),
    ),
    "blocks, not centred": (
        STOCK,
        "base_stock",
        jmdp.Synchronous("shared"),
        jmdp.Incremental(seed=2, updates=200_000, centred=False, steps=ConstantSteps(0.1)),
    ),
    "walks, not centred": (
        WINDY,
        "careless",
        jmdp.Independent(),
        jmdp.Incremental(seed=3, updates=200_000, centred=False, sampling=TrajectorySampling()),
    ),
    "walks, centred, stopped early": (
        STOCK,
        "uniform",
        jmdp.Local(),
        jmdp.Incremental(seed=4, updates=6_400_000, tolerance=0.1, sampling=TrajectorySampling(0.3)),
    ),
}
SMALL = (
    BANDIT,
    "uniform",
    jmdp.Local(),
    jmdp.Incremental(seed=5, updates=4_000, steps=ConstantSteps(0.1)),
)


def evaluate(case, **settings):
    world, policy, coupling, method = case
    method = replace(method, **settings)
    return jmdp.evaluate(world.model, world.policies[policy], coupling, method, throw=False, progress=False)


def digest(result) -> str:
    """SHA-256 of all numbers of a result."""
    total = hashlib.sha256(result.outcome.name.encode())
    c, curve = result.certificate, result.learning
    for array in (
        *(result.mean, result.covariance),
        *(c.mean_error, c.covariance_error, c.gap_mean_error, c.gap_variance_error, c.correlation_error),
        *(curve.updates, curve.rms, curve.drift),
    ):
        total.update(np.ascontiguousarray(array).tobytes())
    S, A = result.mean.shape
    for s, t in ((0, S - 1), (S // 2, 0), (S // 3, S - 1)):
        try:
            value = result.cross_covariance(s, 0, t, A - 1)
        except jmdp.errors.UnavailableError:  # where no walk came by
            value = np.nan
        total.update(np.float64(value).tobytes())
    return total.hexdigest()


def life(case, path: Path, pipe: int, **settings) -> None:
    """A child: run, and say on the pipe when a segment begins and what came out."""
    work = stochastic_approximation.StochasticApproximation.advance

    def advance(self, segment):
        os.write(pipe, b"!")
        work(self, segment)

    stochastic_approximation.StochasticApproximation.advance = advance
    found = digest(evaluate(case, path=path, **settings))
    os.write(pipe, found.encode())


def fork(work) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    return child


def killed(child: int) -> bool:
    """Wait for a child; it was killed or ended well."""
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert status == 0, "a child failed"
    return False


def segments_saved(path: Path) -> int:
    if not path.exists():
        return 0
    with np.load(path) as archive:
        return int(archive["done"][0])


def killed_at_random(case, path: Path, kills: int, rng: np.random.Generator) -> dict[str, object]:
    """Kill and resume until there were so many kills; runs that finish in between are checked, and begun anew."""
    plain = evaluate(case)
    expected = digest(plain)
    evaluate(case, path=path)
    segments = segments_saved(path)
    path.unlink()
    done, positions, torn, finished, longest = 0, set(), 0, [], 0
    while True:
        last = done == kills
        reader, writer = os.pipe()
        child = fork(lambda pipe=writer, wait=30 if last else 0: life(case, path, pipe, checkpoint_seconds=wait))
        os.close(writer)
        said = b""
        with open(reader, "rb", buffering=0) as pipe:
            if not last:  # let some segments begin, and a part of one more pass
                said = b"".join(pipe.read(1) for _ in range(1 + int(rng.integers(2 * segments // kills))))
                time.sleep(float(rng.random()) * 0.015)
                os.kill(child, signal.SIGKILL)
            was_killed = killed(child)
            said += pipe.readall()
        if was_killed:
            assert said.startswith(b"!"), "it was not at work yet"
            done += 1
            torn += path.with_name(f".{path.name}.part").exists()
            positions.add(segments_saved(path))
        else:
            finished.append(said.lstrip(b"!").decode())
            longest = max(longest, segments_saved(path))
            left = sorted(os.listdir(path.parent))
            if last:
                break
            path.unlink()
    return {
        "outcome": plain.outcome.name,
        "kills": done,
        "positions": len(positions),
        "in a save": torn,
        "segments": longest,
        "finished": len(finished),
        "equal": all(found == expected for found in finished),
        "left": left,
    }


class Deadly:
    """Kills the process before or after the n-th call that touches the disk."""

    def __init__(self, fatal: int | None = None, after: bool = False) -> None:
        self.fatal, self.after, self.calls = fatal, after, []

    def __call__(self, function, *arguments):
        mine = len(self.calls)
        self.calls.append(function.__name__)
        if mine == self.fatal and not self.after:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return function(*arguments)
        finally:
            if mine == self.fatal:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function):
        return lambda *arguments: self(function, *arguments)

    def install(self) -> None:
        deadly = self

        class File(io.BufferedWriter):
            """A file whose every write reaches the system at once, so that it can be torn there."""

            def write(self, data):
                def write():
                    size = io.BufferedWriter.write(self, data)
                    self.flush()
                    return size

                return deadly(write)

        whole_files.open = lambda handle, mode: File(io.FileIO(handle, mode))
        os.fsync, os.replace, os.unlink = map(self.around, (os.fsync, os.replace, os.unlink))


def first_save(case, path: Path, deadly: Deadly, pipe: int | None = None) -> None:
    """A child: resume, do a segment and save once, with calls that kill."""
    save, before = whole_files.save, segments_saved(path)

    def once(path, arrays):
        if arrays["done"][0] == before:
            return
        deadly.install()
        save(path, arrays)
        if pipe is not None:
            os.write(pipe, " ".join(deadly.calls).encode())
        os._exit(0)

    whole_files.save = once
    evaluate(case, path=path, checkpoint_seconds=0)


def most_of(case, path: Path) -> None:
    """A child: leave the checkpoint of a run that is nearly over."""
    incremental.segments = lambda *settings, **others: list(stochastic_approximation.segments(*settings, **others))[
        :-20
    ]
    evaluate(case, path=path)


def killed_at_every_call(case, path: Path, stride: int) -> dict[str, object]:
    """Kill before and after each removal, fsync and rename of a save, and each `stride`-th write.

    Of the first save and of one that has an older one to replace.
    """
    expected = digest(evaluate(case))
    path.parent.mkdir()
    old = path.with_suffix(".old")
    assert not killed(fork(lambda: most_of(case, old)))
    reader, writer = os.pipe()
    assert not killed(fork(lambda: first_save(case, path, Deadly(), writer)))
    calls = os.read(reader, 1 << 16).decode().split()
    fatal = [i for i, call in enumerate(calls) if call != "write" or i % stride == 0]
    kept, wrong, left = Counter(), [], set()
    for later, after, i in product((False, True), (False, True), fatal):
        path.unlink(missing_ok=True)
        if later:
            shutil.copy(old, path)
        before = segments_saved(path)
        assert killed(fork(lambda i=i, after=after: first_save(case, path, Deadly(i, after))))
        kept["part"] += path.with_name(f".{path.name}.part").exists()
        now = segments_saved(path)
        kept["old" if now == before else "new" if now == before + 1 else "other"] += 1
        reader, writer = os.pipe()
        child = fork(lambda pipe=writer: life(case, path, pipe, checkpoint_seconds=30))
        os.close(writer)
        with open(reader, "rb") as pipe:
            assert not killed(child)
            if pipe.read().lstrip(b"!").decode() != expected:
                wrong.append((later, after, i))
        left |= set(os.listdir(path.parent))
    return {
        "calls": Counter(calls),
        "last": calls[-3:],
        "points": 4 * len(fatal),
        **kept,
        "wrong": wrong,
        "left": sorted(left),
    }


def main() -> None:
    what, directory, number = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    tqdm.monitor_interval = 0  # no thread: a process that forks must have one only
    stochastic_approximation._SEGMENT = 4_096  # so that batches have several segments, as in large runs
    if what == "every":
        print(json.dumps(killed_at_every_call(SMALL, directory / "every" / "run.npz", number)))
        return
    rng = np.random.default_rng(20_251)
    for name, case in CASES.items():
        place = directory / name
        place.mkdir()
        print(json.dumps({"case": name, **killed_at_random(case, place / "run.npz", number, rng)}), flush=True)


if __name__ == "__main__":
    main()
