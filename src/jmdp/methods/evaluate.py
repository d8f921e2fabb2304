"""`evaluate`: joint moments of the returns of a policy, in a model, under a coupling, by a method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, overload

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.labels import Labels, PolicyLike, SimulatorLike, StartsLike
from jmdp.base.machine import interruptible
from jmdp.base.settings import boolean_value
from jmdp.errors import CouplingError, ModelError, NotConvergedError, PolicyError, SettingsError
from jmdp.methods.exact_pairs.exact_pairs import ExactPairs
from jmdp.methods.method import Method, ModelKind, Question, check_covered, check_kind, check_method, check_table
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.models.lazy import LazyJMDP
from jmdp.models.policy import TabularPolicy, is_one_policy, policy_steps
from jmdp.models.tabular import Horizon, TabularJMDP, horizon_model, problem_discount
from jmdp.results.certificate import Outcome
from jmdp.results.derived import repeated, with_start
from jmdp.results.evaluation import Evaluation
from jmdp.results.result import EvaluationInput
from jmdp.simulators import as_simulator, is_gymnax
from jmdp.simulators.adapters.functions import TabularSimulator, table_of
from jmdp.simulators.simulator import Simulator
from jmdp.simulators.starts import Starts

Answer = TypeVar("Answer")


@overload
def evaluate(
    model: SimulatorLike,
    policy: PolicyLike,
    coupling: Coupling,
    *,
    discount: float | None = ...,
    starts: StartsLike = ...,
    horizon: int | None = ...,
    terminal_value: Any = ...,
    throw: bool = ...,
    progress: bool = ...,
) -> Evaluation: ...


@overload
def evaluate(
    model: SimulatorLike,
    policy: PolicyLike,
    coupling: Coupling,
    method: Method[Answer],
    *,
    discount: float | None = ...,
    starts: StartsLike = ...,
    horizon: int | None = ...,
    terminal_value: Any = ...,
    throw: bool = ...,
    progress: bool = ...,
) -> Answer: ...


@interruptible
def evaluate(
    model: SimulatorLike,
    policy: PolicyLike,
    coupling: Coupling | None = None,
    method: Method[Any] = ExactPairs(),
    *,
    discount: float | None = None,
    starts: StartsLike = None,
    horizon: int | None = None,
    terminal_value: Any = None,
    throw: bool = True,
    progress: bool = True,
) -> Any:
    """Compute means and covariances of the returns of all actions in all states, under shared randomness (luck).

    Parameters
    ----------
    model
        The scenario table (`TabularJMDP`), or a function that computes it state by state (`LazyJMDP`). `MonteCarlo` and
        `NeuralGram` also accept a simulator (`jmdp.simulators`) or an environment of Gymnasium or gymnax.
    policy
        Policy followed after the first action. For a table, any that `TabularPolicy.of` takes: ``{state: action}``,
        ``{state: {action: probability}}``, a function of the label of a state, a `TabularPolicy`, one action for each
        state ``[S]``, probabilities ``[S, A]`` or "uniform"; for a `LazyJMDP`, a function from a state to its action
        probabilities; for a simulator, any policy that `as_policy` accepts. For a table, and with `LearnedMoments` for
        a simulator, also a dictionary of policies, {"old": p, "new": q}: the evaluation is then of the return of each
        policy, followed from the first step on, and its second axis is the policies instead of the actions. Branches
        of different policies receive the same scenario while they are in the same state (`Synchronous`: in all states;
        `Independent`: never); with policy_luck="shared" they draw their actions with the same uniform number.
    coupling
        Which randomness is shared: `Local` (the paper's), `Synchronous` or `Independent`. The result depends on it, so
        it has no default.
    method
        Method and its settings: `ExactPairs`, `ExactDistribution`, `ReachablePairs`, `JIPE`, `MonteCarlo`,
        `Incremental`, `LinearProjected` or `NeuralGram`.
    discount
        Discount factor γ, for a simulator without one and for a finite horizon. Other models have their own.
    starts
        With several policies of a table: distribution of the start state, which is drawn once for all policies.
        Probabilities [S], {state: probability} or a list of equally likely states. The evaluation then has one more
        state, "start". Its gaps are those of the whole policies; `Evaluation.variance_split` splits their variance into
        the parts within and between starts.
    horizon, terminal_value
        For a table: number of steps, and value [S] of the state after the last step (default 0). The policy may then
        depend on time, as an array [H, S, A] or a list of H policies, and `discount`, which may be 1, replaces the
        model's. `ExactPairs` uses backward recursion, so the only error is rounding; `ExactDistribution` does so with
        as many cells as its tolerance requires.
    throw
        Raise `NotConvergedError` if the tolerance is not reached. If False, return the evaluation reached so far; its
        `outcome` states the reason, and its certificate is valid. `NeuralGram` has no tolerance: a network that is no
        better than a constant does not raise, and is reported by `outcome` and in the first line printed.
    progress
        Show a progress bar on a terminal if the computation takes long.

    Returns
    -------
    Evaluation
        Means, covariances and gaps with error bounds. `NeuralGram` returns a `LearnedEvaluation`.
    """
    if hasattr(model, "unwrapped") or is_gymnax(model):  # an environment of Gymnasium or gymnax
        model = as_simulator(model)
    check_method(method)
    throw, progress = boolean_value("throw", throw), boolean_value("progress", progress)
    if coupling is None:
        raise CouplingError(_NO_COUPLING)
    check_kind("coupling", coupling, Coupling, CouplingError)
    table = table_of(model) if isinstance(model, Simulator) else model
    if isinstance(table, TabularJMDP) and isinstance(policy, Mapping) and is_one_policy(policy, table):
        policy = TabularPolicy.of(policy, table)
    check_covered(type(method).__name__, method.covers, _question(model, policy, coupling, horizon))
    with np.errstate(under="ignore"):  # error bounds allow for underflow
        if horizon is not None:
            over = _Horizon(horizon, terminal_value, discount)
            answer = over.answer(model, policy, coupling, method, starts, progress)
        elif terminal_value is not None:
            raise SettingsError("terminal_value requires a finite horizon. Give horizon=… too.")
        elif isinstance(policy, Mapping):
            answer = _of_policies(model, policy, coupling, method, discount, starts, progress)
        elif starts is None:
            answer = _answer(model, policy, coupling, method, discount, progress)
        else:
            raise SettingsError(_START_IS_FOR_POLICIES)
    if isinstance(model, TabularJMDP) and isinstance(answer, Evaluation):
        answer = replace(answer, asked=_asked(model, policy, discount, starts, horizon, terminal_value))
    if throw and not answer.outcome.successful:
        raise _not_converged(method, answer)
    return answer


def _question(model: Any, policy: Any, coupling: Coupling, horizon: Any) -> Question:
    kind: ModelKind = "a table"
    if isinstance(model, Simulator):
        kind = "a simulator"
    elif isinstance(model, LazyJMDP):
        kind = "a LazyJMDP"
    return Question(kind, coupling, isinstance(policy, Mapping), horizon is not None)


def _asked(
    model: TabularJMDP, policy: Any, discount: Any, start: Any, steps: Any, terminal_value: Any
) -> EvaluationInput:
    """The arguments of an evaluation of a table, after they were checked."""
    horizon = None if steps is None else Horizon.of(model, steps, terminal_value)
    given = policy if isinstance(policy, Mapping) else {"": policy}

    def tables(one: Any) -> tuple[TabularPolicy, ...]:
        if horizon is None:
            return (TabularPolicy.of(one, model),)
        found = policy_steps(one, model, horizon.steps)
        return tuple(found[:1] if all(step is found[0] for step in found) else found)

    return EvaluationInput(
        model=model,
        discount=model.discount if discount is None else float(discount),
        names=tuple(given) if isinstance(policy, Mapping) else None,
        policies=tuple(map(tables, given.values())),
        start=None if start is None else _start(start, model),
        horizon=None if horizon is None else horizon.steps,
        terminal_value=None if horizon is None or terminal_value is None else horizon.final,
    )


def _answer(
    model: SimulatorLike, policy: Any, coupling: Coupling, method: Method[Any], discount: float | None, progress: bool
) -> Any:
    """Check that model, policy and coupling are compatible, and run the method on this kind of model."""
    if isinstance(model, Simulator):
        actor = _actor_of(policy, model)
        return method.on_simulator(model, actor, coupling, problem_discount(model.discount, discount), progress)
    if isinstance(model, LazyJMDP):
        problem_discount(model.discount, discount)
        check_lazy_policy(policy)
        return method.on_lazy_model(model, policy, coupling, progress)
    table = check_table(model, policy, coupling)
    problem_discount(model.discount, discount)
    return method.on_table(model, table, coupling, progress)


def _actor_of(policy: Any, simulator: Simulator) -> Actor:
    from jmdp.models.actors.as_policy import as_policy

    return as_policy(policy, simulator.actions, table=table_of(simulator))


def check_lazy_policy(policy: Any) -> None:
    """Raise unless this can be a policy of a `LazyJMDP`."""
    if not callable(policy):
        raise PolicyError(
            f"policy is a {type(policy).__name__}. For a LazyJMDP give a function from a state to the probabilities of "
            "its actions."
        )


def _of_policies(
    model: SimulatorLike,
    policies: Mapping[str, Any],
    coupling: Coupling,
    method: Method[Any],
    discount: float | None,
    start: Any,
    progress: bool,
) -> Any:
    """Evaluate several policies of a table or a simulator."""
    _check_policies(policies)
    if isinstance(model, Simulator):
        if start is not None:
            raise SettingsError("starts=… requires a table. For a simulator use jmdp.compare_policies(…, starts=…).")
        actors = {name: _actor_of(policy, model) for name, policy in policies.items()}
        discount = problem_discount(model.discount, discount)
        return method.on_simulated_policies(model, actors, coupling, discount, progress)
    tables = {name: check_table(model, policy, coupling) for name, policy in policies.items()}
    problem_discount(model.discount, discount)
    distinct = _Distinct({name: [table] for name, table in tables.items()}, coupling)
    given = {name: steps[0] for name, steps in distinct.policies.items()}
    drawn = None if start is None else _start(start, model)
    return distinct.all_of(method.on_policies(model, given, coupling, drawn, progress))


def _check_policies(policies: Mapping[str, Any]) -> None:
    if not policies or not all(isinstance(name, str) for name in policies):
        raise PolicyError(
            'Give several policies as a dictionary from names to policies: {"old": p, "new": q}, and one policy as '
            "{state: action} or {state: {action: probability}}."
        )


class _Distinct:
    """Policies (a list of steps each) without those that certainly have the same return as an earlier one."""

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
        """Evaluation of all policies, from that of the distinct ones."""
        if len(self.policies) == len(self._names):
            return answer
        return repeated(answer, Labels.of("policy", len(self._names), self._names), self._columns)


def _one_return(one: Sequence[TabularPolicy], other: Sequence[TabularPolicy], coupling: Coupling) -> bool:
    """Whether two policies certainly have the same return: they draw the same actions and share all scenarios."""
    draw_alike = coupling.policy_luck == "shared" or all(step.certain.all() for step in one)
    if not (coupling.shared_in_a_state and draw_alike):
        return False
    return all(x is y or np.array_equal(x.probs, y.probs) for x, y in zip(one, other, strict=True))


class _Horizon:
    """Evaluation over a finite horizon; arguments are not checked yet."""

    def __init__(self, steps: Any, terminal_value: Any, discount: float | None) -> None:
        self._steps, self._terminal_value, self._discount = steps, terminal_value, discount

    def answer(
        self, model: Any, policy: Any, coupling: Coupling, method: Method[Any], start: Any, progress: bool
    ) -> Any:
        """Check the arguments and run the method."""
        check_kind("model", model, TabularJMDP, ModelError)
        coupling.check_fits(model)
        horizon = Horizon.of(model, self._steps, self._terminal_value)
        problem = horizon_model(model, self._discount)
        if not isinstance(policy, Mapping):
            if start is not None:
                raise SettingsError(_START_IS_FOR_POLICIES)
            return method.on_horizon(problem, policy_steps(policy, model, horizon.steps), coupling, horizon, progress)
        _check_policies(policy)
        steps = {name: policy_steps(one, model, horizon.steps) for name, one in policy.items()}
        distinct = _Distinct(steps, coupling)
        answer = method.on_horizon(problem, distinct.policies, coupling, horizon, progress)
        return distinct.all_of(with_start(answer, None if start is None else _start(start, model)))


_START_IS_FOR_POLICIES = 'starts=… requires several policies: evaluate(model, {"old": p, "new": q}, …, starts=…).'


def _start(start: Any, model: TabularJMDP) -> Floats:
    """Probabilities [S] of the start states."""
    found = Starts.of(start, TabularSimulator(model), name="starts")
    probabilities = np.zeros(model.shape[0])
    probabilities[list(found.states)] = found.probabilities
    return probabilities


def _not_converged(method: Method[Any], answer: Any) -> NotConvergedError:
    holds = "" if answer.certificate is None else ", whose certificate is valid"
    done = method.extent(answer) if isinstance(answer, Evaluation) else "a while"
    fix = _FIXES[answer.outcome].format(method.budget_name)
    return NotConvergedError(
        f"{type(method).__name__} stopped after {done}: {answer.outcome.value}.\n{answer!r}\n"
        f"{fix}, or pass throw=False to get the result reached so far{holds}.",
        answer,
    )


_NO_COUPLING = (
    "coupling is missing: evaluate(model, policy, coupling). The result depends on it. Use Synchronous() if one random "
    "draw per step applies to all states (weather, demand, common random numbers), Local() if each state has its own "
    "(the paper's coupling), or Independent() for the baseline in which nothing is shared."
)

_FIXES = {
    Outcome.STALLED: "Use a larger tolerance",
    Outcome.SWEEPS_EXHAUSTED: "Use a larger tolerance or a larger max_sweeps",
    Outcome.BUDGET_EXHAUSTED: "Use a larger tolerance or a larger {}",
    Outcome.INTERRUPTED: "Take the result reached so far from this error's .evaluation",
}
