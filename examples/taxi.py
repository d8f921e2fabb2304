"""Taxi in the rain: the taxi slips at the same moments for every action."""

import gymnasium

import jmdp

env = gymnasium.make("Taxi-v4", is_rainy=True)
env.reset(seed=0)
print(jmdp.compare(env, policy="uniform", discount=0.9, seed=0, max_samples=1000))
