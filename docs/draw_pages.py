"""Draw the figures of pages by the code on these pages: ``python -m docs.draw_pages [NAME…]``, all by default.

The Python blocks of a page are run up to the one that defines the result of its figure. Some minutes in all.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

import jmdp
from benchmarks.provenance import record

DOCS = Path(__file__).parent

Names = dict[str, Any]


def td_errors(page: Names) -> Any:
    """Learning curves of three seeds, as the page says."""
    method = [jmdp.Incremental(seed=seed, updates=20_000_000) for seed in range(3)]
    return jmdp.plots.td_errors(
        [jmdp.evaluate(page["world"].model, page["policy"], method=each, progress=True) for each in method]
    )


FIGURES: dict[str, tuple[str, str, Callable[[Names], Any], str]] = {
    "comparison": ("simulators.md", "comparison", lambda page: page["comparison"].plot(), "0"),
    "study": ("howto/study.md", "study", lambda page: page["study"].plot(), "0"),
    "td_errors": ("learning.md", "policy", td_errors, "0, 1, 2"),
}
"""By file below docs/images: the page, the name that its code must define, how it is drawn, and seeds."""


def drawn(page: Path, name: str, draw: Callable[[Names], Any]) -> Any:
    """Run the Python blocks of a page until one defines this name, in a temporary folder, and draw there."""
    names: Names = {"__name__": page.stem}
    with tempfile.TemporaryDirectory() as folder:
        before = Path.cwd()
        os.chdir(folder)
        try:
            for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
                exec(compile(block, str(page), "exec"), names)
                if name in names:
                    return draw(names)
        finally:
            os.chdir(before)
    raise SystemExit(f"{page} does not define {name}.")


def main(chosen: list[str]) -> None:
    """Draw the figures."""
    for name in chosen or FIGURES:
        page, result, draw, seeds = FIGURES[name]
        out = DOCS / "images" / f"{name}.svg"
        with matplotlib.rc_context({"svg.hashsalt": "jmdp"}):
            drawn(DOCS / page, result, draw).savefig(out, metadata={"Date": None})
        record(out, seeds=seeds, sources=[DOCS / page])


if __name__ == "__main__":
    main(sys.argv[1:])
