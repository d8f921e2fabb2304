"""Models as the bytes of npz, CSV and Parquet files, for the tests of reading."""

from __future__ import annotations

import csv
import hashlib
import io
from typing import Any

import numpy as np

import jmdp


def small_model(seed: int = 0, *, states: int = 4, scenarios: int = 3, actions: int = 2, named: bool = True):
    """A random model whose last state is terminal and reached."""
    rng = np.random.default_rng(seed)
    prob = rng.dirichlet(np.ones(scenarios), size=states)
    reward = rng.normal(size=(states, scenarios, actions))
    next_state = rng.integers(0, states, size=(states, scenarios, actions))
    next_state[0, 0, 0] = states - 1
    terminal = np.arange(states) == states - 1
    names = {}
    if named:
        names = {
            "state_names": [f"état {s}" for s in range(states)],
            "action_names": [f"a{a}, really" for a in range(actions)],
        }
    return jmdp.TabularJMDP(prob, reward, next_state, 0.9, terminal, **names)


def arrays_of(model: jmdp.TabularJMDP) -> dict[str, Any]:
    """Arrays of an npz file."""
    found = {name: getattr(model, name) for name in ("prob", "reward", "next_state", "discount", "terminal")}
    for name, labels in (("state_names", model.states), ("action_names", model.actions)):
        if labels.names is not None:
            found[name] = np.array(labels.names, dtype=str)
    return found


def npz(model: jmdp.TabularJMDP, *, compressed: bool = False, **changes: Any) -> bytes:
    """An npz file; a change of None leaves the array out."""
    content = io.BytesIO()
    found = {name: value for name, value in {**arrays_of(model), **changes}.items() if value is not None}
    (np.savez_compressed if compressed else np.savez)(content, **found)
    return content.getvalue()


def records(model: jmdp.TabularJMDP) -> list[dict[str, Any]]:
    """Rows of a long table: names, or integers where the model has none."""
    S, K, A = model.shape
    return [
        {
            "state": model.states[s],
            "scenario": k,
            "probability": float(model.prob[s, k]),
            "action": model.actions[a],
            "reward": float(model.reward[s, k, a]),
            "next": model.states[int(model.next_state[s, k, a])],
        }
        for s in range(S)
        if not model.terminal[s]
        for k in range(K)
        for a in range(A)
    ]


def csv_text(rows: list[dict[str, Any]], separator: str = ",") -> str:
    """Rows as CSV text; numbers are written with all digits."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=separator)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def parquet(rows: list[dict[str, Any]], **options: Any) -> bytes:
    """Rows as a Parquet file."""
    import pyarrow
    from pyarrow import parquet as pq

    content = io.BytesIO()
    pq.write_table(pyarrow.Table.from_pylist(rows), content, **options)
    return content.getvalue()


def fingerprint(model: jmdp.TabularJMDP) -> str:
    """A text that two models share only if they are the same, bit for bit."""
    total = hashlib.sha256(repr((model.shape, model.discount, model.states.names, model.actions.names)).encode())
    for array in (model.prob, model.reward, model.next_state, model.terminal):
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()
