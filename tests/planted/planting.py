"""Planting of bugs: a function is found by its name, and what it does is changed when its module is imported.

No file is changed and none is named, so that modules can be moved, merged and formatted.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from planted.changes import Change

PACKAGES = ("jmdp", "reproduction")
VARIABLE = "PLANTED_BUG"
"""Environment variable with the name of the bug, for processes that a test starts."""
STARTUP = Path(__file__).parent / "startup"
"""Folder of the module that Python imports when it starts, if the folder is in PYTHONPATH."""


class PlantingError(Exception):
    """A bug cannot be planted: its function or what is to be changed is not found, or found more than once."""


@dataclass(frozen=True)
class Bug:
    """A wrong behaviour, and the test that must fail on it.

    `function` is a function, a class or a variable of a module, with the classes and functions around it but without
    the module: ``PairOperator.__init__``. If two modules have it, it is the one to which the change applies.
    """

    name: str
    function: str
    change: Change
    caught_by: str


@dataclass(frozen=True)
class Source:
    """A module of the package."""

    module: str
    path: Path

    @property
    def folder(self) -> str:
        """Its package without jmdp, with slashes."""
        names = self.module.removeprefix("jmdp.").split(".")
        return "/".join(names if self.path.stem == "__init__" else names[:-1])


@cache
def _tree(path: Path) -> ast.Module:
    """Syntax tree of a module; to be copied before it is changed."""
    return ast.parse(path.read_bytes())


@cache
def _sources(packages: tuple[str, ...]) -> dict[str, list[Source]]:
    """Modules that define a name at their top level, without importing any of them."""
    found: dict[str, list[Source]] = {}
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            continue  # a process that does not start in the repository has no `reproduction`
        root = Path(spec.origin).parent
        for path in sorted(root.rglob("*.py")):
            names = path.relative_to(root.parent).with_suffix("").parts
            source = Source(".".join(names[:-1] if names[-1] == "__init__" else names), path)
            for name in set(_DEFINED.findall(path.read_text("utf-8"))):
                found.setdefault(name, []).append(source)
    return found


_DEFINED = re.compile(r"^(?:async def |def |class |)(\w+)\b(?= *[(:=\[])", re.MULTILINE)


def folder_of(bug: Bug) -> str | None:
    """Folder of the bug's function, without parsing a file if the name says enough; None if it cannot be planted."""
    sources = _sources(PACKAGES).get(bug.function.split(".")[0], [])
    try:
        return (sources[0] if len(sources) == 1 else source_of(bug)).folder
    except PlantingError:
        return None


def source_of(bug: Bug, packages: tuple[str, ...] = PACKAGES) -> Source:
    """Return the module that has the bug's function; if several have one of this name, where the change applies."""
    sources = _sources(packages).get(bug.function.split(".")[0], [])
    having = {source: found for source in sources if (found := _defined(_tree(source.path), bug.function))}
    if not having:
        raise PlantingError(
            f"{bug.name!r}: {' and '.join(packages)} has no {bug.function}. If it was renamed or split, name the "
            "function that now does this; if the behaviour is gone, delete the bug."
        )
    copies = deepcopy(list(having.values()))
    applies = [_edited(copy, bug, renamed=False) for copy in copies]
    applies = applies if any(applies) else [_edited(copy, bug, renamed=True) for copy in copies]
    found = [source for source, does in zip(having, applies, strict=True) if does]
    if len(found) == 1:
        return found[0]
    modules = " and ".join(source.module for source in found or having)
    raise PlantingError(
        f"{bug.name!r}: {bug.change.text} applies to {bug.function} in {modules}. State a part that only one has."
        if found
        else f"{bug.name!r}: {bug.change.text} does not apply to {bug.function} in {modules}. State the smallest part "
        "of the function that now has this behaviour; if the behaviour is gone, delete the bug."
    )


def _defined(tree: ast.AST, name: str) -> list[ast.AST]:
    """Definitions of a function; a property may have two, to read and to write it."""
    first, _, rest = name.partition(".")
    found: list[ast.AST] = []
    for node in _scope(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == first:
            found += _defined(node, rest) if rest else [node]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and not rest:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += [node] * (first in map(ast.unparse, targets))
    return found


def _scope(tree: ast.AST) -> Iterator[ast.stmt]:
    """Statements of one scope, also those in an if, a loop, a with or a try."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.ExceptHandler)):
            yield from _scope(node)


def _edited(definitions: list[ast.AST], bug: Bug, *, renamed: bool) -> bool:
    """Change definitions; return whether they are others than before."""
    before = [ast.dump(node) for node in definitions]
    for node in definitions:
        bug.change.edit(node, renamed)
    return before != [ast.dump(node) for node in definitions]


def changed(bug: Bug, text: str | bytes) -> ast.Module:
    """Return the syntax tree of a module's text, with the bug."""
    tree = ast.parse(text)
    definitions = _defined(tree, bug.function)
    assert _edited(definitions, bug, renamed=False) or _edited(definitions, bug, renamed=True)
    return ast.fix_missing_locations(tree)


def is_kernel(bug: Bug) -> bool:
    """Whether the function is compiled: compiled code on disk does not know that it has changed."""
    functions = _defined(_tree(source_of(bug).path), bug.function)
    decorators = [decorator for function in functions for decorator in getattr(function, "decorator_list", ())]
    return any("compiled" in ast.unparse(decorator) for decorator in decorators)


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module with a bug; bytecode is neither read nor written. The file has its size and date."""

    def __init__(self, name: str, path: str, bug: Bug) -> None:
        super().__init__(name, path)
        self._bug = bug

    def get_code(self, fullname: str) -> CodeType:
        tree = changed(self._bug, self.get_data(self.path))
        return compile(tree, self.path, "exec", dont_inherit=True)


class _Finder:
    """Finds the one module that has the bug."""

    def __init__(self, bug: Bug) -> None:
        self._bug, self._module = bug, source_of(bug).module

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(name, spec.origin, self._bug)
        return spec


def plant(bug: Bug) -> None:
    """Plant a bug in this process, which must not have imported the package, and in those that it starts."""
    assert not set(PACKAGES) & set(sys.modules)
    sys.meta_path.insert(0, _Finder(bug))  # type: ignore[arg-type]
    os.environ.update(_inherited(os.environ, bug))
    start = subprocess.Popen.__init__

    def start_with_bug(self: Any, *args: Any, env: Any = None, **options: Any) -> None:
        start(self, *args, env=env if env is None else {**env, **_inherited(env, bug)}, **options)

    subprocess.Popen.__init__ = start_with_bug  # type: ignore[method-assign]


def _inherited(environment: Mapping[str, str], bug: Bug) -> dict[str, str]:
    """Variables with which a process has the bug; a test may have given it a path of its own."""
    path = [str(STARTUP), *environment.get("PYTHONPATH", "").split(os.pathsep)]
    return {VARIABLE: bug.name, "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, path)))}
