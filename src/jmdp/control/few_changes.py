"""`few_changes`: which few states of an incumbent to change first, and in which order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.labels import PolicyLike, StartsLike
from jmdp.base.machine import interruptible
from jmdp.base.settings import number, whole_number
from jmdp.control import shadow_kernel as kernel
from jmdp.control.frontier import Answered, statistics_row
from jmdp.control.shadow import Problem, Statistics
from jmdp.models.coupling import Coupling
from jmdp.results.text import shown

if TYPE_CHECKING:
    from jmdp.models.tabular import TabularJMDP

_SETS = 300_000
"""Most sets of changes whose mean returns are computed for each k; beyond it, sets extend the best smaller ones."""

_MEASURED = 300
"""Most sets whose shortfall is computed for each k."""

_KEPT = 200
"""Smaller sets that a ranked search extends."""

Change = tuple[int, int]
"""State and new action."""


@dataclass(frozen=True)
class Changes:
    """The best set of at most k changes, in the order whose worst beginning is best."""

    k: int
    changes: tuple[tuple[str, str, str], ...]  # state, old and new action; old is that of the first step
    statistics: Statistics
    beginnings: tuple[float, ...]  # gains of the first one, two, … changes
    exact: bool  # all sets were tried


@dataclass(frozen=True, eq=False, repr=False)
class FewChanges(Answered):
    """The best sets of 1 … k states to change. They need not be nested."""

    _index: ClassVar = ("changes",)

    sets: tuple[Changes, ...]
    max_shortfall: float | None

    @property
    def answer(self) -> str:
        """The best set, and what to know about its order."""
        best = self.sets[-1]
        if not best.changes:
            within = "" if self.max_shortfall is None else f" with a shortfall of at most {self.max_shortfall:.4g}"
            return f"No change of so few states gains anything over the incumbent{within}."
        said = "; then ".join(f"in state {state} {new} instead of {old}" for state, old, new in best.changes)
        answer = f"The best {len(best.changes)} changes gain {shown(best.statistics.gain)}: {said}."
        if len(best.changes) == 1:
            answer = f"The best change gains {shown(best.statistics.gain)}: {said}."
        if min(best.beginnings) < 0:
            answer += " The first of them alone are worse than the incumbent: make them together."
        if not best.exact:
            answer += " The search was ranked: better sets may exist."
        return answer

    def rows(self) -> Sequence[dict[str, Any]]:
        """A row for each k."""
        return [
            {"changes": one.k, "states": ", ".join(f"{s}: {new}" for s, _, new in one.changes) or "none"}
            | {title: x for title, x in statistics_row("", one.statistics).items() if title != "policy"}
            | {"search": "all sets" if one.exact else "ranked"}
            for one in self.sets
        ]


@interruptible
def few_changes(
    model: TabularJMDP,
    incumbent: PolicyLike,
    coupling: Coupling | None = None,
    *,
    horizon: int,
    terminal_value: Any = None,
    discount: float | None = None,
    starts: StartsLike,
    k: int = 3,
    max_shortfall: float | None = None,
    tie_tolerance: float | None = None,
) -> FewChanges:
    """Find the states of an incumbent to change first: the best set of at most 1, 2, … k changes.

    A change replaces the action of a state in all steps. All sets are tried if there are at most 300,000 of them and,
    with a limit, if at most 300 of those with larger gains exceed it. Otherwise the search is ranked, and the result
    says so.

    Parameters
    ----------
    model, incumbent, coupling, horizon, terminal_value, discount, starts, tie_tolerance
        As in `frontier`.
    k
        Largest number of changes, at most 3.
    max_shortfall
        Largest mean shortfall of the changed policy.
    """
    problem = Problem(
        model, incumbent, horizon=horizon, terminal_value=terminal_value, discount=discount, starts=starts,
        tie_tolerance=tie_tolerance, coupling=coupling,
    )  # fmt: skip
    most = whole_number("k", k, 1, 3)
    limit = math.inf
    if max_shortfall is not None:
        limit = number("max_shortfall", max_shortfall, 0) + problem.tie_tolerance
    return FewChanges(tuple(_Search(problem, limit).sets(most)), max_shortfall)


class _Search:
    """Sets of changes of one incumbent."""

    def __init__(self, problem: Problem, limit: float) -> None:
        self._problem, self._limit = problem, limit
        A = problem.model.shape[2]
        reached = np.unique(np.concatenate([s for s, _ in problem.pairs[:-1]]))
        changed = problem.distinct[reached] & (problem.incumbent[:, reached, None] != np.arange(A)).any(axis=0)
        self._choices = {
            int(s): [(int(s), int(a)) for a in np.flatnonzero(ok)] for s, ok in zip(reached, changed, strict=True)
        }
        self._nothing = float(self._values([()])[0])

    def sets(self, most: int) -> Iterable[Changes]:
        """The best set for each k."""
        best: tuple[float, tuple[Change, ...]] = (0.0, ())
        exact, before = True, [()]
        for k in range(1, most + 1):
            found, complete = self._candidates(k, before)
            gains = self._values(found) - self._nothing if found else np.zeros(0)
            order = np.argsort(-gains, kind="stable")
            before = [found[i] for i in order[:_KEPT]]
            better, measured = self._first_within(found, gains, order, best[0])
            exact = exact and complete and measured
            if better is not None:
                best = better
            yield self._described(k, best[1], exact)

    def _candidates(self, k: int, before: Sequence[tuple[Change, ...]]) -> tuple[list[tuple[Change, ...]], bool]:
        """All sets of k changes, or those that extend the best smaller ones."""
        sizes = [len(one) for one in self._choices.values()]
        count = sum(math.prod(some) for some in combinations(sizes, k)) if len(sizes) <= 200 else math.inf
        if count <= _SETS:
            some = combinations(self._choices.values(), k)
            return [one for choices in some for one in product(*choices)], True
        every = [change for one in self._choices.values() for change in one]
        found = {tuple(sorted((*one, change))) for one in before for change in every if change[0] not in dict(one)}
        return sorted(found), False

    def _first_within(
        self, found: Sequence[tuple[Change, ...]], gains: Floats, order: Integers, least: float
    ) -> tuple[tuple[float, tuple[Change, ...]] | None, bool]:
        """The set with the largest gain above `least` within the limit; False if sets were left untried."""
        margin = 1e-12 * max(abs(self._nothing), 1.0)
        for tried, i in enumerate(order):
            if gains[i] <= least + margin:
                return None, True
            if self._limit == math.inf or self.statistics(found[i]).shortfall.high <= self._limit:
                return (float(gains[i]), found[i]), True
            if tried + 1 == _MEASURED:
                return None, False
        return None, True

    def _values(self, sets: Sequence[tuple[Change, ...]]) -> Floats:
        problem = self._problem
        changes = np.array(sets, np.int64).reshape(len(sets), -1, 2)
        value = np.empty(len(sets))
        kernel.values_of_changes(
            problem.kernel_model(problem.reward), problem.discount, problem.final, problem.incumbent, problem.start,
            changes, value,
        )  # fmt: skip
        return value

    def statistics(self, changes: Iterable[Change]) -> Statistics:
        """Statistics of the gap of the changed incumbent."""
        problem = self._problem
        acting = problem.incumbent.copy()
        for s, a in changes:
            acting[:, s] = a
        return problem.statistics(problem.fixed(acting))

    def _described(self, k: int, changes: tuple[Change, ...], exact: bool) -> Changes:
        """The set in the order whose worst beginning is best."""
        orders = list(permutations(changes))
        gains = {
            frozenset(one): float(self._values([one])[0]) - self._nothing
            for n in range(1, len(changes) + 1)
            for one in combinations(changes, n)
        }
        beginnings = [tuple(gains[frozenset(one[:n])] for n in range(1, len(one) + 1)) for one in orders]
        first = max(range(len(orders)), key=lambda i: min(beginnings[i], default=0.0))
        model, own = self._problem.model, self._problem.given[0]
        named = tuple(
            (model.states.name(s), model.actions.name(int(own[s])), model.actions.name(a)) for s, a in orders[first]
        )
        return Changes(k, named, self.statistics(changes), beginnings[first], exact)
