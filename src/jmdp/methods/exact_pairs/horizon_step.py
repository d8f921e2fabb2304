"""One backward step over a finite horizon: values, TD errors and the pair operator, with bounds on rounding.

With h steps to go, v_h = r_π + γ P_π v_{h−1} is kept in double-double precision. Its TD error is
d = r + γ v_{h−1}(s') − v_h(s). The computed v define Y_h = Z_h − v_h, whose mean is 0 up to the error of v, and

    E[Y_h Ỹ_h] = E[d d̃ + γ d Y'-means + γ² Y' Ỹ']:

one sweep of `pair_operator`, without a fixed point. Its error is bounded by products e(x) e(y): an error f(x) f(y)
before the step is at most γ² √(P f²)(x) √(P f²)(y) after it, and each step adds s(x) s(y), so that

    e_h² = γ² P_π e_{h−1}² + s²          (Cauchy–Schwarz, twice).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Booleans, Floats
from jmdp.methods.shared import double_double as dd
from jmdp.methods.shared.double_double import DoubleDouble
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.policy_chain import joint_steps
from jmdp.methods.shared.return_range import RewardUnits
from jmdp.methods.shared.same_state import StateClasses
from jmdp.methods.shared.shaping import Shaped, action_values, mean_shifts
from jmdp.methods.shared.state_units import StateUnits
from jmdp.models.coupling import Coupling
from jmdp.models.policy import StackedTable, TabularPolicy
from jmdp.models.tabular import TabularJMDP

_UP = 1 + 2.0**-40

_SPLIT = 2.0**-40
"""Smallest λ in f g̃ + g f̃ ≤ (λ f + g/λ)(λ f̃ + g̃/λ): g is some 2⁻⁹⁰ of f, or as the error of the probabilities."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Parts of the problem common to all steps; rewards are scaled to size 1."""

    model: TabularJMDP
    coupling: Coupling
    rewards: RewardUnits
    final: Floats  # [S], final values of states, unscaled
    blocks: StackedTable | None

    @cached_property
    def prob(self) -> Floats:
        """Probabilities [S, K], 0 in terminal states."""
        return np.asarray(self.model.prob * ~self.model.terminal[:, None])

    def mean_of_action(self, values: Floats) -> Floats:
        """Means [S, A] of `values` [S, K, A] over scenarios."""
        return np.asarray(np.einsum("sk,ska->sa", self.prob, values))


@dataclass(frozen=True, eq=False)
class Values:
    """Values and moments of single returns with a given number of steps to go, with errors."""

    value: DoubleDouble  # [S]
    error: Floats  # [S], of the value
    moments: list[Floats]  # [S] each, E[Y^o], o = 0, 1, …
    pair_error: Floats  # [S], e: the error of second moments of x and y is at most e(x) e(y)
    earns: Booleans  # [S], True if a nonzero reward is possible; elsewhere all values are exactly 0


