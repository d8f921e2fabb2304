"""Public entries with valid arguments: the fuzz replaces one or two of the arguments by hostile values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arguments = dict[str, Any]


def nothing_wrong(result: Any, given: Mapping[str, Any]) -> str | None:
    """Check of entries whose result has nothing that could be wrong."""
    return None


def no_answer(result: Any) -> Any:
    """Answer of entries whose results are not compared."""
    return None


@dataclass(frozen=True)
class Entry:
    """One public callable.

    Parameters
    ----------
    name
        Public name, e.g. "TabularPolicy.deterministic"; it begins with the name it covers.
    call
        The callable; it takes the arguments by keyword.
    valid
        Makes valid arguments, optional ones included: only what is given here can be replaced.
    fixed
        Arguments that are never replaced.
    amounts
        Arguments of which a large valid value asks for much work, so that a call without an end is no defect.
    check
        What is wrong with the result of an accepted call, as text, or None.
    answer
        Numbers that must not change if an argument is replaced by one that means the same.
    then
        Calls on an accepted result, by name: they must succeed or raise a typed error too.
    """

    name: str
    call: Callable[..., Any]
    valid: Callable[[np.random.Generator], Arguments]
    fixed: frozenset[str] = frozenset()
    amounts: frozenset[str] = frozenset()
    check: Callable[[Any, Mapping[str, Any]], str | None] = nothing_wrong
    answer: Callable[[Any], Any] = no_answer
    then: Mapping[str, Callable[[Any], Any]] = field(default_factory=lambda: {"repr": repr})
