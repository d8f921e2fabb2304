"""Saved models and results, and models from NumPy archives (npz) and long tables in CSV, Parquet or a DataFrame.

Files are data from strangers. What a file declares is compared with its size and with the free memory before anything
is allocated, and nothing in it is unpickled or run.
"""

from jmdp.files.long_tables import table_model
from jmdp.files.reading import read_model

__all__ = ["read_model", "table_model"]
