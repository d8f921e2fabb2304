"""Units for the returns of each state, used for certificates and tolerances.

Let w(s) be the power of two just above the largest standard deviation of any return that the policy can reach from s.
No step leads to a larger unit, so for H(s, t) / (w(s) w(t)) the operator of `pair_operator` is still γ² times a
monotone substochastic one. One residual in the maximum norm then bounds the error of every pair of states in its own
units, w(s) w(t): a part of the model with large rewards does not widen the intervals of a part that cannot reach it.
Multiplication by powers of two is exact, so the units add no rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.methods.shared.policy_chain import policy_chain_solver
from jmdp.methods.shared.same_state import happens
from jmdp.methods.shared.shaping import Shaped
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

_SMALLEST = -900.0
"""Exponent of the smallest unit, which is also used where no reward is possible."""

_MOST_REFINEMENTS = 10


@dataclass(frozen=True, eq=False)
class StateUnits:
    """Units of returns, as exponents of 2."""

    state: Integers  # [S], for the returns of each state with actions drawn from the policy
    coordinate: Integers  # [S, A], for each return

    @classmethod
    def equal(cls, model: TabularJMDP) -> StateUnits:
        """The unit 1 for all returns."""
        S, _, A = model.shape
        return cls(np.zeros(S, np.int64), np.zeros((S, A), np.int64))

    @classmethod
    def of(cls, model: TabularJMDP, policy: TabularPolicy, shaped: Shaped) -> StateUnits:
        """Units from the returns reachable from each state."""
        reachable_max, used = shaped.classes.reachable_max, happens(model, policy)
        steps = np.where(used, np.abs(shaped.td), 0.0).max(axis=(1, 2))
        rough = _whole(reachable_max(_exponent(steps)))
        V, _ = variances(model, policy, *in_units(model, shaped.td, used, rough, rough[:, None]))
        # Units are at least the errors of TD errors, so that these are at most 1 in units.
        state = _whole(reachable_max(np.maximum(rough + np.ceil(_exponent(V) / 2), _exponent(shaped.td_errors))))
        possible = np.broadcast_to((model.prob > 0)[:, :, None] & ~model.terminal[:, None, None], model.shape)
        ahead = np.where(possible, state[model.next_state].astype(float), -np.inf).max(axis=1)
        size = np.where(possible, np.abs(shaped.centred), 0.0).max(axis=1)
        ahead = np.maximum(ahead, _exponent(shaped.centred_errors))
        first = _whole(np.maximum(ahead, _exponent(size)))
        gained, ratio = in_units(model, shaped.centred, possible, state, first)
        own = np.ldexp(V, 2 * (rough - state))
        terms = gained**2 + model.discount**2 * ratio**2 * own[model.next_state]
        variance = np.einsum("sk,ska->sa", model.prob * ~model.terminal[:, None], terms)
        return cls(state, _whole(np.maximum(ahead, first + np.ceil(_exponent(variance) / 2))))


def in_units(
    model: TabularJMDP, td: Floats, used: Booleans, following: Integers, here: Integers
) -> tuple[Floats, Floats]:
    """td and next states' units, divided by the unit 2**`here` ([S, 1] or [S, A]), both [S, K, A]; 0 if not `used`."""
    exponent = np.broadcast_to(here[:, None, :], model.shape)
    gained = np.where(used, np.ldexp(np.where(used, td, 0.0), -exponent), 0.0)
    ratio = np.where(used, np.ldexp(1.0, np.where(used, following[model.next_state] - exponent, 0)), 0.0)
    return gained, ratio


def variances(model: TabularJMDP, policy: TabularPolicy, td: Floats, ratio: Floats) -> tuple[Floats, float]:
    """V(s) = Σ p π (d² + γ² V(s')) in the states' units, by LU with refinement; and its residual."""
    square, one_minus_square = model.discount**2, (1 - model.discount) * (1 + model.discount)
    solve = policy_chain_solver(model, policy, square, one_minus_square, ratio**2).forward
    prob = model.prob * ~model.terminal[:, None]
    squares, times = td**2, square * ratio**2
    V = best = np.zeros(model.shape[0])
    best_residual = math.inf
    for _ in range(_MOST_REFINEMENTS):
        per_action = np.einsum("sk,ska->sa", prob, squares + times * V[model.next_state])
        change = (per_action * policy.probs).sum(axis=1) - V
        residual = float(np.abs(change).max())
        if not residual < best_residual / 2:
            break
        best, best_residual = V, residual
        V = np.maximum(V + solve(change), 0.0)
    return best, best_residual


def _exponent(size: Floats) -> Floats:
    """Smallest e with size < 2**e; −∞ for 0."""
    return np.where(size > 0, np.frexp(size)[1].astype(float), -np.inf)


def _whole(exponent: Floats) -> Integers:
    """Exponents of units, as integers."""
    return np.maximum(exponent, _SMALLEST).astype(np.int64)
