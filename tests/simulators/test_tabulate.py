"""`tabulate`: tables equal to their simulators, the stated error of sampled ones, and what is refused."""

from __future__ import annotations

import copy
from collections import Counter

import gymnasium
import numpy as np
import pytest

import jmdp
from jmdp.errors import ModelError, SettingsError, SimulatorError
from jmdp.simulators import FunctionSimulator, GymnasiumSimulator, ObjectSimulator, Simulator, Step, action_labels
from jmdp.simulators.tabulation.tabulate import tabulate


class Game(Simulator):
    """Simulator of a function play(state, action index, shock), with a check switched off where faults are planted."""

    discount = 0.9

    def __init__(self, play, actions=2, start=0, check=True):
        self.play, self.actions, self.check, self._start = play, action_labels(actions), check, start

    def step(self, state, action, shock):
        return self.play(state, self.actions.index(action), shock)

    def start(self, shock):
        return self._start(shock) if callable(self._start) else self._start


def pig(state, action, shock):
    """Roll a die: 1 ends the game, other numbers are added up to 8; or stop and earn the sum."""
    roll = int(shock.generator().integers(1, 7))
    if action == 0:
        return Step(float(state), state, True)
    return Step(0.0, 0, True) if roll == 1 else Step(0.5 * roll, min(state + roll, 8), False)


def joint(simulator, state, shock):
    """Rewards and next states of all actions; None after the end."""
    found = []
    for a in range(simulator.actions.size):
        reward, after, ended = simulator.step(state, a, shock)
        found.append((float(reward), None if ended else simulator.digest(after)))
    return tuple(found)


def rows(result, simulator):
    """Distribution of the joint outcomes of each state in the table."""
    model = result.model
    digests = [None if state is None else simulator.digest(state) for state in result.states]
    for s in np.flatnonzero(~model.terminal):
        row = Counter()
        for k in np.flatnonzero(model.prob[s] > 0):
            pairs = zip(model.reward[s, k].tolist(), model.next_state[s, k].tolist(), strict=True)
            row[tuple((reward, digests[n]) for reward, n in pairs)] += float(model.prob[s, k])
        yield result.states[s], row


def assert_equal_to(simulator, result, shocks=1500):
    """All outcomes of real shocks are in the table, with frequencies within five standard errors."""
    for i, (state, row) in enumerate(rows(result, simulator)):
        real = Counter(joint(simulator, state, jmdp.Shock.of_sample(100 + i, j)) for j in range(shocks))
        assert set(real) <= set(row)
        for outcome, p in row.items():
            assert abs(real[outcome] / shocks - p) <= 5 * np.sqrt(p * (1 - p) / shocks) + 1e-12


# ------------------------------------------------------------------------------------------------- exact tables


def test_a_dice_game_is_enumerated():
    game = Game(pig)
    result = tabulate(game)
    assert result.exact
    assert result.aligned
    assert result.samples is None
    assert result.model.shape == (9, 6, 2)
    assert result.states == (0, 2, 3, 4, 5, 6, 7, 8, None)
    assert result.model.states.names == ("0", "2", "3", "4", "5", "6", "7", "8", "ended")
    assert result.model.terminal.tolist() == [False] * 8 + [True]
    assert result.start.tolist() == [1.0] + [0.0] * 8
    assert (result.error == 0).all()
    assert_equal_to(game, result)
    found = dict(rows(result, game))[2]
    expected = Counter({((2.0, None), (0.0, None)): 1 / 6})
    for roll in range(2, 7):
        expected[(2.0, None), (0.5 * roll, game.digest(min(2 + roll, 8)))] += 1 / 6
    assert found == pytest.approx(expected)


def test_means_of_a_dice_game_are_those_of_its_bellman_equation():
    model = tabulate(Game(pig)).model
    policy = jmdp.TabularPolicy.deterministic(model, [1] * 5 + [0] * 4)  # roll below 6
    value = {s: float(s) for s in (6, 7, 8)}
    for s in (5, 4, 3, 2, 0):
        value[s] = sum(0.5 * roll + 0.9 * value[min(s + roll, 8)] for roll in range(2, 7)) / 6
    found = jmdp.evaluate(model, policy, jmdp.Local(), progress=False)
    for s, v in value.items():
        assert found.mean[model.states.index(str(s)), int(s < 6)] == pytest.approx(v)


def test_weighted_choices_that_depend_on_the_state():
    def play(state, action, shock):
        move = shock.generator().choice([-1, 0, 1], p=[0.2, 0.5 - 0.1 * state, 0.3 + 0.1 * state])
        after = int(np.clip(state + move * (action + 1), 0, 3))
        return Step(float(after - action), after, False)

    game = Game(play)
    result = tabulate(game)
    assert result.exact
    assert not result.aligned  # probabilities differ between states
    assert "use Local()" in repr(result)
    assert_equal_to(game, result)


