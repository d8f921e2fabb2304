"""Landing in wind, with the pilot that comes with Gymnasium: brake all the way, or fall first and save fuel?"""

import gymnasium
from gymnasium.envs.box2d.lunar_lander import heuristic

import jmdp

NOTHING, MAIN_ENGINE = 0, 2
env = gymnasium.make("LunarLander-v3", enable_wind=True)


def brake(seen):
    """Gymnasium's pilot."""
    return heuristic(env.unwrapped, seen)


def fall(seen):
    """The same without the main engine above a third of the height."""
    action = brake(seen)
    return NOTHING if action == MAIN_ENGINE and seen[1] > 0.5 else action


print(jmdp.compare_policies(env, {"brake": brake, "fall first": fall}, discount=1.0, horizon=1000, seed=0))
