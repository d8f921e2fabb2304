"""What the shell is told. Apart from the commands, which need tyro: that it is missing has to be told too."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit code of a command."""

    YES = 0
    """Done, and the answer is good: converged, decided, no fault, nothing failed to reproduce."""
    NO = 1
    """Done, and the answer is not: the printed text says what."""
    ERROR = 2
    """Not done: the command or its input is wrong, or something is not installed."""
    INTERRUPTED = 130
