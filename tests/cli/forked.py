"""Processes of the command line that start at once: they are forked from one that has imported and compiled all.

What a new process has, they have: streams, environment, folder, arguments, exit code, and the end of Python. They do
not test what is imported and when. ``python tests/cli/forked.py SOCKET`` is the process that is forked.
"""

from __future__ import annotations

import array
import contextlib
import gc
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

MAIN = "import sys; from jmdp.cli import main; sys.exit(main())"
WARM = [
    "evaluate inventory",
    "evaluate inventory --method incremental --updates 1000",
    "gate world:inventory --old uniform --new uniform --margin 5 --max-samples 64",
    "compare-policies world:inventory --policies uniform reorder --max-samples 64 --plot x.svg",
]


class Forked:
    """A process, as `subprocess.Popen` has it."""

    def __init__(self, given: dict[str, object], stdout: int | None, server: socket.socket) -> None:
        self._server, reads, writes = server, [], []
        for fd in (stdout, None):
            read, write = (None, fd) if fd is not None else os.pipe()
            reads.append(read)
            writes.append(write)
        message = json.dumps(given).encode()
        server.sendmsg(
            [len(message).to_bytes(4, "little") + message],
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", writes))],
        )
        self.stdout, self.stderr = (None if fd is None else open(fd, "rb") for fd in reads)  # noqa: SIM115
        for fd in writes if stdout is None else writes[1:]:
            os.close(fd)
        self.pid, self.returncode = int.from_bytes(_received(server, 4), "little"), None

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        self.returncode = int.from_bytes(_received(self._server, 4), "little", signed=True)
        return self.returncode

    def communicate(self) -> tuple[str, str]:
        """Output and errors, each of less than 64 KiB."""
        err = self.stderr.read().decode()
        out = self.stdout.read().decode() if self.stdout is not None and not self.stdout.closed else ""
        self.wait()
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        return out, err


class Server:
    """The process that is forked; one command at a time."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as waiting:
            waiting.bind(f"{folder}/socket")
            waiting.listen()
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            self._process = subprocess.Popen(
                [sys.executable, __file__, f"{folder}/socket"], env=environment, cwd=folder
            )
            self._connection, _ = waiting.accept()
            _received(self._connection, 4)

    def start(self, arguments: list[str], *, code: str = MAIN, stdout: int | None = None, **environment: str) -> Forked:
        given = {"arguments": ["jmdp", *arguments], "code": code, "folder": os.getcwd(), "environment": environment}
        return Forked(given, stdout, self._connection)

    def close(self) -> None:
        self._connection.close()
        self._process.wait()


def _received(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        assert more, "the process has ended"
        data += more
    return data


def serve(path: str) -> None:
    from jmdp.cli import main

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        assert [main(line.split()) == 2 for line in WARM] == [False] * len(WARM), said.getvalue()
    import pyarrow.parquet  # noqa: F401

    import jmdp.studies.running  # noqa: F401

    gc.collect()
    gc.freeze()  # the end of each process need not look at all that was imported
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    connection.sendall(bytes(4))
    while True:
        head, fds, _, _ = socket.recv_fds(connection, 4, 2)
        if not head:
            return
        given = json.loads(_received(connection, int.from_bytes(head, "little")))
        pid = os.fork()
        if pid == 0:
            connection.close()
            become(given, *fds)
            exec(given["code"], {"__name__": "__main__"})
            sys.exit()
        for fd in fds:
            os.close(fd)
        connection.sendall(pid.to_bytes(4, "little"))
        _, status = os.waitpid(pid, 0)
        connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "little", signed=True))


def become(given: dict[str, object], out: int, err: int) -> None:
    """Take over arguments, environment, folder and streams, which are made as Python makes them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(given["environment"])
    os.chdir(given["folder"])
    sys.argv = given["arguments"]
    sys.path[0] = ""
    os.dup2(out, 1)
    os.dup2(err, 2)
    for fd in (out, err):
        os.close(fd)
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
    for fd, name, errors in ((1, "stdout", "strict"), (2, "stderr", "backslashreplace")):
        raw = open(fd, "wb", 0 if unbuffered else -1, closefd=False)  # noqa: SIM115
        stream = io.TextIOWrapper(raw, encoding, errors, "\n", line_buffering=fd == 2, write_through=unbuffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    serve(sys.argv[1])
