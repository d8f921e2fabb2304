"""Questions that a method answers, declared once by the method. `evaluate` refuses all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from jmdp.errors import CouplingError, ModelError
from jmdp.models.coupling import Coupling, Independent, Local, PolicyLuck, Synchronous

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
    several_policies, finite_horizons
        Whether there is `on_policies`, and `on_horizon`.
    """

    couplings: tuple[type[Coupling], ...]
    policy_luck: tuple[PolicyLuck, ...]
    models: tuple[ModelKind, ...] = ("a table",)
    several_policies: bool = False
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
        if question.several_policies and not self.several_policies:
            return "several policies"
        return "a finite horizon" if question.finite_horizon and not self.finite_horizons else None

    def __str__(self) -> str:
        return "; ".join(
            [
                " or ".join(self.models),
                " or ".join(f"{coupling.__name__}()" for coupling in self.couplings),
                "policy_luck " + " or ".join(map(repr, self.policy_luck)),
                "one or several policies" if self.several_policies else "one policy",
                "no horizon or a finite one" if self.finite_horizons else "no finite horizon",
            ]
        )


_ALL = (Local, Synchronous, Independent)
_BOTH: tuple[PolicyLuck, ...] = ("independent", "shared")

COVERS = {
    "ExactPairs()": Covers(couplings=_ALL, policy_luck=_BOTH, several_policies=True, finite_horizons=True),
    "ExactDistribution()": Covers(couplings=_ALL, policy_luck=_BOTH, several_policies=True, finite_horizons=True),
    "JIPE()": Covers(couplings=_ALL, policy_luck=_BOTH),
    "ReachablePairs(state)": Covers(
        couplings=_ALL, policy_luck=_BOTH, models=("a table", "a LazyJMDP"), several_policies=True
    ),
    "MonteCarlo(seed=…)": Covers(
        couplings=_ALL, policy_luck=_BOTH, models=("a table", "a simulator"), several_policies=True
    ),
    "Incremental(seed=…)": Covers(couplings=_ALL, policy_luck=_BOTH),
    # Under Independent branches in the same state do not merge: covariances are no function of coordinates, or are 0.
    "LinearProjected(features)": Covers(couplings=_ALL[:2], policy_luck=_BOTH),
    "NeuralGram(seed=…)": Covers(couplings=_ALL[:2], policy_luck=_BOTH, models=("a simulator",)),
}
"""What the methods of this package cover, by how they are written in code. It is here, and not in their folders, so
that a message can name methods which are not imported."""


def check_covered(method: str, covers: Covers | None, question: Question) -> None:
    """Raise unless the method, by its name, covers the question."""
    if covers is None:
        raise ModelError(
            f"{method} does not declare what it covers. Add what its formulas are valid for, e.g. "
            "covers = Covers(couplings=(Local,), policy_luck=('independent',)); jmdp.methods.covers has Covers."
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
