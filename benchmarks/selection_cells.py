"""Problems with known best alternative, for the comparison of selection procedures: returns [n, k] on demand.

Every problem has the same scale: the gap between the best alternative and any other has standard deviation 1, and the
smallest gap of means is δ = 0.2. The distributions are those that make wrong claims likely: the best alternative owes
its mean to rare large returns ("skewed"), or the others owe theirs to rare large losses ("rare loss"), so that early
samples understate both the gap and its variance.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from jmdp.base.arrays import Floats, Integers

DELTA = 0.2
"""Smallest gap of means, in standard deviations of a gap."""

BAD = 10 * DELTA
"""Gap of the alternatives that are clearly worse."""

COMMON = 3.0
"""Standard deviation of the noise shared by all alternatives of a sample, if they are correlated."""

RARE = 0.02
"""Probability of a rare loss. Its size makes it half of the variance of a gap."""

LOSS = float(np.sqrt(0.5 / (RARE * (1 - RARE))))

Means = Literal["slippage", "one close", "monotone", "ties"]
Noise = Literal["normal", "skewed", "rare loss"]
MEANS: tuple[Means, ...] = ("slippage", "one close", "monotone", "ties")
NOISES: tuple[Noise, ...] = ("normal", "skewed", "rare loss")


@dataclass(frozen=True)
class Cell:
    """k alternatives, the first of which is best; with "ties" the second is exactly as good."""

    k: int
    arrangement: Means
    noise: Noise
    correlated: bool

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{self.k}, {self.arrangement}, {self.noise}, {'correlated' if self.correlated else 'independent'}"

    @cached_property
    def shortfalls(self) -> Floats:
        """Distance [k] of each mean from the best one."""
        worse = np.full(self.k, DELTA)
        if self.arrangement == "one close":
            worse[2:] = BAD
        elif self.arrangement == "monotone":
            worse = DELTA * np.arange(self.k)
        elif self.arrangement == "ties":
            worse[1] = 0.0
        worse[0] = 0.0
        return worse

    @cached_property
    def variances(self) -> Floats:
        """Variances [k] of the noise of each alternative, without the shared noise."""
        own = np.full(self.k, 0.5)
        if self.noise == "rare loss":
            own[0], own[1:] = 0.25, 0.75
        return own

    def draw(self, rng: np.random.Generator, n: int, columns: Integers | None = None) -> Floats:
        """Draw n samples of all alternatives, or of some: [n, columns]."""
        columns = np.arange(self.k) if columns is None else columns
        shape, first = (n, len(columns)), columns == 0
        if self.noise == "normal":
            own = np.sqrt(0.5) * rng.standard_normal(shape)
        elif self.noise == "skewed":
            own = np.where(first, 1.0, -1.0) * np.sqrt(0.5) * (rng.standard_exponential(shape) - 1)
        else:
            own = 0.5 * rng.standard_normal(shape)
            own -= np.where(first, 0.0, LOSS) * ((rng.random(shape, dtype=np.float32) < RARE) - RARE)
        own -= self.shortfalls[columns]
        if self.correlated:
            own += COMMON * rng.standard_normal((n, 1))
        return np.asarray(own)

    def sums(self, rng: np.random.Generator, counts: Integers, shared: bool = True) -> Floats:
        """Draw the sums of `counts` samples, which broadcasts to [runs, k], from their exact distribution.

        Without `shared`, the alternatives are simulated separately, so that the common noise is not common.
        """
        counts = np.asarray(counts)
        shape, first = np.broadcast_shapes(counts.shape, (self.k,)), np.arange(self.k) == 0
        n = np.broadcast_to(counts, shape)
        if self.noise == "normal":
            own = np.sqrt(0.5 * n) * rng.standard_normal(shape)
        elif self.noise == "skewed":
            own = np.where(first, 1.0, -1.0) * np.sqrt(0.5) * (rng.standard_gamma(n) - n)
        else:
            own = np.sqrt(0.25 * n) * rng.standard_normal(shape)
            own -= np.where(first, 0.0, LOSS) * (rng.binomial(n, RARE) - RARE * n)
        own -= self.shortfalls * n
        if self.correlated:
            own += COMMON * np.sqrt(n) * rng.standard_normal((*shape[:-1], 1 if shared else self.k))
        return np.asarray(own)


def cells(quick: bool) -> Iterator[Cell]:
    """All 96 cells, or those with few alternatives."""
    sizes = (2, 10) if quick else (2, 10, 50, 200)
    for k, arrangement, noise, correlated in itertools.product(sizes, MEANS, NOISES, (True, False)):
        yield Cell(k, arrangement, noise, correlated)
