"""Sources of randomness that are drawn again while the others stay: by name, start, policy and generator."""

from __future__ import annotations

import numpy as np
import pytest

import jmdp
from jmdp.base.luck_sources import Redraw
from jmdp.models.actors.as_policy import as_policy
from jmdp.simulators import FunctionSimulator, ObjectSimulator, Simulator, Step, action_labels
from jmdp.simulators.adapters.functions import TabularSimulator
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import paired_draws

PLAIN = jmdp.Shock.of_sample(3, 5)


def draws(luck):
    """A draw of each kind, of three sources."""
    return {
        "demand": [luck.poisson("demand", 1, mean=20.0), luck.exponential("demand", ("a", 2), mean=2.0)],
        "lead": [luck["lead", 4].normal(), luck.seed(("lead", 1), 2), luck.uniform("lead")],
        "unnamed": [luck.uniform(7), luck.normal(7, 8, mean=0.0, std=1.0), luck[3].random()],
    }


def redrawn(*sources, **how):
    return draws(jmdp.Luck(Redraw(sources, **how).root(3, 5)))


def test_kept_draws_are_those_of_the_sample():
    assert redrawn() == draws(jmdp.Luck(PLAIN))


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("chosen", [("lead",), ("demand", "unnamed"), ()])
def test_only_the_chosen_sources_are_drawn_again(chosen, others):
    kept, found = draws(jmdp.Luck(PLAIN)), redrawn(*chosen, others=others)
    for source, values in found.items():
        again = (source in chosen) != others
        assert all((one != other) == again for one, other in zip(values, kept[source], strict=True))


def test_sources_drawn_again_alone_and_together_are_equal():
    """M_i takes source i from B, in which all are drawn again."""
    everything = redrawn(others=True)
    for source in everything:
        assert redrawn(source)[source] == everything[source]
    assert redrawn("lead", number=1)["lead"] != everything["lead"]


def test_used_sources_are_recorded():
    redraw = Redraw()
    luck = jmdp.Luck(redraw.root(0, 0))
    assert redraw.used == set()
    luck.uniform("demand", 1), luck["lead"]
    assert redraw.used == {"demand", "lead"}
    luck.uniform(2)
    assert redraw.used == {"demand", "lead", "unnamed"}


def test_draws_are_described():
    redraw = Redraw(notes=True)
    for _ in range(2):  # another design, with the same keys
        luck = jmdp.Luck(redraw.root(3, 5))
        waits = [luck.exponential("wait", i, mean=2.0) for i in range(3)]
        luck.choice("kind", options=["a", "b"])
    found = redraw.described(5)
    assert found == {"wait": pytest.approx((3, np.mean(waits), min(waits), max(waits)))}


class Shop(Simulator):
    """Draws of all kinds in each step, and a random start."""

    actions = action_labels(2)
    discount = 0.9

    def start(self, shock):
        return jmdp.Luck(shock).uniform("stock")

    def step(self, state, action, shock):
        luck = jmdp.Luck(shock)
        demand = luck.poisson("demand", mean=4.0) + shock.uniform()
        return Step(demand + 0.1 * state - action * luck.uniform("lead"), round(state + demand, 9), False)


PRICES = jmdp.RecordedLuck({"day": [0, 1, 2, 3], "price": [1.0, 2.0, 3.0, 5.0]})


class Machine:
    """An ordinary object with two generators."""

    def __init__(self):
        self.demand, self.wear = np.random.default_rng(0), np.random.default_rng(1)
        self.stock = 5

    def step(self, order):
        sold = min(self.stock, int(self.demand.poisson(3)))
        self.stock += order - sold
        return float(sold - self.wear.random()), False


def shares(found, **given):
    """Total shares of the sources of a comparison."""
    explained = found.explain(**given)
    return {name: float(explained.total(name)) for name in explained.sources}


def compare_policies(simulator, policies, **more):
    return jmdp.compare_policies(
        simulator, policies, seed=0, samples=40, horizon=4, discount=0.9, progress=False, **more
    )


def random_policy(state, rng):
    return int(rng.random() < 0.5)


