"""Chart of an explanation: the share of the variance of a gap that each source of randomness explains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmdp.base.rounding import confidence_percent
from jmdp.comparisons.explanation import Explanation, share_text
from jmdp.show.plots.comparison_chart import INDEPENDENT, SHARED, plain
from jmdp.show.plots.style import SMALL, WIDTH, check_drawn, clear_spines, new_figure, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def explanation_chart(explanation: Explanation, *, title: str | None = None) -> Figure:
    """Bars of the shares of each source, the largest first: alone, and with interactions; lines are intervals.

    Parameters
    ----------
    explanation
        By `Comparison.explain`.
    title
        Shown above instead of the gap.
    """
    check_drawn("explanation", explanation, Explanation, title)
    rows = [(plain(name), explanation.first_order(name), explanation.total(name)) for name in explanation.sources]
    figure, [[axes]] = new_figure(size=(WIDTH, 1.5 + 0.52 * len(rows)))
    said = f"What explains the variance of {plain(explanation.first)} − {plain(explanation.second)}"
    figure.suptitle(wrapped(title or said, 54), x=0.01, ha="left", fontsize=11.5, fontweight="bold")
    ends = [0.0, 1.0]
    for y, (_, alone, whole) in enumerate(rows):
        for at, share, (fill, edge), words in (
            (y - 0.19, alone, ("#0072B2", SHARED[1]), "on its own"),
            (y + 0.19, whole, INDEPENDENT, "with its interactions"),
        ):
            axes.barh(at, float(share), height=0.34, color=fill, edgecolor=edge, linewidth=0.8,
                      label=words if y == 0 else None)  # fmt: skip
            low, high = (share.low, share.high) if share.has_interval else (float(share),) * 2
            axes.plot([low, high], [at, at], color="black", linewidth=1.3, solid_capstyle="butt")
            axes.text(1.02, at, share_text(share), transform=axes.get_yaxis_transform(), va="center", fontsize=SMALL)
            ends += [max(low, -0.5), min(high, 1.5)]
    axes.set_yticks(range(len(rows)), [wrapped(name, 18) for name, *_ in rows])
    axes.tick_params(axis="y", length=0)
    axes.tick_params(labelsize=SMALL)
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.set_xlim(min(ends) - 0.02 * (min(ends) < 0), max(ends))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("share of the variance of the gap", fontsize=SMALL)
    clear_spines(axes)
    drawn = f"{explanation.samples:,} samples · seed {explanation.seed}" if explanation.samples else "from the table"
    sure = "" if explanation.confidence is None else f" · {confidence_percent(explanation.confidence)} confidence each"
    figure.legend(loc="outside lower left", frameon=False, fontsize=SMALL, alignment="left", ncols=2,
                  title=f"{drawn}{sure}", title_fontsize=SMALL)  # fmt: skip
    return figure
