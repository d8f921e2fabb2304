"""`improve` and its policy against all policies of the scenario history; `few_changes` against brute force."""

from fractions import Fraction

import numpy as np
import pytest

import jmdp
from control.test_frontier import contains, random_case
from jmdp.control.few_changes import few_changes
from jmdp.control.improve import ShadowPolicy, check_observed
from jmdp.control.shadow import Problem, Utility
from jmdp.errors import CouplingError, PolicyError, SettingsError
from reference.shadow_histories import Always, Histories, sets_of_changes


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 100), marks=pytest.mark.long)])
def test_within_a_shortfall_no_policy_gains_more_than_stated(seeds):
    for seed in seeds:
        model, given = random_case(seed)
        truth = Histories(Problem(model, **given))
        most = max(x for _, x, _ in truth.policies().tolist())
        limit = float(Fraction(most, truth.whole) * truth.unit) / 3
        found = jmdp.improve(model, **given, max_shortfall=limit, observed="scenario")
        assert found.statistics.shortfall.high <= limit + 1e-8
        bound = found.statistics.gain.high if found.coin is None else found.coin.high
        for g, x, _ in truth.policies().tolist():
            if Fraction(x, truth.whole) * truth.unit <= Fraction(limit):
                assert Fraction(g, truth.whole) * truth.unit <= Fraction(bound) + Fraction(1, 10**12)


@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(10, 100), marks=pytest.mark.long)])
def test_few_changes_are_those_of_brute_force(seeds):
    tried = 0
    for seed in seeds:
        model, given = random_case(seed)
        if seed % 7 == 0:
            given["incumbent"] = given["incumbent"][0]
        problem = Problem(model, **given)
        truth = Histories(problem)
        own = truth.statistics(Always(problem.given[0]))
        assert own["gain"] == 0
        every = {k: [truth.statistics(Always(one)) for one in sets_of_changes(problem, k)] for k in (1, 2, 3)}
        limits = [None, float(np.median([float(one["shortfall"]) for one in every[3]])) + 1e-6]
        for limit in limits:
            found = few_changes(model, **given, max_shortfall=limit)
            for one in found.sets:
                gains = [best["gain"] for best in every[one.k] if limit is None or best["shortfall"] <= Fraction(limit)]
                assert one.exact
                assert contains(one.statistics.gain, max([Fraction(0), *gains])), (seed, limit, one)
                tried += 1
    assert tried >= 4 * len(seeds)


def test_changes_come_in_the_order_whose_worst_beginning_is_best():
    """Two changes that pay together and cost alone: from 0 through 1 to a reward of 3, with a step that costs 1."""
    reward = np.array([[[0.0, -1.0]], [[0.0, 3.0]], [[0.0, 0.0]]])
    model = jmdp.TabularJMDP(np.ones((3, 1)), reward, [[[2, 1]], [[2, 2]], [[2, 2]]], 0.5)
    found = few_changes(model, [0, 0, 0], horizon=2, discount=1.0, starts=[0], k=2)
    assert found.sets[0].changes == ()
    assert [state for state, _, _ in found.sets[1].changes] == ["1", "0"]
    assert found.sets[1].beginnings == (0.0, 2.0)
    assert "worse than the incumbent" not in found.answer


@pytest.mark.parametrize("discounted", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_policy_follows_the_shadow_by_what_it_sees(seed, discounted):
    """Along every sequence of scenarios it acts as the certified one, and `act` does on the exact gap."""
    model, given = random_case(seed, discounted=discounted)
    problem = Problem(model, **given)
    actions = problem.solve(Utility(2.0))
    for observed in ("state", "state and reward", "scenario"):
        try:
            check_observed(problem, observed)
        except PolicyError:
            assert observed != "scenario"
            continue
        policy = ShadowPolicy(problem, actions, observed)
        for start, path in Histories(problem).paths():
            policy.reset()
            s = t = start
            gap, tracked = Fraction(0), 0
            for h, k in enumerate(path):
                place = problem.scenarios.tolist().index(k)
                a, b = actions.at(h, s, t, tracked), int(problem.incumbent[h, t])
                assert policy(model.states.label(s)) == model.actions.label(a)
                if problem.exact:
                    label = model.states.label
                    assert policy.act(h, label(s), label(t), float(gap)) == model.actions.label(a)
                reward = float(problem.reward[s, place, a])
                policy.seen(a, reward, k)
                gap += Fraction(reward) - Fraction(float(problem.reward[t, place, b]))
                tracked += problem.increment(h, s, t, place, a)
                s, t = int(problem.next_state[s, place, a]), int(problem.next_state[t, place, b])


def test_what_is_refused():
    model, given = random_case(1)
    with pytest.raises(CouplingError, match="once the states differ"):
        jmdp.frontier(model, coupling=jmdp.Local(), **given)
    with pytest.raises(CouplingError, match="Independent"):
        jmdp.improve(model, coupling=jmdp.Independent(), max_chance=0.1, **given)
    with pytest.raises(PolicyError, match="at random"):
        jmdp.frontier(model, **{**given, "incumbent": "uniform"})
    with pytest.raises(SettingsError, match="one of max_shortfall"):
        jmdp.improve(model, **given)
    world = jmdp.worlds.inventory(4)
    asked = {"horizon": 3, "starts": world.start, "max_chance": 0.1}
    with pytest.raises(PolicyError, match="in state 0, with the shadow in state 0 and action order 0"):
        jmdp.improve(world.model, world.policies["base_stock"], **asked)
