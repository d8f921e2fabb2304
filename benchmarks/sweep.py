"""One sweep over pairs of states compared with a copy of the table, and with SciPy's sparse products."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.sparse import csc_array, csr_array

import jmdp
from benchmarks.interleave import interleave
from benchmarks.problems import policy_chain
from benchmarks.report import Goal, Report, agree
from jmdp.base.arrays import Floats, largest
from jmdp.methods.exact_pairs.pair_sweep import PairSweep
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.shaping import shape_rewards

ROUNDING = 1e-12
"""Largest relative difference of two sums of the same few terms in different order."""


def compare(quick: bool) -> Report:
    """Compare on 10⁴ states, with a policy that has two successors per state and one that has more."""
    report = Report("sweep", quick, seeds="models 0")
    side = 20 if quick else 100
    world = jmdp.worlds.windy_gridworld(side, side, discount=0.99)
    for name in ("goal_directed", "careless"):
        _compare(report, f"windy {side}×{side}, {name}", world.model, world.policies[name])
    report.notes.append(
        "SciPy's product is P W Pᵀ alone; ours is the whole sweep, which also scales it and computes the entries of "
        "single states. The goal refers to SciPy's fastest form."
    )
    return report


def _compare(report: Report, problem: str, model: jmdp.TabularJMDP, policy: jmdp.TabularPolicy) -> None:
    S = model.shape[0]
    operator = PairOperator(model, policy, jmdp.Local(), shape_rewards(model, policy))
    point, out = operator.start(), operator.start()
    W = point.reshape(S, S)
    u = np.random.default_rng(0).random(S)
    np.multiply.outer(u, u, out=W)  # symmetric, without subnormal entries, which are slow
    copy = np.empty_like(W)
    P, _ = policy_chain(model, policy)
    forms = {
        "SciPy, P (P W)ᵀ, rows": partial(_rows_twice, P, W),
        "SciPy, P (P W)ᵀ, columns": partial(_rows_twice, P.tocsc(), W),
        "SciPy, (P W) Pᵀ": partial(_left_and_right, P, csc_array(P.T), W),
    }
    with PairSweep(operator) as sweep:
        sweep(point, out)
        difference = difference_between_states(sweep.whole(out), forms["SciPy, P (P W)ᵀ, rows"](), model.discount)
        agree(problem, difference, ROUNDING)
        timings = interleave({"sweep": partial(sweep, point, out), "np.copyto": partial(np.copyto, copy, W), **forms})
    fastest = min(forms, key=timings.best)
    for row in timings.rows("sweep"):
        report.rows.append({"problem": problem, **row})
    report.rows[-len(forms)]["largest difference"] = difference
    report.goals += [
        Goal.at_most(f"{problem}: sweep / copy", timings.ratio("sweep", "np.copyto").best, 4),
        Goal.at_most(f"{problem}: sweep / {fastest}", timings.ratio("sweep", fastest).best, 0.35),
    ]


def _rows_twice(P: csr_array[np.float64] | csc_array[np.float64], W: Floats) -> Floats:
    return np.asarray(P @ (P @ W).T)


def _left_and_right(P: csr_array[np.float64], transposed: csc_array[np.float64], W: Floats) -> Floats:
    return np.asarray((P @ W) @ transposed)


def difference_between_states(swept: Floats, product: Floats, discount: float) -> float:
    """Return the largest difference of entries between two states, relative to the largest entry."""
    product *= discount * discount
    size = largest(product)
    product -= swept.reshape(product.shape)
    np.fill_diagonal(product, 0.0)
    return largest(product) / size
