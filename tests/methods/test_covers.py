"""A method answers only the questions that it declares."""

import itertools
from dataclasses import dataclass
from typing import Any

import pytest

import jmdp
from jmdp.errors import CouplingError, JMDPError, ModelError
from jmdp.methods import METHODS
from jmdp.methods.method import COVERS, Covers, Method, Question
from registry.methods import METHODS as REGISTERED
from sample_models import COUPLINGS

WORLD = jmdp.worlds.inventory(capacity=3)
MODEL, POLICY = WORLD.model, WORLD.policies["uniform"]


@dataclass(frozen=True)
class LocalOnly(Method[Any]):
    """Answers whatever it is asked with numbers of Local()."""

    covers = Covers(couplings=(jmdp.Local,), policy_luck=("independent",))

    def on_table(self, model: Any, policy: Any, coupling: Any, progress: bool) -> Any:
        return jmdp.evaluate(model, policy, jmdp.Local())

    on_lazy_model = on_simulator = on_policies = on_horizon = on_table


@dataclass(frozen=True)
class Undeclared(LocalOnly):
    """The same without a declaration."""

    covers = None


def questions() -> dict[str, tuple[Any, Any, Any, dict[str, Any]]]:
    """Model, policy, coupling and more arguments of each kind of question."""
    several = {"one": POLICY, "other": WORLD.policies["never"]}
    return {
        "Synchronous": (MODEL, POLICY, jmdp.Synchronous(), {}),
        "Independent": (MODEL, POLICY, jmdp.Independent(), {}),
        "shared policy luck": (MODEL, POLICY, jmdp.Local("shared"), {}),
        "several policies": (MODEL, several, jmdp.Local(), {}),
        "horizon": (MODEL, POLICY, jmdp.Local(), {"horizon": 2}),
        "lazy": (jmdp.LazyJMDP.of(MODEL), lambda s: POLICY.probs[s], jmdp.Local(), {}),
        "simulator": (jmdp.simulators.TabularSimulator(MODEL), POLICY, jmdp.Local(), {}),
        "simulated policies": (jmdp.simulators.TabularSimulator(MODEL), several, jmdp.Local(), {}),
    }


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("Synchronous", r"LocalOnly does not cover Synchronous\(\)\. It covers: a table; Local\(\); policy_luck "),
        ("Independent", r"does not cover Independent\(\).*Use ExactPairs\(\) or ExactDistribution\(\) or JIPE\(\) or "),
        ("shared policy luck", r"does not cover policy_luck='shared'.*policy_luck 'independent'; one policy; "),
        ("several policies", r"does not cover several policies\..*Use ExactPairs\(\) or "),
        (
            "simulated policies",
            r"LocalOnly does not cover a simulator.*Use LearnedMoments\(seed=…\), or jmdp\.compare_p",
        ),
        ("horizon", r"does not cover a finite horizon.*no finite horizon\. Use ExactPairs\(\)"),
        ("lazy", r"does not cover a LazyJMDP.*Use ReachablePairs\(state\)\."),
        (
            "simulator",
            r"does not cover a simulator.*Use MonteCarlo\(seed=…\) or LearnedMoments\(seed=…\) or NeuralGram",
        ),
    ],
)
def test_a_method_is_refused_for_questions_that_it_does_not_declare(kind: str, message: str) -> None:
    model, policy, coupling, more = questions()[kind]
    expected = CouplingError if kind in ("Synchronous", "Independent", "shared policy luck") else ModelError
    with pytest.raises(expected, match=message):
        jmdp.evaluate(model, policy, coupling, LocalOnly(), **more)


def test_a_declared_question_is_answered() -> None:
    assert jmdp.evaluate(MODEL, POLICY, jmdp.Local(), LocalOnly()).coupling == jmdp.Local()


def test_a_method_without_a_declaration_is_refused() -> None:
    with pytest.raises(ModelError, match=r"Undeclared does not declare what it covers.*covers = Covers\(couplings="):
        jmdp.evaluate(MODEL, POLICY, jmdp.Local(), Undeclared())


@pytest.mark.parametrize("name", REGISTERED)
def test_each_method_answers_what_it_declares_and_nothing_else(name: str) -> None:
    """By the entry points that it implements and, on a table, by evaluating each coupling and kind of policy luck."""
    kind = getattr(jmdp, name)
    covers = kind.covers
    assert covers is next(known for call, known in COVERS.items() if call.partition("(")[0] == name)
    entries = {
        "on_table": "a table" in covers.models,
        "on_lazy_model": "a LazyJMDP" in covers.models,
        "on_simulator": "a simulator" in covers.models,
        "on_policies": "a table" in covers.several_policies,
        "on_simulated_policies": "a simulator" in covers.several_policies,
        "on_horizon": covers.finite_horizons,
    }
    for entry, declared in entries.items():
        assert (getattr(kind, entry) is not getattr(Method, entry)) == declared, entry
    assert {type(coupling) for coupling in REGISTERED[name].couplings} == set(covers.couplings)
    assert {coupling.policy_luck for coupling in REGISTERED[name].couplings} == set(covers.policy_luck)


def test_models_in_which_one_policy_only_is_covered_are_named() -> None:
    model, several, coupling, _ = questions()["simulated policies"]
    said = r"MonteCarlo does not cover several policies in a simulator.*several in a table;"
    with pytest.raises(ModelError, match=said):
        jmdp.evaluate(model, several, coupling, jmdp.MonteCarlo(seed=1))


def test_every_method_is_declared_and_every_question_has_a_method() -> None:
    assert sorted(call.partition("(")[0] for call in COVERS) == sorted(METHODS)
    for coupling, several, horizon in itertools.product(COUPLINGS, (False, True), (False, True)):
        question = Question("a table", coupling, several, horizon)
        assert any(covers.missing(question) is None for covers in COVERS.values())


def test_a_table_for_a_method_of_simulators_says_how_to_convert_it() -> None:
    with pytest.raises(JMDPError, match=r"NeuralGram does not cover a table.*TabularSimulator\(model\)"):
        jmdp.evaluate(MODEL, POLICY, jmdp.Local(), jmdp.NeuralGram(seed=0))
