"""Actions of a simulator: their labels, and the candidates of a comparison with the values passed to the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jmdp.base.labels import Labels
from jmdp.base.settings import UNCONVERTIBLE, integer, listed, short
from jmdp.errors import SettingsError
from jmdp.simulators.digests import digest_of

MOST_ACTIONS = 1_000_000
"""Actions that are tried or compared unless some are chosen."""


def action_labels(actions: int | Sequence[str]) -> Labels:
    """Labels for `Simulator.actions`, from the number of actions or their names."""
    if isinstance(actions, Sequence) and not isinstance(actions, (str, bytes)) and len(actions):
        return Labels.of("action", len(actions), actions)
    number = integer(actions)
    if number is None or not 1 <= number <= 2**62:
        raise SettingsError(f"actions is {short(actions)}. Give the number of actions, or a list of their names.")
    return Labels.of("action", number, None)


def all_actions(labels: Labels) -> range:
    """Indices of all actions; raise if there are too many to list."""
    if labels.size > MOST_ACTIONS:
        raise SettingsError(f"There are {labels.size:,} actions. Choose at most {MOST_ACTIONS:,}: actions=[…].")
    return range(labels.size)


def listed_actions(actions: Any) -> list[Any]:
    """The given actions as a list; raise if they are no list, or one that is too long."""
    some = listed(actions, MOST_ACTIONS)
    if some is None:
        raise SettingsError(f"actions is {short(actions)}. Give a list of actions.")
    if len(some) > MOST_ACTIONS:
        raise SettingsError(f"actions has more than {MOST_ACTIONS:,} entries. Give fewer.")
    return some


def candidate_actions(
    numbered: Labels | None, actions: Sequence[Any] | Mapping[str, Any] | None
) -> tuple[list[Any], Labels]:
    """Values that are passed to the simulator for each candidate, and the labels of the candidates."""
    if isinstance(actions, (set, frozenset)):
        raise SettingsError(f"actions is {short(actions)}, a set, which has no order. Give a list.")
    if numbered is None:
        if actions is None:
            raise SettingsError(
                "This simulator has no finite list of actions. Give the ones to compare in this call: actions=[…], or "
                'with names, actions={"left": …, "right": …}; on the command line --actions.'
            )
        chosen = listed_actions(actions.values() if isinstance(actions, Mapping) else actions)
        names = [_name(one) for one in (actions if isinstance(actions, Mapping) else chosen)]
        if len(set(names)) < len(names):
            names = [f"action {i}" for i in range(len(chosen))]
        count = len({digest_of(action) for action in chosen})
    else:
        if isinstance(actions, Mapping):
            raise SettingsError(f"actions is {short(actions)}. Give a list of actions, by index or name.")
        if actions is None:
            chosen = list(all_actions(numbered))
        else:
            chosen = [numbered.index(label) for label in listed_actions(actions)]
        names = [numbered.name(a) for a in chosen]
        count = len(set(chosen))
    if len(chosen) < 2 or count != len(names):
        raise SettingsError(f"actions are {short(names, 200)}. Give at least two different actions.")
    return chosen, Labels.of("action", len(chosen), names)


def _name(action: Any) -> str:
    try:
        if hasattr(action, "shape"):
            return np.array2string(np.asarray(action), precision=4, separator=", ")
        return str(action)
    except UNCONVERTIBLE:  # a tensor without data, or an integer that is too long to print
        return short(action)
