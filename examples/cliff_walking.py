"""A slippery path with a cliff beside it and a wall on the other side: how large a detour is worth it?"""

import gymnasium
import numpy as np

import jmdp

UP, RIGHT, DOWN = 0, 1, 2


def walk(row):
    """Go to this row, along it, and down to the goal in the corner: an action for each of 4 × 12 cells."""
    rows, columns = np.divmod(np.arange(48), 12)
    to_row = np.where(rows > row, UP, np.where(rows < row, DOWN, RIGHT))
    return np.where(columns == 11, DOWN, to_row)


env = gymnasium.make("CliffWalking-v1", is_slippery=True)
walks = {"beside the cliff": walk(2), "one row away": walk(1), "along the wall": walk(0)}
print(jmdp.compare_policies(env, walks, discount=0.99, seed=0))
