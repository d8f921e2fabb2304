"""Control with a shadow: policies that are better than an incumbent, and rarely or little worse under the same luck."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmdp.base import on_first_use

if TYPE_CHECKING:
    from jmdp.control.few_changes import Changes, FewChanges
    from jmdp.control.frontier import Frontier
    from jmdp.control.improve import Improvement, ShadowPolicy
    from jmdp.control.search import Point, Risk
    from jmdp.control.shadow import Statistics

__all__ = ["Changes", "FewChanges", "Frontier", "Improvement", "Point", "Risk", "ShadowPolicy", "Statistics"]

__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "Changes": "few_changes",
        "FewChanges": "few_changes",
        "Frontier": "frontier",
        "Improvement": "improve",
        "Point": "search",
        "Risk": "search",
        "ShadowPolicy": "improve",
        "Statistics": "shadow",
    },
)
