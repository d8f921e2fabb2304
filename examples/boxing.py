"""Atari Boxing, from a state in the middle of a round."""

import jmdp

boxing = jmdp.simulators.ALESimulator("boxing", sticky=0.25)
state = boxing.start(jmdp.Shock.of_sample(0, 0))
for t in range(120):
    state = boxing.step(state, t % 18, jmdp.Shock.of_sample(0, t)).state
moves = ["NOOP", "FIRE", "UP", "LEFT"]
print(jmdp.compare(boxing, "uniform", state=state, actions=moves, discount=0.9, seed=0, max_samples=200))
