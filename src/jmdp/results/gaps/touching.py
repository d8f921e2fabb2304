"""Polynomials that touch an indicator or a shortfall from one side, in exact arithmetic.

The expectation of a polynomial follows from moments. If the polynomial is above (below) a function on the whole
support, its expectation is an upper (lower) bound on that of the function. Each polynomial here is a Hermite
interpolant in rational arithmetic. It provably stays on one side for every choice of distinct nodes, so nodes may be
computed in floating point: an inaccurate node makes the bound less sharp, but not invalid. The proofs, in the
docstrings below, count zeros of derivatives by Rolle's theorem. (Krein and Nudelman, The Markov Moment Problem and
Extremal Problems, chapters III and IV; Akhiezer, The Classical Moment Problem, chapter 2.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

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
