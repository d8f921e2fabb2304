"""Methods that evaluate a table, with the settings that the command line offers."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import tyro

import jmdp
from jmdp.cli.options import Optionally
from jmdp.methods.method import Method
from jmdp.results.evaluation import Evaluation

MethodName = Literal["exact-pairs", "exact-distribution", "reachable-pairs", "jipe", "monte-carlo", "incremental"]


@dataclass(frozen=True, kw_only=True)
class MonteCarlo(jmdp.MonteCarlo):
    """Simulation of all actions under shared randomness, with confidence intervals and bands."""

    seed: int = 0
    states: tyro.conf.Suppress[None] = None  # for simulators only
    pool: tyro.conf.Suppress[None] = None


@dataclass(frozen=True, kw_only=True)
class Incremental(jmdp.Incremental):
    """The paper's incremental learning from single steps, with confidence intervals."""

    seed: int = 0
    steps: tyro.conf.Suppress[Any] = jmdp.Incremental.steps
    sampling: tyro.conf.Suppress[Any] = jmdp.Incremental.sampling
    checkpoint: Optionally[str] = None


@dataclass(frozen=True)
class ReachablePairs(jmdp.ReachablePairs):
    """Certified intervals at one state of a world of any size; needs --state."""

    state: tyro.conf.Suppress[Any] = None  # set from --state


_METHODS: dict[str, Method[Evaluation]] = dict(
    zip(
        get_args(MethodName),
        (jmdp.ExactPairs(), jmdp.ExactDistribution(), ReachablePairs(), jmdp.JIPE(), MonteCarlo(), Incremental()),
        strict=True,
    )
)


def settings_asked_for(arguments: Sequence[str]) -> Method[Evaluation]:
    """Return the default settings of the method that --method names; of the first if it is absent."""
    given = [
        value.removeprefix("--method=")
        for before, value in zip(["", *arguments], arguments, strict=False)
        if before == "--method" or value.startswith("--method=")
    ]
    return _METHODS.get(given[-1] if given else "", next(iter(_METHODS.values())))


def summary(method: Method[Evaluation]) -> str:
    """Return the method's name and the first paragraph of its docstring."""
    first = (inspect.getdoc(method) or "").split("\n\n")[0].replace("\n", " ")
    return f"Settings of {type(method).__name__}: {first}"
