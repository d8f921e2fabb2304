"""Every sampled answer is checked: what is not repeatable is refused, and the check itself changes nothing."""

from __future__ import annotations

import random
import types
import warnings

import gymnasium
import numpy as np
import pytest

import jmdp
from jmdp.errors import PolicyError, SimulatorError
from jmdp.models.actors.as_policy import as_policy
from jmdp.simulators import FunctionSimulator, Simulator, Step, action_labels
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import paired_draws

COUPLINGS = [jmdp.Local(), jmdp.Synchronous(), jmdp.Independent()]


def drawn_by_plan(simulator, state, actions, actor, coupling, *, first, count, **settings):
    plan = BranchPlan.of_actions(actor, state=state, actions=actions, coupling=coupling, **settings)
    return paired_draws(simulator, plan, first, count)


class Store(Simulator):
    """A stock up to 20; sound."""

    actions = action_labels(["none", "two", "four"])

    def demand(self, stock, action, shock):
        return shock.generator().poisson(3)

    def step(self, stock, action, shock):
        demand = self.demand(stock, action, shock)
        have = min(20, stock + 2 * action)
        return Step(float(3 * min(have, demand) - 2 * action), max(0, have - demand), False)

    def start(self, shock):
        return 6


class OwnGenerator(Store):
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def demand(self, stock, action, shock):
        return self.rng.poisson(3)


class GlobalGenerator(Store):
    def demand(self, stock, action, shock):
        return random.randrange(6)


class MoreByAction(Store):
    def demand(self, stock, action, shock):
        rng = shock.generator()
        rng.random(1 + action)
        return rng.poisson(3)


class MoreByState(Store):
    def demand(self, stock, action, shock):
        rng = shock.generator()
        rng.random(1 + stock)
        return rng.poisson(3)


class RateByState(Store):
    """Spoilage is drawn first, by a call that uses more numbers for a larger stock."""

    def demand(self, stock, action, shock):
        rng = shock.generator()
        spoilt = rng.poisson(10 + stock)
        return rng.poisson(3) + (spoilt > 40)


class SwappedCalls(Store):
    def demand(self, stock, action, shock):
        rng = shock.generator()
        if action == 0:
            return self.mixed(rng.normal(), rng.poisson(3))
        return self.mixed(demand=rng.poisson(3), price=rng.normal())

    def mixed(self, price, demand):
        return demand + (price > 2)


class SwappedByHelper(Store):
    def number(self, rng):
        return rng.normal()

    def demand(self, stock, action, shock):
        rng = shock.generator()
        if action == 0:
            price = self.number(rng)
            demand = self.number(rng)
        else:
            demand = self.number(rng)
            price = self.number(rng)
        return max(0.0, 3 + demand + 0.1 * price)


class SwappedInALoop(Store):
    """The same line draws for one purpose or the other: no log can tell."""

    def demand(self, stock, action, shock):
        rng, drawn = shock.generator(), {}
        for name in ("price", "demand") if action else ("demand", "price"):
            drawn[name] = rng.normal()
        return max(0.0, 3 + drawn["demand"] + 0.1 * drawn["price"])


