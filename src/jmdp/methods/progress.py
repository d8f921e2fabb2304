"""Progress bars: shown on a terminal, silent elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jmdp.arrays import Integers

_FIRST_SHOWN_AFTER = 1.0
"""Seconds of work before a bar appears: what is over sooner needs none."""


@contextmanager
def sweep_bar(name: str, shown: bool, exponent: int) -> Iterator[Callable[[int, float], None]]:
    """A bar that counts sweeps and shows the residual, times 2**exponent."""
    from tqdm import tqdm

    with tqdm(desc=name, unit=" sweep", disable=None if shown else True, delay=_FIRST_SHOWN_AFTER) as bar:

        def report(sweeps: int, residual: float) -> None:
            bar.set_postfix_str(f"residual {math.ldexp(residual, exponent):.2e}", refresh=False)
            bar.update(sweeps - bar.n)

        yield report


def state_bar(name: str, states: Integers, shown: bool) -> Iterator[int]:
    """Go through states with a bar that counts them."""
    from tqdm import tqdm

    yield from tqdm(states, desc=name, unit=" state", disable=None if shown else True, delay=_FIRST_SHOWN_AFTER)
