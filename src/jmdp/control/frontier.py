"""`frontier`: how much better than an incumbent a policy can be, against how much and how often it would do worse.

A point is one deterministic policy, which maximises E[G] − weight × risk over all policies, G the gap to the incumbent
under the same scenarios. Between points lie coins: one toss before the first step decides which policy is followed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate
from jmdp.base.labels import PolicyLike, StartsLike
from jmdp.base.machine import cores, interruptible
from jmdp.base.rounding import share_of_cases
from jmdp.base.settings import choice, listed, number, real_number, short
from jmdp.control.search import Point, Risk, Search, bound
from jmdp.control.shadow import Problem, Statistics
from jmdp.errors import SettingsError, UnavailableError
from jmdp.models.coupling import Coupling
from jmdp.results.result import Tabulated, figure
from jmdp.results.text import indented, lines, paragraphs, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jmdp.models.tabular import TabularJMDP

_MOST_WEIGHTS = 10_000

_TAIL_WEIGHTS = (0.1, 0.3, 1.0, 3.0)
"""Default weights of the worst 5%, which have the unit of the gain."""


class Answered(Tabulated):
    """A result that prints an answer, its rows and a note."""

    @property
    @abstractmethod
    def answer(self) -> str:
        """What was found, in a sentence or two."""

    def _title(self) -> str:
        return self.answer

    def __repr__(self) -> str:
        note = [f"  {self._note()}"] if self._note() else []
        return paragraphs([self.answer, indented(lines(self.rows())), *note])


@dataclass(frozen=True, eq=False, repr=False)
class Frontier(Answered):
    """Policies between an incumbent and the time-dependent optimum, and what each gains and risks.

    The risk is the shortfall E[max(0, −G)], to which `measure.chance` × P(G < 0) is added. `hull` needs a coin before
    the first step. No policy has a gain above the upper end of `gain_at(risk)`. If the objective is "cvar", the risk is
    the mean loss in the worst 5%, and there is no hull: the worst 5% of a coin are not those of its sides.
    """

    _index: ClassVar = ("policy",)

    points: tuple[Point, ...]  # the first has the largest gain; then by weight
    tried: tuple[Point, ...]  # these and others, which are no better than a coin; their values bound the hull
    objective: str
    measure: Risk
    horizon: int
    discount: float
    cell: float  # gaps are counted in units of this size
    exact: bool  # they are multiples of it, so that nothing was rounded
    tie_tolerance: float

    @property
    def optimum(self) -> Point:
        """The policy with the largest gain."""
        return self.points[0]

    @cached_property
    def hull(self) -> Floats:
        """Corners [n, 2] of the largest gain by risk, from the incumbent (0, 0) to the optimum, with coins between."""
        if self.objective == "cvar":
            raise UnavailableError('A frontier of the worst 5% has no hull. Use objective="shortfall".')
        own = [one.statistics for one in self.points]
        found = sorted({(0.0, 0.0), *((self.measure.of(one), float(one.gain)) for one in own)})
        corners: list[tuple[float, float]] = []
        for x, y in found:
            if corners and y <= corners[-1][1]:
                continue
            while corners and x == corners[-1][0]:
                corners.pop()
            while len(corners) > 1 and _left(corners[-2], corners[-1], (x, y)):
                corners.pop()
            corners.append((x, y))
        return np.array(corners)

    def gain_at(self, risk: float) -> Estimate:
        """Gain of the hull at this risk; no policy, with or without coins, has more than the upper end."""
        limit = number("risk", risk, 0)
        found = float(np.interp(limit, self.hull[:, 0], self.hull[:, 1]))
        return Estimate(found, found, max(bound(self.tried, limit), found))

    @property
    def width(self) -> float:
        """Largest difference between the value of a point and what any policy could reach at its weight."""
        return max(one.value.high - one.value.low for one in self.points)

    def rows(self) -> Sequence[dict[str, Any]]:
        """The incumbent, and a row for each point; a second model has columns of its own."""
        second = self.optimum.under is not None
        found = [("incumbent", None, None), *((one.name, one.statistics, one.under) for one in self.points)]
        return [
            statistics_row(name, own) | (statistics_row(name, other, " under") if second else {})
            for name, own, other in found
        ]

    @property
    def answer(self) -> str:
        """What can be gained, and what half of the risk keeps of it."""
        best = self.optimum.statistics
        risk, gain = self.measure.of(best), float(best.gain)
        if best.gain.high <= 0 or (len(self.points) == 1 and gain <= self.tie_tolerance):
            return "No policy gains anything over the incumbent."
        first = f"The best policy gains {shown(best.gain)} over the incumbent"
        if risk <= self.tie_tolerance:
            return f"{first} and is never worse: there is no trade-off."
        if self.objective == "cvar":
            better = [one.statistics for one in self.points if float(one.statistics.gain) > self.tie_tolerance]
            safe = max(better, key=lambda one: float(one.worst))
            return (
                f"{first}; the worst 5% lose {shown(-best.worst)} on average. Of the policies that gain, the "
                f"one with the best worst 5% gains {shown(safe.gain)}, and there they {_earned(safe.worst)}."
            )
        kept = float(self.gain_at(risk / 2)) / gain
        name = "risk" if self.measure.chance else "shortfall"
        said = (
            f"{first}, falls short of it by {shown(best.shortfall)} on average, and is worse in "
            f"{share_of_cases(best.chance)}. "
        )
        if kept < _COIN:
            return said + f"Half of the {name} keeps {kept:.0%} of the gain, hardly more than a coin between both."
        return said + f"Half of the {name} keeps {kept:.0%} of the gain; a coin between both keeps 50%."

    def _note(self) -> str:
        steps = f"{self.horizon:,} steps, discount {self.discount:g}"
        if self.exact:
            return f"{steps}; gaps are multiples of {self.cell:g}; exact up to rounding of floats"
        return f"{steps}; gaps rounded to {self.cell:.3g}; values are known to {self.width:.3g}"

    def plot(self) -> Figure:
        """Draw `jmdp.plots.frontier_chart`: gain against risk."""
        return figure("frontier_chart", self)


def _earned(worst: Estimate) -> str:
    return f"lose {shown(-worst)}" if worst < 0 else f"gain {shown(worst)}"


_COIN = 0.55
"""A hull that keeps less than this at half of the risk is no better than a coin."""


@interruptible
def frontier(
    model: TabularJMDP,
    incumbent: PolicyLike,
    coupling: Coupling | None = None,
    *,
    horizon: int,
    terminal_value: Any = None,
    discount: float | None = None,
    starts: StartsLike,
    objective: str = "shortfall",
    weights: Sequence[float] | None = None,
    tie_tolerance: float | None = None,
    under: TabularJMDP | None = None,
) -> Frontier:
    """Compute policies that gain most over an incumbent, for each of several weights of doing worse than it.

    G is the return of a new policy minus that of the incumbent, under the same scenarios (`Synchronous`). For each
    weight the result has a policy that maximises E[G] − weight × E[max(0, −G)], exactly, over all policies that know
    the start and the scenarios so far. It acts on the step, the state, the incumbent's *shadow* (the state that the
    incumbent would have reached) and the gap so far.

    Parameters
    ----------
    model
        The scenario table. Its scenario probabilities must be the same in all states.
    incumbent
        The policy to improve on, as in `evaluate`; it may depend on time. It must be deterministic.
    coupling
        `Synchronous()`, which is the default; others are refused, with the reason.
    horizon, terminal_value, discount
        As in `evaluate`; the discount may be 1.
    starts
        Distribution of the start state: probabilities [S], {state: probability} or a list of equally likely states.
    objective
        "shortfall": E[max(0, −G)]. "shortfall and chance": P(G < 0) too, which alone would reward gambles. "cvar": the
        mean of the worst 5% of G, which takes a programme for each of up to 400 quantiles of G.
    weights
        Weights ≥ 0 of the risk. Default: up to 20 are tried, at which corners of the hull are found; 4 for "cvar". The
        largest gain (weight 0) is always included.
    tie_tolerance
        Gaps of at most this size count as 0. Default: 10⁻⁹ of the largest reward.
    under
        A second model, such as one with a larger demand, in which the same policies are evaluated.
    """
    asked = choice("objective", objective, ("shortfall", "shortfall and chance", "cvar"))
    problem = Problem(
        model, incumbent, horizon=horizon, terminal_value=terminal_value, discount=discount, starts=starts,
        tie_tolerance=tie_tolerance, coupling=coupling,
    )  # fmt: skip
    chosen = None if weights is None else _checked(weights)
    second = None
    if under is not None:
        second = Problem(
            under, incumbent, horizon=horizon, terminal_value=terminal_value, discount=problem.discount, starts=starts,
            tie_tolerance=tie_tolerance, like=problem,
        )  # fmt: skip
    search = Search(problem, second)
    measure = Risk()
    if asked == "shortfall and chance":
        measure = Risk(chance=search.chance_scale())
    elif asked == "cvar":
        measure = Risk(0.0, tail=1.0)
    points = tried = [search.best.point]
    if chosen is None and asked != "cvar":
        points, tried = search.corners(measure)
    else:
        some = [one for one in (_TAIL_WEIGHTS if chosen is None else chosen) if one > 0]
        with ThreadPoolExecutor(cores()) as pool:  # kernels release the GIL
            points = tried = [*points, *pool.map(lambda weight: search.at(weight, measure).point, some)]
    return Frontier(
        points=tuple(points),
        tried=tuple(tried),
        objective=asked,
        measure=measure,
        horizon=problem.steps,
        discount=problem.discount,
        cell=problem.cell,
        exact=problem.exact,
        tie_tolerance=problem.tie_tolerance,
    )


def _checked(weights: Any) -> list[float]:
    given = listed(weights, _MOST_WEIGHTS)
    found = [] if given is None else [real_number(one) for one in given]
    if given is None or len(given) > _MOST_WEIGHTS or not all(0 <= one < 1e12 for one in found):
        raise SettingsError(f"weights is {short(weights)}. Give a list of at most {_MOST_WEIGHTS:,} numbers ≥ 0.")
    return sorted(set(found))


def _left(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether b is not above the line from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])


def statistics_row(name: str, of: Statistics | None, suffix: str = "") -> dict[str, Any]:
    """A row of a table; None is the incumbent itself."""
    if of is None:
        nothing = Estimate(0.0, 0.0, 0.0)
        of = Statistics(nothing, nothing, nothing, nothing, Estimate(1.0, 1.0, 1.0), nothing)
    found = {"gain": of.gain, "shortfall": of.shortfall, "P(worse)": of.chance, "worst 5%": of.worst}
    more = {} if suffix else {"P(equal)": of.equal, "P(barely better)": of.barely}
    return {"policy": name} | {f"{title}{suffix}": value for title, value in (found | more).items()}
