"""Scores of alternatives on one or two levels of randomness, and the variance of their means by level.

The outer level is that of tasks or training seeds, the inner one that of trials within them, or of evaluation episodes
that are crossed with them. A level is shared by the alternatives unless it is their `own`: then its parts of the
variance add. A `fixed` level has no part in the variance: the statement is about these units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.errors import SettingsError
from jmdp.statistics.means import (
    ENOUGH,
    FEW,
    Sampling,
    differ_from_median,
    fixed_errors_of,
    sequential_errors,
    shape_of,
)

STATISTICS = ("mean", "median", "iqm")


@dataclass(frozen=True)
class Part:
    """One source of the variance of an estimate."""

    level: str
    variance: float
    freedom: float  # degrees of freedom of the variance
    third: float = 0.0  # third central moment of the estimate that it contributes


@dataclass(frozen=True)
class Spread:
    """An estimate, and the sources of its variance; `common` was counted twice in the parts."""

    mean: float
    parts: tuple[Part, ...]
    common: Part | None = None

    @property
    def variance(self) -> float:
        """Variance of the estimate: at least that of the largest part."""
        found = sum(part.variance for part in self.parts)
        if self.common is not None:
            found = max(found - self.common.variance, *(part.variance for part in self.parts))
        return found

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the variance (Satterthwaite): not fewer than those of its worst known part."""
        parts = [*self.parts, *([] if self.common is None else [self.common])]
        below = sum(part.variance**2 / part.freedom for part in parts if part.freedom > 0)
        least = min(part.freedom for part in self.parts)
        return max(least, self.variance**2 / below) if below > 0 else math.inf

    def errors(self, error: float) -> tuple[float, float]:
        """How far the estimate may be below and above the truth: Student's t, and its correction for skewness."""
        from scipy.special import stdtrit

        variance = self.variance
        if not variance > 0 or any(part.freedom < 1 for part in self.parts):
            return math.inf, math.inf
        t = -float(stdtrit(self.freedom, error / 2))
        tail = sum(part.third for part in self.parts) / variance * (t * t / 3 + 1 / 6)
        return t * math.sqrt(variance) + max(0.0, -tail), t * math.sqrt(variance) + max(0.0, tail)


