"""Storm in a process of its own: some malformed files end the process that parses them, and it prints what it does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from jmdp import errors
from jmdp.base.settings import short
from jmdp.errors import FileError, JMDPError
from jmdp.models.marginals import storm_files
from jmdp.models.marginals.arrays import Listed
from jmdp.models.marginals.storm_files import Found

_REFUSED = 3
"""Exit code of a process that has written an error."""


def read(path: Any, rewards: Any, constants: Any, terminal: Any) -> Found:
    """Lists of outcomes of a file, with names of states and actions if it has any."""
    file = storm_files.checked(path, rewards, constants, terminal)
    with tempfile.TemporaryDirectory(prefix="jmdp-") as folder:
        asked = [str(file.absolute()), folder, json.dumps([rewards, constants, terminal])]
        paths = os.pathsep.join(filter(None, sys.path))
        done = subprocess.run(
            [sys.executable, "-P", "-m", __name__, *asked],
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if done.returncode == _REFUSED:
            kind, text = json.loads((Path(folder) / "error.json").read_text(encoding="utf-8"))
            raise getattr(errors, kind)(text)
        if done.returncode:
            raise FileError(
                f"{short(str(file), 300)} ended the process in which Storm parsed it (exit code {done.returncode}). It "
                "may have deeply nested expressions or a division by 0, or the machine too little memory. Check it "
                f"with Storm itself. {_last(done.stderr)}"
            )
        return _loaded(Path(folder))


def _last(printed: bytes) -> str:
    lines = printed.decode(errors="replace").strip().splitlines()
    return short(lines[-1], 200) if lines else ""


def _loaded(folder: Path) -> Found:
    with np.load(folder / "found.npz", allow_pickle=False) as arrays:
        listed = Listed(*(arrays[name] for name in Listed._fields))
    states, actions = json.loads((folder / "names.json").read_text(encoding="utf-8"))
    return Found(listed, states, actions)


def _main(file: str, folder: str, asked: str) -> int:
    place = Path(folder)
    try:
        found = storm_files.read(Path(file), *json.loads(asked))
    except JMDPError as error:
        (place / "error.json").write_text(json.dumps([type(error).__name__, str(error)]), encoding="utf-8")
        return _REFUSED
    np.savez(place / "found.npz", **found.listed._asdict())
    (place / "names.json").write_text(json.dumps([found.states, found.actions]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
