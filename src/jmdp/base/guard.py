"""Files that are not trusted are read by their own library in a child process with limits of memory and time.

A file may take the child over. The child therefore answers with JSON and raw arrays, never with a pickle, and the
parent checks types, shapes and sizes before it uses them. It is no sandbox: code in the child has the user's rights.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from jmdp import errors
from jmdp.base.machine import in_words
from jmdp.base.settings import cut, error_text, short
from jmdp.errors import FileError, JMDPError, MemoryBudgetError, SettingsError

Plain = tuple[Any, dict[str, npt.NDArray[Any]]]
"""What a file contains: a value of JSON, and arrays by name."""

MEMORY = 512 << 20
"""Bytes that the child may use beyond its imports, and bytes of all arrays that it may hand back."""
SECONDS = 10.0
"""For each file."""
LARGEST_JSON = MEMORY >> 5
"""Bytes. The objects of a text of JSON need up to 32 times its size."""

_DTYPES = frozenset(
    {"|b1", *(f"{order}{kind}{n}" for n, order in zip((1, 2, 4, 8), "|<<<", strict=True) for kind in "iu")}
)
_DTYPES |= {"<f2", "<f4", "<f8"}
_ERRORS = ("FileError", "MemoryBudgetError", "MissingExtraError", "ModelError", "SettingsError", "StudyError")
"""Errors that a child may raise in the parent, by name."""
_ENVIRONMENT = {
    **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "MALLOC_ARENA_MAX"), "1"),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""Without stacks of threads and reserves of allocators, which would count as memory."""


class _EndedError(Exception):
    """The child did not answer: how it ended, as part of a sentence."""


def guarded(
    read: Callable[..., Plain],
    asked: Sequence[Sequence[Any]],
    needs: Sequence[str],
    error: type[JMDPError] = FileError,
) -> list[Plain]:
    """Call a function of a module, in one child, with each of these arguments, of which the first is a path.

    Parameters
    ----------
    asked
        Values of JSON.
    needs
        Modules that are imported before memory is limited.
    error
        The error of a file that ends the child, or makes it break a limit or the rules of an answer.
    """
    if sys.platform != "linux":
        raise SettingsError(
            "trusted=False (--safe) needs Linux: this system does not limit the memory of a process. Read the file on "
            "Linux, or leave out trusted=False if you trust it."
        )
    request = [read.__module__, read.__qualname__, list(asked), list(needs)]
    readable, writable = os.pipe()
    try:
        try:
            process = _started(json.dumps(request).encode() + b"\n", writable)
        finally:
            os.close(writable)
        try:
            return _answers(_Pipe(readable), process, [str(one[0]) for one in asked], error)
        finally:
            _end(process)
    finally:
        os.close(readable)


def _started(request: bytes, pipe: int) -> subprocess.Popen[bytes]:
    """Start a child that writes its answers to this pipe."""
    paths = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", f"from {__name__} import main; main({pipe})"],
        env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": paths},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(pipe,),
        start_new_session=True,
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(request)
    return process


def _end(process: subprocess.Popen[bytes]) -> int:
    """Kill the child and its children; return its exit code, which is the earlier one if it had ended."""
    if process.returncode is None:  # afterwards another group may have its number
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def _answers(
    pipe: _Pipe, process: subprocess.Popen[bytes], paths: Sequence[str], error: type[JMDPError]
) -> list[Plain]:
    found = []
    for i, path in enumerate(paths):
        try:
            if i == 0:
                pipe.read(1)  # the imports are done
            found.append(pipe.answer(path))
        except (_EndedError, ValueError, TypeError, LookupError, RecursionError) as problem:
            if isinstance(problem, JMDPError):
                raise
            code = _end(process)
            what = f"broke the protocol ({cut(str(problem))})"
            if isinstance(problem, _EndedError):
                what = str(problem) or _way_of_ending(code)
            raise error(
                f"{_name(path)} cannot be read: the process that read it {what}. The file is damaged, was made to do "
                f"harm, or needs more than {in_words(MEMORY)}. If you trust it, leave out trusted=False (--safe)."
            ) from None
    return found


def _way_of_ending(code: int) -> str:
    if code == -signal.SIGXCPU:
        return _too_long()
    if code < 0:
        with suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _too_long() -> str:
    return f"took longer than {SECONDS:g} s"


