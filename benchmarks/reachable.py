"""ReachablePairs in a world of a million cells, and compared with the full table of a small one."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import jmdp
from benchmarks.report import Goal, Report, Row, agree
from benchmarks.whole_solve import status

PAIRS = [(a, b) for a in range(4) for b in range(a)]


def compare(quick: bool) -> Report:
    """Evaluate a state in the middle and one near the goal, under three policies, each in a separate process."""
    report = Report("reachable", quick)
    side = 30 if quick else 1000
    for name in ("goal_directed", "careless", "uniform"):
        for cell in ((side // 2, side // 2), (2, side - 4)):
            report.rows.append(_measured(report, side, name, cell))
    _check(8 if quick else 30)
    report.notes.append(
        "Each interval is certified, rounding included. The time is that of one evaluation, including the tables of "
        "the cells and the loading of compiled code; W for all pairs of cells would need 8 TB."
    )
    return report


def _measured(report: Report, side: int, name: str, cell: tuple[int, int]) -> Row:
    command = [sys.executable, "-m", "benchmarks.reachable", str(side), name, *map(str, cell)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    row: Row = json.loads(answer.stdout)
    problem = f"{side}×{side}, {name}, {cell}"
    report.goals += [
        Goal.at_most(f"{problem}: widest interval / gap variance", float(row["widest interval / gap variance"]), 0.01),
        Goal.at_most(f"{problem}: seconds", float(row["time, s"]), 60),
        Goal.at_most(f"{problem}: peak memory in GiB", float(row["peak memory, MB"]) * 1e6 / 2**30, 2),
    ]
    return {"problem": problem, **row}


def _run(side: int, name: str, cell: tuple[int, int]) -> Row:
    world = jmdp.worlds.lazy_windy_gridworld(side, side)
    start = time.perf_counter()
    method = jmdp.ReachablePairs(cell)
    result = jmdp.evaluate(world.model, world.policies[name], jmdp.Local(), method=method, throw=False, progress=False)
    seconds = time.perf_counter() - start
    gaps = [result.gap(0, a, b) for a, b in PAIRS]
    widths = [gap.variance_interval.width / gap.variance for gap in gaps if gap.variance_interval is not None]
    return {
        "time, s": seconds,
        "peak memory, MB": status("VmHWM") / 1e6,
        "cells evaluated": int(world.model.known.sum()),
        "rounds": result.residuals.size,
        "smallest gap variance": min(gap.variance for gap in gaps),
        "widest interval / gap variance": max(widths),
    }


def _check(side: int) -> None:
    """Check that the intervals of a small grid contain the results of ExactPairs."""
    rules = {"blown_reward": -1.0, "discount": 0.95}
    table, lazy = (
        jmdp.worlds.windy_gridworld(side, side, **rules),
        jmdp.worlds.lazy_windy_gridworld(side, side, **rules),
    )
    there = jmdp.evaluate(table.model, table.policies["careless"], jmdp.Local(), progress=False)
    method = jmdp.ReachablePairs((side // 2, side // 2), tolerance=0.1)
    here = jmdp.evaluate(lazy.model, lazy.policies["careless"], jmdp.Local(), method=method, progress=False)
    state = f"{side // 2},{side // 2}"
    for a, b in PAIRS:
        interval, gap = here.gap(0, a, b).variance_interval, there.gap(state, a, b)
        assert interval is not None
        agree(
            f"{side}×{side}, gap {a} − {b}", abs(gap.variance - (interval.low + interval.high) / 2), interval.width / 2
        )


if __name__ == "__main__":
    print(json.dumps(_run(int(sys.argv[1]), sys.argv[2], (int(sys.argv[3]), int(sys.argv[4])))))
