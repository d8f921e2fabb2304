"""Nodes of the extremal distributions among all distributions with given moments.

The computations here are approximate. The validity of the bounds does not depend on them: the polynomials of `touching`
stay on one side for any nodes. Accurate nodes make the bounds sharp, to second order in the nodes' error.

Polynomials that touch an indicator or a shortfall from one side, in exact arithmetic.

The expectation of a polynomial follows from moments. If the polynomial is above (below) a function on the whole
support, its expectation is an upper (lower) bound on that of the function. Each polynomial here is a Hermite
interpolant in rational arithmetic. It provably stays on one side for every choice of distinct nodes, so nodes may be
computed in floating point: an inaccurate node makes the bound less sharp, but not invalid. The proofs, in the
docstrings below, count zeros of derivatives by Rolle's theorem. (Krein and Nudelman, The Markov Moment Problem and
Extremal Problems, chapters III and IV; Akhiezer, The Classical Moment Problem, chapter 2.)

Intervals of the moments of a distribution, its support, and the resulting bounds on expectations.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Interval

Polynomial = list[Fraction]
"""Coefficients in increasing order of powers."""

Contact = tuple[Fraction, Fraction, Fraction | None]
"""A point, the value there, and the slope there; None if the slope is free."""

_0, _1 = Fraction(0), Fraction(1)


@dataclass(frozen=True)
class Nodes:
    """Contact points of a polynomial: interior points with value and slope, ends of the support with value only."""

    interior: tuple[Fraction, ...]  # increasing
    low: Fraction | None = None  # the lower end of the support, if touched
    high: Fraction | None = None

    def are_proper(self, *more: Fraction) -> bool:
        """True if all nodes and `more` are distinct and between the ends, as the proofs assume."""
        inner = sorted((*self.interior, *more))
        ends = ([] if self.low is None else [self.low], [] if self.high is None else [self.high])
        every = [*ends[0], *inner, *ends[1]]
        return all(s < t for s, t in pairwise(every))

    def contacts(self, above: Fraction, value: Polynomial) -> list[Contact]:
        """Contacts with the function that is the line `value` up to `above`, and 0 beyond."""
        c, d = value

        def at(t: Fraction) -> tuple[Fraction, Fraction]:
            return (c + d * t, d) if t <= above else (_0, _0)

        ends = [t for t in (self.low, self.high) if t is not None]
        return [(t, *at(t)) for t in self.interior] + [(t, at(t)[0], None) for t in ends]


def step(x: Fraction, nodes: Nodes) -> tuple[Polynomial, Polynomial] | None:
    """Polynomials above 1{t ≤ x} and below 1{t < x} on the support; None if the nodes are not distinct.

    The upper one, q, is 1 with slope 0 at interior nodes below x, 0 with slope 0 at those above, 1 at x and at a lower
    end, 0 at an upper end. Proof that it is above, for r nodes below x and s above, no ends: q has degree at most
    2(r + s). Its slope is 0 at r + s nodes, and by Rolle once in each of the r gaps up to x and the s − 1 gaps after
    the first node beyond x. For s ≥ 1 these 2(r + s) − 1 are all its zeros, hence simple, and q' < 0 from the last one
    before x to the first one after it. Going outwards from there the sign of q' alternates, so that every node is a
    minimum of q, with value 1 below and 0 above. For s = 0, q = 1. An end adds one to the degree and one gap, and the
    extremum next to it, in that gap, is a maximum. The lower one is q − L, where L is 1 at x and touches 0 at all other
    nodes: it satisfies the same conditions except for 0 at x, and 1 − (q − L) is an upper one of the mirrored problem.
    """
    if not nodes.are_proper(x):
        return None
    upper = interpolate([*nodes.contacts(x, [_1, _0]), (x, _1, None)])
    peak = [_1]
    for t in nodes.interior:
        peak = times(times(peak, t), t)
    for end in (nodes.low, nodes.high):
        peak = peak if end is None else times(peak, end)
    top = evaluated(peak, x)
    peak = [c / top for c in peak]
    return upper, [c - d for c, d in zip(upper, peak, strict=True)]


def shortfall_above(last: Fraction, nodes: Nodes) -> tuple[Fraction, Polynomial] | None:
    """A value η and a polynomial q ≥ (η − t)₊ that touches η − t at nodes up to `last` and 0 at those beyond.

    The touching conditions are one more than a polynomial of this degree can satisfy, which fixes η. Proof that q is
    above, for r ≥ 1 and s ≥ 1 interior nodes and no ends: q has degree at most 2(r + s) − 2. q' is −1 at r nodes and,
    by Rolle for q − (η − t), in the r − 1 gaps between them; it is 0 at s nodes and in s − 1 gaps. By Rolle again q''
    has 2r − 2 + 2s − 2 zeros, and as this is its degree no more: q' increases from −1 to 0 between the two groups, and
    all touching points are minima of q − (η − t) or of q. Between the groups, −1 ≤ q' ≤ 0 gives q ≥ 0 and q ≥ η − t,
    so that η itself lies there. An end adds one to the degree, one condition and one gap.
    """
    below = [t for t in nodes.interior if t <= last]
    if not (nodes.are_proper() and 0 < len(below) < len(nodes.interior)):
        return None
    one, line = (interpolate(nodes.contacts(last, value)) for value in ([_1, _0], [_0, _1]))
    if one[-1] == 0:
        return None
    eta = line[-1] / one[-1]
    return eta, [eta * c - d for c, d in zip(one, line, strict=True)][:-1]


def shortfall_below(eta: Fraction, nodes: Nodes) -> Polynomial | None:
    """A polynomial q ≤ (η − t)₊ that touches it at the nodes and equals it at the kink.

    Proof, for r interior nodes below η and s above, no ends: q has degree at most 2(r + s). q' is −1 at r nodes and in
    r gaps up to η, 0 at s nodes and in s gaps from η on; so q'' has 2r − 1 + 2s − 1 zeros, which is its degree, and q'
    increases from −1 to 0 between the two extrema next to η. These are minima of q − (η − t) and of q, so that the
    touching points are maxima. For r = 0 there are too many zeros and q = 0, for s = 0 it is η − t. An end adds one to
    the degree and one gap.
    """
    if not nodes.are_proper(eta):
        return None
    return interpolate([*nodes.contacts(eta, [eta, -_1]), (eta, _0, None)])


def interpolate(contacts: Sequence[Contact]) -> Polynomial:
    """The polynomial of least degree with these values and slopes: Newton's divided differences, repeated points."""
    t, row, slopes = [], [], []
    for point, value, slope in sorted(contacts, key=lambda contact: contact[0]):
        for _ in range(1 if slope is None else 2):
            t.append(point)
            row.append(value)
            slopes.append(_0 if slope is None else slope)
    newton = [row[0]]
    for k in range(1, len(t)):
        row = [
            slopes[i] if t[i + k] == t[i] else (row[i + 1] - row[i]) / (t[i + k] - t[i]) for i in range(len(row) - 1)
        ]
        newton.append(row[0])
    result = [newton[-1]]
    for k in range(len(t) - 2, -1, -1):
        result = times(result, t[k])
        result[0] += newton[k]
    return result


