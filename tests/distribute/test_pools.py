"""Pools return results in order, the same for any number of workers, and survive cancelled calls and dead workers."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jmdp
from jmdp.distribute import Pool, ProcessPool, SerialPool, pools, worker_process
from jmdp.distribute import process_pool as module
from jmdp.distribute.pickling import Parcel, sendable, unpickled
from jmdp.distribute.process_pool import check_pool, pool_of
from jmdp.errors import SettingsError, SimulatorError, WorkerError


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    with ProcessPool(2) as made:
        yield made


@dataclass
class Walk:
    """Sums of a random walk: a pure function of seed and block."""

    seed: int
    seconds: float = 0.0

    def __call__(self, block: int, steps: int = 100) -> np.ndarray:
        time.sleep(self.seconds)
        return np.random.default_rng([self.seed, block]).standard_normal(steps).cumsum()


def blocks(n: int) -> list[tuple[int]]:
    return [(i,) for i in range(n)]


def digest(arrays: Any) -> str:
    told = hashlib.sha256()
    for array in arrays:
        told.update(array.tobytes())
    return told.hexdigest()


# ------------------------------------------------------------------------------------------------ results


def test_p17_the_same_in_order_for_any_number_of_workers(pool):
    expected = digest(Walk(3)(i) for i in range(20))
    assert digest(SerialPool().ordered(Walk(3), blocks(20))) == expected
    assert digest(pool.ordered(Walk(3), blocks(20))) == expected
    with ProcessPool(4) as four:
        assert digest(four.ordered(Walk(3), blocks(20))) == expected
        assert len(multiprocessing.active_children()) >= 4
    assert digest(pool.ordered(Walk(4), blocks(20))) != expected
    assert list(pool.ordered(Walk(3), [])) == []


def slow_first(i: int) -> int:
    time.sleep(0.3 if i == 0 else 0.0)
    return i


def test_results_wait_for_their_turn(pool):
    assert list(pool.ordered(slow_first, blocks(12))) == list(range(12))


@pytest.mark.parametrize("kind", ["serial", "processes"])
def test_arguments_are_taken_a_few_in_advance(kind, pool):
    taken = []

    def endless() -> Iterator[tuple[int]]:
        while True:
            taken.append(len(taken))
            yield (taken[-1],)

    one, most = (SerialPool(), 1) if kind == "serial" else (pool, 3 * pool.workers)
    found = one.ordered(Walk(0), endless())
    assert not taken
    for i in range(20):
        next(found)
        assert i + 1 <= len(taken) <= i + most
    found.close()


def test_calls_can_be_interleaved_and_nested(pool):
    one, other = pool.ordered(Walk(1), blocks(9)), pool.ordered(Walk(2), blocks(9))
    for i, (a, b) in enumerate(zip(one, other, strict=True)):
        assert digest([a, b]) == digest([Walk(1)(i), Walk(2)(i)])
    inner = pool.ordered(slow_first, blocks(9))
    assert digest(pool.ordered(Walk(1), ((i,) for i in inner))) == digest(Walk(1)(i) for i in range(9))


def test_threads_can_share_a_pool(pool):
    found = {}
    threads = [
        threading.Thread(target=lambda seed=seed: found.update({seed: digest(pool.ordered(Walk(seed), blocks(30)))}))
        for seed in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {seed: digest(Walk(seed)(i) for i in range(30)) for seed in range(3)}


class Draining:
    """Lock before whose second use all answers are received, as by another thread that is faster."""

    def __init__(self, pool):
        self.pool, self.real, self.uses = pool, pool._lock, 0

    def __enter__(self):
        self.real.acquire()
        self.uses += 1
        if self.uses == 2:
            while any(worker.held for worker in self.pool._started):
                self.pool._receive(1.0)

    def __exit__(self, *error):
        self.real.release()

    def acquire(self, blocking=True):
        return self.real.acquire(blocking)

    def release(self):
        self.real.release()


def test_a_thread_whose_blocks_found_no_worker_sends_them_after_others_have_ended(monkeypatch):
    with ProcessPool(2) as pool:
        others = pool.ordered(Walk(1, seconds=0.2), blocks(12))
        first = next(others)  # all workers hold as many blocks of this call as they can
        monkeypatch.setattr(pool, "_lock", Draining(pool))
        found = []
        thread = threading.Thread(target=lambda: found.append(digest(pool.ordered(Walk(2), blocks(3)))), daemon=True)
        thread.start()
        thread.join(60)
        assert found == [digest(Walk(2)(i) for i in range(3))]
        assert digest([first, *others]) == digest(Walk(1)(i) for i in range(12))


def test_large_messages_both_ways_do_not_block_each_other(pool):
    """Both workers send 4 MB while this process sends 4 MB to them."""
    data = np.random.default_rng(0).bytes(2**22)
    assert all(found == data for found in pool.ordered(bytes, [(data,)] * 12))


@dataclass
class Counted:
    """Writes a file each time that it is unpickled."""

    folder: Path
    name: int

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        (self.folder / f"{self.name} {os.getpid()} {time.time_ns()}").touch()

    def __call__(self, i: int) -> int:
        return self.name


def test_work_is_sent_to_each_worker_once_and_the_last_few_are_kept(pool, tmp_path):
    for _ in range(3):
        for name in range(4):
            assert list(pool.ordered(Counted(tmp_path, name), blocks(6))) == [name] * 6
    per_worker = {" ".join(path.name.split()[:2]) for path in tmp_path.iterdir()}
    assert len(list(tmp_path.iterdir())) == len(per_worker) <= 8
    for name in (4, 5, 6, 7, 0):  # forgets those before
        assert list(pool.ordered(Counted(tmp_path, name), blocks(6))) == [name] * 6


# ------------------------------------------------------------------------------------------------ cancelled calls


@dataclass
class Noted:
    """Writes down that a block has begun, and sleeps."""

    folder: Path
    seconds: float

    def __call__(self, i: int) -> int:
        (self.folder / str(i)).touch()
        time.sleep(self.seconds)
        return i


@pytest.mark.parametrize("how", ["close", "drop", "error"])
def test_a_cancelled_call_does_not_disturb_the_next(how, pool, tmp_path):
    found = pool.ordered(Noted(tmp_path, 0.2), blocks(100))
    assert next(found) == 0
    if how == "close":
        found.close()
    elif how == "drop":
        del found
    else:
        with pytest.raises(ZeroDivisionError):
            found.throw(ZeroDivisionError())
    before = processes(pool)
    assert list(pool.ordered(slow_first, blocks(8))) == list(range(8))
    assert processes(pool) == before  # blocks of 0.2 s are waited for
    time.sleep(0.3)
    assert len(list(tmp_path.iterdir())) <= 5  # blocks that had not begun were skipped


def processes(pool: ProcessPool) -> set[int | None]:
    return {worker._process.pid for worker in pool._started}


def test_a_long_cancelled_block_does_not_delay_the_next_call(pool, tmp_path):
    found = pool.ordered(sleeping, [(tmp_path, i, 100 if i else 0) for i in range(10)])
    assert next(found) == 0
    while len(list(tmp_path.iterdir())) < 3:  # until both workers are busy with a long block
        time.sleep(0.01)
    before = processes(pool)
    found.close()
    assert list(pool.ordered(slow_first, blocks(8))) == list(range(8))
    assert not processes(pool) & before  # ended, not waited for


def sleeping(folder: Path, i: int, seconds: float) -> float:
    (folder / str(i)).touch()
    time.sleep(seconds)
    return seconds


# ------------------------------------------------------------------------------------------------ dead workers


@dataclass
class Mortal:
    """Ends its process in some blocks, the first time only if there is a folder to note it in."""

    folder: Path | None
    deadly: tuple[int, ...]
    seconds: float = 0.0

    def __call__(self, i: int) -> np.ndarray:
        time.sleep(self.seconds)
        if i in self.deadly and (self.folder is None or not (self.folder / str(i)).exists()):
            if self.folder is not None:
                (self.folder / str(i)).touch()
            os._exit(3)
        return Walk(7)(i)


def test_blocks_of_dead_workers_are_run_again(pool, tmp_path):
    assert digest(pool.ordered(Mortal(tmp_path, (0, 5, 6)), blocks(12))) == digest(Walk(7)(i) for i in range(12))


def test_workers_that_die_again_and_again_are_given_up(pool, monkeypatch):
    monkeypatch.setattr(module, "_MOST_ENDS", 1)
    found = pool.ordered(Mortal(None, (1,)), blocks(4))
    assert digest([next(found)]) == digest([Walk(7)(0)])
    with pytest.raises(WorkerError, match=r"2 workers of a block ended.*2 by exit code 3.*__main__") as told:
        next(found)
    assert not told.value.killed
    assert list(pool.ordered(slow_first, blocks(2))) == [0, 1]


def test_workers_killed_while_idle_are_replaced_without_counting(pool, monkeypatch):
    monkeypatch.setattr(module, "_MOST_ENDS", 0)
    list(pool.ordered(slow_first, blocks(2)))
    for worker in pool._started:
        os.kill(worker._process.pid, signal.SIGKILL)
        worker._process.join()
    assert list(pool.ordered(slow_first, blocks(2))) == [0, 1]


@dataclass
class Ends:
    """Ends its process in block 1 by a signal, `times` times."""

    folder: Path
    number: int
    times: int

    def __call__(self, i: int) -> int:
        if i == 1 and len(list(self.folder.iterdir())) < self.times:
            (self.folder / str(time.time_ns())).touch()
            os.kill(os.getpid(), self.number)
            time.sleep(60)
        return i


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of POSIX")
@pytest.mark.parametrize(("name", "killed"), [("SIGKILL", True), ("SIGTERM", True), ("SIGSEGV", False)])
def test_the_error_says_whether_workers_were_ended_from_outside(name, killed, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST_ENDS", 1)
    with ProcessPool(1) as pool, pytest.raises(WorkerError, match=f"2 workers of a block ended.*2 by {name}") as told:
        list(pool.ordered(Ends(tmp_path, getattr(signal, name), 2), blocks(3)))
    assert told.value.killed is killed
    copy = pickle.loads(pickle.dumps(told.value))
    assert (str(copy), copy.killed) == (str(told.value), killed)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of POSIX")
def test_kills_count_only_while_no_block_finishes(pool, tmp_path, monkeypatch):
    """A block is killed twice, and others finish in between; no more than one may be killed without that."""
    monkeypatch.setattr(module, "_MOST_ENDS", 1)
    found = pool.ordered(KilledTwice(tmp_path), blocks(12))
    assert list(found) == list(range(12))
    assert len(list(tmp_path.glob("killed *"))) == 2


@dataclass
class KilledTwice:
    """Kills its process in block 0, twice; others end after the first death, before the second."""

    folder: Path

    def __call__(self, i: int) -> int:
        times = len(list(self.folder.glob("killed *")))
        if i == 0 and times < 2:
            time.sleep(1.0 * times)
            (self.folder / f"killed {times}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
        time.sleep(0.3)
        return i


@dataclass
class Forks:
    """Starts a process that lives longer than the block; in the worker or in the child the block returns."""

    folder: Path
    child_returns: bool

    def __call__(self, i: int) -> int:
        if i == 1 and not any(self.folder.iterdir()):
            child = os.fork()
            if child == 0 and self.child_returns:
                return i
            if child == 0:
                signal.pause()
            (self.folder / str(child)).touch()
            if not self.child_returns:
                os.kill(os.getpid(), signal.SIGKILL)
        return i


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


@needs_fork
def test_a_killed_worker_is_noticed_although_a_child_of_it_lives(tmp_path):
    with ProcessPool(1) as pool:
        assert list(pool.ordered(Forks(tmp_path, child_returns=False), blocks(4))) == list(range(4))
        helper = int(next(tmp_path.iterdir()).name)
        assert has_ended(helper)  # it belongs to the group of the worker


@needs_fork
def test_a_forked_child_that_returns_sends_no_answer(tmp_path):
    with ProcessPool(1) as pool:
        assert list(pool.ordered(Forks(tmp_path, child_returns=True), blocks(4))) == list(range(4))
        assert list(pool.ordered(slow_first, blocks(4))) == list(range(4))
        assert has_ended(int(next(tmp_path.iterdir()).name))


def has_ended(pid: int) -> bool:
    """Whether a process that is no child of this one ends within a minute."""
    for _ in range(1200):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


@needs_fork
@pytest.mark.parametrize("size", [0, 3_000_000], ids=["small messages", "messages that do not fit into a pipe"])
def test_a_stopped_worker_is_ended_after_the_time_limit(size, monkeypatch):
    monkeypatch.setattr(worker_process, "_GRACE", 0.5)
    with ProcessPool(2, time_limit=30.0) as pool:
        list(pool.ordered(first_of, [(i, b"") for i in range(4)]))
        pool.time_limit = 1.0
        os.kill(pool._started[0]._process.pid, signal.SIGSTOP)
        assert list(pool.ordered(first_of, [(i, bytes(size)) for i in range(8)])) == list(range(8))


def first_of(i: int, rest: bytes) -> int:
    return i


@pytest.mark.parametrize("body", ["while True: pass", "import time; time.sleep(600)", "import ctypes; holds_the_gil()"])
def test_a_block_beyond_the_time_limit_is_ended_and_its_stack_shown(body):
    with ProcessPool(2, time_limit=1.0) as pool:
        found = pool.ordered(Hangs(body), blocks(3))
        assert next(found) == 0
        with pytest.raises(WorkerError, match=r"(?s)A block took more than 1 s \(time_limit\).*in hang") as told:
            next(found)
        assert not told.value.killed
        pool.time_limit = None
        assert list(pool.ordered(slow_first, blocks(4))) == list(range(4))


@dataclass
class Hangs:
    body: str

    def __call__(self, i: int) -> int:
        if i == 1:
            hang(self.body)
        return i


def hang(body: str) -> None:
    exec(body, {"holds_the_gil": holds_the_gil})


def holds_the_gil() -> None:
    import ctypes

    ctypes.PyDLL(None).sleep(600)


def test_the_limit_of_a_call_is_for_pools_without_one(pool):
    with pool_of(pool, 7.0) as same:
        assert same.time_limit == 7.0
    assert pool.time_limit is None
    with ProcessPool(2, time_limit=3.0) as own, pool_of(own, 7.0) as same:
        assert same.time_limit == 3.0
    with pool_of(2, 7.0) as made:
        assert made.time_limit == 7.0
    assert pickle.loads(pickle.dumps(own)).time_limit == 3.0
    with pytest.raises(SettingsError, match="time_limit"):
        ProcessPool(2, time_limit=0)


@pytest.mark.parametrize("moment", ["random", "just after sending", "long blocks only"])
def test_p9_killed_workers_do_not_change_results(moment, pool, monkeypatch):
    monkeypatch.setattr(module, "_MOST_ENDS", 1000)
    rng, left = random.Random(1), 4
    expected = [Uneven()(i) for i in range(40)]
    receive = pool._receive

    def kill(worker: Any) -> None:
        nonlocal left
        left -= 1
        os.kill(worker._process.pid, signal.SIGKILL)

    def observed(timeout: float) -> None:
        before = {id(worker): set(worker.held) for worker in pool._started}
        receive(timeout)
        for worker in list(pool._started):
            held = [block.number for block in worker.held.values()]
            if not left or not held:
                continue
            answered = before.get(id(worker), set()) - set(held)
            if (moment == "random" and rng.random() < 0.2) or (moment == "just after sending" and answered):
                kill(worker)

    monkeypatch.setattr(pool, "_receive", observed)
    if moment == "long blocks only":  # whoever has not answered within 50 ms is killed
        done = threading.Event()

        def adversary() -> None:
            running: dict[int, tuple[Any, float]] = {}
            while left and not done.wait(0.01):
                for worker in list(pool._started):
                    first = next(iter(list(worker.held.values())), None)
                    seen, since = running.get(id(worker), (None, 0.0))
                    if first is not seen or first is None:
                        running[id(worker)] = first, time.monotonic()
                    elif left and time.monotonic() - since > 0.05:
                        kill(worker)
                        running.pop(id(worker))
                        time.sleep(0.5)

        thread = threading.Thread(target=adversary)
        thread.start()
    found = list(pool.ordered(Uneven(), blocks(40)))
    if moment == "long blocks only":
        done.set()
        thread.join()
    assert digest(found) == digest(expected)
    assert left < 4  # some were killed


class Uneven:
    """Every fifth block takes long."""

    def __call__(self, i: int) -> np.ndarray:
        time.sleep(0.1 if i % 5 == 0 else 0.005)
        return Walk(5)(i, steps=5000)


# ------------------------------------------------------------------------------------------------ errors


class OddError(Exception):
    """Cannot be unpickled: it takes two arguments and keeps one."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{what} in {where}")


