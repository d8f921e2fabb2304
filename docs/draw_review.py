"""Make the page that the front page shows: an episode on a frozen lake that was won by luck.

``python -m docs.draw_review`` writes docs/_static/review.html and docs/images/review.svg.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium
import matplotlib

import jmdp
from benchmarks.provenance import record

HERE = Path(__file__).parent
BEST = [0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]  # the best action in each cell: left, down, right, up
HASTY = [0, 3, 3, 3, 2, 0, 0, 0, 1, 1, 0, 0, 0, 2, 1, 0]  # straight to the goal in cells 4 and 8, past the holes


def main() -> None:
    """Review the episode, and write its page and its figure."""
    env = gymnasium.make("FrozenLake-v1", render_mode="rgb_array")
    review = jmdp.review(
        env,
        HASTY,
        reference=BEST,
        seed=0,
        episode=3,
        discount=0.99,
        method=jmdp.reviews.RolloutValues(1000),
    )
    print(review)
    review.report(HERE / "_static" / "review.html")
    with matplotlib.rc_context({"svg.hashsalt": "jmdp"}):
        review.plot().savefig(HERE / "images" / "review.svg", metadata={"Date": None})
    for path in (HERE / "_static" / "review.html", HERE / "images" / "review.svg"):
        record(path, seeds="0, episode 3")


if __name__ == "__main__":
    main()
