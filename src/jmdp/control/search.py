"""Optimal policies of a problem by the weight of a risk, and the search for the corners of the hull of gain and risk.

For a weight w, E[G] − w × risk is largest at a corner of the hull. With the slope of the line between two corners as
weight, a corner between them is found, if there is one. The incumbent is the corner without gain and risk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from jmdp.base.interval import Estimate
from jmdp.base.machine import cores
from jmdp.control.shadow import TAIL, Problem, ShadowActions, Statistics, Utility

OPTIMUM = "largest gain"

_PROGRAMMES = 20
"""Most programmes that are solved for the corners of a hull."""

_AT_ONCE = 4
"""Programmes that are chosen at a time; the same on every machine, so that answers are."""

_SLIGHT = 1e-6
"""A corner that can add less than this share of the largest gain is not searched for."""

_MOST_QUANTILES = 400
"""Quantiles of the gap for which a programme is solved at most, for each weight of the worst 5%."""

_EMPHASES = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0)
"""How much more than the shortfall the chance of being worse is weighed, if the chance is limited."""

_BISECTIONS = 10


@dataclass(frozen=True)
class Risk:
    """What a weight is put on: a sum of the shortfall, the chance of being worse and the mean loss in the worst 5%."""

    shortfall: float = 1.0
    chance: float = 0.0
    tail: float = 0.0

    def of(self, one: Statistics) -> float:
        """The risk of a policy."""
        return (
            self.shortfall * float(one.shortfall)
            + self.chance * float(one.chance)
            - (self.tail * float(one.worst) if self.tail else 0.0)
        )


@dataclass(frozen=True)
class Point:
    """A deterministic policy that is optimal for a weight."""

    name: str
    weight: float
    statistics: Statistics
    value: Estimate  # E[G] − weight × risk: its own is at least `low`, and that of all policies at most `high`
    under: Statistics | None = None  # the same policy in the second model


class Found(NamedTuple):
    """A policy and its actions."""

    point: Point
    actions: ShadowActions


class Search:
    """Policies of a problem by the weight of a risk. Points are also evaluated in a second model, if there is one."""

    def __init__(self, problem: Problem, second: Problem | None = None) -> None:
        self.problem, self._second = problem, second
        self._barely = problem.largest_gain / 10
        self.best = self.at(0.0, Risk())

    @cached_property
    def incumbent(self) -> Found:
        """The corner without gain and risk, which is best if no risk is worth anything."""
        still = self.problem.fixed(self.problem.incumbent)
        statistics = self.problem.statistics(still, self._barely)
        return Found(Point("incumbent", math.inf, statistics, Estimate(0.0, 0.0, 0.0)), still)

    def at(self, weight: float, risk: Risk) -> Found:
        """The policy that maximises E[G] − weight × risk."""
        problem = self.problem
        if risk.tail and weight:
            actions, high = _safest(problem, weight)
            found = problem.statistics(actions, self._barely)
            low = found.gain.low + weight * found.worst.low
        else:
            utility = Utility(weight * risk.shortfall, weight * risk.chance)
            actions = problem.solve(utility)
            high = problem.upper_value(utility, actions)
            found = problem.statistics(actions, self._barely)
            low = found.gain.low - utility.weight * found.shortfall.high - utility.loss * found.chance.high
        low = min(low, high)
        value = Estimate(min(max(actions.value, low), high), low, high)
        under = None if self._second is None else self._second.statistics(actions, self._barely)
        return Found(Point(f"weight {weight:.4g}" if weight else OPTIMUM, weight, found, value, under), actions)

    def chance_scale(self, emphasis: float = 10.0) -> float:
        """The chance of being worse in units of shortfall, both measured in those of the largest gain."""
        best = self.best.point.statistics
        return emphasis * float(best.shortfall) / float(best.chance) if float(best.chance) > 0 else 0.0

    def corners(self, risk: Risk) -> tuple[list[Point], list[Point]]:
        """Points at corners of the hull, by weight, and all that were tried: their values bound the hull.

        The line between neighbours is divided where most can be missing: both values bound the hull from above.
        """
        tried = [self.best.point]
        corners = [self.best.point]
        left = [_Line(self.incumbent.point, self.best.point, risk)]
        slight = _SLIGHT * abs(float(self.best.point.statistics.gain))
        with ThreadPoolExecutor(cores()) as pool:  # kernels release the GIL
            while len(tried) < _PROGRAMMES:
                left = sorted((line for line in left if line.missing > slight), key=lambda line: -line.missing)
                some = left[: min(_AT_ONCE, _PROGRAMMES - len(tried))]
                if not some:
                    break
                left = left[len(some) :]
                for line, (point, _) in zip(some, pool.map(lambda line: self.at(line.slope, risk), some), strict=True):
                    tried.append(point)
                    if line.is_below(point):
                        corners.append(point)
                        left += [_Line(line.low, point, risk), _Line(point, line.high, risk)]
        return sorted(corners, key=lambda one: one.weight), tried

    def within_shortfall(self, limit: float) -> tuple[Found, Estimate | None]:
        """The best corner of the hull within the limit, and the gain of the hull there."""
        within = limit + self.problem.tie_tolerance
        below, above, risk = self.incumbent, self.best, Risk()
        if above.point.statistics.shortfall.high <= within:
            return above, None
        tried = [above.point]
        line = _Line(below.point, above.point, risk)
        while len(tried) < 60 and line.slope > 0:
            found = self.at(line.slope, risk)
            tried.append(found.point)
            if not line.is_below(found.point):
                break
            if found.point.statistics.shortfall.high <= within:
                below = found
            else:
                above = found
            line = _Line(below.point, above.point, risk)
        gain = line.at(limit)
        return below, Estimate(gain, gain, max(gain, bound(tried, limit)))

    def within_chance(self, limit: float) -> Found:
        """The best policy found whose chance is within the limit, and which loses no more than the optimum."""
        best = self.best.point.statistics

        def allowed(own: Statistics) -> bool:
            within = own.shortfall.high <= best.shortfall.high and own.worst.low >= best.worst.low
            return own.chance.high <= limit and within

        def gain(one: Found) -> float:
            return float(one.point.statistics.gain)

        if allowed(best):
            return self.best

        def best_of(emphasis: float) -> Found:
            near = self._near_chance(Risk(chance=self.chance_scale(emphasis)), limit)
            return max((one for one in near if allowed(one.point.statistics)), key=gain, default=self.incumbent)

        with ThreadPoolExecutor(cores()) as pool:
            return max(pool.map(best_of, _EMPHASES), key=gain)

    def _near_chance(self, risk: Risk, limit: float) -> Iterator[Found]:
        """Policies near the smallest weight at which the chance is within the limit, by bisection of its logarithm."""
        best = self.best.point.statistics
        unit = float(best.gain) / float(best.shortfall) if best.gain > 0 and best.shortfall > 0 else 1.0
        low, high = math.log(unit * 1e-3 + 1e-300), math.log(unit * 20 + 1e-300)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            one = self.at(math.exp(middle), risk)
            yield one
            if one.point.statistics.chance.high <= limit:
                high = middle
            else:
                low = middle


class _Line:
    """The line between two points of a hull; `high` has more gain and risk."""

    def __init__(self, low: Point, high: Point, risk: Risk) -> None:
        self.low, self.high, self._risk = low, high, risk
        (self._x, self._f), (y, g) = ((risk.of(one.statistics), float(one.statistics.gain)) for one in (low, high))
        self._size = max(abs(self._f), abs(g))
        self.slope = (g - self._f) / (y - self._x) if y > self._x else 0.0
        steep, flat = low.weight - self.slope, self.slope - high.weight
        part = (1.0 if math.isinf(steep) else steep / (steep + flat)) if steep > 0 and flat > 0 else 0.0
        self.missing = flat * (y - self._x) * part  # largest distance of the hull from the line

    def at(self, risk: float) -> float:
        """Gain on the line."""
        return self._f + self.slope * (risk - self._x)

    def is_below(self, point: Point) -> bool:
        """Whether the point is above the line by more than rounding."""
        risk = self._risk.of(point.statistics)
        return float(point.statistics.gain) - self.at(risk) > 1e-9 * self._size


def bound(tried: Sequence[Point], risk: float) -> float:
    """Largest gain of all policies at a risk, with coins or without."""
    return min(one.value.high + one.weight * risk for one in tried)


def _safest(problem: Problem, weight: float) -> tuple[ShadowActions, float]:
    """The policy that maximises E[G] + weight × mean of the worst 5%, and an upper bound for all policies.

    The mean of the worst share α is the largest q − E[max(0, q − G)]/α of all q, reached at a value of G (Rockafellar
    & Uryasev 2000). For each q the rest is a utility. As a function of q, the value of the best policy grows by at
    most `weight` and falls by at most weight × (1/α − 1) per unit. So intervals between values q that were tried are
    bounded, and those with the highest bounds are halved, until none can hold a better q.
    """
    rise, fall = weight * problem.cell, weight * (1 / TAIL - 1) * problem.cell  # per cell
    tried: dict[int, tuple[float, float, ShadowActions]] = {}  # value, upper bound and policy

    def attempt(q: int) -> None:
        utility = Utility(weight / TAIL, kink=q)
        policy = problem.solve(utility)
        tried[q] = policy.value + rise * q, problem.upper_value(utility, policy) + rise * q, policy

    def interval(low: int, high: int) -> tuple[float, int, int]:
        left, right = tried[low][1], tried[high][1]
        crossing = (right - left + fall * (high - low)) / (rise + fall)  # of the two lines, from `low`
        return -(left + rise * min(max(crossing, 0.0), high - low)), low, high

    least, most = int(problem.down.least[0].min()), int(problem.up.most[0].max())
    ends = sorted({least, min(max(0, least), most), most})
    for q in ends:
        attempt(q)
    best = max(tried.values(), key=lambda one: one[0])
    left = [interval(*pair) for pair in pairwise(ends)]
    heapify(left)
    high = max(one[1] for one in tried.values())
    while left and -left[0][0] > best[0]:
        limit, low, above = heappop(left)
        if above - low <= 1:  # both ends were tried
            continue
        if len(tried) >= _MOST_QUANTILES:
            high = max(high, -limit)
            break
        middle = (low + above) // 2
        attempt(middle)
        high = max(high, tried[middle][1])
        best = max(best, tried[middle], key=lambda one: one[0])
        for pair in ((low, middle), (middle, above)):
            heappush(left, interval(*pair))
    return best[2], high
