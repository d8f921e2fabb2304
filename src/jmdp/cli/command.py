"""Base class of all commands, and conversion of results to JSON.

Exit codes.

Options shared by several commands, with their help texts.

What a bug report needs: versions of jmdp, Python and the packages it uses, the machine, and the threads.

Exceptions as one line of text.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import platform
import re
import sys
import sysconfig
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum, IntEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
import tyro

import jmdp
from jmdp import __version__
from jmdp.base.interval import Estimate
from jmdp.base.machine import cores, free_bytes, in_words
from jmdp.base.settings import error_text
from jmdp.errors import JMDPError, SettingsError
from jmdp.models.coupling import PolicyLuck


class Exit(IntEnum):
    """The exit code of a command."""

    YES = 0
    """Success: converged, decided, no fault found."""
    NO = 1
    """Finished without success: the printed text states the reason."""
    ERROR = 2
    """Not finished: the command or its input is wrong, or a package is missing."""
    UNDECIDED = 3
    """The budget of `jmdp gate` was used up before the verdict was known."""
    INTERRUPTED = 130


Value = TypeVar("Value")

Flag = Annotated[bool, tyro.conf.arg(help_behavior_hint="")]
"""Flag that is off by default; its help omits the default."""

Optionally = Annotated[Value | None, tyro.conf.arg(help_behavior_hint="")]
"""Option whose help text describes its default."""

Names = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[NAME …]", help_behavior_hint="")]
"""Names of the items to run."""

Actions = Annotated[tuple[str, ...], tyro.conf.arg(metavar="ACTION …", help_behavior_hint="")]
"""Actions by name or number."""

TruncatedEnds = Annotated[
    Flag,
    tyro.conf.arg(help="Treat truncation (a time limit, the end of the data) as termination: no reward follows it."),
]

PolicyDraws = Annotated[
    PolicyLuck,
    tyro.conf.arg(
        help="Randomness of the policy's actions: drawn independently in each branch, or from one number in each step "
        "(shared)."
    ),
]


_VARIABLES = ("JAX_PLATFORMS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables of the environment that change threads or devices."""
_FOR_DEVELOPERS = ("bench", "dev", "docs", "examples", "other-tools")


def versions() -> str:
    """Return the lines of ``jmdp --version --verbose``; they name no user, host or path."""
    packages = dict(_packages())
    missing = [name for name, found in packages.items() if found is None]
    rows = {
        "jmdp": __version__,
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "cores": f"{cores()} of {os.cpu_count() or 'unknown'} usable",
        "free memory": in_words(free_bytes()) if free_bytes() < float("inf") else "unknown",
        "threads": _threads(),
        **{name: found for name, found in packages.items() if found},
        "not installed": ", ".join(missing) or "none",
    }
    width = max(map(len, rows))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows.items())


def _threads() -> str:
    """Threads of the matrix libraries that NumPy loads, and the variables that set threads or devices."""
    import numpy  # noqa: F401 (its libraries are looked at)
    from threadpoolctl import threadpool_info

    pools = [f"{pool['internal_api']} {pool['num_threads']}" for pool in threadpool_info()]
    given = [f"{name}={os.environ[name]}" for name in _VARIABLES if name in os.environ]
    return ", ".join(pools + given) or "unknown"


def _packages() -> Iterator[tuple[str, str | None]]:
    """Direct dependencies for users, in order of their names, and their versions."""
    try:
        lines = requires("jmdp") or []
    except PackageNotFoundError:  # imported from a source tree that is not installed
        lines = []
    needed = [line for line in lines if not re.search(rf"extra == ['\"]({'|'.join(_FOR_DEVELOPERS)})['\"]", line)]
    for name in sorted({re.split(r"[^\w.-]", line)[0] for line in needed} - {"jmdp"}, key=str.lower):
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, None


