"""Large studies, each killed twice and resumed while another process reads: results against the truth, and costs.

As a program: ``python tests/studies/large_studies.py frozen_lake windy_gridworld pong inventory --workers 2``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np

import jmdp
from jmdp import worlds
from jmdp.worlds.inventory import InventorySimulator


def windy_gridworld() -> dict[str, Any]:
    """All 900 cells of a windy gridworld."""
    world = worlds.windy_gridworld(30, 30)
    return {
        "simulator": world,
        "policy": next(iter(world.policies.values())),
        "seed": 25,
        "max_samples": 2_000,
        "indifference": 0.02,
    }


@cache
def _frozen_lake() -> Any:
    import gymnasium

    return gymnasium.make("FrozenLake-v1", map_name="8x8", is_slippery=True)


@cache
def _lake_policy() -> list[int]:
    """The best policy of the lake, by value iteration."""
    v = np.zeros(64)
    for _ in range(500):
        q = _lake_values(v)
        v = q.max(axis=1)
    return q.argmax(axis=1).tolist()


def _lake_values(v: np.ndarray) -> np.ndarray:
    """One step of dynamic programming: [64, 4], from the values [64] of the next states."""
    q, table = np.zeros((64, 4)), _frozen_lake().unwrapped.P
    for s, a in np.ndindex(64, 4):
        q[s, a] = sum(p * (r + 0.95 * v[n] * (not ended)) for p, n, r, ended in table[s][a])
    return q


def frozen_lake() -> dict[str, Any]:
    """All cells of FrozenLake 8×8 that are neither a hole nor the goal, with the best policy."""
    env = _frozen_lake()
    env.reset(seed=0)
    simulator = jmdp.simulators.GymnasiumSimulator(env)
    states = {}
    for s in range(64):
        if env.unwrapped.desc.ravel()[s] not in b"HG":
            env.unwrapped.s = s
            states[divmod(s, 8)] = simulator.current(s)
    common = {"seed": 25, "discount": 0.95, "max_samples": 1_000, "indifference": 0.02}
    return {"simulator": simulator, "policy": _lake_policy(), "states": states, **common}


def pong() -> dict[str, Any]:
    """200 states of a game of Pong, with at most 64 rollouts of 25 steps."""
    simulator = jmdp.simulators.ALESimulator("pong")
    states = jmdp.simulators.visited_states(simulator, "uniform", seed=25, count=200, every=10)
    common = {"seed": 25, "discount": 0.95, "horizon": 25, "max_samples": 64, "indifference": 0.05}
    return {"simulator": simulator, "policy": "uniform", "states": states, **common}


class Stocks:
    """100,000 states of an inventory, made when they are asked for."""

    shape = (25, 16, 16, 16)

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, number: int) -> tuple[int, ...]:
        return tuple(int(i) for i in np.unravel_index(number, self.shape))


def inventory() -> dict[str, Any]:
    """100,000 states of an inventory with a lead time of three days, ten actions, through `step_many`."""
    simulator = InventorySimulator(75, lead_time=3, most_ordered=15, mean_demand=6.0, discount=0.7)
    actions = [f"order {n}" for n in (0, 1, 2, 3, 4, 6, 8, 10, 12, 15)]
    policy = simulator.policies["base_stock"]
    common = {"seed": 25, "max_samples": 64, "indifference": 0.5}
    return {"simulator": simulator, "policy": policy, "states": Stocks(), "actions": actions, **common}


STUDIES: dict[str, Callable[[], dict[str, Any]]] = {
    "frozen_lake": frozen_lake,
    "windy_gridworld": windy_gridworld,
    "pong": pong,
    "inventory": inventory,
}


def truth(name: str) -> dict[str, np.ndarray] | None:
    """Exact mean returns [A] of each state, by its label."""
    if name == "windy_gridworld":
        world = worlds.windy_gridworld(30, 30)
        policy = next(iter(world.policies.values()))
        exact = jmdp.evaluate(world.model, policy, jmdp.Synchronous(), method=jmdp.ExactPairs(), progress=False)
        return {world.model.states.name(s): exact.mean[s] for s in range(900)}
    if name == "frozen_lake":
        v, policy = np.zeros(64), _lake_policy()
        for _ in range(2_000):
            q = _lake_values(v)
            v = q[np.arange(64), policy]
        return {f"{s // 8}, {s % 8}": q[s] for s in range(64)}
    return None


def run(name: str, path: str, workers: int) -> None:
    """Run a study to its end, and append the seconds of CPU of this process and its children to a file."""
    study = jmdp.study(**STUDIES[name](), path=path, pool=workers, progress=False)
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps({"driver": own.ru_utime + own.ru_stime, "workers": others.ru_utime + others.ru_stime}))
    assert study.progress.complete


def read(path: str, seconds: float, stop: Any, report: Any) -> None:
    """Read the results again and again, as users do; report how often, and the errors."""
    import duckdb
    import polars

    reads, errors = 0, []
    while not stop.wait(seconds):
        try:
            if not glob(f"{path}/parts/*.parquet"):
                continue
            found = jmdp.studies.Study.open(path)
            states = found.progress.states
            sql = f"select count(distinct number), count(*) from read_parquet('{path}/parts/*.parquet')"
            finished, rows = duckdb.sql(sql).fetchall()[0]
            assert rows == finished * len(found.alternatives), (rows, finished)
            assert found.progress.finished <= finished <= states
            assert polars.scan_parquet(found.files).select(polars.len()).collect().item() >= rows
            reads += 1
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
    report.put((reads, errors))


def show(name: str, workers: int, folder: Path) -> None:
    """Run a study that is killed twice, with a reader attached, and print what was found."""
    path, begun = folder / name, time.monotonic()
    spawn = multiprocessing.get_context("spawn")  # polars does not work in a fork of a process that has used it
    stop, report = spawn.Event(), spawn.Queue()
    reader = spawn.Process(target=read, args=(str(path), 2.0 if name == "inventory" else 0.2, stop, report))
    reader.start()
    cost = {}
    for share in (0.3, 0.6, None):
        command = [sys.executable, __file__, name, "--run", str(path), "--workers", str(workers)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            while share is not None and process.poll() is None:
                time.sleep(0.2)
                if (path / "ledger.jsonl").exists():
                    done = jmdp.studies.Study.open(path).progress
                    if done.finished >= share * done.states or (name != "inventory" and done.rung > 10 * share):
                        process.send_signal(signal.SIGKILL)
                        print(f"{name}: killed after {done.finished:,} of {done.states:,} states", flush=True)
                        break
            said = process.communicate()[0]
            cost = json.loads(said) if said.strip() else cost
    stop.set()
    reads, errors = report.get()
    reader.join()
    print(f"{name}: {time.monotonic() - begun:.0f} s with {workers} workers")
    print(f"{name}: {reads} reads, {len(errors)} errors {errors[:2]}")
    print(f"{name}: CPU since the last kill: {cost}")
    found = jmdp.studies.Study.open(path)
    print(found)
    _judge(name, found)
    files = glob(found.files)
    rows, size = found.progress.finished * len(found.alternatives), sum(map(os.path.getsize, files)) / 1e6
    ledger = os.path.getsize(path / "ledger.jsonl") / 1e3
    print(f"{name}: {rows:,} rows, {len(files)} parts, {size:.1f} MB; ledger {ledger:.0f} kB")
    if name == "inventory":
        query(path)
    found.plot().savefig(folder / f"{name}.png")


def _judge(name: str, found: jmdp.studies.Study) -> None:
    """Compare decisions and intervals with the truth."""
    exact = truth(name)
    if exact is None:
        return
    best, slack = found.best(), found.settings["indifference"] or 0.0
    wrong = missed = decided = 0
    for row in best.itertuples():
        means, at = exact[row.state], found.alternatives.index(row.leader)
        lead = means[at] - np.delete(means, at).max()
        decided += row.decided
        wrong += bool(row.decided and lead < (0.0 if row.outcome == "BEST_FOUND" else -slack))
        gap = means[at] - means[found.alternatives.index(row.runner_up)]
        missed += not row.gap_low - 1e-9 <= gap <= row.gap_high + 1e-9
    print(f"{name}: {decided} of {len(best)} states decided, {wrong} of them wrong; {missed} intervals miss the gap")


def query(path: Path) -> None:
    """Time a grouped query in pandas, polars and DuckDB."""
    import duckdb
    import pandas
    import polars

    files = f"{path}/parts/*.parquet"
    sql = f"select outcome, action, avg(gap), count(*) from read_parquet('{files}') group by all"
    queries = {
        "pandas": lambda: (
            pandas.read_parquet(path / "parts").groupby(["outcome", "action"])["gap"].agg(["mean", "size"])
        ),
        "polars": lambda: (
            polars.read_parquet(files).group_by("outcome", "action").agg(polars.col("gap").mean(), polars.len())
        ),
        "duckdb": lambda: duckdb.sql(sql).fetchall(),
        "Study.to_dataframe": lambda: jmdp.studies.Study.open(path).to_dataframe(),
    }
    for name, ask in queries.items():
        begun = time.perf_counter()
        found = ask()
        print(f"{name}: {time.perf_counter() - begun:.2f} s, {len(found)} rows")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=STUDIES)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--run", help="folder; run one study, uninterrupted")
    parser.add_argument("--out", help="folder of the studies; a temporary one by default")
    given = parser.parse_args()
    if given.run:
        run(given.names[0], given.run, given.workers)
    else:
        place = Path(given.out or tempfile.mkdtemp())
        for one in given.names:
            show(one, given.workers, place)
        if not given.out:
            shutil.rmtree(place)
