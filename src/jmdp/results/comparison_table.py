"""A comparison as text: one line an action, then what the choice may cost and what it took to know."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from jmdp.base import rounding
from jmdp.base.interval import Estimate
from jmdp.results.evaluation import Evaluation
from jmdp.results.outcome import Outcome
from jmdp.results.samples.bounded_returns import BoundedReturns
from jmdp.results.samples.limits import Limits
from jmdp.simulators.simulator import Draws


class _Regret(Protocol):
    @property
    def mean(self) -> Estimate: ...
    def quantile(self, p: float) -> Estimate: ...
    def cvar(self, p: float) -> Estimate: ...


class _Compared(Protocol):
    """What a table reads of any `Comparison`, which imports this module."""

    @property
    def leader(self) -> str: ...
    @property
    def runner_up(self) -> str: ...
    @property
    def best(self) -> str | None: ...
    @property
    def outcome(self) -> Outcome: ...
    @property
    def simulator(self) -> str: ...
    @property
    def discount(self) -> float: ...
    @property
    def horizon(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def samples(self) -> int: ...
    @property
    def confidence(self) -> float: ...
    @property
    def unseen(self) -> float: ...
    @property
    def evaluation(self) -> Evaluation: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def bounded(self) -> BoundedReturns | None: ...
    def mean_of(self, action: str) -> Estimate: ...


class _Comparison(_Compared, Protocol):
    """And of one of actions."""

    @property
    def actions(self) -> list[str]: ...
    @property
    def policy(self) -> str: ...
    @property
    def break_even(self) -> float | None: ...
    @property
    def draws(self) -> Draws: ...
    def beside_leader(self, action: str) -> dict[str, Estimate]: ...
    def regret(self, action: str) -> _Regret: ...


def comparison_table(comparison: _Comparison) -> str:
    """The comparison in words and columns."""
    c, leader = comparison, comparison.leader
    verdict = f"best: {c.best}" if c.best is not None else f"not decided; ahead: {leader}"
    verdict = f"{verdict} ({c.outcome.value}; {100 * c.confidence:g}% confidence{_rests_on(c)})"
    if c.outcome.name == "ONE_FUTURE":
        verdict = f"ahead in the one future that was seen: {leader}\n{_one_future(c.samples)}"
    luck = f"{type(c.evaluation.coupling).__name__} luck, discount {c.discount:g}, horizon {c.horizon}"
    lines = [
        f"{len(c.actions)} actions of {c.simulator} under {c.policy}; {luck}",
        verdict,
        *_overturned(c),
        "",
    ]
    rows = [
        [
            "action",
            "mean return",
            f"{leader} minus it",
            "std",
            f"P({leader} better)",
            "P(worse)",
            "correlation",
            "rollouts saved",
        ]
    ]
    for action in sorted(c.actions, key=lambda a: -float(c.mean_of(a))):
        if action == leader:
            rows.append([action, shown(c.mean_of(action)), "", "", "", "", "", ""])
            continue
        found = c.beside_leader(action)
        rows.append(
            [
                action,
                shown(found["mean"]),
                shown(found["behind"]),
                shown(found["behind_std"]),
                rounding.percent(found["leader_better"]),
                rounding.percent(found["leader_worse"]),
                *("–" if math.isnan(found[name]) else form.format(float(found[name])) for name, form in _LAST),
            ]
        )
    lines += aligned(rows)
    regret = c.regret(leader)
    skipped = c.draws.shared_steps / max(1, c.draws.steps + c.draws.shared_steps)
    lines += [
        "",
        f"regret of {leader}: mean {shown(regret.mean)}, 95% quantile {shown(regret.quantile(0.95))}, "
        f"worst 5% {shown(regret.cvar(0.05))}",
        f"{c.samples:,} rollouts of each action from seed {c.seed}; {c.draws.steps:,} steps simulated, "
        f"{100 * skipped:.0f}% spared where branches had met",
        *([] if c.limits.assumption is None else [f"assuming that {c.limits.assumption}; otherwise give reward_bound"]),
        f"outcomes rarer than about 1 in {1 / c.unseen:.0f} may be missing from this sample",
        _what_holds(c),
    ]
    return "\n".join(lines)


def _one_future(samples: int) -> str:
    return (
        f"All {samples} rollouts of each action gave the same return, so no confidence can be stated.\n"
        "If the simulator is deterministic from this state, the means are exact. If its randomness was drawn earlier,\n"
        "in start or reset (a shuffled deck, a tape of demands), or matters too rarely to be seen, other futures may\n"
        "differ: draw it in step, or compare from several starts."
    )


def _rests_on(c: _Comparison) -> str:
    if c.bounded is None:
        return ", large-sample"
    least, most = rounding.exactly(c.bounded.least), rounding.exactly(c.bounded.most)
    return f", for any distribution of returns in [{least}, {most}]"


def _overturned(c: _Comparison) -> list[str]:
    """What would make the decision wrong, rounded down."""
    if c.break_even is None:
        return []
    cost = rounding.at_least(c.break_even, 2)
    return [
        f"would be overturned by an unseen 1-in-{1 / c.unseen:.0f} outcome that costs {c.best} more than {cost} "
        f"compared with {c.runner_up}"
    ]


def _what_holds(c: _Comparison) -> str:
    if c.bounded is None:
        return (
            "intervals of chances and quantiles hold for any distribution, those of means are large-sample; "
            "the rest are estimates"
        )
    return "intervals hold for any distribution of returns in that range; the rest are estimates"


_LAST = (("correlation", "{:.3f}"), ("variance_reduction", "{:.1f} ×"))


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines: the first column to the left, the others to the right."""
    flat = [[cell.replace("\n", " ") for cell in row] for row in rows]  # a name may be an array as NumPy prints it
    widths = [max(map(len, column)) for column in zip(*flat, strict=True)]
    return [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in flat
    ]


def shown(value: Estimate) -> str:
    """A number and its interval, to the digits that mean something; the number alone where there is none."""
    if not value.has_interval:
        return f"{float(value):.3g}"
    return rounding.with_ends(value, digits=6)
