"""Built-in problems with known answers or known structure."""

from jmdp.worlds.anti_correlated_bandit import anti_correlated_bandit
from jmdp.worlds.coupled_reward_chain import coupled_reward_chain
from jmdp.worlds.inventory import inventory
from jmdp.worlds.inventory_simulator import InventorySimulator
from jmdp.worlds.inventory_with_lead_time import inventory_with_lead_time
from jmdp.worlds.queue_admission import queue_admission
from jmdp.worlds.queue_simulator import QueueSimulator
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
