"""What is written on a command line, as what the library takes: luck, labels, and objects of the user's own."""

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
from jmdp.errors import MissingExtraError, SettingsError
from jmdp.models.coupling import Coupling, Independent, Local, PolicyLuck, Synchronous

CouplingName = Literal["local", "synchronous", "independent"]

_COUPLINGS: dict[CouplingName, type[Coupling]] = {
    "local": Local,
    "synchronous": Synchronous,
    "independent": Independent,
}


_FILES: dict[Path, ModuleType] = {}
"""What was loaded from files of the user's: each once, so that a class in it is one class."""


def coupling_of(name: CouplingName, policy_luck: PolicyLuck) -> Coupling:
    """The coupling of this name."""
    return _COUPLINGS[name](policy_luck)


def label_of(labels: Labels, text: str) -> Label:
    """A state or action by its name or, where no name is like that, by its number."""
    if text in (labels.names or ()) or not text.isdecimal():
        return text
    return int(text)


def unknown(kind: str, text: str, known: Iterable[str]) -> SettingsError:
    """What to raise for a name that there is not: it tells what there is, and what was most likely meant."""
    names = list(known)
    close = difflib.get_close_matches(text, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return SettingsError(f"There is no {kind} {text!r}.{hint} There are {', '.join(names)}.")


def attribute(text: str) -> Any:
    """What a user has written: `package.module:attribute`, or `path/to/file.py:attribute`."""
    source, _, name = text.rpartition(":")
    module = _from_file(Path(source)) if source.endswith(".py") else _from_name(source)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise unknown("attribute", part, sorted(known for known in vars(found) if not known.startswith("_")))
        found = getattr(found, part)
    return found


def _from_name(name: str) -> ModuleType:
    _importable(Path.cwd())
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is not None and f"{name}.".startswith(f"{missing.name}."):
            raise SettingsError(
                f"There is no module {missing.name!r}, here or among the packages installed. A file is given with "
                f"its ending: {missing.name}.py:…"
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
    """Whether an import by the file's name gets this very file, and nothing else that is called so."""
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
    name = f"file {path.stem}"  # without the folder: digests, and so luck, may depend on it
    while name in sys.modules:
        name += "'"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses, and copies of states, look for it
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _importable(folder: Path) -> None:
    if os.fspath(folder) not in sys.path:
        sys.path.insert(0, os.fspath(folder))
