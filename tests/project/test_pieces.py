"""Tests run in pieces: what has passed is not run again, and what is left is said by the exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pieces import MORE

TESTS_FOLDER = Path(__file__).parents[1]
TESTS = """
import pytest

@pytest.mark.parametrize("i", range(4))
def test_number(i):
    assert i != {wrong}
"""


def test_tests_of_the_long_run_are_there(collected):
    """Each line of the list is the beginning of a name, in the files of this run."""
    files = {name.partition("::")[0] for name in collected}
    _, *lines = (TESTS_FOLDER / "long.txt").read_text(encoding="utf-8").splitlines()
    own = [line for line in lines if line.partition("::")[0] in files]
    assert [line for line in own if not any(name.startswith(line) for name in collected)] == []


def test_pieces_continue_until_nothing_is_left(tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ("pieces",)')
    ledger = tmp_path / "ledger"

    def piece(*options, wrong=None):
        (tmp_path / "test_it.py").write_text(TESTS.format(wrong=wrong))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-n", "1", "--ledger", ledger, *options]
        environment = {**os.environ, "PYTHONPATH": str(TESTS_FOLDER), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        return run.returncode, len(ledger.read_text().splitlines()) if ledger.exists() else 0, run.stdout

    code, passed, said = piece("--minutes", "0")
    assert (code, passed) == (MORE, 0)
    assert "4 tests are left" in said
    assert piece(wrong=2)[:2] == (pytest.ExitCode.TESTS_FAILED, 3)
    code, passed, said = piece()
    assert (code, passed) == (pytest.ExitCode.OK, 4)
    assert "1 passed" in said
    assert piece()[:2] == (pytest.ExitCode.OK, 4)
