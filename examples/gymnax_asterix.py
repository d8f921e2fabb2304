"""MinAtar Asterix in JAX: wait until the treasure comes, or go for it?"""

import gymnax
import jax.numpy as jnp

import jmdp

MOVES = jnp.array([0, 2, 4])  # stay, up, down


def near(seen):
    """Whether there is an enemy within three cells, and treasure, in this row and those above and below."""
    y, x = jnp.unravel_index(seen[:, :, 0].argmax(), (10, 10))
    rows = jnp.clip(y + jnp.array([0, -1, 1]), 1, 8)
    beside = jnp.abs(jnp.arange(10) - x) <= 3
    return (seen[:, :, 1] * beside).any(axis=1)[rows], seen[:, :, 3].any(axis=1)[rows]


def wait(seen):
    """Move only to avoid an enemy."""
    enemy, _ = near(seen)
    return MOVES[jnp.argmin(enemy)]


def go(seen):
    """Avoid enemies too, and otherwise move to a row with treasure."""
    enemy, treasure = near(seen)
    return MOVES[jnp.argmax(treasure - 2.0 * enemy)]


env, params = gymnax.make("Asterix-MinAtar")
print(jmdp.compare_policies(env, {"wait": wait, "go": go}, discount=1.0, horizon=200, seed=0))
