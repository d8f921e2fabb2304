"""Each extra suffices for what it is for: modules of all packages that it does not install are hidden.

`smoke.py` uses the extra once. The same in environments of their own: ``.ci/package`` for the command line, and
``tests/project/smoke.py`` in ``.ci/run`` for all extras with their lowest versions.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from test_dependencies import normalised

SMOKE = Path(__file__).with_name("smoke.py")
HIDING = """
import importlib.abc, json, runpy, sys

class Hidden(importlib.abc.MetaPathFinder):
    def __init__(self, names):
        self.names = frozenset(names)

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r} (hidden)", name=name)

sys.meta_path.insert(0, Hidden(json.loads(sys.argv[1])))
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def needed(distribution, extras, seen):
    """Add a distribution with these extras, and all that it requires, to `seen`."""
    if (distribution, extras) in seen:
        return
    seen.add((distribution, extras))
    try:
        lines = requires(distribution) or []
    except PackageNotFoundError:
        return
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            needed(normalised(requirement.name), frozenset(requirement.extras), seen)


def hidden(extra):
    """Modules of packages that ``jmdp[extra]`` does not install."""
    seen = set()
    needed("jmdp", frozenset([extra] if extra else []), seen)
    installed = {name for name, _ in seen} | {"pip", "setuptools"}
    return sorted(
        module
        for module, owners in packages_distributions().items()
        if not {normalised(owner) for owner in owners} & installed and module not in sys.stdlib_module_names
    )


@pytest.mark.parametrize("extra", ["", "plot", "io", "cli", "study", "gym", "report", "jax", "onnx"])
def test_an_extra_needs_no_other(extra):
    found = hidden(extra)
    assert "pytest" in found
    assert ("gymnasium" in found) == (extra != "gym")
    command = [sys.executable, "-c", HIDING, json.dumps(found), str(SMOKE), *(["--only", extra] if extra else [])]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
