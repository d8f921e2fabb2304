"""Atari Freeway: should the chicken wait for gaps between the cars, or just run?"""

import jmdp

WAIT, UP = 0, 1
CHICKEN, CARS = 14, 108  # where the memory has the height of the chicken and the ten cars
SPEED = [0.8, 1, 1.3, 2, 4, -4, -2, -1.3, -1, -0.8]  # of the cars, pixels a step


def look(memory):
    """Wait if a car is in the lane ahead, or arrives there within six steps."""
    lane = (int(memory[CHICKEN]) - 4) // 16
    if not 0 <= lane <= 9:
        return UP
    arrives = (44 - int(memory[CARS + lane])) / SPEED[lane]
    return WAIT if -8 / abs(SPEED[lane]) <= arrives <= 6 else UP


freeway = jmdp.simulators.ALESimulator("freeway", sticky=0.25)
policies = {"wait for gaps": look, "just run": lambda memory: UP}
print(jmdp.compare_policies(freeway, policies, discount=1.0, horizon=300, seed=0))
