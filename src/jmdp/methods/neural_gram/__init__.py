"""Neural networks that learn the joint moments of returns for every state. Training needs ``jmdp[nn]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmdp.base import on_first_use
from jmdp.methods.neural_gram.lookahead import Lookahead
from jmdp.methods.neural_gram.neural_gram import NeuralGram

if TYPE_CHECKING:
    from jmdp.methods.neural_gram import encoders
    from jmdp.methods.neural_gram.learned_evaluation import LearnedEvaluation, calibration_of, equivalent_rollouts
    from jmdp.methods.neural_gram.lookahead_rollouts import LookaheadRollouts, PairReplay
    from jmdp.methods.neural_gram.losses import Batch
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

__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "Batch": "losses",
        "LearnedEvaluation": "learned_evaluation",
        "PairReplay": "lookahead_rollouts",
        "TrainingData": "training_loop",
        "LookaheadRollouts": "lookahead_rollouts",
        "calibration_of": "learned_evaluation",
        "equivalent_rollouts": "learned_evaluation",
        "encoders": "encoders",
        "train": "training_loop",
    },
)  # what needs JAX
