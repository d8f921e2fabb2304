"""`LearnedMoments` with its defaults on thirteen problems: ``python -m benchmarks.learned_moments --seeds 1 2 3``.

The problems were fixed before anything was tuned. Those of `KEPT_ASIDE` are not for tuning: run them to judge a version
that is finished. Learned gaps are compared with simulations in 160 new states, with as many rollouts as are needed for
the mean gap variance to be known to ± 3%. Results are kept in ``--out`` as JSON lines; a run that is there is not
repeated.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import jmdp
from jmdp.base.luck import Shock
from jmdp.methods.learned import RegressedEvaluation
from jmdp.results.calibration import Calibration

_STATES = 160
_MOST_ROLLOUTS = 3072
_PRECISION = 0.03


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
    "LunarLander": lambda: _gymnasium("LunarLander-v3"),
    "Breakout": lambda: _gymnax("Breakout-MinAtar"),
    "Asterix": lambda: _gymnax("Asterix-MinAtar"),
    "Pong": lambda: _atari("pong"),
    "Boxing": lambda: _atari("boxing"),
}
KEPT_ASIDE = ("windy 20×20", "chain", "MountainCar", "Asterix", "Boxing")


def measured(name: str, seed: int, pool: int | None) -> dict[str, Any]:
    """Learn with the defaults, and compare with simulations in new states."""
    problem = PROBLEMS[name]()
    begun, cpu = time.perf_counter(), time.process_time()
    learned = jmdp.evaluate(
        problem.simulator, problem.policy, jmdp.Synchronous(), jmdp.LearnedMoments(seed=seed, pool=pool),
        discount=problem.discount, throw=False, progress=False,
    )  # fmt: skip
    assert isinstance(learned, RegressedEvaluation)
    assert learned.calibration is not None
    own = learned.calibration
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    rollouts, truth = 24, None
    while truth is None or (_noise(truth) > _PRECISION and rollouts <= _MOST_ROLLOUTS):
        truth = learned.calibrate(seed=10**6 + seed, states=_STATES, rollouts=rollouts, pool=pool)
        rollouts *= 4
    return {
        "problem": name,
        "seed": seed,
        "verdict": learned.outcome.name,
        "ratio": _plain(truth.ratio),
        "gain": _plain(truth.variance_gain),
        "rank": _plain(truth.rank_correlation),
        "rank ceiling": _plain(truth.rank_ceiling),
        "mean R²": _plain(truth.mean_gain),
        "variation": learned.variation,
        "own ratio": _plain(own.ratio),
        "own gain": _plain(own.variance_gain),
        "noise": _noise(truth),
        "rollouts": truth.rollouts,
        "states": learned.states,
        "weights": learned.weights,
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
    parser.add_argument("--pool", type=int)
    given = parser.parse_args()
    chosen = given.problems or [name for name in PROBLEMS if name not in KEPT_ASIDE]
    done = [json.loads(line) for line in given.out.read_text("utf-8").splitlines()] if given.out.exists() else []
    for name in chosen:
        for seed in given.seeds:
            found = next((one for one in done if (one["problem"], one["seed"]) == (name, seed)), None)
            if found is None:
                found = measured(name, seed, given.pool)
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found, ensure_ascii=False) + "\n")
            columns = ("ratio", "gain", "rank", "rank ceiling")
            numbers = "  ".join(f"{column} {found[column]}" for column in columns)
            print(f"{name}, seed {seed}: {found['verdict']}  {numbers}  {found['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    main()
