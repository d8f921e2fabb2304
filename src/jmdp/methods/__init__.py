"""Evaluation methods, one folder each, with the settings specific to them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

METHODS = {
    "ExactPairs": "exact_pairs",
    "ExactDistribution": "exact_distribution",
    "ReachablePairs": "reachable_pairs",
    "JIPE": "jipe",
    "MonteCarlo": "monte_carlo",
    "Incremental": "incremental",
    "LinearProjected": "linear_projected",
    "NeuralGram": "neural_gram",
}
"""Class name of each method, and its folder."""


def __getattr__(name: str) -> ModuleType:
    """Import the folder of a method on first access."""
    if name in METHODS.values():
        return import_module(f"jmdp.methods.{name}")
    raise AttributeError(f"module 'jmdp.methods' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Names of this module, including methods not imported yet."""
    return sorted({*globals(), *METHODS.values()})
