"""Joint Markov decision processes: same luck, different action."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from jmdp import errors, worlds
from jmdp.coupling import Independent, Local, Synchronous
from jmdp.evaluate import evaluate
from jmdp.evaluation import Certificate, Evaluation, Outcome
from jmdp.gaps.gap import Gap
from jmdp.gaps.law import GapLaw, Law
from jmdp.interval import Estimate, Interval, Verdict
from jmdp.lazy_model import LazyJMDP
from jmdp.methods.exact_law import ExactLaw
from jmdp.methods.exact_pairs import ExactPairs
from jmdp.methods.jipe import JIPE
from jmdp.methods.monte_carlo import MonteCarlo, gap_samples
from jmdp.methods.reachable_pairs import ReachablePairs
from jmdp.model import TabularJMDP
from jmdp.policy import TabularPolicy

if TYPE_CHECKING:
    from jmdp import plots, testing

__version__ = "0.1.0"

__all__ = [
    "JIPE",
    "Certificate",
    "Estimate",
    "Evaluation",
    "ExactLaw",
    "ExactPairs",
    "Gap",
    "GapLaw",
    "Independent",
    "Interval",
    "Law",
    "LazyJMDP",
    "Local",
    "MonteCarlo",
    "Outcome",
    "ReachablePairs",
    "Synchronous",
    "TabularJMDP",
    "TabularPolicy",
    "Verdict",
    "errors",
    "evaluate",
    "gap_samples",
    "plots",
    "testing",
    "worlds",
]


def __getattr__(name: str) -> ModuleType:
    """Load rooms that an evaluation does not need when they are first asked for."""
    if name in ("plots", "testing"):
        return import_module(f"jmdp.{name}")
    raise AttributeError(f"module 'jmdp' has no attribute {name!r}")