_LONGEST = 1_500
_INSTALLED = tuple(
    os.path.join(folder, "")
    for folder in (
        str(Path(jmdp.__file__).parent),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    )
)
_FRAME = re.compile(r'^ *File "(.+)", line (\d+), in (.+)$', re.MULTILINE)


@contextmanager
def standard_output() -> Iterator[None]:
    """Name standard output in the errors of writing to it. That its reader, such as head, has ended is none."""
    try:
        yield
    except BrokenPipeError:
        discard_output()
    except OSError as error:
        error.filename = "standard output"
        raise


def discard_output() -> None:
    """Discard what is still to be written to standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def one_line(error: Exception) -> str:
    """Return what was wrong, and for errors of user code where they were raised."""
    if isinstance(error, JMDPError):
        said = str(error)
    elif isinstance(error, OSError) and error.filename is not None:
        said = f"{error.filename}: {error.strerror}"
    elif isinstance(error, SyntaxError):
        said = f"SyntaxError: {error.msg} ({error.filename}, line {error.lineno})"
    else:
        notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
        said = f"{error_text(error, _LONGEST)} ({_place(error)}{notes})"
    text = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in " ".join(said.split()))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"


def _place(error: Exception) -> str:
    """The last line of user code, or of any code if there is none."""
    frames = [(frame.filename, str(frame.lineno), frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error.__cause__, RuntimeError):  # of a worker process: its traceback as text
        frames += _FRAME.findall(str(error.__cause__))
    own = [frame for frame in frames if not frame[0].startswith(("<", *_INSTALLED))]
    file, line, name = (own or frames)[-1]
    return f"in {name}, {file}, line {line}"


@dataclass(frozen=True, kw_only=True)
class Command(ABC):
    """Base class of a command: a frozen dataclass of its settings."""

    examples: ClassVar[Mapping[str, str]] = {}
    """Complete command lines, each with a short description, shown at the end of the help."""

    json: Flag = False
    """Print JSON instead of tables."""
    quiet: Flag = False
    """Print the result only: no progress bars, no warnings."""

    @abstractmethod
    def run(self) -> Exit:
        """Run the command and print the result to standard output."""

    @classmethod
    def form(cls, arguments: Sequence[str]) -> tuple[type[Command], Sequence[str]]:
        """Return the dataclass to parse and its arguments; options may depend on earlier arguments."""
        return cls, arguments


@contextlib.contextmanager
def aside(quiet: bool) -> Iterator[None]:
    """Keep standard output for the result: other output goes to standard error, or nowhere if `quiet`."""
    with contextlib.redirect_stdout(io.StringIO() if quiet else sys.stderr), warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def writing(option: str, path: Path) -> Iterator[None]:
    """State the option in errors of a file that it names."""
    try:
        yield
    except OSError as error:
        raise SettingsError(f"{option} {path} cannot be written: {error.strerror}. Give another file.") from error


def print_json(answer: object) -> None:
    """Print one JSON document; infinite numbers and nan become null, because JSON has neither."""
    unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")  # a StringIO has no encoding
    show(json.dumps(plain(answer), indent=1, ensure_ascii=not unicode, allow_nan=False))


def show(answer: object) -> None:
    """Print a result to standard output, at once."""
    with standard_output():
        print(answer, flush=True)


def plain(value: Any) -> Any:
    """Return a value in JSON types: an estimate with its interval, settings by name, arrays as lists."""
    match value:
        case Estimate():
            return {"value": plain(float(value)), "low": plain(value.low), "high": plain(value.high)}
        case Enum():
            return value.name
        case bool() | str() | None:
            return value
        case np.ndarray() | np.generic():
            return plain(value.tolist())
        case int():
            return int(value)
        case float():
            return float(value) if math.isfinite(value) else None
        case Path():
            return str(value)
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case Sequence() | Set():
            return [plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {"name": type(value).__name__} | {
            field.name: plain(getattr(value, field.name)) for field in fields(value)
        }
    raise TypeError(f"{type(value).__name__} cannot be written as JSON.")