def test_several_draws_and_actions_that_draw_less():
    def play(state, action, shock):
        rng = shock.generator()
        first = int(rng.integers(3))
        if action == 0:
            return Step(float(first), state, False)
        two = rng.integers(1, 3, size=2) if first else [0]
        return Step(float(first) + float(sum(two)), (state + 1) % 3, False)

    game = Game(play)
    result = tabulate(game)
    assert result.exact
    assert_equal_to(game, result)


def test_without_randomness_there_is_one_scenario():
    chain = Game(lambda s, a, shock: Step(float(s), min(s + a, 50), s == 50))
    result = tabulate(chain)
    assert result.exact
    assert result.model.shape == (52, 1, 2)
    assert (result.model.next_state[:50, 0, 1] == np.arange(1, 51)).all()
    assert_equal_to(chain, result, 2)


def test_random_starts_are_enumerated():
    result = tabulate(Game(pig, start=lambda shock: int(shock.generator().choice([4, 6], p=[0.25, 0.75]))))
    assert result.start[:2].tolist() == [0.25, 0.75]
    assert result.states[:2] == (4, 6)
    given = tabulate(Game(pig), {6: 0.5, 8: 0.5})
    assert given.start.tolist() == [0.5, 0.5, 0.0]


def test_scenarios_that_differ_nowhere_are_merged_but_stay_aligned():
    def play(state, action, shock):
        lucky = int(shock.generator().integers(100)) < 30 + 20 * (state == 1)
        return Step(float(lucky), 1 - state if action else state, False)

    result = tabulate(Game(play))
    assert result.model.prob == pytest.approx(np.array([[0.3, 0.2, 0.5]] * 2))
    jmdp.Synchronous().check_fits(result.model)
    # Under Synchronous both states are lucky at once with probability 0.3.
    assert result.model.reward[:, :, 0].tolist() == [[1, 0, 0], [1, 1, 0]]


def test_common_random_numbers_mean_the_same_in_the_table():
    """Standard deviation of the gap under Synchronous, by simulation and by the table, within five standard errors."""
    game = Game(pig)
    table = tabulate(game)
    policy = jmdp.TabularPolicy.deterministic(table.model, [1] * 5 + [0] * 4)
    exact = jmdp.evaluate(table.model, policy, jmdp.Synchronous(), progress=False).gap(0, 0, 1)
    found = jmdp.compare(game, lambda s: int(s < 6), state=0, seed=0, samples=4000, progress=False).gap(0, 1)
    assert abs(found.mean - exact.mean) <= 5 * exact.std / np.sqrt(4000)
    assert found.std == pytest.approx(exact.std, rel=0.1)


@pytest.mark.parametrize("world", [jmdp.worlds.inventory(6), jmdp.worlds.queue_admission(5)])
def test_the_simulators_of_worlds_have_the_tables_of_worlds(world):
    result = tabulate(world.simulator, seed=0)
    assert result.exact
    assert result.model.shape == world.model.shape
    names = [str(s[0]) if len(s) == 1 else f"{s[0]} | {['nobody', 'class 1', 'class 2'][s[1]]}" for s in result.states]
    at = np.array([world.model.states.index(name) for name in names])
    np.testing.assert_allclose(result.model.prob, world.model.prob[at], atol=1e-15)
    np.testing.assert_allclose(result.model.reward, world.model.reward[at])
    np.testing.assert_array_equal(at[result.model.next_state], world.model.next_state[at])
    assert result.model.discount == world.model.discount
    assert tabulate(world).model is world.model
    assert tabulate(world).start is world.start


def test_objects_and_environments_are_enumerated_too():
    class Walk:
        def __init__(self):
            self.rng, self.at = np.random.default_rng(), 0

        def step(self, action):
            self.at = (self.at + int(self.rng.integers(2)) + action) % 3
            return float(self.at)

    walk = ObjectSimulator(Walk, 2)
    result = tabulate(walk, discount=0.9, seed=0)  # the seed is for its reset
    assert result.exact
    assert result.model.shape == (3, 2, 2)
    assert_equal_to(walk, result, 500)

    for how in ({}, {"snapshot": "replay", "digest": lambda env: env.unwrapped.at}):
        ring = GymnasiumSimulator(Ring(), **how)
        result = tabulate(ring, discount=0.9, seed=0, samples=20)
        assert result.exact
        assert result.model.shape == (5, 2, 2)
        assert result.model.states.names == ("0", "1", "2", "3", "ended")
        assert_equal_to(ring, result, 300)
    with pytest.raises(SimulatorError, match="more than 50 states"):  # histories of a replay are never equal
        tabulate(GymnasiumSimulator(Ring(), snapshot="replay"), discount=0.9, seed=0, max_states=50)


