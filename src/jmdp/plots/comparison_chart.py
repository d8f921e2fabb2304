"""Chart of a comparison: mean gap of each alternative to the leader, and probabilities of better, tie and worse."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jmdp.base.interval import ANYWHERE, Estimate, Interval
from jmdp.base.rounding import percentages, plus_minus, significant, typeset
from jmdp.models.coupling import Independent
from jmdp.plots.style import COLOURS, GREY, clear_spines, new_figure
from jmdp.results.anytime import ENOUGH
from jmdp.results.outcome import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jmdp.results.comparison import Comparison

_BETTER, _WORSE, _TIE = COLOURS[0], COLOURS[1], GREY
_SHARED, _INDEPENDENT = "#A9D3EF", "#E4E4E4"

_FITS = 0.11
"""Smallest probability whose percentage fits into its part of the bar."""

_LONGEST = 24
"""Longest name; longer ones are abbreviated in the middle."""

_FAR = 1.5
"""An interval that extends beyond all bars by more than this multiple of their width is cut, with an arrow."""

_WIDEST = 1.0
"""The same for bars of independent sampling, relative to everything else, so that the rest stays readable."""

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class _Row:
    """Numbers of one alternative: gaps are leader minus alternative, or alternative minus baseline."""

    gap: float
    interval: Interval
    sure: bool  # whether it is known to be behind; with a baseline: to be better or worse
    std: float
    independent_std: float  # standard deviation of the gap under independent sampling
    better: Estimate  # probabilities for the first of the two
    worse: Estimate

    @property
    def tie(self) -> float:
        left = 1.0 - self.better - self.worse
        return left if left > 1e-12 else 0.0


@dataclass(frozen=True)
class _Words:
    """Texts of the chart, relative to the leader or to a baseline."""

    top: str
    gap: str
    difference: str
    sure: str
    chance: str
    better: str
    worse: str

    @classmethod
    def of(cls, c: Comparison, name: str) -> _Words:
        if _has_baseline(c):
            return cls(
                "baseline",
                f"gain over {name}",
                f"of the {c.alternative} less that of {name}",
                "known to be better or worse",
                f"how often each does better than {name}",
                f"better than {name}",
                f"worse than {name}",
            )
        return cls(
            "leader",
            f"behind {name} by",
            f"of {name} less that of the {c.alternative}",
            "surely behind",
            f"how often {name} does better",
            f"{name} better",
            f"{name} worse",
        )


def _has_baseline(c: Comparison) -> bool:
    return getattr(c, "baseline", None) is not None


def comparison_chart(comparison: Comparison, *, title: str | None = None) -> Figure:
    """Plot the result of a comparison, one row per action, the best on top.

    The left panel shows the mean gap to the leader, E[Z(leader)] − E[Z(action)], with its anytime-valid interval; the
    marker is blue and filled if the leader is better with the stated confidence. The broad bars are one standard
    deviation of the gap to each side: under the shared randomness, and √(Var Z(leader) + Var Z(action)), its value
    under independent sampling. The right panel shows how often the leader does better, equally well and worse under
    the same randomness, with the intervals of the probabilities of better and worse below the bar.

    Parameters
    ----------
    comparison
        By `jmdp.compare` or `jmdp.compare_policies`. A baseline replaces the leader, and gaps are then policy
        minus baseline, as in the printed table: larger is better.
    title
        Title of the figure, instead of the verdict.
    """
    c, leader = comparison, comparison.reference
    ranked = sorted(range(len(c.actions)), key=lambda a: -float(c.evaluation.mean[0, a]))
    ranked.sort(key=lambda a: c.actions[a] != leader)  # the reference first, also among equal means
    names = dict(zip(c.actions, _written(c.actions, c.alternative), strict=True))
    rows = [_row(c, c.actions[a]) for a in ranked[1:]]
    said = names[leader] if len(names[leader]) <= 12 else "the baseline" if _has_baseline(c) else "the leader"
    words = _Words.of(c, said)
    figure, [[left, right]] = new_figure(1, 2, size=(10.0, 2.2 + 0.42 * len(ranked)))
    labelled = [names[c.actions[a]] for a in ranked]
    figure.suptitle(title or _verdict(c, labelled, rows), x=0.01, ha="left", fontsize=12, fontweight="bold")
    _draw_gaps(left, rows, c, words)
    _draw_chances(right, rows, words, type(c.evaluation.coupling).__name__)
    left.set_yticks(range(len(ranked)), labelled)
    left.get_yticklabels()[0].set_fontweight("bold")
    right.set_yticks([])
    for axes in (left, right):
        axes.set_ylim(len(ranked) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        clear_spines(axes)
        axes.spines["left"].set_visible(False)
    parts = [axes.get_legend_handles_labels() for axes in (left, right)]
    handles, labels = [*parts[0][0], *parts[1][0]], [*parts[0][1], *parts[1][1]]
    order = sorted(range(len(labels)), key=lambda i: not labels[i].startswith("mean"))
    figure.legend([handles[i] for i in order], [labels[i] for i in order], loc="outside lower left",
                  ncols=(len(labels) + 1) // 2, frameon=False, fontsize=8, title=_caption(c), title_fontsize=8.5,
                  alignment="left")  # fmt: skip
    return figure


def _row(c: Comparison, action: str) -> _Row:
    first, second = (action, c.reference) if _has_baseline(c) else (c.reference, action)
    gap, labels, covariance = c.gap(first, second), c.evaluation.actions, c.evaluation.covariance[0]
    a, b = labels.index(first), labels.index(second)
    interval = ANYWHERE if gap.mean_interval is None else gap.mean_interval
    independent_std = math.sqrt(covariance[a, a] + covariance[b, b])
    noise = 1e-7 * independent_std + 1e-12 * c.draws.largest_reward  # rounding error of a variance that is 0
    apart = interval.low > 0 or (_has_baseline(c) and interval.high < 0)
    return _Row(
        gap.mean,
        interval,
        apart and (c.bounded is not None or c.samples >= ENOUGH),
        gap.std if gap.std > noise else 0.0,
        independent_std if independent_std > noise else 0.0,
        c.superiority(first, second),
        c.superiority(second, first),
    )


def _written(names: list[str], alternative: str) -> list[str]:
    """Return the names as labels: on one line, abbreviated, unique, and with $ escaped."""
    lines = [f"{alternative} {name}" if name.isdigit() else " ".join(name.split()) for name in names]
    half = _LONGEST // 2 - 1
    short = [line if len(line) <= _LONGEST else f"{line[:half]} … {line[-half:]}" for line in lines]
    if len(set(short)) < len(short):
        short = [f"{i}: {name}" for i, name in enumerate(short)]
    return [name.replace("$", r"\$") for name in short]


def _verdict(c: Comparison, labelled: list[str], rows: list[_Row]) -> str:
    leader, others = labelled[0], labelled[1:]
    if _has_baseline(c):
        return _beside_baseline(leader, others, rows)
    if c.best is not None:
        return f"{leader} is best"
    if c.samples < ENOUGH:
        return f"Not decided, too few {c.run}s; {leader} leads"
    near = [name for name, row in zip(others, rows, strict=True) if not row.sure]
    which = near[0] if len(near) == 1 else f"{len(near)} of the {len(others)} others"
    return f"Not decided: {leader} leads, but {which} may be as good"


def _beside_baseline(baseline: str, others: list[str], rows: list[_Row]) -> str:
    """Return the title: which policies are better or worse than the baseline."""
    words = [
        f"{name} is {'better' if row.gap > 0 else 'worse'}" if row.sure else ""
        for name, row in zip(others, rows, strict=True)
    ]
    known = [word for word in words if word]
    if not known:
        return f"Not decided: none is known to be better or worse than {baseline}"
    return f"Beside {baseline}: {', '.join(known)}"


def _caption(c: Comparison) -> str:
    return " · ".join(
        (
            f"n = {c.samples:,} {c.run}s of each {c.alternative}",
            f"seed {c.seed}",
            f"{100 * c.confidence:g}% confidence{', large-sample' if c.bounded is None else ''}",
            f"{type(c.evaluation.coupling).__name__} luck",
            "decided" if c.best is not None or c.outcome is Outcome.BASELINE_COMPARED else "not decided",
            f"ended: {c.outcome.name.lower().replace('_', ' ')}",
        )
    )


def _draw_gaps(axes: Axes, rows: list[_Row], c: Comparison, words: _Words) -> None:
    low, high = _limits(rows)
    size = math.floor(math.log10(max(-low, high)))
    power = 0 if -2 <= size <= 4 else 3 * (size // 3)
    scale = 10.0**power
    low, high = low / scale, high / scale
    axes.axvline(0, color="black", linewidth=0.8, zorder=1)
    axes.plot(0, 0, "D", color=_BETTER, markersize=6, zorder=4)
    column = axes.get_yaxis_transform()
    axes.text(1.02, 0, words.top, transform=column, va="center", fontsize=9, fontweight="bold")
    luck, label = c.evaluation.coupling, _Once()
    own, shared = "± 1 std of a gap if each had its own luck", f"± 1 std of a gap, {type(luck).__name__} luck"
    for y, row in enumerate(rows, start=1):
        mean, std, independent_std = row.gap / scale, row.std / scale, row.independent_std / scale
        spread = f"std {significant(std, 2)}"
        if not isinstance(luck, Independent):
            spread += f", own luck {significant(independent_std, 2)}"
            if _bar(axes, y, (mean - independent_std, mean + independent_std), (low, high), 0.62, _INDEPENDENT):
                axes.containers[-1].set_label(label(own))
        if _bar(axes, y, (mean - std, mean + std), (low, high), 0.36, _SHARED):
            axes.containers[-1].set_label(label(shared))
        ends = row.interval.low / scale, row.interval.high / scale
        colour, surely = (_BETTER, words.sure) if row.sure else ("black", f"not {words.sure}")
        _whisker(axes, y, ends, (low, high), colour)
        axes.plot(mean, y, "o", color=colour, markerfacecolor=colour if row.sure else "white", markersize=5, zorder=4,
                  label=label(f"mean gap and its interval, {surely}"))  # fmt: skip
        gap = _with_error(Estimate(mean, *ends))
        axes.text(1.02, y - 0.02, gap, transform=column, va="bottom", fontsize=9)
        axes.text(1.02, y + 0.06, spread, transform=column, va="top", fontsize=7, color="#505050")
    axes.set_xlim(low, high)
    axes.locator_params(axis="x", nbins=6)
    returns = "return" if c.discount == 1 else "discounted return"
    unit = f", × 10{str(power).translate(_RAISED)}" if power else ""
    axes.set_xlabel(f"{returns} {words.difference}{unit}", fontsize=9)
    axes.set_title(f"{words.gap}{unit}", loc="left", fontsize=10)


def _bar(
    axes: Axes, y: int, ends: tuple[float, float], limits: tuple[float, float], height: float, colour: str
) -> bool:
    """Draw a bar, with arrows where it exceeds the limits; return whether any of it is visible."""
    left, right = max(ends[0], limits[0]), min(ends[1], limits[1])
    if not left < right:
        return False
    axes.barh(y, right - left, left=left, height=height, color=colour, zorder=1 - height)
    for cut, at, arrow in ((left > ends[0], 0.015, "<"), (right < ends[1], 0.985, ">")):
        if cut:
            axes.plot(at, y, arrow, transform=axes.get_yaxis_transform(), color=GREY, markersize=5, zorder=2)
    return True


def _whisker(axes: Axes, y: int, ends: tuple[float, float], limits: tuple[float, float], colour: str) -> None:
    """Draw an interval: a line with caps, or with arrows where it exceeds the limits."""
    width = limits[1] - limits[0]
    cap = 0.015 * width
    inner = max(ends[0], limits[0] + cap), min(ends[1], limits[1] - cap)
    axes.plot(inner, [y, y], color=colour, linewidth=2.2, solid_capstyle="butt", zorder=3)
    if inner[1] - inner[0] < cap:
        return  # the marker covers it
    for at, cut, arrow in ((inner[0], ends[0] < limits[0], "<"), (inner[1], ends[1] > limits[1], ">")):
        axes.plot(at, y, arrow if cut else "|", color=colour, markersize=6 if cut else 8, markeredgewidth=1.5, zorder=3)


class _Once:
    """Legend labels, each returned the first time only."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, text: str) -> str:
        if text in self._seen:
            return "_nolegend_"
        self._seen.add(text)
        return text


