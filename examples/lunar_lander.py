"""LunarLander with wind: its physics cannot be copied, so states are restored by replaying actions from the reset."""

import gymnasium

import jmdp

env = gymnasium.make("LunarLander-v3", enable_wind=True)
try:
    jmdp.compare(env, policy="uniform", discount=0.97, seed=0)
except jmdp.errors.SimulatorError as refusal:
    print(refusal, end="\n\n")
lander = jmdp.simulators.GymnasiumSimulator(env, snapshot="replay")
print(jmdp.compare(lander, policy="uniform", discount=0.9, seed=0, max_samples=300))
