"""Highway: all actions receive the same traffic."""

import gymnasium
import highway_env  # noqa: F401 (registers its environments)

import jmdp

env = gymnasium.make("highway-fast-v0", config={"vehicles_count": 5})
env.reset(seed=0)
print(jmdp.compare(env, policy=lambda seen, rng: rng.integers(5), discount=0.7, seed=0, max_samples=96))
