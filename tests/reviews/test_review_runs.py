"""Reviews in worker processes, interrupted by Ctrl-C, pickled, and with continuous actions."""

from __future__ import annotations

import os
import pickle
import signal

import numpy as np
import pytest
from review_worlds import climb, erratic, one_number, walk, walk_next, walk_over, walk_reward

import jmdp

SETTINGS = {"seed": 2, "discount": 0.9, "horizon": 8, "progress": False}


def contents(review):
    """All numbers of a review, and its text."""
    arrays = [review.trajectory.rewards, review.hindsight]
    arrays += [np.hstack([x.action_values, x.gap_errors, x.value_error, x.skill_error]) for x in review.values]
    return [x.tobytes() for x in arrays], str(review)


@pytest.mark.parametrize("method", [jmdp.reviews.RolloutValues(4), jmdp.reviews.LookaheadValues(one_number, 2)])
def test_a_pool_does_not_change_the_review(method, two_workers):
    alone, shared = (
        jmdp.review(walk(), erratic, reference=climb, method=method, pool=pool, **SETTINGS)
        for pool in (None, two_workers)
    )
    assert contents(alone) == contents(shared)


def test_a_pool_does_not_change_reviews_with_fitted_values(two_workers):
    pools = (None, two_workers)
    alone, shared = (jmdp.review(walk(), erratic, episodes=6, pool=pool, **SETTINGS) for pool in pools)
    assert str(alone) == str(shared)
    assert [contents(one) for one in alone] == [contents(one) for one in shared]


class Pressed:
    """Next state of the walk; presses Ctrl-C in one of its calls."""

    def __init__(self, at):
        self.left = at

    def __call__(self, state, action, u):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return walk_next(state, action, u)


def pressed(at, **settings):
    simulator = jmdp.simulators.FunctionSimulator(walk_reward, Pressed(at), 2, start=2, terminal=walk_over)
    simulator.check = False
    return jmdp.review(simulator, climb, method=jmdp.reviews.RolloutValues(64), **SETTINGS, **settings)


def calls():
    counter = Pressed(0)
    simulator = jmdp.simulators.FunctionSimulator(walk_reward, counter, 2, start=2, terminal=walk_over)
    simulator.check = False
    jmdp.review(simulator, climb, method=jmdp.reviews.RolloutValues(64), **SETTINGS)
    return -counter.left


def test_ctrl_c_returns_the_steps_so_far():
    whole = jmdp.review(walk(), climb, method=jmdp.reviews.RolloutValues(64), **SETTINGS)
    part = pressed(int(calls() * 0.75))
    assert part.outcome is jmdp.results.Outcome.INTERRUPTED
    assert 0 < len(part) < len(whole)
    assert not part.trajectory.terminated
    assert part.trajectory.rewards.tobytes() == whole.trajectory.rewards[: len(part)].tobytes()
    for one, other in zip(part.values[:-1], whole.values[: len(part)], strict=True):
        assert np.array_equal(one.action_values, other.action_values)
    assert f"range({len(part)}, " in str(part)


def test_ctrl_c_before_two_steps_raises():
    with pytest.raises(KeyboardInterrupt):
        pressed(5)


def test_ctrl_c_keeps_whole_episodes():
    several = pressed(int(calls() * 2.5), episodes=6)
    assert 1 <= len(several) < 6
    alone = jmdp.review(walk(), climb, method=jmdp.reviews.RolloutValues(64), episodes=6, **SETTINGS)
    for one, other in zip(several, alone, strict=False):
        assert one.trajectory.rewards.tobytes() == other.trajectory.rewards.tobytes()
        assert one.outcome is not jmdp.results.Outcome.INTERRUPTED


def test_reviews_can_be_pickled():
    one = jmdp.review(walk(), erratic, method=jmdp.reviews.RolloutValues(4), **SETTINGS)
    again = pickle.loads(pickle.dumps(one))
    assert contents(again) == contents(one)
    with pytest.raises(jmdp.errors.UnavailableError, match="pickle"):
        again.what_if(0, 0)
    several = jmdp.review(walk(), erratic, episodes=5, **SETTINGS)
    twin = pickle.loads(pickle.dumps(several))
    assert str(twin) == str(several)
    with pytest.raises(jmdp.errors.UnavailableError):
        twin.by(str)


def test_a_review_with_an_unpicklable_policy_can_be_pickled():
    one = jmdp.review(walk(), lambda state: 1, method=jmdp.reviews.RolloutValues(2), **SETTINGS)
    assert contents(pickle.loads(pickle.dumps(one))) == contents(one)


def swing(seen):
    return np.clip(np.asarray(seen[2:3]), -2, 2).astype(np.float32)


def wobble(seen, rng):
    return rng.uniform(-2, 2, 1).astype(np.float32)


def pendulum(policy, **settings):
    gymnasium = pytest.importorskip("gymnasium")
    settings = {"actions": [[-2.0], [2.0]], "method": jmdp.reviews.RolloutValues(2), **settings}
    return jmdp.review(gymnasium.make("Pendulum-v1"), policy, **{**SETTINGS, "steps": range(4)}, **settings)


def test_continuous_actions():
    one = pendulum(swing)
    assert [*one.actions] == ["taken", *[*one.actions][1:]]
    assert len(one.actions) == 3
    assert one.hindsight.shape == (4, 3)
    assert {decision.fortune for decision in one.decisions} == {"none"}
    assert [float(x) for x in one.hindsight[:, 0]] == [one.what_if(t, "taken").total(0.9) for t in range(4)]


def test_continuous_actions_with_a_reference():
    one = pendulum(wobble, reference=swing)
    assert list(one.actions)[:2] == ["taken", "reference"]
    assert any(float(decision.skill) != 0 for decision in one.decisions)
    assert one.what_if(1, "reference").actions[0] == swing(
        one.replay.player.simulator.observe(one.trajectory.states[1])
    )


@pytest.mark.parametrize("method", [jmdp.reviews.RolloutValues(2), jmdp.reviews.LookaheadValues(one_number)])
def test_a_random_reference_with_continuous_actions_is_refused(method):
    with pytest.raises(jmdp.errors.SettingsError, match="without randomness"):
        pendulum(wobble, method=method)