def failing(i: int) -> int:
    if i == 3:
        time.sleep(0.2)  # later than the one of block 4
        raise FileNotFoundError("the tank is dry")
    if i == 4:
        raise OddError("no water", "the tank")
    return i


@pytest.mark.parametrize("kind", ["serial", "processes"])
def test_errors_are_raised_in_order(kind, pool):
    one = SerialPool() if kind == "serial" else pool
    found = one.ordered(failing, blocks(10))
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(FileNotFoundError, match="the tank is dry") as told:
        next(found)
    if kind == "processes":
        assert "in failing\n" in str(told.value.__cause__)
    assert list(found) == []

    def broken() -> Iterator[tuple[int]]:
        yield from blocks(2)
        raise KeyError("no more")

    found = one.ordered(slow_first, broken())
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(KeyError, match="no more"):
        next(found)


def test_errors_that_cannot_be_pickled(pool):
    assert repr(sendable(OddError("no water", "the tank"))) == "SimulatorError('OddError: no water in the tank')"
    with pytest.raises(SimulatorError, match="OddError: no water in the tank"):
        list(pool.ordered(failing, [(4,)]))
    with pytest.raises(SettingsError, match=r"A worker process cannot load the work.*no_such_module.*pool=None"):
        unpickled("the work", b"cno_such_module\nf\n.")
    with pytest.raises(SettingsError, match=r"The result of a block, a function, cannot be sent back.*pool=None"):
        list(pool.ordered(unsendable, [()]))


