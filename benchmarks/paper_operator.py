"""ExactPairs compared with the paper's operator on pairs of (state, action), to the same certified accuracy."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

import jmdp
from benchmarks.interleave import interleave
from benchmarks.paper_baseline import PaperOperator, Product
from benchmarks.problems import random_model
from benchmarks.report import Goal, Report, agree

ACCURACY = 1e-8
"""Certified error of every covariance, relative to the largest variance, for both methods."""

_DENSE_FROM = 0.01
"""Density of the step matrix from which BLAS on the full matrix is timed as well."""


def compare(quick: bool) -> Report:
    """Compare on two gridworld policies and a random model with many actions."""
    report = Report("paper_operator", quick, seeds="models 0 to 2")
    side = 5 if quick else 30
    world = jmdp.worlds.windy_gridworld(side, side, discount=0.99)
    for name in ("careless", "goal_directed"):
        _compare(report, f"windy {side}×{side}, {name}", world.model, world.policies[name], 100)
    S, A = (8, 3) if quick else (100, 18)
    model = random_model(S, 4, A, 0.99)
    _compare(report, f"random, {S} states, {A} actions", model, jmdp.TabularPolicy.uniform(model), 300)
    report.notes.append(
        "The time of a baseline is its number of sweeps (from one complete run) × its best time per sweep, without "
        "setup; ours is a whole `evaluate`. The time of the complete run is listed as well. The goal refers to the "
        "faster of sparse and dense, which apply the operator as written. Averaging over next actions first is half of "
        "the method of ExactPairs and is shown for reference."
    )
    return report


def _compare(report: Report, problem: str, model: jmdp.TabularJMDP, policy: jmdp.TabularPolicy, goal: float) -> None:
    start = time.perf_counter()
    operator = PaperOperator(model, policy)
    setting_up = time.perf_counter() - start
    products: list[Product] = ["sparse", "policy first"]
    if operator.step.nnz > _DENSE_FROM * operator.mean.size**2:
        products.append("dense")
    method = jmdp.ExactPairs(tolerance=ACCURACY)

    def solve() -> jmdp.results.Evaluation:
        return jmdp.evaluate(model, policy, jmdp.Local(), method=method, progress=False)

    M = operator.start()
    contenders: dict[str, Callable[[], object]] = {"ExactPairs": solve}
    contenders |= {product: partial(operator.sweep, M, product) for product in products}
    timings = interleave(contenders)
    quickest = min(products, key=timings.best)

    start = time.perf_counter()
    M, sweeps = operator.run(ACCURACY, quickest)
    complete = setting_up + time.perf_counter() - start
    ours = solve()
    difference = float(np.abs(ours.covariance - operator.covariance(M)).max())
    agree(problem, difference, 2 * ACCURACY * operator.largest_variance(M))

    report.rows.append(
        {
            "problem": problem,
            "contender": "ExactPairs",
            "sweeps": ours.residuals.size,
            "best sweep, s": "",
            "total, s": timings.best("ExactPairs"),
            "rounds": len(timings.seconds["ExactPairs"]),
        }
    )
    for product in products:
        ratio = timings.ratio(product, "ExactPairs").times(sweeps)
        report.rows.append(
            {
                "problem": problem,
                "contender": f"T₂, {product}",
                "sweeps": sweeps,
                "best sweep, s": timings.best(product),
                "total, s": sweeps * timings.best(product),
                "rounds": len(timings.seconds[product]),
                "complete run, s": complete if product == quickest else "",
                "ratio to ours": ratio.best,
                "range over rounds": ratio.spread(),
                "largest difference": difference if product == quickest else "",
            }
        )
    plain = min((product for product in products if product != "policy first"), key=timings.best)
    fastest = sweeps * timings.ratio(plain, "ExactPairs").best
    report.goals.append(Goal.at_least(f"{problem}: time of T₂, {plain} / ours", fastest, goal))
