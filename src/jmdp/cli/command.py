"""Base class of all commands, and conversion of results to JSON."""

from __future__ import annotations

import contextlib
import io
import json
import math
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from jmdp.base.interval import Estimate
from jmdp.cli.exit import Exit as Exit  # commands import it from here
from jmdp.cli.failures import standard_output
from jmdp.cli.options import Flag
from jmdp.errors import SettingsError


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
