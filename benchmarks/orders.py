"""Cost of moments of higher orders on state pairs, relative to order 2."""

from __future__ import annotations

from functools import partial

import jmdp
from benchmarks.interleave import interleave
from benchmarks.report import Goal, Report


def compare(quick: bool) -> Report:
    """Evaluate the 30 × 30 windy gridworld with orders 2, 3, 4, 6 and 8."""
    report = Report("orders", quick)
    side = 4 if quick else 30
    world = jmdp.worlds.windy_gridworld(side, side)
    for name in ("goal_directed", "careless"):
        run = partial(jmdp.evaluate, world.model, world.policies[name], jmdp.Local())
        runs = {str(order): partial(run, method=jmdp.ExactPairs(order=order)) for order in (2, 3, 4, 6, 8)}
        timings = interleave(runs)
        for order in runs:
            ratio = timings.best(order) / timings.best("2")
            row: dict[str, str | float | int] = {"policy": name, "order": int(order), "best, s": timings.best(order)}
            report.rows.append(row | {"ratio to order 2": ratio})
            if order == "4":
                report.goals.append(Goal.at_most(f"{name}: order 4 / order 2", ratio, 10.0))
    return report
