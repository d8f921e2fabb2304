"""A process that loads files one after another under a limit of memory, and reports what happened to each.

``python tests/files/loader_process.py BUDGET`` is the process itself: it reads lines of format and path, and writes a
line of JSON for each.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hostile_registry import CANARY, MIB

LIMIT = 10.0
"""Seconds that a file may take."""


class Loader:
    """Starts the process, and a new one after a crash or a hang."""

    def __init__(self, budget: int = 128 * MIB) -> None:
        self.budget = budget
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._folder = tempfile.TemporaryDirectory()
        self.canary = Path(self._folder.name) / "canary"

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._errors.close()
        self._folder.cleanup()

    def load(self, kind: str, path: Path, limit: float = LIMIT) -> dict[str, Any]:
        """Outcome of a file: loaded, error (one of jmdp), other (any other exception), crash or hang."""
        process = self._running()
        process.stdin.write(f"{kind}\t{path}\n".encode())
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], limit)
        line = process.stdout.readline() if ready else b""
        if line:
            return json.loads(line)
        self._end()
        self._errors.seek(0)
        said = self._errors.read()[-2000:].decode(errors="replace")
        return {"outcome": "crash" if ready else "hang", "text": f"exit code {process.returncode}\n{said}"}

    def accepted(self, kind: str, files: Mapping[str, tuple[str, Callable[[], bytes]]], path: Path) -> dict[str, Any]:
        """Reports of hostile files that are not refused as they must be, by name.

        Each must give an error of jmdp that names the file, at most 64 MiB above the budget, within `LIMIT` seconds.
        """
        wrong = {}
        for name, (_, make) in files.items():
            path.write_bytes(make())
            report = self.load(kind, path)
            fine = report["outcome"] == "error" and report["peak"] <= self.budget + 64 * MIB
            if not fine or str(path) not in report["text"] or report["seconds"] > LIMIT:
                wrong[name] = report
        return wrong

    def _running(self) -> Any:
        if self._process is None:
            command = [sys.executable, "-W", "ignore", __file__, str(self.budget)]
            paths = os.pathsep.join(filter(None, sys.path))
            own = {"PYTHONPATH": paths, "ARROW_DEFAULT_MEMORY_POOL": "system", CANARY: str(self.canary)}
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=os.environ | own
            )
            assert self._process.stdout is not None
            assert self._process.stdout.readline() == b"ready\n", "the process did not start"
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def main(budget: int) -> None:
    import resource

    from formats import FORMATS

    from jmdp.base import machine

    for form in FORMATS.values():  # imports, and whatever is kept after the first call
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "valid"
            path.write_bytes(form.make(0))
            form.load(path)
    machine.free_bytes = lambda: budget / 0.8
    base = memory("VmRSS")
    most = memory("VmSize") + budget + 256 * MIB
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print("ready", flush=True)
    for line in sys.stdin:
        kind, _, name = line.rstrip("\n").partition("\t")
        with open("/proc/self/clear_refs", "w") as reset:
            reset.write("5")  # the peak begins anew
        start = time.perf_counter()
        report = outcome(FORMATS[kind].load if kind in FORMATS else OTHERS[kind], Path(name))
        report |= {"peak": memory("VmHWM") - base, "seconds": time.perf_counter() - start}
        print(json.dumps(report), flush=True)


def hostile(path: Path) -> str:
    from jmdp.files import read_model

    return repr(read_model(path, 0.9))


def allocates(path: Path) -> None:
    from jmdp.files.damage import damage

    with damage("all"):
        bytearray(1 << 40)


OTHERS: dict[str, Callable[[Path], Any]] = {
    "hostile": hostile,
    "raises": lambda path: path.read_bytes(),
    "allocates": allocates,
    "crashes": lambda path: os.abort(),
    "hangs": lambda path: time.sleep(60),
    "large": lambda path: len(bytearray(b"x") * (250 * MIB)),
}
"""What a test asks for besides the formats."""


def outcome(load: Any, path: Path) -> dict[str, Any]:
    from jmdp.errors import JMDPError

    try:
        return {"outcome": "loaded", "text": load(path)}
    except JMDPError as error:
        unplanned = isinstance(error.__cause__, MemoryError)
        return {"outcome": "other" if unplanned else "error", "kind": type(error).__name__, "text": str(error)}
    except BaseException:
        return {"outcome": "other", "text": traceback.format_exc()}


def memory(field: str) -> int:
    """Bytes of this process."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main(int(sys.argv[1]))
