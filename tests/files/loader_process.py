"""A process that loads files one after another, not trusted, and reports what happened to each.

``python tests/files/loader_process.py`` is the process itself: it reads lines of format and path, and writes a line of
JSON for each. It has imported the libraries, and forks the children that read the files instead of starting them anew:
the limits, the reading and the answers are those of `jmdp.base.guard`, and a child takes milliseconds.
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

from jmdp.base import guard

SECONDS = guard.SECONDS / 4
"""For each file: hostile ones that use up their time are read sooner."""
LIMIT = 2.5 * guard.SECONDS
"""Seconds that a file may take: its child has `SECONDS`, a study has two, and this machine may be busy."""
SPARE = 64 * MIB


class Loader:
    """Starts the process, and a new one after a crash or a hang."""

    def __init__(self) -> None:
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

    def accepted(
        self,
        kind: str,
        files: Mapping[str, tuple[str, Callable[[], bytes]]],
        path: Path,
        harmless: frozenset[str] = frozenset(),
    ) -> dict[str, Any]:
        """Reports of hostile files that are not refused as they must be, by name.

        Each must give an error of jmdp that names the file, within the limits of memory and time. Those that are
        harmless may also be loaded.
        """
        wrong = {}
        for name, (_, make) in files.items():
            path.write_bytes(make())
            report = self.load(kind, path)
            fine = report["outcome"] == "error" and str(path) in report["text"]
            fine |= report["outcome"] == "loaded" and name in harmless
            if not fine or too_much(report):
                wrong[name] = report
        return wrong

    def _running(self) -> Any:
        if self._process is None:
            command = [sys.executable, "-W", "ignore", __file__]
            paths = os.pathsep.join(filter(None, sys.path))
            own = {**guard._ENVIRONMENT, "PYTHONPATH": paths, CANARY: str(self.canary)}
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


def too_much(report: Mapping[str, Any]) -> bool:
    """Whether a child took more memory than the limit, or its parent more than twice that, or both too long."""
    most = guard.MEMORY + SPARE
    large = report.get("child", 0) > most or report.get("peak", 0) > 2 * most
    return large or report.get("seconds", 0) > LIMIT


class Forked:
    """A child that is forked instead of started; the largest one since the last file."""

    largest = 0

    def __init__(self, request: bytes, pipe: int) -> None:
        self._before, self.returncode = memory("RssAnon"), None  # pages of files are not inherited
        self.pid = os.fork()
        if not self.pid:
            code = 1
            try:
                os.setsid()
                guard.serve(json.loads(request), open(pipe, "wb", buffering=0))  # noqa: SIM115
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)

    def wait(self) -> int:
        if self.returncode is None:
            _, status, usage = os.wait4(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
            Forked.largest = max(Forked.largest, usage.ru_maxrss * 1024 - self._before)
        return self.returncode


def main() -> None:
    from formats import FORMATS

    for form in FORMATS.values():  # imports, and whatever is kept after the first call
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "valid"
            path.write_bytes(form.make(0))
            form.load(path, True)
    guard._started, guard.SECONDS = Forked, SECONDS
    print("ready", flush=True)
    for line in sys.stdin:
        kind, _, name = line.rstrip("\n").partition("\t")
        with open("/proc/self/clear_refs", "w") as reset:
            reset.write("5")  # the peak begins anew
        base, start, Forked.largest = memory("VmRSS"), time.perf_counter(), 0
        report = outcome(FORMATS[kind].load if kind in FORMATS else OTHERS[kind], Path(name))
        report |= {"peak": memory("VmHWM") - base, "child": Forked.largest, "seconds": time.perf_counter() - start}
        print(json.dumps(report), flush=True)


def hostile(path: Path, trusted: bool) -> str:
    from jmdp.files import read_model

    return repr(read_model(path, 0.9, trusted=trusted))


def folder(path: Path, trusted: bool) -> int:
    import jmdp

    return len(jmdp.load(path, trusted=trusted).to_arrow())


OTHERS: dict[str, Callable[[Path, bool], Any]] = {
    "hostile": hostile,
    "folder": folder,
    "raises": lambda path, trusted: path.read_bytes(),
    "crashes": lambda path, trusted: os.abort(),
    "hangs": lambda path, trusted: time.sleep(60),
    "large": lambda path, trusted: len(bytearray(b"x") * (2 * (guard.MEMORY + 2 * SPARE))),
}
"""What a test asks for besides the formats."""


def outcome(load: Callable[[Path, bool], Any], path: Path) -> dict[str, Any]:
    from jmdp.errors import JMDPError

    try:
        return {"outcome": "loaded", "text": load(path, False)}
    except JMDPError as error:
        return {"outcome": "error", "kind": type(error).__name__, "text": str(error)}
    except BaseException:
        return {"outcome": "other", "text": traceback.format_exc()}


def memory(field: str) -> int:
    """Bytes of this process."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
