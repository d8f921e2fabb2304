"""Studies: comparisons in many states, with results in Parquet files, resumable and readable at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmdp.base import on_first_use

if TYPE_CHECKING:
    from jmdp.studies.study import Study

__all__ = ["Study"]

__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "Study": "study",
    },
)
