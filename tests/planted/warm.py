"""A process that has imported what tests need, and forks a copy for each bug, in which one test runs.

Neither the package nor JAX, torch and Ray are imported before the fork: the first must have the bug, the others have
threads. A bug then costs one to three seconds of CPU time instead of eight.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
PYTEST = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(TESTS.parent)]


class Warm:
    """Client of such a process."""

    def __init__(self) -> None:
        path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH", "")]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "planted.warm"],
            cwd=TESTS.parent,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def plant(self, name: str) -> dict[str, Any]:
        """Plant the bug of this name: whether its test fails, the CPU seconds, and the output of pytest."""
        return self._ask(run_with_bug, name)

    def collected(self, tests: list[str]) -> list[str]:
        """Tests of the gate among these, which may be files or names without parameters."""
        said = self._ask(collect, tests)["output"]
        found = [line.removeprefix(f"{TESTS.name}/") for line in said.splitlines() if "::" in line]
        assert found, said
        assert "\nERROR" not in said, said
        return found

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _ask(self, work: Any, given: Any) -> Any:
        print(json.dumps([work.__name__, given]), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


def main() -> None:
    """Answer each line of JSON with another until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what pytest prints is no answer
    import_what_tests_need()
    for line in sys.stdin:
        work, given = json.loads(line)
        print(json.dumps(forked(globals()[work], given)), file=answers, flush=True)


def import_what_tests_need() -> None:
    import pytest

    with tempfile.TemporaryDirectory() as folder:  # first, so that pytest imports its plugins itself
        pytest.main([*PYTEST, "--collect-only", "--noconftest", "-c", os.devnull, folder])
    import hypothesis.extra.numpy  # noqa: F401
    import numba.core.caching  # noqa: F401
    import numpy.testing  # noqa: F401
    import scipy.linalg
    import scipy.optimize
    import scipy.sparse.csgraph
    import scipy.special
    import scipy.stats  # noqa: F401

    from planted.bugs import BUGS
    from planted.planting import folder_of

    folder_of(BUGS[0])  # reads all sources


def forked(work: Any, given: Any) -> dict[str, Any]:
    """Call a function in a copy of this process; its exit code is that of pytest."""
    folder = tempfile.mkdtemp()
    output = Path(folder) / "output"
    child = os.fork()
    if child == 0:
        code = 70
        try:
            with open(output, "wb") as file, open(os.devnull) as nothing:
                for stream, to in ((0, nothing), (1, file), (2, file)):
                    os.dup2(to.fileno(), stream)
            os.environ["TMPDIR"] = tempfile.tempdir = folder
            code = int(work(given))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status, usage = os.wait4(child, 0)
    text = output.read_text("utf-8", "replace")
    shutil.rmtree(folder, ignore_errors=True)
    failed = os.waitstatus_to_exitcode(status) == 1 and "1 failed" in text
    return {
        "caught": failed and not re.search("^E +NameError", text, re.MULTILINE),  # a bug that names what is not there
        "cpu": usage.ru_utime + usage.ru_stime,
        "output": text,
    }


def run_with_bug(name: str) -> int:
    """Run the test of a bug, which must fail: an error before it, such as of an import, has another exit code."""
    import pytest

    from planted.bugs import BUGS
    from planted.planting import is_kernel, plant

    bug = next(bug for bug in BUGS if bug.name == name)
    if is_kernel(bug):
        os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp()
        import numba

        numba.config.reload_config()
    plant(bug)
    return pytest.main([*PYTEST, "-m", "", str(TESTS / bug.caught_by)])


def collect(tests: list[str]) -> int:
    """Print the tests that are not marked as long."""
    import pytest

    return pytest.main([*PYTEST, "--collect-only", *(str(TESTS / test) for test in tests)])


if __name__ == "__main__":
    main()
