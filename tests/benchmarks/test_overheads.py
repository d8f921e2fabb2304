"""The benchmark of overheads: which rows run, how costs are combined, and that its loops simulate the same problems."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest

import jmdp
from benchmarks import interleave, overheads, overheads_loops
from benchmarks.__main__ import main
from benchmarks.interleave import Cost
from benchmarks.running import COMPARISONS


def test_costs_alternate_and_the_smallest_are_compared():
    order = []
    ours, limit = (lambda: order.append("a") or [8.0, 6.0][len(order) // 2]), (lambda: order.append("b") or 2.0)
    costs = interleave.rounds_of(2, ours, limit)
    assert (order, costs) == (["a", "b", "a", "b"], [[8.0, 6.0], [2.0, 2.0]])
    assert Cost.ratio(costs, 0.5) == Cost(1.5, 1.5, 2.0, 2, 6.0, 2.0)
    assert Cost.absolute(*costs) == Cost(6.0, 6.0, 8.0, 2, 6.0, 2.0)
    assert Cost.absolute([3.0]).limit is None


def test_the_exponent_of_a_power():
    sizes, rounds = [10, 20, 40], (1.0, 2.0, 1.5)
    cost = Cost.exponent(sizes, [[a * size**1.5 for a in rounds] for size in sizes])
    assert (cost.best, cost.low, cost.high) == pytest.approx((1.5, 1.5, 1.5))
    assert cost.rounds == 3


def run(capsys, line):
    capsys.readouterr()
    code = main(shlex.split(line))
    said = capsys.readouterr()
    return code, said.out, said.err


def test_rows_are_chosen_by_name(capsys, monkeypatch):
    ran = []
    fake = {
        name: overheads.Measure(lambda quick, name=name: ran.append((name, quick)) or Cost.absolute([3.0]), "x", 2.0)
        for name in ("import", "study", "object")
    }
    monkeypatch.setattr(overheads, "ROWS", fake)
    code, out, _ = run(capsys, "overheads study import study --json")
    assert (code, ran) == (1, [("study", False), ("import", False)])
    record = json.loads(out)["overheads"]
    assert [row["row"] for row in record["rows"]] == ["study", "import"]
    assert [goal["met"] for goal in record["goals"]] == [False, False]
    ran.clear()
    assert run(capsys, "overheads --quick")[0] == 0
    assert ran == [("import", True), ("study", True), ("object", True)]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("study", "jmdp: There is no comparison 'study'."),
        ("overheads sweep study", "jmdp: There is no comparison 'study'."),
        ("overheads stdy", "jmdp: There is no comparison or row of overheads 'stdy'."),
    ],
)
def test_a_row_is_named_after_its_comparison(line, says, capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.__main__.run", lambda *arguments: pytest.fail("nothing may run"))
    code, out, error = run(capsys, line)
    assert (code, out) == (2, "")
    assert error.startswith(says)
    assert not set(overheads.ROWS) & set(COMPARISONS)


def test_the_class_is_the_inventory():
    shop = overheads_loops.Shop()
    for seed in range(200):
        u = np.random.default_rng(seed).random()
        stock, order = seed % 11, seed % 6
        shop.reset(seed)
        shop.stock = stock
        after, reward, ended, _ = shop.step(order)
        assert (after, reward) == (
            overheads_loops.inventory_next(stock, order, u),
            overheads_loops.inventory_reward(stock, order, u),
        )
        assert not ended


INVENTORY = (overheads_loops.inventory_reward, overheads_loops.inventory_next, 6, 3, overheads_loops.inventory_rule)
CART = (overheads_loops.cart_reward, overheads_loops.cart_next, 3, (1.0, 0.0), overheads_loops.cart_rule)


@pytest.mark.parametrize("task", [INVENTORY, CART], ids=["inventory", "continuous"])
def test_loops_over_functions_have_the_gaps_of_compare(task):
    """Within 5 standard errors of both: false alarms in 1e-6 of all seeds, for each of 7 gaps."""
    reward, after, actions, state, rule = task
    samples, returns = 400, np.array(overheads_loops.function_returns(*task, 400))
    simulator = jmdp.simulators.FunctionSimulator(reward, after, actions, start=state)
    settings = {"discount": 1.0, "horizon": overheads_loops.HORIZON, "samples": samples, "seed": 1, "progress": False}
    _near(returns, jmdp.compare(simulator, rule, state=state, **settings))


def test_loops_over_the_class_have_the_gaps_of_compare():
    """Within 5 standard errors of both, as above."""
    plans = [(first, overheads_loops.inventory_rule) for first in range(6)]
    returns = np.array(overheads_loops.object_returns(plans, 400))
    simulator = jmdp.simulators.ObjectSimulator(overheads_loops.Shop, actions=6)
    settings = {"discount": 1.0, "horizon": overheads_loops.HORIZON, "samples": 400, "seed": 1, "progress": False}
    _near(returns, jmdp.compare(simulator, overheads_loops.inventory_rule, **settings))


def _near(returns, comparison):
    for action in range(1, returns.shape[1]):
        gap, ours = returns[:, action] - returns[:, 0], comparison.gap(action, 0)
        error = np.sqrt((gap.var(ddof=1) + ours.variance) / len(gap))
        assert abs(gap.mean() - ours.mean) <= 5 * error


def test_steps_are_counted_and_the_class_is_restored():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("CartPole-v1")
    step = type(env.unwrapped).step
    with overheads_loops.counted_steps(env) as count:
        for seed in range(3):
            env.reset(seed=seed)
            env.step(0)
    assert (count, type(env.unwrapped).step) == ([3], step)


def test_rows_run_at_tiny_sizes():
    names = [
        "inventory",
        "object_policies",
        "policies_cartpole",
        "keyed_luck",
        "sweep_careless",
        "smallest_compare_runs",
    ]
    report = overheads.compare(True, names)
    assert [row["row"] for row in report.rows] == names
    assert all(row["ours"] > 0 for row in report.rows)
