"""Chart of a comparison: how far each alternative is behind the leader, and how often the leader does better.

Bars are one standard deviation to each side of a mean gap: with shared random numbers, and with independent draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jmdp.base.interval import Estimate, Interval, Verdict
from jmdp.base.rounding import significant, supported, typeset, whole_percent
from jmdp.comparisons.answer import is_unknown
from jmdp.comparisons.comparison import Comparison
from jmdp.comparisons.comparison_table import sample_size
from jmdp.comparisons.policy_comparison import RunComparison, RunComparisons
from jmdp.models.coupling import Independent
from jmdp.results.certificate import Outcome
from jmdp.results.text import confidence
from jmdp.show.plots.style import (
    COLOURS,
    GREY,
    SMALL,
    WIDTH,
    check_drawn,
    check_title,
    clear_spines,
    empty_figure,
    legend_handles,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


_IN_PAIRS = "± 1 std of the gap, in pairs"

_LONGEST = 24
"""Longer names lose their middle."""


@dataclass(frozen=True)
class ChartLabels:
    """Labels of the chart, relative to the leader or to a baseline."""

    top: str
    gap: str
    difference: str
    sure: str
    not_sure: str
    chance: str
    values: str  # what is compared, below the axis

    @classmethod
    def of(cls, c: Comparison, name: str) -> ChartLabels:
        """Labels for this comparison; `name` is that of the leader or baseline."""
        values = plain(c.wording.mean.removeprefix("mean "))
        if c.summary.discount < 1:
            values = f"discounted {values}"
        kind = c.summary.labels.kind
        gap = (kind, name) if has_baseline(c) == (c.summary.sign > 0) else (name, kind)
        difference = " − ".join(gap)
        if has_baseline(c):
            return cls(
                "baseline",
                f"gain over {name}",
                difference,
                "known to be better or worse",
                "may be equal",
                f"how often each does better than {name}",
                values,
            )
        return cls(
            "leader",
            f"how far each {kind} is behind {name}",
            difference,
            f"{name} is better",
            "may be equal",
            f"how often {name} does better than each",
            values,
        )


def has_baseline(c: Comparison) -> bool:
    """True if the comparison has a baseline, which then takes the place of the leader."""
    return getattr(c, "baseline", None) is not None


def written(names: list[str], alternative: str) -> list[str]:
    """Names for labels: in one line, not too long, all different, and without mathematics."""
    short = [plain(f"{alternative} {name}" if name.isdigit() else name) for name in names]
    if len(set(short)) < len(short):
        short = [f"{i}: {name}" for i, name in enumerate(short)]
    return short


def plain(name: str, most: int = _LONGEST) -> str:
    """One name for a label: in one line, not too long, without mathematics and characters that cannot be drawn."""
    line = "".join(mark if mark.isprintable() else "\ufffd" for mark in " ".join(name.split()))
    half = most // 2 - 1
    short = line if len(line) <= most else f"{line[:half]} … {line[-half:]}"
    return short.replace("$", r"\$")


def verdict(c: Comparison, labelled: list[str], gaps: list[float], sure: list[bool]) -> str:
    """The answer in one sentence. `labelled` starts with the leader or baseline; gaps are those of the others."""
    leader, others = labelled[0], labelled[1:]
    if c.margin is not None:
        found = [c.not_worse(c.margin, name).verdict for name in c.ranked if name != c.reference]
        said = [f"{name} {_WITHIN[verdict]}" for name, verdict in zip(others, found, strict=True)]
        return f"Beside {leader}, margin {c.margin}: {', '.join(said)}"
    if has_baseline(c):
        return _beside_baseline(leader, others, gaps, sure)
    if c.best is not None:
        return f"{leader} is best"
    if c.outcome is Outcome.GOOD_ENOUGH:
        return f"{leader} is within {c.indifference:g} of the best"
    if not c.summary.decisive(c.samples):
        return f"Not decided, too few {c.wording.run}s; {leader} leads"
    near = [name for name, known in zip(others, sure, strict=True) if not known]
    which = near[0] if len(near) == 1 else f"{len(near)} of the {len(others)} others"
    return f"Not decided: {leader} leads, but {which} may be as good"


_WITHIN = {Verdict.YES: "is not worse", Verdict.NO: "is worse", Verdict.UNKNOWN: "may be worse"}


def _beside_baseline(baseline: str, others: list[str], gaps: list[float], sure: list[bool]) -> str:
    known = [
        f"{name} is {'better' if gap > 0 else 'worse'}"
        for name, gap, decided in zip(others, gaps, sure, strict=True)
        if decided
    ]
    if not known:
        return f"Not decided: none is known to be better or worse than {baseline}"
    return f"Compared with {baseline}: {', '.join(known)}"


def caption(c: Comparison) -> str:
    """Sample size, seed, confidence, coupling, and how the comparison ended."""
    first = sample_size(c), f"seed {c.seed}", confidence(c.confidence, c.summary.return_range is None)
    if not c.simulated:
        return " · ".join([first[0], first[2]])
    second = (
        f"{type(c.summary.coupling).__name__} coupling",
        "stopped: " * (not c.outcome.successful) + c.outcome.name.lower().replace("_", " "),
    )
    return " · ".join(first) + "\n" + " · ".join(second)


_BETTER, _WORSE, _TIE = COLOURS[0], COLOURS[1], GREY
_PARTS = ((_BETTER, "white"), ("#E2E2E2", "black"), ("#F3AC6A", "black"))
"""Fill and text of the parts better, tie and worse: dark, light and medium in grey prints too."""
_FITS = 0.16
"""From this chance on, its percentage fits into its part of the bar."""

_ROW = 0.44
"""Height of a row in inches: two lines of text."""

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


SHARED, INDEPENDENT = ("#A9D3EF", COLOURS[0]), ("#F4F4F4", "#999999")
"""Fill and edge of the bars of standard deviations."""
INDEPENDENT_LABEL = "± 1 std with independent draws (std in brackets)"

_FAR = 1.5
"""An interval that goes farther beyond all bars than their width times this is cut, with an arrow."""

_WIDEST = 1.0
"""The same for bars of independent draws relative to all else, so that they do not compress the rest."""


@dataclass(frozen=True)
class Spread:
    """Mean gap with its interval and both standard deviations."""

    gap: float
    interval: Interval
    std: float
    independent_std: float  # standard deviation with independent draws for each alternative


def draw_bar(
    axes: Axes, y: int, ends: tuple[float, float], limits: tuple[float, float], height: float, colours: tuple[str, str]
) -> bool:
    """A bar, with arrows where it goes beyond the limits. Returns False if there is nothing to show."""
    left, right = max(ends[0], limits[0]), min(ends[1], limits[1])
    if not left < right:
        return False
    axes.barh(
        y, right - left, left=left, height=height, color=colours[0], edgecolor=colours[1], linewidth=0.7,
        zorder=1 - height,
    )  # fmt: skip
    for cut, at, arrow in ((left > ends[0], 0.015, "<"), (right < ends[1], 0.985, ">")):
        if cut:
            axes.plot(at, y, arrow, transform=axes.get_yaxis_transform(), color=GREY, markersize=5, zorder=2)
    return True


def bar_limits(rows: Sequence[Spread]) -> tuple[float, float]:
    """Limits around 0, means, bars and intervals; ends so far away that they would hide the rest are left out."""
    within = _finite([0.0, *(row.gap + side * row.std for row in rows for side in (-1, 0, 1))])
    independent = _finite([row.gap + side * row.independent_std for row in rows for side in (-1, 1)])
    ends = _finite([end for row in rows for end in (row.interval.low, row.interval.high)])
    low, high = min(within + independent), max(within + independent)
    far = _FAR * (high - low) or math.inf
    within += [end for end in ends if low - far <= end <= high + far]
    low, high = min(within), max(within)
    most = _WIDEST * (high - low) or math.inf
    if all(low - most <= end <= high + most for end in independent):
        low, high = min([low, *independent]), max([high, *independent])
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def _finite(values: list[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


@dataclass(frozen=True)
class _Row(Spread):
    """One alternative: gaps are leader less alternative, or alternative less baseline."""

    sure: bool  # it is known to be behind; with a baseline, to be better or worse
    better: Estimate  # chances of the first of the two
    worse: Estimate
    open_until: int | None  # the horizon, if rewards beyond it may decide who is better in any sample

    @property
    def tie(self) -> float:
        left = 1.0 - self.better - self.worse
        return left if left > 1e-12 else 0.0


def comparison_chart(comparison: Comparison | RunComparisons, *, title: str | None = None) -> Figure:
    """Chart of the result of `compare`: one row for each action, the best on top.

    Above, how far an action is behind the leader on average, E[Z(leader)] − E[Z(action)], with its
    interval; filled where the interval excludes 0. The bars are one standard deviation of the gap to each side: the
    inner one with the shared random numbers, the outer one with independent draws, √(Var Z(leader) + Var Z(action)).
    Below, how often the leader does better, equally well and worse with the same random numbers. The whisker on each
    border is the interval of that chance.

    Parameters
    ----------
    comparison
        By `jmdp.compare`, `jmdp.compare_policies` or `jmdp.compare_runs`. A baseline takes the place of the leader, and
        gaps are then those of the others over it, as in the printed table: to the right is better. Several measures
        have a chart each, one below the other.
    title
        Shown above the axes instead of the verdict; above all charts of several measures.
    """
    if not isinstance(comparison, RunComparisons):
        check_drawn("comparison", comparison, Comparison, title)
        figure = empty_figure((WIDTH, _height(comparison)))
        _draw(figure, comparison, title)
        return figure
    check_title(title)
    parts = list(comparison.values())
    heights = [_height(c) for c in parts]
    figure = empty_figure((WIDTH, sum(heights) + 0.4 * (title is not None)))
    if title is not None:
        figure.suptitle(wrapped(title, 40), x=0.01, ha="left", fontsize=13, fontweight="bold")
    panels = figure.subfigures(len(parts), 1, squeeze=False, height_ratios=heights)[:, 0]
    for c, panel in zip(parts, panels, strict=True):
        _draw(panel, c, None)
    return figure


def _height(c: Comparison) -> float:
    return 3.2 + 2 * _ROW * len(c.alternatives)


def _draw(figure: Figure | SubFigure, c: Comparison, title: str | None) -> None:
    """The chart of one comparison."""
    leader = c.reference
    ranked = sorted(c.summary.ranking, key=lambda a: c.alternatives[a] != leader)  # on top, also among equals
    names = dict(zip(c.alternatives, written(c.alternatives, c.summary.labels.kind), strict=True))
    rows = [_row(c, c.alternatives[a]) for a in ranked[1:]]
    said = names[leader] if len(names[leader]) <= 12 else "the baseline" if has_baseline(c) else "the leader"
    words = ChartLabels.of(c, said)
    upper, lower = figure.subplots(2, 1)
    labelled = [names[c.alternatives[a]] for a in ranked]
    answer = title or verdict(c, labelled, [row.gap for row in rows], [row.sure for row in rows])
    if title is None and isinstance(c, RunComparison) and c.measure is not None:
        answer = f"{plain(c.measure)}: {answer}"
    figure.suptitle(wrapped(answer, 46), x=0.01, ha="left", fontsize=11.5, fontweight="bold")
    _draw_gaps(upper, rows, c, words)
    _draw_chances(lower, rows, words, f"{c.wording.run}s")
    upper.set_yticks(range(len(ranked)), labelled, fontsize=SMALL)
    upper.get_yticklabels()[0].set_fontweight("bold")
    lower.set_yticks(range(1, len(ranked)), labelled[1:], fontsize=SMALL)
    for axes in (upper, lower):
        axes.set_ylim(len(ranked) - 0.4, -0.6 if axes is upper else 0.05)
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="x", labelsize=SMALL)
        clear_spines(axes)
        axes.spines["left"].set_visible(False)
    _add_legend(figure, [upper, lower], caption(c))


def _add_legend(figure: Figure | SubFigure, panels: list[Axes], text: str) -> None:
    handles = legend_handles(panels)
    labels = sorted(handles, key=lambda label: not label.startswith("mean"))
    figure.legend([handles[label] for label in labels], labels, loc="outside lower left", frameon=False,
                  fontsize=SMALL, title=text, title_fontsize=SMALL, alignment="left")  # fmt: skip


def _row(c: Comparison, action: str) -> _Row:
    first, second = (action, c.reference) if has_baseline(c) else (c.reference, action)
    labels, samples = c.summary.labels, c.summary.samples
    gap, ahead = c.gap(first, second), c.advantage(first, second)
    pair = c.summary.pair(labels.index(first), labels.index(second))
    interval = ahead.interval
    independent_std = math.sqrt(pair.covariance[0].trace())
    noise = 1e-7 * independent_std + 1e-12 * samples.largest_reward  # what rounding leaves of a variance that is 0
    apart = interval.low > 0 or (has_baseline(c) and interval.high < 0)
    better, worse = c.superiority(first, second), c.superiority(second, first)
    return _Row(
        float(ahead),
        interval,
        gap.std if gap.std > noise else 0.0,
        independent_std if independent_std > noise else 0.0,
        apart and c.summary.decisive(min(c.counts[first], c.counts[second])),
        better,
        worse,
        c.summary.horizon if is_unknown(better) or is_unknown(worse) else None,
    )


def _draw_gaps(axes: Axes, rows: list[_Row], c: Comparison, words: ChartLabels) -> None:
    low, high = bar_limits(rows)
    size = math.floor(math.log10(max(-low, high)))
    power = 0 if -2 <= size <= 4 else 3 * (size // 3)
    scale = 10.0**power
    low, high = low / scale, high / scale
    axes.axvline(0, color="black", linewidth=0.8, zorder=1)
    axes.plot(0, 0, "D", color=_BETTER, markersize=6, zorder=4)
    column = axes.get_yaxis_transform()
    axes.text(1.02, 0, words.top, transform=column, va="center", fontsize=SMALL, fontweight="bold")
    coupling = c.summary.coupling
    for y, row in enumerate(rows, start=1):
        mean, std, independent_std = row.gap / scale, row.std / scale, row.independent_std / scale
        spread = f"std {significant(std, 2)}"
        if not isinstance(coupling, Independent):
            spread += f" ({significant(independent_std, 2)})"
            if draw_bar(axes, y, (mean - independent_std, mean + independent_std), (low, high), 0.62, INDEPENDENT):
                axes.containers[-1].set_label(INDEPENDENT_LABEL)
        if draw_bar(axes, y, (mean - std, mean + std), (low, high), 0.36, SHARED):
            kind = f"± 1 std of the gap, {type(coupling).__name__} coupling"
            axes.containers[-1].set_label(kind if c.simulated else _IN_PAIRS)
        ends = row.interval.low / scale, row.interval.high / scale
        colour, known = (_BETTER, words.sure) if row.sure else ("black", words.not_sure)
        _whisker(axes, y, ends, (low, high), colour)
        axes.plot(mean, y, "o", color=colour, markerfacecolor=colour if row.sure else "white", markersize=5, zorder=4,
                  label=f"mean gap with its interval: {known}")  # fmt: skip
        gap = _with_error(Estimate(mean, *ends))
        axes.text(1.02, y - 0.02, gap, transform=column, va="bottom", fontsize=SMALL)
        axes.text(1.02, y + 0.04, spread, transform=column, va="top", fontsize=SMALL, color="#505050")
    axes.set_xlim(low, high)
    axes.locator_params(axis="x", nbins=5)
    unit = f", × 10{str(power).translate(_RAISED)}" if power else ""
    axes.set_xlabel(f"{words.values}, {words.difference}{unit}", fontsize=SMALL)
    axes.set_title(f"{words.gap}{unit}", loc="left", fontsize=10)


def _whisker(axes: Axes, y: int, ends: tuple[float, float], limits: tuple[float, float], colour: str) -> None:
    """An interval: a line with caps, or with arrows where it goes beyond the limits."""
    width = limits[1] - limits[0]
    cap = 0.015 * width
    inner = max(ends[0], limits[0] + cap), min(ends[1], limits[1] - cap)
    axes.plot(inner, [y, y], color=colour, linewidth=2.2, solid_capstyle="butt", zorder=3)
    if inner[1] - inner[0] < cap:
        return  # the point hides it
    for at, cut, arrow in ((inner[0], ends[0] < limits[0], "<"), (inner[1], ends[1] > limits[1], ">")):
        axes.plot(at, y, arrow if cut else "|", color=colour, markersize=6 if cut else 8, markeredgewidth=1.5, zorder=3)


def _with_error(gap: Estimate) -> str:
    """12.3 ± 0.5. The error is left out where it supports four digits of the value."""
    if not math.isfinite(gap.error):
        return f"{significant(gap, 3)} (no error bound)"
    return typeset(supported(gap, 4))


def _draw_chances(axes: Axes, rows: list[_Row], words: ChartLabels, runs: str) -> None:
    for y, row in enumerate(rows, start=1):
        parts = (float(row.better), row.tie, float(row.worse))
        start, outside = 0.0, []
        for part, (fill, colour), word in zip(parts, _PARTS, ("better", "tie", "worse"), strict=True):
            text = whole_percent(part)
            axes.barh(y, part, left=start, height=0.72, color=fill, edgecolor="white", linewidth=0.8)
            if part >= _FITS:
                axes.text(start + part / 2, y - 0.12, text, ha="center", va="center", color=colour, fontsize=SMALL,
                          fontweight="bold")  # fmt: skip
            elif part > 0:
                outside.append(f"{text} {word}")
            start += part
        if row.open_until is not None:
            outside.append(f"up to step {row.open_until}")
        else:
            _draw_borders(axes, y, row)
        axes.text(1.02, y, "\n".join(outside), va="center", fontsize=SMALL)
    headings = [(0.0, "better", _BETTER, "left"), (1.0, "worse", _WORSE, "right")]
    headings += [(0.5, "tie", _TIE, "center")] if any(row.tie for row in rows) else []
    for x, text, colour, side in headings:
        axes.text(x, 0.3, text, color=colour, ha=side, va="center", fontsize=SMALL, fontweight="bold")
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0%", "25%", "50%", "75%", "100%"])
    axes.set_xlabel(f"share of {runs}", fontsize=SMALL)
    axes.set_title(words.chance, loc="left", fontsize=10)


def _draw_borders(axes: Axes, y: int, row: _Row) -> None:
    """Whiskers on the borders of better and worse; one above the other where they would overlap."""
    borders = [(float(row.better), row.better.low, row.better.high)]
    if row.tie:  # else both are the same
        borders.append((1 - float(row.worse), 1 - row.worse.high, 1 - row.worse.low))
    apart = len(borders) == 1 or borders[0][2] + 0.02 < borders[1][1]
    for (at, low, high), down in zip(borders, (0.2, 0.2) if apart else (0.14, 0.26), strict=False):
        for colour, more in (("white", 1.6), ("black", 0.0)):
            axes.errorbar(at, y + down, xerr=[[max(at - low, 0.0)], [max(high - at, 0.0)]], fmt=".", color=colour,
                          markersize=5 + more, elinewidth=1.2 + more, capsize=2.5 + more / 3, capthick=1.2 + more,
                          clip_on=False, zorder=3 if more else 4,
                          label="_nolegend_" if more else "interval of the chance at this border")  # fmt: skip
