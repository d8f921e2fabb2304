"""The verb: evaluate a policy in a model under a coupling, by a method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.labels import Labels
from jmdp.errors import CouplingError, ModelError, NotConvergedError, PolicyError, SettingsError
from jmdp.methods.exact_pairs.exact_pairs import ExactPairs
from jmdp.methods.method import Method, check_kind, check_method, check_table
from jmdp.models.coupling import Coupling
from jmdp.models.discount import problem_discount
from jmdp.models.horizon import Horizon, horizon_model, policy_steps
from jmdp.models.lazy import LazyJMDP
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.evaluation import Evaluation
from jmdp.results.outcome import Outcome
from jmdp.results.repeated import repeated
from jmdp.results.start import with_start
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
    horizon: int | None = ...,
    terminal_value: Any = ...,
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
    horizon: int | None = ...,
    terminal_value: Any = ...,
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
    horizon: int | None = None,
    terminal_value: Any = None,
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
        γ, for a simulator that has none of its own. Models have theirs; a finite horizon may have another.
    start
        With several policies: where they start, drawn once for all of them, as probabilities [S], {state: probability}
        or a list of equally likely states. The evaluation then has one more state, "start": its gaps are those of the
        whole policies, and `Evaluation.variance_split` tells the part within starts from that between them.
    horizon, terminal_value
        For a table: returns over so many steps, and what each state [S] is worth after the last (0 by default). A
        policy may then depend on time: an array [H, S, A], or a list of H policies; and `discount`, which may be 1,
        takes the place of the model's. `ExactPairs` computes this by backward recursion: only rounding is left to
        certify.
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
    if horizon is not None:
        over = _Horizon(horizon, terminal_value, discount)
        answer = over.answer(model, policy, coupling, method, start, progress)
    elif terminal_value is not None:
        raise SettingsError("terminal_value is for a finite horizon. Give horizon=… too.")
    elif isinstance(policy, Mapping):
        answer = _of_policies(model, policy, coupling, method, discount, start, progress)
    elif start is None:
        answer = _answer(model, policy, coupling, method, discount, progress)
    else:
        raise SettingsError(_START_IS_FOR_POLICIES)
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
    """What the method gives for several policies."""
    _check_policies(model, policies)
    for policy in policies.values():
        check_table(model, policy, coupling)
    problem_discount(model.discount, discount)
    distinct = _Distinct({name: [policy] for name, policy in policies.items()}, coupling)
    given = {name: steps[0] for name, steps in distinct.policies.items()}
    drawn = None if start is None else _start(start, model)
    return distinct.all_of(method.on_policies(model, given, coupling, drawn, progress))


def _check_policies(model: Any, policies: Mapping[str, Any]) -> None:
    if isinstance(model, Simulator | LazyJMDP):
        raise ModelError("Several policies at once need a table. For a simulator use jmdp.compare_policies.")
    if not policies or not all(isinstance(name, str) for name in policies):
        raise PolicyError('Give several policies as a dictionary from names to policies: {"old": p, "new": q}.')


class _Distinct:
    """Policies, step by step, without those that are sure to have the same return as an earlier one."""

    def __init__(self, policies: Mapping[str, Sequence[TabularPolicy]], coupling: Coupling) -> None:
        self._names, tables = list(policies), list(policies.values())
        same = [
            next(j for j in range(i + 1) if i == j or _one_return(tables[i], tables[j], coupling))
            for i in range(len(tables))
        ]
        kept = sorted(set(same))
        self._columns = [kept.index(i) for i in same]
        self.policies = {self._names[i]: tables[i] for i in kept}

    def all_of(self, answer: Any) -> Any:
        """The answer for all of them."""
        if len(self.policies) == len(self._names):
            return answer
        return repeated(answer, Labels.of("policy", len(self._names), self._names), self._columns)


def _one_return(one: Sequence[TabularPolicy], other: Sequence[TabularPolicy], coupling: Coupling) -> bool:
    """Whether two policies are sure to have the same return: they draw the same actions and meet the same scenarios."""
    draw_alike = coupling.policy_luck == "shared" or all((step.probs.max(axis=1) == 1).all() for step in one)
    if not (coupling.shared_in_a_state and draw_alike):
        return False
    return all(x is y or np.array_equal(x.probs, y.probs) for x, y in zip(one, other, strict=True))


class _Horizon:
    """A question over a finite horizon, as it was given."""

    def __init__(self, steps: Any, terminal_value: Any, discount: float | None) -> None:
        self._steps, self._terminal_value, self._discount = steps, terminal_value, discount

    def answer(
        self, model: Any, policy: Any, coupling: Coupling, method: Method[Any], start: Any, progress: bool
    ) -> Any:
        """What the method gives."""
        check_kind("model", model, TabularJMDP, ModelError)
        coupling.check_fits(model)
        horizon = Horizon.of(model, self._steps, self._terminal_value)
        problem = horizon_model(model, self._discount)
        if not isinstance(policy, Mapping):
            if start is not None:
                raise SettingsError(_START_IS_FOR_POLICIES)
            return method.on_horizon(problem, policy_steps(policy, model, horizon.steps), coupling, horizon, progress)
        _check_policies(model, policy)
        steps = {name: policy_steps(one, model, horizon.steps) for name, one in policy.items()}
        distinct = _Distinct(steps, coupling)
        answer = method.on_horizon(problem, distinct.policies, coupling, horizon, progress)
        return distinct.all_of(with_start(answer, None if start is None else _start(start, model)))


_START_IS_FOR_POLICIES = 'start=… is for several policies: evaluate(model, {"old": p, "new": q}, …, start=…).'


def _start(start: Any, model: TabularJMDP) -> Floats:
    """[S], the distribution of starts."""
    found = Starts.of(start, TabularSimulator(model))
    probabilities = np.zeros(model.shape[0])
    probabilities[list(found.states)] = found.probabilities
    return probabilities


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
