"""Public names without an entry, each with the reason, and the names that need one."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib.util import find_spec

import jmdp
from jmdp import plots, simulators, testing, worlds

NO_ENTRY = {
    "ActionComparison": "made by compare; its queries have entries",
    "Changes": "made by few_changes",
    "Comparison": "the base class of all comparisons",
    "Decision": "made by reviews",
    "DecidingFutures": "made by explanations; it has no queries",
    "Evaluation": "made by evaluate; its queries have entries",
    "Explanation": "made by comparisons; its queries have entries",
    "FewChanges": "made by few_changes; it has no queries",
    "Frontier": "made by frontier; its queries have entries",
    "Gap": "made by evaluations; its queries have entries",
    "Improvement": "made by improve",
    "Maximal": "it has no settings; `couple` has an entry",
    "NotWorse": "made by comparisons; it has no queries",
    "Outcome": "an Enum, which Python looks up",
    "Plan": "made by plan; it has no queries",
    "Point": "made by frontier",
    "PolicyComparison": "made by compare_policies",
    "Product": "it has no settings; `couple` has an entry",
    "Risk": "made by frontier",
    "RunComparison": "made by compare_runs",
    "RunComparisons": "made by compare_runs",
    "ScoreComparison": "made by compare_scores",
    "Statistics": "made by frontier",
    "Study": "made by study; tests/studies has mutants of its files",
    "simulators.Tabulation": "made by tabulate",
    "Verdict": "an Enum, which Python looks up",
    "Pool": "an interface",
    "errors": "a module of exceptions",
    "simulators.PairWalks": "made by PairedRollouts",
    "simulators.Simulator": "an interface",
    "simulators.Step": "made by simulators",
    "methods": "a module; its classes have entries",
    "testing.Finding": "made by checks",
    "testing.Findings": "made by checks",
    "testing.ModelFinding": "made by checks",
    "testing.ModelReport": "made by checks",
    "Calibration.report": "it would write files with hostile names; tests/show/reports",
    "Calibration.save": "it would write files with hostile names; tests/files",
    "Evaluation.report": "it would write files with hostile names; tests/show/reports",
    "Evaluation.save": "it would write files with hostile names; tests/files",
    "TabularJMDP.save": "it would write files with hostile names; tests/files",
}
"""Public names that need no entry."""
if find_spec("stable_baselines3") is None:
    NO_ENTRY["training"] = "its callback needs stable-baselines3"

RESULTS = (
    jmdp.results.Calibration,
    jmdp.results.Certificate,
    jmdp.results.Distribution,
    jmdp.results.Estimate,
    jmdp.results.Evaluation,
    jmdp.results.Gap,
    jmdp.results.GapDistribution,
    jmdp.results.Interval,
    jmdp.Luck,
    jmdp.comparisons.NotWorse,
    jmdp.comparisons.Regret,
    jmdp.TabularJMDP,
    jmdp.TabularPolicy,
)
"""Classes whose public methods need entries, if they take arguments. Those of comparisons are called by label."""

_SUBMODULES = {
    "plots": plots,
    "simulators": simulators,
    "testing": testing,
    "worlds": worlds,
}

_NAMESPACES = ("comparisons", "control", "distribute", "models", "results", "reviews", "studies")
"""Classes that calls return, and settings of calls."""


def public_names() -> Iterator[str]:
    """All names that need an entry or a reason."""
    yield from (name for name in jmdp.__all__ if name not in (*_SUBMODULES, *_NAMESPACES))
    for namespace in _NAMESPACES:
        yield from (name for name in getattr(jmdp, namespace).__all__ if name[0].isupper())
    for name, module in _SUBMODULES.items():
        yield from (f"{name}.{inner}" for inner in module.__all__)
    for kind in RESULTS:
        for name, method in inspect.getmembers(kind, callable):
            ours = getattr(method, "__module__", "") and str(method.__module__).startswith("jmdp")
            if ours and not name.startswith("_") and _takes_arguments(kind, name):
                yield f"{kind.__name__}.{name}"


def _takes_arguments(kind: type, name: str) -> bool:
    bound = isinstance(inspect.getattr_static(kind, name), classmethod)
    return len(inspect.signature(getattr(kind, name)).parameters) > (0 if bound else 1)
