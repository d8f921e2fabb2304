"""Which push earns more, and how much does that vary: from every state, without more simulation?"""

import gymnax

import jmdp

env, params = gymnax.make("CartPole-v1")
coin = jmdp.Synchronous(policy_luck="shared")  # only the policy is random
method = jmdp.LearnedMoments(seed=0, max_steps=200_000)
learned = jmdp.evaluate(env, "uniform", coin, method, discount=0.9)
print(learned)
state = learned.simulator.start(jmdp.Shock.of_sample(0, 0))
print(learned.at(state).gap(0, 0, 1))
