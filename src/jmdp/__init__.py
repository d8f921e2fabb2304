"""Joint Markov decision processes: compare actions and policies under shared randomness (luck)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from jmdp import errors, methods
from jmdp.base.interval import Estimate, Interval, Verdict
from jmdp.evaluate import evaluate
from jmdp.methods.exact_pairs import ExactPairs
from jmdp.models.coupling import Independent, Local, Synchronous
from jmdp.models.lazy import LazyJMDP
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.certificate import Certificate
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.distribution import Distribution, GapDistribution
from jmdp.results.gaps.gap import Gap
from jmdp.results.outcome import Outcome

if TYPE_CHECKING:
    from jmdp import plots, simulators, testing, training, worlds
    from jmdp.base.luck import Shock
    from jmdp.base.luck_by_purpose import Luck
    from jmdp.comparing import compare
    from jmdp.comparing_policies import compare_policies
    from jmdp.comparing_runs import compare_runs
    from jmdp.distribute import ProcessPool, RayPool, SerialPool
    from jmdp.files.reading import read_model
    from jmdp.files.saving import load
    from jmdp.methods.exact_distribution import ExactDistribution
    from jmdp.methods.incremental import Incremental
    from jmdp.methods.jipe import JIPE
    from jmdp.methods.linear_projected import LinearProjected
    from jmdp.methods.monte_carlo import MonteCarlo, gap_samples
    from jmdp.methods.neural_gram import LearnedEvaluation, NeuralGram
    from jmdp.methods.reachable_pairs import ReachablePairs
    from jmdp.models.actors.as_policy import as_policy
    from jmdp.models.couple import CommonUniform, JointTable, Maximal, Product, couple
    from jmdp.models.marginals.marginals import Marginals
    from jmdp.results.calibration import Calibration
    from jmdp.results.comparison import Comparison
    from jmdp.results.margins import Margin
    from jmdp.results.not_worse import NotWorse
    from jmdp.results.policy_comparison import PolicyComparison
    from jmdp.results.regret import Regret
    from jmdp.results.run_comparison import RunComparison, RunComparisons
    from jmdp.reviewing import review
    from jmdp.reviews.decision import Decision
    from jmdp.reviews.lookahead_values import LookaheadValues
    from jmdp.reviews.review import Review
    from jmdp.reviews.reviews import Reviews
    from jmdp.reviews.rollout_values import RolloutValues
    from jmdp.reviews.trajectory import Trajectory
    from jmdp.simulators.recipe import Recipe
    from jmdp.simulators.visited import visited_states
    from jmdp.studies.study import Study
    from jmdp.studying import study
    from jmdp.tabulating import Tabulation, tabulate

__version__ = "0.2.0"

__all__ = [
    "JIPE",
    "Calibration",
    "Certificate",
    "CommonUniform",
    "Comparison",
    "Decision",
    "Distribution",
    "Estimate",
    "Evaluation",
    "ExactDistribution",
    "ExactPairs",
    "Gap",
    "GapDistribution",
    "Incremental",
    "Independent",
    "Interval",
    "JointTable",
    "LazyJMDP",
    "LearnedEvaluation",
    "LinearProjected",
    "Local",
    "LookaheadValues",
    "Luck",
    "Margin",
    "Marginals",
    "Maximal",
    "MonteCarlo",
    "NeuralGram",
    "NotWorse",
    "Outcome",
    "PolicyComparison",
    "ProcessPool",
    "Product",
    "RayPool",
    "ReachablePairs",
    "Recipe",
    "Regret",
    "Review",
    "Reviews",
    "RolloutValues",
    "RunComparison",
    "RunComparisons",
    "SerialPool",
    "Shock",
    "Study",
    "Synchronous",
    "TabularJMDP",
    "TabularPolicy",
    "Tabulation",
    "Trajectory",
    "Verdict",
    "as_policy",
    "compare",
    "compare_policies",
    "compare_runs",
    "couple",
    "errors",
    "evaluate",
    "gap_samples",
    "load",
    "methods",
    "plots",
    "read_model",
    "review",
    "simulators",
    "study",
    "tabulate",
    "testing",
    "training",
    "visited_states",
    "worlds",
]

_LOADED_LATER = {
    "Calibration": "results.calibration",
    "Comparison": "results.comparison",
    "LearnedEvaluation": "methods.neural_gram",
    "Luck": "base.luck_by_purpose",
    "Margin": "results.margins",
    "NotWorse": "results.not_worse",
    "PolicyComparison": "results.policy_comparison",
    "ProcessPool": "distribute",
    "RayPool": "distribute",
    "Recipe": "simulators.recipe",
    "Regret": "results.regret",
    "RunComparison": "results.run_comparison",
    "RunComparisons": "results.run_comparison",
    "SerialPool": "distribute",
    "Shock": "base.luck",
    "Study": "studies.study",
    "study": "studying",
    "as_policy": "models.actors.as_policy",
    "compare": "comparing",
    "compare_policies": "comparing_policies",
    "compare_runs": "comparing_runs",
    "gap_samples": "methods.monte_carlo",
    "load": "files.saving",
    "Marginals": "models.marginals.marginals",
    "Tabulation": "tabulating",
    "read_model": "files.reading",
    "tabulate": "tabulating",
    "Decision": "reviews.decision",
    "LookaheadValues": "reviews.lookahead_values",
    "Review": "reviews.review",
    "Reviews": "reviews.reviews",
    "RolloutValues": "reviews.rollout_values",
    "Trajectory": "reviews.trajectory",
    "review": "reviewing",
    **dict.fromkeys(("CommonUniform", "JointTable", "Maximal", "Product", "couple"), "models.couple"),
    "visited_states": "simulators.visited",
    **{name: f"methods.{folder}" for name, folder in methods.METHODS.items()},
}
"""Lazily imported names and the modules that define them."""


def __getattr__(name: str) -> object:
    """Import a submodule or name on first access."""
    if name in ("plots", "simulators", "testing", "training", "worlds"):
        return import_module(f"jmdp.{name}")
    if name in _LOADED_LATER:
        found: object = getattr(import_module(f"jmdp.{_LOADED_LATER[name]}"), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'jmdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All public names, including those not imported yet."""
    return sorted({*globals(), *__all__})
