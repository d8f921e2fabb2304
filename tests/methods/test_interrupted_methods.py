"""Ctrl-C at random moments, and in the middle of imports, of every method and main function, in processes of their own.

A press is answered by a result with the outcome INTERRUPTED, by KeyboardInterrupt, or, if it came too late, by the
complete result. In every case the same call made again gives the undisturbed result, bit for bit, the handler of SIGINT
is the one before, and no process is left. The table of docs/howto/resume.md has a row for each.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from interrupted_runs import CASES

import jmdp
from jmdp.methods.method import Method

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")

HERE = Path(__file__).parent
TABLE = HERE.parents[1] / "docs" / "howto" / "resume.md"
HANGS = 300
"""Seconds after which a process hangs, on a machine however busy."""


def rows():
    """Names in the first column of the table, and what the second column says is kept."""
    text = TABLE.read_text(encoding="utf-8").split("| call |")[1].split("\n\n")[0]
    cells = [line.split("|")[1:3] for line in text.splitlines()[2:]]
    return {re.sub("`", "", name).strip(): kept.strip() for name, kept in cells}


def test_every_method_and_main_function_is_in_the_table():
    methods = {
        name for name in jmdp.__all__ if isinstance(found := getattr(jmdp, name), type) and issubclass(found, Method)
    }
    assert methods == {re.match(r"\w+", name)[0] for name in rows()} - VERBS
    assert {name for name in rows() if name in VERBS} == VERBS
    assert set(CASES) == set(rows())


VERBS = {"compare", "compare_policies", "compare_runs", "check_simulator"}


def run(case, folder, fresh, warm, seed, presses, extra=()):
    """What the program says of itself; a process that hangs, or leaves others behind, fails."""
    folder.mkdir()
    started = subprocess.Popen(
        [sys.executable, str(HERE / "interrupted_runs.py"), case, *map(str, (folder, fresh, warm, seed, presses))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    try:
        out, err = started.communicate(timeout=HANGS * max(1, presses))
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
    assert started.returncode == 0, f"{case}, seed {seed}:\n{err}"
    assert "Traceback" not in err, err
    assert nothing_left(started.pid), case
    return json.loads(out.splitlines()[-1])


def nothing_left(session):
    """Whether all processes of a session end; that of multiprocessing which ends with its parent needs a moment."""
    deadline = time.monotonic() + 60
    while any(belongs(path, session) for path in Path("/proc").glob("[0-9]*")):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def belongs(path, session):
    try:
        state, _, _, its_session = (path / "stat").read_text().rsplit(")", 1)[1].split()[:4]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(its_session) == session and state != "Z"


@cache
def undisturbed(case, folder):
    """Result and times of two calls that are not interrupted: the first of a process, and another."""
    found = run(case, folder / "undisturbed", 0, 0, 0, 0)
    assert len(set(found["digests"])) == 1
    return found["digests"][0], found["times"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("interrupted")


def check(case, folder, processes, presses, seed):
    """Count what became of presses: one in an import, and some in each of several processes."""
    right, (fresh, warm) = undisturbed(case, case_folder(folder, case))
    counts = Counter()
    for i in range(processes + 1):
        first = "import" if i == 0 else fresh
        where = case_folder(folder, case) / f"{seed} {i}"
        found = run(case, where, first, warm, seed + i, 1 if i == 0 else presses)
        assert set(found["digests"]) == {right}, found
        counts.update(found["presses"])
    kept = rows()[case]
    if kept == "nothing":
        assert counts["kept"] == 0
    print(f"{case}: {dict(counts)}")
    return counts


def case_folder(folder, case):
    path = folder / re.sub(r"\W", "_", case)
    path.mkdir(exist_ok=True)
    return path


@pytest.mark.parametrize("case", CASES)
def test_a_press_leaves_everything_right(case, folder):
    """One press in an import, one at a random moment of the first call of a process, one of a later call."""
    check(case, folder, processes=1, presses=2, seed=0)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_twenty_presses_leave_everything_right(case, folder):
    """One in an import; in each of five processes one in its first call and three in later ones."""
    check(case, folder, processes=5, presses=4, seed=100)
