"""Studies: comparisons in many states, with results in Parquet files, resumable and readable at any time."""
