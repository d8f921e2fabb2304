"""The verb: evaluate a policy in a model under a coupling, by a method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, overload

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.labels import Labels
from jmdp.errors import CouplingError, ModelError, NotConvergedError, PolicyError, SettingsError
from jmdp.methods.exact_pairs.exact_pairs import ExactPairs
from jmdp.methods.method import Method, check_kind, check_method, check_table
from jmdp.models.coupling import Coupling
from jmdp.models.discount import problem_discount
from jmdp.models.lazy import LazyJMDP
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.evaluation import Evaluation
from jmdp.results.outcome import Outcome
from jmdp.results.repeated import repeated
from jmdp.simulators.functions import TabularSimulator
from jmdp.simulators.simulator import Simulator
from jmdp.simulators.starts import Starts

Answer = TypeVar("Answer")


@overload
def evaluate(
    model: Any,
    policy: Any,
    coupling: Coupling,
    *,
    discount: float | None = ...,
    start: Any = ...,
    throw: bool = ...,
    progress: bool = ...,
) -> Evaluation: ...


@overload
def evaluate(
    model: Any,
    policy: Any,
    coupling: Coupling,
    method: Method[Answer],
    *,
    discount: float | None = ...,
    start: Any = ...,
    throw: bool = ...,
    progress: bool = ...,
) -> Answer: ...


def evaluate(
    model: Any,
    policy: Any,
    coupling: Coupling | None = None,
    method: Method[Any] = ExactPairs(),
    *,
    discount: float | None = None,
    start: Any = None,
    throw: bool = True,
    progress: bool = True,
) -> Any:
    """Joint moments of the returns of all actions in all states.

    Parameters
    ----------
    model
        The scenario table (`TabularJMDP`), or a function that gives it state by state (`LazyJMDP`); or, for
        `MonteCarlo` and `NeuralGram`, a simulator (`jmdp.simulators`) or an environment of Gymnasium or gymnax.
    policy
        What is followed after the first action: a `TabularPolicy`; for a `LazyJMDP` a function from a state to its
        actions' probabilities; for a simulator anything that `as_policy` takes. Or, for a table, several policies by
        name, {"old": p, "new": q}: the evaluation is then of the returns of the policies, each followed from the first
        step on, and its second axis is the policies. Branches of different policies in one state meet the same scenario
        (with `Synchronous` in all states, with `Independent` nowhere); with policy_luck="shared" they draw their
        actions with the same uniform number.
    coupling
        How luck is shared: `Local` (the paper's), `Synchronous` or `Independent`. It is part of the question and
        changes the answer, so it has no default.
    method
        How they are found: `ExactPairs`, `ExactDistribution`, `ReachablePairs`, `JIPE`, `MonteCarlo`, `Incremental`,
        `LinearProjected` or `NeuralGram`, with their settings. What `NeuralGram` has learned is a `LearnedEvaluation`.
    discount
        γ, for a simulator that has none of its own. Models have theirs.
    start
        With several policies: where they start, drawn once for all of them, as probabilities [S], {state: probability}
        or a list of equally likely states. The evaluation then has one more state, "start": its gaps are those of the
        whole policies, and `Evaluation.variance_split` tells the part within starts from that between them.
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
    check_method(method)
    if coupling is None:
        raise CouplingError(_NO_COUPLING)
    check_kind("coupling", coupling, Coupling, CouplingError)
    if isinstance(policy, Mapping):
        answer = _of_policies(model, policy, coupling, method, discount, start, progress)
    elif start is None:
        answer = _answer(model, policy, coupling, method, discount, progress)
    else:
        raise SettingsError('start=… is for several policies: evaluate(model, {"old": p, "new": q}, …, start=…).')
    if throw and not answer.outcome.successful:
        raise _not_converged(method, answer)
    return answer


def _answer(
    model: Any, policy: Any, coupling: Coupling, method: Method[Any], discount: float | None, progress: bool
) -> Any:
    """What the method gives for this kind of problem, once model, policy and coupling are known to fit."""
    if isinstance(model, Simulator):
        from jmdp.models.actors.as_policy import as_policy

        method.check_takes_simulators()
        actor = as_policy(policy, model.actions)
        return method.on_simulator(model, actor, coupling, problem_discount(model.discount, discount), progress)
    if isinstance(model, LazyJMDP):
        problem_discount(model.discount, discount)
        if not callable(policy):
            raise PolicyError(
                f"policy is a {type(policy).__name__}. For a LazyJMDP give a function from a state to the "
                "probabilities of its actions."
            )
        return method.on_lazy_model(model, policy, coupling, progress)
    check_table(model, policy, coupling)
    problem_discount(model.discount, discount)
    return method.on_table(model, policy, coupling, progress)


def _of_policies(
    model: Any,
    policies: Mapping[str, Any],
    coupling: Coupling,
    method: Method[Any],
    discount: float | None,
    start: Any,
    progress: bool,
) -> Any:
    """What the method gives for several policies; those that are sure to have one and the same return are one to it."""
    if isinstance(model, Simulator | LazyJMDP):
        raise ModelError("Several policies at once need a table. For a simulator use jmdp.compare_policies.")
    if not policies or not all(isinstance(name, str) for name in policies):
        raise PolicyError('Give several policies as a dictionary from names to policies: {"old": p, "new": q}.')
    for policy in policies.values():
        check_table(model, policy, coupling)
    problem_discount(model.discount, discount)
    names, tables = list(policies), list(policies.values())
    same = [
        next(j for j in range(i + 1) if i == j or _one_return(tables[i], tables[j], coupling))
        for i in range(len(tables))
    ]
    distinct = sorted(set(same))
    drawn = None if start is None else _start(start, model)
    answer = method.on_policies(model, {names[i]: tables[i] for i in distinct}, coupling, drawn, progress)
    if len(distinct) == len(names):
        return answer
    return repeated(answer, Labels.of("policy", len(names), names), [distinct.index(i) for i in same])


def _start(start: Any, model: TabularJMDP) -> Floats:
    """[S], the distribution of starts."""
    found = Starts.of(start, TabularSimulator(model))
    probabilities = np.zeros(model.shape[0])
    probabilities[list(found.states)] = found.probabilities
    return probabilities


def _one_return(one: TabularPolicy, other: TabularPolicy, coupling: Coupling) -> bool:
    """Whether two policies are sure to have the same return: they draw the same actions and meet the same scenarios."""
    draw_alike = coupling.policy_luck == "shared" or bool((one.probs.max(axis=1) == 1).all())
    return coupling.shared_in_a_state and draw_alike and np.array_equal(one.probs, other.probs)


def _not_converged(method: Method[Any], answer: Any) -> NotConvergedError:
    holds = "" if answer.certificate is None else ": its certificate holds"
    done = f"{answer.residuals.size} {method.step_name}s" if isinstance(answer, Evaluation) else "a while"
    return NotConvergedError(
        f"{type(method).__name__} stopped after {done}: {answer.outcome.value}.\n{answer!r}\n"
        f"{_FIXES[answer.outcome]}, or pass throw=False to take what was reached{holds}.",
        answer,
    )


_NO_COUPLING = (
    "The coupling is part of the question, and none is given: evaluate(model, policy, coupling). Use Synchronous() if "
    "one draw of the randomness hits all states in a step (weather, demand, common random numbers), Local() if each "
    "state has its own (the paper's), and Independent() for the baseline in which nothing is shared."
)

_FIXES = {
    Outcome.STALLED: "Ask for a larger tolerance",
    Outcome.SWEEPS_EXHAUSTED: "Ask for a larger tolerance or more max_sweeps",
    Outcome.BUDGET_EXHAUSTED: "Ask for a larger tolerance or give a larger budget",
    Outcome.INTERRUPTED: "Take what was reached from this error's .evaluation",
}
