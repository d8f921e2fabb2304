"""A swimmer with two joints, in MuJoCo: should it bend them together, or one after the other?"""

import gymnasium
import numpy as np

import jmdp


def stroke(lag):
    """Torques that swing once in 42 steps; the joint near the tail is behind by so much of a swing."""
    return lambda seen: np.sin(0.15 * seen[-1] - 2 * np.pi * np.array([0, lag])).astype(np.float32)


swimmer = gymnasium.make("Swimmer-v5", max_episode_steps=250)
env = gymnasium.wrappers.TimeAwareObservation(swimmer)  # the last number is the step
strokes = {"wave to the tail": stroke(1 / 8), "both together": stroke(0), "wave to the head": stroke(-1 / 8)}
print(jmdp.compare_policies(env, strokes, discount=1.0, seed=0))
