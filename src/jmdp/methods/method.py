"""The contract of a method: settings in a frozen dataclass, and one way to run."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jmdp.coupling import Coupling
from jmdp.errors import CouplingError, ModelError, PolicyError
from jmdp.evaluation import Evaluation
from jmdp.model import TabularJMDP
from jmdp.policy import TabularPolicy


class Method(ABC):
    """A way to get joint moments. Subclasses are frozen dataclasses of settings."""

    @abstractmethod
    def run(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, progress: bool) -> Evaluation:
        """Evaluate; the three nouns are known to fit one another. Users call `jmdp.evaluate`."""


def check_problem(model: TabularJMDP, policy: TabularPolicy, coupling: Coupling) -> None:
    """Raise unless the nouns are what they should be and fit one another."""
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
