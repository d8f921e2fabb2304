"""An explicit joint distribution: scenarios that name an outcome for each action."""

from __future__ import annotations

import math

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import ROUNDOFF, Floats, Integers
from jmdp.errors import ModelError
from jmdp.models.joint.lists import Scenarios, plan
from jmdp.models.marginals.listed import row_sums
from jmdp.models.marginals.marginals import Marginals

_ROUNDING = 1e-9
"""Largest relative difference of probabilities that is taken for rounding. It is then part of the error of results."""


def scenarios(marginals: Marginals, prob: Floats, outcome: Integers) -> Scenarios:
    """Scenarios of prob [S, K] and outcome [S, K, A], if their marginals are the given ones."""
    S, A = marginals.shape
    K = prob.shape[1]
    if outcome.shape != (S, K, A):
        raise ModelError(f"outcome has shape {outcome.shape}, but {marginals!r} requires [S, K, A] = {(S, K, A)}.")
    plan(S, 2.0 * K, A, "Use fewer scenarios.")
    prob, outcome = prob.copy(), outcome.copy()
    prob[marginals.terminal], outcome[marginals.terminal] = np.eye(1, K), 0
    _refuse_bad(marginals, prob, outcome)
    prob = arrays.normalised_rows(prob, lambda s: f"prob of state {marginals.states.name(s)}", ModelError)
    outcome += marginals.first[:-1].reshape(S, 1, A)
    error = _difference(marginals, prob, outcome)
    return Scenarios(prob, marginals.reward[outcome], marginals.next_state[outcome], error)


def _refuse_bad(marginals: Marginals, prob: Floats, outcome: Integers) -> None:
    states, actions = marginals.states, marginals.actions
    bad = ~((prob >= 0) & (prob <= 1 + arrays.ROW_SUM_TOLERANCE))
    arrays.refuse_where(
        bad, prob, "prob", "a probability must be in [0, 1]", lambda at: f"state {states.name(at[0])}", ModelError
    )
    bad = (outcome < 0) | (outcome >= marginals.count[:, None])
    if bad.any():
        s, k, a = (int(i) for i in np.argwhere(bad)[0])
        raise ModelError(
            f"outcome[{s}, {k}, {a}] is {outcome[s, k, a]}, but state {states.name(s)}, action {actions.name(a)} has "
            f"{marginals.count[s, a]} outcomes, numbered from 0. See marginals.outcomes(state, action)."
        )


def _difference(marginals: Marginals, prob: Floats, outcome: Integers) -> float:
    """Largest relative difference from the marginal probability of an outcome; raise if it is more than rounding."""
    A, first = marginals.shape[1], marginals.first
    sums = np.bincount(outcome.ravel(), np.repeat(prob.ravel(), A), minlength=marginals.prob.size)
    found = sums / np.repeat(prob.sum(axis=1), np.diff(first[::A]))
    wanted = marginals.prob / np.repeat(row_sums(marginals.prob, first), np.diff(first))
    off: Floats = np.abs(found - wanted) / wanted
    worst = int(off.argmax())
    if off[worst] <= _ROUNDING:
        terms = outcome.shape[1] + int(np.diff(first).max())
        return float(off[worst] + 4 * terms * ROUNDOFF)
    row = int(np.searchsorted(first, worst, side="right")) - 1
    s, a = divmod(row, A)
    digits = max(9, 3 - math.floor(math.log10(off[worst])))
    raise ModelError(
        f"The scenarios of state {marginals.states.name(s)} give outcome {worst - first[row]} of action "
        f"{marginals.actions.name(a)} a probability of {found[worst]:.{digits}g}, but its marginal probability is "
        f"{wanted[worst]:.{digits}g}. Change prob or outcome there, or the marginals."
    )
