"""No worker process is left behind: after an interrupt, after the end of the parent, or when a pool is forgotten."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from process_kills import children, soak
from test_pools import blocks, processes, slow_first

import jmdp
from jmdp.distribute import ProcessPool

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")

SLOW = """
import os, pathlib, sys, time
from jmdp.distribute.process_pool import pool_of
from test_pools import Noted, blocks
if __name__ == "__main__":
    with pool_of(2) as pool:
        found = pool.ordered(Noted(pathlib.Path(sys.argv[1]), float(sys.argv[2])), blocks(10**6))
        for _ in found:
            if sys.argv[3] == "fork and kill" and os.fork() == 0:
                time.sleep(300)  # this child holds the pipes open
                os._exit(0)
            time.sleep(9999)  # the consumer
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def all_end(pids: list[int]) -> None:
    latest = time.monotonic() + 60
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < latest, "workers are still running"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("how", "where"),
    [
        ("interrupt", "pool"),
        ("interrupt", "consumer"),
        ("kill", "pool"),
        ("interrupt all", "pool"),
        ("fork and kill", "consumer"),
    ],
)
def test_no_worker_is_left_behind(how, where, tmp_path):
    """An interrupt, of the process or of its whole group as by Ctrl-C, or the sudden end of the parent process."""
    here = Path(__file__)
    paths = os.pathsep.join(map(str, [Path(jmdp.__file__).parents[1], here.parents[1], here.parent]))
    command = [sys.executable, "-c", SLOW, str(tmp_path), "9999" if where == "pool" else "0", how]
    environment = {**os.environ, "PYTHONPATH": paths}
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, env=environment) as run:
        workers = []
        try:
            while len(list(tmp_path.iterdir())) < (2 if where == "pool" else 4):
                assert run.poll() is None
                time.sleep(0.05)
            workers = children(run.pid)
            assert len(workers) == 2
            if how == "interrupt all":
                os.killpg(run.pid, signal.SIGINT)
            else:
                run.send_signal(signal.SIGINT if how == "interrupt" else signal.SIGKILL)
            run.wait()
            all_end(workers)
            if how == "fork and kill":
                os.killpg(run.pid, signal.SIGKILL)
            told = run.stderr.read()  # workers hold this pipe open
            assert told.count(b"Traceback") == told.count(b"KeyboardInterrupt") == ("kill" not in how), told.decode()
        finally:
            run.kill()
            for pid in filter(is_alive, workers):
                os.kill(pid, signal.SIGKILL)


def test_forgotten_pools_end_their_workers():
    pool = ProcessPool(2)
    found = pool.ordered(slow_first, blocks(100))
    assert next(found) == 0
    workers = sorted(processes(pool))
    assert all(is_alive(pid) for pid in workers)
    del pool, found
    gc.collect()
    all_end(workers)


def test_a_soak_with_kills_changes_nothing_and_leaves_nothing_behind():
    """At least two calls and three kills; thirty minutes in the long run: tests/distribute/process_kills.py."""
    _, different, _, _, marks = soak(0.05, 1.0, seed=43, say=False)
    assert not different
    assert abs(marks[-1][1] - marks[0][1]) <= 6  # a worker that is being replaced has three
    assert marks[-1][0] < marks[0][0] + 30  # MB
    assert not children(os.getpid())
