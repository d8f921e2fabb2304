"""What a command is, what it returns to the shell, and what all of them can be told."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum


class Exit(IntEnum):
    """What the shell is told."""

    YES = 0
    """Done, and the answer is good: converged, decided, no fault, nothing failed to reproduce."""
    NO = 1
    """Done, and the answer is not: the printed text says what."""
    ERROR = 2
    """Not done: the command or its input is wrong, or something is not installed."""
    INTERRUPTED = 130


@dataclass(frozen=True, kw_only=True)
class Command(ABC):
    """A command is a frozen dataclass of its settings."""

    json: bool = False
    """Print JSON for machines instead of tables."""
    quiet: bool = False
    """No progress bars, and nothing printed but the answer."""

    @abstractmethod
    def run(self) -> Exit:
        """Do it and print the answer to standard output."""


def print_json(answer: object) -> None:
    """Print one JSON document; numbers that are not finite become null, as JSON has none."""
    print(json.dumps(answer, indent=1, ensure_ascii=False, allow_nan=False))
