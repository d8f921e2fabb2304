"""What stored numbers and figures were made with, and which of them are older than the code they depend on.

Whatever writes a file below `STORED` calls `record` in the process that computed it. The entry in docs/provenance.json
has the version, the commit, the date, the machine, the random seeds, the source files of the repository that this
process had loaded, and a digest of them without comments and docstrings. ``python -m benchmarks --stale`` computes the
digests again.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from filelock import FileLock

import jmdp
from benchmarks.report import Row, machine
from jmdp.base.whole_files import whole_file

ROOT = Path(__file__).parents[1]
LEDGER = ROOT / "docs" / "provenance.json"
STORED = (
    "docs/benchmark_results/*",
    "docs/reproduction_results/*/*",
    "docs/images/*.*",
    "docs/images/*/*",
    "docs/_static/*.html",
)
"""Files with numbers, or drawn from numbers."""

Entry = dict[str, object]


def record(path: Path, *, seeds: str = "none", sources: Iterable[Path] = ()) -> None:
    """Record how a stored file was made: by the code that this process has loaded, and by these other sources.

    A file outside the repository has no entry: nothing.
    """
    path = path.resolve()
    if not path.is_relative_to(ROOT):
        return
    files = sorted({*_loaded(), *(source.resolve().relative_to(ROOT).as_posix() for source in sources)})
    entry: Entry = {
        "version": jmdp.__version__,
        "commit": _commit(files),
        "date": date.today().isoformat(),
        "machine": {key: value for key, value in machine().items() if key != "date"},
        "seeds": seeds,
        "content": hashlib.sha256(path.read_bytes()).hexdigest()[:16],
        "digest": digest(files),
        "files": _by_folder(files),
    }
    with FileLock(LEDGER.with_name(".provenance.lock")):
        found = {**entries(), path.relative_to(ROOT).as_posix(): entry}
        with whole_file(LEDGER) as file:
            text = json.dumps(dict(sorted(found.items())), indent=1, ensure_ascii=False)
            file.write(f"{text}\n".encode())


def entries() -> dict[str, Entry]:
    """Return all entries by the path of their file."""
    return dict(json.loads(LEDGER.read_text(encoding="utf-8"))) if LEDGER.exists() else {}


def stale() -> list[Row]:
    """Return a row for each stored file that the present code has not made."""
    known = entries()
    there = {path.relative_to(ROOT).as_posix() for pattern in STORED for path in ROOT.glob(pattern) if path.is_file()}
    rows: list[Row] = []
    for name in sorted(there | set(known)):
        entry = known.get(name)
        if (reason := _reason(name, entry)) is not None:
            made = entry or {}
            columns = {"version": "version", "commit": "commit", "date": "date"}
            rows.append({"file": name, **{column: str(made.get(key, "–")) for column, key in columns.items()},
                         "why": reason})  # fmt: skip
    return rows


def _reason(name: str, entry: Entry | None) -> str | None:
    """Return why a stored file is not of the present code, or None."""
    if not (ROOT / name).is_file():
        return "the file is missing"
    if entry is None:
        return "not recorded"
    if entry["content"] != hashlib.sha256((ROOT / name).read_bytes()).hexdigest()[:16]:
        return "changed after it was recorded"
    folders = entry["files"]
    assert isinstance(folders, dict)
    files = [f"{folder}/{name}" for folder, names in folders.items() for name in names.split()]
    gone = [file for file in files if not (ROOT / file).is_file()]
    if gone:
        return f"code that it depends on was removed: {gone[0]}"
    return None if entry["digest"] == digest(files) else "code that it depends on has changed"


def sources() -> list[str]:
    """Return all source files on which a benchmark can depend."""
    found = [*ROOT.glob("benchmarks/*.py"), *ROOT.glob("src/jmdp/**/*.py")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def digest(files: Sequence[str]) -> str:
    """Return a digest of sources without comments, docstrings and layout, and of their names."""
    found = hashlib.sha256()
    for file in sorted(files):
        text = (ROOT / file).read_text(encoding="utf-8")
        found.update(f"{file}\n{_program(text) if file.endswith('.py') else text}\n".encode())
    return found.hexdigest()[:16]


def _program(source: str) -> str:
    """Return a program without comments, docstrings, layout and number of the version."""
    tree = ast.parse(re.sub(r'^__version__ = ".*"$', "", source, flags=re.MULTILINE))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [part for part in node.body if not _is_text(part)]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    """Return whether a statement is a string, such as the docstring of a module, class, function or field."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _loaded() -> set[str]:
    """Return the source files of the repository that this process has loaded, without this one."""
    paths = {Path(str(getattr(module, "__file__", None))).resolve() for module in list(sys.modules.values())}
    there = [path for path in paths if path.suffix == ".py" and path.is_file()]  # torch has modules without one
    ours = {path.relative_to(ROOT) for path in there if path.is_relative_to(ROOT)}
    return {path.as_posix() for path in ours if path.parts[0] != "tests"} - {"benchmarks/provenance.py"}


def _commit(files: Sequence[str]) -> str:
    """Return the commit, with a + if these files have changes that are not committed."""
    commit = _git("rev-parse", "--short=10", "HEAD")
    return f"{commit}+" if _git("status", "--porcelain", "--", *files) else commit


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _by_folder(files: Iterable[str]) -> dict[str, str]:
    """Return names by folder, which is shorter than all paths."""
    found: dict[str, list[str]] = {}
    for file in files:
        found.setdefault(str(Path(file).parent), []).append(Path(file).name)
    return {folder: " ".join(sorted(names)) for folder, names in sorted(found.items())}
