"""Studies that are killed and resumed. At every write and at 100 random moments: python tests/studies/study_kills.py"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_p10_killed_and_resumed():
    """In a process of its own, because it forks, which threads of other tests do not survive."""
    command = [sys.executable, str(HERE / "study_kills.py"), "--every-write", "--step", "5", "--random", "5"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(command, capture_output=True, text=True, timeout=500, env=environment, check=True)
    writes, moments = found.stdout.splitlines()
    kills, different = map(int, writes.split()[-2:])
    assert kills >= 20
    assert different == 0
    assert moments == "kills at random times, and differences: 5 0"
