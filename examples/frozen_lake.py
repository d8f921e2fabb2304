"""FrozenLake: the ice slips the same way for every action."""

import gymnasium

import jmdp

env = gymnasium.make("FrozenLake-v1")
env.reset(seed=0)
print(
    jmdp.compare(env, policy=lambda cell: [0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0][cell], discount=0.99, seed=0)
)
