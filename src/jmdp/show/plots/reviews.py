"""Charts of reviewed episodes: value and luck of every step, decisions by regret and luck, and several episodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.interval import Estimate
from jmdp.base.rounding import confidence_percent, plus_minus, significant, supported, typeset
from jmdp.results.text import percent
from jmdp.reviews.decision import MISTAKE, NONE, OPEN, UNCLEAR, Decision
from jmdp.reviews.review import Review
from jmdp.reviews.reviews import Reviews
from jmdp.reviews.trajectory import Trajectory
from jmdp.show.plots.comparison_chart import plain
from jmdp.show.plots.style import (
    COLOURS,
    DASHES,
    GREY,
    SMALL,
    WIDTH,
    check_drawn,
    clear_spines,
    new_figure,
    span_row,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MOST_DRAWN = 1000
"""Points of a chart."""


def thinned(importance: Floats) -> Integers:
    """At most `MOST_DRAWN` positions, in order: the most important one of each of as many equal parts."""
    count = len(importance)
    if count <= MOST_DRAWN:
        return np.arange(count)
    borders = np.linspace(0, count, MOST_DRAWN + 1).round().astype(int)
    return np.array([a + int(importance[a:b].argmax()) for a, b in pairwise(borders)])


def axis_limits(values: Floats, margin: float) -> tuple[float, float]:
    """Limits around finite values, also if they are all equal."""
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if high - low <= 1e-9 * max(abs(low), abs(high)) or high - low < 1e-300:
        size = abs(high) if abs(high) > 1e-300 else 1.0
        return low - size / 2, high + size / 2
    return low - margin * (high - low), high + margin * (high - low)


def finite_ends(values: Floats, errors: Floats, most: float = 2.0) -> list[Floats]:
    """Ends of intervals for the limits of an axis, without infinite ones: up to `most` times the values' range."""
    known = np.isfinite(errors)
    if not known.any():
        return []
    spread = float(values.max() - values.min())
    size = spread if spread > 0 else float(np.abs(values).max())
    short = np.minimum(errors[known], most * size if size > 0 else np.inf)
    return [values[known] - short, values[known] + short]


def label_points(axes: Axes, points: Sequence[tuple[float, float, str]], most: int) -> None:
    """Texts beside points, in this order, as far as they do not overlap."""
    placed: list[tuple[float, float]] = []
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    for x, y, text in points:
        at = (x - left) / (right - left), (y - low) / (high - low)
        if len(placed) == most or any(abs(at[0] - a) < 0.09 and abs(at[1] - b) < 0.07 for a, b in placed):
            continue
        placed.append(at)
        inwards = at[0] > 0.9
        axes.annotate(text, (x, y), xytext=(-5 if inwards else 5, 4), textcoords="offset points", fontsize=SMALL,
                      ha="right" if inwards else "left", zorder=5)  # fmt: skip


_GOOD, _BAD = COLOURS[0], COLOURS[1]
_FEW = 30
"""Steps up to which intervals of luck and the points of the line are drawn."""
_CROSSES = 12
"""Steps up to which decisions have their intervals."""
_LABELLED = 3
"""Mistakes whose action is written above the timeline."""
_NUMBERED = 6
"""Decisions whose step is written beside their point."""
_PALE = 0.4
"""Opacity of luck whose interval includes 0."""


