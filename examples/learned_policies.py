"""How much more than the old policy does a new one earn from any state? Learned once, and simulated from one state."""

import gymnasium
import numpy as np

import jmdp


def angle(seen):
    """Chances of left and right by the angle of the pole."""
    right = 1 / (1 + np.exp(-8 * seen[2]))
    return [1 - right, right]


def angle_and_speed(seen):
    """Chances of left and right by the angle of the pole and its speed."""
    right = 1 / (1 + np.exp(-8 * (seen[2] + 0.5 * seen[3])))
    return [1 - right, right]


env = gymnasium.make("CartPole-v1")
rules = {"old": angle, "new": angle_and_speed}
coin = jmdp.Synchronous(policy_luck="shared")  # both policies invert the same uniform numbers
method = jmdp.LearnedMoments(seed=0, max_steps=200_000)
learned = jmdp.evaluate(env, rules, coin, method, discount=0.9)
state = learned.simulator.reset(0)
print(learned.at(state).gap(0, "new", "old"))
print(jmdp.compare_policies(learned.simulator, rules, starts=[state], coupling=coin, seed=0, discount=0.9, samples=400))
print(learned)
