"""``python tests/planted --draw 40 --seed 1``: plant bugs drawn at random and print which are caught.

With ``--gate`` only bugs whose test is not marked as long are drawn.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from planted.bugs import BUGS
from planted.warm import Warm


def main() -> int:
    """Plant the bugs. Exit code 1 if one is not caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", type=int, default=len(BUGS), help="number of bugs; without it, all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gate", action="store_true", help="draw only bugs that a test of the gate must catch")
    options = parser.parse_args()
    warm, bugs = Warm(), BUGS
    if options.gate:
        collected = warm.collected(sorted({bug.caught_by for bug in BUGS}))
        bugs = [
            bug
            for bug in BUGS
            if any(f"{test}[".startswith((f"{bug.caught_by}[", f"{bug.caught_by}::")) for test in collected)
        ]
        print(f"{len(bugs)} of {len(BUGS)} bugs are to be caught by tests that are not marked as long")
    drawn = random.Random(options.seed).sample(bugs, min(options.draw, len(bugs)))
    missed, seconds = 0, 0.0
    for bug in drawn:
        run = warm.plant(bug.name)
        missed, seconds = missed + (not run["caught"]), seconds + run["cpu"]
        print(
            f"{'caught' if run['caught'] else 'NOT CAUGHT':10}  {run['cpu']:6.1f} s  {bug.name}  ({bug.caught_by})",
            flush=True,
        )
    warm.close()
    print(f"seed {options.seed}: {len(drawn) - missed} of {len(drawn)} caught, {seconds:.0f} s of CPU time")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
