"""Comparisons as text: the answer, a line for each alternative, then regret or pairing, effort and assumptions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from jmdp.base import rounding
from jmdp.base.interval import Estimate
from jmdp.comparisons.answer import answer_sentence
from jmdp.comparisons.pairing import ceiling_text
from jmdp.results.outcome import Outcome
from jmdp.results.result import wrapped

if TYPE_CHECKING:
    from jmdp.comparisons.comparison import Comparison, WholeComparison


def titles(c: Comparison) -> list[str]:
    """Titles of the columns of `Comparison.beside_leader` or `WholeComparison.beside_reference`."""
    gap = [f"advantage over {c.reference}", "std", "P(better)", "P(worse)"]
    if c.alternative == "action":
        gap = [f"advantage of {c.leader}", "std", f"P({c.leader} better)", f"P({c.leader} worse)"]
    return [c.mean_title, *gap, "correlation", f"{c.run}s if independent", "ceiling"]


def comparison_table(c: Comparison) -> str:
    """The comparison of actions as sentences and a table."""
    leader = c.leader
    coupling = f"{type(c.summary.coupling).__name__} coupling, discount {c.discount:g}, horizon {c.horizon}"
    rows = table_rows(c, c.beside_leader)
    regret = c.regret(leader)
    skipped = c.draws.shared_steps / max(1, c.draws.steps + c.draws.shared_steps)
    saved = f", {100 * skipped:.0f}% of steps skipped: rollouts had reached identical states" if skipped else ""
    return joined(
        [
            answer_sentence(c),
            *([] if c.outcome is Outcome.ONE_FUTURE else [stopped(c)]),
            *([_EARLIER] if c.outcome in (Outcome.ONE_FUTURE, Outcome.DETERMINISTIC) else []),
            f"{len(c.actions)} actions of {c.simulator}, followed by the policy ({c.policy}); {coupling}",
        ],
        rows,
        [
            *in_one_run(c),
            f"regret of {leader}: mean {shown(regret.mean)}, 95% quantile {shown(regret.quantile(0.95))}, "
            f"worst 5% {shown(regret.cvar(0.05))}",
            f"{effort(c)}{saved}",
            *unvaried(c, c.beside_leader),
            *eliminated(c),
            *assumptions(c),
            *undefined(rows),
        ],
    )


def whole_table(c: WholeComparison, about: str) -> str:
    """The comparison of policies or runs as sentences and a table; `about` states what was compared."""
    rows = table_rows(c, c.beside_reference)
    return joined(
        [c.answer, stopped(c), about],
        rows,
        [
            *in_one_run(c),
            *c.pairing.sentences(),
            effort(c) + ", including these reruns" * (c.pairing.shares is not None),
            *unvaried(c, c.beside_reference),
            *eliminated(c),
            *assumptions(c),
            *undefined(rows),
        ],
    )


def stopped(c: Comparison) -> str:
    """What is known, or why sampling stopped before. A decided comparison may have gone on for more samples."""
    if c.outcome is Outcome.BUDGET_EXHAUSTED and c.best is not None:
        return "stopped: the budget is used up; the best is known, but not every mean gap to the requested precision"
    if c.outcome is Outcome.PRECISE and len(set(c.counts.values())) > 1:
        last = f"the {c.summary.labels.plural} that were simulated to the end"
        return f"decided: every mean gap of {last} is known to the requested precision"
    if c.outcome is Outcome.SAMPLED:
        return f"one look: {c.outcome.value}"
    return f"{'decided' if c.outcome.successful else 'stopped'}: {c.outcome.value}"


_EARLIER = (
    "If the simulator is deterministic from this state, the means are exact. If its randomness was drawn earlier, in "
    "start or reset (a shuffled deck, recorded demand), or changes the return too rarely, other returns are possible: "
    "draw it in step, or compare from several starts."
)


def joined(above: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[str]) -> str:
    """Sentences, a table and sentences; long sentences are wrapped."""
    first, last = ([wrapped(sentence, "  ") for sentence in sentences] for sentences in (above, below))
    return "\n".join([*first, "", *aligned(rows), "", *last])


def table_rows(c: Comparison, beside: Callable[[str], Mapping[str, Estimate]]) -> list[list[str]]:
    """Titles, then one row per alternative, the best mean first; the reference has its mean only."""
    unequal = len(set(c.counts.values())) > 1
    columns = titles(c)
    rows = [[c.alternative, *columns, *[f"{c.run}s"] * unequal]]
    for name in c.ranked:
        own = [shown(c.mean_of(name)), *[""] * (len(columns) - 1)]
        rows.append([name, *(own if name == c.reference else _cells(beside(name))), *[f"{c.counts[name]:,}"] * unequal])
    return rows


def in_one_run(c: Comparison) -> list[str]:
    """By how much and how often alternatives are better than the baseline in one run, or the leader than the next."""
    if c.outcome in (Outcome.DETERMINISTIC, Outcome.ONE_FUTURE):
        return []
    lines, others = [], [name for name in c.ranked if name != c.reference]
    for name in others[: 1 if c.baseline is None else _MOST_LINES]:
        first, second = (c.reference, name) if c.baseline is None else (name, c.reference)
        found = ", ".join(f"{key} {shown(value)}" for key, value in c.advantage_quantiles(first, second).items())
        wins = f"win rate {rounding.percent(c.win_rate(first, second))}, ties counting half"
        lines.append(f"advantage of {first} over {second} in one {c.run}: {found.replace(' quantile', '')}; {wins}")
    return lines


_MOST_LINES = 3
"""Alternatives whose advantage over the baseline in one run is printed."""


def effort(c: Comparison) -> str:
    """Number of samples of each alternative, seed and steps."""
    least, most = min(c.counts.values()), max(c.counts.values())
    if least == most:
        said = f"{most:,} {c.run}{'s' * (most > 1)} of each {c.alternative}"
    else:
        said = f"{least:,} to {most:,} {c.run}s of each {c.alternative}, {sum(c.counts.values()):,} in total"
    steps = "" if c.run == "run" else f"; {c.draws.steps:,} steps simulated"
    return f"{said}, from seed {c.seed}{steps}"


def eliminated(c: Comparison) -> list[str]:
    """The samples of means and gaps, and alternatives that are known to be worse than one that is not the leader."""
    others: dict[str, list[str]] = {}
    for name, better in c.worse_than.items():
        if better != c.leader:
            others.setdefault(better, []).append(name)
    own, both = f"the {c.alternative}'s own {c.run}s", f"the {c.run}s that both {c.summary.labels.plural} have"
    unequal = [f"each mean is of {own}, each gap of {both}"] * (len(set(c.counts.values())) > 1)
    return [*unequal, *(f"known to be worse than {better}: {', '.join(names)}" for better, names in others.items())]


def _cells(found: Mapping[str, Estimate]) -> list[str]:
    """The cells of one alternative: mean, advantage and its std, chances, correlation, variance reduction, ceiling."""
    mean, advantage, std, better, worse, correlation, reduction, ceiling = found.values()
    return [
        shown(mean),
        shown(advantage),
        shown(std) if std.has_interval or math.isfinite(reduction) else "0",  # the rest is rounding
        rounding.percent(better),
        rounding.percent(worse),
        "–" if math.isnan(correlation) else f"{float(correlation):.3f}",
        f"{float(reduction):.1f} ×" if math.isfinite(reduction) else "–",
        "–" if math.isnan(ceiling) else ceiling_text(ceiling),
    ]


def assumptions(c: Comparison) -> list[str]:
    """What the intervals cover and assume."""
    lines = []
    if c.file_version is not None:
        lines.append(
            f"loaded from a file of version {c.file_version}: the outcome is as recorded, the intervals are computed "
            "anew"
        )
    if c.limits.assumption is not None:
        lines.append(
            f"{c.run}s are cut at step {c.horizon}; the intervals allow for later rewards, assuming that "
            f"{c.limits.assumption}. If they can be larger, give assume=jmdp.Assumptions(reward_bound=…)"
        )
    if c.outcome is Outcome.DETERMINISTIC:
        return lines
    if c.return_range is None:
        means = "those of means are large-sample intervals of what was seen"
    else:
        least, most = map(rounding.exactly, c.return_range)
        means = f"those of means for any returns in [{least}, {most}]"
    lines.append(f"{validity(c)}: those of chances and quantiles for any distribution, {means}")
    return [*lines, "numbers without an interval are estimates"]


def validity(c: Comparison) -> str:
    """When the intervals hold."""
    sampling = c.summary.sampling
    once, together = (rounding.confidence_percent(1 - n * (1 - c.confidence)) for n in (1, sampling.looks))
    if sampling.kind == "fixed" and sampling.looks > 1:
        return (
            f"intervals hold at {once} for this number of {c.run}s alone; the comparison was continued, so that all "
            f"{sampling.looks} looks together hold at {together}"
        )
    if sampling.kind == "fixed":
        return f"intervals hold for this number of {c.run}s, chosen in advance"
    looks = "looks of the plan" if sampling.kind == "planned" else "scheduled looks"
    if sampling.looks > 1:
        return f"intervals hold at all {looks} at {once}, and together with those of the plan before at {together}"
    return f"intervals hold at all {looks}, so that sampling may stop at any of them"


def undefined(rows: Sequence[Sequence[str]]) -> list[str]:
    """The reason for a dash, where the table has one."""
    return ["–: undefined, because a return or a gap did not vary"] * any("–" in row for row in rows)


def unvaried(c: Comparison, beside: Callable[[str], Mapping[str, Estimate]]) -> list[str]:
    """Why a gap that was the same in all samples has no interval."""
    others = [name for name in c.actions if name != c.reference]
    same = [name for name in others if not math.isfinite(beside(name)["variance_reduction"])]
    if not same or c.outcome is Outcome.DETERMINISTIC:
        return []
    gaps = f"the gap to {same[0]} was" if len(same) == 1 else f"the gaps to {', '.join(same)} were"
    return [f"{gaps} the same in all samples: no spread was seen, so there is no interval"]


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
    """A number and its interval to the digits that the interval supports; the number alone without an interval."""
    if not value.has_interval:
        return f"{float(value):.3g}"
    return rounding.with_ends(value, digits=6)
