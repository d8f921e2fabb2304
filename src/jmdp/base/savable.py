"""Saving to a file, for models and results.

HTML pages about results.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any


class Savable:
    """Base class of what can be saved."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to a netCDF-4 file, which replaces an existing one as a whole. `jmdp.load` reads it, bit for bit.

        Other programs read it too: ``xarray.open_dataset(path)``. Needs ``pip install "jmdp[io]"``.
        """
        import_module("jmdp.files.saving").save(self, path)  # by name: models and results do not depend on files


class Reportable:
    """Base class of results that have a page."""

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write a self-contained HTML page: the answer, a figure, the numbers, and how far to trust them.

        It replaces an existing file as a whole. Needs ``pip install "jmdp[report]"``.
        """
        report(self, path)


def report(result: Reportable, path: str | os.PathLike[str], **focus: Any) -> None:
    """Write the page of a result, found by name because results do not depend on reports; `focus` is what it shows."""
    import_module("jmdp.show.reports.page").write(result, path, **focus)
