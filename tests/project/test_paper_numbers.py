"""Numbers of the paper's equations and theorems lead from the glossary to the code, and exist in the paper."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "jmdp"

VALID = {
    "Eq.": {f"({n})" for n in range(1, 90)},
    "Definition": {"3.1", "3.2", "4.1", "4.2", "4.3", "4.6", "5.1"},
    "Theorem": {"5.3", "5.4", "A.2", "A.4", "B.4"},
    "Lemma": {"5.2", "A.1", "A.3", "B.3"},
    "Assumption": {"4.5", "B.1", "B.2"},
    "Remark": {"4.4"},
}
"""Numbers as printed in the paper."""

NUMBER = re.compile(r"(Eq\.) (\(\d+\))|(Definition|Theorem|Lemma|Assumption|Remark) ([0-9A-Z]\.\d+)")


def numbers(text):
    """Numbers in a text, as (kind, number)."""
    return {(match[1] or match[3], match[2] or match[4]) for match in NUMBER.finditer(text)}


def docstrings():
    """Docstrings of all modules, classes and functions, and strings below assignments."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                yield str(node.value.value)


def test_every_number_in_the_glossary_is_in_a_docstring():
    text = (ROOT / "docs" / "glossary.md").read_text()
    listed = numbers(text)
    assert len(listed) > 60
    assert sorted(listed - set().union(*map(numbers, docstrings()))) == []
    assert [
        path
        for path in re.findall(r"`(\w+/[\w/]+\.py)`", text)
        if not (SOURCE / path).exists() and not (ROOT / path).exists()
    ] == []


def test_every_number_in_the_source_exists_in_the_paper():
    found = {(path.name, *number) for path in SOURCE.rglob("*.py") for number in numbers(path.read_text())}
    assert sorted(one for one in found if one[2] not in VALID[one[1]]) == []


def test_no_number_is_split_between_lines():
    """A search for the number would not find it."""
    split = re.compile(r"\b(Eq\.|Definition|Theorem|Lemma|Assumption|Remark)\n\s*(\(\d+\)|[0-9A-Z]\.\d)")
    assert [path.name for path in SOURCE.rglob("*.py") if split.search(path.read_text())] == []
