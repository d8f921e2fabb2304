"""Control with a shadow: policies that are better than an incumbent, and rarely or little worse under the same luck."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmdp.base import on_first_use

if TYPE_CHECKING:
    from jmdp.control.frontier import Frontier, Point
    from jmdp.control.shadow import Statistics

__all__ = ["Frontier", "Point", "Statistics"]

__getattr__, __dir__ = on_first_use(__name__, {"Frontier": "frontier", "Point": "frontier", "Statistics": "shadow"})
