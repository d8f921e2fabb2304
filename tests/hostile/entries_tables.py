"""Entries of models, policies, methods and their results on tables."""

from __future__ import annotations

import numpy as np

import jmdp
from hostile.entries import Arguments, Entry


def table(rng: np.random.Generator) -> Arguments:
    """Arguments of a small table."""
    S, K, A = (int(n) for n in rng.integers(1, (5, 4, 4)))
    return {
        "prob": rng.dirichlet(np.ones(K), S),
        "reward": rng.normal(size=(S, K, A)),
        "next_state": rng.integers(0, S, (S, K, A)),
        "discount": float(rng.choice([0.0, 0.5, 0.9])),
        "terminal": rng.random(S) < 0.2,
        "state_names": [f"s{i}" for i in range(S)],
        "action_names": [f"a{i}" for i in range(A)],
    }


def _finite_and_frozen(model: jmdp.TabularJMDP, given: object) -> str | None:
    for name in ("prob", "reward", "next_state", "terminal"):
        array = getattr(model, name)
        if type(array) is not np.ndarray or array.flags.writeable or not np.isfinite(array).all():
            return f"{name} is {array!r:.60}"
    return None


ENTRIES = [
    Entry(
        "TabularJMDP",
        jmdp.TabularJMDP,
        table,
        check=_finite_and_frozen,
        answer=lambda model: (model.prob.tobytes(), model.reward.tobytes(), model.next_state.tobytes(), model.discount),
    ),
]
