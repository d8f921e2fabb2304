"""How often intervals of equally good training algorithms exclude 0: ``python -m benchmarks.score_claims``.

Five seeds of each of two algorithms, 50 episodes that all agents play; the variances by level are those of PPO and A2C
on CartPole in the tutorial "Is the new algorithm better?". With ``--rliable``, in an environment that has it and this
folder alone: ``python benchmarks/score_claims.py --rliable``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

SEEDS, EPISODES = 5, 50
SPREAD = {"seeds": 28.0, "episodes": 87.0, "both": 82.0}
"""Standard deviations of the mean return of an agent, of an episode's difference, and of what is left."""

Floats = npt.NDArray[np.float64]
Interval = tuple[float, float]


def simulated(rng: np.random.Generator) -> Floats:
    """Scores [2, seeds, episodes] of algorithms with the same mean."""
    return np.asarray(
        SPREAD["seeds"] * rng.normal(size=(2, SEEDS, 1))
        + 20 * rng.normal(size=EPISODES)
        + SPREAD["episodes"] * rng.normal(size=(2, 1, EPISODES))
        + SPREAD["both"] * rng.normal(size=(2, SEEDS, EPISODES))
    )


def rliable(scores: Floats) -> Interval:
    """The bootstrap of rliable, over the runs of each algorithm: of the difference of means."""
    library = import_module("rliable.library")

    runs = scores.mean(axis=2)[:, :, None]
    _, ends = library.get_interval_estimates(
        {"gap": (runs[1], runs[0])}, lambda x, y: np.array([x.mean() - y.mean()]), reps=1000
    )
    low, high = ends["gap"].ravel().tolist()
    return low, high


def ours(scores: Floats) -> Interval:
    """Both levels, seeds of each algorithm alone."""
    return _levels(scores, ("seed", "episode"), crossed=True, own=("seed",))


def episodes(scores: Floats) -> Interval:
    """Episodes as pairs, of the mean scores of the five agents."""
    return _levels(scores.mean(axis=1, keepdims=True).transpose(0, 2, 1), ("episode",))


def naive(scores: Floats) -> Interval:
    """Welch's t of all scores."""
    return _levels(scores.reshape(2, -1, 1), ("episode",), own=("episode",))


def _levels(scores: Floats, names: tuple[str, ...], **given: Any) -> Interval:
    from jmdp.statistics.levels import Levels
    from jmdp.statistics.means import FIXED

    a, u, e = (index.ravel() for index in np.indices(scores.shape))
    units = np.stack([u, e][: len(names)], axis=1)
    mean, below, above = Levels(scores.ravel(), a, units, names, 2, **given).errors([-1.0, 1.0], 0.05, FIXED)
    return mean - below, mean + above


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rliable", action="store_true")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rules: dict[str, Callable[[Floats], Interval]] = {"seeds and episodes": ours, "episodes as pairs": episodes}
    rules |= {"250 against 250": naive}
    if options.rliable:
        rules = {"rliable": rliable}
    rng, claims, widths = np.random.default_rng(options.seed), dict.fromkeys(rules, 0), dict.fromkeys(rules, 0.0)
    for _ in range(options.runs):
        scores = simulated(rng)
        for name, rule in rules.items():
            low, high = rule(scores)
            claims[name] += not low <= 0 <= high
            widths[name] += high - low
    print("| interval | claims a difference | mean width |\n|---|---|---|")
    for name in rules:
        share = claims[name] / options.runs
        error = 1.96 * (share * (1 - share) / options.runs) ** 0.5
        print(f"| {name} | {share:.1%} ± {error:.1%} | {widths[name] / options.runs:.3g} |")
    print(f"\n{options.runs} tables, seed {options.seed}")


if __name__ == "__main__":
    main()
