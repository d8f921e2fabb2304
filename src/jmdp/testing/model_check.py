"""Detection of likely mistakes in a scenario table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from jmdp.base.settings import instance
from jmdp.errors import ModelError
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.checking.probe import Finding


def check_model(model: TabularJMDP) -> list[Finding]:
    """Report features of a scenario table that are allowed but are likely mistakes.

    The constructor of `TabularJMDP` checks that a table is well formed. This function reports states with identical
    tables (under `Local` they draw separate scenarios, so splitting a state changes covariances), actions that never
    differ, scenarios of probability 0, states that are never left and have no reward but are not terminal, states that
    no transition leads to, and tables without randomness to share.
    """
    instance("model", model, TabularJMDP, ModelError)
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
                "separate scenarios for them, so returns are less correlated than if they were one state. "
                "Merge them if they represent the same state."
            )


def _equal_actions(model: TabularJMDP) -> Iterator[str]:
    possible = model.prob > 0
    A = model.shape[2]
    for a, b in product(range(A), range(A)):
        if a < b and all(
            (table[:, :, a] == table[:, :, b])[possible].all() for table in (model.reward, model.next_state)
        ):
            yield (
                f"actions {model.actions.name(a)} and {model.actions.name(b)} have the same effect in every state. "
                "Their returns still differ unless the policy draws the same actions after both."
            )


def _impossible_scenarios(model: TabularJMDP) -> Iterator[str]:
    for k in np.flatnonzero((model.prob[~model.terminal] == 0).all(axis=0)):
        yield f"scenario {k} has probability 0 in every state. Drop it."


def _idle_traps(model: TabularJMDP) -> Iterator[str]:
    S = model.shape[0]
    here = np.arange(S)[:, None, None]
    stays = ((model.next_state == here) | (model.prob == 0)[:, :, None]).all(axis=(1, 2))
    for s in np.flatnonzero(stays & (model.reward == 0).all(axis=(1, 2)) & ~model.terminal):
        yield f"state {model.states.name(int(s))} is never left and has no reward. Mark it terminal."


def _unreached(model: TabularJMDP) -> Iterator[str]:
    S = model.shape[0]
    here = np.arange(S)[:, None, None]
    arrives = (model.prob > 0)[:, :, None] & (model.next_state != here) & ~model.terminal[:, None, None]
    missing = np.setdiff1d(np.arange(S), model.next_state[arrives])
    if missing.size and S > 1:
        names = ", ".join(model.states.name(int(s)) for s in missing[:8])
        yield f"no transition leads to {missing.size} of {S} states ({names}{', …' if missing.size > 8 else ''})."


def _no_luck(model: TabularJMDP) -> Iterator[str]:
    if ((model.prob > 0).sum(axis=1) <= 1).all():
        yield "every state has one possible scenario, so there is no randomness for actions to share."
