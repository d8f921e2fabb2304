"""Several reviews as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from jmdp.base.interval import Estimate
from jmdp.base.rounding import percent
from jmdp.comparisons.comparison_table import aligned
from jmdp.results.result import wrapped
from jmdp.reviews.review_text import shown, size

_MOST_GROUPS = 8
"""States that are printed."""


class _Several(Protocol):
    """The part of `Reviews` that its text reads."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    @property
    def first(self) -> Any: ...
    @property
    def mean(self) -> Estimate: ...
    @property
    def corrected(self) -> Estimate: ...
    @property
    def episodes_factor(self) -> Estimate: ...
    @property
    def cost(self) -> float: ...
    @property
    def shares(self) -> Mapping[str, Estimate]: ...
    def rows(self) -> Sequence[Mapping[str, Any]]: ...


def answer(several: _Several) -> str:
    """The verdict in one sentence."""
    s, rows = several, several.rows()
    lost = [row for row in rows if float(row["regret per episode"]) > 0]
    worst = "no decision has a regret"
    if lost:
        name, regret = lost[0]["state"] or "states without a label", lost[0]["regret per episode"]
        cost = f"{size(regret)} per episode"
        worst = f"most is lost in state {name}: {cost}"
        if regret.low <= 0:
            worst = f"no state is shown to lose anything (largest estimate: state {name}, {cost})"
    if all(float(share) != float(share) for share in s.shares.values()):
        spread = "all returns are equal"
    else:
        spread = f"luck is {_percent(s.shares['luck'])} of the variance of returns"
    cut = "" if all(one.trajectory.terminated for one in s) else " in the reviewed steps"
    return f"{_episodes(len(s))} earn{'s' * (len(s) == 1)} {shown(s.mean)} on average{cut}; {spread}; {worst}."


def reviews_text(several: _Several) -> str:
    """The verdict, the states with the largest regret, and the value corrected for luck."""
    s, rows = several, several.rows()
    mistakes = ["mistakes"] if s.first.has_intervals else []  # otherwise none is decided
    columns = ("visits", *mistakes, "mean regret", "regret per episode", "mean luck")
    table = [["  state", *columns]]
    for row in rows[:_MOST_GROUPS]:
        table.append([f"  {row['state']}", *(_cell(row[name]) for name in columns)])
    more = [f"  … and {len(rows) - _MOST_GROUPS} more states"] if len(rows) > _MOST_GROUPS else []
    first = s.first
    lines = [
        answer(s),
        f"{first.simulator}, policy {first.policy}; discount {first.discount:g}, seed {first.seed}",
        "",
        *aligned(table),
        *more,
        "",
        *notes(s),
    ]
    return "\n".join(wrapped(line, "  ") if line and not line.startswith(" ") else line for line in lines)


def notes(s: _Several) -> list[str]:
    """The corrected value, shares of the variance, and what the intervals assume."""
    factor = s.episodes_factor
    simulated = f"; the review simulated {s.cost:.3g} times the steps of the episodes themselves" if s.cost else ""
    shares = ", ".join(f"{name} {_percent(share)}" for name, share in s.shares.items() if float(share) == float(share))
    kind = "of the reference policy"
    if not s.first.exact:
        kind = "estimates; regrets, being maxima of them, tend to be too large"
    return [
        f"mean return {shown(s.mean)}; corrected for luck {shown(s.corrected)}",
        *([] if float(factor) != float(factor) else [f"the corrected mean needs {_times(factor)} episodes{simulated}"]),
        *([f"shares of the variance of returns: {shares}"] if shares else []),
        f"{_episodes(len(s))}, seed {s.first.seed}; intervals of averages over episodes: confidence "
        f"{s.first.confidence:g} (large samples); values of decisions are {kind}",
        f"values by {s.first.method}; numbers without an interval are estimates",
    ]


def _percent(share: Estimate) -> str:
    return percent(share) if share.has_interval else f"{100 * float(share):.0f}% (no interval)"


def _episodes(count: int) -> str:
    return "1 episode" if count == 1 else f"{count:,} episodes"


def _times(factor: Estimate) -> str:
    if float(factor) == float("inf"):
        return "infinitely many times fewer"
    if float(factor) >= 1:
        return f"{shown(factor)} times fewer"
    more = Estimate(1 / float(factor), 1 / factor.high, 1 / factor.low if factor.low > 0 else math.inf)
    return f"{shown(more) if factor.has_interval else f'{float(more):.3g}'} times more"


def _cell(value: Any) -> str:
    if isinstance(value, Estimate):
        return shown(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
