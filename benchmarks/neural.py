"""Overhead of learning: the training loop compared with bare updates, paired rollouts with a bare emulator."""

from __future__ import annotations

import itertools
import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import jmdp
from benchmarks.interleave import interleave
from benchmarks.report import Goal, Report, Row
from benchmarks.running import Parts
from jmdp.distribute import Pool
from jmdp.distribute.process_pool import pool_of
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.coupling import Coupling
from jmdp.simulators import PairedRollouts
from jmdp.simulators.rollouts.pair_walks import PairWalks, WalkPlan

_SHARE = 0.8
"""Goal of both: fraction of the bare throughput."""

_DISCOUNT, _ACTIONS = 0.95, 6


def compare(quick: bool, parts: Parts) -> Report:
    """Train on random bytes of the size of an Atari RAM; simulate paired rollouts of Pong on one and two workers."""
    report = Report("neural", quick, seeds="0")
    for goals, rows in parts.each(partial(_part, quick=quick), 3, processes=1):
        report.goals += goals
        report.rows += rows
    report.notes.append(
        "Ratios are throughputs, ours / bare. The training loop draws batches from the replay buffer, evaluates on "
        "held-out rollouts, writes learning curves, and rescales at the end. Bare: the same compiled updates on "
        "batches already on the device. A step of Pong is four frames. Bare: as many consecutive steps in as many "
        "processes, with sticky actions and reading of the RAM, but without saving or restoring states and without a "
        "policy."
    )
    return report


def _part(number: int, quick: bool) -> tuple[list[Goal], list[Row]]:
    """Return goals and rows of learning, and of rollouts on one and two workers."""
    report = Report("neural", quick)
    if number == 0:
        _learning(report, 100 if quick else 600, 20 if quick else 1000)
    else:
        plan = WalkPlan(4, 4, 2, 4) if quick else WalkPlan(40, 8, 2, 12)
        _walking(report, plan, 2 if quick else 8, number)
    return report.goals, report.rows


