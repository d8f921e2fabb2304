"""The verb: evaluate a policy in a model under a coupling, by a method."""

from __future__ import annotations

from jmdp.coupling import Coupling, Local
from jmdp.errors import NotConvergedError, SettingsError
from jmdp.evaluation import Evaluation, Outcome
from jmdp.methods.exact_pairs import ExactPairs
from jmdp.methods.method import Method, check_kind, check_problem
from jmdp.model import TabularJMDP
from jmdp.policy import TabularPolicy


def evaluate(
    model: TabularJMDP,
    policy: TabularPolicy,
    coupling: Coupling = Local(),
    method: Method = ExactPairs(),
    *,
    throw: bool = True,
    progress: bool = True,
) -> Evaluation:
    """Joint moments of the returns of all actions in all states.

    Parameters
    ----------
    model
        The scenario table.
    policy
        What is followed after the first action.
    coupling
        How luck is shared: `Local` (the paper's), `Synchronous` or `Independent`.
    method
        How the moments are found: `ExactPairs`, `JIPE` or `MonteCarlo`, with their settings.
    throw
        Raise `NotConvergedError` where the tolerance is not met. With False the evaluation comes back all the same, its
        `outcome` says so, and its certificate still holds.
    progress
        Show a bar on a terminal when the work is long.
    """
    check_problem(model, policy, coupling)
    check_kind("method", method, Method, SettingsError)
    evaluation = method.run(model, policy, coupling, progress)
    if throw and not evaluation.outcome.successful:
        raise NotConvergedError(
            f"{type(method).__name__} stopped after {evaluation.residuals.size} sweeps: {evaluation.outcome.value}.\n"
            f"{evaluation!r}\n"
            f"{_MENDS[evaluation.outcome]}, or pass throw=False to take what was reached: its certificate holds.",
            evaluation,
        )
    return evaluation


_MENDS = {
    Outcome.STALLED: "Ask for a larger tolerance",
    Outcome.SWEEPS_EXHAUSTED: "Ask for a larger tolerance or more max_sweeps",
    Outcome.INTERRUPTED: "Take what was reached from this error's .evaluation",
}