def review_chart(review: Review, *, title: str | None = None) -> Figure:
    """Chart of the result of `review`, in two parts.

    Above, the value v(s) of each state and the luck of each step; triangles are mistakes, the worst with step and
    action. Below, each decision by its regret and its luck: on the left those for which no action has a larger value,
    in order of time; on the right the others. A point is filled if the intervals decide whether it is a mistake. Of
    more than 1,000 steps, 1,000 are drawn: those with the largest regret or luck in their part of the episode.

    Parameters
    ----------
    review
        By `jmdp.review`.
    title
        Shown above instead of a summary.
    """
    check_drawn("review", review, Review, title)
    figure, rows = new_figure(3, 2, size=(WIDTH, 7.2))
    grid = rows[0][0].get_gridspec()
    assert grid is not None
    grid.set_height_ratios([1.1, 0.9, 1.9])
    grid.set_width_ratios([1, 2.1])
    value, luck = span_row(rows[0]), span_row(rows[1])
    shown = [review.decisions[i] for i in thinned(_importance(review))]
    figure.suptitle(wrapped(title or summary(review), 54), x=0.01, ha="left", fontsize=11.5, fontweight="bold")
    _draw_values(value, review, shown)
    _draw_luck(luck, review, shown)
    _draw_quadrants(rows[2], review, shown)
    for axes in (value, luck, *rows[2]):
        axes.tick_params(labelsize=SMALL)
        clear_spines(axes)
    figure.legend(handles=_legend(shown), loc="outside lower left", frameon=False, fontsize=SMALL, ncols=2,
                  title=_caption(review, len(shown)), title_fontsize=SMALL, alignment="left", columnspacing=1.2,
                  handletextpad=0.5, handlelength=1.4)  # fmt: skip
    return figure


def summary(review: Review) -> str:
    """Luck and mistakes in a few words."""
    r, wrong = review, sum(one.judgement == MISTAKE for one in review.decisions)
    mistakes = f"{wrong:,} mistake{'s' * (wrong != 1)}" if wrong else "no mistake shown"
    steps = f"{len(r):,} step{'s' * (len(r) != 1)}"
    lucky = (
        f"luck {_signed(r.luck)}" if r.luck.low > 0 or r.luck.high < 0 or not r.luck.has_interval else "luck unclear"
    )
    if all(one.fortune == NONE for one in r.decisions):
        lucky = "nothing random"
    what = f"Episode {r.episode:,}" if r.month is None else r.month.period
    return f"{what}: {lucky}; {mistakes} in {steps}"


def _signed(value: Estimate) -> str:
    text = typeset(supported(value, 2)) if value.has_interval else significant(value, 2)
    return f"{'+' if value > 0 else ''}{text}"


def _caption(r: Review, shown: int) -> str:
    counts = [one.samples for one in r.values[:-1]] or [0]
    if r.exact:
        found = "exact values"
    elif not r.has_intervals:
        found = "values without intervals"
    elif max(counts) <= 1:
        found = "nothing random after the start: exact values"
    else:
        found = (
            f"{max(counts):,} rollouts of each action from each state · {confidence_percent(r.confidence)} confidence"
        )
    drawn = f"{shown:,} of {len(r):,} steps drawn · " if shown < len(r) else ""
    return f"{drawn}{found} · seed {r.seed}"


