"""What is imported is declared in pyproject.toml, and what is declared for users is used."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
FOR_USERS = set(EXTRAS) - {"bench", "dev", "docs", "examples", "other-tools"}

DISTRIBUTIONS = {
    "Box2D": "box2d", "PIL": "pillow", "flint": "python-flint", "orbax": "orbax-checkpoint", "sklearn": "scikit-learn",
    "simopt": "simoptlib", "yaml": "pyyaml",
}  # fmt: skip
"""Of modules whose name is not that of the distribution."""
NOT_IMPORTED = {
    "h5netcdf": "xarray writes netCDF with it",
    "h5py": "h5netcdf writes HDF5 with it",
    "six": "gymnax imports it without saying so",
}
BROUGHT_ALONG = {
    "cloudpickle": "gymnasium",
    "docutils": "sphinx",
    "flax": "gymnax",
    "nbformat": "myst-nb",
    "packaging": "pytest",
    "torch": "stable-baselines3",
}
"""Packages that ours are useless without, by what brings them."""
BY_NAME = ("import_module", "find_spec", "optional")
"""Functions that import a module, whose name is their first argument."""
OPTIONAL = {"cv2", "torch", "inspect_ai"}
"""A test without these is skipped, or they are in an environment of their own."""


def named(requirements):
    """Distributions in these requirements, with the extras asked of them: ``gymnasium[mujoco]`` needs mujoco too."""
    for requirement in requirements:
        name, extras = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", requirement).groups()
        if name == "jmdp":
            for extra in extras.split(","):
                yield from named(EXTRAS[extra])
        else:
            yield normalised(name)
            yield from (normalised(extra) for extra in (extras or "").split(",") if extra)


def normalised(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def modules(folder):
    """Top-level packages that files of this folder import, anywhere in them, by statement or by name."""
    tests = ROOT / "tests"
    scripts = (*tests.iterdir(), *tests.rglob("*.py"), *(ROOT / "docs").glob("*.py"))
    own = {"jmdp", "jmdp_command", "benchmarks", "examples", *(path.stem for path in scripts)}
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in BY_NAME:
                names = [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant)]
            for name in names:
                top = name.split(".")[0]
                if top not in sys.stdlib_module_names and top not in own:
                    yield top


def distribution(module):
    return normalised(DISTRIBUTIONS.get(module, module))


@pytest.mark.parametrize(
    ("folder", "extras"),
    [
        ("src", set(EXTRAS) - {"dev"}),
        ("tests", {"dev", "examples"}),
        ("docs", {"docs"}),
        ("benchmarks", {"bench", "other-tools"}),
        ("examples", {"examples"}),
    ],
)
def test_what_is_imported_is_declared(folder, extras):
    declared = {*named(PROJECT["dependencies"]), *(name for extra in extras for name in named(EXTRAS[extra]))}
    declared |= {name for name, by in BROUGHT_ALONG.items() if by in declared}
    missing = {module for module in modules(folder) if distribution(module) not in declared}
    assert missing - (OPTIONAL if folder == "tests" else set()) == set()


def test_the_core_is_what_is_imported():
    """And an extra for users has nothing that is not."""
    used = {distribution(module) for module in modules("src")} | NOT_IMPORTED.keys()
    declared = {*named(PROJECT["dependencies"]), *(name for extra in FOR_USERS for name in named(EXTRAS[extra]))}
    assert declared - used == set()


def test_a_minimum_is_declared_for_each():
    """Without one, the lowest version that is tested would be the first ever released."""
    for requirement in [*PROJECT["dependencies"], *(line for lines in EXTRAS.values() for line in lines)]:
        assert ">=" in requirement or requirement.startswith("jmdp["), requirement
