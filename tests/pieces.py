"""Run many tests in pieces: ``pytest -m long --ledger passed.txt --minutes 15``, repeated until nothing is left.

A piece starts no test after this time. Tests that have passed are in the ledger and are not run again.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

TIME_IS_UP = "the time of this piece is up"
MORE = 75
"""Exit code if tests are left and none has failed: EX_TEMPFAIL, "try again"."""
PASSED = pytest.StashKey[set[str]]()


def pytest_addoption(parser):
    group = parser.getgroup("pieces")
    group.addoption("--ledger", type=Path, help="file with the tests that have passed; they are not run again")
    group.addoption("--minutes", type=float, help="start no test after this time")


def pytest_configure(config):
    config.stash[PASSED] = passed = set()
    if hasattr(config, "workerinput"):
        passed.update(config.workerinput["passed"])
    elif (ledger := config.option.ledger) is not None:
        if ledger.exists():
            passed.update(ledger.read_text().splitlines())
        config.pluginmanager.register(_Ledger(ledger))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Processes of pytest-xdist must all collect the same tests, also one that is started later."""
    node.workerinput["passed"] = sorted(node.config.stash[PASSED])


def pytest_collection_modifyitems(config, items):
    passed = config.stash[PASSED]
    if old := [item for item in items if item.nodeid in passed]:
        config.hook.pytest_deselected(items=old)
        items[:] = [item for item in items if item.nodeid not in passed]


START = time.monotonic()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    minutes = item.config.option.minutes
    if minutes is not None and time.monotonic() - START > 60 * minutes:
        pytest.skip(TIME_IS_UP)


class _Ledger:
    """Adds the tests that pass, each as it ends: a run that is killed has lost only what was running."""

    def __init__(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._called, self._left = path, set(), 0

    def pytest_runtest_logreport(self, report):
        if report.skipped and TIME_IS_UP in str(report.longrepr):
            self._left += 1
        elif report.when == "call" and report.passed:
            self._called.add(report.nodeid)
        elif (report.when == "teardown" and report.passed and report.nodeid in self._called) or report.skipped:
            with self._path.open("a") as file:
                file.write(f"{report.nodeid}\n")
                os.fsync(file.fileno())

    def pytest_sessionfinish(self, session):
        nothing = session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
        if self._left and (nothing or session.exitstatus == pytest.ExitCode.OK):
            session.exitstatus = MORE
        elif nothing:  # all have passed before
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter):
        left = f"{self._left} tests are left; the same command continues" if self._left else "no test is left"
        terminalreporter.write_line(left)
