"""The comparison with other tools: its page shows the saved numbers, and its own parts are right."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import jmdp
from benchmarks import other_tools, other_tools_exact, other_tools_learning, other_tools_sampled
from benchmarks.checkpoints import trained

DOCS = Path(__file__).parents[2] / "docs"
SAVED = json.loads((DOCS / "benchmark_results/other_tools.json").read_text(encoding="utf-8"))


def test_tables_of_the_page_are_the_saved_rows():
    page = (DOCS / "comparison.md").read_text(encoding="utf-8")
    assert not SAVED["quick"]
    tools = {row["tool"] for row in SAVED["rows"]}
    assert tools == set(other_tools._EXAMPLES)
    assert [tool for tool in tools if other_tools.table(SAVED["rows"], tool) not in page] == []


def test_the_page_names_the_versions_that_ran():
    page = (DOCS / "comparison.md").read_text(encoding="utf-8")
    versions = [
        note.split(": ")[1].rstrip(".") for note in SAVED["notes"] if note.split(": ")[0] in other_tools._EXAMPLES
    ]
    assert len(versions) == len(other_tools._EXAMPLES)
    assert [name for name in versions if name not in page] == []


def test_tools_that_are_missing_are_left_out(monkeypatch):
    monkeypatch.setattr(other_tools, "find_spec", lambda module: None)
    report = other_tools.compare(True)
    assert report.rows == []
    assert "simoptlib is not installed and was left out: pip install simoptlib" in report.notes


@pytest.mark.parametrize("task", ["CartPole", "FrozenLake"])
def test_batches_have_the_actions_of_the_agents(task):
    shown = np.arange(16) if task == "FrozenLake" else np.random.default_rng(0).normal(size=(50, 4))
    agents = other_tools_sampled._agents(task)[1]
    for name, network in trained(task).items():
        alone = [network(observation) for observation in shown]
        assert agents[name].predict(shown)[0].tolist() == alone
        assert [int(agents[name].predict(observation)[0]) for observation in shown] == alone


def test_values_of_the_learning_tasks_are_those_of_jmdp():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("FrozenLake-v1")
    outcomes = other_tools_learning.Outcomes.of(env)
    model = jmdp.couple(jmdp.Marginals.from_toy_text(env, 0.99), by=jmdp.models.Product())
    exact = outcomes.start @ jmdp.evaluate(model, "uniform", jmdp.Independent()).mean.mean(axis=1)
    assert outcomes.value(np.full((16, 4), 0.25)) == pytest.approx(exact, abs=1e-10)
    learned = other_tools_learning.learned(outcomes, 0.3, 4000, seed=0)
    assert outcomes.value(np.eye(4)[learned.argmax(axis=1)]) > 5 * exact


def test_the_product_model_has_the_gap_of_every_scenario():
    """Enumerated: all demands of two days, from the same stock."""
    stormpy = pytest.importorskip("stormpy")
    world = jmdp.worlds.inventory(
        5, price=25.0, unit_cost=10.0, order_cost=5.0, holding_cost=1.0, shortage_cost=5.0, mean_demand=2.0
    )
    model, rules = world.model, [world.policies["base_stock"], world.policies["reorder"]]
    gaps, chances = [], []
    for demands in itertools.product(range(model.shape[1]), repeat=2):
        earned = [
            other_totals(model, rule.probs.argmax(axis=1), demands)
            for rule in rules
        ]  # fmt: skip
        gaps.append(earned[1] - earned[0])
        chances.append(np.prod([model.prob[0, k] for k in demands]))
    program = other_tools_exact._storm_program(other_tools_exact.pair_program(model, *rules, start=3, days=2))
    queries = stormpy.parse_properties('R{"gap"}=? [C<=2]; P=? [F[2,2] gap>0]', program)
    product = stormpy.build_model(program, queries)
    found = [stormpy.model_checking(product, q).get_value_vector()[product.initial_states[0]] for q in queries]
    assert np.unique(gaps).size > 3
    assert found[0] == pytest.approx(np.dot(chances, gaps), abs=1e-8)
    assert found[1] == pytest.approx(np.dot(chances, np.array(gaps) > 0), abs=1e-8)


def other_totals(model, act, demands, state=3):
    total = 0.0
    for k in demands:
        total += model.reward[state, k, act[state]]
        state = model.next_state[state, k, act[state]]
    return total
