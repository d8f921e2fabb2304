"""RayPool: the results of a serial run, whatever happens to workers; errors that name their block."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from test_pools import Mortal, Noted, Problem, Uneven, Walk, blocks, digest, failing, slow_first

import jmdp
from jmdp.distribute import SerialPool
from jmdp.errors import SettingsError, SimulatorError

ray = pytest.importorskip("ray")
from jmdp.distribute.ray_pool import RayPool  # noqa: E402

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def pool() -> Iterator[RayPool]:
    paths = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    ray.init(num_cpus=4, log_to_driver=False, logging_level="error", include_dashboard=False,
             object_store_memory=100 << 20, runtime_env={"env_vars": {"PYTHONPATH": paths}})  # fmt: skip
    with RayPool(workers=2, time_limit=120) as made:
        yield made
    ray.shutdown()


def tasks() -> list[int]:
    """Processes that run blocks."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::jmdp blocks"):
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


# ------------------------------------------------------------------------------------------------ results


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_p17_results_do_not_depend_on_workers(workers, pool):
    for seconds_a_task in (0.0, None, 5.0):
        one = RayPool(workers=workers, seconds_a_task=seconds_a_task)
        assert digest(one.ordered(Walk(3), blocks(200))) == digest(SerialPool().ordered(Walk(3), blocks(200)))


def test_short_blocks_are_sent_together(pool):
    call = list(pool.ordered(worker_and_task, blocks(2000)))
    assert [i for i, _ in call] == list(range(2000))
    assert len({task for _, task in call}) < 200


def worker_and_task(i: int) -> tuple[int, str]:
    return i, ray.get_runtime_context().get_task_id()


def test_lambdas_are_sent(pool):
    shift = 3
    assert list(pool.ordered(Problem(None, lambda i: i + shift), blocks(3))) == [3, 4, 5]


# ------------------------------------------------------------------------------------------------ killed workers


@pytest.mark.parametrize("moment", ["random", "just after sending", "long blocks only"])
def test_p9_killed_workers_do_not_change_results(moment, pool):
    killed = 0
    rng, stop, expected = np.random.default_rng(1), threading.Event(), digest(Uneven()(i) for i in range(60))

    def kill() -> None:
        nonlocal killed
        running = tasks()
        if running:
            os.kill(int(rng.choice(running)), signal.SIGKILL)
            killed += 1

    def adversary() -> None:
        while not stop.wait(float(rng.uniform(0.2, 0.6))):
            if moment == "random" or (moment == "long blocks only" and set(before := tasks()) & set(after(before))):
                kill()

    def after(before: list[int]) -> list[int]:
        time.sleep(0.08)
        return tasks()

    thread = threading.Thread(target=adversary)
    thread.start()
    found = []
    one = RayPool(workers=2, seconds_a_task=0.0)
    try:
        for result in one.ordered(Uneven(), blocks(60)):
            found.append(result)
            if moment == "just after sending" and killed < 5:
                kill()
    finally:
        stop.set()
        thread.join()
    assert digest(found) == expected
    assert killed


def test_a_block_that_ends_its_worker_once_is_run_again(pool, tmp_path):
    assert digest(pool.ordered(Mortal(tmp_path, (0, 5, 6)), blocks(12))) == digest(Walk(7)(i) for i in range(12))


# ------------------------------------------------------------------------------------------------ errors


def test_errors_are_raised_in_order_with_their_block(pool):
    found = pool.ordered(failing, blocks(10))
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(FileNotFoundError, match="the tank is dry") as told:
        next(found)
    assert "in failing\n" in str(told.value.__cause__)
    (note,) = told.value.__notes__
    assert "with the arguments (3,)" in note
    with pytest.raises(FileNotFoundError, match="the tank is dry"):
        pool.replay(note.split("'")[1])
    with pytest.raises(SettingsError, match=r"key is 'x'\. Give the key of a block that failed"):
        pool.replay("x")


def test_errors_that_cannot_be_pickled(pool):
    with pytest.raises(SimulatorError, match="OddError: no water in the tank") as told:
        list(pool.ordered(failing, [(4,)]))
    assert "Block " in told.value.__notes__[0]


@pytest.mark.parametrize("holds", [False, True])
def test_a_hung_block_is_ended_and_named(holds, pool):
    one = RayPool(workers=2, time_limit=1.5)
    found = one.ordered(HoldsLock() if holds else hanging, blocks(6))
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(SimulatorError, match=r"more than 1\.5 s \(time_limit\)") as told:
        next(found)
    assert "hanging" in str(told.value) or "__call__" in str(told.value)  # the stack
    assert "with the arguments (2,)" in told.value.__notes__[0]
    assert list(one.ordered(slow_first, blocks(2))) == [0, 1]


def hanging(i: int) -> int:
    if i == 2:
        time.sleep(1000)
    return i


class HoldsLock:
    """Never releases the GIL: `pow` of large integers does not."""

    def __call__(self, i: int) -> int:
        return pow(3, 10**9) if i == 2 else i


def test_a_block_that_always_ends_its_process_is_named(pool):
    found = pool.ordered(Mortal(None, (1,)), blocks(4))
    next(found)
    with pytest.raises(SimulatorError, match=r"A Ray task .* failed.*Block .*\(1,\).*ends its process"):
        list(found)


def test_a_full_object_store_is_named(pool):
    with pytest.raises(SimulatorError, match=r"Ray cannot store the simulator and the policy|A Ray task"):
        list(pool.ordered(Problem(np.zeros(150 << 17), slow_first), blocks(2)))


def test_what_cannot_be_sent_is_named_before_ray_is_asked(pool):
    with pytest.raises(SettingsError, match=r"part of the policy, cannot be sent"):
        pool.ordered(Problem(slow_first, threading.Lock()), blocks(2))


# ------------------------------------------------------------------------------------------------ cancelled calls


def test_a_cancelled_call_does_not_disturb_the_next(pool, tmp_path):
    found = pool.ordered(Noted(tmp_path, 0.3), blocks(100))
    assert next(found) == 0
    found.close()
    assert list(pool.ordered(slow_first, blocks(8))) == list(range(8))
    time.sleep(0.5)
    assert len(list(tmp_path.iterdir())) <= 7  # tasks that had not begun were dropped


def test_a_long_cancelled_block_does_not_delay_the_next_call(pool, tmp_path):
    found = pool.ordered(Noted(tmp_path, 0.0), blocks(1))
    list(found)
    found = pool.ordered(Long(tmp_path), blocks(8))
    assert next(found) == 0
    while len(list(tmp_path.iterdir())) < 3:
        time.sleep(0.05)
    found.close()
    assert list(pool.ordered(slow_first, blocks(8))) == list(range(8))


class Long(Noted):
    """The first block is short."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 0.0)

    def __call__(self, i: int) -> int:
        super().__call__(i)
        time.sleep(100 if i else 0)
        return i


# ------------------------------------------------------------------------------------------------ settings


def test_settings(pool):
    copy = pickle.loads(pickle.dumps(pool))
    assert (repr(copy), copy.time_limit) == ("RayPool(None, workers=2)", 120)
    assert RayPool().workers == 4
    for wrong in ({"address": 3}, {"workers": 0}, {"time_limit": -1}, {"cpus_a_task": 0}, {"seconds_a_task": "1"}):
        with pytest.raises(SettingsError, match=next(iter(wrong))):
            RayPool(**wrong)
    assert jmdp.RayPool is RayPool


def test_import_loads_no_ray():
    code = "import sys, jmdp; jmdp.compare; assert not [m for m in sys.modules if m.split('.')[0] == 'ray']"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
