"""Ctrl-C at random moments of long commands: exit code 130, "interrupted" or what is known so far, no traceback.

As a program: ``python tests/cli/interrupted_commands.py --signals 100 --seed 1``.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter

COMMANDS = [
    "compare-policies world:inventory --policies base_stock reorder --max-samples 10000000 --precision 0.00001",
    "evaluate inventory --method incremental --updates 100000000",
    "compare FrozenLake-v1 --state 4 --discount 0.95 --policy 0,3,3,3,0,0,0,0,3,1,0,0,0,2,1,0"
    " --max-samples 1000000 --precision 0.00001",
]
"""None of them ends by itself within `LATEST` seconds."""
SHORT = [
    "compare-policies world:inventory --policies base_stock reorder --max-samples 64",
    "evaluate inventory --method incremental --updates 1000",
    "compare FrozenLake-v1 --state 4 --discount 0.95 --policy 0,3,3,3,0,0,0,0,3,1,0,0,0,2,1,0 --max-samples 64",
]
"""The same, run first: Ctrl-C waits for the end of a compilation."""
SCRIPT = "import sys; from jmdp_command import main; print(flush=True); sys.exit(main())"
"""What the installed command `jmdp` does. It prints a line once Python has started: before, a traceback is Python's."""
LATEST = 6.0
MOST_SECONDS = 10.0


def interrupted(command: str, after: float, folder: str) -> str:
    """What is wrong with a command that gets SIGINT after so many seconds; empty if nothing is."""
    run = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *command.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    assert run.stdout is not None
    run.stdout.readline()
    time.sleep(after)
    began = time.monotonic()
    run.send_signal(signal.SIGINT)
    try:
        answer, errors = run.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        run.kill()
        run.communicate()
        return "still running after 60 s"
    seconds = time.monotonic() - began
    if seconds > MOST_SECONDS:
        return f"ended after {seconds:.1f} s"
    if run.returncode != 130 or "Traceback" in errors or "interrupted" not in answer + errors:
        return f"exit code {run.returncode}: {errors[-400:]}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--signals", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts its background jobs with SIGINT ignored
    random_numbers, wrong = random.Random(given.seed), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for command in SHORT:
            subprocess.run([sys.executable, "-c", SCRIPT, *command.split()], stdout=subprocess.DEVNULL, cwd=folder)
        for i in range(given.signals):
            command, after = COMMANDS[i % len(COMMANDS)], random_numbers.uniform(0.02, LATEST)
            fault = interrupted(command, after, folder)
            if fault:
                wrong[command] += 1
                print(f"after {after:.2f} s: jmdp {command}: {fault}", flush=True)
    print(f"{given.signals} signals, {wrong.total()} wrong ends, seed {given.seed}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
