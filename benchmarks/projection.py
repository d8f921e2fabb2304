"""Error of gap variances of a fit with few linear features in a large world, against the number of features."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

import jmdp
from benchmarks.report import Goal, Report
from jmdp.base.arrays import Floats
from jmdp.methods.linear_projected.features import Polynomial
from jmdp.results.evaluation import Evaluation
from jmdp.show.plots.style import COLOURS, DASHES, clear_spines, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SMALL = 1e-6
"""Gap variances are replaced by at least this fraction of the largest, to avoid division by 0."""

_OWN = 28
"""Number of features of all pairs that the kernel of pairs in one state uses as well."""

_SHORT = 3.0
"""Length in cells of the influence of a wall or of the goal."""


def compare(quick: bool) -> Report:
    """Fit the 40 × 40 windy gridworld, careless policy: polynomials of the cell, and features of walls and goal."""
    report = Report("projection", quick)
    side = 8 if quick else 40
    curves: dict[str, dict[int, float]] = {}
    for blown in (-1.0, 0.0):
        world = jmdp.worlds.windy_gridworld(side, side, blown_reward=blown)
        model, policy = world.model, world.policies["careless"]
        truth = jmdp.evaluate(model, policy, jmdp.Local())
        where = f"being blown {'costs 1' if blown else 'is free'}"
        for kind, own, counts in (
            ("polynomials", False, (0, 1, 2)),
            ("polynomials", True, (0, 1, 2)),
            ("walls and goal", True, (4, 7, 16)),
        ):
            if not (own or blown):
                continue
            for count in counts[:2] if quick else counts:
                if kind == "polynomials":
                    phi = Polynomial(np.indices((side, side)).reshape(2, -1).T, count).matrix(model)
                else:
                    phi = np.asarray(np.kron(walls_and_goal(side, count), np.eye(4)), dtype=np.float64)
                start = time.perf_counter()
                method = jmdp.LinearProjected(phi, phi[:, :_OWN] if own else None)
                result = jmdp.evaluate(model, policy, jmdp.Local(), method=method, throw=False)
                seconds = time.perf_counter() - start
                errors = relative_errors(result, truth)
                name = f"{kind}, {'with' if own else 'without'} a same-state kernel"
                curves.setdefault(f"{where}: {name}", {})[phi.shape[1]] = float(np.median(errors))
                report.rows.append(
                    {
                        "world": where,
                        "features": name,
                        "count": phi.shape[1],
                        "median error": float(np.median(errors)),
                        "90% quantile of the error": float(np.quantile(errors, 0.9)),
                        "κ": float(result.projection.kappa) if result.projection else 0.0,
                        "s": seconds,
                    }
                )
    largest = {name: curve[max(curve)] for name, curve in curves.items()}
    best = min(error for name, error in largest.items() if "costs" in name)
    report.goals.append(Goal.at_most("median relative error of gap variances, at most 64 features", best, 0.1))
    report.notes.append(
        "Errors are those of Var(Z(s, a) − Z(s, b)) over all states and pairs of actions, relative to ExactPairs; "
        f"variances below {_SMALL:g} of the largest are replaced by that value."
    )
    if not quick:
        report.figure = draw(curves)
    return report


def relative_errors(result: Evaluation, truth: Evaluation) -> Floats:
    """Return the relative errors of the variances of all gaps, in nonterminal states."""
    one, other = _gap_variances(result.covariance), _gap_variances(truth.covariance)
    varied = other.max(axis=1) > 0
    return np.asarray(np.abs(one - other)[varied] / np.maximum(other[varied], _SMALL * other.max()))


def _gap_variances(covariance: Floats) -> Floats:
    a, b = np.triu_indices(covariance.shape[1], 1)
    own = np.einsum("saa->sa", covariance)
    return np.asarray(own[:, a] + own[:, b] - 2 * covariance[:, a, b])


def walls_and_goal(side: int, count: int) -> Floats:
    """Return features [S, count ≤ 16], most important first: constant, walls, steps to the goal, and their products."""
    row, column = np.divmod(np.arange(side * side), side)
    left, right = np.exp(-column / _SHORT), np.exp(-(side - 1 - column) / _SHORT)
    top, bottom = np.exp(-row / _SHORT), np.exp(-(side - 1 - row) / _SHORT)
    along = side - 1 - column
    steps = row + along / 0.7  # the wind undoes a step with probability 0.3
    far, near, nearer = (0.95 ** (steps * power) for power in (1, 2, 4))
    columns = [
        np.ones(side * side), far, right, top,
        near, left, bottom,
        right * far, nearer, top * far, right * top,
        (column == side - 1) * 1.0, (row == 0) * 1.0, 0.95 ** (row * 1.0), right**2, (row + along < 3) * 1.0,
    ]  # fmt: skip
    return np.stack(columns[:count], axis=1)


def draw(curves: dict[str, dict[int, float]]) -> Figure:
    """Plot the median error against the number of features, one panel per world."""
    figure, [axes] = new_figure(1, 2, size=(9.0, 3.8))
    names = {"being blown costs 1": axes[0], "being blown is free": axes[1]}
    styles: dict[str, int] = {}
    for name, curve in curves.items():
        where, kind = name.split(": ")
        i = styles.setdefault(kind, len(styles))
        names[where].plot(
            list(curve), list(curve.values()), "o", linestyle=DASHES[i], color=COLOURS[i], label=kind, markersize=4
        )
    for where, panel in names.items():
        panel.axhline(0.1, color="#767676", linewidth=0.8, linestyle=":")
        panel.annotate("10%", (2, 0.1), textcoords="offset points", xytext=(0, 3), color="#767676")
        panel.set_yscale("log")
        panel.set_xlim(0, 66)
        panel.set_xlabel("features φ(s, a)")
        panel.set_title(where[0].upper() + where[1:])
        panel.grid(True, which="major", color="#dddddd", linewidth=0.6)
        clear_spines(panel)
    lines, labels = axes[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8, columnspacing=1.2)
    axes[0].set_ylabel("median relative error of gap variances")
    return figure
