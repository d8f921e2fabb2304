"""Nodes of the extremal distributions among all distributions with given moments.

The computations here are approximate. The validity of the bounds does not depend on them: the polynomials of `touching`
stay on one side for any nodes. Accurate nodes make the bounds sharp, to second order in the nodes' error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.results.gaps.touching import Nodes

_FAR = 1e8  # A node this far away is treated as uncoupled from the others; closer, eigenvalues keep 8 digits.
_BEYOND = 1e100  # Moments this large, in standard deviations, are uninformative, and products could overflow.


@dataclass(frozen=True)
class Representation:
    """A distribution with the given moments and an atom at x."""

    x: Fraction
    points: tuple[float, ...]  # interior atoms, increasing, including x as the nearest float
    masses: tuple[float, ...]
    others: tuple[Fraction, ...]  # interior atoms except x
    low: Fraction | None  # the lower end of the support, if it has an atom
    high: Fraction | None
    low_mass: float = 0.0

    @property
    def up_to_x(self) -> float:
        """P(X ≤ x), which is the maximum over all distributions with these moments."""
        return self.low_mass + sum(w for t, w in zip(self.points, self.masses, strict=True) if t <= _float(self.x))

    def nodes(self, *, with_x: bool = False) -> Nodes:
        """The atoms, without x unless `with_x`."""
        interior = sorted((*self.others, self.x)) if with_x else self.others
        return Nodes(tuple(interior), self.low, self.high)


class Canonical:
    """Canonical representations of a moment sequence: for degree 2m, the distributions with the fewest atoms.

    A representation with an atom at x has m + 1 atoms in the interior of the support; or, if none such exists, m in the
    interior and one at each end, where an end at infinity carries a part of the last moment only (Krein and Nudelman,
    chapter III). The atoms of the first kind are eigenvalues of the Jacobi matrix whose last diagonal entry is chosen
    so that x is an eigenvalue (Golub 1973, Some modified matrix eigenvalue problems); those of the second kind follow
    in the same way from the measure (t − a)(b − t) dμ.
    """

    def __init__(self, moments: Sequence[Fraction], low: Fraction | None, high: Fraction | None) -> None:
        self.moments, self.low, self.high = list(moments), low, high
        self.jacobi = _Jacobi(self.moments)

    @cached_property
    def weighted(self) -> _Jacobi:
        """Recurrence of the measure multiplied by the distances to the ends."""
        m = self.moments
        if self.low is not None:
            m = [after - self.low * now for now, after in pairwise(m)]
        if self.high is not None:
            m = [self.high * now - after for now, after in pairwise(m)]
        return _Jacobi(m)

    def at(self, x: Fraction, m: int) -> Representation | None:
        """The representation with an atom at x from 2m moments; None if the moments do not determine it."""
        plain = self._plain(x, m)
        if plain is not None and all(self._inside(t) for t in plain.others):
            return plain
        if self.low is None and self.high is None:
            return plain
        # With nodes outside the support, the plain one is still valid: its polynomials are bounds on the whole line.
        return self._with_ends(x, m) or plain

    def _inside(self, t: Fraction) -> bool:
        return (self.low is None or self.low < t) and (self.high is None or t < self.high)

    def _plain(self, x: Fraction, m: int) -> Representation | None:
        found = self.jacobi.radau(_float(x), m)
        if found is None:
            return None
        points, masses, at = found
        others = tuple(Fraction(t) for i, t in enumerate(points) if i != at)
        return Representation(x, points, masses, others, None, None)

    def _with_ends(self, x: Fraction, m: int) -> Representation | None:
        found = self.weighted.radau(_float(x), m - 1) if self._inside(x) else None
        if found is None:
            return None
        points, masses, at = found
        others = tuple(Fraction(t) for i, t in enumerate(points) if i != at)
        if not all(self._inside(t) for t in others):
            return None
        a = -math.inf if self.low is None else _float(self.low)
        b = math.inf if self.high is None else _float(self.high)
        weights = [
            w / ((t - a if a > -math.inf else 1.0) * (b - t if b < math.inf else 1.0) or math.inf)
            for t, w in zip(points, masses, strict=True)
        ]
        rest, low_mass = 1 - sum(weights), 0.0
        if self.low is not None and self.high is not None:
            mean = _float(self.moments[1]) - sum(w * t for w, t in zip(weights, points, strict=True))
            low_mass = (rest * b - mean) / (b - a or math.inf)
        elif self.low is not None:
            low_mass = rest
        return Representation(x, points, tuple(weights), others, self.low, self.high, low_mass)


class _Jacobi:
    """Three-term recurrence of a measure's orthogonal polynomials, by Chebyshev's algorithm in exact arithmetic.

    Exact arithmetic is needed because the algorithm loses about one digit per order. The recurrence ends with β = 0 if
    the measure has no more atoms or no measure has these moments.
    """

    def __init__(self, moments: Sequence[Fraction]) -> None:
        self.total = _float(moments[0])
        self.alpha: list[float] = []
        self.beta: list[float] = [0.0]  # beta[k] couples k − 1 and k
        before, row, beta = [Fraction(0)] * len(moments), list(moments), Fraction(0)
        if row[0] <= 0:
            return
        last = Fraction(0)  # row[1] / row[0] of the previous row, both counted from the diagonal
        while len(row) >= 2:
            ratio = row[1] / row[0]
            alpha, last = ratio - last, ratio
            self.alpha.append(_float(alpha))
            if len(row) == 2:
                return
            following = [row[i + 1] - alpha * row[i] - beta * before[i] for i in range(1, len(row) - 1)]
            beta = following[0] / row[0]
            self.beta.append(max(_float(beta), 0.0))
            if beta <= 0:
                return
            before, row = row[1:], following

    def radau(self, x: float, m: int) -> tuple[tuple[float, ...], tuple[float, ...], int] | None:
        """m + 1 nodes including x, their masses, and the index of x."""
        if m == 0:
            return ((x,), (self.total,), 0) if self.total >= 0 else None
        if m >= len(self.beta):
            return None
        ratio = math.inf  # ratio of the orthogonal polynomials of degrees k + 1 and k at x
        for a, b in zip(self.alpha[:m], self.beta[:m], strict=True):
            ratio = x - a - b / ratio
            if abs(ratio) < 1e-30:  # x is a root, so one atom is at infinity
                ratio = 1e-30
        corner = x - self.beta[m] / ratio
        diagonal, off = np.array([*self.alpha[:m], corner]), np.sqrt(self.beta[1 : m + 1])
        size = float(np.abs(diagonal[:-1]).max()) + float(off.max())
        if not (max(size, self.total) < _BEYOND and abs(corner) < _BEYOND**3):
            return None
        if abs(corner) > _FAR * (1 + size):
            points, masses = _spectrum(diagonal[:-1], off[:-1])
            points, masses = np.append(points, corner), np.append(masses, 0.0)
        else:
            points, masses = _spectrum(diagonal, off)
        points[np.abs(points - x).argmin()] = x
        order = np.argsort(points, kind="stable")
        points, masses = points[order], masses[order] * self.total
        at = int(np.flatnonzero(points == x)[0])
        return tuple(points.tolist()), tuple(masses.tolist()), at


def _spectrum(diagonal: Floats, off: Floats) -> tuple[Floats, Floats]:
    points, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, -1))  # eigh reads the lower triangle only
    return points, vectors[0] ** 2


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
