"""P7: the tests have power. Each bug of ``tests/planted`` is planted in the package, and a named test must fail on it.

Only a failing assertion or error inside the test counts: a package that does not even import does not.
"""

from __future__ import annotations

import os
import re

import pytest

from planted.bugs import BUGS
from planted.planting import PlantingError, folder_of, source_of
from planted.warm import Warm

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="each bug is planted in a fork")
PARTS = 4
"""``pytest -m long -k part1`` plants a fourth of all bugs."""


def sample():
    """On every change one bug is planted for each folder of the package and for each method: the first in the list."""
    first = {}
    for bug in BUGS:
        if (folder := folder_of(bug)) is not None:
            first.setdefault(tuple(folder.split("/")[: 2 if folder.startswith("methods") else 1]), bug)
    return [*first.values()]


@pytest.fixture(scope="module")
def warm():
    process = Warm()
    yield process
    process.close()


def planted(warm, bug):
    run = warm.plant(bug.name)
    if re.search(r"^\d+ skipped", run["output"], re.MULTILINE):
        pytest.skip("its test is skipped here")
    assert run["caught"], f"not caught by {bug.caught_by}:\n{run['output'][-4000:]}"


@needs_fork
@pytest.mark.parametrize("bug", sample(), ids=lambda bug: bug.name)
def test_p7_a_planted_bug_of_each_folder_is_caught(bug, warm):
    planted(warm, bug)


@needs_fork
@pytest.mark.long
@pytest.mark.parametrize("bug", [pytest.param(bug, id=f"part{i % PARTS + 1}-{bug.name}") for i, bug in enumerate(BUGS)])
def test_p7_planted_bugs_are_caught(bug, warm):
    planted(warm, bug)


def test_every_bug_can_be_planted():
    """Its function is found, and the change applies to it."""
    problems = []
    for bug in BUGS:
        try:
            source_of(bug)
        except PlantingError as error:
            problems.append(str(error))
    assert not problems, "\n".join(problems)


def test_tests_that_must_fail_are_there(collected):
    """Of the files of this run; a test without its parameters stands for all of them."""
    files = {name.partition("::")[0] for name in collected}
    names = collected | {name.partition("[")[0] for name in collected} | files
    assert [bug for bug in BUGS if bug.caught_by.partition("::")[0] in files and bug.caught_by not in names] == []


def test_names_are_unique():
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 200
