"""Files that try to make a reader of models fail: each has a name, and a sentence that says what it tries.

``python tests/files/hostile_files.py FOLDER`` writes them all.
"""

from __future__ import annotations

import sys
from pathlib import Path

import hostile_parquet
import hostile_texts
import hostile_zips
from hostile_registry import CANARY, FILES

__all__ = ["CANARY", "FILES", "hostile_parquet", "hostile_texts", "hostile_zips"]

if __name__ == "__main__":
    for name, (_, make) in FILES.items():
        (Path(sys.argv[1]) / name.replace("/", " of ")).write_bytes(make())
    print(f"{len(FILES)} files")
