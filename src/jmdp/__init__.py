"""Joint Markov decision processes: same luck, different action."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from jmdp import errors
from jmdp.coupling import Independent, Local, Synchronous
from jmdp.evaluate import evaluate
from jmdp.evaluation import Certificate, Evaluation, Outcome
from jmdp.gaps.gap import Gap
from jmdp.gaps.law import GapLaw, Law
from jmdp.interval import Estimate, Interval, Verdict
from jmdp.lazy_model import LazyJMDP
from jmdp.methods.exact_pairs import ExactPairs
from jmdp.model import TabularJMDP
from jmdp.policy import TabularPolicy

if TYPE_CHECKING:
    from jmdp import encoders, features, plots, simulators, testing, worlds
    from jmdp.actors.as_policy import UniformPolicy, as_policy
    from jmdp.calibration import Calibration
    from jmdp.comparing import compare
    from jmdp.comparison import Comparison, Decision, Regret
    from jmdp.luck import Shock
    from jmdp.methods.coordinate_sampling import (
        BlockSampling,
        CoordinateSampling,
        TrajectorySampling,
        UniformSampling,
    )
    from jmdp.methods.exact_law import ExactLaw
    from jmdp.methods.incremental import Incremental
    from jmdp.methods.jipe import JIPE
    from jmdp.methods.linear_projected import LinearProjected
    from jmdp.methods.monte_carlo import MonteCarlo, gap_samples
    from jmdp.methods.neural_gram import NeuralGram
    from jmdp.methods.pair_weights import Restart, Stationary
    from jmdp.methods.reachable_pairs import ReachablePairs
    from jmdp.methods.step_sizes import ConstantSteps, PolynomialSteps
    from jmdp.neural.learned_evaluation import LearnedEvaluation, Lookahead

__version__ = "0.1.0"

__all__ = [
    "JIPE",
    "BlockSampling",
    "Calibration",
    "Certificate",
    "Comparison",
    "ConstantSteps",
    "CoordinateSampling",
    "Decision",
    "Estimate",
    "Evaluation",
    "ExactLaw",
    "ExactPairs",
    "Gap",
    "GapLaw",
    "Incremental",
    "Independent",
    "Interval",
    "Law",
    "LazyJMDP",
    "LearnedEvaluation",
    "LinearProjected",
    "Local",
    "Lookahead",
    "MonteCarlo",
    "NeuralGram",
    "Outcome",
    "PolynomialSteps",
    "ReachablePairs",
    "Regret",
    "Restart",
    "Shock",
    "Stationary",
    "Synchronous",
    "TabularJMDP",
    "TabularPolicy",
    "TrajectorySampling",
    "UniformPolicy",
    "UniformSampling",
    "Verdict",
    "as_policy",
    "compare",
    "encoders",
    "errors",
    "evaluate",
    "features",
    "gap_samples",
    "plots",
    "simulators",
    "testing",
    "worlds",
]


_LATER = {
    "BlockSampling": "methods.coordinate_sampling",
    "Calibration": "calibration",
    "Comparison": "comparison",
    "ConstantSteps": "methods.step_sizes",
    "CoordinateSampling": "methods.coordinate_sampling",
    "Decision": "comparison",
    "ExactLaw": "methods.exact_law",
    "Incremental": "methods.incremental",
    "JIPE": "methods.jipe",
    "LearnedEvaluation": "neural.learned_evaluation",
    "LinearProjected": "methods.linear_projected",
    "Lookahead": "neural.learned_evaluation",
    "MonteCarlo": "methods.monte_carlo",
    "NeuralGram": "methods.neural_gram",
    "PolynomialSteps": "methods.step_sizes",
    "ReachablePairs": "methods.reachable_pairs",
    "Regret": "comparison",
    "Restart": "methods.pair_weights",
    "Shock": "luck",
    "Stationary": "methods.pair_weights",
    "TrajectorySampling": "methods.coordinate_sampling",
    "UniformPolicy": "actors.as_policy",
    "UniformSampling": "methods.coordinate_sampling",
    "as_policy": "actors.as_policy",
    "compare": "comparing",
    "gap_samples": "methods.monte_carlo",
}
"""Names that not every evaluation needs, and their files."""


def __getattr__(name: str) -> object:
    """Load what not every evaluation needs when it is first asked for."""
    if name in ("encoders", "features", "plots", "simulators", "testing", "worlds"):
        return import_module(f"jmdp.{name}")
    if name in _LATER:
        found: object = getattr(import_module(f"jmdp.{_LATER[name]}"), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'jmdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All names, loaded or not."""
    return sorted({*globals(), *__all__})
