"""Episodes needed to compare two policies: unpaired, with the same seed per reset, and with shared randomness."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import jmdp
from benchmarks.policy_tasks import Task, tasks
from benchmarks.report import Goal, Report, Row, agree
from benchmarks.running import Parts
from jmdp.base.arrays import Floats
from jmdp.models.coupling import Coupling
from jmdp.show.plots.style import COLOURS, GREY, clear_spines, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RESAMPLES = 1000
_ENOUGH = 64
"""Minimum number of episodes for a comparison of means."""

_OTHER_SEEDS = 10**6
"""Offset of the seeds of unpaired episodes from those of paired ones."""


@dataclass(frozen=True)
class Gain:
    """(Var Z_old + Var Z_new) / variance of the paired gap: factor by which independent runs need more episodes."""

    median: float  # over seeds
    low: float
    high: float  # low and high: 95% bootstrap interval of the median

    @classmethod
    def of(cls, runs: list[Floats], rng: np.random.Generator) -> Gain:
        """Estimate the gain from the returns [n, 2] of each seed."""

        def median(sampled: list[Floats]) -> float:
            return float(np.median([_gain(returns) for returns in sampled]))

        again = [median([run[rng.integers(0, len(run), len(run))] for run in runs]) for _ in range(_RESAMPLES)]
        return cls(median(runs), *np.quantile(again, [0.025, 0.975], method="inverted_cdf").tolist())

    def interval(self) -> str:
        """Return the interval as text."""
        return f"{self.low:.3g} to {self.high:.3g}"


class Gains(NamedTuple):
    """Gains of a task."""

    kind: str
    same_seed: Gain
    shared: Gain


def compare(quick: bool, parts: Parts) -> Report:
    """Measure gains in twelve tasks with two policies each, and the episodes that `compare_policies` needs."""
    report = Report("policies", quick, seeds="0 to 4 (bootstrap: 0)")
    seeds = 1 if quick else 5
    gains: dict[str, Gains] = {}
    worst = 0.0
    for name, row, found in _all_tasks(quick, seeds, parts):
        gains[name] = found
        worst = max(worst, 1 / found.shared.median)
        report.rows.append(row)
    operations = [found.shared.median for found in gains.values() if found.kind == "operations"]
    report.goals += [
        Goal.at_least("operations, shared randomness: gain, median of three tasks", float(np.median(operations)), 5.0),
        Goal.at_most("all tasks, shared randomness: episodes / those of independent runs, worst", worst, 1.05),
    ]
    report.notes += [
        f"Gains are variance ratios (Var old + Var new)/Var(new − old): for the same standard error of the mean gap, "
        f"independent runs need this factor more episodes. Medians over seeds 0 to {seeds - 1}, with the listed number "
        f"of episodes per policy, and 95% bootstrap intervals ({_RESAMPLES} resamples within each "
        "seed). Same seed: `env.reset(seed=i)` before episode i of either policy, then the environment's own "
        "generator. Shared randomness: `jmdp.compare_policies`, which switches to independent episodes if sharing "
        "increases the variance; the gain of such a run is that of all its episodes.",
        "Episodes, compare_policies: episodes of each policy until the 95% confidence interval of the mean gap is ± 6 "
        f"standard errors of the unpaired episodes of one seed; totals of {seeds} seeds. Independent: the "
        "same call with `coupling=Independent()`. The first check is after 64 episodes.",
    ]
    if not quick:
        report.figure = draw(gains)
    return report


def _all_tasks(quick: bool, seeds: int, parts: Parts) -> list[tuple[str, Row, Gains]]:
    """Return the results of all tasks, computed in parallel, since nothing is timed."""
    return parts.each(partial(_one_task, quick=quick, seeds=seeds), len(tasks(quick)), processes=1 if quick else 0)


def _one_task(i: int, quick: bool, seeds: int) -> tuple[str, Row, Gains]:
    """Return the results of the task with this number."""
    task = tasks(quick)[i]
    n = 8 if quick else task.episodes
    row, same_seed, shared = _measured(task, seeds, n)
    ours, alone = _taken(task, seeds, n, 8 if quick else 100 * n)
    taken: Row = {"episodes, compare_policies": ours, "episodes, independent": alone, "ratio": alone / ours}
    if not quick:
        print(
            f"{task.name}: same seed {same_seed.median:.3g}, shared randomness {shared.median:.3g}, {taken}", flush=True
        )
    return task.name, row | taken, Gains(task.kind, same_seed, shared)


def _measured(task: Task, seeds: int, n: int) -> tuple[Row, Gain, Gain]:
    """Return the row of a task, and its gains by the plain loop and by `compare_policies`."""
    old, new = task.policies
    plain, other, shared, switched = [], [], [], 0
    for seed in range(seeds):
        numbers = range(seed * n, (seed + 1) * n)
        plain.append(np.stack([task.plain(old, numbers), task.plain(new, numbers)], axis=1))
        other.append(task.plain(new, [_OTHER_SEEDS + i for i in numbers]))
        found = _asked(task, jmdp.Synchronous(policy_luck="shared"), seed, 1e-12, n)
        shared.append(found.summary.samples.returns)
        switched += found.paired_samples < n
    drawn = np.concatenate(shared)
    unpaired = np.stack([np.concatenate(plain)[:, 0], np.concatenate(other)], axis=1)
    for i, name in enumerate(task.policies if n >= _ENOUGH else ()):
        error = np.sqrt((drawn[:, i].var() + unpaired[:, i].var()) / len(drawn))
        agree(f"{task.name}, mean of {name}", abs(drawn[:, i].mean() - unpaired[:, i].mean()), 5 * error + 1e-9)
    rng = np.random.default_rng(0)
    gains = Gain.of(plain, rng), Gain.of(shared, rng)
    gap = drawn[:, 1] - drawn[:, 0]
    row: Row = {
        "task": task.name,
        "old, new": f"{old}, {new}",
        "episodes": f"{seeds} × {n}",
        "mean gap": float(gap.mean()),
        "± one standard error": float(gap.std() / np.sqrt(len(gap))),
        "gain, same seed": gains[0].median,
        "95%": gains[0].interval(),
        "gain, shared randomness": gains[1].median,
        "95% ": gains[1].interval(),
        "switched": f"{switched} of {seeds}",
    }
    return row, *gains


def _taken(task: Task, seeds: int, n: int, most: int) -> tuple[int, int]:
    """Return the episodes of each policy until the mean gap is precise enough: with shared randomness, independent."""
    old, new = task.policies
    numbers = range(2 * _OTHER_SEEDS, 2 * _OTHER_SEEDS + n)
    variance = task.plain(old, numbers).var() + task.plain(new, numbers).var()
    precision = 6 * float(np.sqrt(variance / n))
    totals = [0, 0]
    for seed in range(seeds):
        for i, coupling in enumerate((jmdp.Synchronous(policy_luck="shared"), jmdp.Independent())):
            totals[i] += _asked(task, coupling, 1000 + 2 * seed + i, precision, most).samples
    return totals[0], totals[1]


def _asked(
    task: Task, coupling: Coupling, seed: int, precision: float, samples: int
) -> jmdp.comparisons.PolicyComparison:
    return jmdp.compare_policies(
        task.source,
        task.policies,
        seed=seed,
        discount=task.discount,
        coupling=coupling,
        precision=precision,
        max_samples=samples,
        horizon=task.horizon,
        progress=False,
    )


def _gain(returns: Floats) -> float:
    """Return (Var old + Var new)/Var(new − old) for returns [n, 2]."""
    gap = float((returns[:, 1] - returns[:, 0]).var())
    return float(returns.var(axis=0).sum()) / gap if gap > 0 else np.inf


def draw(gains: dict[str, Gains]) -> Figure:
    """Plot both gains of every task with their intervals, on a logarithmic scale."""
    figure, [[axes]] = new_figure(size=(7.5, 4.6))
    names = list(gains)[::-1]
    series = (
        ("same seed per reset", [gains[name].same_seed for name in names], -0.16, "s", COLOURS[1]),
        ("shared randomness in each step (jmdp)", [gains[name].shared for name in names], 0.16, "o", COLOURS[0]),
    )
    for label, found, shift, marker, colour in series:
        medians = np.array([gain.median for gain in found])
        sides = [[g.median - g.low for g in found], [g.high - g.median for g in found]]
        axes.errorbar(
            medians,
            np.arange(len(names)) + shift,
            xerr=np.maximum(sides, 0),
            fmt=marker,
            color=colour,
            label=label,
            markersize=5,
            elinewidth=1.2,
        )
    axes.axvline(1.0, color=GREY, linewidth=0.9)
    axes.annotate("independent", (1.0, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 3),
                  textcoords="offset points", color=GREY, ha="center", fontsize=8)  # fmt: skip
    axes.set_xscale("log")
    ticks = [1, 2, 5, 10, 20, 50, 100]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(np.arange(len(names)), names)
    axes.set_xlabel("episodes of independent runs / paired episodes, at the same standard error")
    axes.grid(True, axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    clear_spines(axes)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure
