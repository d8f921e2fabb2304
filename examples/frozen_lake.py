"""One step from the goal, on ice that slips the same way for every action: walk at it, or aim at the wall?"""

import gymnasium

import jmdp

env = gymnasium.make("FrozenLake-v1")
env.reset(seed=0)
env.unwrapped.s = 14  # the goal is to the right, the wall below
careful = [0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]  # the best action of each cell
print(jmdp.compare(env, policy=careful, discount=0.99, seed=0))
