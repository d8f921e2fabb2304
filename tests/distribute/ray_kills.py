"""Runs on Ray in which workers are killed: the answer must equal that of a serial run, bit for bit.

As a program: ``python tests/distribute/ray_kills.py --runs 100``. Every run has at least five kills.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

import jmdp
from jmdp.base.luck import Shock
from jmdp.distribute import Pool, SerialPool
from jmdp.simulators import Simulator, Step, action_labels

KILLS = 5
NAME = b"ray::jmdp blocks"


class Uneven(Simulator):
    """One episode in eight takes 40 times as long as the others, and earns more."""

    actions = action_labels(3)
    discount = 1.0

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def start(self, shock: Shock) -> int:
        """The number of steps taken."""
        return 0

    def step(self, state: int, action: int, shock: Shock) -> Step:
        """A step that takes `seconds`."""
        time.sleep(self.seconds)
        rng = shock.generator()
        long, noise = rng.random() < 1 / 8, rng.standard_normal(4)
        reward = 0.25 * (action == 1) + noise[0] + 0.6 * noise[1 + action] if state == 0 else 0.05
        after = state + 1 if state else (-38 if long else 1)
        return Step(reward, after, after >= 2 or after == 0)


def policy(state: int) -> int:
    """Always the first action."""
    return 0


def stopped_early(pool: Pool | None, seconds: float = 0.002) -> str:
    """`compare`, which stops when it is decided: blocks in flight are then cancelled."""
    found = jmdp.compare(Uneven(seconds), policy=policy, seed=11, horizon=60, pool=pool, progress=False)
    assert found.outcome is jmdp.results.Outcome.BEST_FOUND, found
    told = f"{found.counts} {found.summary.samples.steps} {found!r}"
    return digest(found.summary.samples.returns.tobytes(), told.encode())


def all_blocks(pool: Pool | None) -> str:
    """All of a fixed number of blocks, some of them long."""
    found = (pool or SerialPool()).ordered(block, ((i,) for i in range(60)))
    return digest(*(array.tobytes() for array in found))


def study(pool: Pool | None) -> str:
    """A study of 24 states: all files that it writes."""
    with tempfile.TemporaryDirectory() as folder:
        path, states = Path(folder), {f"start {k}": 0 for k in range(24)}
        given = {"seed": 11, "max_samples": 64, "horizon": 60, "path": path, "pool": pool, "progress": False}
        found = jmdp.study(Uneven(0.0003), policy, states, **given)
        assert found.progress.complete
        assert not found.progress.failed
        return digest(*(file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()))


def block(i: int) -> np.ndarray:
    """A block; every tenth takes ten times as long."""
    time.sleep(0.5 if i % 10 == 3 else 0.05)
    return np.random.default_rng([5, i]).standard_normal(1000)


def digest(*parts: bytes) -> str:
    """Digest of the parts, in order."""
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


QUESTIONS: dict[str, Callable[[Pool | None], str]] = {
    "stopped early": stopped_early,
    "all blocks": all_blocks,
    "study": study,
}


# ------------------------------------------------------------------------------------------------ adversaries


def busy() -> list[int]:
    """Processes that run blocks now."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(NAME):
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


class Adversary:
    """Kills workers during a run, at least `KILLS` of them, and counts them."""

    def __init__(self, moment: str, seed: int, cluster: Any = None) -> None:
        self.moment, self.kills, self.removed, self._cluster = moment, 0, 0, cluster
        self._rng, self._stop = np.random.default_rng(seed), threading.Event()
        if moment == "node removed":
            self._victim = sorted(cluster.worker_nodes, key=id)[0]
            cluster.add_node(num_cpus=1)  # only in the main thread

    def kill(self) -> None:
        """Kill one of the busy workers."""
        running = busy()
        if running and self.kills < KILLS:
            os.kill(int(self._rng.choice(running)), signal.SIGKILL)
            self.kills += 1

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Kill workers meanwhile, in a thread."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _run(self) -> None:
        if self.moment == "node removed":
            while not busy():
                time.sleep(0.05)
            self._cluster.remove_node(self._victim, allow_graceful=False)
            self.removed += 1
        while self.kills < KILLS and not self._stop.wait(float(self._rng.uniform(0.05, 0.4))):
            if self.moment != "long blocks only":
                self.kill()
                continue
            before = {pid: _block(pid) for pid in busy()}
            time.sleep(0.15)
            for pid, block in before.items():
                if block and block == _block(pid) and self.kills < KILLS:  # busy with the same block all the time
                    os.kill(pid, signal.SIGKILL)
                    self.kills += 1


def _block(pid: int) -> str:
    """What identifies the block that a process runs: the file of its time limit, and the number in it."""
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if "jmdp-block-" in (name := os.readlink(link)):
                    return name + link.read_text()
    return ""


class JustAfterSending(Pool):
    """A pool whose adversary kills a worker whenever a result has arrived."""

    def __init__(self, pool: Pool, adversary: Adversary) -> None:
        self._pool, self._adversary, self.workers = pool, adversary, pool.workers

    def ordered(self, work: Callable[..., Any], arguments: Any) -> Iterator[Any]:  # type: ignore[override]
        """As the pool, with kills."""
        for result in self._pool.ordered(work, arguments):
            deadline = time.monotonic() + 5
            while self._adversary.kills < KILLS and not busy() and time.monotonic() < deadline:
                time.sleep(0.01)  # the next task has been sent, but no worker runs it yet
            self._adversary.kill()
            yield result


MOMENTS = ("random", "long blocks only", "just after sending", "node removed")


def run(question: str, moment: str, seed: int, cluster: Any) -> tuple[str, Adversary]:
    """Digest of an answer found while workers are killed."""
    adversary = Adversary(moment, seed, cluster)
    with jmdp.distribute.RayPool(seconds_a_task=0.2) as pool:
        if moment == "just after sending":
            return QUESTIONS[question](JustAfterSending(pool, adversary)), adversary
        with adversary.at_work():
            return QUESTIONS[question](pool), adversary


@contextmanager
def logical_nodes(count: int = 2, cpus: int = 1) -> Iterator[Any]:
    """A Ray cluster of logical nodes on this machine, joined by this process."""
    import ray
    from ray.cluster_utils import Cluster

    paths = [str(Path(__file__).parent), str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(count):
            cluster.add_node(num_cpus=cpus)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        os.environ["PYTHONPATH"] = paths[-1]


def main() -> int:
    """Run, and print one line for each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    serial = {name: question(None) for name, question in QUESTIONS.items()}
    wrong = few = 0
    with logical_nodes() as cluster:
        for i in range(options.runs):
            question, moment = list(QUESTIONS)[i // len(MOMENTS) % len(QUESTIONS)], MOMENTS[i % len(MOMENTS)]
            begun = time.monotonic()
            found, adversary = run(question, moment, options.seed + i, cluster)
            equal, enough = found == serial[question], adversary.kills >= KILLS
            wrong, few = wrong + (not equal), few + (not enough)
            print(f"{i:4} {question:14} {moment:20} {adversary.kills} killed, {adversary.removed} nodes removed, "
                  f"{time.monotonic() - begun:5.1f} s, {'equal' if equal else 'DIFFERENT'}", flush=True)  # fmt: skip
    print(f"{options.runs} runs, seed {options.seed}: {wrong} different, {few} with fewer than {KILLS} kills")
    return int(bool(wrong or few))


if __name__ == "__main__":
    sys.exit(main())
