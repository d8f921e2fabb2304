"""Enumeration of a lazy model: the table of all states that can be reached from given ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jmdp.base import arrays
from jmdp.base.settings import short
from jmdp.errors import ModelError
from jmdp.models.lazy import LazyJMDP
from jmdp.models.tabular import TabularJMDP

_BYTES = 60.0
"""Memory for each number of the table while it is made."""


def reachable_states(lazy: LazyJMDP, starts: Sequence[Any], most: int, report: Callable[[int], None]) -> list[int]:
    """Numbers in the lazy model of the states that can be reached, in the order in which they are found."""
    found = list(dict.fromkeys(lazy.index(state) for state in starts))
    known = set(found)
    done = 0
    while done < len(found):
        i = found[done]
        lazy.expand(i)
        done += 1
        if not lazy.terminal[i]:
            after = np.unique(lazy.next_state[i][lazy.prob[i] > 0]).tolist()
            new = [n for n in after if n not in known]
            known.update(new)
            found.extend(new)
        if len(found) > most:
            raise ModelError(
                f"More than {most:,} states can be reached, e.g. {short(lazy.states[found[-1]])}. Give a larger "
                "max_states, or evaluate without a table: jmdp.evaluate(model, policy, method=jmdp.ReachablePairs(…))."
            )
        report(done)
    return found


def lazy_table(lazy: LazyJMDP, found: list[int], names: Sequence[str] | None) -> TabularJMDP:
    """Scenario table of these states, which must be closed under all actions."""
    S, K, A = len(found), *lazy.reward.shape[1:]
    arrays.refuse_large(f"A table of {S:,} states, {K:,} scenarios and {A:,} actions", _BYTES * S * K * A)
    at = np.array(found)
    number = np.zeros(len(lazy.states), np.int64)  # of scenarios with probability 0, which may lead anywhere
    number[at] = np.arange(S)
    actions = None if lazy.actions is None or lazy.actions.names is None else lazy.actions.names
    after, terminal = number[lazy.next_state[at]], lazy.terminal[at]
    return TabularJMDP(lazy.prob[at], lazy.reward[at], after, lazy.discount, terminal, names, actions)