class RarelyImpure(Store):
    """Draws from its own generator in states that the quick check does not reach."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def demand(self, stock, action, shock):
        return super().demand(stock, action, shock) + (self.rng.integers(3) if stock < 3 else 0)


def compared(simulator, policy=lambda stock: 1, coupling=COUPLINGS[1], **settings):
    settings = {"discount": 0.8, "seed": 0, "max_samples": 64, "progress": False} | settings
    return jmdp.compare(simulator, policy=policy, coupling=coupling, **settings)


@pytest.mark.parametrize("kind", [OwnGenerator, GlobalGenerator])
@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_randomness_of_its_own_is_refused(kind, coupling):
    with pytest.raises(SimulatorError, match=r"own generator|global generator|is not reproducible"):
        compared(kind(), coupling=coupling)


REFUSED = {
    MoreByAction: {"Local": "out of step:", "Synchronous": "out of step:"},
    SwappedCalls: {"Local": "swapped draws:", "Synchronous": "swapped draws:"},
    SwappedByHelper: {"Local": "swapped draws:", "Synchronous": "swapped draws:"},
    MoreByState: {"Synchronous": "out of step between states"},
    RateByState: {"Synchronous": "out of step between states"},
    SwappedInALoop: {},  # not detectable
    Store: {},
}


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_draws_that_differ_are_refused_where_they_matter(kind, coupling):
    says = REFUSED[kind].get(type(coupling).__name__)
    if says is None:
        compared(kind(), coupling=coupling)
        return
    with pytest.raises(SimulatorError, match=says) as refused:
        compared(kind(), coupling=coupling)
    assert "It matters under Synchronous()" in str(refused.value)
    assert "test_sampling.py:" in str(refused.value)
    assert "shock.derived" in str(refused.value)


EPISODES = {"none": lambda stock: 0, "some": lambda stock: 1 + (stock < 3)}


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("kind", [MoreByAction, MoreByState, RateByState, SwappedCalls])
def test_policies_whose_steps_draw_differently_are_reported_once(kind, coupling):
    """Only where the policies share their shocks: under `Local`, in the first step and wherever their stocks meet."""
    settings = {"discount": 0.9, "horizon": 12, "seed": 0, "samples": 64, "progress": False, "coupling": coupling}
    matters = coupling == jmdp.Synchronous() or (coupling == jmdp.Local() and kind is MoreByAction)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = jmdp.compare_policies(kind(), EPISODES, **settings)
    said = [str(warning.message) for warning in caught if "do not share all random numbers" in str(warning.message)]
    assert len(said) == matters or (coupling == jmdp.Local() and kind is SwappedCalls)
    plan = found.continue_with.question.work
    assert (plan(0, 64, (0, 1), True).returns == found.summary.samples.complete.returns).all()


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_policies_whose_steps_draw_alike_give_no_warning(coupling):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jmdp.compare_policies(
            Store(), EPISODES, discount=0.9, horizon=80, seed=0, samples=64, progress=False, coupling=coupling
        )


class ShopEnv(gymnasium.Env):
    """A shop in which an order draws one number more, if `more`; a part of it holds the generator too, if `twice`."""

    action_space = gymnasium.spaces.Discrete(3)
    observation_space = gymnasium.spaces.Box(0, 100, (1,))

    def __init__(self, more, twice):
        self.more, self.twice, self.part = more, twice, None

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.stock, self.left = 3, 20
        self.part = types.SimpleNamespace(rng=self.np_random) if self.twice else None
        return np.array([self.stock], np.float32), {}

    def step(self, action):
        rng = self.part.rng if self.twice else self.np_random
        if self.more and action:
            self.np_random.random()
        demand = rng.poisson(2)
        sold, self.left = min(self.stock + action, demand), self.left - 1
        self.stock = self.stock + int(action) - sold
        return np.array([self.stock], np.float32), float(3 * sold - action), False, self.left == 0, {}


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("more", [False, True])
def test_steps_of_environments_are_compared_too(more, twice):
    policies = {"few": lambda seen: int(seen[0] < 2), "many": lambda seen: 2 * int(seen[0] < 4)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        jmdp.compare_policies(ShopEnv(more, twice), policies, discount=1.0, horizon=20, seed=0, samples=64,
                              progress=False)  # fmt: skip
    said = [str(warning.message) for warning in caught]
    assert len(said) == more
    assert all("do not share all random numbers" in text for text in said)


def test_a_simulator_whose_memory_starts_late_is_noticed():
    class Late(Store):
        calls = 0

        def demand(self, stock, action, shock):
            Late.calls += 1
            return super().demand(stock, action, shock) - (Late.calls > 2000)

    with pytest.raises(SimulatorError, match="not reproducible"):
        jmdp.compare_policies(Late(), EPISODES, discount=0.9, horizon=12, seed=0, samples=200, progress=False)


def test_functions_that_draw_are_refused():
    simulator = FunctionSimulator(
        lambda stock, order, u: float(np.random.normal() - order),  # noqa: NPY002
        lambda stock, order, u: stock,
        actions=2,
        start=0,
    )
    with pytest.raises(SimulatorError, match=r"global np\.random"):
        compared(simulator, policy=lambda stock: 0)


def test_evaluate_checks_too():
    method = jmdp.MonteCarlo(seed=0, samples=50)
    with pytest.raises(SimulatorError, match="own generator"):
        jmdp.evaluate(OwnGenerator(), lambda stock: 1, jmdp.Synchronous(), method, discount=0.8, progress=False)
    with pytest.raises(PolicyError, match="after other calls"):
        jmdp.evaluate(Store(), Alternating(), jmdp.Synchronous(), method, discount=0.8, progress=False)


# ---------------------------------------------------------------------------------------- policies with a memory


class Alternating:
    """Orders at every seventh call."""

    calls = 0

    def __call__(self, stock):
        self.calls += 1
        return int(self.calls % 7 == 0)


class Trend:
    """Orders more when stock fell since it was asked last."""

    last = 0

    def __call__(self, stock):
        falling, self.last = stock < self.last, stock
        return 2 if falling else 0


class Mode:
    """Orders until there is enough, then waits until there is little."""

    filling = True

    def __call__(self, stock):
        if stock <= 3 or stock >= 9:
            self.filling = stock <= 3
        return 2 if self.filling else 0


@pytest.mark.parametrize("kind", [Alternating, Trend, Mode])
@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_a_policy_with_memory_is_refused(kind, coupling):
    with pytest.raises(PolicyError, match="It has a memory") as refused:
        compared(Store(), policy=kind(), coupling=coupling)
    assert "Put the memory into the observation" in str(refused.value)


def test_a_policy_with_memory_is_refused_on_tables_too():
    world = jmdp.worlds.inventory(capacity=8)
    with pytest.raises(PolicyError, match="may not use random numbers or memory"):
        compared(world.model, policy=Trend(), coupling=jmdp.Local(), discount=None, seed=1)


def test_a_policy_may_keep_a_cache():
    known = {}
    found = compared(Store(), policy=lambda stock: known.setdefault(stock, int(stock < 4)))
    assert np.array_equal(
        found.summary.samples.returns, compared(Store(), policy=lambda stock: int(stock < 4)).summary.samples.returns
    )


# ------------------------------------------------------------------------------------------- drawn once more


def test_what_the_quick_check_does_not_reach_is_noticed_when_drawn_again():
    with pytest.raises(SimulatorError, match="is not reproducible: candidate 0 of sample"):
        compared(RarelyImpure(), state=20)


def test_a_simulator_can_be_used_unchecked():
    simulator = OwnGenerator()
    simulator.check = False
    assert compared(simulator).samples == 64


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_checks_change_no_bit(coupling):
    actor = as_policy(lambda stock, rng: int(rng.integers(3)), Store.actions)
    plain = drawn_by_plan(Store(), 6, [0, 1, 2], actor, coupling, discount=0.8, horizon=31, seed=0, first=0, count=64)
    before = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    three = [compared(Store(), policy=lambda stock, rng: int(rng.integers(3)), coupling=coupling) for _ in range(3)]
    for found in three:
        assert found.summary.horizon == 31
        assert np.array_equal(found.summary.samples.returns, plain.returns)
        assert found.summary.samples.steps == plain.steps
    assert np.array_equal(before[0], np.random.get_state()[1])  # noqa: NPY002
    assert before[1] == random.getstate()


def test_checks_are_a_small_part_of_the_first_batch():
    class Counted(Store):
        calls = 0

        def step(self, stock, action, shock):
            type(self).calls += 1
            return super().step(stock, action, shock)

    found = compared(Counted())
    assert Counted.calls - found.summary.samples.steps <= 25 + 2 * found.summary.samples.steps / 64 + 93


def test_draws_while_jax_traces_are_refused():
    jax = pytest.importorskip("jax")

    def step(key, state, action):
        noise = np.random.normal()  # noqa: NPY002
        return noise * action, state + jax.random.normal(key), False

    simulator = jmdp.simulators.JaxSimulator(step, 2, start=lambda key: jax.numpy.float32(0))
    with pytest.raises(SimulatorError, match="becomes a constant of the compiled program"):
        compared(simulator, policy="uniform")
