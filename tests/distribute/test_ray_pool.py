"""RayPool: the results of a serial run, whatever happens to workers; errors that name their block."""

from __future__ import annotations

import _thread
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from test_pools import Mortal, Noted, Problem, Walk, blocks, digest, failing, slow_first

import jmdp
from jmdp.distribute import SerialPool
from jmdp.errors import SettingsError, SimulatorError, WorkerError
from jmdp.simulators.rollouts.pair_walks import WalkPlan
from noisy_walk import Drift, policy

ray = pytest.importorskip("ray")
from jmdp.distribute import ray_pool  # noqa: E402
from jmdp.distribute.ray_pool import RayPool  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:os.fork")  # of JAX, if an earlier test has imported it
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def pool() -> Iterator[RayPool]:
    paths = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    ray.init(
        num_cpus=4,
        log_to_driver=False,
        logging_level="error",
        include_dashboard=False,
        object_store_memory=80 << 20,
        runtime_env={"env_vars": {"PYTHONPATH": paths}},
        _system_config={  # the disk, which extends the store, is full
            "automatic_object_spilling_enabled": False,
            "local_fs_capacity_threshold": 1e-4,
            "local_fs_monitor_interval_ms": 100,
        },
    )
    with RayPool(workers=2, time_limit=120) as made:
        yield made
    ray.shutdown()


# ------------------------------------------------------------------------------------------------ results


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_p17_results_do_not_depend_on_workers(workers, pool):
    for seconds_a_task in (0.0, None, 5.0):
        one = RayPool(workers=workers, seconds_a_task=seconds_a_task)
        assert digest(one.ordered(Walk(3), blocks(200))) == digest(SerialPool().ordered(Walk(3), blocks(200)))


SPLIT = {"a": 2.0, "b": 0.4}


def answers(pool: jmdp.distribute.Pool | None) -> list[bytes]:
    """Answers of all functions that sample with a pool."""
    quiet = {"seed": 3, "pool": pool, "progress": False}
    here, policies = Drift(), {"own": policy, "uniform": "uniform"}
    method = jmdp.MonteCarlo(seed=5, samples=40, horizon=8, states=[0.0, 2.0], pool=pool)
    rollouts = jmdp.simulators.PairedRollouts(here, jmdp.as_policy(policy, here.actions), jmdp.Local())
    walks = rollouts.collect(WalkPlan(visits=2, spacing=3, repeats=2, length=4), blocks=4, **quiet)
    found = [
        jmdp.compare(here, policy, state=0.0, horizon=8, **quiet),
        jmdp.compare_policies(here, policies, starts=[0.0, 1.0], horizon=8, max_samples=400, **quiet),
        jmdp.compare_runs({name: Shop(cost) for name, cost in SPLIT.items()}, max_samples=400, **quiet),
    ]
    sampled = jmdp.evaluate(here, policy, jmdp.Local(), method, progress=False)
    arrays = [getattr(walks, name) for name in walks.__dataclass_fields__]
    return [
        *(one.summary.samples.returns.tobytes() + repr(one).encode() for one in found),
        sampled.mean.tobytes() + sampled.covariance.tobytes() + repr(sampled).encode(),
        b"".join(np.asarray(array).tobytes() for array in arrays),
    ]


@dataclass(frozen=True)
class Shop:
    """A run: the profit of a day."""

    cost: float

    def __call__(self, luck: jmdp.Luck) -> float:
        return luck.uniform("demand") - self.cost * luck.uniform("price")


def test_p17_all_functions_on_all_pools(pool, two_workers):
    assert answers(None) == answers(two_workers) == answers(pool)


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 4])
def test_p17_all_functions_on_any_number_of_workers(workers, pool):
    assert answers(None) == answers(RayPool(workers=workers))


def test_short_blocks_are_sent_together(pool):
    call = list(pool.ordered(worker_and_task, blocks(2000)))
    assert [i for i, _ in call] == list(range(2000))
    assert len({task for _, task in call}) < 200


def worker_and_task(i: int) -> tuple[int, str]:
    return i, ray.get_runtime_context().get_task_id()


def test_lambdas_are_sent(pool):
    shift = 3
    assert list(pool.ordered(Problem(None, lambda i: i + shift), blocks(3))) == [3, 4, 5]


# ------------------------------------------------------------------------------------------------ dead workers


def test_a_block_that_ends_its_worker_once_is_run_again(pool, tmp_path):
    assert digest(pool.ordered(Mortal(tmp_path, (0, 5, 6)), blocks(12))) == digest(Walk(7)(i) for i in range(12))


def test_a_signal_to_a_worker_loses_nothing(pool):
    """A worker that is interrupted, as those of a cancelled task are, returns what it has."""
    one = RayPool(workers=1, seconds_a_task=100)
    assert list(one.ordered(interrupted, blocks(60))) == list(range(60))


