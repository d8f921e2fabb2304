"""Time of a whole evaluation compared with its sweeps alone, and its peak memory."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np

import jmdp
from benchmarks.interleave import interleave
from benchmarks.problems import policy_chain
from benchmarks.report import Goal, Report, Row, agree
from jmdp.methods.exact_pairs.pair_sweep import PairSweep
from jmdp.methods.exact_pairs.pair_table import PairTable
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.shaping import shape_rewards

METHOD = jmdp.ExactPairs(tolerance=1e-6)
CHECKED_ROWS = 200


def compare(quick: bool) -> Report:
    """Compare on 10⁴ states, with a table of 800 MB."""
    report = Report("whole_solve", quick, seeds="models 0")
    side = 20 if quick else 100
    for name in ("goal_directed", "careless"):
        problem = f"windy {side}×{side}, {name}"
        memory = _memory(report, problem, side, name)  # in a separate process, while this one is small
        report.rows.append({"problem": problem, **_time(report, problem, side, name), **memory})
    report.notes.append(
        "Bare sweeps: the number of sweeps of the evaluation × the best time of one, timed alternately with it. Memory "
        "is the peak of a separate process minus its memory just before the call."
    )
    return report


def _time(report: Report, problem: str, side: int, name: str) -> Row:
    world = jmdp.worlds.windy_gridworld(side, side, discount=0.99)
    model, policy = world.model, world.policies[name]
    last: dict[str, Any] = {}

    def solve() -> None:
        result = jmdp.evaluate(model, policy, jmdp.Local(), method=METHOD, progress=False)
        last.clear()
        last.update(residuals=result.residuals, covariance=result.covariance, result=result)

    S = model.shape[0]
    operator = PairOperator(model, policy, jmdp.Local(), shape_rewards(model, policy))
    point, out = operator.start(), operator.start()
    u = np.random.default_rng(0).random(S)
    np.multiply.outer(u, u, out=point.reshape(S, S))
    with PairSweep(operator) as sweep:
        timings = interleave({"evaluate": solve, "sweep": partial(sweep, point, out)})
    count = last["residuals"].size
    ratio = timings.ratio("evaluate", "sweep").times(1 / count)
    report.goals.append(Goal.at_most(f"{problem}: evaluate / its bare sweeps", ratio.best, 1.15))

    difference = _residual(model, policy, last["result"])
    variance = float(last["covariance"].max())
    agree(problem, difference, METHOD.tolerance * variance * (1 - model.discount**2) / model.discount**2)
    return {
        "sweeps": count,
        "best sweep, s": timings.best("sweep"),
        "bare sweeps, s": count * timings.best("sweep"),
        "evaluate, s": timings.best("evaluate"),
        "rounds": len(timings.seconds["evaluate"]),
        "ratio": ratio.best,
        "range over rounds": ratio.spread(),
        "residual by SciPy": difference,
    }


def _residual(model: jmdp.TabularJMDP, policy: jmdp.TabularPolicy, result: jmdp.results.Evaluation) -> float:
    """Return the largest residual of some rows of the table between two states, computed by SciPy."""
    assert isinstance(result.cross, PairTable)
    units, scale = result.cross.operator.units.state, 4.0**result.cross.operator.shaped.scale.exponent
    H = np.ldexp(result.cross.H, units[:, None] + units[None, :])
    P, _ = policy_chain(model, policy)
    rows = np.random.default_rng(0).choice(len(H), min(CHECKED_ROWS, len(H)), replace=False)
    swept = model.discount**2 * np.asarray(P @ (P[rows] @ H).T).T
    swept[np.arange(rows.size), rows] = H[rows, rows]
    return scale * float(np.abs(swept - H[rows]).max())


def _memory(report: Report, problem: str, side: int, name: str) -> Row:
    command = [sys.executable, "-m", "benchmarks.whole_solve", str(side), name]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    grown = int(json.loads(answer.stdout)["grown"])
    tables = grown / (8.0 * side**4)
    report.goals.append(Goal.at_most(f"{problem}: peak memory in tables of S² numbers", tables, 3.2))
    return {"peak memory, MB": grown / 1e6, "in tables of S² numbers": tables}


def _grown(side: int, name: str) -> int:
    """Return the bytes by which an evaluation raises the peak memory of this process above its memory before.

    A small evaluation comes first, so that compiled code is not counted. The peak is VmHWM instead of getrusage's
    ru_maxrss, which a new process inherits from its parent.
    """
    small = jmdp.worlds.windy_gridworld(20, 20)
    jmdp.evaluate(small.model, small.policies[name], jmdp.Local(), method=METHOD, progress=False)
    world = jmdp.worlds.windy_gridworld(side, side, discount=0.99)
    before = status("VmRSS")
    jmdp.evaluate(world.model, world.policies[name], jmdp.Local(), method=METHOD, progress=False)
    return status("VmHWM") - before


def status(name: str) -> int:
    """Return a number of bytes from /proc/self/status (Linux only)."""
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name + ":"))


if __name__ == "__main__":
    print(json.dumps({"grown": _grown(int(sys.argv[1]), sys.argv[2])}))
