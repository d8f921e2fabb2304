"""Scenario tables, policies and couplings, and a reference implementation of a step in exact rationals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmdp.base import on_first_use

if TYPE_CHECKING:
    from jmdp.models.couple import CommonUniform, JointTable, Maximal, Product

__all__ = ["CommonUniform", "JointTable", "Maximal", "Product"]

__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "CommonUniform": "couple",
        "JointTable": "couple",
        "Maximal": "couple",
        "Product": "couple",
    },
)
