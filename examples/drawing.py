"""Run one example and save a chart of its last printed result: ``python -m examples.drawing SCRIPT FILE.svg``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

printed: list[Any] = []


def remember(*values: Any, **settings: Any) -> None:
    """Print as usual, and remember results that can be drawn."""
    printed.extend(value for value in values if hasattr(value, "plot") or hasattr(value, "calibration"))
    print(*values, **settings)


if __name__ == "__main__":
    script, out = sys.argv[1], Path(sys.argv[2])
    runpy.run_path(script, {"print": remember}, run_name="__main__")  # numba does not load if builtins.print is another

    from matplotlib import rc_context

    import jmdp
    from benchmarks.provenance import record

    drawn = [value.plot() if hasattr(value, "plot") else jmdp.plots.calibration_scatter(value.calibration)
             for value in printed[-1:]]  # fmt: skip
    for figure in drawn:
        out.parent.mkdir(exist_ok=True)
        with rc_context({"svg.hashsalt": "jmdp"}):  # equal figures are equal files
            figure.savefig(out, metadata={"Date": None})
        record(out, seeds="0", sources=[Path(script)])
