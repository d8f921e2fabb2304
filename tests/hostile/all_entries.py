"""All entries of the fuzz, and the public names that need none."""

from __future__ import annotations

from hostile import entries_tables

ENTRIES = [*entries_tables.ENTRIES]
