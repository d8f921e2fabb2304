"""Time of a sweep against the number of states (expected: proportional to S²) and of actions (expected: constant)."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import jmdp
from benchmarks.interleave import Timings, interleave
from benchmarks.problems import neighbour_grid, policy_chain
from benchmarks.report import Goal, Report, agree
from benchmarks.sweep import ROUNDING, difference_between_states
from jmdp.base.arrays import Floats
from jmdp.methods.exact_pairs.pair_sweep import PairSweep
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.shaping import shape_rewards
from jmdp.show.plots.style import COLOURS, DASHES, clear_spines, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LARGE = 1000
"""Number of states from which the start of threads is negligible."""


def compare(quick: bool) -> Report:
    """Time windy gridworlds of growing size, and a torus of one size with growing numbers of actions."""
    report = Report("scaling", quick, seeds="models 0")
    sides = (10, 14, 20) if quick else (10, 18, 32, 56, 100)
    worlds = {side * side: jmdp.worlds.windy_gridworld(side, side, discount=0.99) for side in sides}
    by_states = _times({S: (world.model, world.policies["careless"]) for S, world in worlds.items()})
    side, counts = (10, (2, 4)) if quick else (50, (2, 4, 8, 16, 32))
    grids = {A: neighbour_grid(side, A, 0.99) for A in counts}
    by_actions = _times({A: (model, jmdp.TabularPolicy.uniform(model)) for A, model in grids.items()})

    for S, seconds in by_states.items():
        report.rows.append({"varied": "states", "states": S, "actions": 4, "best sweep, s": seconds})
    for A, seconds in by_actions.items():
        report.rows.append({"varied": "actions", "states": side * side, "actions": A, "best sweep, s": seconds})
    everywhere, _ = _fit(by_states)
    exponent, _ = _fit(_large(by_states))
    flat = max(by_actions.values()) / min(by_actions.values())
    report.goals += [
        Goal("exponent of time in S, all sizes, 2.0 ± 0.1", everywhere, abs(everywhere - 2) <= 0.1),
        Goal("exponent of time in S, at least 10³ states, 2.0 ± 0.1", exponent, abs(exponent - 2) <= 0.1),
        Goal.at_most("longest / shortest time over numbers of actions", flat, 1.1),
    ]
    if not quick:
        report.figure = draw(by_states, by_actions)
    return report


def _times(problems: dict[int, tuple[jmdp.TabularJMDP, jmdp.TabularPolicy]]) -> dict[int, float]:
    """Return the best time of a bare sweep for each problem, timed alternately."""
    with ExitStack() as stack:
        contenders = {}
        for size, (model, policy) in problems.items():
            S = model.shape[0]
            operator = PairOperator(model, policy, jmdp.Local(), shape_rewards(model, policy))
            point, out = operator.start(), operator.start()
            u = np.random.default_rng(0).random(S)
            np.multiply.outer(u, u, out=point.reshape(S, S))
            sweep = stack.enter_context(PairSweep(operator))
            sweep(point, out)
            P, _ = policy_chain(model, policy)
            product = np.asarray(P @ (P @ point.reshape(S, S)).T)
            difference = difference_between_states(sweep.whole(out), product, model.discount)
            agree(f"sweep of size {size}", difference, ROUNDING)
            contenders[str(size)] = partial(sweep, point, out)
        timings: Timings = interleave(contenders)
    return {size: timings.best(str(size)) for size in problems}


def _fit(times: dict[int, float]) -> tuple[float, float]:
    """Return (exponent, factor) of factor × size**exponent, by least squares on logarithms."""
    exponent, height = np.polyfit(np.log(list(times)), np.log(list(times.values())), 1)
    return float(exponent), float(np.exp(height))


def _large(by_states: dict[int, float]) -> dict[int, float]:
    """Return the times with at least 10³ states, but no fewer than the upper half of all sizes."""
    middle = sorted(by_states)[len(by_states) // 2]
    return {S: seconds for S, seconds in by_states.items() if min(middle, _LARGE) <= S}


def draw(by_states: dict[int, float], by_actions: dict[int, float]) -> Figure:
    """Plot both curves on logarithmic axes, with the fitted powers of S."""
    figure, [[left, right]] = new_figure(1, 2, size=(9.0, 3.8))
    left.loglog(list(by_states), list(by_states.values()), "o", color=COLOURS[0], label="measured")
    for i, (what, times) in enumerate({"all sizes": by_states, "≥ 10³ states": _large(by_states)}.items(), start=1):
        exponent, factor = _fit(times)
        sizes: Floats = np.array([min(times), max(times)], dtype=np.float64)
        label = f"fit, {what}: $S^{{{exponent:.2f}}}$"
        left.loglog(sizes, factor * sizes**exponent, color=COLOURS[i], linestyle=DASHES[i], label=label)
    left.set_xlabel("states S")
    left.set_title("Time of a sweep against states")
    shortest = min(by_actions.values())
    right.loglog(list(by_actions), list(by_actions.values()), "o-", color=COLOURS[0], label="measured")
    right.axhline(shortest, color=COLOURS[1], linestyle=DASHES[1], label="shortest")
    right.set_ylim(shortest / 10, shortest * 10)
    right.set_xticks(list(by_actions), [str(A) for A in by_actions])
    right.minorticks_off()
    right.set_xlabel("actions A")
    right.set_title("Time of a sweep against actions")
    for axes in (left, right):
        axes.set_ylabel("seconds per sweep")
        axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
        axes.legend(frameon=False)
        clear_spines(axes)
    return figure
