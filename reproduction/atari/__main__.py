"""Collect rollouts, train networks and write the report. Finished parts are not repeated."""

from __future__ import annotations

import argparse
from pathlib import Path

from reproduction.atari.collect import collect
from reproduction.atari.report import write
from reproduction.atari.settings import runs
from reproduction.atari.train import train_and_judge


def main() -> None:
    """Parse the command line and run the experiment."""
    parser = argparse.ArgumentParser(prog="python -m reproduction.atari", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder for rollouts, records, tables and figures")
    parser.add_argument("--games", nargs="+", help="games to run (default: all)")
    parser.add_argument("--workers", type=int, default=2, help="number of worker processes")
    parser.add_argument("--report", action="store_true", help="only write the tables and figures of existing records")
    options = parser.parse_args()
    wanted = [run for run in runs() if options.games is None or run.game in options.games]
    if not options.report:
        for run in wanted:
            for walks in (run.learn, *run.held_out):
                collect(walks, options.folder, options.workers)
            train_and_judge(run, options.folder)
            print(run, flush=True)
    print(write(options.folder))


if __name__ == "__main__":
    main()
