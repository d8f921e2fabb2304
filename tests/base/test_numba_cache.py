"""Kernels without a usable cache: the same results, and one warning that says what to do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import jmdp
from jmdp.base import compiled_kernel

SOURCE = Path(jmdp.__file__).parent
BOUND = [] if os.getuid() else ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
"""Command by which permissions of files bind root too."""
needs_permissions = pytest.mark.skipif(bool(BOUND) and not shutil.which("setpriv"), reason="permissions do not bind")

SMALL = """
from jmdp.base.compiled_kernel import compiled, compiled_part

@compiled_part()
def half(x):
    return x / 2

@compiled()
def twice(x):
    return half(x) * 4
"""
RUN = "import sys, small; print([repr(small.twice(eval(given))) for given in sys.argv[1:]])"
GIVEN = ["3", "3j"]
"""Two types, hence two folders of the cache."""
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


def run(folder, *given, code=RUN, source=SOURCE.parent, cache="cache", bound=False, largest_file=None, **variables):
    """Output and warnings of a process, started in the folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (source, folder)))} | variables
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
    assert len(files(folder, "*.nbc")) == 2  # one for each type
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
    warned_once(stderr, "cannot be used", "Permission denied" if os.getuid() else "", "NUMBA_CACHE_DIR")
    return found


@pytest.mark.long
def test_a_copy_in_another_folder_uses_the_same_cache(folder, tmp_path):
    stored = {path: path.stat().st_mtime_ns for path in files(folder, "*.nb?")}
    shutil.copy(folder / "small.py", tmp_path)
    assert run(tmp_path, *GIVEN, cache=folder / "cache") == (ANSWER, "")
    assert stored == {path: path.stat().st_mtime_ns for path in files(folder, "*.nb?")}


def test_every_kernel_of_the_package_is_in_the_name():
    """A kernel of one module that calls a changed one of another must be compiled again."""
    kernels = [path for path in SOURCE.rglob("*.py") if re.search(r"^@compiled(_part)?\(", path.read_text(), re.M)]
    assert len(kernels) >= 8
    assert [path.name for path in kernels if path.read_bytes() not in compiled_kernel._sources()] == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda patch: patch.setattr(compiled_kernel, "_sources", lambda: b"changed"), id="another kernel"),
        pytest.param(lambda patch: patch.setattr(compiled_kernel, "_machine", lambda: ("0.1",)), id="numba"),
        pytest.param(lambda patch: patch.setattr(run, "__module__", "elsewhere"), id="module"),
    ],
)
def test_what_code_depends_on_is_in_the_name(change, monkeypatch):
    before = list(compiled_kernel._folders(run, ("f8",)))
    assert before == list(compiled_kernel._folders(run, ("f8",))) != list(compiled_kernel._folders(run, ("f4",)))
    change(monkeypatch)
    assert not {*before} & {*compiled_kernel._folders(run, ("f8",))}


def test_a_changed_source_is_compiled_again(folder, tmp_path):
    (tmp_path / "small.py").write_text(SMALL.replace("x / 2", "x / 4"))
    assert run(tmp_path, *GIVEN, cache=folder / "cache") == (str([repr(x) for x in (3.0, 3j)]), "")
    assert run(folder, *GIVEN) == (ANSWER, "")


@pytest.mark.long
def test_without_the_private_names_of_numba_results_are_the_same(folder):
    for change in (
        "del numba.core.caching.IndexDataCacheFile",
        "numba.core.caching.IndexDataCacheFile.__init__ = lambda self, *, other: None",
        "del numba.core.caching.IndexDataCacheFile._load_index",
    ):
        found, stderr = run(folder, *GIVEN, code=f"import numba.core.caching; {change}\n{RUN}")
        assert found == ANSWER
        assert not stderr or "Results are the same" in stderr
        assert run(folder, *GIVEN) == (ANSWER, "")
    found, stderr = run(folder, *GIVEN, code=f"import numba; del numba.config.CACHE_DIR\n{RUN}")
    assert found == ANSWER


def test_settings_of_numba_are_restored():
    import numba

    before = numba.config.CACHE_DIR, numba.config.SLP_VECTORIZE
    assert compiled_kernel.compiled()(twice_and_one)(2.0) == 5.0
    after = numba.config.CACHE_DIR, numba.config.SLP_VECTORIZE
    assert after == before


def twice_and_one(x):
    return 2 * x + 1


def test_arguments_of_other_types_are_compiled_anew(tmp_path):
    """numba converts arguments of kernels with fixed types: 0.5 would become 0."""
    kernel = compiled_kernel.compiled()(twice_and_one)
    assert [kernel(1), kernel(0.5), kernel(True), kernel(np.float32(0.5))] == [3, 2.0, 3, 2.0]
    parts = compiled_kernel.compiled()(twice_first)
    rows = np.arange(6.0).reshape(2, 3)
    frozen = rows.copy()
    frozen.flags.writeable = False
    for array in (rows, rows.T, rows[:, ::2], frozen, rows.astype(np.int32), rows.astype(np.float32)):
        assert (parts((array, 3)) == 2 * array[0]).all()


