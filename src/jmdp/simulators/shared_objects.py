"""Unpickler that inserts shared objects, which the pickle contains by name."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from typing import Any


def unpickled_with(content: bytes, shared: Mapping[str, Any]) -> Any:
    """The object that was pickled with names in place of the shared objects (`persistent_id`)."""
    return _Unpickler(io.BytesIO(content), shared).load()


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shared: Mapping[str, Any]) -> None:
        super().__init__(file)
        self._shared = shared

    def persistent_load(self, name: str) -> Any:
        return self._shared[name]