def interrupted(i: int) -> int:
    if i % 20 == 10:
        _thread.interrupt_main()  # as ray.cancel does
    return i


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
    with pytest.raises(WorkerError, match=r"more than 1\.5 s \(time_limit\)") as told:
        next(found)
    assert not told.value.killed
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


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("segfault", r"signal 11 and signal 11\).*in ending"),
        ("exit", r"exit code 7 and exit code 7\).*The simulator or the policy ends its process"),
        ("SIGKILL", r"signal 9 and signal 9\).*It was killed"),
    ],
    ids=["segfault", "exit", "SIGKILL"],
)
def test_p25_a_block_that_ends_its_process_by_itself_is_told_from_one_that_is_killed(way, said, pool, monkeypatch):
    monkeypatch.setattr(ray_pool, "_RETRIES", 1)
    found = pool.ordered(partial(ending, way), blocks(3))
    assert next(found) == 0
    with pytest.raises(WorkerError, match=f"(?s){said}") as told:
        list(found)
    assert told.value.killed == (way == "SIGKILL")
    assert "with the arguments (1,)" in told.value.__notes__[0]


def ending(way: str, i: int) -> int:
    if i == 1:
        if way == "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        if way == "exit":
            os._exit(7)
        os.kill(os.getpid(), signal.SIGKILL)
    return i


def test_a_task_that_fails_is_sent_again_block_by_block(pool, monkeypatch):
    """The third task has four blocks; the last of them always ends its process."""
    monkeypatch.setattr(ray_pool, "_RETRIES", 1)
    one, found = RayPool(workers=1, seconds_a_task=100), []
    with pytest.raises(WorkerError) as told:
        found.extend(one.ordered(Mortal(None, (6,)), blocks(12)))
    assert "with the arguments (6,)" in told.value.__notes__[0]
    assert digest(found[:0]) != digest(found) == digest(Walk(7)(i) for i in range(6))


def test_a_full_object_store_is_named(pool):
    with pytest.raises(SimulatorError, match=r"Ray cannot store the simulator and the policy .*disk"):
        list(pool.ordered(Problem(np.zeros(150 << 17), slow_first), blocks(2)))
    with pytest.raises(WorkerError, match=r"A Ray task failed: .*disk.* Block .*, with the arguments \(1,\)") as told:
        list(pool.ordered(large, blocks(4)))
    assert told.value.killed


def large(i: int) -> np.ndarray:
    return np.zeros(i * (120 << 17))  # 120 MiB


def test_what_cannot_be_sent_is_named_before_ray_is_asked(pool):
    with pytest.raises(SettingsError, match=r"part of the policy, cannot be sent"):
        pool.ordered(Problem(slow_first, threading.Lock()), blocks(2))
    with pytest.raises(SettingsError, match=r"lock.*, part of the policy, cannot be sent"):  # the lambda can
        pool.ordered(Problem(lambda i: i, threading.Lock()), blocks(2))


# ------------------------------------------------------------------------------------------------ absent clusters


JOIN = """
import sys, jmdp
from jmdp.distribute import ray_pool
ray_pool._JOINING = float(sys.argv[2])
try:
    list(jmdp.distribute.RayPool(sys.argv[1]).ordered(abs, [(1,)]))
except jmdp.errors.SimulatorError as error:
    print(error)
"""


def test_joining_may_take_as_long_as_the_page_on_clusters_says():
    assert ray_pool._JOINING == 20


@pytest.mark.parametrize("listens", [False, True])
def test_an_address_where_no_ray_answers(listens):
    """An error after the time for joining, and the start of a process."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if not listens:
            server.close()
        run = subprocess.run(
            [sys.executable, "-c", JOIN, f"127.0.0.1:{port}", "5"],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    assert f"Cannot join the Ray cluster at '127.0.0.1:{port}': no answer within 5 s" in run.stdout
    assert "ray start --head" in run.stdout


@pytest.mark.parametrize("address", ["nowhere", "ray://127.0.0.1:1"])
def test_addresses_that_ray_refuses(address):
    command = [sys.executable, "-c", JOIN, address, "20"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert f"Cannot join the Ray cluster at '{address}': ValueError: " in run.stdout


def test_a_call_ends_if_no_machine_can_run_its_blocks(pool, monkeypatch):
    monkeypatch.setattr(ray_pool, "_DESERTED", 1.0)
    with pytest.raises(WorkerError, match=r"No block has finished.*the cluster has 4 cores for tasks of 99") as told:
        list(RayPool(workers=1, cpus_a_task=99).ordered(abs, blocks(2)))
    assert told.value.killed


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
    assert jmdp.distribute.RayPool is RayPool


def test_import_loads_no_ray():
    code = "import sys, jmdp; jmdp.compare; assert not [m for m in sys.modules if m.split('.')[0] == 'ray']"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