def _learning(report: Report, updates: int, visits: int) -> None:
    """Time `train` as called by `NeuralGram`, and `Trainer.update` alone."""
    import jax

    from jmdp.base.luck import Shock
    from jmdp.methods.neural_gram.checkpoints import Tracker
    from jmdp.methods.neural_gram.lookahead_rollouts import PairReplay
    from jmdp.methods.neural_gram.network import GramNetwork
    from jmdp.methods.neural_gram.trainer import Trainer, TrainingPlan, initial_state
    from jmdp.methods.neural_gram.training_loop import CHUNK, TrainingData, train

    settings = jmdp.NeuralGram(seed=0, updates=updates)
    walks, held_out = _made_up(visits, settings.repeats, settings.length), _made_up(48, 16, settings.length)

    def whole() -> None:
        with tempfile.TemporaryDirectory() as folder:
            tracker = Tracker(Path(folder))
            train(settings, TrainingData(walks, held_out, _ACTIONS, _DISCOUNT), tracker=tracker)
            tracker.close()

    root = Shock.of_sample(settings.seed, 0)
    replay = PairReplay(walks, _DISCOUNT, settings.steps, root)
    mean, scales = replay.scales()
    seen = walks.observation.reshape(-1, *walks.observation.shape[3:])
    units = (mean, scales.variance**0.5, scales.gap_variance**0.5)
    network = GramNetwork(None, seen, _ACTIONS, settings.kernel, settings.rank, units, root.key())
    plan = TrainingPlan(
        updates, settings.learning_rate, settings.weight_decay, settings.dropout, settings.target_averaging,
        settings.mean_rate, scales,
    )  # fmt: skip
    trainer, first, key = Trainer(plan), initial_state(network, plan), root.key()
    batches = jax.device_put(replay.batches(0, CHUNK, settings.batch))

    def baseline() -> None:
        learning = first
        for _ in range(updates // CHUNK):
            learning, errors = trainer.update(learning, batches, key)
        np.asarray(errors)

    timings = interleave({"bare updates": baseline, "training loop": whole})
    what = f"training, {updates} updates of {settings.batch} pairs"
    for name in timings.seconds:
        row: Row = {"task": what, "contender": name, "per second": updates / timings.best(name)}
        if name != "bare updates":
            ratio = timings.ratio("bare updates", name)
            row |= {"throughput / bare": ratio.best, "range over rounds": ratio.spread()}
            report.goals.append(Goal.at_least("training: throughput / bare updates", ratio.best, _SHARE))
        report.rows.append(row)


def _made_up(visits: int, repeats: int, length: int) -> PairWalks:
    """Return random data in place of rollouts; the speed of training does not depend on the values."""
    rng = np.random.default_rng(0)
    N = visits * repeats
    same = np.zeros((N, length + 1), np.bool_)
    same[:, 0] = True
    seen = rng.integers(256, size=(N, length + 1, 2, 128), dtype=np.uint8)
    seen[:, 0, 1] = seen[:, 0, 0]
    action = rng.integers(_ACTIONS, size=(N, length + 1, 2))
    action[:, 0] = [0, 1]
    ended = np.zeros((N, length + 1, 2), np.bool_)
    reward = rng.integers(-1, 2, size=(N, length, 2)).astype(np.float64)
    return PairWalks(seen, action, reward, ended, same, np.repeat(np.arange(visits), repeats))


def _walking(report: Report, plan: WalkPlan, blocks: int, workers: int) -> None:
    """Time `PairedRollouts` under two couplings, and bare loops of as many steps, in this many processes."""
    from jmdp.simulators import ALESimulator

    simulator = ALESimulator("pong")
    actor = as_policy("uniform", simulator.actions)
    couplings: list[Coupling] = [jmdp.Synchronous(), jmdp.Local()]
    seeds = itertools.count()
    found = PairedRollouts(simulator, actor, couplings[0]).collect(plan, seed=0, blocks=blocks, progress=False)
    steps = _steps(found) + blocks * (plan.visits - 1) * plan.spacing

    def ours(coupling: Coupling, pool: Pool) -> Callable[[], None]:
        rollouts = PairedRollouts(simulator, actor, coupling)

        def run() -> None:
            rollouts.collect(plan, seed=next(seeds), blocks=blocks, pool=pool, progress=False)

        return run

    with _plain_loop(workers, steps) as baseline, pool_of(workers) as pool:
        contenders: dict[str, Callable[[], None]] = {"bare": baseline}
        contenders |= {f"ours, {type(c).__name__}": ours(c, pool) for c in couplings}
        timings = interleave(contenders)
    for name in contenders:
        row: Row = {"task": f"Pong, {_processes(workers)}", "contender": name}
        row["per second"] = steps / timings.best(name)
        if name != "bare":
            ratio = timings.ratio("bare", name)
            goal = f"Pong, {_processes(workers)}, {name}: throughput / bare"
            report.goals.append(Goal.at_least(goal, ratio.best, _SHARE))
            row |= {"throughput / bare": ratio.best, "range over rounds": ratio.spread()}
        report.rows.append(row)


def _processes(workers: int) -> str:
    return "1 process" if workers == 1 else f"{workers} processes"


def _steps(walks: PairWalks) -> int:
    """Return the number of simulated steps: one for two merged branches, none for a branch that has ended."""
    merged = walks.same[:, :-1] & (walks.action[:, :-1, 0] == walks.action[:, :-1, 1])
    live = ~walks.ended[:, :-1]
    return int(np.where(merged, live[..., 0], live.sum(axis=-1)).sum())


@contextmanager
def _plain_loop(workers: int, steps: int) -> Iterator[Callable[[], None]]:
    """Yield a function that runs a plain loop over the emulator, in this process or in a pool of processes."""
    if workers == 1:
        yield lambda: _play(steps)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:

        def run() -> None:
            pool.map(_play, [steps // workers] * workers, chunksize=1)

        yield run


def _play(steps: int) -> None:
    """Play this many steps of four frames with random sticky actions, in a straightforward loop."""
    ale, moves, rng = _emulator()
    actions = rng.integers(len(moves), size=steps).tolist()
    coins = (rng.random((steps, 4)) >= 0.25).tolist()
    played = 0
    for action, four in zip(actions, coins, strict=True):
        for coin in four:
            played = moves[action] if coin else played
            ale.act(played)
        ale.getRAM()
        if ale.game_over(with_truncation=False):
            ale.reset_game()


@cache
def _emulator() -> tuple[Any, list[int], np.random.Generator]:
    from ale_py import ALEInterface, LoggerMode, roms

    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    rom = roms.get_rom_path("pong")
    assert rom is not None
    ale.loadROM(rom)
    return ale, [int(move.value) for move in ale.getMinimalActionSet()], np.random.default_rng(0)
