"""``python tests/hostile --calls 30000 --seed 0``: the fuzz of the public entries, with more calls than in the gate."""

from __future__ import annotations

import argparse
import collections
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

MEMORY = 12 << 30
"""Address space of the process: an allocation beyond it is a MemoryError, which is no typed error."""


def main() -> int:
    """Run the calls and print what happened. Exit code 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, help="by default one call of each entry")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first call, to repeat one: --first N --calls 1"
    )
    parser.add_argument("--only", default="", help="only entries whose names begin so")
    options = parser.parse_args()
    os.environ.setdefault("MPLBACKEND", "Agg")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    limit_memory()
    os.chdir(tempfile.mkdtemp())  # paths among the arguments are written here

    from hostile.all_entries import ENTRIES
    from hostile.fuzz import fuzz

    entries = [entry for entry in ENTRIES if entry.name.startswith(options.only)]
    started = time.monotonic()
    calls = len(entries) if options.calls is None else options.calls
    happened, findings = fuzz(entries, options.seed, range(options.first, options.first + calls))
    for what, count in collections.Counter(finding.what for finding in findings).most_common():
        print(f"{count} × {next(finding for finding in findings if finding.what == what)}")
    print(
        f"seed {options.seed}, {calls} calls of {len(entries)} entries in {time.monotonic() - started:.0f} s: "
        f"{', '.join(f'{count} {what}' for what, count in sorted(happened.items()))}; {len(findings)} findings"
    )
    return bool(findings)


def limit_memory() -> None:
    """Limit the address space, where the platform can."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))


if __name__ == "__main__":
    sys.exit(main())
