"""The rooms import one way, and `import jmdp` is light."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import jmdp

SOURCE = Path(jmdp.__file__).parent

# A module imports only from rows above its own, or from its own room.
LAYERS = [
    ["errors", "rounding"],
    ["arrays", "labels", "interval", "settings", "files", "luck", "digests"],
    ["outcomes", "learning", "simulator", "anytime", "progress"],
    ["model", "checking"],
    ["policy", "lazy_model", "features", "encoders"],
    ["coupling", "actors"],
    ["exact", "worlds", "kernels", "gaps", "projection", "calibration", "rollouts", "pair_walks"],
    ["simulators", "walk_workers"],
    ["evaluation", "sampling_check"],
    ["neural"],
    ["methods"],
    ["evaluate"],
    ["moment_check", "plots", "comparison_table"],
    ["comparison"],
    ["comparing"],
    ["testing"],
    ["__init__"],
    ["experiments", "benchmarks"],  # users of the public names, like anyone
    ["cli"],
    ["__main__"],
]
RANK = {room: i for i, layer in enumerate(LAYERS) for room in layer}
HEAVY = ["numba", "scipy", "jax", "gymnasium", "ray", "xarray", "matplotlib", "tqdm", "pandas"]


def room_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imported_rooms(tree: ast.AST):
    """Rooms imported at run time; imports for type checkers are not loaded."""
    for node in ast.iter_child_nodes(tree):
        if is_type_checking(node):
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "jmdp":
            parts = node.module.split(".")
            yield from (
                [parts[1]]
                if len(parts) > 1
                else [alias.name if alias.name in RANK else "__init__" for alias in node.names]
            )
        elif isinstance(node, ast.Import):
            yield from (
                (alias.name + ".__init__").split(".")[1] for alias in node.names if f"{alias.name}.".startswith("jmdp.")
            )
        else:
            yield from imported_rooms(node)


def test_every_room_has_a_place():
    rooms = {room_of(path) for path in SOURCE.rglob("*.py")}
    assert rooms == set(RANK)


def test_imports_point_one_way():
    wrong = [
        f"{path.relative_to(SOURCE)} imports {target}"
        for path in SOURCE.rglob("*.py")
        for target in imported_rooms(ast.parse(path.read_text()))
        if target != room_of(path) and RANK[target] >= RANK[room_of(path)]
    ]
    assert wrong == []


def test_nothing_but_kernels_compiles():
    for path in SOURCE.rglob("*.py"):
        if room_of(path) not in ("kernels", "benchmarks"):  # a peer may be compiled too
            assert "numba" not in path.read_text().replace("numba kernel", ""), path


def test_import_is_light():
    """No heavy package is loaded, and the time over numpy's own is at most 0.25 s of a core (best of five)."""
    code = (
        "import json, sys, time\n"
        "import numpy\n"
        "start = time.process_time()\n"  # not of the clock, which others' work moves too
        "import jmdp\n"
        "took = time.process_time() - start\n"
        f"print(json.dumps([took, [name for name in {HEAVY} if name in sys.modules]]))"
    )
    runs = [json.loads(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    assert runs[0][1] == []
    took = min(seconds for seconds, _ in runs)
    print(f"import jmdp adds {took:.3f} s")
    assert took <= 0.25


def test_public_names_are_all_there_and_documented():
    for name in jmdp.__all__:
        assert getattr(jmdp, name).__doc__, name
