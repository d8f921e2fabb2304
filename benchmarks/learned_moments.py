"""`LearnedMoments` with its defaults on eighteen problems: ``python -m benchmarks.learned_moments --seeds 1 2 3``.

Problems of `KEPT_ASIDE` are not for tuning: run them to judge a version that is finished. Learned gaps are compared
with simulations in 480 new states, each of an episode of its own, with as many rollouts as are needed for the mean gap
variance to be known to ± 3%, or as ``--truth-seconds`` allows. (With 160 states of 20 episodes the truth was less well
known than what it judges: of ten correct intervals of gains three missed it.) These simulations are kept in
``--truths``, a file for each problem, and all seeds use the same. Results are kept in ``--out`` as JSON lines; a run
that is there is not repeated.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import jmdp
from benchmarks.learned_problems import KEPT_ASIDE, PROBLEMS, Problem
from benchmarks.provenance import record
from jmdp.base.luck import Shock
from jmdp.distribute.process_pool import pool_of
from jmdp.methods.learned import RegressedEvaluation
from jmdp.methods.learned.candidates import Moments
from jmdp.methods.learned.learned_result import actors_of, gap_variances
from jmdp.methods.learned.stack import CovarianceStack
from jmdp.methods.learned.visited import BLOCK, VisitedStates, VisitPlan, calibration_of
from jmdp.results.calibration import Calibration

_STATES = 480
_FIRST_ROLLOUTS, _MOST_ROLLOUTS = 8, 4096
_PRECISION = 0.03
_HEAD = """\
| problem | states | verdict | right | ratio | rank (reliability) | gain | in the record's intervals | truth | s (CPU) |
|---|---|---|---|---|---|---|---|---|---|"""
_TRUTH = 10**6
"""Seed of the new states, which are those of no seed of `LearnedMoments`."""


def learn(problem: Problem, seed: int, pool: int | None) -> tuple[RegressedEvaluation, list[CovarianceStack]]:
    """The result with the defaults, and the stack that was fitted, which is not in the result if it was not better."""
    stacks: list[CovarianceStack] = []
    fit = CovarianceStack.fit

    def kept(*arguments: Any) -> CovarianceStack:
        stacks.append(fit(*arguments))
        return stacks[-1]

    with mock.patch.object(CovarianceStack, "fit", kept):
        learned = jmdp.evaluate(
            problem.simulator, problem.policy, jmdp.Synchronous(), jmdp.LearnedMoments(seed=seed, pool=pool),
            discount=problem.discount, throw=False, progress=False,
        )  # fmt: skip
    assert isinstance(learned, RegressedEvaluation)
    return learned, stacks


def truth_of(name: str, learned: RegressedEvaluation, folder: Path, seconds: float, pool: int | None) -> VisitedStates:
    """Simulations in new states, from the file if there is one, otherwise doubled until they are precise enough."""
    path = folder / f"{name}.npz"
    if path.exists():
        with np.load(path) as file:
            return VisitedStates(**file)
    folder.mkdir(parents=True, exist_ok=True)
    root = Shock.of_sample(_TRUTH, 0).derived(b"truth")
    plan = VisitPlan(
        learned.simulator, actors_of(learned.actor), learned.coupling, learned.discount, learned.horizon, root.seed()
    )
    found, rollouts, begun = None, _FIRST_ROLLOUTS, time.monotonic()
    with pool_of(pool) as workers:
        while found is None or (_noise(_unlearned(found)) > _PRECISION and found.returns.shape[1] < _MOST_ROLLOUTS):
            if found is not None and 2 * (time.monotonic() - begun) > seconds:
                break
            first = 0 if found is None else found.returns.shape[1]
            jobs = ((block, rollouts - first, True, first) for block in range(_STATES // BLOCK))
            more = VisitedStates.joined(list(workers.ordered(plan, jobs)))
            returns = more.returns if found is None else np.concatenate([found.returns, more.returns], axis=1)
            found = VisitedStates(more.observation, more.actions, returns)
            rollouts *= 2
    np.savez(path, observation=found.observation, actions=found.actions, returns=found.returns)
    return found


def _unlearned(truth: VisitedStates) -> Calibration:
    """A calibration of no predictions, for the noise of the simulation."""
    N, A = len(truth.returns), int(truth.actions.max()) + 1
    return calibration_of(truth, np.zeros((N, A)), np.zeros((N, A, A)), np.zeros((A, A)), _TRUTH)


def measured(name: str, seed: int, pool: int | None, truths: Path, truth_seconds: float) -> dict[str, Any]:
    """Learn with the defaults, and compare with simulations in new states."""
    problem = PROBLEMS[name]()
    begun, cpu = time.perf_counter(), time.process_time()
    learned, stacks = learn(problem, seed, pool)
    assert learned.calibration is not None
    own = learned.calibration
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    visited = truth_of(name, learned, truths, truth_seconds, pool)
    inputs = learned.inputs(visited.observation)

    def compared(stack: CovarianceStack) -> Calibration:
        covariance = Moments(learned.actions.size).matrices(stack(inputs))
        means, reference = learned.mean_stack(inputs), gap_variances(learned.constant)
        return calibration_of(visited, means, covariance, reference, _TRUTH)

    truth = compared(learned.covariance_stack)
    fitted = compared(stacks[-1]) if stacks else truth
    return {
        "problem": name,
        "seed": seed,
        "verdict": learned.outcome.name,
        "right": (fitted.variance_gain.low > 0) == (learned.outcome.name == "TRAINED"),
        "ratio": _plain(truth.ratio),
        "gain": _plain(truth.variance_gain),
        "gain of the stack": _plain(fitted.variance_gain),
        "rank": _plain(truth.rank_correlation),
        "rank reliability": _plain(truth.rank_reliability),
        "mean R²": _plain(truth.mean_gain),
        "variation": learned.variation,
        "own ratio": _plain(own.ratio),
        "own gain": _plain(own.variance_gain),
        "noise": _noise(truth),
        "rollouts": truth.rollouts,
        "states": learned.states,
        "held out": own.states,
        "served": _served(learned, visited),
        "weights": dict(zip(stacks[-1].names, stacks[-1].weights.tolist(), strict=True)) if stacks else {},
        "factor": stacks[-1].factor if stacks else 1.0,
        "weights of means": dict(zip(learned.mean_stack.names, learned.mean_stack.weights.tolist(), strict=True)),
        "advice": learned.advice,
        "seconds": seconds,
        "CPU seconds of this process": cpu,
    }


def _served(learned: RegressedEvaluation, visited: VisitedStates) -> float:
    """States for which moments are predicted in a second of processor time, the best of three."""
    many = np.resize(visited.observation, (20_000, *visited.observation.shape[1:]))
    seconds = []
    for _ in range(3):
        begun = time.process_time()
        learned.moments(many)
        seconds.append(time.process_time() - begun)
    return len(many) / min(seconds)


def _noise(truth: Calibration) -> float:
    """Half of the relative interval of the mean simulated gap variance, over rollouts."""
    if not (truth.simulated_variance > 0).any():
        return 0.0
    ends = truth.over_rollouts(1.0)
    return (ends.high - ends.low) / 2


def _plain(estimate: Any) -> list[float | None]:
    return [float(x) if np.isfinite(x) else None for x in (estimate, estimate.low, estimate.high)]


def main() -> None:
    """Run the problems that are missing in the file, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", help=f"of {', '.join(PROBLEMS)}; by default all but the last five")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--out", type=Path, default=Path("learned_moments.jsonl"))
    parser.add_argument("--truths", type=Path, default=Path("learned_moments_truths"))
    parser.add_argument("--truth-seconds", type=float, default=1800.0)
    parser.add_argument("--pool", type=int)
    given = parser.parse_args()
    chosen = given.problems or [name for name in PROBLEMS if name not in KEPT_ASIDE]
    done = [json.loads(line) for line in given.out.read_text("utf-8").splitlines()] if given.out.exists() else []
    print(_HEAD)
    for name in chosen:
        for seed in given.seeds:
            found = next((one for one in done if (one["problem"], one["seed"]) == (name, seed)), None)
            if found is None:
                found = measured(name, seed, given.pool, given.truths, given.truth_seconds)
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found, ensure_ascii=False) + "\n")
                record(given.out, seeds=" ".join(map(str, given.seeds)))
            print(_row(found), flush=True)


def _row(found: dict[str, Any]) -> str:
    """The run as a row of a table in Markdown."""
    cells = [
        f"{found['problem']}, seed {found['seed']}",
        f"{found['states']:,}",
        found["verdict"],
        "yes" if found["right"] else "no",
        _short(found["ratio"], 2),
        f"{_short(found['rank'], 2)} ({_short(found['rank reliability'], 2)})",
        _short(found["gain"], 3),
        ", ".join(_covered(found[name], found[f"own {name}"]) for name in ("ratio", "gain")),
        f"± {found['noise']:.1%}, {found['rollouts']:,}",
        f"{found['seconds']:.0f} ({found['CPU seconds of this process']:.0f})",
    ]
    return f"| {' | '.join(cells)} |"


def _covered(truth: list[float | None], own: list[float | None]) -> str:
    """Whether the interval of the record includes the value in the new states."""
    value, low, high = truth[0], *own[1:]
    return "–" if value is None or low is None or high is None else "yes" if low <= value <= high else "no"


def _short(ends: list[float | None], digits: int) -> str:
    value, low, high = ("–" if x is None else f"{x:.{digits}f}" for x in ends)
    return "–" if value == "–" else f"{value} [{low}, {high}]"


if __name__ == "__main__":
    main()
