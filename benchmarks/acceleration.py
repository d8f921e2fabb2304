"""Number of sweeps of ExactPairs compared with plain iteration, to the same certified error."""

from __future__ import annotations

import numpy as np

import jmdp
from benchmarks.problems import queue, torus
from benchmarks.report import Goal, Report, agree
from jmdp.base.arrays import Floats
from jmdp.methods.exact_pairs.pair_sweep import PairSweep
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.shaping import shape_rewards

METHOD = jmdp.ExactPairs(tolerance=1e-6)
CHECKED_PAIRS = 50


def compare(quick: bool) -> Report:
    """Compare on models with a terminal goal, and on slowly mixing ones without terminal states."""
    report = Report("acceleration", quick, seeds="model 0")
    for side in (5,) if quick else (30, 50):
        world = jmdp.worlds.windy_gridworld(side, side, discount=0.99)
        for name, policy in world.policies.items():
            _count(report, f"windy {side}×{side}, {name}", world.model, policy)
    discount = 0.9 if quick else 0.999
    side, places = (4, 10) if quick else (16, 100)
    for problem, model in {
        f"torus {side}×{side}": torus(side, discount),
        f"queue of {places}": queue(places, discount),
    }.items():
        ratio = _count(report, problem, model, jmdp.TabularPolicy.uniform(model))
        report.goals.append(Goal.at_least(f"{problem}, γ = {discount:g}: plain sweeps / ours", ratio, 3))
    report.notes.append("Goals apply to recurrent models only; with a terminal goal, episodes end before γ² matters.")
    return report


def _count(report: Report, problem: str, model: jmdp.TabularJMDP, policy: jmdp.TabularPolicy) -> float:
    ours = jmdp.evaluate(model, policy, jmdp.Local(), method=METHOD, progress=False)
    shaped = shape_rewards(model, policy)
    scale = 4.0**shaped.scale.exponent  # tables are in units of scaled rewards
    square = model.discount**2
    variance = _largest_variance(ours, policy)
    # Certified covariances are one step ahead of the tables: γ²‖residual‖/(1 − γ²) ≤ tolerance × variance.
    enough = METHOD.tolerance * variance * (1 - square) / square / scale
    operator = PairOperator(model, policy, jmdp.Local(), shaped)
    point, out = operator.start(), operator.start()
    plain = 0
    with PairSweep(operator) as sweep:
        while True:
            residual = sweep.measured(point, out)
            plain += 1
            point, out = out, point
            if residual <= enough:
                sweep.whole(point)
                break
    S = model.shape[0]
    difference = _difference(ours, policy, scale * point.reshape(S, S))
    agree(problem, difference, 2 * METHOD.tolerance * variance / square)
    ratio = plain / ours.residuals.size
    report.rows.append(
        {
            "problem": problem,
            "discount": model.discount,
            "plain sweeps": plain,
            "our sweeps": ours.residuals.size,
            "ratio": ratio,
            "difference / largest variance": difference / variance,
        }
    )
    return ratio


def _largest_variance(result: jmdp.results.Evaluation, policy: jmdp.TabularPolicy) -> float:
    """Return the largest variance of a return, with a given or a drawn first action: the unit of the tolerance."""
    variance = np.einsum("saa->sa", result.covariance)
    value = (policy.probs * result.mean).sum(axis=1)
    drawn = (policy.probs * (variance + (result.mean - value[:, None]) ** 2)).sum(axis=1)
    return float(max(variance.max(), drawn.max()))


def _difference(result: jmdp.results.Evaluation, policy: jmdp.TabularPolicy, H: Floats) -> float:
    """Return the largest difference of the plain table from our covariances, for some pairs of states."""
    S, A = policy.probs.shape
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(CHECKED_PAIRS):
        s, t = (int(i) for i in rng.choice(S, 2, replace=False))
        ours = np.array([[result.cross_covariance(s, a, t, b) for b in range(A)] for a in range(A)])
        worst = max(worst, abs(float(policy.probs[s] @ ours @ policy.probs[t]) - float(H[s, t])))
    return worst
