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
    from jmdp import features, plots, testing, worlds
    from jmdp.methods.exact_law import ExactLaw
    from jmdp.methods.jipe import JIPE
    from jmdp.methods.monte_carlo import MonteCarlo, gap_samples
    from jmdp.methods.reachable_pairs import ReachablePairs

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
    "features",
    "gap_samples",
    "plots",
    "testing",
    "worlds",
]


_LATER = {
    "ExactLaw": "exact_law",
    "JIPE": "jipe",
    "MonteCarlo": "monte_carlo",
    "ReachablePairs": "reachable_pairs",
    "gap_samples": "monte_carlo",
}
"""Names of methods that not every evaluation needs, and their files."""


def __getattr__(name: str) -> object:
    """Load what not every evaluation needs when it is first asked for."""
    if name in ("features", "plots", "testing", "worlds"):
        return import_module(f"jmdp.{name}")
    if name in _LATER:
        found: object = getattr(import_module(f"jmdp.methods.{_LATER[name]}"), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'jmdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All names, loaded or not."""
    return sorted({*globals(), *__all__})
