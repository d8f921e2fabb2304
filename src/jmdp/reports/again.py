"""The last section of a page: the command line or the Python code that makes the result again."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from jmdp.base.settings import cut, short
from jmdp.reports.page import Again, visible


def again(command: str | None, given: Sequence[tuple[str, str]], call: str, arguments: Iterable[str]) -> Again:
    """The command if there is one, else a call in Python; `given` are names and descriptions of the caller's objects.

    A description is one line of a comment, so that no text of a user becomes code.
    """
    if command is not None:
        return Again(code=command, language="command line", note="The same numbers by this command:")
    assigned = [f"{name} = ...  # {comment(said)}" for name, said in given]
    code = ["import jmdp", "", *assigned, "", f"found = {call}(", *(f"    {text}" for text in arguments), ")"]
    return Again(
        code="\n".join([*code, 'found.report("page.html")']),
        note="The same numbers by this code, with your own objects in place of the three dots:",
    )


def comment(text: str) -> str:
    """A text as one line."""
    return visible(cut(text, 160))


def settings(**values: Any) -> list[str]:
    """Keyword arguments, one to a line; those that are None are omitted."""
    return [f"{name}={_literal(value)}" for name, value in values.items() if value is not None]


def _literal(value: Any) -> str:
    """Numbers, text, lists of them and settings of jmdp as Python code with a comma; three dots for all others."""
    if isinstance(value, (str, int, float, bool, list, tuple, dict)):
        return f"{value!r},"
    said = f"jmdp.{short(value, 1000)}"
    try:
        ast.parse(said, mode="eval")
    except (SyntaxError, ValueError):
        return later(said)
    return f"{said}," if type(value).__module__.startswith("jmdp.") and "…" not in said else later(said)


def later(said: str) -> str:
    """Three dots in place of a value that the result does not contain as code."""
    return f"...,  # {comment(said)}"