class _Pipe:
    """The parent's end of the pipe from the child."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._left = descriptor, float(MEMORY)
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._deadline = math.inf

    def read(self, size: int) -> npt.NDArray[np.uint8]:
        """Exactly so many bytes, before the deadline."""
        data = np.empty(size, np.uint8)
        rest = data.data
        while rest:
            left = self._deadline - time.monotonic()
            if left <= 0 or not self._poll.poll(None if left == math.inf else 1000 * left):
                raise _EndedError(_too_long())
            count = os.readv(self._descriptor, [rest])
            if not count:
                raise _EndedError
            rest = rest[count:]
        return data

    def answer(self, path: str) -> Plain:
        """The next answer. Raises the error that the child states, and `ValueError` or alike if there is none."""
        self._deadline = time.monotonic() + SECONDS
        size = int.from_bytes(self.read(8).tobytes(), "little")
        if size > LARGEST_JSON:
            raise ValueError(f"{in_words(size)} of JSON")
        said = json.loads(self.read(size).tobytes())
        if "error" in said:
            kind, text = said["error"]
            raise _stated(path, str(kind), str(text))
        return said["about"], {str(name): self._array(dtype, shape) for name, dtype, shape in said["arrays"]}

    def _array(self, dtype: Any, shape: Any) -> npt.NDArray[Any]:
        if dtype not in _DTYPES or len(shape) > 8 or not all(type(n) is int and 0 <= n < 2**40 for n in shape):
            raise ValueError(f"an array of type {short(dtype)} and shape {short(shape)}")
        size = np.dtype(dtype).itemsize * math.prod(shape)
        self._left -= size
        if self._left < 0:
            raise ValueError(f"more than {in_words(MEMORY)} of arrays")
        data = self.read(size)
        if dtype == "|b1" and data.max(initial=0) > 1:
            raise ValueError("booleans that are neither 0 nor 1")
        array: npt.NDArray[Any] = data.view(dtype).reshape(shape)
        return array


def _stated(path: str, kind: str, text: str) -> JMDPError:
    """The error that a child states, whose text may be anything."""
    said = cut("".join(letter if letter.isprintable() else " " for letter in text[:4000]), 1000)
    if kind not in _ERRORS:
        raise ValueError(f"it stated the error {short(kind)}")
    found = getattr(errors, kind)(said if path in text else f"{_name(path)}: {said}")
    assert isinstance(found, JMDPError)
    return found


def _name(path: str) -> str:
    return path if path.isprintable() and len(path) <= 300 else short(path, 300)


def main(pipe: int) -> None:
    """Do what the first line of standard input asks for, as the child."""
    serve(json.loads(sys.stdin.buffer.readline()), open(pipe, "wb", buffering=0))  # noqa: SIM115


def serve(request: Sequence[Any], out: BinaryIO) -> None:
    """Import, limit this process, read each file, and write the answers."""
    module, name, asked, needs = request
    for needed in needs:
        with suppress(ImportError):  # the reader says which package is missing
            import_module(needed)
    read = getattr(import_module(module), name)
    _limit(len(asked))
    _write(out, b"\n")
    for arguments in asked:
        try:
            about, arrays = read(*arguments)
            _send(out, about, arrays)
            continue
        except MemoryError as error:
            kind, text = MemoryBudgetError.__name__, _TOO_LARGE
            if isinstance(error, JMDPError) and not isinstance(error.__cause__, MemoryError):
                text = str(error)
        except JMDPError as error:
            kind, text = type(error).__name__, str(error)
        except Exception as error:  # of any kind: libraries raise many
            kind, text = FileError.__name__, f"It cannot be read ({error_text(error)})."
        said = json.dumps({"error": [kind, text]}).encode()
        _write(out, len(said).to_bytes(8, "little") + said)
        return


_TOO_LARGE = f"It needs more than {in_words(MEMORY)}. If you trust it, leave out trusted=False (--safe)."


def _send(out: BinaryIO, about: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    plain = {name: np.asarray(array, array.dtype.newbyteorder("<"), order="C") for name, array in arrays.items()}
    listed = [[name, array.dtype.str, array.shape] for name, array in plain.items()]
    text = json.dumps({"about": about, "arrays": listed}).encode()
    _write(out, len(text).to_bytes(8, "little") + text)
    for array in plain.values():
        _write(out, array.reshape(-1).view(np.uint8).data)


def _write(out: BinaryIO, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[out.write(rest) :]


def _limit(files: int) -> None:
    """Limit memory and time of this process, and forbid it to write files and dumps of memory.

    Threads are not limited, because the limit would be that of all processes of the user, and pyarrow needs one.
    """
    import resource

    with open("/proc/self/statm") as sizes:
        space = int(sizes.read().split()[0]) * resource.getpagesize()
    spent = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    for what, most in (
        (resource.RLIMIT_AS, space + MEMORY),
        (resource.RLIMIT_CPU, math.ceil(spent + SECONDS * files)),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        hard = resource.getrlimit(what)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, least))
