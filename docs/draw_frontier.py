"""Draw the figure of the page on control: ``python -m docs.draw_frontier`` writes docs/images/frontier.svg."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

import jmdp
from benchmarks.provenance import record

OUT = Path(__file__).parent / "images" / "frontier.svg"


def main() -> None:
    """Compute the frontier of an inventory of 10 over 20 days, also with a demand that is 15% higher."""
    world, busier = jmdp.worlds.inventory(10), jmdp.worlds.inventory(10, mean_demand=3.45)
    found = jmdp.frontier(
        world.model, world.policies["base_stock"], horizon=20, terminal_value=2.0 * np.arange(11), discount=1.0,
        starts=world.start, under=busier.model,
    )  # fmt: skip
    print(found)
    with matplotlib.rc_context({"svg.hashsalt": "jmdp"}):
        found.plot().savefig(OUT, metadata={"Date": None})
    record(OUT)


if __name__ == "__main__":
    main()