def unsendable() -> Any:
    return lambda: 0


@dataclass
class Problem:
    simulator: Any
    policy: Any

    def __call__(self, i: int) -> int:
        return int(self.policy(i))


def test_what_cannot_be_sent_is_named_before_a_process_is_started(pool):
    fresh = ProcessPool(2)
    with pytest.raises(
        SettingsError, match=r"A lambda \(.*\), part of the policy, cannot be sent.*top of a module.*None"
    ):
        fresh.ordered(Problem(slow_first, lambda i: i), blocks(2))
    with pytest.raises(SettingsError, match=r"A lambda \(.*\), part of the argument 0, cannot be sent"):
        fresh.ordered(partial(slow_first, lambda i: i), blocks(2))
    with pytest.raises(SettingsError, match=r"^A lambda \(test_pools.py, line \d+\) cannot be sent"):
        fresh.ordered(lambda i: i, blocks(2))
    assert not fresh._started
    assert list(SerialPool().ordered(Problem(None, lambda i: i), blocks(2))) == [0, 1]
    found = pool.ordered(str, [(1,), (lambda: 0,)])
    assert next(found) == "1"
    with pytest.raises(SettingsError, match="Arguments of a block cannot be sent"):
        next(found)
    assert Parcel.of(Walk(1)).digest == Parcel.of(Walk(1)).digest != Parcel.of(Walk(2)).digest


