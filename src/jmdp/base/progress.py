"""Progress bars: shown on a terminal; elsewhere sampling prints a line every minute, and all else is silent."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jmdp.base.arrays import Integers
from jmdp.base.settings import boolean_value

_FIRST_SHOWN_AFTER = 1.0
"""Seconds of work before a bar appears; shorter work shows none."""

_LINE_EVERY = 60.0
"""Seconds between two lines where there is no terminal."""


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
    off = not (shown and _on_terminal())
    with tqdm(desc=name, unit=" sweep", disable=off, delay=_FIRST_SHOWN_AFTER) as bar:

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

    off = not (boolean_value("progress", shown) and _on_terminal())
    with tqdm(desc=name, initial=start, total=end, unit_scale=True, disable=off, delay=_FIRST_SHOWN_AFTER) as bar:

        def report(count: int) -> None:
            bar.update(count - bar.n)

        yield report


@contextmanager
def status_bar(
    name: str,
    shown: bool,
    start: int,
    end: int,
    seconds: float | None = None,
    unit: str = "samples",
    ends_early: bool = False,
) -> Iterator[Callable[..., None]]:
    """Show a bar that counts, with a status text; plain lines once a minute where there is no terminal.

    `seconds` is the time limit, if there is one. If counting probably `ends_early`, the time to its end is not shown.
    The function to call has the arguments count, status and warning; a warning is shown in a line of its own, once.
    """
    from tqdm import tqdm

    shown = boolean_value("progress", shown)
    begun = said = time.monotonic()
    terminal = _on_terminal()
    off, warned = not (shown and terminal), False
    layout = "{desc}: {n_fmt} of at most {total_fmt} [{elapsed}, {rate_fmt}{postfix}]" if ends_early else None
    with tqdm(
        desc=name, initial=start, total=end, unit_scale=True, disable=off, delay=_FIRST_SHOWN_AFTER, bar_format=layout
    ) as bar:

        def report(count: int, status: str, warning: str = "") -> None:
            nonlocal said, warned
            bar.set_postfix_str(status, refresh=False)
            bar.update(count - bar.n)
            now = time.monotonic()
            if not shown or sys.stderr is None:
                return
            if warning and not warned and now - begun >= _FIRST_SHOWN_AFTER:
                warned = True
                tqdm.write(f"{name}: {warning}", file=sys.stderr)
            if not terminal and now - said >= _LINE_EVERY:
                said, past = now, now - begun
                left = math.inf if ends_early else past * (end - count) / max(1, count - start)
                left = left if seconds is None else min(left, max(0.0, seconds - past))
                about = f"at most {tqdm.format_interval(left)} left" if left < math.inf else ""
                parts = [f"{count:,} of at most {end:,} {unit}", status, about]
                print(f"{name}: {'; '.join(filter(None, parts))}", file=sys.stderr, flush=True)

        yield report


def state_bar(name: str, states: Integers, shown: bool) -> Iterator[int]:
    """Iterate over states with a progress bar."""
    from tqdm import tqdm

    off = not (shown and _on_terminal())
    yield from tqdm(states, desc=name, unit=" state", disable=off, delay=_FIRST_SHOWN_AFTER)


def _on_terminal() -> bool:
    """Whether stderr is a terminal. A program without a console has no stderr, or a closed one."""
    return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()
