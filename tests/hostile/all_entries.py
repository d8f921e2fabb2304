"""All entries of the fuzz, and the public names that need none."""

from __future__ import annotations

from hostile import entries_methods, entries_plots, entries_results, entries_tables

ENTRIES = [
    *entries_tables.ENTRIES,
    *entries_methods.ENTRIES,
    *entries_results.ENTRIES,
    *entries_plots.ENTRIES,
]
