"""Chart of several reviewed episodes: the states in which most is lost, and how much of each return is luck."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate
from jmdp.base.rounding import confidence_percent, plus_minus, significant, typeset
from jmdp.results.text import percent
from jmdp.reviews.reviews import Reviews
from jmdp.show.plots.comparison_chart import plain
from jmdp.show.plots.review_chart import axis_limits, finite_ends, thinned
from jmdp.show.plots.style import COLOURS, GREY, SMALL, WIDTH, check_drawn, clear_spines, new_figure, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