def _legend(shown: Sequence[Decision]) -> list[Any]:
    """What the colours and points mean, as far as they occur."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    found: list[Any] = []
    for colour, word, good in ((_GOOD, "good luck", True), (_BAD, "bad luck", False)):
        kinds = {one.fortune == UNCLEAR for one in shown if _is_good(one) is good}
        found += [Patch(color=colour, label=word)] if False in kinds else []
        found += [Patch(color=colour, alpha=_PALE, label=f"{word}, unclear", linewidth=0)] if True in kinds else []
    point: dict[str, Any] = {"linestyle": "", "color": "black", "markersize": 5}
    judged = {one.judgement for one in shown}
    if MISTAKE in judged:
        found.append(Line2D([], [], **{**point, "color": _BAD, "markersize": 7}, marker="v", markeredgecolor="black",
                            markeredgewidth=0.6, label="mistake"))  # fmt: skip
    if judged != {OPEN}:
        found.append(Line2D([], [], **point, marker="o", label="decision judged"))
    if OPEN in judged:
        found.append(Line2D([], [], **point, marker="o", markerfacecolor="white", label="mistake or not: undecided"))
    return found


def _importance(r: Review) -> Floats:
    """[T], larger for steps that must be drawn: mistakes first, then by regret and luck relative to their largest."""
    regret, luck = (np.abs([float(getattr(one, name)) for one in r.decisions]) for name in ("regret", "luck"))
    sizes = [part / part.max() if part.max(initial=0.0) > 0 else part for part in (regret, luck)]
    return np.asarray(np.maximum(*sizes) + [one.judgement == MISTAKE for one in r.decisions])


def _draw_values(axes: Axes, r: Review, shown: Sequence[Decision]) -> None:
    values = r.values[:-1] if r.trajectory.terminated else r.values
    steps = np.arange(r.first, r.first + len(values))
    middle, error = (np.array([getattr(one, name) for one in values]) for name in ("value", "value_error"))
    if len(values) > 1 and np.isfinite(error).all():
        axes.fill_between(steps, middle - error, middle + error, color=COLOURS[0], alpha=0.18, linewidth=0)
    axes.plot(steps, middle, color="black", linewidth=1.4, marker="o" if len(values) <= _FEW else None, markersize=3)
    wrong = [one for one in shown if one.judgement == MISTAKE]
    if wrong:
        axes.plot([one.step for one in wrong], [float(one.value) for one in wrong], "v", color=_BAD, markersize=7,
                  markeredgecolor="black", markeredgewidth=0.6, zorder=4)  # fmt: skip
    low, high = axis_limits(np.concatenate([middle, *finite_ends(middle, error)]), 0.08)
    axes.set_ylim(low, high + 0.22 * (high - low))  # room for the labels
    _set_steps(axes, r)
    named = [one for one in r.worst() if one.judgement == MISTAKE][: 4 * _LABELLED]
    _name_mistakes(axes, r, named)
    axes.set_title("value v(s): mean return from each state on", loc="left", fontsize=10)


def _name_mistakes(axes: Axes, r: Review, wrong: Sequence[Decision]) -> None:
    """Step and action of the worst mistakes, as far as there is room for them side by side."""
    low, high = axes.get_xlim()
    taken: list[tuple[float, float]] = []
    for one in wrong:
        text = f"{one.step}: {plain(one.action)}"
        half = min(0.49, 0.5 * 0.0145 * len(text) + 0.01)  # widths of letters, as a share of the axes
        at = min(max((one.step - low) / (high - low), half), 1 - half)
        if len(taken) == _LABELLED or any(at - half < end and at + half > start for start, end in taken):
            continue
        taken.append((at - half, at + half))
        axes.text(at, 0.99, text, transform=axes.transAxes, ha="center", va="top", fontsize=SMALL, color="#98410A")
        axes.plot([one.step] * 2, [float(one.value), _height(axes, 0.86)], color=_BAD, linewidth=0.8, zorder=1)


def _height(axes: Axes, share: float) -> float:
    low, high = axes.get_ylim()
    return low + share * (high - low)


def _set_steps(axes: Axes, r: Review) -> None:
    axes.set_xlim(r.first - 0.6, r.first + len(r) - 0.4 + (not r.trajectory.terminated))
    axes.locator_params(axis="x", integer=True, nbins=8, min_n_ticks=1)
    axes.locator_params(axis="y", nbins=4)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")


def _draw_luck(axes: Axes, r: Review, shown: Sequence[Decision]) -> None:
    axes.axhline(0, color="black", linewidth=0.8)
    width = min(30.0, max(0.7, 280 / max(1, len(r))))  # points: the axes are about 350 wide
    for colour, good in ((_GOOD, True), (_BAD, False)):
        for pale in (False, True):
            bars = [one for one in shown if _is_good(one) is good and (one.fortune == UNCLEAR) == pale]
            if bars:
                axes.vlines([one.step for one in bars], 0, [_luck(one) for one in bars], color=colour,
                            linewidth=width, alpha=_PALE if pale else 1.0)  # fmt: skip
    luck, error = _lucks(shown)
    if not luck.any():
        axes.text(0.5, 0.62, "nothing is random" if not error.any() else "no luck", transform=axes.transAxes,
                  ha="center", fontsize=SMALL, color=GREY)  # fmt: skip
    ends: list[Floats] = []
    if len(shown) <= _FEW:
        _whiskers(axes, np.array([one.step for one in shown], float), luck, error)
        ends = finite_ends(luck, error)
    axes.set_ylim(axis_limits(np.concatenate([luck, [0.0], *ends]), 0.08))
    _set_steps(axes, r)
    axes.set_title("luck of each step", loc="left", fontsize=10)
    axes.set_xlabel("step", fontsize=SMALL)


def _whiskers(axes: Axes, x: Floats, y: Floats, error: Floats) -> None:
    known = np.isfinite(error)
    axes.vlines(x[known], (y - error)[known], (y + error)[known], color="black", linewidth=0.8, alpha=0.5, zorder=3)


def _draw_quadrants(pair: Sequence[Axes], r: Review, shown: Sequence[Decision]) -> None:
    left, right = pair
    best = [one for one in shown if float(one.regret) == 0]
    other = [one for one in shown if float(one.regret) > 0]
    order = [one.step for one in best]
    start, width = r.first, max(1, len(r))
    _points(left, [(step - start + 0.5) / width for step in order], best, intervals=False)
    _points(right, [float(one.regret) for one in other], other, intervals=len(shown) <= _CROSSES)
    luck, error = _lucks(shown)
    ends = finite_ends(luck, error) if len(shown) <= _CROSSES else []
    low, high = axis_limits(np.concatenate([luck, [0.0], *ends]), 0.1)
    size = max(high, -low)  # 0 in the middle: the quadrants are of equal size
    for axes in pair:
        axes.set_ylim(-1.55 * size, 1.55 * size)
        axes.axhline(0, color="black", linewidth=0.8, zorder=1)
        axes.locator_params(axis="y", nbins=5)
    left.set_xlim(-0.06, 1.06)
    left.set_xticks([])
    left.set_xlabel("regret 0,\nin order of time", fontsize=SMALL)
    left.set_ylabel("luck of the step", fontsize=SMALL)
    regret = np.array([0.0, *(float(one.regret) for one in other)])
    above = np.array([0.0, *(one.regret.high - float(one.regret) for one in other)])
    ends = finite_ends(regret, above, 1.0) if len(shown) <= _CROSSES else []
    _, most = axis_limits(np.concatenate([regret, *ends]), 0.12)
    right.set_xlim(0, most)
    right.locator_params(axis="x", nbins=5)
    right.set_yticklabels([])
    right.set_xlabel("regret: lost on average", fontsize=SMALL)
    for axes, decided in ((left, "right decision"), (right, "mistake")):
        _name_quadrants(axes, decided)
    if not other:
        right.text(0.5, 0.62, "no decision has a regret", transform=right.transAxes, ha="center", fontsize=SMALL,
                   color=GREY)  # fmt: skip
    label_points(right, [(float(one.regret), _luck(one), f"{one.step}") for one in r.worst() if one in other],
                 _NUMBERED)  # fmt: skip


def _luck(one: Decision) -> float:
    """Luck without the rounding errors of outcomes that are certain."""
    return 0.0 if one.fortune == NONE else float(one.luck)


def _lucks(shown: Sequence[Decision]) -> tuple[Floats, Floats]:
    """Luck and its errors."""
    errors = [0.0 if one.fortune == NONE else one.luck.error for one in shown]
    return np.array([_luck(one) for one in shown]), np.array(errors)


def _name_quadrants(axes: Axes, decided: str) -> None:
    for height, luck, side in ((0.99, "good", "top"), (0.01, "bad", "bottom")):
        axes.text(0.99, height, f"{decided},\n{luck} luck", transform=axes.transAxes, ha="right", va=side,
                  fontsize=SMALL, color="#505050", fontstyle="italic", zorder=0)  # fmt: skip


def _points(axes: Axes, x: Sequence[float], decisions: Sequence[Decision], *, intervals: bool) -> None:
    """A point for each decision, coloured by its luck; filled if it is known whether it is a mistake."""
    for colour, good in ((_GOOD, True), (_BAD, False), (GREY, None)):
        for hollow in (False, True):
            found = [
                (at, one)
                for at, one in zip(x, decisions, strict=True)
                if _is_good(one) is good and (one.judgement == OPEN) == hollow
            ]
            if found:
                axes.plot([at for at, _ in found], [_luck(one) for _, one in found], "o", color=colour,
                          markersize=5 if len(decisions) <= 200 else 3, markeredgewidth=1.1, zorder=3,
                          markerfacecolor="white" if hollow else colour)  # fmt: skip
    if intervals:
        for at, one in zip(x, decisions, strict=True):
            _cross(axes, at, one)


def _is_good(one: Decision) -> bool | None:
    return None if _luck(one) == 0 else _luck(one) > 0


def _cross(axes: Axes, x: float, one: Decision) -> None:
    """Intervals of the regret and the luck of a decision."""
    line: dict[str, Any] = {"color": "black", "linewidth": 0.6, "alpha": 0.35, "zorder": 2}
    regret: Estimate = one.regret
    if math.isfinite(regret.high):
        axes.plot([regret.low, regret.high], [_luck(one)] * 2, **line)
    if one.fortune != NONE and math.isfinite(one.luck.error):
        axes.plot([x] * 2, [one.luck.low, one.luck.high], **line)


def futures_chart(futures: Mapping[str, Trajectory], discount: float) -> Figure:
    """Sums of the rewards from the first step on, discounted to it, of trajectories by name."""
    figure, [[axes]] = new_figure(size=(WIDTH, 2.6))
    for (name, one), colour, dash in zip(futures.items(), COLOURS, DASHES, strict=False):
        weights = discount ** np.arange(len(one))
        sums = np.concatenate([[0.0], np.cumsum(weights * one.rewards)])
        at = one.first + np.arange(len(sums))
        end = "ends" if one.terminated else "goes on"
        axes.step(at, sums, where="post", color=colour, linestyle=dash, linewidth=1.8, label=f"{plain(name)}, {end}")
        axes.plot(at[-1], sums[-1], "o" if one.terminated else ">", color=colour, markersize=6)
    axes.set_title("earned since the decision" + (", discounted" if discount < 1 else ""), loc="left", fontsize=10)
    axes.set_xlabel("before step", fontsize=SMALL)
    axes.margins(y=0.15)
    axes.locator_params(axis="x", integer=True, nbins=8, min_n_ticks=1)
    axes.tick_params(labelsize=SMALL)
    clear_spines(axes)
    figure.legend(loc="outside lower left", frameon=False, fontsize=SMALL, ncols=2)
    return figure


_MOST_STATES = 10


def reviews_chart(reviews: Reviews, *, title: str | None = None) -> Figure:
    """Chart of the reviews of several episodes.

    Above, the states in which most is lost: regret per episode, with its interval; at most ten. Below, each episode by
    the luck in it and its return. Were luck the only difference between the episodes, all points would be on the line.
    Of more than 1,000 episodes, 1,000 are drawn.

    Parameters
    ----------
    reviews
        By `jmdp.review` with ``episodes``.
    title
        Shown above instead of a summary.
    """
    check_drawn("reviews", reviews, Reviews, title)
    rows = [row for row in reviews.rows() if float(row["regret per episode"]) > 0]
    shown = rows[:_MOST_STATES]
    figure, [[states], [returns]] = new_figure(2, 1, size=(WIDTH, 4.7 + 0.27 * max(2, len(shown))))
    grid = states.get_gridspec()
    assert grid is not None
    grid.set_height_ratios([0.7 + 0.27 * max(2, len(shown)), 3.3])
    figure.suptitle(wrapped(title or _summary(reviews), 54), x=0.01, ha="left", fontsize=11.5, fontweight="bold")
    names = [plain(row["state"]) or "states without a label" for row in shown]
    _draw_states(states, names, [row["regret per episode"] for row in shown], len(rows))
    drawn = _draw_returns(returns, reviews)
    for axes in (states, returns):
        axes.tick_params(labelsize=SMALL)
        clear_spines(axes)
    r = reviews.first
    kept = f"{drawn:,} of {len(reviews):,} episodes drawn" if drawn < len(reviews) else f"{len(reviews):,} episodes"
    figure.legend(loc="outside lower left", frameon=False, fontsize=SMALL, alignment="left", title_fontsize=SMALL,
                  title=f"{kept} · seed {r.seed} · {confidence_percent(r.confidence)} confidence, large-sample",
                  )  # fmt: skip
    return figure


def _summary(reviews: Reviews) -> str:
    share = reviews.shares["luck"]
    spread = "all returns are equal" if math.isnan(share) else f"luck is {percent(share)} of the variance of returns"
    return f"{len(reviews):,} episodes: {typeset(spread)}"


def _draw_states(axes: Axes, names: list[str], lost: list[Estimate], states: int) -> None:
    more = f": the worst {len(lost)} of {states:,} states" if states > len(lost) else ""
    axes.set_title(f"regret per episode{more}", loc="left", fontsize=10)
    if not lost:
        axes.text(0.5, 0.5, "no decision has a regret", transform=axes.transAxes, ha="center", va="center",
                  fontsize=SMALL, color=GREY)  # fmt: skip
        axes.set_xticks([])
        axes.set_yticks([])
        return
    size, error = np.array([float(one) for one in lost]), np.array([one.error for one in lost])
    at = np.arange(len(lost))
    axes.barh(at, size, height=0.62, color=COLOURS[1])
    ends = finite_ends(np.append(size, 0.0), np.append(error, 0.0))
    _, most = axis_limits(np.concatenate([size, [0.0], *ends]), 0.03)
    for y, one in enumerate(lost):
        if math.isfinite(one.error):
            axes.plot([max(0.0, one.low), one.high], [y, y], color="black", linewidth=1.4, solid_capstyle="butt")
    column = axes.get_yaxis_transform()
    for y, one in enumerate(lost):
        axes.text(1.02, y, _with_error(one), transform=column, va="center", fontsize=SMALL)
    axes.set_yticks(at, names)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, most)
    axes.set_ylim(len(lost) - 0.4, -0.6)
    axes.locator_params(axis="x", nbins=5)


def _with_error(one: Estimate) -> str:
    return typeset(plus_minus(one)) if math.isfinite(one.error) else significant(one, 3)


def _draw_returns(axes: Axes, reviews: Reviews) -> int:
    """Draw the episodes, and return how many."""
    luck, total = (np.array([float(getattr(one, part)) for one in reviews]) for part in ("luck", "total"))
    at = thinned(np.abs(luck - luck.mean()))
    _draw_line(axes, luck, total)
    axes.plot(luck[at], total[at], "o", color=COLOURS[0], alpha=0.75 if len(at) <= 100 else 0.4, markeredgewidth=0,
              markersize=5 if len(at) <= 200 else 3.5, label="an episode", zorder=3)  # fmt: skip
    axes.axvline(0, color="black", linewidth=0.8, zorder=1)
    axes.set_xlim(axis_limits(np.append(luck, 0.0), 0.06))
    axes.set_ylim(axis_limits(total, 0.08))
    axes.locator_params(nbins=6)
    axes.set_xlabel("luck in the episode: bad on the left, good on the right", fontsize=SMALL)
    axes.set_title("return of each episode, by its luck", loc="left", fontsize=10)
    return len(at)


def _draw_line(axes: Axes, luck: Floats, total: Floats) -> None:
    """The mean return without luck, plus the luck."""
    ends = np.array(axis_limits(np.append(luck, 0.0), 0.06))
    axes.plot(ends, ends + float((total - luck).mean()), color=COLOURS[1], linestyle="--", linewidth=1.4, zorder=2,
              label="luck alone: the mean without luck, plus luck")  # fmt: skip
