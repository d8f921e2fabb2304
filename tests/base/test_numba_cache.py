"""Kernels without a usable cache: the same results, and one warning that says what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import jmdp
from jmdp.base import compiled_kernel

SOURCE = Path(jmdp.__file__).parent
BOUND = [] if os.getuid() else ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
"""Command by which permissions of files bind root too."""
needs_permissions = pytest.mark.skipif(bool(BOUND) and not shutil.which("setpriv"), reason="permissions do not bind")

SMALL = """
from jmdp.base.compiled_kernel import compiled

@compiled()
def half(x):
    return x / 2

@compiled()
def twice(x):
    return half(x) * 4
"""
RUN = "import sys, small; print([repr(small.twice(eval(given))) for given in sys.argv[1:]])"
GIVEN = ["3", "3j"]
"""Two types, hence two entries of the cache."""
ANSWER = str([repr(x) for x in (6.0, 6j)])

REAL = """
import jmdp
world = jmdp.worlds.windy_gridworld(2, 2)
policy = world.policies["uniform"]
for method in (jmdp.ReachablePairs(0), jmdp.MonteCarlo(seed=0, samples=64)):
    found = jmdp.evaluate(world.model, policy, jmdp.Local(), method, throw=False)
    print(found.mean.tolist(), found.covariance.tolist())
"""


@pytest.fixture(scope="module")
def filled():
    """A folder with a cache that a first run has filled, and its copy."""
    path = Path(tempfile.mkdtemp())
    (path / "small.py").write_text(SMALL)
    assert run(path, *GIVEN) == (ANSWER, "")
    shutil.copytree(path / "cache", path / "copy")
    yield path
    shutil.rmtree(path)


@pytest.fixture
def folder(filled):
    """The same folder: the name of a cache depends on that of the module."""
    shutil.rmtree(filled / "cache")
    shutil.copytree(filled / "copy", filled / "cache")
    return filled


def run(folder, *given, code=RUN, source=SOURCE.parent, cache="cache", bound=False, largest_file=None):
    """Output and warnings of a process, started in the folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (source, folder)))}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    if cache is None:
        for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
            environment.pop(name, None)
        environment["HOME"] = os.devnull
    else:
        environment["NUMBA_CACHE_DIR"] = str(folder / cache)
    if largest_file is not None:
        code = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({largest_file}, {largest_file}))\n{code}"
    done = subprocess.run(
        [*(BOUND if bound else []), sys.executable, "-c", code, *given], cwd=folder, env=environment, text=True,
        capture_output=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def files(folder, pattern):
    return sorted((folder / "cache").rglob(pattern))


def warned_once(stderr, *parts):
    assert stderr.count("RuntimeWarning") == 1, stderr
    assert "Traceback" not in stderr
    for part in parts:
        assert part in stderr


def test_a_cache_is_written_and_read(folder):
    stored = {path: path.stat().st_mtime_ns for path in files(folder, "*")}
    assert len(files(folder, "*.nbc")) == 4  # two functions, two types each
    assert run(folder, *GIVEN) == (ANSWER, "")
    assert stored == {path: path.stat().st_mtime_ns for path in files(folder, "*")}


def compiled_in_memory(folder, code, *given, source):
    """Output of a process that may write nowhere: folders are read-only, and there is no home."""
    paths = (folder, *folder.rglob("*"))
    modes = {path: path.stat().st_mode for path in paths}
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        found, stderr = run(folder, *given, code=code, source=source, cache=None, bound=True)
        assert not list(folder.rglob("__pycache__"))
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    warned_once(stderr, "numba finds no folder in which it can store compiled code", "NUMBA_CACHE_DIR")
    return found


def test_a_copy_in_another_folder_uses_the_same_cache(folder, tmp_path):
    stored = {path: path.stat().st_mtime_ns for path in files(folder, "*.nb?")}
    shutil.copy(folder / "small.py", tmp_path)
    assert run(tmp_path, *GIVEN, cache=folder / "cache") == (ANSWER, "")
    assert stored == {path: path.stat().st_mtime_ns for path in files(folder, "*.nb?")}


def test_every_kernel_of_the_package_is_in_the_stamp():
    """A kernel of one module that calls a changed one of another must be compiled again."""
    kernels = [path for path in SOURCE.rglob("*.py") if "\n@compiled(" in path.read_text()]
    assert len(kernels) >= 8
    assert [path.name for path in kernels if path.read_bytes() not in compiled_kernel._all_kernels()] == []


def test_a_changed_kernel_changes_the_stamp_of_all(monkeypatch):
    before = compiled_kernel._stamp(__file__)
    monkeypatch.setattr(compiled_kernel, "_all_kernels", lambda: b"changed")
    assert compiled_kernel._stamp(__file__) != before


@needs_permissions
def test_without_a_folder_kernels_are_compiled_in_memory(tmp_path):
    (tmp_path / "small.py").write_text(SMALL)
    assert compiled_in_memory(tmp_path, RUN, *GIVEN, source=SOURCE.parent) == ANSWER


@pytest.mark.long
@needs_permissions
def test_a_read_only_package_without_a_home_compiles_in_memory(tmp_path):
    """An installed package that this user may not write to, and no other folder for a cache."""
    shutil.copytree(SOURCE, tmp_path / "site" / "jmdp", ignore=shutil.ignore_patterns("__pycache__"))
    found = compiled_in_memory(tmp_path, REAL, source=tmp_path / "site")
    assert found == run(tmp_path, code=REAL)[0]


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path):
    path.write_bytes(b"")


