"""Evaluation methods, one folder each, with the settings specific to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmdp.base import on_first_use

if TYPE_CHECKING:
    from jmdp.methods.monte_carlo.monte_carlo import gap_samples

__all__ = ["gap_samples"]

METHODS = {
    "ExactPairs": "exact_pairs",
    "ExactDistribution": "exact_distribution",
    "ReachablePairs": "reachable_pairs",
    "JIPE": "jipe",
    "MonteCarlo": "monte_carlo",
    "Incremental": "incremental",
    "LinearProjected": "linear_projected",
    "LearnedMoments": "learned",
    "NeuralGram": "neural_gram",
}
"""Class name of each method, and its folder."""


__getattr__, __dir__ = on_first_use(
    __name__, {**{folder: folder for folder in METHODS.values()}, "gap_samples": "monte_carlo.monte_carlo"}
)
