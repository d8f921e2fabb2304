"""`improve`: the policy that gains most over an incumbent, within a limit on how much or how often it is worse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from jmdp.base.interval import Estimate
from jmdp.base.labels import PolicyLike, StartsLike
from jmdp.base.machine import interruptible
from jmdp.base.rounding import share_of_cases
from jmdp.base.settings import number
from jmdp.control.frontier import Answered, statistics_row
from jmdp.control.policy import ShadowPolicy, check_observed
from jmdp.control.search import OPTIMUM, Search
from jmdp.control.shadow import Problem, Statistics
from jmdp.errors import SettingsError
from jmdp.models.coupling import Coupling
from jmdp.results.text import shown

if TYPE_CHECKING:
    from jmdp.models.tabular import TabularJMDP


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
    incumbent: PolicyLike,
    coupling: Coupling | None = None,
    *,
    horizon: int,
    terminal_value: Any = None,
    discount: float | None = None,
    starts: StartsLike,
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
    return Improvement(policy, found.point.statistics, search.best.point.statistics, said, coin)
