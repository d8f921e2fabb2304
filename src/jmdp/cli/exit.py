"""Exit codes. The module is separate from the commands, which need tyro: a missing tyro has an exit code too."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit code of a command."""

    YES = 0
    """Success: converged, decided, no fault found, or all claims reproduced."""
    NO = 1
    """Finished without success: the printed text states the reason."""
    ERROR = 2
    """Not finished: the command or its input is wrong, or a package is missing."""
    UNDECIDED = 3
    """The budget of `jmdp gate` was used up before the verdict was known."""
    INTERRUPTED = 130
