"""Built-in problems with known answers or known structure."""

from jmdp.worlds.bandits_and_chains import anti_correlated_bandit, coupled_reward_chain
from jmdp.worlds.inventory import InventorySimulator, inventory, inventory_with_lead_time
from jmdp.worlds.queue_admission import QueueSimulator, queue_admission
from jmdp.worlds.windy_gridworld import lazy_windy_gridworld, windy_gridworld
from jmdp.worlds.world import LazyWorld, World

__all__ = [
    "InventorySimulator",
    "LazyWorld",
    "QueueSimulator",
    "World",
    "anti_correlated_bandit",
    "coupled_reward_chain",
    "inventory",
    "inventory_with_lead_time",
    "lazy_windy_gridworld",
    "queue_admission",
    "windy_gridworld",
]
