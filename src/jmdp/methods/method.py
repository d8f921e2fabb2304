"""Base class of methods: a frozen dataclass of settings with one entry point per kind of problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from jmdp.base.arrays import Floats
from jmdp.base.settings import instance
from jmdp.errors import CouplingError, ModelError, PolicyError, SettingsError
from jmdp.methods.covers import Covers
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.models.horizon import Horizon
from jmdp.models.lazy import LazyJMDP
from jmdp.models.policy import Policies, TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.simulator import Simulator

Answer = TypeVar("Answer", covariant=True)
"""Result type of a method: an `Evaluation`, or for `NeuralGram` a `LearnedEvaluation`."""


class Method(Generic[Answer]):
    """Base class of methods that compute joint moments. Subclasses are frozen dataclasses of settings.

    A method declares in `covers` which questions it answers, and implements `on_table`, `on_lazy_model`,
    `on_simulator`, `on_policies` and `on_horizon` for these. Users call `jmdp.evaluate`, which refuses other questions
    and checks that model, policy and coupling are compatible. Results beyond means and covariances are declared in
    ``results/quantities.py``.
    """

    covers: ClassVar[Covers | None] = None  # must be declared
    step_name: ClassVar[str] = "sweep"  # unit of `Evaluation.residuals`, which has one number per step
    residual_name: ClassVar[str] = "residual"
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
