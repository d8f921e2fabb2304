"""Neural networks that learn the joint moments of returns for every state. Training needs ``jmdp[nn]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmdp.methods.neural_gram.lookahead import Lookahead
from jmdp.methods.neural_gram.neural_gram import NeuralGram

if TYPE_CHECKING:
    from jmdp.methods.neural_gram import encoders
    from jmdp.methods.neural_gram.learned_evaluation import LearnedEvaluation, calibration_of, equivalent_rollouts
    from jmdp.methods.neural_gram.lookahead_rollouts import LookaheadRollouts
    from jmdp.methods.neural_gram.losses import Batch
    from jmdp.methods.neural_gram.replay import PairReplay
    from jmdp.methods.neural_gram.training_loop import TrainingData, train

__all__ = [
    "Batch",
    "LearnedEvaluation",
    "Lookahead",
    "LookaheadRollouts",
    "NeuralGram",
    "PairReplay",
    "TrainingData",
    "calibration_of",
    "encoders",
    "equivalent_rollouts",
    "train",
]

_LOADED_LATER = {
    "Batch": "losses",
    "LearnedEvaluation": "learned_evaluation",
    "PairReplay": "replay",
    "TrainingData": "training_loop",
    "LookaheadRollouts": "lookahead_rollouts",
    "calibration_of": "learned_evaluation",
    "equivalent_rollouts": "learned_evaluation",
    "train": "training_loop",
}
"""Names that need JAX, with the module of each; they are imported on first use."""


def __getattr__(name: str) -> object:
    """Import names that need JAX on first access."""
    from importlib import import_module

    if name in _LOADED_LATER:
        return getattr(import_module(f"jmdp.methods.neural_gram.{_LOADED_LATER[name]}"), name)
    if name == "encoders":
        return import_module("jmdp.methods.neural_gram.encoders")
    raise AttributeError(f"module 'jmdp.methods.neural_gram' has no attribute {name!r}")
