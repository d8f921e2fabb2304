"""CartPole in JAX: thousands of pairs at once."""

import gymnax

import jmdp

env, params = gymnax.make("CartPole-v1")
print(jmdp.compare(env, policy="uniform", discount=0.99, seed=0, max_samples=100_000, precision=0.2))
