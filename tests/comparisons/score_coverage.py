"""How often intervals of recorded scores contain the truth: `python tests/comparisons/score_coverage.py --runs 2000`.

Scores of two alternatives are simulated from models whose true mean gap is known, in each of the designs that
`compare_scores` has, and for each size (units of the outer level × of the inner one). Beside it: the naive interval,
Welch's t of all scores as if they were independent.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time

import numpy as np
from scipy.special import stdtrit
from scipy.stats import binom

from jmdp.comparisons.score_comparison import limits_of
from jmdp.statistics.levels import Levels
from jmdp.statistics.means import FIXED

SIZES = ((5, 20), (20, 5), (50, 4), (200, 1))
KINDS = ("normal", "binary", "skewed")
DESIGNS = ("nested", "fixed", "own", "crossed")
GAP = 0.3
EASIER = 0.8  # binary: the success rate of the new alternative on a task of rate u is u ** EASIER


def noise(rng, kind, *shape):
    """Effects with mean 0 and variance 1."""
    return rng.normal(size=shape) if kind == "normal" else rng.exponential(size=shape) - 1


def simulated(rng, design, kind, units, each):
    """Scores [A, units, each] of old and new, and the true mean gap."""
    if kind == "binary":
        if design == "fixed":
            rates = np.linspace(0.05, 0.95, units)
            rates = np.stack([rates, rates**EASIER])[:, :, None]
            return (rng.random((2, units, each)) < rates).astype(float), float((rates[1] - rates[0]).mean())
        if design == "nested":
            u = rng.random(units)
            rates = np.stack([u, u**EASIER])[:, :, None]
        elif design == "own":
            u = rng.random((2, units))
            rates = np.stack([u[0], u[1] ** EASIER])[:, :, None]
        else:  # crossed: skill of the seed and ease of the episode
            skill, ease = rng.random((2, units))[:, :, None], rng.random(each)
            rates = np.stack([(skill[0] + ease) / 2, (skill[1] ** EASIER + ease) / 2])
        truth = 1 / (1 + EASIER) - 0.5
        return (rng.random((2, units, each)) < rates).astype(float), truth / 2 if design == "crossed" else truth
    shift = np.array([0.0, GAP])[:, None, None]
    trials = noise(rng, kind, 2, units, each)
    if design == "fixed":
        return shift + np.linspace(-2, 2, units)[:, None] + trials, GAP
    if design == "nested":  # tasks that both meet, and an effect of the task on each
        return shift + noise(rng, kind, units)[:, None] + 0.5 * noise(rng, kind, 2, units, 1) + trials, GAP
    seeds = 0.7 * noise(rng, kind, 2, units, 1)
    if design == "own":
        return shift + seeds + trials, GAP
    return shift + seeds + noise(rng, kind, each) + 0.5 * noise(rng, kind, 2, 1, each) + trials, GAP


def levels_of(scores, design):
    """The levels of a design, as `compare_scores` makes them."""
    a, u, e = (index.ravel() for index in np.indices(scores.shape))
    names = ("task", "trial") if design in ("nested", "fixed") else ("seed", "episode")
    if scores.shape[2] == 1:
        names = names[:1]
    return Levels(
        values=scores.ravel(), alternative=a, units=np.stack([u, e][: len(names)], axis=1), names=names, alternatives=2,
        crossed=design == "crossed", own=("seed",) if design in ("own", "crossed") else (),
        fixed=("task",) if design == "fixed" else (),
    )  # fmt: skip


def naive(scores, error):
    """Welch's t of all scores: the gap, and its error."""
    flat = scores.reshape(2, -1)
    parts = flat.var(axis=1, ddof=1) / flat.shape[1]
    if not parts.sum():
        return float(flat[1].mean() - flat[0].mean()), math.inf
    freedom = parts.sum() ** 2 / (parts**2 / (flat.shape[1] - 1)).sum()
    return float(flat[1].mean() - flat[0].mean()), -float(stdtrit(freedom, error / 2)) * math.sqrt(parts.sum())


def identified(design, units, each):
    """Whether the variance can be estimated: trials of fixed tasks, and crossed levels, need two of each."""
    return each > 1 or design in ("nested", "own")


def coverage(design, kind, units, each, runs, seed=0, error=0.05):
    """How often the interval and the naive one contain the truth, and their mean widths."""
    rng = np.random.default_rng([seed, DESIGNS.index(design), KINDS.index(kind), units, each])
    hits, widths = np.zeros(2), np.zeros(2)
    weights = np.array([-1.0, 1.0])
    for _ in range(runs):
        scores, truth = simulated(rng, design, kind, units, each)
        mean, below, above = limits_of(levels_of(scores, design), weights, error, FIXED)
        gap, wide = naive(scores, error)
        hits += mean - below <= truth <= mean + above, abs(gap - truth) <= wide
        widths += min(below + above, 10.0), 2 * min(wide, 10.0)
    return hits / runs, widths / runs


def holds(share, runs, units, each, kind, design):
    """The rule of the issue: 95% is not excluded, or coverage is at least 93%; below 8 units for normal data alone."""
    fewest = min(units, each) if design == "crossed" else units * each if design == "fixed" else units
    if fewest < 8 and kind != "normal":
        return True
    return share >= 0.93 or binom.cdf(round(share * runs), runs, 0.95) > 0.025


def main():
    """Print a table; exit code 1 if a cell fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failed, start = 0, time.monotonic()
    print("| design | scores | units × each | covers | naive | width | naive width |\n|---|---|---|---|---|---|---|")
    for design, kind, (units, each) in itertools.product(DESIGNS, KINDS, SIZES):
        if not identified(design, units, each):
            continue
        (own, other), (width, wide) = coverage(design, kind, units, each, options.runs, options.seed)
        good = holds(own, options.runs, units, each, kind, design)
        failed += not good
        print(
            f"| {design} | {kind} | {units} × {each} | {own:.1%}{'' if good else ' FAILS'} | {other:.1%} "
            f"| {width:.3g} | {wide:.3g} |",
            flush=True,
        )
    print(f"\n{options.runs} runs a cell, seed {options.seed}; {time.monotonic() - start:.0f} s; {failed} cells fail")
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
