"""Saving to a file, for models and results."""

from __future__ import annotations

import os
from importlib import import_module


class Savable:
    """Base class of what can be saved."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to a netCDF-4 file, which replaces an existing one as a whole. `jmdp.load` reads it, bit for bit.

        Other programs read it too: ``xarray.open_dataset(path)``. Needs ``pip install "jmdp[io]"``.
        """
        import_module("jmdp.files.saving").save(self, path)  # by name: models and results do not depend on files
