"""The contract of a method: settings in a frozen dataclass, and one way to run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from jmdp.errors import CouplingError, ModelError, PolicyError, SettingsError
from jmdp.models.coupling import Coupling
from jmdp.models.lazy import LazyJMDP
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.evaluation import Evaluation
from jmdp.simulators.simulator import Simulator


class Method(ABC):
    """A way to get joint moments. Subclasses are frozen dataclasses of settings."""

    takes_lazy_models: ClassVar[bool] = False
    takes_simulators: ClassVar[bool] = False
    step_name: ClassVar[str] = "sweep"  # what `Evaluation.residuals` has one number for each of
    residual_name: ClassVar[str] = "residual"

    @abstractmethod
    def run(self, model: Any, policy: Any, coupling: Coupling, progress: bool) -> Evaluation:
        """Evaluate; the three nouns are known to fit one another. Users call `jmdp.evaluate`."""


def check_problem(model: object, policy: object, coupling: Coupling, method: Method) -> None:
    """Raise unless the nouns are what they should be and fit one another."""
    check_kind("method", method, Method, SettingsError)
    check_kind("coupling", coupling, Coupling, CouplingError)
    if isinstance(model, Simulator):
        if not method.takes_simulators:
            raise ModelError(
                f"{type(method).__name__} needs a table, and this is a simulator. Use "
                "MonteCarlo(seed=…, discount=…), NeuralGram(seed=…, discount=…), or jmdp.compare."
            )
        return
    if isinstance(model, LazyJMDP):
        if not method.takes_lazy_models:
            raise ModelError(
                f"{type(method).__name__} needs the whole table, and a LazyJMDP has none. "
                "Use ReachablePairs(state), which asks for what it needs."
            )
        if not callable(policy):
            raise PolicyError(
                f"policy is a {type(policy).__name__}. For a LazyJMDP give a function from a state to the "
                "probabilities of its actions."
            )
        return
    check_table(model, policy, coupling)


def check_table(model: Any, policy: Any, coupling: Coupling) -> None:
    """Raise unless these are a table, a policy for it and a coupling that makes sense for it."""
    check_kind("model", model, TabularJMDP, ModelError)
    check_kind("policy", policy, TabularPolicy, PolicyError)
    check_kind("coupling", coupling, Coupling, CouplingError)
    policy.check_fits(model)
    coupling.check_fits(model)


def check_kind(name: str, value: object, kind: type, error: type[ValueError]) -> None:
    """Raise `error`, with what was most likely meant, unless the argument is of its kind."""
    if not isinstance(value, kind):
        raise error(f"{name} is a {type(value).__name__}, not a {kind.__name__}.{_hint(name, value)}")


def _hint(name: str, value: object) -> str:
    """What somebody who passes this most likely meant."""
    if isinstance(value, type):
        return f" Give an instance, {value.__name__}(…)."
    if hasattr(value, "model") and name == "model":
        return " Did you mean its .model?"
    if isinstance(value, (TabularJMDP, TabularPolicy, Coupling, Method)):
        return " The order is evaluate(model, policy, coupling, method)."
    if name == "policy":
        return " Wrap a table of probabilities: TabularPolicy(probs)."
    if name == "coupling":
        return " Use Local(), Synchronous() or Independent()."
    return ""
