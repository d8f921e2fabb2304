"""Cells that pages of one review and of several have in common."""

from __future__ import annotations

import math
import re

from jmdp.base.interval import Estimate
from jmdp.base.rounding import significant
from jmdp.reports.page import Cell, Number
from jmdp.reports.words import name, short_name
from jmdp.reviews.decision import NONE, Decision


def regret_cell(value: Estimate) -> Cell:
    """A regret, which is never negative: without an upper end it has no interval."""
    return value if math.isfinite(value.high) else Number(significant(value, 3), None)


def luck_cell(one: Decision) -> Cell:
    """Luck, 0 where nothing was random."""
    return Number("0", None, exact=True) if one.fortune == NONE else one.luck


def place(step: int, state: str) -> str:
    """A step, with the state if it has a label."""
    return f"{step}: {name(state)}" if state else f"{step}"


def short_title(simulator: str) -> str:
    """A simulator without its class and settings: pong for ALESimulator('pong', frame_skip=4)."""
    return re.sub(r"(, \w+=[\w.'\"]+)+$", "", short_name(simulator)).strip("'\"")
