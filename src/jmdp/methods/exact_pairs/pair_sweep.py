"""Execution of sweeps: SciPy sparse products for small tables, compiled multithreaded kernels for larger ones.

Neither uses BLAS, whose sums depend on its number of threads.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from jmdp.base.arrays import Floats, largest
from jmdp.base.machine import Threads
from jmdp.methods.kernels.tables import ROWS, PairLayout, PairOutput, PairStep
from jmdp.methods.shared.fixed_point import Past, Sweeps
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.policy_chain import JointStep

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from jmdp.methods.exact_pairs.moment_operator import MomentOperator

_COMPILED_FROM = 600
"""Number of states from which compiled sweeps are worth the time to load the compiler."""

_COMPILED_FROM_TERMS = 8_000_000
"""Number of terms of a sweep from which this also holds for smaller tables with many outcomes per state."""

_CHUNK = 2**18
"""Entries of changes that are multiplied and summed together, independent of the number of threads."""

_NOTHING = np.zeros(0, np.float32)


def is_compiled(operator: PairOperator | MomentOperator) -> bool:
    """True if sweeps of this operator are compiled; those with overlaps of shared action draws use SciPy."""
    if not operator.joint_steps or any(joint.overlap is not None for joint in operator.joint_steps):
        return False
    S = operator.model.shape[0]
    return S >= _COMPILED_FROM or S * sum(joint.one.step.nnz for joint in operator.joint_steps) >= _COMPILED_FROM_TERMS


class PairSweep:
    """Sweeps of one operator over tables [S × S], and combinations of their changes; a context manager of threads.

    Every entry is one sum in a fixed order, and inner products are summed chunk by chunk, so the number of
    threads does not change a bit of any result.
    """

    def __init__(self, operator: PairOperator | MomentOperator, threads: int | None = None) -> None:
        self.operator = operator
        self.threads = Threads(threads)
        self.compiled = is_compiled(operator)

    def __enter__(self) -> PairSweep:
        if self.compiled:
            self.threads.__enter__()
            self._steps = [self._kernel_step(joint) for joint in self.operator.joint_steps]
            self.layout = _layout(self.operator)
        return self

    def _kernel_step(self, joint: JointStep) -> PairStep:
        matrix, operator = joint.one.step, self.operator
        return PairStep(
            matrix.indptr.astype(np.uint64),
            matrix.indices.astype(np.uint64),
            np.asarray(matrix.data),
            joint.one.td,
            joint.weight,
            operator.square,
            operator.mirror,
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.compiled:
            self.threads.__exit__(kind, error, trace)

    def __call__(self, point: Floats, out: Floats) -> None:
        """Fill `out` with the sweep of `point`."""
        self._sweep(point, out, False, _NOTHING)

    def whole(self, table: Floats) -> Floats:
        """The table [S, S] with all entries; compiled sweeps store only those above the diagonal that they read."""
        S, blocks = self.operator.model.shape[0], self.operator.blocks
        found = table.reshape(S, S)
        if self.compiled:
            block = ROWS if blocks is None else blocks.block
            for first in range(block, S, block):
                rows = slice(first, first + block)
                found[:first, rows] = self.operator.mirror * found[rows, :first].T
        return found

    def entry(self, table: Floats) -> float:
        """Largest entry of V and of `table`, which was measured last."""
        operator = self.operator if isinstance(self.operator, PairOperator) else self.operator.pairs
        return max(self._entry, largest(operator.V)) if self.compiled else operator.entry(table)

    def measured(self, point: Floats, out: Floats, change: Any = None) -> float:
        """Fill `out` with the sweep of `point` and `change` with out − point; return the largest |out − point|.

        Both are weighted if the operator has weights, which compiled sweeps do not support.
        """
        return self._sweep(point, out, True, _NOTHING if change is None else change)

    def recording(self, length: int) -> Sweeps:
        """These sweeps for `iterate`, with `length` changes recorded (0 for none)."""
        past = PastChanges(self, length) if length else None
        return Sweeps(self.measured, past, self if self.compiled else None)

    def _sweep(self, point: Floats, out: Floats, measure: bool, change: Any) -> float:
        operator = self.operator
        S = operator.model.shape[0]
        H, new = point.reshape(S, S), out.reshape(S, S)
        diagonal = operator.diagonal(H)
        if self.compiled:
            return self._compiled_sweep(H, new, diagonal, measure, change)
        new[:] = 0.0 if operator.source is None else operator.source
        for joint in operator.joint_steps:
            term = operator.square * operator.mirror * np.asarray(joint.one.step @ (joint.other.step @ H).T)
            if joint.one.td.any():
                term += np.multiply.outer(joint.one.td, joint.other.td)
            if len(operator.joint_steps) > 1:
                term *= joint.weights()
            new += term
        if diagonal is not None:
            np.fill_diagonal(new, diagonal)
        if operator.blocks is not None:
            operator.blocks.keep_between(new)
            placed = operator.placed(H)
            if placed is not None and operator.same_place is not None:
                one, other = operator.same_place.one, operator.same_place.other
                new[one, other], new[other, one] = placed, operator.mirror * placed
        if not measure:
            return 0.0
        difference = change if change.size else np.empty_like(out)
        np.subtract(out, point, out=difference)
        if operator.weight is not None:
            difference *= operator.weight.ravel()
        return largest(difference)

    def _compiled_sweep(self, H: Floats, new: Floats, diagonal: Floats | None, measure: bool, change: Any) -> float:
        from jmdp.methods.kernels.pair_product import pair_product

        worst, source = 0.0, self.operator.source
        if source is not None:
            np.copyto(new, source)
        for i, step in enumerate(self._steps):
            last = i == len(self._steps) - 1
            on_diagonal = diagonal if last and diagonal is not None else np.zeros(0)
            output = PairOutput(new, change, add=i > 0 or source is not None, measure=measure and last)
            layout = self.layout._replace(same=_same_places(self.operator, H)) if last else self.layout
            parts = self.threads.run(pair_product, (step, H, on_diagonal, layout), (output,))
            worst, self._entry = (max(part) for part in zip(*parts, strict=True))
        return worst


class PastChanges(Past):
    """Recorded changes of the last sweeps, for combination by `fixed_point`."""

    def __init__(self, sweep: PairSweep, length: int) -> None:
        self.sweep, self.length = sweep, length
        shape, kind = change_record(sweep.operator)
        self.changes = np.zeros((length, shape), kind)

    def gram(self) -> Floats:
        """[length, length], inner products of d_1 − d_0, d_2 − d_1, … and of the last change."""
        if not self.sweep.compiled:
            differ = np.concatenate([np.diff(self.changes, axis=0), self.changes[-1:]])
            return np.asarray(np.einsum("ik,jk->ij", differ, differ))
        from jmdp.methods.kernels.changes import inner_products

        size = self.changes.shape[1]
        parts = np.zeros((-(-size // _CHUNK), self.length, self.length))
        self.sweep.threads.run(inner_products, (self.changes, _CHUNK), (parts,))
        return np.asarray(parts.sum(axis=0))

    def largest(self, weights: Floats) -> float:
        """max |Σ weights × changes|."""
        if not self.sweep.compiled:
            return largest(np.einsum("i,ik->k", weights, self.changes))
        from jmdp.methods.kernels.changes import largest_combination

        return float(max(self.sweep.threads.run(largest_combination, (weights, self.changes), ())))

    def add(self, weights: Floats, point: Floats) -> None:
        """point += Σ weights × changes."""
        if not self.sweep.compiled:
            combined, weight = np.einsum("i,ik->k", weights, self.changes), self.sweep.operator.weight
            point += combined if weight is None else unweighted(combined, weight)
            return
        from jmdp.methods.kernels.changes import add_combination

        S = self.sweep.operator.model.shape[0]
        before, after = (weights, self.changes, self.sweep.layout), self.sweep.operator.mirror
        self.sweep.threads.run(add_combination, before, (point.reshape(S, S), after))


def unweighted(change: Floats, weight: Floats) -> Floats:
    """A weighted change [S × S] divided by its weights; 0 where the weight is 0."""
    return np.divide(change, weight.ravel(), out=np.zeros_like(change), where=weight.ravel() > 0)


def change_record(operator: PairOperator | MomentOperator) -> tuple[int, type[np.floating[Any]]]:
    """Length and dtype of the record of one change; if compiled, its lower triangle in single precision.

    Only the next point depends on the record; no certificate does.
    """
    if not is_compiled(operator):
        return operator.size, np.float64
    return _layout(operator).recorded, np.float32


def _layout(operator: PairOperator | MomentOperator) -> PairLayout:
    """Layout of the entries that a sweep computes."""
    S, blocks = operator.model.shape[0], operator.blocks
    if blocks is not None:
        return PairLayout.between_blocks(S, blocks.block)
    return layout_of(S, [joint.one.step for joint in operator.joint_steps])


def layout_of(S: int, steps: list[csr_array[np.float64]]) -> PairLayout:
    """Layout of all pairs of states, for steps with these matrices."""
    # For rows s of a group, entries (s', u) are read with s' a successor of s, and u a successor of the group's states.
    up = down = 0
    for step in steps:
        entries = step.tocoo()
        further = entries.col - entries.row
        up, down = max(up, int(further.max(initial=0))), max(down, -int(further.min(initial=0)))
    return PairLayout.lower_triangle(S, up + down + ROWS - 1)


def _same_places(operator: PairOperator | MomentOperator, H: Floats) -> Floats:
    """Entries at the pairs of `SamePlace` after a sweep of H, in the format of `PairLayout.same`."""
    S, blocks, placed = operator.model.shape[0], operator.blocks, operator.placed(H)
    if blocks is None or placed is None or operator.same_place is None:
        return np.zeros((0, S))
    one, other = operator.same_place.one, operator.same_place.other
    same = np.zeros((blocks.count - 1, S))
    same[(one - other) // blocks.block - 1, one] = placed
    return same
