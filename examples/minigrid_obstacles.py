"""Balls move about at random: what is it worth to look one cell ahead?"""

import gymnasium
import minigrid  # noqa: F401 (registers its environments)

import jmdp

WALL, BALL = 2, 6
LEFT, RIGHT, FORWARD = 0, 1, 2


def walk(seen, avoided):
    """Walk to the lower right corner; turn to the other way that leads there if something is ahead."""
    if seen["image"][3, 5, 0] not in avoided:
        return FORWARD
    return RIGHT if seen["direction"] == 0 else LEFT


env = gymnasium.make("MiniGrid-Dynamic-Obstacles-6x6-v0")
walkers = {"look ahead": lambda seen: walk(seen, (WALL, BALL)), "walk on": lambda seen: walk(seen, (WALL,))}
print(jmdp.compare_policies(env, walkers, discount=0.99, seed=0))
