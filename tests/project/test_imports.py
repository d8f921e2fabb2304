"""Imports point one way, as the table in CONTRIBUTING.md says, there are no cycles, and `import jmdp` is light."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jmdp

SOURCE = Path(jmdp.__file__).parent
CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
HEAVY = ["numba", "scipy", "jax", "gymnasium", "ray", "xarray", "matplotlib", "tqdm", "pandas"]


def layers() -> Iterator[list[tuple[str, bool]]]:
    """The rows of the table: names of layers, and whether they are there yet."""
    table = CONTRIBUTING.read_text(encoding="utf-8").split("| layer | what is in it |")[1].split("\n\n")[0]
    for row in table.splitlines()[2:]:
        first = row.split("|")[1]
        yield [(name, f"*`{name}`*" not in first) for name in re.findall(r"`(\w+)`", first)]


RANK = {name: i for i, row in enumerate(layers()) for name, _ in row}
MODULES = {
    ".".join(("jmdp", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}


def layer_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def imports(module: str, *, typing: bool = True) -> set[str]:
    """Modules of ours that it imports, inside functions too; for type checkers only if `typing`."""
    tree, found = ast.parse(MODULES[module].read_text(encoding="utf-8")), set()
    if not typing:
        tree.body = [node for node in tree.body if not _is_for_type_checkers(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "jmdp":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in MODULES else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "jmdp"}
    return found - {module}


def _is_for_type_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@cache
def all_imports() -> dict[str, set[str]]:
    """Imports of all modules. Reading them takes seconds, which only these tests need."""
    return {module: imports(module) for module in MODULES}


def upward(graph: dict[str, set[str]]) -> list[str]:
    return [
        f"{module} imports {target}"
        for module, targets in graph.items()
        for target in targets
        if layer_of(target) != layer_of(module) and RANK[layer_of(target)] >= RANK[layer_of(module)]
    ]


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import one another, directly or not; empty if there are none."""
    left = {module: {target for target in targets if target in graph} for module, targets in graph.items()}
    while free := [module for module, targets in left.items() if not targets]:
        for module in free:
            del left[module]
        for targets in left.values():
            targets.difference_update(free)
    return sorted(left)


def test_every_layer_has_a_place():
    there = {name for row in layers() for name, exists in row if exists}
    assert {layer_of(module) for module in MODULES} == there


def test_imports_point_one_way():
    assert upward(all_imports()) == []


def test_no_cycles():
    ours = {module: imports(module, typing=False) - {"jmdp"} for module in MODULES}  # some use the public names
    assert cycle(ours) == []


def test_these_tests_can_fail():
    planted = {**all_imports(), "jmdp.base.arrays": {"jmdp.results.evaluation"}}
    assert upward(planted) == ["jmdp.base.arrays imports jmdp.results.evaluation"]
    assert "jmdp.base.arrays" in cycle({module: targets - {"jmdp"} for module, targets in planted.items()})


def test_nothing_but_kernels_compiles():
    for module, path in MODULES.items():
        if not module.startswith("jmdp.methods.kernels") and not module.endswith(("_kernel", "_kernels")):
            assert not re.search(r"(import|from) numba|numba\.", path.read_text(encoding="utf-8")), path


def test_sizes():
    """Files that fit a reader: at most 500 lines, functions of at most 60 lines and 8 parameters.

    Public verbs have as many parameters as they have options.
    """
    verbs = {
        "evaluate", "compare", "compare_policies", "compare_runs", "study", "review", "tabulate", "as_policy",
        "gap_samples", "frontier", "improve", "few_changes", "compare_scores",
    }  # fmt: skip
    too_much = []
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > 500:
            too_much.append(f"{path.relative_to(SOURCE)} has {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef):
                continue
            where = f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}"
            lines = node.end_lineno - node.lineno + 1
            count = len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])
            public_maker = node.name == "__init__" or path.parent.name == "worlds"  # settings of what users make
            if lines > 60 and node.name not in verbs:
                too_much.append(f"{where} has {lines} lines")
            if count > 8 and node.name not in verbs and not public_maker:
                too_much.append(f"{where} has {count} parameters")
    assert too_much == []


def test_import_is_light(tmp_path):
    """`import jmdp` does not load numpy; the names that evaluate a table load no heavy package.

    CPU times are multiples of that of importing numpy (best of five), usually 0.1 and 1. All
    are loaded as bytecode, which a first run writes: compiling jmdp doubles its time.
    """
    code = (
        "import json, sys, time\n"
        "times = [time.process_time()]\n"
        "import jmdp\n"
        "times.append(time.process_time())\n"
        f"loaded = [name for name in {['numpy', *HEAVY]} if name in sys.modules]\n"
        "import numpy\n"
        "times.append(time.process_time())\n"
        "jmdp.evaluate, jmdp.TabularJMDP, jmdp.TabularPolicy, jmdp.Local, jmdp.ExactPairs\n"
        "times.append(time.process_time())\n"
        "own, other, names = (times[i + 1] - times[i] for i in range(3))\n"
        f"loaded += [name for name in {HEAVY} if name in sys.modules]\n"
        "print(json.dumps([own / other, names / other, loaded]))"
    )
    kept = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    runs = [json.loads(subprocess.check_output([sys.executable, "-c", code], env=kept)) for _ in range(6)]
    assert runs[0][2] == []
    light, names = (min(run[i] for run in runs[1:]) for i in range(2))
    print(f"import jmdp takes {light:.2f} times as long as import numpy, the names that evaluate a table {names:.2f}")
    assert light <= 0.6
    assert names <= 2


def test_all_public_names_can_be_imported_at_once():
    """They are imported on first use: a name without its module would fail only when it is used."""
    code = "from jmdp import *; import jmdp; print(*(name for name in jmdp.__all__ if name not in globals()))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == ""
    assert {*jmdp.__all__} <= {*dir(jmdp)}


def test_names_that_are_imported_on_first_use_are_listed():
    """A name that is missing in `__all__` would work, and need neither documentation nor an entry in the fuzz.

    Those of `jmdp.methods` are its folders.
    """
    code = (
        "import jmdp\n"
        "def unlisted(package): return {*dir(package)} - {*vars(package), *package.__all__}\n"
        "found = unlisted(jmdp)\n"
        "for name in {*jmdp.__all__} - {'methods'}:\n"
        "    if hasattr(part := getattr(jmdp, name), '__path__'): found |= unlisted(part)\n"
        "print(*sorted(found))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == []


def test_public_names_are_all_there_and_documented():
    for name in jmdp.__all__:
        assert getattr(jmdp, name).__doc__, name
