"""Write a file of each kind of result that has none of this version: ``python tests/files/write_fixtures.py``.

Files stay as they were written: later versions must read them. A text beside each has what the result prints.
Intervals of comparisons are computed when they are loaded, so that their texts are written again.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from jmdp import load
from jmdp.files.schema import VERSION
from registry.results import SAVED, made, saved

FOLDER = Path(__file__).parent / "fixtures"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for kind in SAVED:
        path = FOLDER / f"{VERSION} {kind}.nc"
        if not path.exists():
            path.write_bytes(saved(kind))
            path.with_suffix(".txt").write_text(repr(made(kind)) + "\n", encoding="utf-8")
    for path in FOLDER.glob("* comparison *.nc"):
        path.with_suffix(".txt").write_text(repr(load(path)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
