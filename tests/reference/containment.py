"""Every interval that an evaluation states, held against exact rationals at any scale, through public names only."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations_with_replacement

from jmdp.base.interval import Interval
from reference import enumeration
from reference.rationals import exact

PROBABILITIES = (1e-9, 0.05, 0.5, 0.95, 1.0)


def signed_square(x):
    return x * x if x >= 0 else -x * x


@dataclass
class Checks:
    """Counts what was looked at, and names each interval that misses the truth or is not a number."""

    looked: int = 0
    missed: list[str] = field(default_factory=list)

    def inside(self, what, interval, right, map_end=lambda end: end):
        """Is low ≤ right ≤ high? With `map_end`, a growing function of the ends is compared. None states nothing."""
        if interval is None:
            return
        self.looked += 1
        low, high = float(interval.low), float(interval.high)
        holds = not (math.isnan(low) or math.isnan(high))
        holds = holds and (low == -math.inf or map_end(exact(low)) <= right)
        holds = holds and (high == math.inf or right <= map_end(exact(high)))
        if not holds:
            self.missed.append(f"{what}: {float_or_huge(right)} is not in [{low!r}, {high!r}]")

    def moments(self, result, truth, states):
        """Means, covariances and gaps of `result`, whose i-th state is the states[i]-th of the truth."""
        A = result.mean.shape[1]
        for i, s in zip(result.states, states, strict=True):
            for a in range(A):
                self.inside(f"mean {s, a}", result.mean_interval(i, a), truth.mean[truth.index[s, a]])
                for b in range(A):
                    right = truth.covariance(s, a, s, b)
                    self.inside(f"covariance {s, a, b}", result.covariance_interval(i, a, b), right)
                    if a != b:
                        self._gap(result.gap(i, a, b), truth, s, a, b)
            for j, t in zip(result.states, states, strict=True):
                for a in range(A):
                    for b in range(A):
                        means = truth.mean[truth.index[s, a]] * truth.mean[truth.index[t, b]]
                        right = truth.covariance(s, a, t, b) + means
                        self.inside(f"product {(s, a), (t, b)}", result.moment((i, a), (j, b)), right)

    def _gap(self, gap, truth, s, a, b):
        one, other, both = truth.covariance(s, a, s, a), truth.covariance(s, b, s, b), truth.covariance(s, a, s, b)
        mean, variance = truth.mean[truth.index[s, a]] - truth.mean[truth.index[s, b]], one + other - 2 * both
        self.inside(f"gap mean {s, a, b}", gap.mean_interval, mean)
        self.inside(f"gap variance {s, a, b}", gap.variance_interval, variance)
        self.inside(f"gap std {s, a, b}", gap.std_interval, variance, lambda end: end * end)
        self.inside(f"gap square {s, a, b}", gap.moment(2), variance + mean * mean)
        if one > 0 and other > 0:  # correlation² × both variances, with its sign
            self.inside(
                f"correlation {s, a, b}",
                gap.correlation_interval,
                signed_square(both),
                lambda end: signed_square(end) * one * other,
            )

    def mixed(self, result, truth, order):
        """E[Z(x)^i Z(y)^j] and central moments of gaps up to an order, against `MixedMoments`."""
        for x in truth.coordinates:
            for y in truth.coordinates:
                if x == y:
                    continue
                for i in range(order + 1):
                    for j in range(order + 1 - i):
                        self.inside(f"{x}^{i} {y}^{j}", result.moment(*[x] * i, *[y] * j), truth.moment(x, i, y, j))
                if x[0] == y[0]:
                    gap = result.gap(x[0], x[1], y[1])
                    for n in range(order + 1):
                        right = truth.gap_central(*x, y[1], n)
                        self.inside(f"gap {x, y}, order {n}", gap.central_moment(n), right)

    def joint(self, result, truth, order):
        """E[Π Z(x)] of any coordinates, against `JointMoments`."""
        for k in range(1, order + 1):
            for xs in combinations_with_replacement(truth.coordinates, k):
                self.inside(f"moment {xs}", result.moment(*xs), exact(truth.moment(xs)))

    def distribution(self, distribution, right, name):
        """Chances, quantiles and tail means against an enumerated distribution {value: probability}."""
        for x in thresholds(right):
            self.inside(f"cdf({x!r}) {name}", distribution.cdf(x), rational_cdf(right, x))
            self.inside(f"below({x!r}) {name}", distribution.below(x), rational_cdf(right, x, strictly=True))
        for p in PROBABILITIES:
            self.inside(
                f"quantile({p}) {name}", distribution.quantile(p), exact(enumeration.quantile(right, Fraction(p)))
            )
            self.inside(f"cvar({p}) {name}", distribution.cvar(p), exact(enumeration.cvar(right, Fraction(p))))

    def gap_distribution(self, gap, right, name):
        """The distribution of a gap, and its support."""
        distribution, worse, tie = (
            gap.distribution(),
            rational_cdf(right, 0.0, strictly=True),
            exact(right.get(Fraction(0), Fraction(0))),
        )
        self.distribution(distribution, right, name)
        self.inside(f"superiority {name}", distribution.superiority(), 1 - worse - tie)
        self.inside(f"ties {name}", distribution.ties(), tie)
        self.inside(f"inferiority {name}", distribution.inferiority(), worse)
        for value in (min(right), max(right)):
            self.inside(f"support {name}", gap.support, exact(value))

    def moment_bounds(self, gap, right):
        """What the moments of a gap alone say of its distribution."""
        worse_or_tie = rational_cdf(right, 0.0)
        self.inside("inferiority bound", Interval(0.0, gap.inferiority_bound()), worse_or_tie)
        for x in (0.0, float_or_huge(exact(max(right, key=right.get)))):
            self.inside(f"cdf bounds at {x!r}", gap.cdf_bounds(x), rational_cdf(right, x))
        self.inside("cvar bounds", gap.cvar_bounds(0.05), exact(enumeration.cvar(right, Fraction(0.05))))


def float_or_huge(x):
    """Nearest float; moments of high order may be too large for one."""
    try:
        return float(Fraction(int(x.p), int(x.q)))
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def rational_cdf(distribution, x, *, strictly=False):
    return exact(enumeration.cdf(distribution, Fraction(x), strictly=strictly))


def thresholds(distribution):
    """At the most likely values, beside them, and around 0."""
    for value in sorted(distribution, key=distribution.get, reverse=True)[:4]:
        x = float(value)
        yield from (x, math.nextafter(x, -math.inf), math.nextafter(x, math.inf))
    yield from (0.0, 5e-324, -5e-324)
