"""Comparisons of actions, policies and whole runs under shared randomness."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmdp.base import on_first_use
from jmdp.statistics.planning import Plan

if TYPE_CHECKING:
    from jmdp.comparisons.answer import NotWorse
    from jmdp.comparisons.comparison import ActionComparison, Comparison
    from jmdp.comparisons.comparison_table import Regret
    from jmdp.comparisons.explanation import DecidingFutures, Explanation
    from jmdp.comparisons.policy_comparison import PolicyComparison, RunComparison, RunComparisons
    from jmdp.comparisons.score_comparison import ScoreComparison

__all__ = [
    "ActionComparison",
    "Comparison",
    "DecidingFutures",
    "Explanation",
    "NotWorse",
    "Plan",
    "PolicyComparison",
    "Regret",
    "RunComparison",
    "RunComparisons",
    "ScoreComparison",
]

__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "ActionComparison": "comparison",
        "Comparison": "comparison",
        "DecidingFutures": "explanation",
        "Explanation": "explanation",
        "NotWorse": "answer",
        "PolicyComparison": "policy_comparison",
        "Regret": "comparison_table",
        "RunComparison": "policy_comparison",
        "RunComparisons": "policy_comparison",
        "ScoreComparison": "score_comparison",
    },
)
