"""`improve`: the policy that gains most over an incumbent, within a limit on how much or how often it is worse."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from jmdp.base.interval import Estimate
from jmdp.base.machine import interruptible
from jmdp.base.rounding import share_of_cases
from jmdp.base.settings import number
from jmdp.control.frontier import OPTIMUM, Answered, chance_scale, statistics_row
from jmdp.control.policy import ShadowPolicy, check_observed
from jmdp.control.shadow import Problem, ShadowActions, Statistics, Utility
from jmdp.errors import SettingsError
from jmdp.results.text import shown

if TYPE_CHECKING:
    from jmdp.models.tabular import TabularJMDP

_EMPHASES = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0)
"""How much more than the shortfall the chance of being worse is weighed, if the chance is limited."""

_BISECTIONS = 10


@dataclass(frozen=True)
class Candidate:
    """A policy that was found, with its statistics."""

    weight: float
    statistics: Statistics
    actions: ShadowActions
    upper: float  # no policy exceeds this utility


@dataclass(frozen=True, eq=False, repr=False)
class Improvement(Answered):
    """A policy within a limit, certified against the incumbent, beside the policy with the largest gain."""

    _index: ClassVar = ("policy",)

    policy: ShadowPolicy
    statistics: Statistics
    optimum: Statistics  # of the policy with the largest gain
    limit: str
    coin: Estimate | None  # gain with one coin before the first step; no policy has more than its upper end

    @property
    def answer(self) -> str:
        """What the policy gains and risks, and what a coin would add."""
        own, best = self.statistics, self.optimum
        if own.gain.high <= 0 or float(own.gain) <= 0:
            return f"No policy was found that gains anything over the incumbent with {self.limit}."
        said = (
            f"The policy gains {shown(own.gain)} over the incumbent, {float(own.gain) / float(best.gain):.0%} of the "
            f"largest gain. It falls short of it by {shown(own.shortfall)} on average, and is worse in "
            f"{share_of_cases(own.chance)} (limit: {self.limit})."
        )
        if self.coin is not None and float(self.coin) > float(own.gain) * (1 + 1e-6):
            said += f" A coin before the first step would add {float(self.coin) - float(own.gain):.3g}."
        return said

    def rows(self) -> list[dict[str, Any]]:
        """The incumbent, the policy, and the one with the largest gain."""
        named = {"incumbent": None, "improved": self.statistics, OPTIMUM: self.optimum}
        return [statistics_row(name, one) for name, one in named.items()]


@interruptible
def improve(
    model: TabularJMDP,
    incumbent: Any,
    coupling: Any = None,
    *,
    horizon: int,
    terminal_value: Any = None,
    discount: float | None = None,
    starts: Any,
    max_shortfall: float | None = None,
    max_chance: float | None = None,
    observed: str = "state",
    tie_tolerance: float | None = None,
) -> Improvement:
    """Find the single policy that gains most over an incumbent within a limit on doing worse than it.

    Parameters
    ----------
    model, incumbent, coupling, horizon, terminal_value, discount, starts, tie_tolerance
        As in `frontier`.
    max_shortfall
        Largest mean shortfall E[max(0, −G)], G the gap to the incumbent under the same scenarios. The policy is the
        best corner of the frontier within the limit.
    max_chance
        Largest probability P(G < 0). A limit on it alone rewards gambles, so chance and shortfall are weighed together,
        and only policies count whose shortfall and worst 5% are no worse than those of the policy with the largest
        gain.
    observed
        What the policy sees after each step: "state", its own next state; "state and reward"; or "scenario". It must
        say where the incumbent would be; otherwise a `PolicyError` names a state, shadow and action for which it does
        not.

    Returns
    -------
    Improvement
        Its `policy` acts on the step, the state, the shadow and the gap so far.
    """
    if (max_shortfall is None) == (max_chance is None):
        raise SettingsError("Give one of max_shortfall= and max_chance=.")
    problem = Problem(
        model, incumbent, horizon=horizon, terminal_value=terminal_value, discount=discount, starts=starts,
        tie_tolerance=tie_tolerance, coupling=coupling,
    )  # fmt: skip
    seen = check_observed(problem, observed)
    search = Search(problem)
    coin = None
    if max_shortfall is not None:
        limit = number("max_shortfall", max_shortfall, 0)
        found, coin = search.within_shortfall(limit)
        said = f"a shortfall of at most {limit:.4g}"
    else:
        limit = number("max_chance", max_chance, 0, 1)
        found = search.within_chance(limit)
        said = f"a chance of being worse of at most {limit:.4g}"
    policy = ShadowPolicy(problem, found.actions, seen)
    return Improvement(policy, found.statistics, search.best.statistics, said, coin)


class Search:
    """Policies of a problem by the weight of their risk."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self._barely = problem, 0.0
        best = self.at(0.0)
        self._barely = float(best.statistics.gain) / 10
        self.best = replace(best, statistics=problem.statistics(best.actions, self._barely))
        gain, shortfall = float(best.statistics.gain), float(best.statistics.shortfall)
        self._unit = max(gain, 0.0) / shortfall if shortfall > 0 else 1.0

    def at(self, weight: float, scale: float = 0.0) -> Candidate:
        """The policy that maximises E[G] − weight × (shortfall + scale × chance)."""
        utility = Utility(weight, weight * scale)
        actions = self.problem.solve(utility)
        upper = self.problem.upper_value(utility, actions)
        return Candidate(weight, self.problem.statistics(actions, self._barely), actions, upper)

    def within_shortfall(self, limit: float) -> tuple[Candidate, Estimate | None]:
        """The best corner of the hull within the limit, and the gain of the hull there."""
        within = limit + self.problem.tie_tolerance
        if self.best.statistics.shortfall.high <= within:
            return self.best, None
        above, below = self.best, self.at(_LARGE * max(self._unit, 1e-9))
        bound = min(one.upper + one.weight * limit for one in (above, below))
        for _ in range(60):
            (x, g), (y, f) = ((float(one.statistics.shortfall), float(one.statistics.gain)) for one in (above, below))
            weight = (g - f) / (x - y) if x > y else 0.0
            if not weight > 0:
                break
            found = self.at(weight)
            bound = min(bound, found.upper + weight * limit)
            z, e = float(found.statistics.shortfall), float(found.statistics.gain)
            if e - weight * z <= g - weight * x + 1e-9 * abs(g):
                break
            if found.statistics.shortfall.high <= within:
                below = found
            else:
                above = found
        line = f + (g - f) * (limit - y) / (x - y) if x > y else f
        return below, Estimate(line, line, max(line, bound))

    def within_chance(self, limit: float) -> Candidate:
        """The best policy found whose chance is within the limit, and which loses no more than the optimum."""
        best = self.best.statistics

        def allowed(one: Candidate) -> bool:
            own = one.statistics
            within = own.shortfall.high <= best.shortfall.high and own.worst.low >= best.worst.low
            return own.chance.high <= limit and within

        if allowed(self.best):
            return self.best
        found = self.at(_LARGE * max(self._unit, 1e-9))
        for emphasis in _EMPHASES:
            for one in self._descent(chance_scale(best, emphasis), limit):
                if allowed(one) and float(one.statistics.gain) > float(found.statistics.gain):
                    found = one
        return found

    def _descent(self, scale: float, limit: float) -> list[Candidate]:
        """Policies near the smallest weight at which the chance is within the limit, by bisection of its logarithm."""
        low, high = math.log(self._unit * 1e-3 + 1e-300), math.log(self._unit * 20 + 1e-300)
        found = []
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            one = self.at(math.exp(middle), scale)
            found.append(one)
            if one.statistics.chance.high <= limit:
                high = middle
            else:
                low = middle
        return found


_LARGE = 1e6
"""A weight, in that at which the largest gain is worth its shortfall, with which no risk is taken."""
