"""Studies that are killed and resumed. At full size: python tests/studies/study_kills.py"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def run(*arguments: str) -> list[str]:
    """Lines of a run in a process of its own, because it forks, which threads of other tests do not survive."""
    command = [sys.executable, str(HERE / "study_kills.py"), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=3000, env=environment, check=True)
    return found.stdout.splitlines()


@pytest.mark.parametrize(("step", "kills", "random"), [(31, 8, 2), pytest.param(1, 300, 20, marks=pytest.mark.long)])
def test_p10_killed_and_resumed(step, kills, random):
    *writes, moments = run("--every-write", "--step", str(step), "--random", str(random))
    found = [tuple(map(int, line.split()[-2:])) for line in writes]
    assert len(found) == 4
    assert all(count >= 2 and different == 0 for count, different in found), writes
    assert sum(count for count, _ in found) >= kills
    assert moments == f"kills at random times, and differences: {random} 0"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks Linux for the workers of a driver")
@pytest.mark.parametrize("studies", [1, pytest.param(8, marks=pytest.mark.long)])
def test_p25_storm(studies):
    (line,) = run("--storm", str(studies))
    kills, different, left = map(int, line.split()[-3:])
    assert kills > 0
    assert (different, left) == (0, 0)
