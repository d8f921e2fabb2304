"""CartPole in JAX: joint moments of every state learned at once, and a record of how far to trust them."""

import gymnax

import jmdp

env, params = gymnax.make("CartPole-v1")
coin = jmdp.Synchronous(policy_luck="shared")  # the policy's coin is all the luck there is
settings = jmdp.NeuralGram(seed=0, visits=300, length=44, updates=500, mean_rate=1.0, held_out=24)
learned = jmdp.evaluate(env, "uniform", coin, settings, discount=0.9)
print(learned)
state = learned.simulator.start(jmdp.Shock.of_sample(0, 0))
print(learned.at(state).gap(0, 0, 1))
