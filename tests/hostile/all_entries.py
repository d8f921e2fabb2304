"""All entries of the fuzz, and the public names that need none."""

from __future__ import annotations

from hostile import (
    entries_answers,
    entries_comparisons,
    entries_control,
    entries_files,
    entries_methods,
    entries_plots,
    entries_results,
    entries_reviews,
    entries_samples,
    entries_tables,
)

ENTRIES = [
    *entries_tables.ENTRIES,
    *entries_methods.ENTRIES,
    *entries_results.ENTRIES,
    *entries_plots.ENTRIES,
    *entries_samples.ENTRIES,
    *entries_comparisons.ENTRIES,
    *entries_answers.ENTRIES,
    *entries_files.ENTRIES,
    *entries_reviews.ENTRIES,
    *entries_control.ENTRIES,
]
