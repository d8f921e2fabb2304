"""CartPole: nothing is left to chance but the policy, and that can be shared too."""

import gymnasium

import jmdp

env = gymnasium.make("CartPole-v1")
env.reset(seed=0)
shared = jmdp.Synchronous(policy_luck="shared")
print(jmdp.compare(env, policy="uniform", discount=0.95, seed=0, coupling=shared))
