"""The methods, a folder each, with the settings that only they have."""

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
"""Every method, and the folder it is in."""


def __getattr__(name: str) -> ModuleType:
    """Load the folder of a method when it is first asked for."""
    if name in METHODS.values():
        return import_module(f"jmdp.methods.{name}")
    raise AttributeError(f"module 'jmdp.methods' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All names, loaded or not."""
    return sorted({*globals(), *METHODS.values()})
