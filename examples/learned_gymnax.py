"""CartPole in JAX: learn the joint moments of all states, and check them in held-out states."""

import gymnax

import jmdp

env, params = gymnax.make("CartPole-v1")
coin = jmdp.Synchronous(policy_luck="shared")  # only the policy is random
settings = jmdp.NeuralGram(seed=0, visits=300, length=44, updates=500, mean_rate=1.0, held_out=24)
learned = jmdp.evaluate(env, "uniform", coin, settings, discount=0.9)
print(learned)
state = learned.simulator.start(jmdp.Shock.of_sample(0, 0))
print(learned.at(state).gap(0, 0, 1))
