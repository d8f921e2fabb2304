"""Sweep of the paper's operator T_n (Eq. (33)) on joint moments of distinct branches, of every order up to n.

A moment of order k is E[Z(x_1)^m_1 ⋯ Z(x_j)^m_j] of j distinct branches, with m = (m_1 ≥ … ≥ m_j) a partition of k.
There is one return per coordinate; a repeated coordinate is a power. With Z = R + γ Z' and each power expanded,

    M_m(x_1, …, x_j) = Σ_{l ≤ m} E[ Π_i C(m_i, l_i) γ^l_i R_i^(m_i − l_i)  A_l(n_1, …, n_j) ]

where A_l(n_1, …, n_j) is M_l averaged over the next actions in the next states, and branches with l_i = 0 drop out.
For n = 2, m = (1) is Eq. (13), m = (1, 1) is Eq. (14) and m = (2) is its diagonal, Eq. (16).

The tables A_l of all l ≤ m are stored side by side in one array whose i-th axis runs over (l_i = 0) and (l_i, n_i) for
l_i = 1, …, m_i, so its length is 1 + m_i S. Given the randomness shared between states, branches in different states
are independent, so the sum is one matrix product along each axis, with rows x_i and entries
p C(m_i, l_i) γ^l_i R^(m_i − l_i). If only branches in the same state share a scenario (Local), c branches in one state
have a common matrix, with rows (s, a_1, …, a_c). Each way to split the branches into such groups fills the
corresponding entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from math import comb, prod
from string import ascii_letters
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Floats, largest
from jmdp.methods.shared.reward_units import RewardUnits
from jmdp.methods.shared.shared_randomness import action_intervals, shared_scenarios
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Powers = tuple[int, ...]
"""A partition (m_1 ≥ … ≥ m_j): the powers of j distinct returns."""
Groups = list[tuple[int, ...]]
"""A split of branches 0, …, j − 1 into groups."""


class JointBellman:
    """The paper's T_n (Eq. (33); T_2 is Definition 5.1) on joint moments over coordinates (s, a), for every coupling.

    The moments are stored as one vector of all tables M_m [X, …, X], see `tables`. If the coupling shares scenarios
    within a state, branches at the same coordinate have merged, and an entry with x_i = x_j is that of the partition
    with m_i + m_j in one part. Under Independent, two branches at the same coordinate may differ.
    """

    def __init__(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, order: int) -> None:
        self.model, self.coupling, self.order = model, coupling, order
        self.rewards = RewardUnits.of(model)
        bound = self.rewards.bound
        # A slightly larger weight is valid, and covers the rounding of its powers.
        self.weight = 2 * bound / (1 - model.discount) * (1 + 2.0**-45) if bound else 1.0
        self.partitions = partitions(order, model.shape[0] * model.shape[2])
        self.size = table_numbers(model, order)
        self.splits = {m: list(_splits(len(m), model, coupling)) for m in self.partitions}
        groups = {_only(m, group) for m in self.partitions for split in self.splits[m] for group in split}
        self.scenario_steps = [
            (w, {powers: self._step(prob * ~model.terminal[:, None], powers) for powers in groups})
            for w, prob in shared_scenarios(model, coupling)
        ]
        most = 1 if coupling.policy_luck == "independent" else max(map(len, self.partitions))
        self.policy_step = _policy_step(policy)
        self.common_choices = {j: _common_choices(policy, j) for j in range(2, most + 1)}

    def tables(self, moments: Floats) -> dict[Powers, Floats]:
        """Views M_m [X, …, X] of the vector of moments (Eq. (31); Eq. (12) for order 2)."""
        X, found, start = self.model.shape[0] * self.model.shape[2], {}, 0
        for m in self.partitions:
            stop = start + X ** len(m)
            found[m] = moments[start:stop].reshape((X,) * len(m))
            start = stop
        return found

    def scale(self, k: int) -> float:
        """λ_k = (2B/(1 − γ))^(k − 1): an error λ_k in a moment of order k weighs as much as an error 1 in a mean.

        The weights of Eq. (34), for rewards bounded by B instead of 1.
        """
        return float(self.weight ** (k - 1))

    def norm(self, moments: Floats) -> float:
        """‖M‖_λ = max_k ‖M_k‖∞ / λ_k (Eq. (34); for order 2 Eq. (20), the norm of Lemma 5.2)."""
        return max(largest(table) / self.scale(sum(m)) for m, table in self.tables(moments).items())

    def measured(self, moments: Floats, out: Floats, change: None = None) -> float:
        """Fill `out` with T_n of the moments, and return ‖T_n M − M‖_λ, the Bellman residual of Theorem 5.3."""
        self.sweep(moments, out)
        return self.norm(out - moments)

    def sweep(self, moments: Floats, out: Floats) -> None:
        """Fill `out` with T_n of the moments."""
        ahead = {m: self._chosen(table) for m, table in self.tables(moments).items()}
        new = self.tables(out)
        for m, table in new.items():
            following = self._side_by_side(m, ahead)
            for split in self.splits[m]:
                target = _entries(table, split, self.model.shape[2])
                arranged = following.transpose([branch for group in split for branch in group])
                target[...] = 0.0
                for w, steps in self.scenario_steps:
                    part = _along_axes([steps[_only(m, group)] for group in split], arranged)
                    part *= w
                    target += part.reshape(target.shape)
            if self.coupling.shared_in_a_state:
                _merge(m, new)

    def floor(self, moments: Floats) -> float:
        """Bound on the rounding error in a residual, in ‖·‖_λ.

        Every term of a moment of order k is a product of probabilities, rewards and an entry of a table. Units of
        rounding on each term, with at most k branches: those of rounded probabilities of the model, k times;
        2(K + A + 2)k since rows of probabilities sum to 1 only up to rounding; 3k for a weight C γ^l R^r; K 2^k to sum
        the outcomes in a row of the matrices, and k products with them; k(A + 1) for the average over actions; one for
        each shared scenario. The error of a break point of shared action draws is 3A units; k states have kA break
        points, and each moves mass twice.
        """
        _, K, A = self.model.shape
        B, gamma, top = self.rewards.bound, self.model.discount, [1.0] + [0.0] * self.order
        for m, table in self.tables(moments).items():
            top[sum(m)] = max(top[sum(m)], largest(table))
        tiny = UNDERFLOW * max(top) if B else 0.0
        breaks, given = 6 * A * A if self.common_choices else 0, self.model.prob_error / ROUNDOFF
        found = 0.0
        for k in range(1, self.order + 1):
            count = k * (2 * K + 3 * A + 10 + breaks + given) + K * 2**k + len(self.scenario_steps) + 2
            terms = sum(comb(k, i) * gamma**i * B ** (k - i) * top[i] for i in range(k + 1))
            found = max(found, (2 * count * ROUNDOFF * terms + tiny) / self.scale(k))
        return found

    def _chosen(self, table: Floats) -> Floats:
        """A_m [S, …, S]: the table averaged over the next actions of distinct branches."""
        S, j = self.model.shape[0], table.ndim
        if j in self.common_choices:
            return np.asarray(self.common_choices[j] @ table.ravel()).reshape((S,) * j)
        return _along_axes([self.policy_step] * j, table).reshape((S,) * j)

    def _side_by_side(self, m: Powers, ahead: dict[Powers, Floats]) -> Floats:
        """Array [1 + m_1 S, …, 1 + m_j S] of the tables A_l of all l ≤ m."""
        S = self.model.shape[0]
        found = np.empty([1 + power * S for power in m])
        for l in product(*(range(power + 1) for power in m)):  # noqa: E741 (as in the equation)
            at = tuple(slice(1 + (i - 1) * S, 1 + i * S) if i else 0 for i in l)
            left = [i for i in range(len(m)) if l[i]]
            order = sorted(left, key=lambda i: -l[i])
            table = ahead[_only(l, order)].transpose([order.index(i) for i in left]) if left else 1.0
            found[at] = table
        return found

    def _step(self, prob: Floats, powers: Powers) -> csr_array[np.float64]:
        """Matrix of branches in one state that share its scenario (Eq. (32)), with rows (s, a_1, …, a_c)."""
        from scipy.sparse import csr_array

        S, K, A = self.model.shape
        reward, n = self.rewards.reward.transpose(0, 2, 1), self.model.next_state.transpose(0, 2, 1)  # [S, A, K]
        weight, column = prob[:, None, :, None], np.zeros((S, 1, K, 1), np.int64)  # [S, A^c, K, choices of l]
        for m in powers:
            l = np.arange(m + 1)  # noqa: E741
            discounts = np.array([comb(m, i) for i in range(m + 1)]) * _power(np.asarray(self.model.discount), m)
            one = discounts * _power(reward, m)[..., ::-1]
            where = np.where(l == 0, 0, 1 + (l - 1) * S + n[..., None])
            shape = S, -1, K, weight.shape[3] * (m + 1)
            weight = (weight[:, :, None, :, :, None] * one[:, None, :, :, None, :]).reshape(shape)
            column = column[:, :, None, :, :, None] * (1 + m * S) + where[:, None, :, :, None, :]
            column = column.reshape(shape)
        starts = np.arange(0, weight.size + 1, K * weight.shape[3])
        size = S * A ** len(powers), prod(1 + m * S for m in powers)
        step = csr_array((weight.ravel(), column.ravel(), starts), shape=size)
        step.sum_duplicates()
        step.eliminate_zeros()
        return step


def partitions(order: int, most_parts: int) -> list[Powers]:
    """All partitions of 1, …, `order` into at most `most_parts` parts, fewest parts first."""

    def of(total: int, largest_part: int, parts: int) -> Iterator[Powers]:
        if total == 0:
            yield ()
        elif parts:
            for first in range(min(total, largest_part), 0, -1):
                yield from ((first, *rest) for rest in of(total - first, first, parts - 1))

    return sorted((m for k in range(1, order + 1) for m in of(k, k, most_parts)), key=lambda m: (len(m), m))


def table_numbers(model: TabularJMDP, order: int) -> int:
    """Total number of entries of all tables of moments."""
    X = model.shape[0] * model.shape[2]
    return sum(X ** len(m) for m in partitions(order, X))


def needed_bytes(model: TabularJMDP, coupling: Coupling, order: int) -> float:
    """Memory of a run: two vectors of moments, temporary arrays of a sweep of the largest table, and the matrices."""
    S, K, A = model.shape
    X = S * A
    if X ** min(order, X) > 2**60:  # the tables alone, without listing them
        return float(16 * X ** min(order, X))
    found = partitions(order, X)
    widths = [[max(X, 1 + power * S) for power in m] for m in found]
    done = max(prod(width) for width in widths)
    before = max(prod(width[:-1]) * (1 + m[-1] * S) for m, width in zip(found, widths, strict=True))
    ahead = sum(S ** len(m) for m in found)
    grouped = coupling.shared_in_a_state and not coupling.shared_between_states
    entries = [S * K * A ** len(m) * prod(i + 1 for i in m) for m in found if grouped or len(m) == 1]
    choices = sum(S**j * j * A for j in {len(m) for m in found}) if coupling.policy_luck == "shared" else 0
    numbers = 2 * table_numbers(model, order) + 2 * done + 3 * before + ahead
    return float(8 * numbers + 16 * sum(entries) + 32 * max(entries) + 48 * choices)


def _splits(j: int, model: TabularJMDP, coupling: Coupling) -> Iterator[Groups]:
    """Ways to split j branches into groups such that each group shares a state and its scenario; most groups first.

    Under Local these are the groups of Eq. (32).
    """
    if coupling.shared_between_states or not coupling.shared_in_a_state:
        yield [(i,) for i in range(j)]
        return
    splits: list[Groups] = [[]]
    for i in range(j):
        splits = [
            [*split[:g], (*split[g], i), *split[g + 1 :]] if g < len(split) else [*split, (i,)]
            for split in splits
            for g in range(len(split) + 1)
        ]
    yield from sorted((split for split in splits if len(split) <= model.shape[0]), key=len, reverse=True)


def _entries(table: Floats, split: Groups, A: int) -> Floats:
    """View [S, A, …, S, A, …] of the entries of M_m in which each group has a common state, group by group."""
    j = table.ndim
    group_of = {i: g for g, group in enumerate(split) for i in group}
    axes = [label for i in range(j) for label in (group_of[i], j + i)]
    wanted = [label for g, group in enumerate(split) for label in (g, *(j + i for i in group))]
    return _view(table.reshape((table.shape[0] // A, A) * j), axes, wanted)


def _view(table: Floats, axes: Sequence[int], wanted: Sequence[int]) -> Floats:
    """View of the entries whose axes with the same label agree, with axes in the order `wanted`."""
    given, result = ("".join(ascii_letters[i] for i in labels) for labels in (axes, wanted))
    return np.asarray(np.einsum(f"{given}->{result}", table))


def _merge(m: Powers, tables: dict[Powers, Floats]) -> None:
    """Merge branches at the same coordinate: where x_i = x_k, M_m is the table with m_i + m_k in one part."""
    j = len(m)
    for k in range(j):
        for i in range(k):
            parts = {axis: m[axis] + (m[k] if axis == i else 0) for axis in range(j) if axis != k}
            order = sorted(parts, key=lambda axis: -parts[axis])
            axes = [i if axis == k else axis for axis in range(j)]
            _view(tables[m], axes, order)[...] = tables[tuple(parts[axis] for axis in order)]


def _along_axes(matrices: Sequence[csr_array[np.float64]], table: Floats) -> Floats:
    """Multiply the i-th axis by the i-th matrix, for all i; the caller reshapes the result."""
    for matrix in matrices:  # each iteration multiplies the first axis and moves it to the end
        table = np.asarray(matrix @ table.reshape(matrix.shape[1], -1)).T
    return table


def _policy_step(policy: TabularPolicy) -> csr_array[np.float64]:
    """Matrix [S, X] that averages over an independent action draw of a branch."""
    from scipy.sparse import csr_array

    S, A = policy.probs.shape
    return csr_array((policy.probs.ravel(), np.arange(S * A), np.arange(0, S * A + 1, A)), shape=(S, S * A))


def _common_choices(policy: TabularPolicy, j: int) -> csr_array[np.float64]:
    """Matrix [S^j, X^j] that averages over the uniform number shared by j branches: lengths of intersections."""
    from scipy.sparse import csr_array

    S, A = policy.probs.shape
    low, high = np.moveaxis(np.stack(action_intervals(policy), axis=1).reshape(S * A, 2), 1, 0)
    length = reduce(np.minimum.outer, [high] * j) - reduce(np.maximum.outer, [low] * j)
    columns = np.flatnonzero(length > 0)
    states = np.unravel_index(columns, (S, A) * j)[::2]
    rows = np.ravel_multi_index(states, (S,) * j)
    return csr_array((length.ravel()[columns], (rows, columns)), shape=(S**j, (S * A) ** j))


def _only(powers: Sequence[int], branches: Sequence[int]) -> Powers:
    return tuple(powers[i] for i in branches)


def _power(x: Floats, most: int) -> Floats:
    """Powers 0, 1, …, `most` of x, […, most + 1], each computed from the last by one product."""
    ones = np.ones((*x.shape, 1))
    return np.cumprod(np.concatenate([ones, np.repeat(x[..., None], most, axis=-1)], axis=-1), axis=-1)
