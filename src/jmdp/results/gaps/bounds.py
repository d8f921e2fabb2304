"""Bounds on the distribution of a gap from its moments alone.

They are sharp: some distribution with these moments attains them (Chebyshev, Markov, Stieltjes). `canonical` computes
that distribution approximately. `touching` builds a polynomial that touches at its atoms and provably stays on one
side. `moment_box` takes its expectation at the conservative ends of the moments' intervals. Validity rests on rational
arithmetic only, rounded outwards once at the end.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from jmdp.base.interval import Interval
from jmdp.base.settings import number_or_infinity
from jmdp.results.gaps.canonical import Canonical, MomentBox, Polynomial, down, step, up
from jmdp.results.gaps.distribution import cvar_high, cvar_low, part


def cantelli(mean: float, variance: float) -> float:
    """Upper bound on P(G ≤ 0) from a lower bound on E[G] and an upper bound on Var G.

    P(G ≤ 0) ≤ σ²/(σ² + μ²) for μ > 0, and 1 otherwise. The result is rounded up. (Paper: Section 5.4, where it is
    called Chebyshev's.)
    """
    if not mean > 0:
        return 1.0
    # 1/(1 + (μ/σ)²) equals σ²/(σ² + μ²) and cannot overflow.
    if variance == 0:
        return 0.0
    ratio = mean / math.sqrt(variance)
    return min(1.0, (1 + 2**-50) / (1 + ratio * ratio))


def cdf_bounds(x: float, moments: Sequence[Interval], support: Interval) -> Interval:
    """Bounds on P(X ≤ x) from intervals of E[X^k], k = 0, 1, …, for X in the support: the sharpest possible.

    E[q⁻(X)] ≤ P(X ≤ x) ≤ E[q⁺(X)] for polynomials q⁻(t) ≤ 1{t < x} and 1{t ≤ x} ≤ q⁺(t) on the support, of degrees
    2, 4, … up to the last finite even moment; the result is the tightest of these bounds (Krein and Nudelman, chapter
    III; Akhiezer, chapter 2). The moments should be about the mean or a point near it, since the effect of the
    intervals' widths grows with powers of the distance to 0.
    """
    x = number_or_infinity("x", x)
    if x < support.low or x == -math.inf:
        return Interval(0.0, 0.0)
    if x >= support.high or x == math.inf:
        return Interval(1.0, 1.0)
    box = MomentBox.of(moments, support)
    if box is None:
        return Interval(0.0, 1.0)
    if box.is_zero:
        return Interval(1.0, 1.0) if x >= 0 else Interval(0.0, 0.0)
    return _cdf(Fraction(x) / box.scale, box, box.levels)


def cvar_bounds(p: float, moments: Sequence[Interval], support: Interval) -> Interval:
    """Bounds on CVaR_p, the mean of the worst fraction p of X, from intervals of E[X^k], for X in the support.

    CVaR_p = max over η of η − E(η − X)₊/p. Any η and any polynomial above (η − t)₊ give a lower bound; the best are
    those of the extremal distribution whose atoms up to some point have mass p. With two moments the bound is
    μ − σ √((1 − p)/p). An upper bound needs all η: polynomials below (η − t)₊ are used on a grid that is refined where
    the maximum may be, and bounds on the slope P(X ≤ η) of E(η − X)₊ between grid points. The lower bound is sharp; the
    upper bound is sharp up to about 0.01 standard deviations, where its search ends. (Jansen, Haezendonck and
    Goovaerts 1986 derive the same bounds for few moments, as stop-loss premiums.)
    """
    p = part(p)
    low, high = support.low, support.high
    if len(moments) > 1:
        high = min(high, moments[1].high)  # the mean of the worst fraction is at most the overall mean
        if p == 1:
            return _ordered(max(low, moments[1].low), high)
    box = MomentBox.of(moments, support)
    if box is None:
        return _ordered(low, high)
    if box.is_zero:
        return Interval(0.0, 0.0)
    chance = Fraction(p)
    low = max(low, down(cvar_low(chance, box) * box.scale))
    return _ordered(low, min(high, up(cvar_high(chance, box, _cdf) * box.scale)))


def _cdf(x: Fraction, box: MomentBox, levels: Sequence[int]) -> Interval:
    """Bounds on P(X ≤ x) in units of the box, from polynomials of degree 2m for m in `levels`."""
    variance = up(box.variance)
    least = sys.float_info.min if variance else 0.0  # in case Cantelli's bound underflows
    high = max(cantelli(down(box.lows[1] - x), variance), least)
    low = -math.nextafter(cantelli(down(x - box.highs[1]), variance) - 1, math.inf)

    @cache
    def steps(canonical: Canonical, m: int) -> tuple[Polynomial, Polynomial] | None:
        distribution = canonical.at(x, m)
        return None if distribution is None else step(x, distribution.nodes())

    def above(canonical: Canonical, m: int) -> Polynomial | None:
        pair = steps(canonical, m)
        return None if pair is None else pair[0]

    def below(canonical: Canonical, m: int) -> Polynomial | None:
        pair = steps(canonical, m)
        return None if pair is None else [-c for c in pair[1]]

    for m in levels:
        most, minus_least = box.least_of_most(m, above), box.least_of_most(m, below)
        high = high if most is None else min(high, up(most))
        low = low if minus_least is None else max(low, down(-minus_least))
    return _ordered(max(0.0, min(low, 1.0)), max(0.0, min(high, 1.0)))


def _ordered(low: float, high: float) -> Interval:
    """Interval with sorted ends; low exceeds high only if the intervals of the moments contradict each other."""
    return Interval(min(low, high), max(low, high))