def _limits(rows: list[_Row]) -> tuple[float, float]:
    """Return axis limits around 0, means, bars and intervals, except for those that are too wide."""
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


def _with_error(gap: Estimate) -> str:
    """Return e.g. ``12.3 ± 0.5``, without the error if it is below the fourth digit of the value."""
    if not math.isfinite(gap.error):
        return f"{significant(gap, 3)} ± ∞"
    if gap.error < 5e-5 * abs(gap) or gap.error == 0:
        return significant(gap, 4)
    return typeset(plus_minus(gap))


def _draw_chances(axes: Axes, rows: list[_Row], words: _Words, luck: str) -> None:
    label = _Once()
    for y, row in enumerate(rows, start=1):
        parts = (float(row.better), row.tie, float(row.worse))
        start, outside = 0.0, []
        for part, text, colour, word in zip(parts, percentages(parts), (_BETTER, _TIE, _WORSE),
                                            ("better", "tie", "worse"), strict=True):  # fmt: skip
            axes.barh(y, part, left=start, height=0.56, color=colour)
            if part >= _FITS:
                axes.text(start + part / 2, y, text, ha="center", va="center", color="white", fontsize=9,
                          fontweight="bold")  # fmt: skip
            elif part > 0:
                outside.append(f"{text} {word}")
            start += part
        axes.text(1.02, y, "\n".join(outside), va="center", fontsize=8)
        axes.plot([row.better.low, row.better.high], [y + 0.35] * 2, color=_BETTER, linewidth=1.5,
                  solid_capstyle="butt", label=label("interval of a chance"))  # fmt: skip
        if row.tie:  # without ties the two intervals coincide
            axes.plot([1 - row.worse.high, 1 - row.worse.low], [y + 0.42] * 2, color=_WORSE, linewidth=1.5,
                      solid_capstyle="butt")  # fmt: skip
    headings = [(0.0, words.better, _BETTER, "left"), (1.0, words.worse, _WORSE, "right")]
    headings += [(0.5, "tie", _TIE, "center")] if any(row.tie for row in rows) else []
    for x, text, colour, side in headings:
        axes.text(x, 0.1, text, color=colour, ha=side, va="center", fontsize=9, fontweight="bold")
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0%", "25%", "50%", "75%", "100%"])
    axes.set_xlabel(f"of all outcomes, {luck} luck", fontsize=9)
    axes.set_title(words.chance, loc="left", fontsize=10)
