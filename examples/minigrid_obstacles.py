"""MiniGrid: the obstacles move the same way for every action."""

import gymnasium
import minigrid  # noqa: F401 (registers its environments)

import jmdp

env = gymnasium.make("MiniGrid-Dynamic-Obstacles-6x6-v0")
env.reset(seed=0)
print(jmdp.compare(env, policy="uniform", discount=0.95, seed=0, max_samples=1000))
