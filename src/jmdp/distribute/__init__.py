"""Pools: where blocks of simulations run. Results do not depend on the pool or on its number of workers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from jmdp.distribute.pool_setting import check_pool, pool_of
from jmdp.distribute.pools import Pool, SerialPool

if TYPE_CHECKING:
    from jmdp.distribute.process_pool import ProcessPool

__all__ = ["Pool", "ProcessPool", "SerialPool", "check_pool", "pool_of"]


def __getattr__(name: str) -> object:
    """Import worker processes on first access."""
    if name == "ProcessPool":
        return import_module("jmdp.distribute.process_pool").ProcessPool
    raise AttributeError(f"module 'jmdp.distribute' has no attribute {name!r}")