@dataclass(frozen=True, eq=False)
class Levels:
    """Scores in long form, one row for each score, and the levels of their randomness."""

    values: Floats  # [m]
    alternative: Integers  # [m], number of the alternative
    units: Integers  # [m, L], number of the unit on each level; trials are numbered within their task
    names: tuple[str, ...]  # of the L levels, the outer one first
    alternatives: int
    crossed: bool = False  # units of the inner level are the same in all of the outer one
    own: tuple[str, ...] = ()  # levels that the alternatives do not share
    fixed: tuple[str, ...] = ()
    statistic: str = "mean"

    @cached_property
    def counts(self) -> Integers:
        """[U, A], scores of each unit of the outer level."""
        found = np.zeros((int(self.units[:, 0].max()) + 1, self.alternatives), np.int64)
        np.add.at(found, (self.units[:, 0], self.alternative), 1)
        return found

    @cached_property
    def outer(self) -> Floats:
        """[U, A], mean score of each unit of the outer level; nan without one."""
        return self._moments[0]

    @cached_property
    def _moments(self) -> tuple[Floats, Floats, Floats]:
        """[U, A], mean of each unit, variance and third central moment of its trials; nan where there are too few."""
        at, n = (self.units[:, 0], self.alternative), self.counts
        sums = np.zeros(n.shape)
        np.add.at(sums, at, self.values)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(n > 0, sums / n, np.nan)
            powers = []
            for power in (2, 3):
                found = np.zeros(n.shape)
                np.add.at(found, at, (self.values - mean[at]) ** power)
                powers.append(found)
            variance = np.where(n > 1, powers[0] / (n - 1), np.nan)
            third = np.where(n > 2, powers[1] * n / ((n - 1) * (n - 2)), np.nan)
        return mean, variance, third

    @cached_property
    def grid(self) -> Floats:
        """[A, U, E], the score of each unit of both levels, if they are crossed; nan where an alternative has none."""
        size = self.alternatives, *(int(units.max()) + 1 for units in self.units.T)
        sums, counts = np.zeros(size), np.zeros(size)
        at = self.alternative, self.units[:, 0], self.units[:, 1]
        np.add.at(sums, at, self.values)
        np.add.at(counts, at, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(counts > 0, sums / counts, np.nan)

    @cached_property
    def in_all(self) -> Booleans:
        """[U], whether each unit of the level by which scores are paired has a score of every alternative."""
        return np.asarray(np.isfinite(self.paired).all(axis=1))

    @property
    def pairs(self) -> int | None:
        """The level whose units pair the scores of the alternatives; None if they share none."""
        shared = [i for i, name in enumerate(self.names[: 1 + self.crossed]) if name not in self.own]
        return shared[-1] if shared and self.crossed and self.names[0] in self.own else shared[0] if shared else None

    @cached_property
    def paired(self) -> Floats:
        """[units, A], mean score of each unit by which scores are paired; of unpaired ones in the order of names."""
        if self.pairs == 1:
            with np.errstate(invalid="ignore"):
                found = [np.nanmean(one[np.isfinite(one).any(axis=1)], axis=0) for one in self.grid]
            return np.stack(found, axis=1)
        if self.pairs == 0:
            return self.outer
        columns = [column[np.isfinite(column)] for column in self.outer.T]
        least = min(map(len, columns))
        return np.stack([column[:least] for column in columns], axis=1)

    @property
    def drawn(self) -> list[str]:
        """Levels with a part in the variance."""
        return [name for name in self.names if name not in self.fixed]

    @property
    def simple(self) -> bool:
        """Whether pairs of units of the outer level are all that is random."""
        return self.pairs == 0 and not self.crossed and self.names[0] not in self.fixed

    @property
    def units_drawn(self) -> int:
        """The smallest number of units of a level that is drawn, and so the number of effects that its variance has."""
        if self.names[0] in self.fixed:
            return int(self.counts[self.in_all].sum(axis=0).min()) if not self.crossed else self._sizes[1]
        if self.crossed:
            return min(size for name, size in zip(self.names, self._sizes, strict=True) if name not in self.fixed)
        return self._sizes[0]

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        """Units of each level that are used: the fewest of any alternative."""
        if self.crossed:
            rows = [int(np.isfinite(one).any(axis=1).sum()) for one in self.grid]
            return min(rows), int(self.in_all.sum()) if self.pairs == 1 else self.grid.shape[2]
        if self.pairs is None:
            return (int(np.isfinite(self.outer).sum(axis=0).min()),)
        return (int(self.in_all.sum()),)

    @cached_property
    def binary(self) -> bool:
        """Whether scores are successes and failures, one of each alternative on each unit that pairs them."""
        single = self.simple and bool((self.counts[self.in_all] == 1).all())
        return single and self.statistic == "mean" and bool(np.isin(self.values, (0.0, 1.0)).all())

    # ------------------------------------------------------------------------------------------ estimates

    def spread(self, weights: Sequence[float]) -> Spread:
        """The estimate of Σ w_a m_a, with m_a the mean (or other statistic) of an alternative, and its variance."""
        w = np.asarray(weights, dtype=float)
        if self.crossed:
            return self._crossed(w)
        if self.names[0] in self.fixed:
            return self._within_fixed(w)
        if self.pairs is None:
            own = [w[a] * self._outer_of(a) for a in np.flatnonzero(w).tolist()]
            return Spread(sum(float(one.mean()) for one in own), tuple(self._of(self.names[0], one) for one in own))
        z = self.rows @ w
        return Spread(float(z.mean()), (self._of(self.names[0], z),))

    @cached_property
    def rows(self) -> Floats:
        """[n, A], values of the pairs, whose means are the statistic of each alternative."""
        used = self.paired[self.in_all]
        return np.stack([linearised(column, self.statistic) for column in used.T], axis=1)

    def errors(self, weights: Sequence[float], error: float, sampling: Sampling) -> tuple[float, float, float]:
        """The estimate, and how far it may be below and above the truth.

        Of pairs as of all samples. For fewer than 8 units Student's t alone: their skewness is not known. The standard
        error of a median is not known from fewer than 32.
        """
        w = np.asarray(weights, dtype=float)
        found = self.spread(weights)
        if self.statistic == "median" and len(self.paired) < ENOUGH:
            return found.mean, math.inf, math.inf
        if not self.simple:
            return found.mean, *found.errors(error)
        z = (self.rows @ w)[:, None]
        n = len(z)
        if n < 2 or np.ptp(z) <= 1e-13 * max(1.0, float(np.abs(z).max())):
            return found.mean, math.inf, math.inf
        if sampling.kind != "fixed":  # more may arrive after any score, not only at scheduled looks
            if n < ENOUGH:
                return found.mean, math.inf, math.inf
            both = float(sequential_errors(n, shape_of(z), sampling.radius(n, error / 2), error)[0])
            return found.mean, both, both
        if n < FEW:
            return found.mean, *found.errors(error)
        shape = shape_of(z)
        sides = (differ_from_median(z) < n / 2) & (n < 10 * shape[2])
        below, above = fixed_errors_of(n, shape, error, sides)
        return found.mean, float(below[0]), float(above[0])

    def _outer_of(self, a: int) -> Floats:
        found = self.outer[:, a]
        return linearised(found[np.isfinite(found)], self.statistic)

    def _of(self, level: str, values: Floats) -> Part:
        """The variance of the mean of independent values."""
        n = len(values)
        if n < 2:
            return Part(level, math.nan, 0.0)
        about = values - values.mean()
        third = float((about**3).sum()) / ((n - 1) * (n - 2) * n) if n >= FEW else 0.0
        return Part(level, float(about @ about) / (n - 1) / n, n - 1.0, third)

    def _within_fixed(self, w: Floats) -> Spread:
        """Trials within fixed tasks: Σ_a w_a² Σ_u s²_au/r_au/U²."""
        mean, variance, third = (found[self.in_all] for found in self._moments)
        r = self.counts[self.in_all]
        if (r < 2).any():
            raise SettingsError(_two_trials(self.names))
        U, square = len(r), w * w
        parts = square * variance / r / U**2
        total = float(parts.sum())
        freedom = total**2 / float((parts**2 / (r - 1)).sum()) if total > 0 else 0.0
        skew = float((w**3 * np.where(r > 2, third, 0.0) / r**2).sum()) / U**3 if (r > 2).all() else 0.0
        inner = self.names[1] if len(self.names) > 1 else "trial"
        return Spread(float(mean.mean(axis=0) @ w), (Part(inner, total, freedom, skew),))

    def _crossed(self, w: Floats) -> Spread:
        """Both levels crossed: their variances, less that of the residuals, which both contain."""
        tables = [self.table(a) for a in np.flatnonzero(w).tolist()]
        scaled = [w[a] * table for a, table in zip(np.flatnonzero(w).tolist(), tables, strict=True)]
        if all(name not in self.own for name in self.names):
            scaled = [np.sum(scaled, axis=0)]
        outer, inner = self.names
        parts: list[Part] = []
        common, freedom = 0.0, 0.0
        for table in scaled:
            U, E = table.shape
            if outer not in self.fixed:
                parts.append(self._of(outer, table.mean(axis=1)))
            rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
            left = (U - 1) * (E - 1)
            part = float((rest**2).sum()) / left / (U * E) if left else 0.0
            common, freedom = common + part, freedom + (part**2 / left if left else 0.0)
        if inner not in self.fixed:
            columns = [table.mean(axis=0) for table in scaled]
            parts += [self._of(inner, one) for one in (columns if inner in self.own else [np.sum(columns, axis=0)])]
        both = len(self.drawn) == 2
        degrees = common**2 / freedom if freedom else 0.0
        mean = float(sum(table.mean() for table in scaled))
        return Spread(mean, tuple(parts), Part("both", common, degrees) if both else None)

    def table(self, a: int) -> Floats:
        """[U, E], the scores of one alternative: each of its units with each episode of all alternatives."""
        found = self.grid[a][np.isfinite(self.grid[a]).any(axis=1)]
        if self.pairs is None:
            return np.asarray(found)
        return np.asarray(found[:, self.in_all] if self.pairs == 1 else found[self.in_all])

    # ------------------------------------------------------------------------------------------ variance by level

    def shares(self, weights: Sequence[float]) -> dict[str, float]:
        """Shares of the variance of Σ w_a m_a by level, which sum to 1: what more units of each level would narrow."""
        w = np.asarray(weights, dtype=float)
        outer, *inner = self.names
        found = self.spread(weights)
        if self.crossed:
            both = 0.0 if found.common is None else found.common.variance
            shares = dict.fromkeys(self.drawn, 0.0)
            for part in found.parts:
                shares[part.level] += part.variance
            if found.common is not None:
                shares = {name: max(0.0, value - both) for name, value in shares.items()} | {"both": both}
        elif outer in self.fixed:
            return {(inner or ["trial"])[0]: 1.0}
        else:
            used = self.in_all if self.pairs == 0 else np.ones(len(self.counts), bool)
            r, variance = self.counts[used][:, w != 0], self._moments[1][used][:, w != 0]
            if not (r > 1).any(axis=0).all() or self.statistic != "mean":
                raise SettingsError(_two_trials(self.names))
            pooled = np.nansum(np.where(r > 1, (r - 1) * variance, 0.0), axis=0) / np.where(r > 1, r - 1, 0).sum(axis=0)
            with np.errstate(divide="ignore"):
                each = np.where(r > 0, 1 / r, np.nan)
            sizes = np.isfinite(each).sum(axis=0)
            within = float((w[w != 0] ** 2 * pooled * np.nansum(each, axis=0) / sizes**2).sum())
            shares = {outer: max(0.0, found.variance - within), (inner or ["trial"])[0]: within}
        total = sum(shares.values())
        return {name: value / total if total > 0 else math.nan for name, value in shares.items()}


def _two_trials(names: Sequence[str]) -> str:
    inner = names[1] if len(names) > 1 else "trial"
    return (
        f"Some {names[0]} has one {inner} only, so the variance between {inner}s is not known. Give two or more "
        f"{inner}s of each {names[0]}, by every alternative."
    )


def linearised(values: Floats, statistic: str) -> Floats:
    """[n] values whose mean is the statistic of these, and whose standard error is that of the statistic.

    The interquartile mean is that of the middle half: its influence values are the values cut off at the quartiles
    (Yuen, "The two-sample trimmed t for unequal population variances", Biometrika 1974). Those of the median are signs,
    with the standard error that order statistics around it say (Price & Bonett, "Estimating the variance of the sample
    median", JSCS 2001).
    """
    n = len(values)
    if statistic == "mean" or n == 0:
        return values
    from scipy.special import bdtr, ndtri, stdtrit

    order = np.sort(values)
    if statistic == "iqm":
        cut = n // 4
        middle = float(order[cut : n - cut].mean())
        limited = np.clip(values, order[cut], order[n - 1 - cut])
        kept = n - 2 * cut
        if kept < 2:
            return np.full(n, middle)
        t = float(stdtrit(kept - 1, 0.025) / stdtrit(n - 1, 0.025))  # degrees of freedom are those of the middle half
        wider = t * math.sqrt(n * (n - 1) / (kept * (kept - 1)))
        return np.asarray(middle + (limited - limited.mean()) * wider)
    middle = float(np.median(values))
    rank = max(1, round((n + 1) / 2 - math.sqrt(n)))
    tail = float(bdtr(rank - 1, n, 0.5))
    error = float(order[n - rank] - order[rank - 1]) / (-2 * float(ndtri(tail)))
    signs = np.sign(values - middle)
    signs = signs - signs.mean()
    size = float(signs.std(ddof=1)) if n > 1 else 0.0
    return np.asarray(middle + signs * (error * math.sqrt(n) / size if size else 0.0))
