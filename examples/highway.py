"""A slow car is ahead: brake and stay behind it, or change lanes?"""

import gymnasium
import highway_env  # noqa: F401 (registers its environments)

import jmdp

LEFT, KEEP, RIGHT, FASTER, SLOWER = range(5)


def taken(cars, side):
    """Whether another car is ahead or just behind in the lane on this side: −1 left, 0 the own lane, 1 right."""
    return any(there and abs(y - side / 3) < 0.2 and -0.08 < x < 0.2 for there, x, y, *_ in cars[1:])


def brake(cars):
    """Accelerate if the lane is free, else brake."""
    return SLOWER if taken(cars, 0) else FASTER


def overtake(cars):
    """Change to a free lane instead of braking, if there is one."""
    lane = round(3 * cars[0][2])  # 0 is the left one of three
    if taken(cars, 0) and lane > 0 and not taken(cars, -1):
        return LEFT
    if taken(cars, 0) and lane < 2 and not taken(cars, 1):
        return RIGHT
    return brake(cars)


env = gymnasium.make("highway-fast-v0", config={"vehicles_count": 4})
print(jmdp.compare_policies(env, {"brake": brake, "overtake": overtake}, discount=1.0, horizon=12, seed=0))
