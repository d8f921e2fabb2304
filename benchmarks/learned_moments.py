"""`LearnedMoments` with its defaults on thirteen problems: ``python -m benchmarks.learned_moments --seeds 1 2 3``.

The problems were fixed before anything was tuned. Those of `KEPT_ASIDE` are not for tuning: run them to judge a version
that is finished. Learned gaps are compared with simulations in 160 new states, with as many rollouts as are needed for
the mean gap variance to be known to ± 3%, or as ``--truth-seconds`` allows. These simulations are kept in ``--truths``,
a file for each problem, and all seeds use the same. Results are kept in ``--out`` as JSON lines; a run that is there is
not repeated.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import jmdp
from jmdp.base.luck import Shock
from jmdp.distribute.process_pool import pool_of
from jmdp.methods.learned import RegressedEvaluation
from jmdp.methods.learned.candidates import Moments
from jmdp.methods.learned.learned_result import gap_variances
from jmdp.methods.learned.stack import CovarianceStack
from jmdp.methods.learned.visited import BLOCK, VisitedStates, VisitPlan, calibration_of
from jmdp.results.calibration import Calibration

_STATES = 160
_FIRST_ROLLOUTS, _MOST_ROLLOUTS = 24, 6144
_PRECISION = 0.03
_HEAD = """\
| problem | states | verdict | right | ratio | in the record's interval | rank (reliability) | gain | truth | s (CPU) |
|---|---|---|---|---|---|---|---|---|---|"""
_TRUTH = 10**6
"""Seed of the new states, which are those of no seed of `LearnedMoments`."""


class Problem(NamedTuple):
    """A simulator with its policy; the discount is the simulator's own if it has one."""

    simulator: Any
    policy: Any
    discount: float | None = None


class Anywhere(jmdp.simulators.TabularSimulator):
    """A table whose episodes begin in any state that is not terminal."""

    def start(self, shock: Shock) -> int:
        """Draw a state."""
        return int(shock.generator().choice(np.flatnonzero(~self.model.terminal)))


def _inventory() -> Problem:
    shop: Any = jmdp.worlds.inventory(20).simulator
    return Problem(shop, shop.policies["reorder"])


def _windy() -> Problem:
    world = jmdp.worlds.windy_gridworld(20, 20)
    return Problem(Anywhere(world.model), world.policies["careless"])


def _queue() -> Problem:
    queue: Any = jmdp.worlds.queue_admission().simulator
    return Problem(queue, queue.policies["threshold"], None)


def _chain() -> Problem:
    world = jmdp.worlds.coupled_reward_chain()
    return Problem(Anywhere(world.model), world.policies["uniform"])


def _gymnasium(name: str) -> Problem:
    import gymnasium

    return Problem(gymnasium.make(name), "uniform", 0.95)


def _lunar_lander() -> Problem:
    import gymnasium

    env = gymnasium.make("LunarLander-v3")  # its physics cannot be copied
    return Problem(jmdp.simulators.GymnasiumSimulator(env, snapshot="replay"), "uniform", 0.95)


def _mountain_car() -> Problem:
    import gymnasium

    class Shaped(gymnasium.Wrapper[Any, Any, Any, Any]):
        """Reward for speed, because the goal is out of reach of a random policy."""

        def step(self, action: Any) -> Any:
            seen, reward, *rest = self.env.step(action)
            return seen, float(reward) + 100 * abs(float(seen[1])), *rest

    return Problem(Shaped(gymnasium.make("MountainCar-v0")), "uniform", 0.95)


def _pendulum() -> Problem:
    import gymnasium

    torques = np.array([[-2.0], [0.0], [2.0]], np.float32)
    env = gymnasium.make("Pendulum-v1")
    listed: Any = gymnasium.wrappers.TransformAction(env, lambda a: torques[a], gymnasium.spaces.Discrete(3))
    return Problem(listed, "uniform", 0.95)


def _gymnax(name: str) -> Problem:
    import gymnax

    return Problem(gymnax.make(name)[0], "uniform", 0.95)


def _atari(name: str) -> Problem:
    return Problem(jmdp.simulators.ALESimulator(name, sticky=0.25), "uniform", 0.95)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "inventory 20": _inventory,
    "windy 20×20": _windy,
    "queue": _queue,
    "chain": _chain,
    "CartPole": lambda: _gymnasium("CartPole-v1"),
    "Acrobot": lambda: _gymnasium("Acrobot-v1"),
    "MountainCar": _mountain_car,
    "Pendulum": _pendulum,
    "LunarLander": _lunar_lander,
    "Breakout": lambda: _gymnax("Breakout-MinAtar"),
    "Asterix": lambda: _gymnax("Asterix-MinAtar"),
    "Pong": lambda: _atari("pong"),
    "Boxing": lambda: _atari("boxing"),
}
KEPT_ASIDE = ("windy 20×20", "chain", "MountainCar", "Asterix", "Boxing")


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
    plan = VisitPlan(learned.simulator, learned.actor, learned.coupling, learned.discount, learned.horizon, root.seed())
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
        "weights": dict(zip(stacks[-1].names, stacks[-1].weights.tolist(), strict=True)) if stacks else {},
        "factor": stacks[-1].factor if stacks else 1.0,
        "weights of means": dict(zip(learned.mean_stack.names, learned.mean_stack.weights.tolist(), strict=True)),
        "advice": learned.advice,
        "seconds": seconds,
        "CPU seconds of this process": cpu,
    }


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
    parser.add_argument("problems", nargs="*", help=f"of {', '.join(PROBLEMS)}; all but {', '.join(KEPT_ASIDE)}")
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
            print(_row(found), flush=True)


def _row(found: dict[str, Any]) -> str:
    """The run as a row of a table in Markdown."""
    ratio, own = found["ratio"], found["own ratio"]
    covered = "–" if None in (ratio[0], *own) else "yes" if own[1] <= ratio[0] <= own[2] else "no"
    cells = [
        f"{found['problem']}, seed {found['seed']}",
        f"{found['states']:,}",
        found["verdict"],
        "yes" if found["right"] else "no",
        _short(ratio, 2),
        covered,
        f"{_short(found['rank'], 2)} ({_short(found['rank reliability'], 2)})",
        _short(found["gain"], 3),
        f"± {found['noise']:.1%}, {found['rollouts']:,}",
        f"{found['seconds']:.0f} ({found['CPU seconds of this process']:.0f})",
    ]
    return f"| {' | '.join(cells)} |"


def _short(ends: list[float | None], digits: int) -> str:
    value, low, high = ("–" if x is None else f"{x:.{digits}f}" for x in ends)
    return "–" if value == "–" else f"{value} [{low}, {high}]"


if __name__ == "__main__":
    main()
