"""Base class of methods: a frozen dataclass of settings with one entry point per kind of problem.

Questions that a method answers, declared once by the method. `evaluate` refuses all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from jmdp.base.arrays import Floats
from jmdp.base.settings import instance
from jmdp.errors import CouplingError, ModelError, PolicyError, SettingsError
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling, Independent, Local, PolicyLuck, Synchronous
from jmdp.models.lazy import LazyJMDP
from jmdp.models.policy import Policies, TabularPolicy
from jmdp.models.tabular import Horizon, TabularJMDP
from jmdp.results.parts import MethodSettings
from jmdp.simulators.simulator import Simulator

ModelKind = Literal["a table", "a LazyJMDP", "a simulator"]


class Question(NamedTuple):
    """What `evaluate` is asked for."""

    model: ModelKind
    coupling: Coupling
    several_policies: bool
    finite_horizon: bool


@dataclass(frozen=True, kw_only=True)
class Covers:
    """Questions that a method answers: all combinations of these, where `evaluate` allows them.

    Couplings and policy luck have no default, because numbers of one coupling are wrong for another.

    Parameters
    ----------
    couplings
        Classes of couplings.
    policy_luck
        "independent", "shared" or both.
    models
        Kinds of models.
    several_policies
        Kinds of models in which several policies are evaluated too.
    finite_horizons
        Whether there is `on_horizon`.
    """

    couplings: tuple[type[Coupling], ...]
    policy_luck: tuple[PolicyLuck, ...]
    models: tuple[ModelKind, ...] = ("a table",)
    several_policies: tuple[ModelKind, ...] = ()
    finite_horizons: bool = False

    def missing(self, question: Question) -> str | None:
        """The part of a question that is not covered, None if it is covered."""
        coupling = question.coupling
        if question.model not in self.models:
            return question.model
        if type(coupling) not in self.couplings:
            return f"{type(coupling).__name__}()"
        if coupling.policy_luck not in self.policy_luck:
            return f"policy_luck={coupling.policy_luck!r}"
        if question.several_policies and question.model not in self.several_policies:
            return "several policies" if question.model == "a table" else f"several policies in {question.model}"
        return "a finite horizon" if question.finite_horizon and not self.finite_horizons else None

    def __str__(self) -> str:
        return "; ".join(
            [
                " or ".join(self.models),
                " or ".join(f"{coupling.__name__}()" for coupling in self.couplings),
                "policy_luck " + " or ".join(map(repr, self.policy_luck)),
                self._policies,
                "no horizon or a finite one" if self.finite_horizons else "no finite horizon",
            ]
        )

    @property
    def _policies(self) -> str:
        if not self.several_policies:
            return "one policy"
        if self.several_policies == self.models:
            return "one or several policies"
        return f"one policy, or several in {' or '.join(self.several_policies)}"


_ALL = (Local, Synchronous, Independent)
_BOTH: tuple[PolicyLuck, ...] = ("independent", "shared")

COVERS = {
    "ExactPairs()": Covers(couplings=_ALL, policy_luck=_BOTH, several_policies=("a table",), finite_horizons=True),
    "ExactDistribution()": Covers(
        couplings=_ALL, policy_luck=_BOTH, several_policies=("a table",), finite_horizons=True
    ),
    "JIPE()": Covers(couplings=_ALL, policy_luck=_BOTH),
    "ReachablePairs(state)": Covers(
        couplings=_ALL, policy_luck=_BOTH, models=("a table", "a LazyJMDP"), several_policies=("a table",)
    ),
    "MonteCarlo(seed=…)": Covers(
        couplings=_ALL, policy_luck=_BOTH, models=("a table", "a simulator"), several_policies=("a table",)
    ),
    "Incremental(seed=…)": Covers(couplings=_ALL, policy_luck=_BOTH),
    # Under Independent branches in the same state do not merge: covariances are no function of coordinates, or are 0.
    "LinearProjected(features)": Covers(couplings=_ALL[:2], policy_luck=_BOTH),
    "LearnedMoments(seed=…)": Covers(
        couplings=_ALL, policy_luck=_BOTH, models=("a simulator",), several_policies=("a simulator",)
    ),
    "NeuralGram(seed=…)": Covers(couplings=_ALL[:2], policy_luck=_BOTH, models=("a simulator",)),
}
"""What the methods of this package cover, by how they are written in code. It is here, and not in their folders, so
that a message can name methods which are not imported."""


def check_covered(method: str, covers: Covers | None, question: Question) -> None:
    """Raise unless the method, by its name, covers the question."""
    if covers is None:
        raise ModelError(
            f"{method} does not declare what it covers. Add what its formulas are valid for, e.g. "
            "covers = Covers(couplings=(Local,), policy_luck=('independent',)); jmdp.methods.method has Covers."
        )
    if (missing := covers.missing(question)) is None:
        return
    able = [call for call, known in COVERS.items() if known.missing(question) is None]
    others = f" Use {' or '.join(able)}." if able else ""
    if question.model == "a simulator":
        verb = "jmdp.compare_policies" if question.several_policies else "jmdp.compare"
        others = f"{others[:-1]}, or {verb}." if able else f" Use {verb}."
    if question.model == "a table" and missing == question.model:
        others += " A table becomes a simulator by jmdp.simulators.TabularSimulator(model)."
    coupled = type(question.coupling) in covers.couplings and question.coupling.policy_luck in covers.policy_luck
    kind = ModelError if coupled or question.model not in covers.models else CouplingError
    raise kind(f"{method} does not cover {missing}. It covers: {covers}.{others}")


Answer = TypeVar("Answer", covariant=True)
"""Result type of a method: an `Evaluation`, or for methods that learn a `LearnedResult`."""


class Method(MethodSettings, Generic[Answer]):
    """Base class of methods that compute joint moments. Subclasses are frozen dataclasses of settings.

    A method declares in `covers` which questions it answers, and implements `on_table`, `on_lazy_model`,
    `on_simulator`, `on_policies`, `on_simulated_policies` and `on_horizon` for these. Users call `jmdp.evaluate`, which
    refuses other questions and checks that model, policy and coupling are compatible. Results beyond means and
    covariances are declared in ``results/result.py``.
    """

    covers: ClassVar[Covers | None] = None  # must be declared
    budget_name: ClassVar[str] = "budget"  # settings that limit the work, for messages

    def on_table(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, progress: bool) -> Answer:
        """Evaluate a policy in a scenario table."""
        raise NotImplementedError

    def on_lazy_model(
        self, model: LazyJMDP, policy: Callable[[Any], Any], coupling: Coupling, progress: bool
    ) -> Answer:
        """Evaluate a policy in a model whose states are expanded on demand."""
        raise NotImplementedError

    def on_policies(
        self, model: TabularJMDP, policies: Policies, coupling: Coupling, start: Floats | None, progress: bool
    ) -> Answer:
        """Evaluate several policies in a table under shared randomness; from a random `start` [S] too, if given."""
        raise NotImplementedError

    def on_simulated_policies(
        self, simulator: Simulator, actors: Mapping[str, Actor], coupling: Coupling, discount: float, progress: bool
    ) -> Answer:
        """Evaluate several policies in a simulator under shared randomness."""
        raise NotImplementedError

    def on_horizon(
        self,
        model: TabularJMDP,
        policies: Sequence[TabularPolicy] | Mapping[str, Sequence[TabularPolicy]],
        coupling: Coupling,
        horizon: Horizon,
        progress: bool,
    ) -> Answer:
        """Evaluate one policy, given step by step, or several in a scenario table over a finite horizon."""
        raise NotImplementedError

    def on_simulator(
        self, simulator: Simulator, actor: Actor, coupling: Coupling, discount: float, progress: bool
    ) -> Answer:
        """Evaluate a policy in a simulator."""
        raise NotImplementedError

    def extent(self, answer: Any) -> str:
        """How far an unfinished run got, for messages."""
        return f"{answer.residuals.size} {self.step_name}s"


def check_table(model: Any, policy: Any, coupling: Coupling) -> TabularPolicy:
    """Raise unless these are a table, a policy and a coupling that are compatible; return the policy as a table."""
    check_kind("model", model, TabularJMDP, ModelError)
    check_kind("coupling", coupling, Coupling, CouplingError)
    coupling.check_fits(model)
    known = isinstance(policy, (Mapping, list, tuple)) or hasattr(policy, "__array__") or callable(policy)
    if isinstance(policy, type) or not (known or (isinstance(policy, str) and policy == "uniform")):
        check_kind("policy", policy, TabularPolicy, PolicyError)
    return TabularPolicy.of(policy, model)


def check_method(method: Any) -> None:
    """Raise unless this is an instance of a method."""
    check_kind("method", method, Method, SettingsError)


def check_kind(name: str, value: object, kind: type, error: type[ValueError]) -> None:
    """Raise `error`, with a hint, unless the argument is an instance of `kind`."""
    if not isinstance(value, kind):
        instance(name, value, kind, error, hint=_hint(name, value))


def _hint(name: str, value: object) -> str:
    """Hint for the most likely mistake behind this argument."""
    if isinstance(value, type):
        return f" Give an instance, {value.__name__}(…)."
    if name == "model" and isinstance(getattr(value, "model", None), TabularJMDP | LazyJMDP):
        return " Did you mean its .model?"
    if isinstance(value, (TabularJMDP, TabularPolicy, Coupling, Method)):
        return " The argument order is evaluate(model, policy, coupling, method)."
    if name == "model":
        return " Give a table. For simulators there are method=MonteCarlo(seed=…) and jmdp.compare."
    if name == "policy":
        return ' Give {state: action}, one action for each state, probabilities [S, A], or "uniform".'
    if name == "coupling":
        return " Use Local(), Synchronous() or Independent()."
    return ""
