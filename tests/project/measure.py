"""The size of the package as a table: ``python tests/project/measure.py [FOLDER]``, with the sources in FOLDER/src.

Lines, files and entries of ``src/jmdp``, public names, protocols, parameters, and the functions that one call passes.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
SOURCE = FOLDER / "src" / "jmdp"
sys.path.insert(0, str(SOURCE.parent))

import jmdp  # noqa: E402

VERBS = ("evaluate", "compare", "compare_policies", "compare_runs", "study", "review", "tabulate", "NeuralGram")


def passed(call: Callable[[], Any]) -> str:
    """Functions of ours that a warm call passes, and their files."""
    call()
    found: set[tuple[str, int]] = set()

    def see(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            found.add((code.co_filename, code.co_firstlineno))

    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
    return f"{len(found)} in {len({file for file, _ in found})} files"


def rows() -> dict[str, object]:
    """The table."""
    files = [path for path in SOURCE.rglob("*.py") if "experiments" not in path.parts]
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    world = jmdp.worlds.windy_gridworld()
    import gymnasium

    frozen = gymnasium.make("FrozenLake-v1")
    frozen.reset(seed=0)
    return {
        "lines": sum(path.read_text(encoding="utf-8").count("\n") for path in files),
        "files": len(files),
        "files of fewer than 100 lines": sum(path.read_text(encoding="utf-8").count("\n") < 100 for path in files),
        "entries at the top": len(
            {path.relative_to(SOURCE).parts[0] for path in files} - {"__init__.py", "__main__.py"}
        ),
        "public names": len(jmdp.__all__),
        "protocols": sum(any(ast.unparse(base).startswith("Protocol") for base in one.bases) for one in classes),
        "parameters": ", ".join(f"{name} {len(inspect.signature(getattr(jmdp, name)).parameters)}" for name in VERBS),
        "public attributes of Comparison": sum(not name.startswith("_") for name in dir(jmdp.comparisons.Comparison)),
        "functions of one compare": passed(
            lambda: jmdp.compare(frozen, policy=[0] * 16, discount=0.95, seed=0, samples=64, progress=False)
        ),
        "functions of one evaluate": passed(
            lambda: jmdp.evaluate(world.model, world.policies["uniform"], jmdp.Synchronous())
        ),
    }  # fmt: skip


if __name__ == "__main__":
    for row, value in rows().items():
        print(f"| {row} | {value} |")
