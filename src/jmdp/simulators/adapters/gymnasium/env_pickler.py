"""Pickles of environments. Imported on use: cloudpickle is installed with Gymnasium only."""

from __future__ import annotations

import io
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import cloudpickle

from jmdp.simulators.adapters.gymnasium.env_operations import copies_by_rebuilding


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickler that stores the state of all environments, including those that would be rebuilt.

    Classes of scripts and notebooks are stored by value.
    """

    def __init__(self, file: io.BytesIO, shared: Mapping[str, Any]) -> None:
        super().__init__(file)
        self._names = {id(value): name for name, value in shared.items()}

    def persistent_id(self, value: Any) -> str | None:
        return self._names.get(id(value))

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type) or not copies_by_rebuilding(value):
            return super().reducer_override(value)
        return object.__new__, (type(value),), vars(value), None, None, _set_attributes


def pickled(value: Any, shared: Mapping[str, Any] = MappingProxyType({})) -> bytes:
    """Pickle an object that contains environments, with names in place of the shared objects."""
    written = io.BytesIO()
    _Pickler(written, shared).dump(value)
    return written.getvalue()


def _set_attributes(value: Any, attributes: dict[str, Any]) -> None:
    vars(value).update(attributes)
