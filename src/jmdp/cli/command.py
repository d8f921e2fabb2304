"""What a command is, what it returns to the shell, and what all of them can be told."""

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
from jmdp.cli.options import Flag


@dataclass(frozen=True, kw_only=True)
class Command(ABC):
    """A command is a frozen dataclass of its settings."""

    examples: ClassVar[Mapping[str, str]] = {}
    """Command lines that run as they stand, and a few words on each: the end of its help."""

    json: Flag = False
    """Print JSON for machines instead of tables."""
    quiet: Flag = False
    """No progress bars, no warnings, nothing but the answer."""

    @abstractmethod
    def run(self) -> Exit:
        """Do it and print the answer to standard output."""

    @classmethod
    def form(cls, arguments: Sequence[str]) -> tuple[type[Command], Sequence[str]]:
        """What is to be filled in from which arguments; a command's options may depend on its first choices."""
        return cls, arguments


@contextlib.contextmanager
def aside(quiet: bool) -> Iterator[None]:
    """Keep standard output for the answer: what environments print meanwhile is shown beside it, or not at all."""
    with contextlib.redirect_stdout(io.StringIO() if quiet else sys.stderr), warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore")
        yield


def print_json(answer: object) -> None:
    """Print one JSON document; numbers that are not finite become null, as JSON has none."""
    print(json.dumps(plain(answer), indent=1, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """The same in what JSON has: an estimate with its interval, settings by name, arrays as lists."""
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
    raise TypeError(f"{type(value).__name__} has no form in JSON.")
