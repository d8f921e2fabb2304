"""Make the page and the figures of "Your own history as luck", with the code of that page.

``python -m docs.draw_history`` writes docs/_static/history_month.html and docs/images/history_….svg.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot as plt

from benchmarks.provenance import record

HERE = Path(__file__).parent
PAGE = HERE / "howto" / "history.md"
MADE_BY = HERE.parent / "examples" / "daily_demand.py"


def names_of_the_page() -> dict[str, Any]:
    """What the code of the page defines."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(compile(block, str(PAGE), "exec", dont_inherit=True), names)
    return names


def drawn_sales(table: Any) -> Any:
    """Units sold on each day, promotion days and days that were sold out, and the reviewed month."""
    figure, axes = plt.subplots(figsize=(7.2, 2.6), layout="constrained")
    days = table.day.astype("datetime64[s]")
    axes.plot(days, table.sold.rolling(7, center=True).mean(), color="#1f4e79", label="mean of a week")
    for column, colour, marker, label in (
        ("promotion", "#c55a11", "^", "promotion"),
        ("stockout", "#7f7f7f", "x", "sold out"),
    ):
        some = table[column] == 1
        axes.plot(days[some], table.sold[some], marker, color=colour, markersize=3.5, label=label)
    axes.axvspan(*(days[table.day == day].iloc[0] for day in ("2025-06-01", "2025-06-30")), color="#dbe5f1", zorder=0)
    axes.set_ylabel("units sold in a day")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", ncols=3, frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    """Run the page, and write its pictures."""
    names = names_of_the_page()
    names["review"].report(HERE / "_static" / "history_month.html")
    with matplotlib.rc_context({"svg.hashsalt": "jmdp"}):
        names["review"].plot().savefig(HERE / "images" / "history_month.svg", metadata={"Date": None})
        names["explanation"].plot().savefig(HERE / "images" / "history_sources.svg", metadata={"Date": None})
        drawn_sales(names["table"]).savefig(HERE / "images" / "history_sales.svg", metadata={"Date": None})
    figures = [f"images/history_{what}.svg" for what in ("month", "sales", "sources")]
    for name in ("_static/history_month.html", *figures):
        record(HERE / name, seeds="0", sources=[MADE_BY, PAGE])


if __name__ == "__main__":
    main()