class Ring(gymnasium.Env):
    """Four places on a ring; a coin of np_random moves one further."""

    observation_space, action_space = gymnasium.spaces.Discrete(4), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.at, {}

    def step(self, action):
        before, self.at = self.at, (self.at + action + int(self.np_random.integers(2))) % 4
        return self.at, float(before), before == 3 and action == 1, False, {}


def test_a_lazy_model_is_enumerated():
    world = jmdp.worlds.queue_admission(5)
    lazy = jmdp.LazyJMDP.of(world.model)
    lazy.index(17)  # known to the lazy model, but not needed
    result = tabulate(lazy, [0])
    at = np.array(result.states)
    assert result.exact
    assert sorted(at) == list(range(18))
    np.testing.assert_array_equal(result.model.prob, world.model.prob[at])
    np.testing.assert_array_equal(at[result.model.next_state], world.model.next_state[at])
    ends = jmdp.LazyJMDP(lambda s: None if s == "c" else ([0.5, 0.5], [[1.0], [2.0]], [["b"], ["c"]]), 0.5, 2.0)
    small = tabulate(ends, ["a"])
    assert small.states == ("a", "b", "c")
    assert small.model.terminal.tolist() == [False, False, True]
    with pytest.raises(SettingsError, match="Give starts"):
        tabulate(lazy)
    count = jmdp.LazyJMDP(lambda s: ([1.0], [[0.0]], [[s + 1]]), 0.5, 2.0)
    with pytest.raises(ModelError, match="More than 40 states"):
        tabulate(count, [0], max_states=40)


# ------------------------------------------------------------------------------------------------- sampled tables


def coin(state, action, shock):
    """Three outcomes by a uniform number; action 1 sees the complement."""
    u = shock.generator().random()
    u = 1 - u if action else u
    return Step(float(u < 0.3), (state + int(u < 0.6)) % 3, False)


def test_a_sampled_row_is_within_its_error_of_the_truth():
    game = Game(coin)
    result = tabulate(game, seed=0, samples=4000)
    assert not result.exact
    assert not result.aligned
    assert "random()" in repr(result)
    for (state, row), error in zip(rows(result, game), result.error, strict=True):
        stay, on = game.digest(state), game.digest((state + 1) % 3)
        truth = Counter({((1, on), (0, stay)): 0.3, ((0, on), (0, stay)): 0.1})
        truth |= {((0, on), (0, on)): 0.2, ((0, stay), (0, on)): 0.1, ((0, stay), (1, on)): 0.3}
        distance = sum(abs(row[x] - truth[x]) for x in row.keys() | truth.keys()) / 2
        assert distance <= 0.03  # of the order of 1/√4000
        assert 0.01 < error < 0.1


def test_sampling_is_reproducible_and_states_do_not_affect_one_another():
    game = Game(coin)
    one, again, other = tabulate(game, seed=0), tabulate(game, seed=0), tabulate(game, seed=1)
    assert one.model.prob.tobytes() == again.model.prob.tobytes()
    assert one.model.prob.tobytes() != other.model.prob.tobytes()
    assert one.model.prob[0].tolist() != one.model.prob[1].tolist()  # independent samples of the same distribution
    moved = tabulate(game, [2, 0], seed=0)
    assert dict(rows(moved, game)) == dict(rows(one, game))


def test_frozen_lake_is_within_its_stated_error():
    """Slips share the uniform number: outcome k of each action's list in env.P. Exact means by that table."""
    env = gymnasium.make("FrozenLake-v1")
    lake, discount = GymnasiumSimulator(env), 0.3
    result = tabulate(lake, discount=discount, seed=0, samples=200)
    assert result.model.states.index("14") < 11
    slips = env.unwrapped.P
    S, A, alive = 16, 4, [s for s in range(16) if not slips[s][0][0][3]]
    reward, following = np.zeros((S, 3, A)), np.zeros((S, 3, A), int)
    for s in alive:
        for a in range(A):
            for k, (_, n, r, _) in enumerate(slips[s][a]):
                reward[s, k, a], following[s, k, a] = r, n
    terminal = ~np.isin(np.arange(S), alive)
    truth = jmdp.TabularJMDP(np.full((S, 3), 1 / 3), reward, following, discount, terminal)
    at = [int(name) for name in result.model.states.names[:-1]]
    means = [
        jmdp.evaluate(model, jmdp.TabularPolicy.uniform(model), jmdp.Local(), progress=False).mean
        for model in (result.model, truth)
    ]
    difference = np.abs(means[0][:-1] - means[1][at]).max(axis=1)
    assert (difference <= result.return_error[:-1]).all()
    assert result.return_error.max() < 1  # so the bound says something: returns are in [0, 1.43]
    assert difference.max() < 0.05
    assert (np.sort(result.model.prob[:-1], axis=1)[:, 0] > 0.2).all()  # three joint outcomes of probability 1/3


