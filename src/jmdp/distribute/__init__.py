"""Pools: where blocks of simulations run. Results do not depend on the pool or on its number of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmdp.base import on_first_use
from jmdp.distribute.pools import Pool, SerialPool
from jmdp.distribute.process_pool import check_pool, pool_of

if TYPE_CHECKING:
    from jmdp.distribute.process_pool import ProcessPool
    from jmdp.distribute.ray_pool import RayPool

__all__ = ["Pool", "ProcessPool", "RayPool", "SerialPool", "check_pool", "pool_of"]

__getattr__, __dir__ = on_first_use(__name__, {"ProcessPool": "process_pool", "RayPool": "ray_pool"})