def twice_first(given):
    return 2 * given[0][0]


def test_threads_that_call_a_kernel_at_the_same_time_compile_it_once(monkeypatch):
    """Nor is a kernel compiled again for NumPy's floats, which have the type of Python's."""
    made, make = [], compiled_kernel._kernel
    monkeypatch.setattr(compiled_kernel, "_kernel", lambda *given: made.append(given) or make(*given))
    kernel, start = compiled_kernel.compiled()(twice_and_one), threading.Barrier(4)

    def call(x):
        start.wait()
        return kernel(x)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(call, [1.0, np.float64(2.0), 3.0, np.float64(4.0)])) == [3.0, 5.0, 7.0, 9.0]
    assert len(made) == 1


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
    [
        pytest.param("*.nbi", [cut], marks=pytest.mark.long),
        ("*.nbi", [change_one_byte]),
        ("*.nbc", [change_one_byte]),
        pytest.param("*.nbc", [cut, empty, replace], marks=pytest.mark.long),
    ],
)
def test_damaged_files_are_not_used(folder, pattern, damages):
    for i, path in enumerate(files(folder, pattern)):
        damages[i % len(damages)](path)
    assert run(folder, *GIVEN) == (ANSWER, "")
    stored = {path: path.stat().st_mtime_ns for path in files(folder, "*.nb?")}
    assert run(folder, *GIVEN) == (ANSWER, "")
    assert stored == {path: path.stat().st_mtime_ns for path in files(folder, "*.nb?")}  # replaced


def test_a_process_that_was_killed_before_it_had_stored_all(folder):
    for path in files(folder, "checksum"):
        path.unlink()
    files(folder, "*.nbi")[0].unlink()
    assert run(folder, *GIVEN) == (ANSWER, "")
    assert len(files(folder, "checksum")) == 2


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGSTOP")
def test_a_process_that_hangs_with_the_lock_delays_others_but_does_not_stop_them(folder):
    shutil.rmtree(folder / "cache")
    hang = "from jmdp.base import compiled_kernel as k; k._checksum = lambda _: print(flush=True) or signal.pause()"
    wait = "from jmdp.base import compiled_kernel; compiled_kernel._PATIENCE = 1"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (SOURCE.parent, folder)))}
    environment["NUMBA_CACHE_DIR"] = str(folder / "cache")
    command = [sys.executable, "-c", f"import signal; {hang}\n{RUN}", *GIVEN]
    with subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        found, stderr = run(folder, *GIVEN, code=f"{wait}\n{RUN}")
        process.kill()
    assert found == ANSWER
    warned_once(stderr, "cannot be used", "lock")


@needs_permissions
def test_files_of_another_user_that_cannot_be_read(folder):
    for path in (folder / "cache").rglob("*"):
        path.chmod(0o777 if path.is_dir() else 0)
    found, stderr = run(folder, *GIVEN, bound=True)
    assert found == ANSWER
    warned_once(stderr, "cannot be used", "Permission denied", str(folder / "cache"))


def test_a_full_disk(folder):
    """No file may grow beyond 100 bytes, which fails as a full disk does: while the file is written."""
    shutil.rmtree(folder / "cache")
    found, stderr = run(folder, *GIVEN, largest_file=100)
    assert found == ANSWER
    warned_once(stderr, "cannot be used", "File too large", "NUMBA_CACHE_DIR")
    assert files(folder, "*.nb?") == []


@pytest.mark.long
def test_eight_processes_that_compile_different_types_at_the_same_time(folder):
    """Each in another order."""
    shutil.rmtree(folder / "cache")
    given = ["3", "3j", "True", "__import__('numpy').float32(3)"]
    expected = [repr(x) for x in (6.0, 6j, 2.0, 6.0)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (SOURCE.parent, folder)))}
    environment["NUMBA_CACHE_DIR"] = str(folder / "cache")
    runs = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", RUN, *given[i % 4 :], *given[: i % 4]], env=environment, cwd=folder,
            stdout=subprocess.PIPE, text=True,
        )
        for i in range(8)
    ]  # fmt: skip
    answers = [eval(process.communicate(timeout=600)[0]) for process in runs]
    assert answers == [expected[i % 4 :] + expected[: i % 4] for i in range(8)]
    stored = {path: path.stat().st_mtime_ns for path in files(folder, "*.nb?")}
    assert len(stored) == 8
    assert run(folder, *given) == (str(expected), "")
    assert stored == {path: path.stat().st_mtime_ns for path in files(folder, "*.nb?")}
