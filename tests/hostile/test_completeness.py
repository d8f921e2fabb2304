"""Every public name has an entry in the fuzz, or a reason to have none."""

from hostile.all_entries import ENTRIES
from hostile.completeness import NO_ENTRY, public_names


def has_entry(name: str) -> bool:
    """Whether an entry begins with the name; a class is covered by its methods too."""
    return any(entry.name == name or entry.name.startswith((f"{name}.", f"{name}:")) for entry in ENTRIES)


def test_every_public_name_has_an_entry_or_a_reason():
    assert [name for name in public_names() if not has_entry(name) and name not in NO_ENTRY] == []


def test_reasons_are_those_of_public_names_without_an_entry():
    names = set(public_names())
    assert [name for name in NO_ENTRY if name not in names] == []
