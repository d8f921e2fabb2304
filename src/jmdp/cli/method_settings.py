"""The methods that take a table, each with the settings that a command line can give."""

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
    """Simulation of all actions under shared luck: confidence intervals, and bands around distributions."""

    seed: int = 0
    states: tyro.conf.Suppress[None] = None  # for simulators


@dataclass(frozen=True, kw_only=True)
class Incremental(jmdp.Incremental):
    """The paper's learning from single steps: confidence intervals."""

    seed: int = 0
    steps: tyro.conf.Suppress[Any] = jmdp.Incremental.steps
    sampling: tyro.conf.Suppress[Any] = jmdp.Incremental.sampling
    checkpoint: Optionally[str] = None


@dataclass(frozen=True)
class ReachablePairs(jmdp.ReachablePairs):
    """One state of a world of any size, certified; needs --state."""

    state: tyro.conf.Suppress[Any] = None  # the command has it


_METHODS: dict[str, Method[Evaluation]] = dict(
    zip(
        get_args(MethodName),
        (jmdp.ExactPairs(), jmdp.ExactDistribution(), ReachablePairs(), jmdp.JIPE(), MonteCarlo(), Incremental()),
        strict=True,
    )
)


def settings_asked_for(arguments: Sequence[str]) -> Method[Evaluation]:
    """The settings, as they are by default, of the method that --method names; of the first where it names none."""
    given = [
        value.removeprefix("--method=")
        for before, value in zip(["", *arguments], arguments, strict=False)
        if before == "--method" or value.startswith("--method=")
    ]
    return _METHODS.get(given[-1] if given else "", next(iter(_METHODS.values())))


def summary(method: Method[Evaluation]) -> str:
    """Its name, and the first paragraph of what it says of itself."""
    first = (inspect.getdoc(method) or "").split("\n\n")[0].replace("\n", " ")
    return f"Of {type(method).__name__}: {first}"