@pytest.mark.parametrize(
    ("found", "sources"),
    [
        (
            lambda: compare_policies(Shop(), {"random": random_policy, "zero": lambda state: 0}),
            {"demand", "lead", "unnamed", "start", "policy"},
        ),
        (
            lambda: jmdp.compare(Shop(), lambda state: 0, state=1.0, seed=0, samples=40, horizon=3, progress=False),
            {"demand", "lead", "unnamed"},
        ),
        (
            lambda: compare_policies(
                ObjectSimulator(Machine, actions=4, observe=lambda machine: machine.stock),
                {"few": lambda stock: 1, "many": lambda stock: 3},
            ),
            {"demand", "wear"},
        ),
        (
            lambda: compare_policies(
                FunctionSimulator(
                    reward=lambda s, a, u: s * u * (1 + a), next_state=lambda s, a, u: s + u, actions=2, start=1.0
                ),
                {"random": random_policy, "zero": lambda state: 0},
            ),
            {"unnamed", "policy"},
        ),
        (
            lambda: compare_policies(
                FunctionSimulator(
                    reward=lambda s, a, u, demand, price: price * min(a, demand),
                    next_state=lambda s, a, u, demand, price: s + demand,
                    actions=9,
                    start=0,
                    exogenous={"demand": lambda luck: luck.poisson("demand", mean=4), "price": PRICES},
                ),
                {"few": lambda state: 2, "many": lambda state: 5},
            ),
            {"demand", "history"},
        ),
    ],
    ids=["simulator", "actions", "object", "functions", "inputs"],
)
def test_sources_of_simulators(found, sources):
    found = found()
    assert set(shares(found, samples=20)) == sources
    question = found.continue_with.question
    alternatives = tuple(range(2))
    own = question.work(0, 6, alternatives, True).returns
    again = question.work.redrawn(Redraw(), question.settings.seed)(0, 6, alternatives, True).returns
    np.testing.assert_array_equal(own, again)  # without any redraw, samples are those of the comparison
    for source in sources:
        other = question.work.redrawn(Redraw([source]), question.settings.seed)(0, 6, alternatives, True).returns
        assert (own != other).any(), source


def test_sources_of_a_table_take_their_part_of_the_scenario():
    model = jmdp.TabularJMDP(
        [[1 / 6] * 6], np.zeros((1, 6, 1)), np.zeros((1, 6, 1), int), 0.5, sources={"a": 2, "b": 3}
    )
    simulator = TabularSimulator(model)
    plain, again = [], []
    for i in range(200):
        roots = [Redraw(["a"]).root(0, i), Redraw(others=True).root(0, i)]
        k = simulator.scenario_of(0, jmdp.Shock.of_sample(0, i).derived(b"environment"))
        mixed, other = (simulator.scenario_of(0, root.derived(b"environment")) for root in roots)
        assert mixed == other // 3 * 3 + k % 3
        plain.append(k // 3)
        again.append(mixed // 3)
    assert 0.3 < np.mean(np.array(plain) == np.array(again)) < 0.7


def test_local_draws_belong_to_states():
    """Under Local a state has its draws: with some sources drawn again, a branch that reaches it receives them."""

    class Two(Simulator):
        actions = action_labels(1)
        discount = 0.9

        def step(self, state, action, shock):
            luck = jmdp.Luck(shock)
            return Step(luck.uniform("u") if state else 0.0, 1 + (luck.uniform("w") < 0.5), False)

    simulator = Two()
    settings = {"coupling": jmdp.Local(), "discount": 0.9, "horizon": 2, "seed": 1, "redraw": Redraw(["w"])}
    actor = as_policy(lambda state: 0, simulator.actions)
    plan = BranchPlan.of_actions(actor, state=0, actions=[0], **settings)
    found = paired_draws(simulator, plan, 0, 8).returns[:, 0] / 0.9
    for i, value in enumerate(found):
        second = Redraw(["w"]).root(1, i)
        state = 1 + (jmdp.Luck(second.derived(b"environment", 0, simulator.digest(0))).uniform("w") < 0.5)
        expected = jmdp.Luck(jmdp.Shock.of_sample(1, i).derived(b"environment", 1, simulator.digest(state))).uniform(
            "u"
        )
        assert value == pytest.approx(expected, rel=1e-12)
