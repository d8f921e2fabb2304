"""Swing up a pendulum: which of the torques −2, 0 and 2, and how sure is that, at every angle?"""

import gymnasium
import numpy as np

import jmdp

torques = np.array([[-2.0], [0.0], [2.0]], np.float32)
env = gymnasium.wrappers.TransformAction(
    gymnasium.make("Pendulum-v1"), lambda a: torques[a], gymnasium.spaces.Discrete(3)
)
pendulum = jmdp.simulators.GymnasiumSimulator(env, action_names=["left", "none", "right"])
method = jmdp.LearnedMoments(seed=0, max_steps=300_000)
learned = jmdp.evaluate(pendulum, "uniform", jmdp.Synchronous(), method, discount=0.9)
print(learned)
print(learned.at(pendulum.reset(0)).gap(0, "left", "right"))
