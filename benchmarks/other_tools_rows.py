"""Rows of the comparison with other tools: what is measured, the tool's answer, and that of jmdp."""

from __future__ import annotations

from math import sqrt

from benchmarks.report import Row
from jmdp.base.arrays import Floats

SEED = 0


def row(measured: str, theirs: str, ours: str) -> Row:
    """Return a row of the table."""
    return {"measured": measured, "theirs": theirs, "jmdp": ours}


def interval(value: float, low: float, high: float, digits: int = 2) -> str:
    """Return a value and its interval as text."""
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def paired(returns: Floats) -> tuple[float, float]:
    """Mean and standard error of the second column of returns [n, 2] minus the first."""
    gap = returns[:, 1] - returns[:, 0]
    return float(gap.mean()), float(gap.std(ddof=1) / sqrt(len(gap)))
