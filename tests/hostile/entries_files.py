"""Entries of models from elsewhere, of their couplings and of files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import jmdp
from hostile import tiny
from hostile.entries import Arguments, Entry
from hostile.entries_comparisons import walk
from jmdp.testing import check_model


def _marginals(rng: np.random.Generator) -> Arguments:
    S, A, n = (int(x) for x in rng.integers(1, (4, 4, 3)))
    size = S * A * n
    return {
        "count": np.full((S, A), n),
        "prob": rng.dirichlet(np.ones(n), S * A).ravel(),
        "reward": rng.normal(size=size),
        "next_state": rng.integers(0, S, size),
        "discount": 0.5,
        "terminal": rng.random(S) < 0.2,
        "state_names": [f"s{i}" for i in range(S)],
        "action_names": [f"a{i}" for i in range(A)],
    }


def _small() -> jmdp.Marginals:
    return jmdp.Marginals(**_marginals(np.random.default_rng(3)))


def _arrays(rng: np.random.Generator) -> tuple[Any, Any]:
    """Rewards [2, 2] and transitions [2, 2, 2] of states and actions."""
    return rng.normal(size=(2, 2)), rng.dirichlet(np.ones(2), (2, 2))


def _toy_text(rng: np.random.Generator) -> Arguments:
    outcomes = [(0.25, 0, 1.0, False), (0.75, 1, 0.0, True)]
    return {
        "env": {s: {a: list(outcomes) for a in range(2)} for s in range(2)},
        "discount": 0.9,
        "state_names": ["a", "b"],
        "action_names": ["x", "y"],
    }


def _quantecon(rng: np.random.Generator) -> Arguments:
    R, Q = _arrays(rng)
    return {"R": R, "Q": Q, "discount": 0.9, "s_indices": None, "a_indices": None, "state_names": ["a", "b"]}


def _pairs(rng: np.random.Generator) -> Arguments:
    R, Q = _arrays(rng)
    states, actions = np.divmod(np.arange(4), 2)
    return {"R": R.ravel(), "Q": Q.reshape(4, 2), "discount": 0.9, "s_indices": states, "a_indices": actions}


def _mdptoolbox(rng: np.random.Generator) -> Arguments:
    R, Q = _arrays(rng)
    return {"P": Q.transpose(1, 0, 2).copy(), "R": R, "discount": 0.9, "action_names": ["x", "y"]}


def _couple(rng: np.random.Generator) -> Arguments:
    rule = [
        jmdp.models.CommonUniform(),
        jmdp.models.CommonUniform("reward", across_states=True),
        jmdp.models.Product(),
        jmdp.models.Maximal(),
    ]
    return {"marginals": _small(), "by": rule[rng.integers(4)]}


def _joint(prob: Any, outcome: Any) -> jmdp.TabularJMDP:
    marginals = jmdp.Marginals([[1, 2]], [1.0, 0.5, 0.5], [0.0, 1.0, 2.0], [0, 0, 0], 0.5)
    return jmdp.couple(marginals, jmdp.models.JointTable(prob, outcome))


def _read(path: Any, discount: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.csv"
        file.write_text("state,scenario,probability,action,reward,next\na,0,1,x,1,a\n")
        return jmdp.read_model(file if path is None else path, discount)


ENTRIES = [
    Entry("Marginals", jmdp.Marginals, _marginals),
    Entry("Marginals.from_toy_text", jmdp.Marginals.from_toy_text, _toy_text),
    Entry("Marginals.from_quantecon", jmdp.Marginals.from_quantecon, _quantecon),
    Entry("Marginals.from_quantecon of pairs", jmdp.Marginals.from_quantecon, _pairs),
    Entry("Marginals.from_mdptoolbox", jmdp.Marginals.from_mdptoolbox, _mdptoolbox),
    Entry(
        "Marginals.outcomes",
        lambda state, action: _small().outcomes(state, action),
        lambda rng: {"state": 0, "action": 0},
    ),
    Entry("CommonUniform", jmdp.models.CommonUniform, lambda rng: {"order": "reward", "across_states": True}),
    Entry("JointTable", _joint, lambda rng: {"prob": [[0.5, 0.5]], "outcome": [[[0, 0], [0, 1]]]}),
    Entry("couple", jmdp.couple, _couple),
    Entry(
        "tabulate",
        jmdp.tabulate,
        lambda rng: {
            "simulator": walk(),
            "starts": [0],
            "discount": None,
            "samples": 5,
            "seed": 3,
            "max_states": 10,
            "confidence": 0.9,
            "progress": False,
        },
        amounts=frozenset({"samples", "max_states"}),
    ),
    Entry("testing.check_model with starts", check_model, lambda rng: {"model": tiny.model(), "starts": [0]}),
    Entry("load", jmdp.load, lambda rng: {"path": "absent.nc"}),
    Entry("read_model", _read, lambda rng: {"path": None, "discount": 0.9}),
]
