"""HTML pages about results."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any


class Reportable:
    """Base class of results that have a page."""

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write a self-contained HTML page: the answer, a figure, the numbers, and how far to trust them.

        It replaces an existing file as a whole. Needs ``pip install "jmdp[report,plot]"``.
        """
        report(self, path)


def report(result: Reportable, path: str | os.PathLike[str], **focus: Any) -> None:
    """Write the page of a result, found by name because results do not depend on reports; `focus` is what it shows."""
    import_module("jmdp.reports.writing").write(result, path, **focus)
