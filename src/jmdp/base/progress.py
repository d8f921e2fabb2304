"""Progress bars: shown on a terminal, silent elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jmdp.base.arrays import Integers

_FIRST_SHOWN_AFTER = 1.0
"""Seconds of work before a bar appears; shorter work shows none."""


@contextmanager
def sweep_bar(
    name: str, shown: bool, restore: Callable[[float], float] = float
) -> Iterator[Callable[[int, float, float], None]]:
    """Show a bar that counts sweeps, with the residual (rescaled by `restore`) and the estimated time left.

    The residual falls by about the same factor every second, so the ratio of time left to time elapsed is estimated by
    that of the orders of magnitude left to those done.
    """
    from tqdm import tqdm

    start, first = time.monotonic(), math.nan
    with tqdm(desc=name, unit=" sweep", disable=None if shown else True, delay=_FIRST_SHOWN_AFTER) as bar:

        def report(sweeps: int, residual: float, aim: float) -> None:
            nonlocal first
            first = residual if math.isnan(first) else first
            left = ""
            if 0 < aim < residual < first:
                gone, to_go = math.log1p((first - residual) / residual), math.log(residual) - math.log(aim)
                seconds = (time.monotonic() - start) * to_go / gone
                left = f", {bar.format_interval(seconds)} left"
            bar.set_postfix_str(f"residual {restore(residual):.2e}{left}", refresh=False)
            bar.update(sweeps - bar.n)

        yield report


@contextmanager
def count_bar(name: str, shown: bool, start: int, end: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show a bar that counts, up to `end` if it is known."""
    from tqdm import tqdm

    off = None if shown else True
    with tqdm(desc=name, initial=start, total=end, unit_scale=True, disable=off, delay=_FIRST_SHOWN_AFTER) as bar:

        def report(count: int) -> None:
            bar.update(count - bar.n)

        yield report


def state_bar(name: str, states: Integers, shown: bool) -> Iterator[int]:
    """Iterate over states with a progress bar."""
    from tqdm import tqdm

    yield from tqdm(states, desc=name, unit=" state", disable=None if shown else True, delay=_FIRST_SHOWN_AFTER)
