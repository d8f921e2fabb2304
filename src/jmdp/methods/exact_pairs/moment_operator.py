"""Operator of one table of mixed moments over state pairs, given all tables of lower order.

Write Y = Z − v(s) for a shaped return, d + γ Y' with d the TD error, and h_ij(s, t) = E[Y^i Ỹ^j] for two branches in
states s and t that draw their actions from the policy. Expanding both powers,

    h_ij(s, t) = Σ_{p ≤ i, q ≤ j} C(i, p) C(j, q) γ^{p+q} E[ d^{i−p} d̃^{j−q} h_pq(s', t') ],

which is Eq. (33) for two distinct branches. So h_ij = source + γ^{i+j} L h_ij with the same averages L as for second
moments (`pair_operator`), and a source from lower orders. The iteration contracts with γ^{i+j}. Between states the
expectation is Σ_J w_J M_{i−p} h_pq M_{j−q}ᵀ over the shared randomness J, with M_r(s, s') = Σ π p d^r 1{s → s'}. Within
one state it is read from the table. For merged branches it is the moment of order i + j of a single return.

h_ij(s, t) = h_ji(t, s), so the symmetric and the antisymmetric part of h_ij are solved separately.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.policy_chain import Branch, JointStep, averaged_step, joint_steps
from jmdp.methods.shared.same_state import SamePlace
from jmdp.models.policy import StackedTable
from jmdp.models.tabular import TabularJMDP

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_AT_ONCE = 500_000
"""Pairs of outcomes of one state processed together."""


@dataclass(frozen=True, eq=False)
class MomentOperator:
    """Operator h ← source + rate × L h for one part of a table, with the interface of `PairOperator` for sweeps."""

    model: TabularJMDP
    joint_steps: list[JointStep]
    square: float  # γ^{i+j}
    source: Floats  # [S, S]
    mirror: float  # 1 for a symmetric part, −1 for an antisymmetric one
    pairs: PairOperator
    on_diagonal: Floats | None  # [S], known part of h(s, s); None if the between-state recursion applies
    on_places: Floats | None = None  # the same at the pairs `SamePlace.one`, `.other`
    weight: Floats | None = None  # [S, S], of each entry in the norm of residuals

    precision = "float64"

    @property
    def blocks(self) -> StackedTable | None:
        """Blocks of several policies; None for a single policy."""
        return self.pairs.blocks

    @property
    def same_place(self) -> SamePlace | None:
        """Pairs of copies of one state under two policies; None if they need no separate treatment."""
        return self.pairs.same_place

    def placed(self, h: Floats) -> Floats | None:
        """Entries at the pairs of `same_place` after a sweep; None if there are none."""
        if self.on_places is None or self.same_place is None:
            return None
        # The sums of `SamePlace` include a factor γ².
        return np.asarray(self.on_places + self.square / (self.pairs.square or 1.0) * self.same_place.sums.of(h))

    @property
    def size(self) -> int:
        """Number of entries of the table."""
        return self.source.size

    def diagonal(self, h: Floats) -> Floats | None:
        """h(s, s) [S] after a sweep."""
        same = self.pairs.same_state
        if self.on_diagonal is None or same is None or self.mirror < 0:
            return self.on_diagonal
        # The sums of `SameState` include a factor γ².
        return np.asarray(self.on_diagonal + self.square / (self.pairs.square or 1.0) * same.following(h))


class MomentSources:
    """Source terms of tables of any order, computed from the tables of lower orders."""

    def __init__(self, operator: PairOperator, order: int) -> None:
        self._pairs, self._model = operator, operator.model
        found = joint_steps(operator.model, operator.policy, operator.coupling, operator.shaped.td)
        self._powers = [operator.shaped.td**r for r in range(order + 1)]
        self._steps = {id(b): self._moment_steps(b) for joint in found for b in (joint.one, joint.other)}
        self._joint_steps = found
        without_td = {id(b): replace(b, td=np.zeros(len(b.td))) for joint in found for b in (joint.one, joint.other)}
        self._without_td = [
            replace(joint, one=without_td[id(joint.one)], other=without_td[id(joint.other)]) for joint in found
        ]

    def parts(
        self, i: int, j: int, single: list[Floats], tables: dict[tuple[int, int], Floats]
    ) -> list[MomentOperator]:
        """The symmetric part of h_ij and, for i ≠ j, the antisymmetric part.

        Parameters
        ----------
        single
            Moments [S] of one return, of all orders up to i + j.
        tables
            h_pq [S, S] of all lower orders, p, q ≥ 1.
        """
        source = self._between(i, j, single, tables)
        rate = self._model.discount ** (i + j)
        parts = [(1.0, source if i == j else (source + source.T) / 2)]
        if i != j:
            parts.append((-1.0, (source - source.T) / 2))
        found = [MomentOperator(self._model, self._without_td, rate, part, mirror, self._pairs, None)
                 for mirror, part in parts]  # fmt: skip
        if self._pairs.blocks is not None:
            places = self._on_places(i, j, single, tables)
            return [replace(part, on_places=known) for part, known in zip(found, places, strict=False)]
        on_diagonal = self._on_diagonal(i, j, single, tables)
        if on_diagonal is None:
            return found
        known = [on_diagonal, np.zeros(len(on_diagonal))]
        return [replace(part, on_diagonal=diagonal) for part, diagonal in zip(found, known, strict=False)]

    def _on_places(
        self, i: int, j: int, single: list[Floats], tables: dict[tuple[int, int], Floats]
    ) -> tuple[Floats | None, Floats | None]:
        """Known terms of the symmetric and of the antisymmetric part of h_ij at the pairs of `same_place`."""
        same, model, td = self._pairs.same_place, self._model, self._pairs.shaped.td
        if same is None:
            return None, None

        def terms(x: Integers, y: Integers, i: int, j: int) -> Floats:
            n, m = model.next_state[x][:, :, :, None], model.next_state[y][:, :, None, :]
            d, e = td[x][:, :, :, None], td[y][:, :, None, :]
            found = np.zeros(np.broadcast_shapes(d.shape, e.shape))
            for p in range(i + 1):
                for q in range(j + 1):
                    if (p, q) != (i, j):
                        following = looked_up(n, m, p, q, single, tables)
                        found += _times(model.discount, i, p, j, q) * d ** (i - p) * e ** (j - q) * following
            return found

        forward = same.mean(lambda x, y: terms(x, y, i, j))
        if i == j:
            return forward, None
        backward = same.mean(lambda x, y: terms(x, y, j, i))  # h_ji(x, y) = h_ij(y, x)
        return (forward + backward) / 2, (forward - backward) / 2

    def _moment_steps(self, branch: Branch) -> list[csr_array[np.float64]]:
        return [averaged_step(self._model, branch.scenarios, branch.choices, power) for power in self._powers]

    def _between(self, i: int, j: int, single: list[Floats], tables: dict[tuple[int, int], Floats]) -> Floats:
        """Σ over shared randomness and lower orders of M_{i−p} h_pq M_{j−q}ᵀ, with binomials and powers of γ."""
        S = self._model.shape[0]
        total = np.zeros((S, S))
        for joint in self._joint_steps:
            one, other = self._steps[id(joint.one)], self._steps[id(joint.other)]
            term = np.zeros((S, S))
            for p in range(i + 1):
                alone = _times(self._model.discount, i, p, j, 0) * np.asarray(other[j] @ np.ones(S))
                term += np.multiply.outer(np.asarray(one[i - p] @ single[p]), alone)
                inner = np.zeros((S, S))
                for q in range(1, j + 1):
                    if p == i and q == j:
                        continue
                    times = _times(self._model.discount, i, p, j, q)
                    if p == 0:
                        inner += times * np.asarray(other[j - q] @ single[q])
                    else:
                        inner += times * np.asarray(other[j - q] @ tables[q, p]).T
                term += np.asarray(one[i - p] @ inner)
            total += joint.weights() * term
        if self._pairs.blocks is not None:
            self._pairs.blocks.keep_between(total)
        return total

    def _on_diagonal(
        self, i: int, j: int, single: list[Floats], tables: dict[tuple[int, int], Floats]
    ) -> Floats | None:
        """Known terms of h_ij(s, s) [S] if branches in one state share its scenario, else None."""
        if not self._pairs.coupling.shared_in_a_state:
            return None
        if self._pairs.same_state is None:  # they also draw the same action and are merged
            return single[i + j]
        model, pi, prob = self._model, self._pairs.policy.probs, self._pairs.prob
        S, K, A = model.shape
        result = np.empty(S)
        at_once = max(1, _AT_ONCE // (K * A * A))
        for first in range(0, S, at_once):
            block = slice(first, first + at_once)
            n, d = model.next_state[block], self._pairs.shaped.td[block]
            distinct, one = np.zeros((*n.shape, A)), np.zeros(n.shape)
            for p in range(i + 1):
                for q in range(j + 1):
                    if (p, q) == (i, j):
                        continue
                    times = _times(model.discount, i, p, j, q)
                    gained = (d ** (i - p))[:, :, :, None] * (d ** (j - q))[:, :, None, :]
                    distinct += times * gained * looked_up(n[:, :, :, None], n[:, :, None, :], p, q, single, tables)
            for m in range(i + j + 1):
                one += _times(model.discount, i + j, m, 0, 0) * d ** (i + j - m) * single[m][n]
            np.einsum("skaa->ska", distinct)[...] = 0.0
            drawn = np.einsum("skab,sa,sb->sk", distinct, pi[block], pi[block])
            drawn += np.einsum("ska,sa->sk", one, pi[block] ** 2)
            result[block] = (prob[block] * drawn).sum(axis=1)
        return result


def looked_up(
    n: Integers,
    m: Integers,
    p: int,
    q: int,
    single: list[Floats],
    tables: dict[tuple[int, int], Floats],
) -> Floats:
    """Return h_pq(n, m); with a power of 0, the moment of the other branch alone."""
    if p == 0:
        return single[q][m]
    return single[p][n] if q == 0 else tables[p, q][n, m]


def _times(discount: float, i: int, p: int, j: int, q: int) -> float:
    return math.comb(i, p) * math.comb(j, q) * discount ** (p + q)