def replace(path):
    path.write_bytes(bytes(range(256)) * 20)


def change_one_byte(path):
    """In the middle, which is machine code in a file of compiled code."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("pattern", "damages"),
    [("*.nbi", [cut]), ("*.nbi", [change_one_byte]), ("*.nbc", [change_one_byte]), ("*.nbc", [cut, empty, replace])],
)
def test_damaged_files_are_not_used(folder, pattern, damages):
    for i, path in enumerate(files(folder, pattern)):
        damages[i % len(damages)](path)
    found, stderr = run(folder, *GIVEN)
    assert found == ANSWER
    warned_once(stderr, "is damaged", "the file replaced")
    assert run(folder, *GIVEN) == (ANSWER, "")  # replaced


def test_an_index_with_another_beginning_is_written_again(folder):
    """It may be that of another version of numba."""
    one, other = files(folder, "*.nbi")
    empty(one)
    replace(other)
    assert run(folder, *GIVEN) == (ANSWER, "")
    assert [path.read_bytes() for path in (one, other)] == [
        path.read_bytes() for path in sorted((folder / "copy").rglob("*.nbi"))
    ]


@needs_permissions
def test_files_of_another_user_that_cannot_be_read(folder):
    for path in (folder / "cache").rglob("*"):
        path.chmod(0o777 if path.is_dir() else 0)
    found, stderr = run(folder, *GIVEN, bound=True)
    assert found == ANSWER
    warned_once(stderr, "numba's cache cannot be read (Permission denied)", f"Delete the folder {path.parent}")


def test_a_full_disk(folder):
    """No file may grow beyond 100 bytes, which fails as a full disk does: while the file is written."""
    shutil.rmtree(folder / "cache")
    found, stderr = run(folder, *GIVEN, largest_file=100)
    assert found == ANSWER
    warned_once(stderr, "numba's cache cannot be written (File too large)", "NUMBA_CACHE_DIR")
    assert files(folder, "*.nb?*") == []


def test_processes_that_compile_at_the_same_time(folder):
    """Each in another order, so that they give the same name to entries for different types."""
    shutil.rmtree(folder / "cache")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (SOURCE.parent, folder)))}
    environment["NUMBA_CACHE_DIR"] = str(folder / "cache")
    runs = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", RUN, *GIVEN[i:], *GIVEN[:i]], env=environment, cwd=folder,
            stdout=subprocess.PIPE, text=True,
        )
        for i in range(2)
    ]  # fmt: skip
    answers = [sorted(eval(process.communicate(timeout=600)[0])) for process in runs]
    assert answers == [sorted(eval(ANSWER))] * 2
    assert run(folder, *GIVEN) == (ANSWER, "")


def test_entries_under_the_name_of_another_are_not_used(folder):
    """As two processes may leave them."""
    first, second = files(folder, "*twice*.nbc")
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    assert run(folder, *GIVEN) == (ANSWER, "")
    assert run(folder, *GIVEN) == (ANSWER, "")
