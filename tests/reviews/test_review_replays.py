"""Replays with the action unchanged are the episode; episodes are those of compare_policies."""

from __future__ import annotations

import numpy as np
import pytest
from gallery_replays import CASES, replayed
from review_worlds import climb, erratic, gymnasium_table, walk

import jmdp

QUICK = ("own_simulator", "frozen_lake", "taxi", "blackjack", "cart_pole", "learned_gymnasium")


@pytest.mark.parametrize("name", QUICK)
def test_a_replay_with_the_taken_action_is_the_episode(name):
    if name != "own_simulator":
        pytest.importorskip("gymnasium")
    steps, wrong, compared = replayed(name, steps=6, horizon=8)
    assert wrong == 0
    assert compared >= steps


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(CASES) - set(QUICK) - {"half_cheetah, random"}))
def test_a_replay_with_the_taken_action_is_the_episode_in_the_gallery(name):
    assert replayed(name)[1] == 0


def test_a_planted_difference_of_replays_is_seen(monkeypatch):
    """Replays with keys of the next step are other episodes."""
    from jmdp.reviews.trajectory import Player

    right = Player.shock
    one = jmdp.review(
        walk(), climb, seed=0, discount=0.9, horizon=8, method=jmdp.reviews.RolloutValues(2), progress=False
    )
    same = one.what_if(0, one.actions[one.taken[0]])
    monkeypatch.setattr(Player, "shock", lambda self, episode, t: right(self, episode, t + 1))
    other = one.what_if(0, one.actions[one.taken[0]])
    n = len(one)
    assert same.rewards[:n].tobytes() == one.trajectory.rewards.tobytes()
    assert other.rewards[:n].tobytes() != one.trajectory.rewards.tobytes()


@pytest.mark.parametrize("reference", [climb, erratic])
def test_hindsight_is_the_return_of_what_if(reference):
    one = jmdp.review(
        walk(),
        erratic,
        reference=reference,
        seed=3,
        discount=0.9,
        horizon=8,
        method=jmdp.reviews.RolloutValues(2),
        progress=False,
    )
    for t in range(len(one)):
        for a, name in enumerate(one.actions):
            assert one.hindsight[t, a] == one.what_if(t, name).total(0.9)


def upright(seen):
    return int(seen[2] + 0.3 * seen[3] > 0)


def erratic_lake(cell, rng):
    return int(rng.integers(4)) if rng.random() < 0.3 else int(gymnasium_table("FrozenLake-v1")[2][int(cell)])


@pytest.mark.parametrize(
    ("name", "policy", "discount"), [("FrozenLake-v1", erratic_lake, 0.95), ("CartPole-v1", upright, 1.0)]
)
def test_episodes_are_samples_of_compare_policies(name, policy, discount):
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make(name)
    env.reset(seed=0)
    compared = jmdp.compare_policies(
        env, {"policy": policy, "other": lambda seen: 0}, seed=5, discount=discount, samples=16,
        horizon=50, progress=False,
    )  # fmt: skip
    env = gymnasium.make(name)
    method = jmdp.reviews.LookaheadValues(lambda seen: 0.0, samples=1)
    numbers = [0, 3, 7, 11]
    settings = {"seed": 5, "discount": discount, "horizon": 50, "episodes": numbers, "method": method}
    for one in jmdp.review(env, policy, progress=False, **settings):
        assert one.earned == compared.summary.samples.returns[one.episode, 0]


def test_an_episode_does_not_depend_on_the_others_or_the_window():
    settings = {"seed": 2, "discount": 1.0, "horizon": 9, "method": jmdp.reviews.RolloutValues(4), "progress": False}
    several = jmdp.review(walk(), erratic, episodes=[4, 1, 6], **settings)
    alone = jmdp.review(walk(), erratic, episode=1, **settings)
    part = jmdp.review(walk(), erratic, episode=1, steps=range(1, 3), **settings)
    assert several[1].trajectory.rewards.tobytes() == alone.trajectory.rewards.tobytes()
    for one, other in zip(several[1].values, alone.values, strict=True):
        assert np.array_equal(one.action_values, other.action_values)
    assert np.array_equal(part.values[0].action_values, alone.values[1].action_values)
    assert part.trajectory.actions == alone.trajectory.actions[1:3]
    assert np.array_equal(part.hindsight, alone.hindsight[1:3])


def test_a_policy_with_memory_has_a_reference():
    class Pole:
        """Plays actions in turn, and begins again in each episode."""

        def reset(self):
            self.calls = 0

        def __call__(self, seen):
            self.calls = getattr(self, "calls", 0) + 1
            return self.calls % 2

    settings = {"seed": 2, "discount": 0.9, "horizon": 9, "method": jmdp.reviews.RolloutValues(2), "progress": False}
    one = jmdp.review(walk(), Pole(), reference=climb, **settings)
    assert one.trajectory.actions == [(t + 1) % 2 for t in range(len(one))]
    with pytest.raises(jmdp.errors.PolicyError):
        jmdp.review(walk(), Pole(), **settings)
