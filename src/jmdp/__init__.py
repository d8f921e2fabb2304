"""Joint Markov decision processes: compare actions and policies under shared randomness (luck)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmdp import errors, methods
from jmdp.base import on_first_use

if TYPE_CHECKING:
    from jmdp import (
        comparisons,
        control,
        distribute,
        models,
        plots,
        results,
        reviews,
        simulators,
        studies,
        testing,
        training,
        worlds,
    )
    from jmdp.base.luck import Shock
    from jmdp.base.luck_by_purpose import Luck
    from jmdp.base.recorded_luck import RecordedLuck
    from jmdp.comparisons.compare import compare
    from jmdp.comparisons.compare_policies import compare_policies
    from jmdp.comparisons.compare_runs import compare_runs
    from jmdp.comparisons.compare_scores import compare_scores
    from jmdp.control.few_changes import few_changes
    from jmdp.control.frontier import frontier
    from jmdp.control.improve import improve
    from jmdp.files.reading import read_model
    from jmdp.files.saving import load
    from jmdp.methods.evaluate import evaluate
    from jmdp.methods.exact_distribution import ExactDistribution
    from jmdp.methods.exact_pairs import ExactPairs
    from jmdp.methods.incremental import Incremental
    from jmdp.methods.jipe import JIPE
    from jmdp.methods.learned import LearnedMoments
    from jmdp.methods.linear_projected import LinearProjected
    from jmdp.methods.monte_carlo import MonteCarlo
    from jmdp.methods.neural_gram import NeuralGram
    from jmdp.methods.reachable_pairs import ReachablePairs
    from jmdp.models.actors.as_policy import as_policy
    from jmdp.models.couple import couple
    from jmdp.models.coupling import Independent, Local, Synchronous
    from jmdp.models.lazy import LazyJMDP
    from jmdp.models.marginals.marginals import Marginals
    from jmdp.models.policy import TabularPolicy
    from jmdp.models.tabular import TabularJMDP
    from jmdp.reviews.playing import review
    from jmdp.simulators.simulator import Recipe
    from jmdp.simulators.tabulation.tabulate import tabulate
    from jmdp.statistics.assumptions import Assumptions
    from jmdp.statistics.planning import plan
    from jmdp.statistics.selection import Margin
    from jmdp.studies.running import study

__version__ = "0.3.0"

__all__ = [
    "JIPE",
    "Assumptions",
    "ExactDistribution",
    "ExactPairs",
    "Incremental",
    "Independent",
    "LazyJMDP",
    "LearnedMoments",
    "LinearProjected",
    "Local",
    "Luck",
    "Margin",
    "Marginals",
    "MonteCarlo",
    "NeuralGram",
    "ReachablePairs",
    "Recipe",
    "RecordedLuck",
    "Shock",
    "Synchronous",
    "TabularJMDP",
    "TabularPolicy",
    "as_policy",
    "compare",
    "compare_policies",
    "compare_runs",
    "compare_scores",
    "comparisons",
    "control",
    "couple",
    "distribute",
    "errors",
    "evaluate",
    "few_changes",
    "frontier",
    "improve",
    "load",
    "methods",
    "models",
    "plan",
    "plots",
    "read_model",
    "results",
    "review",
    "reviews",
    "simulators",
    "studies",
    "study",
    "tabulate",
    "testing",
    "training",
    "worlds",
]

_LATER = {
    "Assumptions": "statistics.assumptions",
    "Independent": "models.coupling",
    "LazyJMDP": "models.lazy",
    "Local": "models.coupling",
    "Luck": "base.luck_by_purpose",
    "Margin": "statistics.selection",
    "Marginals": "models.marginals.marginals",
    "Recipe": "simulators.simulator",
    "RecordedLuck": "base.recorded_luck",
    "Shock": "base.luck",
    "Synchronous": "models.coupling",
    "TabularJMDP": "models.tabular",
    "TabularPolicy": "models.policy",
    "as_policy": "models.actors.as_policy",
    "compare": "comparisons.compare",
    "compare_policies": "comparisons.compare_policies",
    "compare_runs": "comparisons.compare_runs",
    "compare_scores": "comparisons.compare_scores",
    "couple": "models.couple",
    "evaluate": "methods.evaluate",
    "few_changes": "control.few_changes",
    "frontier": "control.frontier",
    "improve": "control.improve",
    "load": "files.saving",
    "plan": "statistics.planning",
    "read_model": "files.reading",
    "review": "reviews.playing",
    "study": "studies.running",
    "tabulate": "simulators.tabulation.tabulate",
    **{name: f"methods.{folder}" for name, folder in methods.METHODS.items()},
    **{
        name: name
        for name in (
            *("comparisons", "control", "distribute", "models", "plots", "results", "reviews", "simulators", "studies"),
            *("testing", "training", "worlds"),
        )
    },
}
"""Names that are imported on first use, and the module of each."""

__getattr__, __dir__ = on_first_use(__name__, _LATER)
