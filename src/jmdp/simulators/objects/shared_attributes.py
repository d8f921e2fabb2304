"""Attributes that all copies of an object share, such as logs: steps write them, but do not read them."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Sequence
from typing import Any

from jmdp.errors import SettingsError

_CONTAINERS = (list, dict, set, deque)


class SharedAttributes:
    """Values of the shared attributes, taken from one object.

    After each step, containers are emptied to their contents at the start. So they do not grow with the number of
    simulated steps, and every step finds the same contents.
    """

    def __init__(self, names: Sequence[str], thing: Any) -> None:
        missing = [name for name in names if not hasattr(thing, name)]
        if isinstance(names, str) or missing:
            name = type(thing).__name__
            raise SettingsError(
                f"shared is {names!r}, but {name} has no attribute {missing[0]!r} after the reset. Give the names of "
                'attributes: shared=("log",).'
                if not isinstance(names, str)
                else f"shared is the text {names!r}. Give a tuple of names: shared=({names!r},)."
            )
        self.values = {name: getattr(thing, name) for name in names}
        self._contents = {
            name: copy.copy(value) for name, value in self.values.items() if type(value) in _CONTAINERS
        }  # at the start
        self.ids = {id(value): name for name, value in self.values.items() if _has_identity(value)}

    def attach(self, thing: Any) -> None:
        """Give an object the shared values, with their contents at the start."""
        for name, value in self.values.items():
            if getattr(thing, name, None) is not value:
                object.__setattr__(thing, name, value)
        for name, contents in self._contents.items():
            value = self.values[name]
            if len(value) != len(contents):
                value.clear()
                value.update(contents) if isinstance(value, (dict, set)) else value.extend(contents)


def _has_identity(value: Any) -> bool:
    """False for values that may occur elsewhere in an object by chance."""
    return value is not None and not isinstance(value, (bool, int, float, str, bytes, tuple, frozenset))
