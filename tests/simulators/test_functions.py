"""Plain functions and tables as simulators."""

from __future__ import annotations

import numpy as np
import pytest

import jmdp
from jmdp.base.luck import Shock, StepShocks
from jmdp.errors import JMDPError, LabelError, SimulatorError, UnavailableError
from jmdp.simulators import FunctionSimulator, TabularSimulator, as_simulator
from jmdp.testing import check_simulator


def shop(**settings):
    """Stock, demand and an order: luck is drawn once and does not know the order."""
    return FunctionSimulator(
        lambda s, a, u: float(min(s + a, u)),
        lambda s, a, u: max(0, s + a - u),
        ["none", "one", "two"],
        luck=lambda rng: int(rng.poisson(1.0)),
        **settings,
    )


def test_a_step_is_g_and_h_at_one_u():
    simulator = shop()
    for i in range(20):
        shock = Shock.of_sample(0, i)
        u = int(shock.generator().poisson(1.0))
        for s in (0, 3):
            for a, name in enumerate(["none", "one", "two"]):
                expected = (float(min(s + a, u)), max(0, s + a - u), False)
                assert simulator.step(s, a, shock) == simulator.step(s, name, shock) == expected
                assert simulator.advance(s, a, shock) == expected


LUCKS = {
    "uniform": None,
    "number": lambda rng: float(rng.normal()),
    "array": lambda rng: rng.normal(size=2),
}


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("luck", LUCKS)
def test_steps_together_are_single_steps(luck, ends):
    """Also if g changes the array of random numbers that h receives."""

    def reward(s, a, u):
        if isinstance(u, np.ndarray):
            u += 1.0
        return s + a + float(np.sum(u))

    simulator = FunctionSimulator(
        reward, lambda s, a, u: s + a + float(np.sum(u)), 3, luck=LUCKS[luck],
        **({"terminal": lambda s: s > 2} if ends else {}),
    )  # fmt: skip
    roots = [Shock.of_sample(0, i) for i in range(4)]
    shocks = StepShocks(roots, b"environment", 2, None, np.array([0, 0, 1, 3, 3]))
    states, actions = [0.0, 1.5, -1.0, 0.5, 2.5], [0, 1, 2, 0, 1]
    single = [simulator.step(s, a, shock) for s, a, shock in zip(states, actions, shocks, strict=True)]
    assert list(zip(*simulator.step_all(states, actions, shocks), strict=True)) == single
    assert list(zip(*simulator.step_all(states, actions, list(shocks)), strict=True)) == single
    assert list(zip(*simulator.advance_all(states[:4], actions[:4], shocks[:4]), strict=True)) == single[:4]


@pytest.mark.parametrize("name", ["reward", "next_state"])
def test_an_error_names_the_call_that_raised_it(name):
    """Though many calls are made together."""

    def fails(s, a, u):
        return 1 / s

    functions = {"reward": lambda s, a, u: 0.0, "next_state": lambda s, a, u: s} | {name: fails}
    simulator = FunctionSimulator(**functions, actions=["stay", "go"])
    shocks = [Shock.of_sample(0, i) for i in range(4)]
    with pytest.raises(ZeroDivisionError) as raised:
        simulator.advance_all([1, 2, 0, 3], [0, 0, 1, 1], shocks)
    said = f"Raised by {name}(s, a, u) with s = 0, a = 1 (action go), u = {shocks[2].uniform()}."
    assert raised.value.__notes__ == [said]


def test_luck_is_one_uniform_number_unless_said_otherwise():
    seen = []
    simulator = FunctionSimulator(lambda s, a, u: seen.append(u) or 0.0, lambda s, a, u: seen.append(u) or s, 2)
    shock = Shock.of_sample(3, 4)
    simulator.step(0, 1, shock)
    assert seen == [shock.uniform()] * 2


def test_numbers_are_states_by_value():
    """A stock of 0 is a stock of 0.0, however it came about."""
    simulator = shop()
    assert simulator.digest(0) == simulator.digest(0.0) == simulator.digest(np.int64(0)) != simulator.digest(1)


def test_where_it_starts_and_ends_and_what_is_seen():
    assert shop(start=2).start(Shock(bytes(16))) == 2
    drawn = shop(start=lambda rng: int(rng.integers(100)))
    starts = [drawn.start(Shock.of_sample(0, i)) for i in (1, 1, 2)]
    assert starts[0] == starts[1] != starts[2]
    with pytest.raises(UnavailableError, match="start="):
        shop().start(Shock(bytes(16)))
    assert shop(observe=lambda s: s > 1).observe(2) is True
    assert shop(terminal=lambda s: s == 0).step(0, 0, Shock(bytes(16))).terminated is True


def test_wrong_arguments():
    with pytest.raises(SimulatorError, match=r"reward is 3\. Give a function"):
        FunctionSimulator(3, lambda s, a, u: s, 2)  # type: ignore[arg-type]
    for actions in (0, True, "ab", [], 2.0):
        with pytest.raises(JMDPError, match="actions is"):
            FunctionSimulator(lambda s, a, u: 0.0, lambda s, a, u: s, actions)  # type: ignore[arg-type]
    with pytest.raises(LabelError):
        shop().step(0, 3, Shock(bytes(16)))
    with pytest.raises(SimulatorError, match="is not a simulator"):
        as_simulator(3)


def test_the_check_finds_nothing_and_finds_what_is_wrong():
    assert check_simulator(shop(start=1), steps=20) == []
    spoilt = FunctionSimulator(
        lambda s, a, u: 0.0, lambda s, a, u: s.append(a) or s, 2, start=lambda rng: [0]
    )  # changes the state it was given
    assert any(finding.fault for finding in check_simulator(spoilt, steps=5))
    rng = np.random.default_rng(0)
    secret = FunctionSimulator(lambda s, a, u: float(rng.random()), lambda s, a, u: s, 2, start=0)
    assert any(finding.fault for finding in check_simulator(secret, steps=5))
    assert list(secret.generators(0).values()) == [rng]


def test_tables_step_by_their_scenarios():
    world = jmdp.worlds.windy_gridworld(2, 3, blown_reward=-1.0)
    simulator = as_simulator(world)
    assert isinstance(simulator, TabularSimulator)
    assert as_simulator(simulator) is simulator
    model = world.model
    for i in range(30):
        shock = Shock.of_sample(1, i)
        k = int(shock.uniform() >= model.prob[0, 0])
        for s in np.flatnonzero(~model.terminal).tolist():
            for a in range(4):
                n = int(model.next_state[s, k, a])
                expected = (float(model.reward[s, k, a]), n, bool(model.terminal[n]))
                assert simulator.step(s, a, shock) == expected
                assert simulator.step(model.states.name(s), model.actions.name(a), shock) == expected
    assert simulator.discount == model.discount
    assert simulator.start(Shock(bytes(16))) == 0


def test_nothing_is_earned_where_all_is_over():
    """As in the exact answers: the return of a terminal state is 0."""
    world = jmdp.worlds.windy_gridworld(2, 2, step_reward=-1.0)
    (goal,) = np.flatnonzero(world.model.terminal)
    assert TabularSimulator(world.model).step(int(goal), 0, Shock(bytes(16))) == (0.0, goal, True)
    found = jmdp.compare(
        world.model, world.policies["uniform"], state=int(goal), seed=0, max_samples=64, progress=False
    )
    assert (found.summary.samples.returns == 0).all()
