"""Blackjack: stick or hit, with the same deck."""

import gymnasium

import jmdp

env = gymnasium.make("Blackjack-v1")
env.reset(seed=4)
print(jmdp.compare(env, policy=lambda hand: int(hand[0] < 17), discount=1.0, horizon=20, seed=0))
