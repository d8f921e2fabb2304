"""One sweep over state pairs, and the lookahead to covariances, in double-double arithmetic; see `pair_operator`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.methods.shared import double_double as dd
from jmdp.methods.shared.double_double import DoubleDouble
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.shaping import td_errors


class DoubleSweep:
    """Sweep of one operator on tables and variances in the states' units."""

    def __init__(self, operator: PairOperator) -> None:
        self.operator, self.model = operator, operator.model
        model, policy, units, shaped = operator.model, operator.policy, operator.units, operator.shaped
        td, _ = td_errors(model, policy, shaped.rewards.reward, shaped.gain, shaped.relative)
        self.td = _times_power(td, -units.state[:, None, None], operator.ratio > 0)
        self._policy_correction, self._scenario_correction = map(_row_corrections, (policy.probs, model.prob))
        advantage = self._over_scenarios(td, slice(None))
        centred = dd.add(td, dd.negative(advantage.at(np.s_[:, None])))
        self.centred = _times_power(centred, -units.coordinate[:, None, :], operator.ratio_ahead > 0)
        _, K, A = model.shape
        self.units_of_rounding = 8 * (K * A + K + A + 16) + 2 * (K * K + A * A)
        if operator.coupling.policy_luck == "shared":
            # An end of an interval has an error of A² + 8 A + 8 units; a pair of states has 2 A, each moves mass twice.
            self.units_of_rounding += 4 * A * (A * A + 8 * A + 8)

    def _residual(self, H: DoubleDouble, V: DoubleDouble) -> Floats:
        """T(H) − H [S, S], computed in double-double arithmetic and then rounded."""
        operator, S = self.operator, self.model.shape[0]
        swept = DoubleDouble(np.zeros((S, S)), np.zeros((S, S)))
        if operator.joint_steps:
            swept = self._shared_draws(H) if operator.coupling.policy_luck == "shared" else self._own_draws(H)
        change = dd.add(swept, dd.negative(H)).high
        change = np.tril(change) + np.tril(change, -1).T
        if operator.blocks is not None:
            operator.blocks.keep_between(change)
            if operator.same_place is not None:
                one, other = operator.same_place.one, operator.same_place.other
                placed = dd.add(self._same_place(H), dd.negative(H.at((one, other)))).high
                change[one, other] = change[other, one] = placed
        elif operator.coupling.shared_in_a_state:
            own = V if operator.same_state is None else self._same_state(H, V)
            np.fill_diagonal(change, dd.add(own, dd.negative(H.at(np.diag_indices(S)))).high)
        return change

    def _own_draws(self, H: DoubleDouble) -> DoubleDouble:
        """Entries [S, S] between states if branches draw their actions independently."""
        operator, S = self.operator, self.model.shape[0]
        if not operator.coupling.shared_between_states:
            return self._discounted(_both_sides(H, self._one_step))
        swept = DoubleDouble(np.zeros((S, S)), np.zeros((S, S)))
        row, correction = self._common_row()
        for k in np.flatnonzero(row):
            gained = self._over_actions(self.td.at(np.s_[:, k]), slice(None))
            both = dd.multiply(gained.at(_COLUMN), gained.at(_ROW))
            both = dd.add(both, self._discounted(_both_sides(H, partial(self._one_scenario, int(k)))))
            swept = dd.add(swept, dd.scale(both, row[k : k + 1]))
        return dd.add(swept, dd.scale(swept, correction))

    def _shared_draws(self, H: DoubleDouble) -> DoubleDouble:
        """Entries [S, S] between states if one uniform number selects the actions of all branches."""
        S, _, A = self.model.shape
        states = np.arange(S)
        swept = DoubleDouble(np.zeros((S, S)), np.zeros((S, S)))
        for a in range(A):
            for b in range(A):
                psi = self._overlap(states[:, None], states[None, :], a, b)
                swept = dd.add(swept, dd.multiply(psi, self._given_actions(H, a, b)))
        return swept

    def _given_actions(self, H: DoubleDouble, a: int, b: int) -> DoubleDouble:
        """E[d_a(s) d_b(t) + γ² H(n_a, n_b)] [S, S] for two branches in different states that take actions a and b."""
        model, S = self.model, self.model.shape[0]
        if not self.operator.coupling.shared_between_states:
            gained = self._over_scenarios(self.td, slice(None))
            both = dd.multiply(gained.at(np.s_[:, a, None]), gained.at(np.s_[None, :, b]))
            ahead = self._one_step(self._one_step(H, a).transposed, b).transposed
            return dd.add(both, self._discounted(ahead))
        total = DoubleDouble(np.zeros((S, S)), np.zeros((S, S)))
        row, correction = self._common_row()
        for k in np.flatnonzero(row):
            both = dd.multiply(self.td.at(np.s_[:, k, a, None]), self.td.at(np.s_[None, :, k, b]))
            n, m = model.next_state[:, k, a], model.next_state[:, k, b]
            ratio = np.multiply.outer(self.operator.ratio[:, k, a], self.operator.ratio[:, k, b])
            ahead = self._discounted(H.at((n[:, None], m[None, :])).times(ratio))
            total = dd.add(total, dd.scale(dd.add(both, ahead), row[k : k + 1]))
        return dd.add(total, dd.scale(total, correction))

    def _same_place(self, H: DoubleDouble) -> DoubleDouble:
        """H at the pairs of `SamePlace` after a sweep."""
        operator, model = self.operator, self.model
        assert operator.same_place is not None
        x, y = operator.same_place.one, operator.same_place.other
        _, K, A = model.shape
        total = DoubleDouble(np.zeros(x.size), np.zeros(x.size))
        for a in range(A):
            for b in range(A):
                inner = DoubleDouble(np.zeros(x.size), np.zeros(x.size))
                for k in range(K):
                    both = dd.multiply(self.td.at((x, k, a)), self.td.at((y, k, b)))
                    ahead = H.at((model.next_state[x, k, a], model.next_state[y, k, b]))
                    ahead = self._discounted(ahead.times(operator.ratio[x, k, a] * operator.ratio[y, k, b]))
                    inner = dd.add(inner, dd.scale(dd.add(both, ahead), model.prob[x, k]))
                total = dd.add(total, dd.multiply(self._joint_chance(x, y, a, b), inner))
        return dd.add(total, dd.scale(total, self._scenario_correction[x]))

    def _joint_chance(self, x: Integers, y: Integers, a: int, b: int) -> DoubleDouble:
        """Probability that branches in x and y take actions a and b."""
        if self.operator.coupling.policy_luck == "shared":
            return self._overlap(x, y, a, b)
        pi, correction = self.operator.policy.probs, self._policy_correction
        both = dd.scale(dd.of(pi[x, a]), pi[y, b])
        both = dd.add(both, dd.scale(both, correction[x]))
        return dd.add(both, dd.scale(both, correction[y]))

    def _overlap(self, x: Integers, y: Integers, a: int, b: int) -> DoubleDouble:
        """Length of the interval of a shared uniform number that selects action a in x and action b in y."""
        ends = self._ends
        high = dd.minimum(ends.at((x, a + 1)), ends.at((y, b + 1)))
        low = dd.negative(dd.minimum(dd.negative(ends.at((x, a))), dd.negative(ends.at((y, b)))))
        length = dd.add(high, dd.negative(low))
        return length.times(length.high > 0)

    @cached_property
    def _ends(self) -> DoubleDouble:
        """[S, A + 1], ends of the intervals of a uniform number that select each action; see `cumulative_rows`."""
        pi = self.operator.policy.probs
        S, A = pi.shape
        ends = DoubleDouble(np.zeros((S, A + 1)), np.zeros((S, A + 1)))
        total = dd.of(np.zeros(S))
        for a in range(A):
            total = dd.add_float(total, pi[:, a])
            scaled = dd.add(total, dd.scale(total, self._policy_correction))
            last = ~(pi[:, a + 1 :] > 0).any(axis=1)
            ends.high[:, a + 1], ends.low[:, a + 1] = np.where(last, 1.0, scaled.high), np.where(last, 0.0, scaled.low)
        return ends

    def _same_state(self, H: DoubleDouble, V: DoubleDouble) -> DoubleDouble:
        """H(s, s) [S] after a sweep: Σ p Σ π π [ d_a d_b + γ² (H(n_a, n_b) if a ≠ b else V(n_a)) ]."""
        operator = self.operator
        pi = operator.policy.probs[:, None, :]
        ratio = operator.ratio[:, :, :, None] * operator.ratio[:, :, None, :]
        following = self._pairs_ahead(H, V, slice(None), ratio)
        inner = dd.total(dd.scale(following, pi[:, :, None, :]), axis=3)
        inner = dd.add(inner, dd.scale(inner, self._policy_correction[:, None, None]))
        drawn = self._discounted(self._over_actions(inner, slice(None)))
        gained = self._over_actions(self.td, slice(None))
        whole = self._over_scenarios(dd.add(dd.multiply(gained, gained), drawn).at(_LAST), slice(None))
        return whole.at(_FIRST).times(~self.model.terminal)

    def _covariance(self, H: DoubleDouble, V: DoubleDouble) -> DoubleDouble:
        """[S, A, A], by a one-step lookahead."""
        operator, (S, K, A) = self.operator, self.model.shape
        found = DoubleDouble(np.zeros((S, A, A)), np.zeros((S, A, A)))
        at_once = max(1, 100_000 // (K * A * A))
        for first in range(0, S, at_once):
            states = slice(first, first + at_once)
            gained, ratio = self.centred.at(states), operator.ratio_ahead[states]
            product = dd.multiply(gained.at(np.s_[:, :, :, None]), gained.at(np.s_[:, :, None, :]))
            ratio = ratio[:, :, :, None] * ratio[:, :, None, :]
            ahead = dd.add(product, self._discounted(self._pairs_ahead(H, V, states, ratio)))
            flat = DoubleDouble(ahead.high.reshape(-1, K, A * A), ahead.low.reshape(-1, K, A * A))
            part = self._over_scenarios(flat, states).times(~self.model.terminal[states, None])
            found.high[states], found.low[states] = part.high.reshape(-1, A, A), part.low.reshape(-1, A, A)
        if not operator.coupling.shared_in_a_state:
            self._set_distinct(found, H)
        low = np.tril_indices(A, -1)
        for word in found:
            word[:, *low] = word[:, *low[::-1]]
        return found

    def _set_distinct(self, found: DoubleDouble, H: DoubleDouble) -> None:
        """Set the covariances of different actions of a state whose branches have scenarios of their own."""
        model, operator = self.model, self.operator
        for a, b in np.argwhere(~np.eye(model.shape[2], dtype=bool)):
            if not operator.joint_steps:  # no shared randomness: see `PairOperator`
                found.high[:, a, b] = found.low[:, a, b] = 0.0
                continue
            n, m = model.next_state[:, :, a, None], model.next_state[:, None, :, b]
            ratio = operator.ratio_ahead[:, :, a, None] * operator.ratio_ahead[:, None, :, b]
            following = self._discounted(H.at((n, m)).times(ratio))
            ahead = self._over_scenarios(following, slice(None))  # of one branch, then of the other
            ahead = self._over_scenarios(ahead.at(_LAST), slice(None)).times(~model.terminal[:, None])
            found.high[:, a, b], found.low[:, a, b] = ahead.high[:, 0], ahead.low[:, 0]

    def _pairs_ahead(self, H: DoubleDouble, V: DoubleDouble, states: slice, ratio: Floats) -> DoubleDouble:
        """[·, K, A, A], H(n_a, n_b) in units of this state; V(n_a) where a = b."""
        n = self.model.next_state[states]
        following = H.at((n[:, :, :, None], n[:, :, None, :]))
        for word, variance in zip(following, V, strict=True):
            np.einsum("skaa->ska", word)[...] = variance[n]
        return following.times(ratio)

    def _one_step(self, X: DoubleDouble, action: int | None = None) -> DoubleDouble:
        """P X [S, S]; of a branch that takes the given action, or draws it."""
        prob, total = self.operator.prob, DoubleDouble(np.zeros_like(X.high), np.zeros_like(X.low))
        for k in range(self.model.shape[1]):
            following = self._one_scenario(k, X) if action is None else self._following(X, k, action)
            total = dd.add(total, dd.scale(following, prob[:, k, None]))
        return dd.add(total, dd.scale(total, self._scenario_correction[:, None]))

    def _one_scenario(self, k: int, X: DoubleDouble) -> DoubleDouble:
        """N_k X [S, S]: the step of one branch given scenario k."""
        total = DoubleDouble(np.zeros_like(X.high), np.zeros_like(X.low))
        for a in range(self.model.shape[2]):
            total = dd.add(total, dd.scale(self._following(X, k, a), self.operator.policy.probs[:, a, None]))
        return dd.add(total, dd.scale(total, self._policy_correction[:, None]))

    def _following(self, X: DoubleDouble, k: int, a: int) -> DoubleDouble:
        """Rows of X [S, S] at the next states."""
        return X.at(self.model.next_state[:, k, a]).times(self.operator.ratio[:, k, a, None])

    def _common_row(self) -> tuple[Floats, Floats]:
        live = np.flatnonzero(~self.model.terminal)
        s = int(live[0]) if live.size else 0
        return self.model.prob[s], self._scenario_correction[s : s + 1]

    def _discounted(self, x: DoubleDouble) -> DoubleDouble:
        gamma = np.full(1, self.model.discount)
        return dd.scale(dd.scale(x, gamma), gamma)

    def _over_all(self, x: DoubleDouble) -> DoubleDouble:
        mean = self._over_actions(x, slice(None))
        return self._over_scenarios(mean.at(_LAST), slice(None)).at(_FIRST)

    def _over_actions(self, x: DoubleDouble, states: slice) -> DoubleDouble:
        """Mean over the policy's actions along the last axis."""
        pi, correction = self.operator.policy.probs[states], self._policy_correction[states]
        middle = (1,) * (x.high.ndim - 2)
        mean = dd.total(dd.scale(x, pi.reshape(len(pi), *middle, -1)), axis=x.high.ndim - 1)
        return dd.add(mean, dd.scale(mean, correction.reshape(-1, *middle)))

    def _over_scenarios(self, x: DoubleDouble, states: slice) -> DoubleDouble:
        """Mean of [·, K, ·] over scenarios."""
        mean = dd.total(dd.scale(x, self.model.prob[states, :, None]), axis=1)
        return dd.add(mean, dd.scale(mean, self._scenario_correction[states, None]))


def _row_corrections(rows: Floats) -> Floats:
    """[S], 1 / (row sum) − 1."""
    over = dd.add_float(dd.total(dd.of(rows), axis=1), -np.ones(1)).high
    return np.asarray(over * over - over)


def _times_power(x: DoubleDouble, exponent: Integers, used: Booleans) -> DoubleDouble:
    return DoubleDouble(*(np.where(used, np.ldexp(np.where(used, word, 0.0), exponent), 0.0) for word in x))


_COLUMN, _ROW = np.s_[:, None], np.s_[None, :]
_FIRST, _LAST = np.s_[:, 0], np.s_[:, :, None]


def _both_sides(X: DoubleDouble, step: Callable[[DoubleDouble], DoubleDouble]) -> DoubleDouble:
    return step(step(X).transposed)
