"""Pendulum with the discrete torques −2, 0 and 2: joint moments learned from a thousand paired rollouts."""

import gymnasium
import numpy as np

import jmdp
from jmdp.methods.neural_gram import Lookahead

torques = np.array([[-2.0], [0.0], [2.0]], np.float32)
env = gymnasium.wrappers.TransformAction(
    gymnasium.make("Pendulum-v1"), lambda a: torques[a], gymnasium.spaces.Discrete(3)
)
pendulum = jmdp.simulators.GymnasiumSimulator(env, action_names=["left", "none", "right"])
coin = jmdp.Synchronous(policy_luck="shared")
settings = jmdp.NeuralGram(seed=0, visits=500, length=22, updates=500, mean_rate=1.0)
learned = jmdp.evaluate(pendulum, "uniform", coin, settings, discount=0.9)
print(learned)
state = pendulum.reset(0)
print(learned.at(state).gap(0, "left", "right"))
print(learned.at(state, Lookahead(steps=8, repeats=16)).gap(0, "left", "right"))
