"""Sentences that pages of several kinds have in common."""

from __future__ import annotations

import re

from jmdp.base.settings import cut
from jmdp.models.coupling import Coupling

MOST_ROWS = 60
"""Rows of a table in a page."""

MOST_DRAWN = 30
"""Alternatives in a figure."""


def sentence(text: str) -> str:
    """A text with a capital letter and a full stop; a number of samples keeps its small n."""
    said = text.strip()
    first = said[:1] if said.startswith("n =") else said[:1].upper()
    return first + said[1:] + ("" if said.endswith((".", "!", "?", "…")) else ".")


def name(text: str, most: int = 120) -> str:
    """A name of any length in a cell or a sentence."""
    return cut(text, most)


def short_name(simulator: str) -> str:
    """A simulator without the class that adapts it: FrozenLake-v1 for GymnasiumSimulator(FrozenLake-v1)."""
    inner = re.fullmatch(r"[A-Za-z]*Simulator\((.+)\)", simulator, re.DOTALL)
    short = simulator if inner is None else inner[1].partition(", copied by ")[0]
    return name(f"a {short}" if short.startswith("table of ") else short)


def coupling_words(coupling: Coupling, what: str) -> str:
    """Which randomness is shared by the alternatives, e.g. "actions"."""
    shared = {
        (True, True): f"all {what} meet the same randomness in every step",
        (True, False): f"{what} meet the same randomness while they are in the same state",
        (False, False): f"all {what} have randomness of their own",
    }[coupling.shared_in_a_state, coupling.shared_between_states]
    luck = "with the same number in each step" if coupling.policy_luck == "shared" else "independently"
    return f"{type(coupling).__name__}: {shared}; policies that act at random draw {luck}"


def rows_left_out(count: int) -> str:
    """The note of a table that is cut."""
    return "" if count <= MOST_ROWS else f" The first {MOST_ROWS} of {count:,} rows; to_dataframe() has all."
