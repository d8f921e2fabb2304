"""The policy beside a shadow as an ordinary policy with memory: comparisons and reviews of worlds and tables."""

import numpy as np
import pytest

import jmdp
from jmdp.errors import PolicyError

WORLD = jmdp.worlds.inventory(6, mean_demand=2.0)
STEPS = 8
ASKED = {"horizon": STEPS, "discount": 1.0, "starts": WORLD.start}


def improved(**asked):
    return jmdp.improve(WORLD.model, WORLD.policies["base_stock"], observed="scenario", **{**ASKED, **asked})


def stock(observation):
    return str(observation[0])


def undiscounted():
    simulator = jmdp.worlds.inventory(6, mean_demand=2.0).simulator
    simulator.discount = None
    return simulator


@pytest.mark.parametrize("samples", [1000, pytest.param(100_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("table", [False, True])
def test_a_comparison_gives_the_certified_gain_and_shortfall(table, samples):
    """Within 4 standard errors each: 4 false alarms in 16,000 seeds at most. The table has a discount, so it rounds."""
    given = {"coupling": jmdp.Synchronous(), "horizon": STEPS, "seed": 3, "samples": samples, "progress": False}
    if table:
        found = improved(max_shortfall=0.1, discount=None)
        policies = {"old": WORLD.policies["base_stock"], "new": found.policy}
        compared = jmdp.compare_policies(WORLD.model, policies, starts=WORLD.start, **given)
    else:
        found, simulator = improved(max_shortfall=0.1), undiscounted()
        policies = {"old": simulator.policies["base_stock"], "new": found.policy.reading(stock)}
        starts = [(s,) for s in range(7)]
        compared = jmdp.compare_policies(simulator, policies, starts=starts, discount=1.0, **given)
    gap = compared.episode_returns() @ [-1.0, 1.0]
    for drawn, stated in ((gap, found.statistics.gain), (np.maximum(0, -gap), found.statistics.shortfall)):
        error = 4 * drawn.std() / len(drawn) ** 0.5
        assert error > 0
        assert stated.low - error <= drawn.mean() <= stated.high + error


def test_a_review_tells_the_policy_its_scenarios():
    found = improved(max_shortfall=0.1)
    given = {"reference": WORLD.policies["base_stock"], "starts": WORLD.start, "horizon": STEPS}
    reviewed = jmdp.review(WORLD.model, found.policy, seed=1, **given)
    policy = found.policy
    model, shadow, cells = WORLD.model, reviewed.trajectory.states[0], 0
    problem = policy._problem
    for h, (s, a) in enumerate(zip(reviewed.trajectory.states, reviewed.trajectory.actions, strict=False)):
        assert a == policy._actions.at(h, s, shadow, cells)
        k = int(np.flatnonzero(np.isclose(model.reward[s, :, a], reviewed.trajectory.rewards[h]))[0])
        cells += problem.increment(h, s, shadow, k, a)
        shadow = int(problem.next_state[shadow, k, problem.incumbent[h, shadow]])


class Silent(jmdp.simulators.FunctionSimulator):
    """A walk that reports no scenarios."""


def test_a_simulator_without_scenarios_is_refused():
    simulator = Silent(lambda s, a, u: 1.0, lambda s, a, u: s, [f"order {a}" for a in range(6)], start=0)
    policy = improved(max_shortfall=0.1).policy
    with pytest.raises(PolicyError, match="does not report scenarios"):
        jmdp.compare_policies(
            simulator, {"old": lambda s: 0, "new": policy}, horizon=3, discount=1.0, seed=0, samples=4
        )
