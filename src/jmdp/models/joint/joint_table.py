"""An explicit joint distribution: scenarios that name an outcome for each action."""

from __future__ import annotations

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats, Integers
from jmdp.errors import ModelError
from jmdp.models.joint.lists import Scenarios, plan
from jmdp.models.marginals.marginals import Marginals

_ROUNDING = 1e-12
"""Largest difference of probabilities that is taken for rounding."""


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
    _refuse_other_marginals(marginals, prob, outcome)
    return Scenarios(prob, marginals.reward[outcome], marginals.next_state[outcome])


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


def _refuse_other_marginals(marginals: Marginals, prob: Floats, outcome: Integers) -> None:
    found = np.bincount(outcome.ravel(), np.repeat(prob.ravel(), marginals.actions.size), minlength=marginals.prob.size)
    off = np.abs(found - marginals.prob)
    worst = int(off.argmax())
    if off[worst] <= _ROUNDING:
        return
    row = int(np.searchsorted(marginals.first, worst, side="right")) - 1
    s, a = divmod(row, marginals.actions.size)
    raise ModelError(
        f"The scenarios of state {marginals.states.name(s)} give outcome {worst - marginals.first[row]} of action "
        f"{marginals.actions.name(a)} a probability of {found[worst]:.9g}, but its marginal probability is "
        f"{marginals.prob[worst]:.9g}. Change prob or outcome there, or the marginals."
    )
