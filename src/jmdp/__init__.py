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
    from jmdp.comparisons.compare import compare
    from jmdp.comparisons.compare_policies import compare_policies
    from jmdp.comparisons.compare_runs import compare_runs
    from jmdp.comparisons.comparison import Comparison
    from jmdp.comparisons.not_worse import NotWorse
    from jmdp.comparisons.policy_comparison import PolicyComparison
    from jmdp.comparisons.regret import Regret
    from jmdp.comparisons.run_comparison import RunComparison, RunComparisons
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
    from jmdp.reviewing import review
    from jmdp.reviews.decision import Decision
    from jmdp.reviews.lookahead_values import LookaheadValues
    from jmdp.reviews.review import Review
    from jmdp.reviews.reviews import Reviews
    from jmdp.reviews.rollout_values import RolloutValues
    from jmdp.reviews.trajectory import Trajectory
    from jmdp.simulators.recipe import Recipe
    from jmdp.simulators.visited import visited_states
    from jmdp.statistics.assumptions import Assumptions
    from jmdp.statistics.margins import Margin
    from jmdp.statistics.planning import Plan, plan
    from jmdp.studies.study import Study
    from jmdp.studying import study
    from jmdp.tabulating import Tabulation, tabulate

__version__ = "0.2.0"

__all__ = [
    "JIPE",
    "Assumptions",
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
    "Plan",
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
    "plan",
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
    "Assumptions": "statistics.assumptions",
    "Calibration": "results.calibration",
    "Comparison": "comparisons.comparison",
    "LearnedEvaluation": "methods.neural_gram",
    "Luck": "base.luck_by_purpose",
    "Margin": "statistics.margins",
    "NotWorse": "comparisons.not_worse",
    "Plan": "statistics.planning",
    "PolicyComparison": "comparisons.policy_comparison",
    "ProcessPool": "distribute",
    "RayPool": "distribute",
    "Recipe": "simulators.recipe",
    "Regret": "comparisons.regret",
    "RunComparison": "comparisons.run_comparison",
    "RunComparisons": "comparisons.run_comparison",
    "SerialPool": "distribute",
    "Shock": "base.luck",
    "Study": "studies.study",
    "study": "studying",
    "as_policy": "models.actors.as_policy",
    "compare": "comparisons.compare",
    "compare_policies": "comparisons.compare_policies",
    "compare_runs": "comparisons.compare_runs",
    "gap_samples": "methods.monte_carlo",
    "load": "files.saving",
    "plan": "statistics.planning",
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
