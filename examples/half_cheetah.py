"""HalfCheetah: two torques, followed by a random policy with the same noise for both."""

import gymnasium
import numpy as np

import jmdp

env = gymnasium.make("HalfCheetah-v5")
env.reset(seed=0)
torques = {"push": np.full(6, 0.5, np.float32), "pull": np.full(6, -0.5, np.float32)}


def noise(seen, rng):
    """Return uniformly random torques."""
    return rng.uniform(-1, 1, 6).astype(np.float32)


shared = jmdp.Synchronous(policy_luck="shared")
print(jmdp.compare(env, policy=noise, actions=torques, discount=0.9, seed=0, coupling=shared, max_samples=500))