def times(q: Polynomial, root: Fraction) -> Polynomial:
    """q × (t − root)."""
    return [b - root * c for b, c in zip([_0, *q], [*q, _0], strict=True)]


def evaluated(q: Polynomial, t: Fraction) -> Fraction:
    """q(t)."""
    result = _0
    for c in reversed(q):
        result = result * t + c
    return result


_NARROW = Fraction(1, 1000)  # No further nodes are tried if the intervals' widths cost less than this.
_TRIES = 3


@dataclass(frozen=True)
class MomentBox:
    """Intervals of moments and the support, exact, in units of a power of two near the standard deviation."""

    lows: list[Fraction]  # lower ends of the moments 0, 1, …, up to an even order
    highs: list[Fraction]
    low: Fraction | None  # end of the support; None if unbounded
    high: Fraction | None
    scale: Fraction

    @classmethod
    def of(cls, moments: Sequence[Interval], support: Interval) -> MomentBox | None:
        """Box of these moments; None if the second moment is not finite."""
        ends = [Fraction(end) if math.isfinite(end) else None for end in (support.low, support.high)]
        largest = None if ends[0] is None or ends[1] is None else max(abs(ends[0]), abs(ends[1]))
        lows, highs = [_1], [_1]
        for k, moment in enumerate(moments[1:], 1):
            low = Fraction(moment.low) if math.isfinite(moment.low) else None
            high = Fraction(moment.high) if math.isfinite(moment.high) else None
            if largest is not None:
                most = largest**k
                low, high = -most if low is None else max(low, -most), most if high is None else min(high, most)
            if k % 2 == 0:
                low = _0 if low is None else max(low, _0)
            if low is None or high is None:
                break
            lows.append(low)
            highs.append(high)
        n = (len(lows) - 1) // 2 * 2
        if n < 2:
            return None
        second = (lows[2] + highs[2]) / 2
        bits = second.numerator.bit_length() - second.denominator.bit_length() if second > 0 else 0
        scale = Fraction(2) ** (bits // 2)
        low, high = (None if end is None else end / scale for end in ends)
        units = [scale**k for k in range(n + 1)]
        return cls(
            [m / u for m, u in zip(lows, units, strict=False)],
            [m / u for m, u in zip(highs, units, strict=False)],
            low,
            high,
            scale,
        )

    @property
    def is_zero(self) -> bool:
        """True if X is certainly 0."""
        return self.highs[2] <= 0

    @property
    def levels(self) -> range:
        """Half degrees m of the polynomials that the moments allow."""
        return range(1, len(self.lows) // 2 + 1)

    @cached_property
    def middle(self) -> Canonical:
        """Extremal distributions of the midpoints of the intervals."""
        return self.canonical([(low + high) / 2 for low, high in zip(self.lows, self.highs, strict=True)])

    @cached_property
    def variance(self) -> Fraction:
        """Upper bound on the variance."""
        nearest = max(self.lows[1], -self.highs[1], _0)
        return max(self.highs[2] - nearest * nearest, _0)

    def canonical(self, moments: Sequence[Fraction]) -> Canonical:
        """Extremal distributions of these moments."""
        return Canonical(moments, self.low, self.high)

    def worst(self, q: Polynomial) -> list[Fraction]:
        """The moments within their intervals that maximise E[q(X)]."""
        return [high if c > 0 else low for c, low, high in zip(q, self.lows, self.highs, strict=False)]

    def least_of_most(self, m: int, find: Callable[[Canonical, int], Polynomial | None]) -> Fraction | None:
        """The smallest upper bound on E[q(X)] over polynomials q that `find` builds from extremal distributions.

        The bound is concave in the moments, and each polynomial is a tangent. Tangents at distributions nearer to the
        worst-case moments are tighter there, so for wide intervals the moments move half the way to the worst case in
        each try (Frank and Wolfe).
        """
        canonical, best = self.middle, None
        for _ in range(_TRIES):
            q = find(canonical, m)
            if q is None:
                return best
            worst = self.worst(q)
            value = dot(q, worst)
            best = value if best is None else min(best, value)
            if value - dot(q, canonical.moments) <= _NARROW:
                return best
            # If q has fewer terms than there are moments, the other moments stay unchanged.
            worst += canonical.moments[len(worst) :]
            canonical = self.canonical([(s + t) / 2 for s, t in zip(canonical.moments, worst, strict=True)])
        return best


def dot(q: Sequence[Fraction], moments: Sequence[Fraction]) -> Fraction:
    """E[q(X)] for these moments; moments beyond the degree of q are ignored."""
    return sum((c * m for c, m in zip(q, moments, strict=False)), _0)


def up(value: Fraction) -> float:
    """The smallest float that is at least `value`."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -sys.float_info.max
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def down(value: Fraction) -> float:
    """The largest float that is at most `value`."""
    return -up(-value)


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
