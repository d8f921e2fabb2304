"""Slack of bounds on P(gap ≤ 0) from two to eight moments, relative to the true probability."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

import jmdp
from benchmarks.report import DisagreementError, Goal, Report
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.gap import Gap

_ORDERS = (2, 4, 6, 8)


def compare(quick: bool) -> Report:
    """Compare the bounds of every gap of the worlds, better action first, with its certified distribution."""
    report = Report("moment_bounds", quick, seeds="models 0 to 2")
    everything: dict[str, list[float]] = {}
    for name, model, policy, coupling in _problems(quick):
        exact = jmdp.evaluate(
            model, policy, coupling, jmdp.ExactDistribution(tolerance=0.05, max_cells=1024), throw=False
        )
        moments = jmdp.evaluate(model, policy, coupling, jmdp.ExactPairs(order=8), throw=False)
        slack: dict[str, list[float]] = {"Cantelli": [], **{f"{n} moments": [] for n in _ORDERS}}
        for gap, truth in _gaps(moments, exact):
            slack["Cantelli"].append(gap.inferiority_bound() - truth)
            for n in _ORDERS:
                few = replace(gap, central_moments=gap.central_moments[: n + 1])
                slack[f"{n} moments"].append(few.cdf_bounds(0.0).high - truth)
        if not slack["Cantelli"]:
            report.notes.append(f"{name}: no action is certainly better on average; Cantelli's bound does not apply.")
            continue
        row: dict[str, str | float | int] = {"world": name, "gaps": len(slack["Cantelli"])}
        report.rows.append(row | {f"{what}, median slack": float(np.median(found)) for what, found in slack.items()})
        for what, found in slack.items():
            everything.setdefault(what, []).extend(found)
    medians = {what: float(np.median(found)) for what, found in everything.items()}
    row = {"world": "all", "gaps": len(everything["Cantelli"])}
    report.rows.append(row | {f"{what}, median slack": median for what, median in medians.items()})
    report.goals.append(
        Goal.at_most("median slack: 8 moments / Cantelli", medians["8 moments"] / medians["Cantelli"], 0.5)
    )
    return report


def _problems(quick: bool) -> Iterator[tuple[str, jmdp.TabularJMDP, jmdp.TabularPolicy, jmdp.Local | jmdp.Synchronous]]:
    side = 3 if quick else 5
    worlds = {"windy gridworld": jmdp.worlds.windy_gridworld(side, side)}
    worlds["coupled chain"] = jmdp.worlds.coupled_reward_chain()
    worlds["bandit"] = jmdp.worlds.anti_correlated_bandit()
    if not quick:
        worlds["inventory"] = jmdp.worlds.inventory()
    for name, world in worlds.items():
        for policy in world.policies:
            for coupling in (jmdp.Local(), jmdp.Synchronous()):
                kind = type(coupling).__name__
                yield f"{name}, {policy}, {kind}", world.model, world.policies[policy], coupling


def _gaps(moments: Evaluation, distribution: Evaluation) -> Iterator[tuple[Gap, float]]:
    """Yield gaps whose mean is certainly positive, with P(gap ≤ 0). Raise if the bound of any gap is violated."""
    S, A = moments.mean.shape
    for s in range(S):
        for a, b in combinations(range(A), 2):
            first, second = (a, b) if moments.mean[s, a] >= moments.mean[s, b] else (b, a)
            gap, truth = moments.gap(s, first, second), distribution.gap(s, first, second).distribution()
            for x in (0.0, float(truth.quantile(0.1)), float(truth.quantile(0.7))):
                bounds, right = gap.cdf_bounds(x), truth.cdf(x)
                if not (bounds.low <= right.high and right.low <= bounds.high):
                    raise DisagreementError(
                        f"state {s}, actions {first} and {second}, x = {x}: bounds {bounds}, true value {right!r}"
                    )
            if gap.inferiority_bound() < truth.cdf(0.0).low:
                raise DisagreementError(
                    f"state {s}, actions {first} and {second}: Cantelli's bound is below the true probability"
                )
            if gap.variance > 0 and gap.inferiority_bound() < 1:
                yield gap, float(truth.cdf(0.0))
