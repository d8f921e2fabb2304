"""The setting ``pool=…`` of methods and functions: a number of workers, a pool, or None."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jmdp.base.settings import short, whole_number
from jmdp.distribute.pools import Pool, SerialPool
from jmdp.errors import SettingsError

LONGEST_BLOCK = 3600.0
"""Seconds that a block may take in a study and for `jmdp gate`, which run unattended, unless the pool has a limit."""


@contextmanager
def pool_of(pool: int | Pool | None, time_limit: float | None = None) -> Iterator[Pool]:
    """Yield the pool that a setting describes. A pool that is made here is closed at the end; a given one is not.

    None and 1 run blocks in this process. A larger number starts as many worker processes. `time_limit` is for the
    blocks of a pool that has none.
    """
    pool = check_pool(pool)
    if isinstance(pool, Pool):
        own = pool.time_limit
        pool.time_limit = time_limit if own is None else own
        try:
            yield pool
        finally:
            pool.time_limit = own
        return
    if pool is None or pool == 1:
        yield SerialPool()
        return
    from jmdp.distribute.process_pool import ProcessPool

    with ProcessPool(pool, time_limit=time_limit) as made:
        yield made


def check_pool(pool: object) -> int | Pool | None:
    """Return a valid setting ``pool=…``; raise `SettingsError` for others."""
    if pool is None or isinstance(pool, Pool):
        return pool
    try:
        return whole_number("pool", pool, 1)
    except SettingsError:
        shown = pool.__name__ if isinstance(pool, type) else short(pool)
        raise SettingsError(
            f"pool is {shown}. Give a number of worker processes of at least 1, a pool such as jmdp.ProcessPool(4), or "
            "None to use this process only."
        ) from None
