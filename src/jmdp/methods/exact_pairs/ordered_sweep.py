"""Sweeps in the order in which a chain approaches its end, so that news travel along it within one sweep.

A plain sweep moves information by one step. With states in the order of the expected number of moves to the end, and
rows that use new entries of earlier ones (`ordered_product`), a sweep moves it along all steps towards the end. It is
an affine contraction with the same fixed point and at most the same rate: of H = b + γ² L H each entry is computed from
old and new entries, and the latter are no further from the fixed point. So changes of successive sweeps can be combined
(`fixed_point`). The result is a start for plain sweeps, whose residual certifies it; usually one is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jmdp.base.arrays import Floats, Integers, largest
from jmdp.methods.exact_pairs.pair_sweep import PairSweep, is_compiled, layout_of
from jmdp.methods.kernels.tables import ROWS, PairOutput, PairStep, PairWaves
from jmdp.methods.shared.fixed_point import FixedPoint, StoppingRule, iterate
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.policy_chain import averaged_step
from jmdp.results.certificate import Outcome

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_FROM = 2000
"""Number of states from which fewer sweeps are worth the time to compile another kernel."""

_MOST_BACK = 0.25
"""Largest share of moves away from the end."""

_STRONG = 0.25
"""Moves with at least this fraction of the probability of their state's likeliest move determine the waves."""

_TOGETHER = 4000
"""Number of states up to which one thread is faster than several that wait for one another after each wave."""


def order_of(operator: PairOperator) -> Integers | None:
    """States by the expected discounted number of moves to the end; None if ordered sweeps are not supported or useful.

    Steps that stay are no moves. With several values of shared randomness, or several policies, sweeps are not ordered.
    """
    coupling = operator.coupling
    shared = not coupling.shared_in_a_state or coupling.shared_between_states or len(operator.joint_steps) > 1
    if shared or operator.blocks is not None or not is_compiled(operator) or operator.model.shape[0] < _FROM:
        return None
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import splu

    model = operator.model
    step = averaged_step(model, model.prob, operator.policy.probs)
    moves = (step - diags_array(step.diagonal())).tocoo()
    leaves = np.bincount(moves.row, moves.data, len(model.terminal))
    matrix = diags_array(np.where(leaves > 0, leaves, 1.0)) - model.discount * moves
    try:
        factors = splu(
            matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )
    except RuntimeError:  # singular in float64
        return None
    count = factors.solve(leaves)
    order = np.argsort(np.round(count / max(count.max(), 1.0), 12), kind="stable")
    rank = np.argsort(order)
    back = moves.data[rank[moves.col] > rank[moves.row]].sum()
    return order if back <= _MOST_BACK * moves.data.sum() else None


class OrderedSweep(PairSweep):
    """Ordered sweeps of tables [S × S] whose states are in this order; see the module."""

    def __init__(self, operator: PairOperator, order: Integers, threads: int | None = None) -> None:
        super().__init__(operator, threads)
        self._pairs, self._order = operator, order
        S, step = order.size, operator.joint_steps[0].one.step[order][:, order].tocsr()
        step.sort_indices()
        starts, columns = step.indptr.astype(np.uint64), step.indices.astype(np.uint64)
        self._step = PairStep(starts, columns, step.data, np.zeros(S), 1.0, operator.square, 1.0)
        self.layout = layout_of(S, [step])
        self._waves = self._in_waves(step)

    def _in_waves(self, step: csr_array[np.float64]) -> PairWaves:
        """Waves as long as no strong move leads to an earlier group of the same wave."""
        S, operator, order = self._order.size, self._pairs, self._order
        groups = -(-S // ROWS)
        moves = step.tocoo()
        moving = moves.row != moves.col
        row, column, chance = moves.row[moving], moves.col[moving], moves.data[moving]
        likeliest = np.zeros(S)
        np.maximum.at(likeliest, row, chance)
        strong = chance >= _STRONG * likeliest[row]
        group = groups - 1 - (S - 1 - np.arange(S)) // ROWS
        one, other = group[row[strong]], group[column[strong]]
        coupled, behind = np.zeros(groups, bool), np.full(groups, -1)
        coupled[one[one == other]] = True
        np.maximum.at(behind, one[other < one], other[other < one])
        starts = [0]
        for i in range(1, groups):
            if behind[i] >= starts[-1]:
                starts.append(i)
        fixed, entry, weight = operator.V[order], np.zeros((0, S), np.int64), np.zeros((0, S))
        if operator.same_state is not None:
            same = operator.same_state
            rank = np.argsort(order)
            one, other = (rank[at] for at in np.divmod(same.sums.entry[:, order], S))
            fixed, weight = same.fixed[order], same.sums.weight[:, order]
            entry = np.minimum(one, other) * S + np.maximum(one, other)
        up = np.uint64(max(0, int((column - row).max(initial=0))))
        return PairWaves(
            np.array([*starts, groups], np.uint64), coupled, up, fixed, np.ascontiguousarray(entry, np.uint64), weight
        )

    def __enter__(self) -> OrderedSweep:
        self.threads.__enter__()
        return self

    def _sweep(self, point: Floats, out: Floats, measure: bool, change: Any) -> float:
        from jmdp.methods.kernels.ordered_product import ordered_product

        S, starts = self._order.size, self._waves.starts
        before, output = (
            (self._step, point.reshape(S, S), self.layout),
            PairOutput(out.reshape(S, S), change, False, True),
        )
        if S <= _TOGETHER or self.threads.count == 1:
            return float(ordered_product(*before, self._waves, 0, 1, output))
        worst = 0.0
        for i in range(starts.size - 1):
            wave = self._waves._replace(starts=starts[i : i + 2])
            if starts[i + 1] - starts[i] == 1:
                worst = max(worst, ordered_product(*before, wave, 0, 1, output))
            else:
                worst = max(worst, *self.threads.run(ordered_product, (*before, wave), (output,)))
        return worst


def ordered_start(
    operator: PairOperator, recorded: int, stopping: StoppingRule, report: Callable[[int, float, float], None]
) -> FixedPoint:
    """Solve by ordered sweeps if they are useful; a table of zeros after no sweep if not. Its states are as usual."""
    point, out = operator.start(), operator.start()
    order = order_of(operator) if stopping.max_sweeps > 1 else None
    if order is None:
        return FixedPoint(point, math.inf, np.zeros(0), Outcome.SWEEPS_EXHAUSTED)
    hidden = operator.floor(largest(operator.V))
    rule = StoppingRule(stopping.target, lambda table: hidden, stopping.rate, stopping.max_sweeps - 1)
    with OrderedSweep(operator, order) as sweep:
        found = iterate(sweep.recording(recorded), point, out, rule, report)
        new = out if found.point is point else point
        whole, rank, S = sweep.whole(found.point), np.argsort(order), order.size
        for s, row in enumerate(new.reshape(S, S)):
            np.take(whole[rank[s]], rank, out=row)
    return replace(found, point=new)
