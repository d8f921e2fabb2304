"""Pong: RayPool with two workers against two processes that run the same blocks without Ray."""

from __future__ import annotations

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
from benchmarks.report import Goal, Report, agree
from jmdp.comparisons.question import PlanBlocks
from jmdp.models.actors.as_policy import as_policy
from jmdp.simulators.rollouts.plan import BranchPlan

SAMPLES_A_BLOCK = 4
HORIZON = 25
"""Steps of a rollout, of four frames each."""


def pong_blocks() -> PlanBlocks:
    """Blocks of a comparison of all actions of Pong, in the middle of a game."""
    pong = jmdp.simulators.ALESimulator("pong", sticky=0.25)
    state = pong.start(jmdp.Shock.of_sample(0, 0))
    for i in range(60):
        state = pong.step(state, i % pong.actions.size, jmdp.Shock.of_sample(0, i)).state
    plan = BranchPlan.of_actions(
        as_policy("uniform", pong.actions),
        seed=1,
        state=state,
        actions=list(range(pong.actions.size)),
        coupling=jmdp.Synchronous(),
        discount=0.99,
        horizon=HORIZON,
    )
    return PlanBlocks(pong, plan)


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


def compare(quick: bool) -> Report:
    """Time `RayPool` with two workers, two bare processes and two emulators alternately."""
    report, rounds, blocks = Report("ray_pong", quick, seeds="0, 1"), 2 if quick else 10, 4 if quick else 20
    work = pong_blocks()
    everything = tuple(range(len(work.plan.actors)))
    given = [(SAMPLES_A_BLOCK * i, SAMPLES_A_BLOCK, everything, True) for i in range(blocks)]
    steps = sum(work(*one).steps for one in given[:2]) // 2
    with (
        two_processes(bare_worker) as bare,
        two_processes(emulator_worker) as alone,
        jmdp.distribute.RayPool(workers=2) as pool,
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
    report.goals.append(Goal.at_least("speed of RayPool relative to two bare processes", ratio, 0.9))
    report.notes.append(
        f"{blocks} blocks, {rounds} rounds in which the contenders alternate. Each block is {SAMPLES_A_BLOCK} samples "
        f"of {len(everything)} actions and {HORIZON} steps, {steps} steps in the mean. The bare processes run the same "
        "blocks in a loop and return the same results, bit for bit. `emulator alone` plays as many frames with ale-py "
        "and nothing else. CPU is that of all processes: for RayPool the driver, the workers and all of Ray's own."
    )
    return report
