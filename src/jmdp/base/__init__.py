"""Shared foundations: arrays, labels, intervals, settings, randomness, progress, files and the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from jmdp.errors import MissingExtraError


def on_first_use(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package: names with the module of each, which is imported on first use.

    A name that is its own module is that module.
    """

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{modules[name]}")
        found: object = module if modules[name] == name else getattr(module, name)
        vars(import_module(package))[name] = found
        return found

    def names() -> list[str]:
        return sorted({*vars(import_module(package)), *modules})

    return get, names


def optional(module: str, fix: str) -> Any:
    """Import a module of a package that may be missing; `fix` says what needs it, and the command that installs it."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtraError(fix) from None
