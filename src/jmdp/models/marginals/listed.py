"""Lists of outcomes of every state and action in flat arrays, and their validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.labels import Labels
from jmdp.errors import ModelError

BYTES = 60.0
"""Memory for each outcome while lists are read and checked: three numbers, a copy of them and masks."""


class Listed(NamedTuple):
    """Outcomes of (s, a) are consecutive; those of row s·A + a begin where the row before ends."""

    counts: Integers  # [S, A], outcomes of each state and action
    prob: Floats  # [N]
    reward: Floats  # [N]
    next_state: Integers  # [N]
    terminal: Booleans  # [S]


def first_outcomes(count: Integers) -> Integers:
    """Index [S·A + 1] of the first outcome of each row; the last entry is the number of outcomes."""
    first = np.zeros(count.size + 1, np.int64)
    np.cumsum(count.ravel(), out=first[1:])
    return first


def row_sums(values: Floats, first: Integers) -> Floats:
    """Sum of each row; every row must have an entry."""
    return np.add.reduceat(values, first[:-1])


def checked(listed: Listed, states: Labels, actions: Labels) -> Listed:
    """Valid lists: rows sum to nearly 1, outcomes of probability 0 are left out, terminal states stay.

    Arrays are changed in place.
    """
    listed = _with_terminal_rows(listed)
    _refuse_unavailable(listed.counts, states, actions)
    first = first_outcomes(listed.counts)

    def where(at: Sequence[int]) -> str:
        s, a = divmod(int(np.searchsorted(first, at[0], side="right")) - 1, actions.size)
        return f"state {states.name(s)}, action {actions.name(a)}"

    p, r, n = listed.prob, listed.reward, listed.next_state
    bad_p = ~((p >= 0) & (p <= 1 + arrays.ROW_SUM_TOLERANCE))
    arrays.refuse_where(bad_p, p, "prob", "a probability must be in [0, 1]", where, ModelError)
    arrays.refuse_where(~np.isfinite(r), r, "reward", "a reward must be a finite number", where, ModelError)
    bad_n = (n < 0) | (n >= states.size)
    rule = f"a state must be an index from 0 to {states.size - 1}"
    arrays.refuse_where(bad_n, n, "next_state", rule, where, ModelError)
    _refuse_other_sums(p, first, states, actions)
    return _without_impossible(listed, first)


def _refuse_unavailable(count: Integers, states: Labels, actions: Labels) -> None:
    missing = count == 0
    if not missing.any():
        return
    s, a = (int(i) for i in np.argwhere(missing)[0])
    more = int(missing.sum()) - 1
    others = f" ({more:,} more like it)" if more else ""
    raise ModelError(f"Action {actions.name(a)} has no outcomes in state {states.name(s)}{others}{UNAVAILABLE}")


UNAVAILABLE = (
    ": a table needs every action in every state. Give it the outcomes of an action that is available there, or mark "
    "the state as terminal."
)
"""Why actions that are not available are refused, and the fix."""


def _with_terminal_rows(listed: Listed) -> Listed:
    """The same with one certain outcome for each action of terminal states: they stay, with reward 0."""
    count, p, r, n, ends = listed
    if not ends.any():
        return listed
    kept = np.repeat(np.repeat(~ends, count.shape[1]), count.ravel())
    count = count.copy()
    count[ends] = 0
    at = first_outcomes(count)[:-1].reshape(count.shape)[ends].ravel()
    stay = np.repeat(np.flatnonzero(ends), count.shape[1])
    count[ends] = 1
    return Listed(count, np.insert(p[kept], at, 1.0), np.insert(r[kept], at, 0.0), np.insert(n[kept], at, stay), ends)


def _refuse_other_sums(p: Floats, first: Integers, states: Labels, actions: Labels) -> None:
    sums = row_sums(p, first)
    off = np.abs(sums - 1)
    worst = int(off.argmax())
    if off[worst] > arrays.ROW_SUM_TOLERANCE:
        s, a = divmod(worst, actions.size)
        raise ModelError(
            f"The probabilities of state {states.name(s)}, action {actions.name(a)} sum to {sums[worst]:.9g}, not 1. "
            "Divide them by their sum, or add the missing probability."
        )


def _without_impossible(listed: Listed, first: Integers) -> Listed:
    possible = listed.prob > 0
    if possible.all():
        return listed
    count = np.add.reduceat(possible, first[:-1], dtype=np.int64).reshape(listed.counts.shape)
    p, r, n = listed.prob[possible], listed.reward[possible], listed.next_state[possible]
    return Listed(count, p, r, n, listed.terminal)
