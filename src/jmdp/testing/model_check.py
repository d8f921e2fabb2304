"""Is a scenario table what was meant? What is allowed in one, but seldom meant."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.checking.probe import Finding


def check_model(model: TabularJMDP) -> list[Finding]:
    """Look for what is allowed in a scenario table but seldom meant.

    A `TabularJMDP` that exists is well formed. This looks for the rest: states that are copies of one another
    (they draw their scenarios apart under `Local`, so splitting a state changes covariances), actions that never
    differ, scenarios that never happen, traps that earn nothing but are not terminal, states nothing leads to, and
    tables without any luck to share.
    """
    findings: list[Finding] = []
    for look in (_copies, _equal_actions, _impossible_scenarios, _idle_traps, _unreached, _no_luck):
        findings.extend(Finding(look.__name__.strip("_").replace("_", " "), message) for message in look(model))
    return findings


def _copies(model: TabularJMDP) -> Iterator[str]:
    seen: dict[bytes, int] = {}
    for s in np.flatnonzero(~model.terminal):
        row = b"".join(table[s].tobytes() for table in (model.prob, model.reward, model.next_state))
        first = seen.setdefault(row, int(s))
        if first != s:
            yield (
                f"states {model.states.name(first)} and {model.states.name(int(s))} have the same table. Local() draws "
                "their scenarios apart, so the two are less correlated than one state would be. Merge them if they are "
                "one place."
            )


def _equal_actions(model: TabularJMDP) -> Iterator[str]:
    possible = model.prob > 0
    A = model.shape[2]
    for a, b in product(range(A), range(A)):
        if a < b and all(
            (table[:, :, a] == table[:, :, b])[possible].all() for table in (model.reward, model.next_state)
        ):
            yield (
                f"actions {model.actions.name(a)} and {model.actions.name(b)} do the same everywhere. Their returns "
                "still differ unless the policy draws alike after both."
            )


def _impossible_scenarios(model: TabularJMDP) -> Iterator[str]:
    for k in np.flatnonzero((model.prob[~model.terminal] == 0).all(axis=0)):
        yield f"scenario {k} has probability 0 in every state. Drop it."


def _idle_traps(model: TabularJMDP) -> Iterator[str]:
    S = model.shape[0]
    here = np.arange(S)[:, None, None]
    stays = ((model.next_state == here) | (model.prob == 0)[:, :, None]).all(axis=(1, 2))
    for s in np.flatnonzero(stays & (model.reward == 0).all(axis=(1, 2)) & ~model.terminal):
        yield f"state {model.states.name(int(s))} is never left and earns nothing. Mark it terminal."


def _unreached(model: TabularJMDP) -> Iterator[str]:
    S = model.shape[0]
    here = np.arange(S)[:, None, None]
    arrives = (model.prob > 0)[:, :, None] & (model.next_state != here) & ~model.terminal[:, None, None]
    missing = np.setdiff1d(np.arange(S), model.next_state[arrives])
    if missing.size and S > 1:
        names = ", ".join(model.states.name(int(s)) for s in missing[:8])
        yield f"nothing leads to {missing.size} of {S} states ({names}{', …' if missing.size > 8 else ''})."


def _no_luck(model: TabularJMDP) -> Iterator[str]:
    if ((model.prob > 0).sum(axis=1) <= 1).all():
        yield "every state has one possible scenario, so the environment has no luck for actions to share."
