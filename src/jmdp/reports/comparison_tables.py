"""Tables of the page of a comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping

from jmdp.base.interval import Estimate
from jmdp.base.rounding import confidence_percent, typeset, value_and_ends
from jmdp.comparisons.comparison import Comparison, WholeComparison
from jmdp.comparisons.pairing import ceiling_text
from jmdp.comparisons.run_comparison import RunComparison
from jmdp.reports.page import Cell, Number, Table, percent
from jmdp.reports.words import MOST_ROWS, name, rows_left_out


def sampled(c: Comparison) -> str:
    """Number of samples, seed and confidence."""
    least, most = min(c.counts.values()), max(c.counts.values())
    n = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    said = f"n = {n} {c.run}{'s' * (most > 1)} of each {c.alternative}, seed {c.seed}"
    if c.summary.certain:
        return f"{said}, no random numbers were used"
    return f"{said}, {confidence_percent(c.confidence)} confidence{'' if c.return_range else ' (large-sample)'}"


def means_table(c: Comparison) -> Table:
    """Means, gaps and chances of each alternative, the best mean first."""
    reference = name(c.reference, 40)
    if isinstance(c, WholeComparison):
        gap, titles = f"advantage over {reference}", ["P(better)", "P(worse)"]
        words = {"P(better)": f"how often it is better than {reference} with the same randomness"}
    else:
        gap, titles = f"advantage of {reference}", [f"P({reference} better)", f"P({reference} worse)"]
        words = {titles[0]: f"how often {reference} earns more, with the same randomness"}
    rows = []
    for other in c.ranked[:MOST_ROWS]:
        found, own = _beside(c, other), other == c.reference
        cells: list[Cell] = ["", "", ""]
        if not own:
            better, worse = list(found.values())[3:5]
            cells = [found["advantage"], percent(better), percent(worse)]
        mark = f" ({'baseline' if c.baseline else 'leader'})" * own
        rows.append([name(other) + mark, found["mean"], *cells, f"{c.counts[other]:,}"])
    return Table(
        title=_title(c, f"{c.mean_title[:1].upper()}{c.mean_title[1:]} and gaps"),
        columns=[c.alternative, c.mean_title, gap, *titles, f"{c.run}s (n)"],
        rows=rows,
        note=f"{sampled(c)}. Intervals are in brackets, rounded outwards.{_paired(c)}{rows_left_out(len(c.actions))}",
        words=words,
    )


def one_run_table(c: Comparison) -> Table:
    """Quantiles of the gap in one run, and how often it is positive."""
    rows: list[list[Cell]] = []
    for other in c.ranked[:MOST_ROWS]:
        if other != c.reference:
            pair = (c.reference, other) if c.baseline is None else (other, c.reference)
            rows.append([name(other), *c.advantage_quantiles(*pair).values(), percent(c.win_rate(*pair))])
    gap = f"advantage {'of' if c.baseline is None else 'over'} {name(c.reference, 40)}"
    return Table(
        title=_title(c, f"The gap in one {c.run}"),
        columns=[c.alternative, "5% quantile", "50% quantile", "95% quantile", "worst 5%", "win rate"],
        rows=rows,
        note=f"Of the {gap}. {sampled(c)}.{_paired(c)}{rows_left_out(len(c.actions))}",
        words={
            "worst 5%": f"mean of the worst 5% of {c.run}s; with an interval only if a range of returns is given",
            "win rate": "how often it is better, plus half of how often both are the same",
        },
    )


def shared_table(c: Comparison) -> Table:
    """What shared randomness gains."""
    rows: list[list[Cell]] = []
    for other in c.ranked[:MOST_ROWS]:
        if other == c.reference:
            continue
        found = _beside(c, other)
        factor, ceiling = float(found["variance_reduction"]), float(found["variance_reduction_ceiling"])
        rows.append(
            [
                name(other),
                found["advantage_std"],
                found["correlation"],
                Number(f"{factor:.1f} ×", None) if math.isfinite(factor) else "–",
                "–" if math.isnan(ceiling) else Number(ceiling_text(ceiling), None),
            ]
        )
    times = f"{c.run}s if independent"
    return Table(
        title=_title(c, "What shared randomness gains"),
        columns=[f"{c.alternative} beside {name(c.reference, 40)}", "std of the gap", "correlation", times, "ceiling"],
        rows=rows,
        note=f"{sampled(c)}. –: undefined, because a return or a gap did not vary."
        if _dashes(rows)
        else f"{sampled(c)}.",
        words={
            times: f"how many times as many {c.run}s independent sampling would need for the same precision",
            "ceiling": "no sharing of randomness can gain more, with returns of these standard deviations",
        },
    )


def regret_table(c: Comparison) -> Table:
    """What each action loses to the best one in hindsight."""
    rows: list[list[Cell]] = []
    for other in c.ranked[:MOST_ROWS]:
        regret = c.regret(other)
        rows.append([name(other), regret.mean, regret.quantile(0.95), regret.cvar(0.05)])
    n = len(c.draws.complete.returns)
    return Table(
        title="Regret",
        columns=[c.alternative, "mean regret", "95% quantile", "mean of the worst 5%"],
        rows=rows,
        note=f"From the n = {n:,} samples in which every {c.alternative} was simulated, seed {c.seed}, "
        f"{confidence_percent(c.confidence)} confidence.{rows_left_out(len(c.actions))}",
        words={
            "regret": f"what the {c.alternative} earns less than the best one in hindsight, with the same randomness"
        },
    )


def margin_table(c: Comparison) -> Table:
    """The verdicts on the margin."""
    assert c.margin is not None
    rows: list[list[Cell]] = []
    for other in c.ranked[:MOST_ROWS]:
        if other != c.reference:
            found = c.not_worse(c.margin, other)
            change: Cell = "" if found.change is None else _percent_change(found.change)
            rows.append(
                [name(other), found.gap, change, typeset(str(c.margin)), found.verdict.value, f"{found.samples:,}"]
            )
    return Table(
        title="The margin",
        columns=[
            c.alternative,
            f"gap to {name(c.reference, 40)}",
            "change",
            "margin",
            "not worse?",
            f"pairs of {c.run}s (n)",
        ],
        rows=rows,
        note=f"{sampled(c)}.",
    )


def _percent_change(change: Estimate) -> Cell:
    if not change.has_interval:
        return Number(typeset(f"{100 * float(change):.3g}%"), None)
    middle, ends = value_and_ends(Estimate(*(100 * end for end in (float(change), change.low, change.high))), 6)
    return Number(typeset(f"{middle}%"), typeset(f"{ends}%"))


def _title(c: Comparison, text: str) -> str:
    measure = c.measure if isinstance(c, RunComparison) else None
    if measure is None:
        return text
    return f"{name(measure)}: {text[:1].lower()}{text[1:]}, {'smaller' if c.sign < 0 else 'larger'} is better"


def _beside(c: Comparison, other: str) -> Mapping[str, Estimate]:
    return c.beside_reference(other) if isinstance(c, WholeComparison) else c.beside_leader(other)


def _paired(c: Comparison) -> str:
    if c.paired_samples == c.samples:
        return ""
    return f" Chances, standard deviations and correlations are from the first {c.paired_samples:,} samples."


def _dashes(rows: list[list[Cell]]) -> bool:
    return any(cell == "–" or (isinstance(cell, Estimate) and math.isnan(cell)) for row in rows for cell in row)
