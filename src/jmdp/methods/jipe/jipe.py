"""JIPE: the paper's joint iterative policy evaluation, on tuples of (state, action).

Sweep of the paper's operator T_n (Eq. (33)) on joint moments of distinct branches, of every order up to n.

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

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import product
from math import comb, prod
from string import ascii_letters
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Floats, largest
from jmdp.base.interval import Estimate
from jmdp.base.machine import budget, require
from jmdp.base.progress import sweep_bar
from jmdp.base.settings import nonnegative, refuse_overflow, whole
from jmdp.methods.method import COVERS, Method
from jmdp.methods.shared.fixed_point import StoppingRule, Sweeps, iterate
from jmdp.methods.shared.policy_chain import action_intervals, shared_scenarios
from jmdp.methods.shared.return_range import ReturnRange, RewardUnits
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.certificate import Certificate
from jmdp.results.evaluation import Evaluation
from jmdp.results.parts import CrossCovariances, Moments

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


@dataclass(frozen=True)
class JIPE(Method[Evaluation]):
    """The paper's JIPE-n (Section 5.3): iterates M ← T_n M on joint moments of all orders up to n, from 0.

    T_n is Eq. (33); JIPE-2 is the iteration Eq. (21) of Definition 5.1. T_n is a γ-contraction in
    ‖M‖_λ = max_k ‖M_k‖∞/λ_k (Eq. (34); Lemma 5.2, repeated as Lemma A.1, for n = 2), λ_k = (2B/(1 − γ))^(k − 1), for
    rewards up to any B (the paper's λ assumes [0, 1]). So the error falls as γ^k after k sweeps (Eq. (22)), and
    ‖M − M*‖_λ ≤ ‖M − T_n M‖_λ/(1 − γ) (Eq. (23); both are Theorem 5.3, repeated as Theorem A.2). Rounding is added to
    the residual. Here a repeated coordinate is a power of a single return, while the paper's T_n draws its next actions
    independently.

    `ExactPairs` gives the same moments of two coordinates with A² times less memory and with far smaller error near
    γ = 1, where JIPE computes a variance as the difference of two large second moments. Use JIPE to reproduce the
    paper's algorithm, or for joint moments of three or more coordinates.

    Parameters
    ----------
    order
        Largest order of the moments, at least 2.
    tolerance
        Stop when the certified ‖M − M*‖_λ (Eq. (23)) is at most this fraction of B/(1 − γ), the bound on returns.
    max_sweeps
        Maximum number of sweeps.
    memory_budget
        Memory limit in bytes; by default 80% of the free memory. Several tables of (S A)^order numbers are required.
    """

    covers = COVERS["JIPE()"]

    order: int = 2
    tolerance: float = 1e-10
    max_sweeps: int = 100_000
    memory_budget: int | None = None

    def __post_init__(self) -> None:
        whole(self, "order", 2, 40)
        nonnegative(self, "tolerance")
        whole(self, "max_sweeps", 1)
        whole(self, "memory_budget", 1, optional=True)

    def on_table(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, progress: bool) -> Evaluation:
        """Evaluate one policy; see `jmdp.evaluate`."""
        self._require(model, coupling)
        operator = JointBellman(model, policy, coupling, self.order)
        allowed = self.tolerance * operator.rewards.bound / (1 - model.discount)

        def error(moments: Floats, residual: float) -> float:
            return (residual + operator.floor(moments)) / (1 - model.discount) * (1 + 2.0**-40)

        scale = operator.rewards.scale
        stopping = StoppingRule(
            target=allowed * (1 - model.discount),
            floor=operator.floor,
            rate=model.discount,
            max_sweeps=self.max_sweeps,
            enough=lambda moments, residual: error(moments, residual) <= allowed,
        )
        with sweep_bar(type(self).__name__, progress, scale.restore) as report:
            tables = np.zeros(operator.size), np.zeros(operator.size)
            found = iterate(Sweeps(operator.measured), *tables, stopping, report)
        off = error(found.point, found.residual)
        table = MomentTable(operator, found.point, off)
        means, squares = table.tables[1,], table.tables[2,]
        size = largest(means)
        rounding = 4 * ROUNDOFF * (size * size + largest(squares))
        covariance_off = operator.scale(2) * off + 2 * size * off + off * off + rounding
        S, _, A = model.shape
        return Evaluation(
            mean=scale.restore(means.reshape(S, A)),
            covariance=np.array(
                [[[table.cross_covariance(s, a, s, b) for b in range(A)] for a in range(A)] for s in range(S)]
            ),
            certificate=Certificate.certified(
                scale.restore_error(off), scale.restore_error(covariance_off, 2), model.discount, model.reward_bound
            ),
            outcome=found.outcome,
            coupling=coupling,
            method=self,
            states=model.states,
            actions=model.actions,
            residuals=scale.restore(found.residuals),
            cross=table,
            moments=table,
            ranges=ReturnRange(model, policy),
        )

    def _require(self, model: TabularJMDP, coupling: Coupling) -> None:
        """Raise if moments can overflow or tables do not fit in memory, before anything is allocated."""
        refuse_overflow(self.order, model.discount)
        X = model.shape[0] * model.shape[2]
        what, fix = f"JIPE on {X} coordinates", "Use ExactPairs(), which needs A² times less memory"
        if self.order > 2:
            what += f" up to order {self.order}"
            fix = f"Use ExactPairs(order={self.order}) for moments of two coordinates"
        require(needed_bytes(model, coupling, self.order), budget(self.memory_budget), what, fix)


class MomentTable(CrossCovariances, Moments):
    """Final moments of JIPE, with a bound on their error."""

    certified = False  # covariances between states

    def __init__(self, operator: JointBellman, moments: Floats, error: float) -> None:
        self.operator = operator
        self.moments = moments  # for rewards scaled to size 1
        self.error = error  # of these moments, in ‖·‖_λ

    @property
    def order(self) -> int:
        """The highest available order."""
        return self.operator.order

    @property
    def tables(self) -> dict[tuple[int, ...], Floats]:
        """Tables M_m [X, …, X] by partition m."""
        return self.operator.tables(self.moments)

    def cross_covariance(self, s: int, a: int, t: int, b: int) -> float:
        """Return Cov(Z(s, a), Z(t, b)) for any two coordinates."""
        x, y = (s, a), (t, b)
        found = self._raw([x, y]) - self._raw([x]) * self._raw([y])
        if x == y:  # rounding must not make a variance negative
            found = max(0.0, found)
        return self.operator.rewards.scale.restore(found, 2)

    def moment(self, coordinates: Sequence[tuple[int, int]]) -> Estimate:
        """E[Π Z(x)] over at most `order` coordinates (Eq. (31)); a repeated coordinate is a power."""
        k = len(coordinates)
        return self._restored(self._raw(coordinates), self._off(k), k)

    def gap_moments(self, s: int, a: int, b: int) -> tuple[Estimate, ...]:
        """Central moments of G = Z(s, a) − Z(s, b), a ≠ b, of orders 0, 1, …, `order`.

        With c the computed mean of G, E[(G − c)^k] is linear in the available moments. The exact central moment is
        E[(G − E G)^k] = Σ_i C(k, i) E[(G − c)^i] (c − E G)^(k − i), and |c − E G| is at most the error of c.
        """
        x, y = (s, a), (s, b)
        c = Fraction(self._raw([x])) - Fraction(self._raw([y]))
        size = abs(c)
        raw, central, off = [Fraction(1)], [Fraction(1)], [Fraction(0)]
        result = [Estimate.around(1.0, 0.0), Estimate.around(0.0, 0.0)]
        for k in range(1, self.order + 1):
            products = [Fraction(self._raw([x] * i + [y] * (k - i))) for i in range(k + 1)]
            raw.append(sum((math.comb(k, i) * (-1) ** (k - i) * products[i] for i in range(k + 1)), Fraction(0)))
            central.append(sum((math.comb(k, i) * (-c) ** (k - i) * raw[i] for i in range(k + 1)), Fraction(0)))
            errors = (math.comb(k, i) * size ** (k - i) * 2**i * Fraction(self._off(i)) for i in range(1, k + 1))
            off.append(sum(errors, Fraction(0)))
            if k == 1:
                continue
            moved = (math.comb(k, i) * (abs(central[i]) + off[i]) * off[1] ** (k - i) for i in range(k))
            error = off[k] + sum(moved, Fraction(0))
            value = central[k] if k % 2 else max(central[k], Fraction(0))
            rounding = (abs(value) + error) * Fraction(2.0**-50)
            around = self._restored(float(value), float(error + rounding), k)
            result.append(around if k % 2 else Estimate(around, max(0.0, around.low), around.high))
        return tuple(result)

    def _raw(self, coordinates: Sequence[tuple[int, int]]) -> float:
        """E[Π Z(x)] for rewards scaled to size 1, from the tables; one branch per distinct coordinate."""
        A = self.operator.model.shape[2]
        powers = Counter(s * A + a for s, a in coordinates)
        order = sorted(powers, key=lambda x: (-powers[x], x))
        return float(self.tables[tuple(powers[x] for x in order)][tuple(order)])

    def _off(self, k: int) -> float:
        """Bound on the error of moments of order k ≥ 1."""
        return self.operator.scale(k) * self.error * (1 + 2.0**-40)

    def _restored(self, value: float, error: float, k: int) -> Estimate:
        """Moment of order k ± `error`, rescaled to the original rewards; (−∞, ∞) if it overflows."""
        scale = self.operator.rewards.scale
        restored = scale.restore(value, k)
        if math.isinf(restored):
            return Estimate(restored, -math.inf, math.inf)
        return Estimate.around(restored, scale.restore_error(error, k))
