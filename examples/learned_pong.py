"""Pong from its RAM, trained for about a minute: read the calibration before the numbers."""

import jmdp
from jmdp.methods.neural_gram import Lookahead

pong = jmdp.simulators.ALESimulator("pong", clip_rewards=True)
settings = jmdp.NeuralGram(seed=0, visits=400, updates=300, held_out=32)
learned = jmdp.evaluate(pong, "uniform", jmdp.Synchronous(), settings, discount=0.9)
print(learned)
state = pong.start(jmdp.Shock.of_sample(0, 0))
for t in range(30):
    state = pong.step(state, "NOOP", jmdp.Shock.of_sample(0, t)).state
print(learned.at(state).gap(0, "RIGHT", "LEFT"))
print(learned.at(state, Lookahead()).gap(0, "RIGHT", "LEFT"))
