"""CartPole: only the policy is random, and its random numbers can be shared too."""

import gymnasium

import jmdp

env = gymnasium.make("CartPole-v1")
env.reset(seed=0)
shared = jmdp.Synchronous(policy_luck="shared")
print(jmdp.compare(env, policy="uniform", discount=0.95, seed=0, coupling=shared))
