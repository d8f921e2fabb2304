"""Saved models and results, and models from NumPy archives (npz) and long tables in CSV, Parquet or a DataFrame.

Files are data: nothing in them is unpickled or run. Those that are not trusted are read by `jmdp.base.guard`.
"""

from jmdp.files.long_tables import table_model
from jmdp.files.reading import read_model

__all__ = ["read_model", "table_model"]
