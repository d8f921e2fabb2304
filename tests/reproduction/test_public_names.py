"""Experiments are written as a user would write them: over public names of jmdp."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import jmdp

FOLDER = Path(__file__).parents[2] / "reproduction"
FILES = sorted(path for path in FOLDER.rglob("*.py") if path.name != "__main__.py")  # commands use jmdp.cli
METHODS = [f"jmdp.methods.{path.name}" for path in (Path(jmdp.__file__).parent / "methods").iterdir() if path.is_dir()]
PACKAGES = ["jmdp", "jmdp.plots", "jmdp.show.plots.style", "jmdp.simulators", "jmdp.testing", "jmdp.worlds", *METHODS]

FILES_OF_RUNS = {"jmdp.base.whole_files.whole_file", "jmdp.base.labels.identity"}
"""No number depends on them: files are there whole or not at all, and belong to one run."""


def public_names() -> set[str]:
    """What public packages list, and what the modules among it list or define."""
    found = set(PACKAGES) | FILES_OF_RUNS
    for package in PACKAGES:
        listed = getattr(import_module(package), "__all__", ())
        found |= {f"{package}.{name}" for name in listed}
        for name in listed:
            module = getattr(import_module(package), name)
            if type(module) is type(jmdp):
                found |= {f"{module.__name__}.{part}" for part in getattr(module, "__all__", vars(module))}
    return {name for name in found if not name.rsplit(".", 1)[-1].startswith("_")}


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name.split(".")[0] == "jmdp"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_experiments_import_public_names(path):
    assert sorted(imported(path) - public_names()) == []
