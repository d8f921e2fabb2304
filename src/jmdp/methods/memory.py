"""The memory plan: say what is needed before it is allocated, and refuse what does not fit."""

from __future__ import annotations

import os

from jmdp.errors import MemoryBudgetError

_SHARE = 0.8
"""Of the memory that is free, how much a method may take without being told."""


def budget(asked: int | None) -> float:
    """Bytes that may be used: what was asked for, or a share of what is free now."""
    return _SHARE * free_bytes() if asked is None else asked


def free_bytes() -> float:
    """Memory that can be had without swapping; unlimited where the system does not tell."""
    try:
        with open("/proc/meminfo") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        return 1024.0 * int(fields["MemAvailable"].split()[0])
    except (OSError, KeyError):
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def require(needed: float, allowed: float, what: str, mend: str) -> None:
    """Raise unless `needed` bytes fit in what is allowed."""
    if needed > allowed:
        raise MemoryBudgetError(
            f"{what} needs {in_words(needed)}, and {in_words(allowed)} may be used. {mend}, or raise memory_budget."
        )


def in_words(size: float) -> str:
    """A number of bytes as a person would write it."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"
