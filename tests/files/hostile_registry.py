"""List of hostile files, which the modules hostile_… fill."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

MIB = 1 << 20
CANARY = "JMDP_HOSTILE_CANARY"
"""Variable with the path of a file that exists only if a pickle has been executed."""

FILES: dict[str, tuple[str, Callable[[], bytes]]] = {}
"""Name: what the file tries, and its bytes."""


def hostile(name: str, tries: str) -> Callable[[Callable[[], bytes]], Callable[[], bytes]]:
    def added(make: Callable[[], bytes]) -> Callable[[], bytes]:
        assert name not in FILES
        FILES[name] = (tries, make)
        return make

    return added


def added(name: str, tries: str, make: Callable[..., bytes], *arguments: Any, **named: Any) -> None:
    hostile(name, tries)(partial(make, *arguments, **named))
