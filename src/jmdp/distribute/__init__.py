"""Pools: where blocks of simulations run. Results do not depend on the pool or on its number of workers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from jmdp.distribute.pool_setting import check_pool, pool_of
from jmdp.distribute.pools import Pool, SerialPool

if TYPE_CHECKING:
    from jmdp.distribute.process_pool import ProcessPool
    from jmdp.distribute.ray_pool import RayPool

__all__ = ["Pool", "ProcessPool", "RayPool", "SerialPool", "check_pool", "pool_of"]

_MODULES = {"ProcessPool": "process_pool", "RayPool": "ray_pool"}


def __getattr__(name: str) -> object:
    """Import pools of other processes on first access."""
    if name in _MODULES:
        return getattr(import_module(f"jmdp.distribute.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'jmdp.distribute' has no attribute {name!r}")