class HorizonStep(PairOperator):
    """Pair operator of one backward step, from the values `before` to those with one more step to go."""

    def __init__(self, problem: Problem, policy: TabularPolicy, before: Values) -> None:
        self._problem, self._before = problem, before
        self.model, self.policy, self.coupling, self.blocks = problem.model, policy, problem.coupling, problem.blocks
        self.precision, self.units = "float64", StateUnits.equal(problem.model)
        S = self.model.shape[0]
        self.size, self.square, self.prob = S * S, self.model.discount**2, problem.prob
        self.shaped = self._shaped()
        self.td, self.centred = self.shaped.td, self.shaped.centred
        self.ratio = self.ratio_ahead = np.ones(self.model.shape)
        self.joint_steps = []
        if self.coupling.shared_in_a_state or self.coupling.policy_luck == "shared":
            self.joint_steps = joint_steps(self.model, policy, self.coupling, self.td)
        self.V = before.moments[2]  # of merged branches after this step
        self._set_same_state()
        self._set_error_scales()
        self.after = self._values()

    def diagonal(self, H: Floats) -> Floats | None:
        """H(s, s) after the step; None if the between-state recursion applies."""
        if self.blocks is not None or not self.coupling.shared_in_a_state:
            return None
        return self.after.moments[2] if self.same_state is None else self.same_state.diagonal(H)

    def action_error(self) -> Floats:
        """[S, A], f: the error of the covariance of the returns of given actions x and y is at most f(x) f(y)."""
        ahead = self._problem.mean_of_action
        n, before = self.model.next_state, self._before
        squares = ahead(self.centred**2)
        spread = squares + self.square * ahead((before.moments[2] + before.pair_error**2)[n])
        slip = self.shaped.centred_errors + self.model.discount * np.sqrt(ahead(before.error[n] ** 2))
        later = self.square * ahead(before.pair_error[n] ** 2)
        return self._error(spread, np.sqrt(squares), slip, later, self._action_earns) + self.shaped.mean_errors

    @cached_property
    def _action_earns(self) -> Booleans:
        """[S, A], True if a nonzero reward can follow this action."""
        later = self._before.earns[self.model.next_state] & (self.model.discount > 0)
        possible = (self.prob > 0)[:, :, None] & ((self.model.reward != 0) | later)
        return np.asarray(possible.any(axis=1))

    def _values(self) -> Values:
        before, pi = self._before, self.policy.probs
        n, gamma = self.model.next_state, self.model.discount
        order = len(before.moments) - 1

        def drawn(values: Floats) -> Floats:
            return np.asarray((self._problem.mean_of_action(values) * pi).sum(axis=1))

        moments = [np.ones(len(pi)), np.zeros(len(pi))]
        for o in range(2, order + 1):
            terms = sum(math.comb(o, m) * gamma**m * self.td ** (o - m) * before.moments[m][n] for m in range(o + 1))
            moments.append(drawn(np.asarray(terms)))
        squares = drawn(self.td**2)
        later = (before.moments[2] + before.pair_error**2)[n]
        spread = squares + self.square * drawn(later)
        if self.coupling.policy_luck == "shared":
            # Rounding of break points can move mass to any action of positive probability, however unlikely.
            given = self._problem.mean_of_action(self.td**2 + self.square * later)
            spread = np.maximum(spread, np.where(pi > 0, given, 0.0).max(axis=1))
        slip = self.shaped.td_errors + gamma * np.sqrt(drawn(before.error[n] ** 2))
        earns = np.asarray((self._action_earns & (pi > 0)).any(axis=1))
        error = self._error(spread, np.sqrt(squares), slip, self.square * drawn(before.pair_error[n] ** 2), earns)
        return Values(self.shaped.value, self.shaped.value_errors, moments, error, earns)

    def _error(self, spread: Floats, rms: Floats, slip: Floats, later: Floats, earns: Booleans) -> Floats:
        """e or f, from E[d²] + γ² E[V'], √E[d²], the error of d and of the mean of Y', and γ² E[e'²]."""
        size = float(rms.max())
        split = min(max(math.sqrt(float(slip.max()) / size), _SPLIT), 1.0) if size else _SPLIT
        own = self.rounding * ROUNDOFF * spread + (split * rms + slip / split) ** 2
        return np.where(earns, np.sqrt((later + own + UNDERFLOW) * _UP) * _UP, 0.0)

    def _shaped(self) -> Shaped:
        """Values with one more step to go, and TD errors."""
        model, reward, before = self.model, self._problem.rewards.reward, self._before
        n, gamma = model.next_state, np.full(1, model.discount)
        later = before.value.at(n)
        ahead = dd.add_float(dd.scale(later, gamma), reward)
        value = self._mean(ahead)
        here = value.at(np.s_[:, None, None])
        td = dd.add(ahead, dd.negative(here))
        td = DoubleDouble(*(np.where(model.terminal[:, None, None], 0.0, word) for word in td))
        mean, rest, centred = action_values(model, value, td)
        noise = self._noise(value)
        drawn = np.where(self.policy.probs > 0, noise, 0.0).max(axis=1)
        later_error = model.discount * self._problem.mean_of_action(before.error[n])
        later_error = later_error + mean_shifts(model, centred)
        value_error = ((later_error * self.policy.probs).sum(axis=1) + drawn) * _UP
        rest_errors = (later_error + noise) * _UP
        return Shaped(
            rewards=self._problem.rewards,
            gain=np.zeros(model.shape[0]),
            relative=value,
            value=value,
            value_errors=value_error,
            td=td.high,
            centred=centred,
            td_errors=2 * drawn,
            centred_errors=2 * noise,
            mean=mean,
            mean_errors=(np.abs(rest) + rest_errors) * _UP,
            mean_rest=rest,
            rest_errors=rest_errors,
            classes=StateClasses.one(model.shape[0]),
        )

    def _mean(self, ahead: DoubleDouble) -> DoubleDouble:
        """Mean [S] over scenarios and actions; rows are divided by their sums, to first order in (sum − 1)."""
        model, pi = self.model, self.policy.probs
        over = dd.total(dd.scale(ahead, model.prob[:, :, None]), axis=1)
        over = dd.add(over, dd.scale(over, -_missing(model.prob)[:, None]))
        mean = dd.total(dd.scale(over, pi), axis=1)
        mean = dd.add(mean, dd.scale(mean, -_missing(pi)))
        return DoubleDouble(*(np.where(model.terminal, 0.0, word) for word in mean))

    def _noise(self, value: DoubleDouble) -> Floats:
        """[S, A], double-double rounding error of a TD error and of its means; 0 where no reward is possible."""
        _, K, A = self.model.shape
        size = np.abs(self._problem.rewards.reward) + np.abs(self._before.value.high)[self.model.next_state]
        possible = (self.prob > 0)[:, :, None]
        most = np.where(possible, size, 0.0).max(axis=1)
        most = (
            most
            + np.max(np.where(self.policy.probs > 0, most, 0.0), axis=1, keepdims=True)
            + np.abs(value.high)[:, None]
        )
        units = K * K + A * A + 8 * (K + A + 8)
        # The state's value is subtracted for each action, so its error enters even if this action has no reward.
        earns = self._action_earns | (self._action_earns & (self.policy.probs > 0)).any(axis=1, keepdims=True)
        return np.where(earns, units * dd.RELATIVE_ERROR * most + UNDERFLOW, 0.0)


def _missing(rows: Floats) -> Floats:
    """[S], sum of each row minus 1."""
    return dd.add_float(dd.total(dd.of(rows), axis=1), -np.ones(1)).high
