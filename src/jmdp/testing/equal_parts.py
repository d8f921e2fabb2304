"""Groups of states, and of actions, with equal tables, in linear time: by 64-bit hashes, then verified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Integers
from jmdp.models.tabular import TabularJMDP

_Words = npt.NDArray[np.uint64]

_BLOCK = 1 << 20
"""Numbers that are hashed at once."""


def equal_states(model: TabularJMDP) -> list[Integers]:
    """Groups of at least two non-terminal states with the same table."""
    states = np.flatnonzero(~model.terminal)
    _, K, A = model.shape
    weights = _weights(K * (1 + 2 * A))
    step = max(1, _BLOCK // (K * (1 + 2 * A)))
    hashes = np.zeros(states.size, np.uint64)
    for i in range(0, states.size, step):
        hashes[i : i + step] = _mixed(_state_rows(model, states[i : i + step])) @ weights
    return _verified(states, hashes, lambda some: _state_rows(model, some), step)


def _state_rows(model: TabularJMDP, states: Integers) -> _Words:
    """The table of each of these states as one row of words; where scenarios cannot happen, next states are 0."""
    prob = model.prob[states]
    after = np.where((prob > 0)[:, :, None], model.next_state[states], 0)
    parts = (prob, model.reward[states], after)
    return np.hstack([_words(part).reshape(len(states), -1) for part in parts])


def equal_actions(model: TabularJMDP) -> list[Integers]:
    """Groups of at least two actions with the same effect in every state."""
    S, K, A = model.shape
    hashes = np.zeros(A, np.uint64)
    step = max(1, _BLOCK // (K * A))
    for i in range(0, S, step):
        rows = _action_rows(model, slice(i, i + step), np.arange(A))
        hashes = _mixed(hashes) + _mixed(rows) @ _weights(rows.shape[1])
    return _verified(np.arange(A), hashes, lambda some: _action_rows(model, slice(None), some), 1)


def _action_rows(model: TabularJMDP, states: slice, actions: Integers) -> _Words:
    """Rewards and next states of each of these actions as one row of words."""
    possible = (model.prob[states] > 0)[:, :, None]
    parts = (model.reward[states, :, actions], np.where(possible, model.next_state[states, :, actions], 0))
    return np.hstack([_words(np.moveaxis(part, 2, 0)).reshape(part.shape[2], -1) for part in parts])


def _words(part: Any) -> _Words:
    """Numbers as words of 64 bits; −0.0 becomes 0.0."""
    return np.ascontiguousarray(part + part.dtype.type(0)).view(np.uint64)


def _mixed(words: _Words) -> _Words:
    """Words whose bits all depend on all bits of the given ones (SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _weights(count: int) -> _Words:
    """Odd numbers, by which the words of a row are multiplied."""
    return _mixed(np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)


def _verified(members: Integers, hashes: _Words, rows: Callable[[Integers], _Words], step: int) -> list[Integers]:
    """Groups of members with equal hashes whose rows equal that of the first; `step` rows are compared at once."""
    order = np.argsort(hashes, kind="stable")
    new = np.concatenate([[True], np.diff(hashes[order]) != 0]) if order.size else np.zeros(0, bool)
    first = np.maximum.accumulate(np.where(new, np.arange(order.size), 0))
    again = np.flatnonzero(~new)  # positions in `order` whose hash occurred before
    equal = np.zeros(again.size, bool)
    for i in range(0, again.size, step):
        some = again[i : i + step]
        equal[i : i + step] = (rows(members[order[some]]) == rows(members[order[first[some]]])).all(axis=1)
    again = again[equal]
    leaders, begin = np.unique(first[again], return_index=True)
    groups = zip(leaders.tolist(), np.split(again, begin[1:]), strict=True) if again.size else ()
    found = [members[order[np.concatenate([[leader], rest])]] for leader, rest in groups]
    return sorted(found, key=lambda group: int(group[0]))