# ------------------------------------------------------------------------------------------------ settings


def test_pools_of_settings(pool):
    for setting in (None, 1, np.int64(1)):
        with pool_of(setting) as one:
            assert isinstance(one, SerialPool)
    with pool_of(3) as three:
        assert repr(three) == "ProcessPool(3)"
        assert list(three.ordered(slow_first, blocks(1))) == [0]
        assert len(three._started) == 1  # no more than there are blocks
    assert not three._started
    with pool_of(pool) as same:
        assert same is pool
        list(pool.ordered(slow_first, blocks(1)))
    assert pool._started
    for wrong in (0, -1, 2.5, True, "2", ProcessPool, [2]):
        with pytest.raises(SettingsError, match=r"pool is .*number of worker processes.*distribute\.ProcessPool.*None"):
            check_pool(wrong)
    copy = pickle.loads(pickle.dumps(pool))
    assert (copy.workers, copy._started) == (2, [])
    assert issubclass(jmdp.distribute.ProcessPool, Pool)
    assert jmdp.distribute.SerialPool is SerialPool


def threads_of_blas(_: int) -> list[int]:
    from threadpoolctl import threadpool_info

    return [library["num_threads"] for library in threadpool_info()]


def test_blocks_have_one_thread(pool):
    from threadpoolctl import threadpool_limits

    with threadpool_limits(2):
        before = threads_of_blas(0)
        assert before
        for one in (SerialPool(), pool):
            (found,) = one.ordered(threads_of_blas, blocks(1))
            assert set(found) == {1}
        assert threads_of_blas(0) == before


