"""Problems with known answers or known structure, ready to evaluate."""

from jmdp.worlds.anti_correlated_bandit import anti_correlated_bandit
from jmdp.worlds.coupled_reward_chain import coupled_reward_chain
from jmdp.worlds.inventory import inventory
from jmdp.worlds.windy_gridworld import lazy_windy_gridworld, windy_gridworld
from jmdp.worlds.world import LazyWorld, World

__all__ = [
    "LazyWorld",
    "World",
    "anti_correlated_bandit",
    "coupled_reward_chain",
    "inventory",
    "lazy_windy_gridworld",
    "windy_gridworld",
]
