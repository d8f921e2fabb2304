"""RayPool: against two bare processes on Pong, CPU and memory of the driver, and logical nodes against a cost model."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import psutil

import jmdp
from benchmarks.report import Goal, Report, Row, agree
from jmdp.comparing import ActionBlocks
from jmdp.models.actors.as_policy import as_policy
from jmdp.simulators.rollouts import RolloutPlan

SAMPLES_A_BLOCK = 4
HORIZON = 100
"""Steps of a rollout of Pong, of four frames each."""
BYTES = 20_000
"""Size of the result of a block that does nothing else; 64 samples of 18 actions have it."""


def compare(quick: bool) -> Report:
    """Run the three parts, one after the other, because each has a Ray of its own."""
    report = Report("cluster", quick)
    _pong(report, rounds=2 if quick else 10, blocks=4 if quick else 60)
    constants = _driver(report, 100 if quick else 1000, 1000 if quick else 100_000)
    _nodes(report, constants, (1,) if quick else (1, 2, 4, 8), 100 if quick else 3200)
    return report


# ------------------------------------------------------------------------------------------------ Pong


def pong_blocks() -> ActionBlocks:
    """Blocks of a comparison of all actions of Pong, in the middle of a game."""
    pong = jmdp.simulators.ALESimulator("pong", sticky=0.25)
    state = pong.start(jmdp.Shock.of_sample(0, 0))
    for i in range(60):
        state = pong.step(state, i % pong.actions.size, jmdp.Shock.of_sample(0, i)).state
    plan = RolloutPlan(
        seed=1,
        state=state,
        actions=list(range(pong.actions.size)),
        coupling=jmdp.Synchronous(),
        discount=0.99,
        horizon=HORIZON,
    )
    return ActionBlocks(pong, as_policy("uniform", pong.actions), plan)


def bare_worker(connection: Connection) -> None:
    """A process that runs the blocks that it is asked for, in a loop, and sends back all results."""
    work = pong_blocks()
    connection.send(None)
    while (asked := connection.recv()) is not None:
        connection.send([work(*given) for given in asked])


def emulator_worker(connection: Connection) -> None:
    """A process that plays as many frames as it is asked for, with the emulator alone."""
    work = pong_blocks()
    ale = work.simulator._add_emulator().ale  # type: ignore[attr-defined]
    saved, actions = work.plan.state.saved(), ale.getMinimalActionSet()
    rng = np.random.default_rng(0)
    connection.send(None)
    while (frames := connection.recv()) is not None:
        played = 0
        while played < frames:
            ale.restoreState(saved)
            for action in rng.integers(len(actions), size=HORIZON):
                for _ in range(4):
                    ale.act(actions[action])
            played += 4 * HORIZON
        connection.send(played)


@dataclass
class Contender:
    """Something to be timed, and the processes whose CPU time it uses."""

    run: Callable[[], Any]
    processes: Callable[[], list[psutil.Process]]
    seconds: list[float]
    cpu: list[float]

    def turn(self) -> Any:
        """Run once and note the times."""
        before, begun = self._cpu(), time.perf_counter()
        found = self.run()
        self.seconds.append(time.perf_counter() - begun)
        after = self._cpu()
        self.cpu.append(sum(after[pid] - before.get(pid, 0.0) for pid in after))
        return found

    def _cpu(self) -> dict[int, float]:
        found = {}
        for process in self.processes():
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            found[process.pid] = times.user + times.system
        return found


@contextmanager
def two_processes(target: Callable[[Connection], None]) -> Iterator[list[tuple[Connection, psutil.Process]]]:
    """Two bare processes that are ready."""
    context = multiprocessing.get_context("spawn")
    pairs = []
    for _ in range(2):
        here, there = context.Pipe()
        process = context.Process(target=target, args=(there,), daemon=True)
        process.start()
        pairs.append((here, process))
    for here, _ in pairs:
        here.recv()
    try:
        yield [(here, psutil.Process(process.pid)) for here, process in pairs]
    finally:
        for here, process in pairs:
            here.send(None)
            process.join()


def _pong(report: Report, rounds: int, blocks: int) -> None:
    work = pong_blocks()
    everything = tuple(range(len(work.plan.actions)))
    given = [(SAMPLES_A_BLOCK * i, SAMPLES_A_BLOCK, everything, True) for i in range(blocks)]
    steps = sum(work(*one).steps for one in given[:2]) // 2
    with (
        two_processes(bare_worker) as bare,
        two_processes(emulator_worker) as alone,
        jmdp.RayPool(workers=2) as pool,
    ):
        others = {process.pid for _, process in (*bare, *alone)}

        def by_bare() -> list[Any]:
            for k, (pipe, _) in enumerate(bare):
                pipe.send(given[k::2])
            halves = [pipe.recv() for pipe, _ in bare]
            return [halves[i % 2][i // 2] for i in range(blocks)]

        def by_emulator() -> None:
            for pipe, _ in alone:
                pipe.send(4 * steps * blocks // 2)
            for pipe, _ in alone:
                pipe.recv()

        def tree() -> list[psutil.Process]:
            this = psutil.Process()
            return [this, *(p for p in this.children(recursive=True) if p.pid not in others)]

        contenders = {
            "RayPool": Contender(lambda: list(pool.ordered(work, given)), tree, [], []),
            "two bare processes": Contender(by_bare, lambda: [process for _, process in bare], [], []),
            "emulator alone": Contender(by_emulator, lambda: [process for _, process in alone], [], []),
        }
        for contender in contenders.values():
            contender.run()  # warm-up
        for _ in range(rounds):
            ours, theirs = contenders["RayPool"].turn(), contenders["two bare processes"].turn()
            different = sum(a.returns.tobytes() != b.returns.tobytes() for a, b in zip(ours, theirs, strict=True))
            agree("returns of Pong", float(different), 0)
            contenders["emulator alone"].turn()
    ray = contenders["RayPool"]
    for name, one in contenders.items():
        speed = [b / a for a, b in zip(ray.seconds, one.seconds, strict=True)]
        efficiency = [b / a for a, b in zip(ray.cpu, one.cpu, strict=True)]
        report.rows.append(
            {
                "part": f"Pong: {blocks} blocks of {SAMPLES_A_BLOCK} samples, two workers",
                "contender": name,
                "median, s": statistics.median(one.seconds),
                "speed of RayPool relative to it": statistics.median(speed),
                "range over rounds": f"{min(speed):.3f} … {max(speed):.3f}",
                "CPU of the tree, s": statistics.median(one.cpu),
                "CPU efficiency of RayPool": statistics.median(efficiency),
            }
        )
    ratio = report.rows[1]["speed of RayPool relative to it"]
    assert isinstance(ratio, float)
    report.goals.append(Goal.at_least("Pong: speed of RayPool relative to two bare processes", ratio, 0.9))
    report.notes.append(
        f"Pong: {rounds} rounds, the contenders alternate. Each block is {SAMPLES_A_BLOCK} samples of "
        f"{len(everything)} actions and {HORIZON} steps, {steps} steps in the mean. The bare processes run the same "
        "blocks in a loop and return the same results, bit for bit. `emulator alone` plays as many frames with ale-py "
        "and nothing else. CPU is that of all processes: for RayPool the driver, the workers and all of Ray's own."
    )


# ------------------------------------------------------------------------------------------------ driver


@dataclass(frozen=True)
class Sleep:
    """A block that takes some time, no CPU, and returns bytes."""

    seconds: float

    def __call__(self, i: int) -> bytes:
        """Wait, and return the result."""
        time.sleep(self.seconds)
        return bytes(BYTES)


@dataclass(frozen=True)
class Constants:
    """Constants of the cost model, measured on one node."""

    driver_a_task: float  # seconds of CPU
    wait_a_task: float  # seconds between two tasks of a worker


def _driver(report: Report, tasks: int, most: int) -> Constants:
    waits = []
    with jmdp.RayPool(workers=16, cpus_a_task=2 / 16, seconds_a_task=0.0) as pool:
        numbers = [(i,) for i in range(tasks)]
        for _ in pool.ordered(Sleep(0.01), numbers[:64]):  # starts the workers
            pass
        for seconds in (1.0, 0.2, 0.0):
            some = numbers[: max(64, int(len(numbers) * (1 if seconds < 1 else 0.2)))]
            cpu, begun = time.process_time(), time.perf_counter()
            for _ in pool.ordered(Sleep(seconds), some):
                pass
            cpu, wall = time.process_time() - cpu, time.perf_counter() - begun
            waits.append(wall * 16 / len(some) - seconds)
            report.rows.append(
                {
                    "part": "driver: one block a task, 16 workers",
                    "tasks/s": len(some) / wall,
                    "driver CPU, ms/task": 1e3 * cpu / len(some),
                    "tasks": len(some),
                }
            )
            last = cpu / len(some)
    with jmdp.RayPool(workers=2) as pool:
        sizes = {}
        for count in sorted({1000, most}):
            cpu, begun = time.process_time(), time.perf_counter()
            for _ in pool.ordered(Sleep(0.0), ((i,) for i in range(count))):
                pass
            cpu, wall = time.process_time() - cpu, time.perf_counter() - begun
            gc.collect()
            sizes[count] = psutil.Process().memory_info().rss
            report.rows.append(
                {
                    "part": f"driver: short blocks of {BYTES} bytes",
                    "blocks": count,
                    "blocks/s": count / wall,
                    "driver CPU, ms/block": 1e3 * cpu / count,
                    "driver memory, MB": sizes[count] / 1e6,
                }
            )
    growth = sizes[max(sizes)] / sizes[min(sizes)] - 1
    report.goals.append(Goal(f"memory from {min(sizes)} to {max(sizes)} blocks, ± 5%", growth, abs(growth) <= 0.05))
    return Constants(last, waits[1])


# ------------------------------------------------------------------------------------------------ nodes

CPUS_A_NODE = 2
SECONDS_A_BLOCK = 0.05


def predicted(constants: Constants, workers: int, blocks: int, seconds_a_task: float) -> float:
    """Time of a call by the cost model of docs/scale.md."""
    tasks = blocks * SECONDS_A_BLOCK / seconds_a_task
    working = (blocks * SECONDS_A_BLOCK + tasks * constants.wait_a_task) / workers
    return max(working, tasks * constants.driver_a_task) + seconds_a_task / 2  # the last tasks end at different times


def _nodes(report: Report, constants: Constants, counts: tuple[int, ...], blocks: int) -> None:
    import ray
    from ray.cluster_utils import Cluster

    worst = 0.0
    for nodes in counts:
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        try:
            for _ in range(nodes):
                cluster.add_node(num_cpus=CPUS_A_NODE)
            ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
            pool, workers = jmdp.RayPool(seconds_a_task=1.0), nodes * CPUS_A_NODE
            for _ in jmdp.RayPool(seconds_a_task=0.0).ordered(Sleep(0.3), ((i,) for i in range(6 * workers))):
                pass  # starts the workers
            begun = time.perf_counter()
            for _ in pool.ordered(Sleep(SECONDS_A_BLOCK), ((i,) for i in range(blocks))):
                pass
            seconds = time.perf_counter() - begun
        finally:
            ray.shutdown()
            cluster.shutdown()  # type: ignore[no-untyped-call]
        expected = predicted(constants, workers, blocks, 1.0)
        worst = max(worst, abs(seconds / expected - 1))
        row: Row = {
            "part": f"logical nodes: {blocks} blocks of {1e3 * SECONDS_A_BLOCK:g} ms",
            "nodes": nodes,
            "workers": workers,
            "predicted, s": expected,
            "measured, s": seconds,
            "measured / predicted": seconds / expected,
        }
        report.rows.append(row)
    report.goals.append(Goal.at_most("largest relative error of the cost model", worst, 0.1))
    report.notes.append(
        f"Logical nodes are Ray nodes on one machine (ray.cluster_utils), with {CPUS_A_NODE} workers each. Their "
        "blocks wait and use no CPU, because the machine has fewer cores than there are workers."
    )
