"""The verb: evaluate a policy in a model under a coupling, by a method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from jmdp.errors import NotConvergedError
from jmdp.methods.exact_pairs.exact_pairs import ExactPairs
from jmdp.methods.method import Method, check_problem
from jmdp.models.coupling import Coupling, Local
from jmdp.models.lazy import LazyJMDP
from jmdp.models.tabular import TabularJMDP
from jmdp.results.evaluation import Evaluation, Outcome
from jmdp.simulators.simulator import Simulator

if TYPE_CHECKING:
    from jmdp.methods.neural_gram.learned_evaluation import LearnedEvaluation
    from jmdp.methods.neural_gram.neural_gram import NeuralGram


@overload
def evaluate(
    model: Simulator,
    policy: Any,
    coupling: Coupling = ...,
    *,
    method: NeuralGram,
    throw: bool = ...,
    progress: bool = ...,
) -> LearnedEvaluation: ...


@overload
def evaluate(
    model: Simulator, policy: Any, coupling: Coupling, method: NeuralGram, *, throw: bool = ..., progress: bool = ...
) -> LearnedEvaluation: ...


@overload
def evaluate(
    model: TabularJMDP | LazyJMDP | Simulator,
    policy: Any,
    coupling: Coupling = ...,
    method: Method = ...,
    *,
    throw: bool = ...,
    progress: bool = ...,
) -> Evaluation: ...


def evaluate(
    model: TabularJMDP | LazyJMDP | Simulator,
    policy: Any,
    coupling: Coupling = Local(),
    method: Method = ExactPairs(),
    *,
    throw: bool = True,
    progress: bool = True,
) -> Evaluation | LearnedEvaluation:
    """Joint moments of the returns of all actions in all states.

    Parameters
    ----------
    model
        The scenario table, or a function that gives it state by state; or, for `MonteCarlo` and
        `NeuralGram`, a simulator (`jmdp.simulators`) or an environment.
    policy
        What is followed after the first action: a `TabularPolicy`; for a `LazyJMDP` a function from a state to its
        actions' probabilities; for a simulator anything that `as_policy` takes.
    coupling
        How luck is shared: `Local` (the paper's), `Synchronous` or `Independent`.
    method
        How they are found: `ExactPairs`, `ExactDistribution`, `ReachablePairs`, `JIPE`, `MonteCarlo`, `Incremental`,
        `LinearProjected` or `NeuralGram`, with their settings. What `NeuralGram` has learned is a `LearnedEvaluation`.
    throw
        Raise `NotConvergedError` where the tolerance is not met. With False the evaluation comes back all the same, its
        `outcome` says so, and its certificate still holds. What `NeuralGram` learned has no tolerance to meet, so a
        network that is not better than a constant does not raise: its `outcome` and its first printed line say so.
    progress
        Show a bar on a terminal when the work is long.
    """
    if hasattr(model, "unwrapped") or hasattr(model, "step_env"):  # an environment of Gymnasium or gymnax
        from jmdp.simulators import as_simulator

        model = as_simulator(model)
    check_problem(model, policy, coupling, method)
    if isinstance(model, Simulator):
        from jmdp.models.actors.as_policy import as_policy

        policy = as_policy(policy, model.actions)
    evaluation = method.run(model, policy, coupling, progress)
    if throw and not evaluation.outcome.successful:
        holds = "" if evaluation.certificate is None else ": its certificate holds"
        done = f"{evaluation.residuals.size} {method.step_name}s" if isinstance(evaluation, Evaluation) else "a while"
        raise NotConvergedError(
            f"{type(method).__name__} stopped after {done}: "
            f"{evaluation.outcome.value}.\n"
            f"{evaluation!r}\n"
            f"{_MENDS[evaluation.outcome]}, or pass throw=False to take what was reached{holds}.",
            evaluation,
        )
    return evaluation


_MENDS = {
    Outcome.STALLED: "Ask for a larger tolerance",
    Outcome.SWEEPS_EXHAUSTED: "Ask for a larger tolerance or more max_sweeps",
    Outcome.BUDGET_EXHAUSTED: "Ask for a larger tolerance or give a larger budget",
    Outcome.INTERRUPTED: "Take what was reached from this error's .evaluation",
}
