"""Selection procedures from the literature, for normal returns and an indifference zone δ, and a paired t-test.

They assume what they need: normal returns (all), a smallest gap that matters (all), equal variances of all gaps (Nelson
& Matejcik), the true variances (the size of the t-test), separate simulations of the alternatives (Rinott).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import optimize, special, stats

from benchmarks.selection_cells import DELTA, Cell
from benchmarks.selection_kim_nelson import kim_nelson
from jmdp.base.arrays import Floats, Integers

ERROR = 0.05
"""Allowed probability of a wrong claim or selection."""

FIRST_STAGE = 20
"""Samples of the first stage of the procedures with two stages."""


class Runs(NamedTuple):
    """Results of independent runs of one procedure in one cell."""

    chosen: Integers  # [runs], −1 if undecided
    rollouts: Integers  # [runs], over all alternatives


def paired_t_test(cell: Cell, rng: np.random.Generator, runs: int) -> Runs:
    """Claim the leader if all one-sided paired t-tests at level ERROR/(k − 1) reject, after n samples.

    n is the smallest for which a gap of δ is detected with probability 1 − ERROR/(k − 1) if its variance is known:
    n = (2 z/δ)² with z the normal quantile of 1 − ERROR/(k − 1). By Bonferroni, all gaps are then detected with
    probability 1 − ERROR.
    """
    level = ERROR / (cell.k - 1)
    n = math.ceil((2 * stats.norm.isf(level) / DELTA) ** 2)
    critical = stats.t.isf(level, n - 1)
    chosen = np.full(runs, -1)
    for run in range(runs):
        returns = cell.draw(rng, n)
        leader = int(returns.mean(axis=0).argmax())
        gaps = np.delete(returns[:, [leader]] - returns, leader, axis=1)
        if (gaps.mean(axis=0) > critical * gaps.std(axis=0, ddof=1) / math.sqrt(n)).all():
            chosen[run] = leader
    return Runs(chosen, np.full(runs, n * cell.k))


def fully_sequential(cell: Cell, rng: np.random.Generator, runs: int) -> Runs:
    """Kim & Nelson (2001) with c = 1 and 10 samples in the first stage; valid under common random numbers."""
    found = [kim_nelson(cell.k, lambda n, active: cell.draw(rng, n, active), DELTA, ERROR) for _ in range(runs)]
    return Runs(*np.array(found).T)


def nelson_matejcik(cell: Cell, rng: np.random.Generator, runs: int) -> Runs:
    """Nelson & Matejcik (1995): two stages, for common random numbers if all gaps have one variance (sphericity).

    N = max(n₀, ⌈(g S/δ)²⌉) samples of each alternative, S² twice the residual variance of the table n₀ × k.
    """
    n0, k = FIRST_STAGE, cell.k
    first = cell.draw(rng, runs * n0).reshape(runs, n0, k)
    rest = first - first.mean(axis=1, keepdims=True) - first.mean(axis=2, keepdims=True)
    rest += first.mean(axis=(1, 2), keepdims=True)
    variance = 2 * (rest**2).sum(axis=(1, 2)) / ((k - 1) * (n0 - 1))
    n = np.maximum(n0, np.ceil(nelson_matejcik_constant(k) ** 2 * variance / DELTA**2)).astype(int)
    sums = first.sum(axis=1) + cell.sums(rng, (n - n0)[:, None])
    return Runs(sums.argmax(axis=1), n * k)


def rinott(cell: Cell, rng: np.random.Generator, runs: int) -> Runs:
    """Rinott (1978): two stages, each alternative simulated separately, with its own variance S_i².

    N_i = max(n₀, ⌈(h S_i/δ)²⌉) samples of alternative i.
    """
    n0, k = FIRST_STAGE, cell.k
    first = np.stack([cell.draw(rng, runs * n0, np.array([i]))[:, 0] for i in range(k)], axis=1).reshape(runs, n0, k)
    wanted = np.ceil(rinott_constant(k) ** 2 * first.var(axis=1, ddof=1) / DELTA**2)
    n = np.maximum(n0, wanted).astype(int)  # [runs, k]
    means = (first.sum(axis=1) + cell.sums(rng, n - n0, shared=False)) / n
    return Runs(means.argmax(axis=1), n.sum(axis=1))


@lru_cache
def nelson_matejcik_constant(k: int, n0: int = FIRST_STAGE, error: float = ERROR) -> float:
    """Constant g: upper quantile of the maximum of k − 1 t variables with correlations ½, (k − 1)(n₀ − 1) degrees.

    P(max ≤ g) = E[Φ(√2 g s − z)^(k − 1)] with z normal and s² a mean of squares with that many degrees of freedom.
    """
    freedom = (k - 1) * (n0 - 1)
    z, weights = _normal_nodes()
    p, p_weights = _uniform_nodes()
    s = np.sqrt(special.chdtri(freedom, 1 - p) / freedom)

    def missing(g: float) -> float:
        inner = special.ndtr(math.sqrt(2) * g * s[:, None] - z) ** (k - 1) @ weights
        return float(p_weights @ inner) - (1 - error)

    return float(optimize.brentq(missing, 0.1, 20.0, xtol=1e-10))


@lru_cache
def rinott_constant(k: int, n0: int = FIRST_STAGE, error: float = ERROR) -> float:
    """Constant h: E_y[(E_x Φ(h/√(ν (1/x + 1/y))))^(k − 1)] = 1 − error, x and y chi-squared with ν = n₀ − 1 degrees."""
    freedom = n0 - 1
    p, weights = _uniform_nodes()
    x = special.chdtri(freedom, 1 - p)

    def missing(h: float) -> float:
        inner = special.ndtr(h / np.sqrt(freedom * (1 / x[:, None] + 1 / x))) @ weights
        return float(weights @ inner ** (k - 1)) - (1 - error)

    return float(optimize.brentq(missing, 0.1, 50.0, xtol=1e-10))


def _normal_nodes() -> tuple[Floats, Floats]:
    """Nodes and weights of an integral over the standard normal distribution."""
    z, weights = np.polynomial.hermite_e.hermegauss(100)
    return z, weights / math.sqrt(2 * math.pi)


def _uniform_nodes() -> tuple[Floats, Floats]:
    """Nodes and weights of an integral over (0, 1), dense at its ends: p = 6 t⁵ − 15 t⁴ + 10 t³."""
    t, weights = np.polynomial.legendre.leggauss(400)
    t, weights = (t + 1) / 2, weights / 2
    return t**3 * (10 - 15 * t + 6 * t**2), weights * 30 * t**2 * (1 - t) ** 2
