"""RayPool: CPU and memory of the driver, by the number of tasks and blocks."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import psutil

import jmdp
from benchmarks.report import Goal, Report
from jmdp.distribute import Pool

BYTES = 20_000
"""Size of the result of a block; 64 samples of 18 actions have it."""
WORKERS = 16


@dataclass(frozen=True)
class Sleep:
    """A block that takes some time, no CPU, and returns bytes."""

    seconds: float

    def __call__(self, i: int) -> bytes:
        """Wait, and return the result."""
        time.sleep(self.seconds)
        return bytes(BYTES)


@dataclass(frozen=True)
class Cost:
    """Cost of a call that gave this many results."""

    results: int
    seconds: float
    cpu: float  # seconds of this process

    @classmethod
    def of(cls, pool: Pool, work: Callable[[int], bytes], numbers: Iterable[int]) -> Cost:
        """Run a call and drop its results."""
        cpu, begun = time.process_time(), time.perf_counter()
        count = sum(1 for _ in pool.ordered(work, ((i,) for i in numbers)))
        return cls(count, time.perf_counter() - begun, time.process_time() - cpu)


def task_costs(tasks: int) -> dict[float, Cost]:
    """Costs of tasks of one block, by the seconds that a block takes, with many workers."""
    with jmdp.distribute.RayPool(workers=WORKERS, cpus_a_task=2 / WORKERS, seconds_a_task=0.0) as pool:
        Cost.of(pool, Sleep(0.3), range(6 * WORKERS))  # starts the workers
        return {
            seconds: Cost.of(pool, Sleep(seconds), range(tasks if seconds < 1 else 10 * WORKERS))
            for seconds in (1.0, 0.2, 0.0)
        }


def compare(quick: bool) -> Report:
    """Measure tasks of one block at three rates, and short blocks that are sent together."""
    report = Report("ray_driver", quick, seeds="0")
    for seconds, cost in task_costs(100 if quick else 1000).items():
        report.rows.append(
            {
                "results": f"{cost.results:,} tasks of one block of {seconds:g} s, {WORKERS} workers",
                "per second": cost.results / cost.seconds,
                "driver CPU each, ms": 1e3 * cost.cpu / cost.results,
            }
        )
    memory = {}
    with jmdp.distribute.RayPool(workers=2) as pool:
        Cost.of(pool, Sleep(0.3), range(8))
        for blocks in (1000, 2000 if quick else 100_000):
            cost = Cost.of(pool, Sleep(0.0), range(blocks))
            gc.collect()
            memory[blocks] = psutil.Process().memory_full_info().uss / 1e6
            report.rows.append(
                {
                    "results": f"{blocks:,} short blocks, sent together, 2 workers",
                    "per second": blocks / cost.seconds,
                    "driver CPU each, ms": 1e3 * cost.cpu / blocks,
                    "driver memory, MB": memory[blocks],
                }
            )
    growth = memory[max(memory)] / memory[min(memory)] - 1
    report.goals.append(
        Goal(f"growth of memory from {min(memory):,} to {max(memory):,} blocks, ± 0.05", growth, abs(growth) <= 0.05)
    )
    report.notes.append(
        f"A result has {BYTES:,} bytes. Memory is that of the driver alone, without the shared object store, which Ray "
        "limits."
    )
    return report
