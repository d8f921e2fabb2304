"""Pong, two seconds into a game, with sticky actions that repeat at the same moments for every action."""

import jmdp

pong = jmdp.simulators.ALESimulator("pong", sticky=0.25)
state = pong.start(jmdp.Shock.of_sample(0, 0))
for t in range(30):
    state = pong.step(state, "NOOP", jmdp.Shock.of_sample(0, t)).state
moves = ["NOOP", "RIGHT", "LEFT"]
print(jmdp.compare(pong, "uniform", state=state, actions=moves, discount=0.9, seed=0, max_samples=200))
