"""Conversion of command-line text to couplings, labels and user-defined objects."""

from __future__ import annotations

import difflib
import importlib.util
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from jmdp.base.labels import Label, Labels
from jmdp.base.settings import short
from jmdp.errors import MissingExtraError, SettingsError
from jmdp.models.coupling import Coupling, Independent, Local, PolicyLuck, Synchronous

CouplingName = Literal["local", "synchronous", "independent"]

_COUPLINGS: dict[CouplingName, type[Coupling]] = {
    "local": Local,
    "synchronous": Synchronous,
    "independent": Independent,
}


_DIGITS = 18
"""Largest number of digits of an index."""

_FILES: dict[Path, ModuleType] = {}
"""Modules loaded from user files, each once, so that a class in a file stays the same class."""


def coupling_of(name: CouplingName, policy_luck: PolicyLuck) -> Coupling:
    """Return the coupling of this name."""
    return _COUPLINGS[name](policy_luck)


def label_of(labels: Labels, text: str) -> Label:
    """Return a state or action by its name or, if there is no such name, by its number."""
    if text in (labels.names or ()) or not text.isdecimal() or len(text) > _DIGITS:
        return text
    return int(text)


def unknown(kind: str, text: str, known: Iterable[str]) -> SettingsError:
    """Return the error for an unknown name, with the known names and the closest match."""
    names = list(known)
    text = text[:200]
    close = difflib.get_close_matches(text, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return SettingsError(f"There is no {kind} {text!r}.{hint} Available: {', '.join(names)}.")


def source_and_name(text: str) -> tuple[str, str]:
    """Return module or file, and attribute, of `package.module:attribute` or `path/to/file.py:attribute`."""
    source, _, name = text.rpartition(":")
    if not all(name.split(".")) or not (source.endswith(".py") or all(source.split("."))):
        raise SettingsError(f"{short(text)} does not name an object. Give package.module:name or file.py:name.")
    return source, name


def attribute(text: str) -> Any:
    """Return a user's object, given as `package.module:attribute` or `path/to/file.py:attribute`."""
    source, name = source_and_name(text)
    module = _from_file(Path(source)) if source.endswith(".py") else _from_name(source)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise unknown("attribute", part, sorted(known for known in dir(found) if not known.startswith("_")))
        found = getattr(found, part)
    return found


def _from_name(name: str) -> ModuleType:
    _importable(Path.cwd())
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is not None and f"{name}.".startswith(f"{missing.name}."):
            raise SettingsError(
                f"There is no module {missing.name!r} in the current folder or among the installed packages. To load a "
                f"file, give its extension too: {missing.name}.py:…"
            ) from None
        raise MissingExtraError(f"{name} needs {missing.name}: pip install {missing.name}") from missing


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise SettingsError(f"There is no file {str(path)!r} in {Path.cwd()}.")
    path = path.resolve()
    if path not in _FILES:
        _importable(path.parent)
        _FILES[path] = import_module(path.stem) if _import_gets(path) else _under_another_name(path)
    return _FILES[path]


def _import_gets(path: Path) -> bool:
    """True if importing the file's name loads this very file, and no other module of that name."""
    name = path.stem
    if "." in name:
        return False
    if name in sys.modules:
        origin = getattr(sys.modules[name], "__file__", None)
    else:
        spec = importlib.util.find_spec(name)
        origin = None if spec is None else spec.origin
    return origin is not None and Path(origin).resolve() == path


def _under_another_name(path: Path) -> ModuleType:
    name = f"file {path.stem}"  # without the folder: digests, and so random draws, may depend on the name
    while name in sys.modules:
        name += "'"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and copies of states look it up here
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _importable(folder: Path) -> None:
    if os.fspath(folder) not in sys.path:
        sys.path.insert(0, os.fspath(folder))
