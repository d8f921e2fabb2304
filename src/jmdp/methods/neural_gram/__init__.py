"""Joint moments over the whole state space of a simulator, learned by networks. Training needs ``jmdp[nn]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmdp.methods.neural_gram.lookahead import Lookahead
from jmdp.methods.neural_gram.neural_gram import NeuralGram

if TYPE_CHECKING:
    from jmdp.methods.neural_gram import encoders
    from jmdp.methods.neural_gram.learned_evaluation import LearnedEvaluation

__all__ = ["LearnedEvaluation", "Lookahead", "NeuralGram", "encoders"]


def __getattr__(name: str) -> object:
    """Load what needs networks when it is first asked for."""
    from importlib import import_module

    if name == "LearnedEvaluation":
        return import_module("jmdp.methods.neural_gram.learned_evaluation").LearnedEvaluation
    if name == "encoders":
        return import_module("jmdp.methods.neural_gram.encoders")
    raise AttributeError(f"module 'jmdp.methods.neural_gram' has no attribute {name!r}")
