"""Rules of a long table, each checked with the row that violates it, and the scenario table of its rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.guard import Plain
from jmdp.base.labels import is_integer
from jmdp.base.settings import short
from jmdp.errors import ModelError
from jmdp.files.columns import LONGEST_NAME, Coded, Rows


class _Axis(NamedTuple):
    """Entries of an axis, and where each code stands on it."""

    size: int
    place: Integers  # [codes]
    names: list[str] | None  # None if the indices are the names

    @classmethod
    def of(cls, names: list[str]) -> _Axis:
        """Integers in increasing order, then other names in order of appearance; 0 … n − 1 alone are the indices."""
        size = len(names)
        order = sorted(range(size), key=lambda i: (0, int(names[i])) if is_integer(names[i]) else (1, i))
        place = np.empty(size, np.int64)
        place[order] = np.arange(size)
        ordered = [names[i] for i in order]
        return cls(size, place, None if all(name == str(i) for i, name in enumerate(ordered)) else ordered)


class _Pairs(NamedTuple):
    """Scenarios of states, with one row of the table for each action."""

    state: Integers  # [P], codes
    scenario: Integers  # [P], codes
    rows: Integers  # [P, A], by code of the action

    @property
    def first(self) -> Integers:
        """First row of each pair [P]."""
        first: Integers = self.rows.min(axis=1)
        return first


def long_model(rows: Rows) -> Plain:
    """Names and arrays of the model of a long table; raise `ModelError` for the first row that violates a rule."""
    _check_cells(rows)
    pairs = _pairs(rows)
    probability = _probabilities(rows, pairs)
    ends, next_codes = _with_terminal_states(rows)
    states, scenarios, actions = (
        _Axis.of(rows.state.names + ends),
        _Axis.of(rows.scenario.names),
        _Axis.of(rows.action.names),
    )
    S, K, A = states.size, scenarios.size, actions.size
    arrays.refuse_large(
        f"The table of {S:,} states × {K:,} scenarios × {A:,} actions in {rows.name} (if scenarios of different states "
        "have different names, number them 0, 1, … in each state)",
        8.0 * S * K + 29.0 * S * K * A,
    )
    s, k = states.place[pairs.state], scenarios.place[pairs.scenario]
    prob = np.zeros((S, K))
    prob[s, k] = probability
    reward = np.zeros((S, K, A))
    next_state = np.empty((S, K, A), np.int64)
    next_state[...] = np.arange(S)[:, None, None]  # for scenarios that a state does not have
    for code, a in enumerate(actions.place.tolist()):
        chosen = pairs.rows[:, code]
        reward[s, k, a] = rows.reward[chosen]
        next_state[s, k, a] = states.place[next_codes[chosen]]
    terminal = np.zeros(S, bool)
    terminal[states.place[len(rows.state.names) :]] = True
    names = {"state_names": states.names, "action_names": actions.names}
    return names, {"prob": prob, "reward": reward, "next_state": next_state, "terminal": terminal}


def _check_cells(rows: Rows) -> None:
    """Raise for the first cell of a column that is empty or out of range."""
    if rows.reward.size == 0:
        raise ModelError(f"{rows.name} has no rows. Give a row for each state, scenario and action.")
    for column, labels in (
        ("state", rows.state),
        ("scenario", rows.scenario),
        ("action", rows.action),
        ("next", rows.next),
    ):
        if (row := _first(labels.codes < 0)) is not None:
            raise ModelError(f"{rows.at(row)}: {column} is empty. Give a name or an integer.")
        _check_lengths(rows, column, labels)
    if (row := _first(~np.isfinite(rows.reward))) is not None:
        found = "empty" if np.isnan(rows.reward[row]) else f"{rows.reward[row]}"
        raise ModelError(f"{rows.at(row)}: reward is {found}. Give a finite number.")
    p = rows.probability
    if (row := _first(~(np.isnan(p) | ((p >= 0) & (p <= 1 + arrays.ROW_SUM_TOLERANCE))))) is not None:
        raise ModelError(f"{rows.at(row)}: probability is {p[row]}. Give a number from 0 to 1.")


def _check_lengths(rows: Rows, column: str, labels: Coded) -> None:
    for code, name in enumerate(labels.names):
        if len(name) > LONGEST_NAME:
            row = int(np.argmax(labels.codes == code))
            raise ModelError(
                f"{rows.at(row)}: {column} has {len(name):,} characters. Give a name of at most {LONGEST_NAME}."
            )


def _pairs(rows: Rows) -> _Pairs:
    """Rows sorted by state, scenario and action; raise unless each scenario of a state has each action once."""
    K, A = len(rows.scenario.names), len(rows.action.names)
    found, pair = np.unique(rows.state.codes * K + rows.scenario.codes, return_inverse=True)
    cell = pair * A + rows.action.codes
    order = np.argsort(cell, kind="stable")
    again = order[1:][np.diff(cell[order]) == 0]
    if again.size:
        row = int(again.min())
        before = int(np.argmax(cell == cell[row]))
        raise ModelError(
            f"{rows.at(row)}: {_of(rows, row)} has action {_name(rows.action, row)} already in {rows.place(before)}. "
            "Delete one of the two rows, or give them different scenarios."
        )
    if found.size * A != order.size:
        few = int(np.argmax(np.bincount(pair) < A))
        present = {*rows.action.codes[pair == few].tolist()}
        missing = next(name for code, name in enumerate(rows.action.names) if code not in present)
        row = int(np.argmax(pair == few))
        raise ModelError(f"{rows.at(row)}: {_of(rows, row)} has no row for action {short(missing)}. Add it.")
    return _Pairs(found // K, found % K, order.reshape(-1, A))


def _probabilities(rows: Rows, pairs: _Pairs) -> Floats:
    """Probability of each pair; raise unless it has one, and they sum to 1."""
    first = pairs.first
    probability: Floats = rows.probability[first]
    if (at := _earliest(np.isnan(probability), first)) is not None:
        raise ModelError(
            f"{rows.at(at)}: probability is empty in the first row of {_of(rows, at)}. Only rows after it may leave "
            "it out."
        )
    every = rows.probability[pairs.rows]
    differs = ~np.isnan(every) & (every != probability[:, None])
    if (at := _earliest(differs, pairs.rows)) is not None:
        pair = int(np.argmax((pairs.rows == at).any(axis=1)))
        raise ModelError(
            f"{rows.at(at)}: probability is {rows.probability[at]}, but {probability[pair]} in "
            f"{rows.place(int(first[pair]))}. A scenario has one probability in a state, for all actions: correct "
            "one of them."
        )
    sums = np.bincount(pairs.state, probability)
    if (s := _first(np.abs(sums - 1) > arrays.ROW_SUM_TOLERANCE)) is not None:
        row = int(np.argmax(rows.state.codes == s))
        raise ModelError(
            f"{rows.at(row)}: the probabilities of state {short(rows.state.names[s])}, which begins here, sum to "
            f"{sums[s]:.9g}, not 1. Correct them, or add the missing scenario."
        )
    return probability


def _with_terminal_states(rows: Rows) -> tuple[list[str], Integers]:
    """Names of terminal states, and the code of the next state of each row: states first, then terminal states."""
    code = {name: i for i, name in enumerate(rows.state.names)}
    spelled = {name.casefold(): name for name in rows.state.names}
    ends = []
    for i, name in enumerate(rows.next.names):
        if name in code:
            continue
        if name.casefold() in spelled:
            row = int(np.argmax(rows.next.codes == i))
            raise ModelError(
                f"{rows.at(row)}: next is {short(name)}, and the state is {short(spelled[name.casefold()])}. Write "
                "both alike, or rename the terminal state."
            )
        code[name] = len(code)
        ends.append(name)
    return ends, np.array([code[name] for name in rows.next.names])[rows.next.codes]


def _first(bad: Booleans) -> int | None:
    """Index of the first True."""
    at = int(bad.argmax())
    return at if bad[at] else None


def _earliest(bad: Booleans, rows: Integers) -> int | None:
    """Smallest row number that is bad."""
    return int(rows[bad].min()) if bad.any() else None


def _name(column: Coded, row: int) -> str:
    return short(column.names[column.codes[row]])


def _of(rows: Rows, row: int) -> str:
    return f"scenario {_name(rows.scenario, row)} of state {_name(rows.state, row)}"
