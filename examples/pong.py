"""Atari Pong: may the paddle wait until the ball is near, or must it follow the ball all the time?"""

import jmdp

NOOP, UP, DOWN = 0, 2, 3
BALL_X, PADDLE, BALL = 49, 51, 54  # where the memory has them; the paddle is on the right


def follow(memory):
    """Move to the height of the ball."""
    off = int(memory[PADDLE]) - int(memory[BALL])
    return NOOP if abs(off) <= 2 else UP if off > 0 else DOWN


def wait(memory):
    """Do so only while the ball is in the right half."""
    return follow(memory) if memory[BALL_X] > 128 else NOOP


pong = jmdp.simulators.ALESimulator("pong", sticky=0.25)
players = {"follow": follow, "wait": wait}
# The margin is one point: is waiting worse by more than that?
print(jmdp.compare_policies(pong, players, baseline="follow", margin=1, discount=1.0, horizon=200, seed=0))
