"""Gaps with known mean, and what the intervals of many simulated comparisons say about them at their looks.

Columns are comparisons, so that a function of the package that takes samples [n, A] handles A comparisons at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from jmdp.statistics.means import Sampling, looks

FIRST = 32
"""Samples at the first interval."""

DECIDES = 64
"""Samples at the first scheduled look that decides: an outcome of probability 1/20 has been seen with 95%."""

BUDGETS = (50, 150, 500, 1000, 4000)
"""Sample sizes between scheduled looks at which a budget or an interrupt may end sampling."""

_COLUMNS = 500
"""Comparisons simulated at a time."""

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


@dataclass(frozen=True)
class Law:
    """Distribution of the gaps."""

    draw: Draw
    mean: float
    std: float
    limit: float = 0.05  # the rate at which its intervals may miss


def mostly_zero(chance: float, draw: Draw, mean: float, square: float) -> Law:
    """Gaps that are 0 except with this chance; `mean` and `square` are the moments of the others."""

    def mixed(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        values = np.zeros(shape)
        differ = rng.random(shape) < chance
        values[differ] = draw(rng, (int(differ.sum()), 1))[:, 0]
        return values

    return Law(mixed, chance * mean, math.sqrt(chance * square - (chance * mean) ** 2))


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.standard_normal(shape)


def exponential(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.standard_exponential(shape) - 1


def lognormal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return np.exp(rng.standard_normal(shape))


def two_values(chance: float) -> Law:
    """1 with this chance, otherwise 0."""
    return Law(lambda rng, shape: 1.0 * (rng.random(shape) < chance), chance, math.sqrt(chance * (1 - chance)))


def successes(p: float, q: float) -> Law:
    """The difference of two independent successes, of chances p and q."""
    return Law(
        lambda rng, shape: 1.0 * (rng.random(shape) < p) - (rng.random(shape) < q),
        p - q,
        math.sqrt(p * (1 - p) + q * (1 - q)),
    )


def correlated(draw: Draw, correlation: float) -> Law:
    """Gaps of two returns of variance 1 with this correlation: a common part and one of each."""
    own, common = math.sqrt(1 - correlation), math.sqrt(correlation)

    def gaps(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        shared = common * draw(rng, shape)
        return (shared + own * draw(rng, shape)) - (shared + own * draw(rng, shape))

    return Law(gaps, 0.0, math.sqrt(2) * own)


_LOGNORMAL = math.exp(0.5), math.e**2  # mean, mean square
_PARETO = 2.5

LAWS = {
    "normal": Law(normal, 0.0, 1.0),
    "exponential": Law(exponential, 0.0, 1.0),
    "lognormal": Law(lognormal, _LOGNORMAL[0], math.sqrt(_LOGNORMAL[1] - math.e)),
    "t₃": Law(lambda rng, shape: rng.standard_t(3, shape), 0.0, math.sqrt(3)),
    "two values, 50%": two_values(0.5),
    "two values, 10%": two_values(0.1),
    "90% ties": mostly_zero(0.1, normal, 0.0, 1.0),
    "successes, 50% and 50%": successes(0.5, 0.5),
    "successes, 5% and 1%": successes(0.05, 0.01),
    "successes, 2% and 2%": successes(0.02, 0.02),
    **{
        f"{100 * (1 - chance):g}% ties, rest {name}": mostly_zero(chance, draw, *moments)
        for chance in (0.05, 0.01, 0.001)
        for name, draw, moments in (
            ("normal", normal, (0.0, 1.0)),
            ("exponential", exponential, (0.0, 1.0)),
            ("lognormal", lognormal, _LOGNORMAL),
        )
    },
    **{f"normal, correlation {rho:g}": correlated(normal, rho) for rho in (0.0, 0.9, 0.99, 0.999)},
    **{f"exponential, correlation {rho:g}": correlated(exponential, rho) for rho in (0.0, 0.999)},
    "Pareto 2.5": Law(
        lambda rng, shape: (1 - rng.random(shape)) ** (-1 / _PARETO),
        _PARETO / (_PARETO - 1),
        math.sqrt(_PARETO / (_PARETO - 2)) / (_PARETO - 1),
        0.06,
    ),
    # no constant of an interval was chosen on the rest
    "uniform": Law(lambda rng, shape: rng.random(shape), 0.5, math.sqrt(1 / 12)),
    "gamma ½": Law(lambda rng, shape: rng.standard_gamma(0.5, shape), 0.5, math.sqrt(0.5)),
    "−lognormal ½": Law(
        lambda rng, shape: -np.exp(0.5 * rng.standard_normal(shape)),
        -math.exp(0.125),
        math.sqrt(math.exp(0.5) - math.exp(0.25)),
    ),
    "normal, 5% with std 5": Law(
        lambda rng, shape: rng.standard_normal(shape) * np.where(rng.random(shape) < 0.05, 5.0, 1.0),
        0.0,
        math.sqrt(0.95 + 0.05 * 25),
    ),
    "80% ties, rest gamma ½": mostly_zero(0.2, lambda rng, shape: rng.standard_gamma(0.5, shape), 0.5, 0.75),
}


@dataclass(frozen=True)
class Watched:
    """What many comparisons say at their looks; arrays are [looks, runs]."""

    looks: np.ndarray
    off: np.ndarray  # mean of the samples less the true mean
    below: np.ndarray  # how far it may be below the true mean, as stated; infinite without an interval
    above: np.ndarray

    @property
    def known(self) -> np.ndarray:
        """Whether there is an interval."""
        return np.isfinite(self.below) & np.isfinite(self.above)

    @property
    def missed(self) -> np.ndarray:
        """Whether the interval leaves out the true mean."""
        return (self.off > self.below) | (-self.off > self.above)

    def ever(self, first: int = FIRST) -> np.ndarray:
        """[runs], whether some interval leaves out the true mean, from this look on."""
        return self.missed[self.looks >= first].any(axis=0)

    def without(self, n: int) -> float:
        """Share of comparisons without an interval at the first look of at least n samples."""
        return 1 - float(self.known[int(np.argmax(self.looks >= n))].mean())

    def stops(self, gap: float, first: int = DECIDES) -> np.ndarray:
        """[runs], samples at the first look that decides if the true mean gap is this; infinite if none does."""
        mean = self.off + gap
        decided = ((mean > self.below) | (-mean > self.above)) & (self.looks >= first)[:, None]
        return np.where(decided.any(axis=0), self.looks[decided.argmax(axis=0)], np.inf)


def scheduled(budget: int) -> list[int]:
    """Looks of a sequential comparison from 32 samples on, up to the budget."""
    return [n for n in takewhile(lambda n: n <= budget, looks()) if n >= FIRST]


def watch(
    law: Law, runs: int, seed: int, at: Sequence[int], error: float = 0.05, sampling: Sampling | None = None
) -> Watched:
    """Intervals of this many independent comparisons at the given looks."""
    sampling = Sampling() if sampling is None else sampling
    found = np.empty((3, len(at), runs))
    for first in range(0, runs, _COLUMNS):
        block = slice(first, min(runs, first + _COLUMNS))
        values = law.draw(np.random.default_rng([seed, first]), (max(at), block.stop - first))
        for i, n in enumerate(at):
            below, above = sampling.mean_errors(values[:n], error)
            found[:, i, block] = values[:n].mean(axis=0) - law.mean, below, above
    return Watched(np.array(at), *found)