def wide_product(seed: int) -> np.ndarray:
    """A product whose last bits depend on the number of threads, on many machines."""
    return (a := np.random.default_rng(seed).standard_normal((301, 700))) @ a.T


class Overlapping:
    """Work of two threads: the first to begin ends while the second is inside."""

    def __init__(self) -> None:
        self.both, self.one_ended = threading.Barrier(2, timeout=60), threading.Event()
        self.inside: list[list[int]] = []

    def __call__(self, number: int) -> np.ndarray:
        self.both.wait()
        if number == 1:
            assert self.one_ended.wait(60)
        self.inside.append(threads_of_blas(0))
        return wide_product(number)


def test_overlapping_calls_in_threads_have_one_thread_each_until_the_last_one_ends():
    from threadpoolctl import threadpool_limits

    expected = digest(SerialPool().ordered(wide_product, blocks(2)))
    with threadpool_limits(2):
        before = threads_of_blas(0)
        for _ in range(3):
            work, found = Overlapping(), {}

            def call(number, work=work, found=found):
                (found[number],) = SerialPool().ordered(work, [(number,)])
                if number == 0:
                    work.one_ended.set()

            threads = [threading.Thread(target=call, args=(i,)) for i in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert [set(threads_of) for threads_of in work.inside] == [{1}, {1}]
            assert digest([found[0], found[1]]) == expected
            assert threads_of_blas(0) == before


def test_a_library_found_within_a_block_is_limited_from_the_next_one_on(monkeypatch):
    from threadpoolctl import threadpool_limits

    with threadpool_limits(2):
        before = threads_of_blas(0)
        with pools.one_thread(), threadpool_limits(2):  # as a new library has
            monkeypatch.setattr(pools, "_known", (-1, None, None))
            with pools.one_thread():
                assert set(threads_of_blas(0)) == {1}
            of_process, _ = pools._libraries()  # OpenMP has a limit for each thread, which each block restores
            assert {library["num_threads"] for library in of_process.info()} == {1}
        assert threads_of_blas(0) == before


def without_memory(i: int, text: str) -> bytearray:
    if text:
        raise MemoryError(text)
    return bytearray(1 << 60)


def test_a_block_without_memory_is_named(pool):
    for one in (SerialPool(), pool):
        with pytest.raises(MemoryError, match=r"arguments \(7, ''\).*fewer workers.*fewer alternatives"):
            list(one.ordered(without_memory, [(7, "")]))
        with pytest.raises(MemoryError, match=r"^of the simulator$"):
            list(one.ordered(without_memory, [(7, "of the simulator")]))
