"""MinAtar Breakout in JAX: up to 50,000 rollouts of each action."""

import gymnax

import jmdp

env, params = gymnax.make("Breakout-MinAtar")
print(jmdp.compare(env, policy="uniform", discount=0.99, seed=0, max_samples=50_000))
