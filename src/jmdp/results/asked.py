"""What an evaluation of a table was asked, so that it can be saved and parts of it computed again."""

from __future__ import annotations

from dataclasses import dataclass

from jmdp.base.arrays import Floats
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """Model, policies and horizon of an evaluation of a table."""

    model: TabularJMDP
    discount: float
    names: tuple[str, ...] | None  # of several policies; None: actions of one policy were evaluated
    policies: tuple[tuple[TabularPolicy, ...], ...]  # for each policy one table for all steps, or one for each step
    start: Floats | None = None  # [S]
    horizon: int | None = None
    terminal_value: Floats | None = None  # [S]
