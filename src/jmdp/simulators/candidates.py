"""Candidate actions of a comparison: the values passed to the simulator, and their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jmdp.base.labels import Label, Labels
from jmdp.base.settings import short
from jmdp.errors import SettingsError
from jmdp.simulators.digests import digest_of


def candidate_actions(
    numbered: Labels | None, actions: Sequence[Any] | Mapping[str, Any] | None
) -> tuple[list[Any], Labels]:
    """Values that are passed to the simulator for each candidate, and the labels of the candidates."""
    if isinstance(actions, (set, frozenset)):
        raise SettingsError(f"actions is {short(actions)}, a set, which has no order. Give a list.")
    if numbered is None:
        if actions is None:
            raise SettingsError(
                "This simulator has no finite list of actions. Give the ones to compare: actions=[…], or with names, "
                'actions={"left": …, "right": …}.'
            )
        chosen = list(actions.values() if isinstance(actions, Mapping) else actions)
        names = [str(name) for name in actions] if isinstance(actions, Mapping) else [_name(one) for one in chosen]
        if len(set(names)) < len(names):
            names = [f"action {i}" for i in range(len(chosen))]
        count = len({digest_of(action) for action in chosen})
    else:
        if isinstance(actions, (Mapping, str)) or not (actions is None or hasattr(actions, "__iter__")):
            raise SettingsError(f"actions is {actions!r}. Give a list of actions, by index or name.")
        labels: Sequence[Label] = range(numbered.size) if actions is None else list(actions)
        chosen = [numbered.index(label) for label in labels]
        names = [numbered.name(a) for a in chosen]
        count = len(set(chosen))
    if len(chosen) < 2 or count != len(names):
        raise SettingsError(f"actions are {names}. Give at least two different actions.")
    return chosen, Labels.of("action", len(chosen), names)


def _name(action: Any) -> str:
    return np.array2string(np.asarray(action), precision=4, separator=", ") if hasattr(action, "shape") else str(action)