def test_a_mixture_of_enumerated_and_sampled_states():
    def play(state, action, shock):
        if state == 0:
            return Step(0.0, 1 + action, False)
        if state == 1:
            return Step(float(shock.generator().integers(2)), 2, False)
        return Step(float(shock.generator().random() < 0.5), 2, True)

    result = tabulate(Game(play), seed=3)
    assert not result.exact
    assert (result.error > 0).tolist() == [False, False, True, False]
    assert "2 states enumerated" in repr(result)
    assert "1 state sampled with 1,000 shocks each, because a step calls random()" in repr(result)


def test_actions_that_draw_differently_are_sampled():
    def play(state, action, shock):
        return Step(float(shock.generator().integers(2 + action)), 0, False)

    game = Game(play, check=False)
    result = tabulate(game, seed=0, samples=3000)
    assert not result.exact
    assert "actions differ in their draws" in repr(result)
    assert_equal_to_sampled(game, result)


def assert_equal_to_sampled(game, result):
    for i, (state, row) in enumerate(rows(result, game)):
        real = Counter(joint(game, state, jmdp.Shock.of_sample(50 + i, j)) for j in range(3000))
        assert sum(abs(row[x] - real[x] / 3000) for x in row.keys() | real.keys()) / 2 < 0.06


def test_randomness_that_the_draws_do_not_explain_is_no_exact_table():
    """A step that treats other shocks than jmdp's own in another way; the trial of real shocks notices it."""

    def play(state, action, shock):
        return Step(float(shock.uniform() < 0.5) if type(shock) is jmdp.Shock else 7.0, 0, False)

    result = tabulate(Game(play, check=False), seed=0)
    assert not result.exact
    assert "do not explain" in repr(result)


# ------------------------------------------------------------------------------------------------- refusals


def test_refusals():
    walk = Game(lambda s, a, shock: Step(0.0, s + a, False))
    with pytest.raises(SimulatorError, match=r"more than 100 states, e\.g\. 100\. Give a larger max_states"):
        tabulate(walk, max_states=100)
    with pytest.raises(SettingsError, match=r"must be sampled, because a step calls random\(\).*give seed="):
        tabulate(Game(coin))
    with pytest.raises(SettingsError, match=r"its start cannot be enumerated: start calls shock\.uniform\(\)"):
        tabulate(jmdp.worlds.inventory(5).simulator)
    with pytest.raises(SettingsError, match="no discount"):
        tabulate(FunctionSimulator(lambda s, a, u: 0.0, lambda s, a, u: 0, 2, start=0))
    with pytest.raises(ModelError, match="discount is 1"):
        tabulate(FunctionSimulator(lambda s, a, u: 0.0, lambda s, a, u: 0, 2, start=0), discount=1.0)
    with pytest.raises(SettingsError, match="a state twice"):
        tabulate(walk, [0, 0])
    with pytest.raises(SimulatorError, match="finite list of actions"):
        tabulate(gymnasium.make("Pendulum-v1"), discount=0.9)
    with pytest.raises(SimulatorError, match="returned the reward nan"):
        tabulate(Game(lambda s, a, shock: Step(float("nan"), 0, False), check=False))
    for wrong in ({"samples": 0}, {"max_states": 0}, {"seed": -1}, {"confidence": 2}, {"samples": "many"}):
        with pytest.raises(SettingsError, match=next(iter(wrong))):
            tabulate(walk, **wrong)


def test_states_without_a_digest_are_refused():
    game = Game(lambda s, a, shock: Step(0.0, iter([1]), False), check=False)
    with pytest.raises(SimulatorError, match="cannot be inspected"):
        tabulate(game)
    game.digest = lambda state: 3
    with pytest.raises(SimulatorError, match=r"returned 3\. Return bytes"):
        tabulate(game)


def test_errors_of_a_step_say_where():
    def play(state, action, shock):
        return Step(0.0, state + 1, 1 / (3 - state) < 0)

    with pytest.raises(ZeroDivisionError) as raised:
        tabulate(Game(play))
    assert "in state 3" in raised.value.__notes__[0]


def test_copied_generators_are_not_enumerated():
    """The copy would draw real numbers, and rare outcomes would be missing from an "exact" table."""

    class Copied(jmdp.simulators.Simulator):
        actions = jmdp.simulators.action_labels(2)
        discount = 0.5

        def start(self, shock):
            return 0

        def step(self, state, action, shock):
            rng = copy.copy(shock.generator())
            return jmdp.simulators.Step(-100.0 if rng.integers(20) == 0 else 1.0 + action, 0, True)

    table = jmdp.tabulate(Copied(), seed=0, samples=200)
    assert not table.exact
    assert table.model.reward.min() == -100
