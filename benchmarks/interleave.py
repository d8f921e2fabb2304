"""Contenders timed turn by turn in one process, so that all of them meet the same machine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.report import Row

ROUNDS = 5
FAST, FAST_ROUNDS = 1.0, 15
"""Seconds a run below which a contender takes part in more rounds: short runs are disturbed more."""

SLOW = 60.0
"""Seconds a run from which a contender takes part in the first rounds only."""

SLOW_ROUNDS = 1
SHORTEST_TURN = 0.05
"""Seconds a turn lasts at least: a shorter contender is run several times in it, and its time is their mean."""


@dataclass(frozen=True)
class Ratio:
    """How many times longer one contender takes than another."""

    best: float  # of the best times of both
    low: float  # least and most of the ratios of single rounds
    high: float

    def times(self, count: float) -> Ratio:
        """Return the ratio of `count` runs of the first to one of the second."""
        return Ratio(count * self.best, count * self.low, count * self.high)

    def spread(self) -> str:
        """Words for the ratios of single rounds."""
        return f"{self.low:.3g} … {self.high:.3g}"


@dataclass(frozen=True)
class Timings:
    """Seconds of each contender in each round it took part in; all took part in the first rounds."""

    seconds: Mapping[str, list[float]]

    def best(self, name: str) -> float:
        """Return the shortest time of a contender: what it takes where nothing disturbs it."""
        return min(self.seconds[name])

    def ratio(self, name: str, to: str) -> Ratio:
        """Compare two contenders, best with best and round with round."""
        rounds = [a / b for a, b in zip(self.seconds[name], self.seconds[to], strict=False)]
        return Ratio(self.best(name) / self.best(to), min(rounds), max(rounds))

    def rows(self, to: str) -> list[Row]:
        """One row for each contender, with its ratio to the contender `to`."""
        return [
            {
                "contender": name,
                "best, s": self.best(name),
                "rounds": len(seconds),
                f"ratio to {to}": self.ratio(name, to).best,
                "in single rounds": self.ratio(name, to).spread(),
            }
            for name, seconds in self.seconds.items()
        ]


def interleave(contenders: Mapping[str, Callable[[], object]]) -> Timings:
    """Time the contenders A B A B …, five rounds or more after a round that compiles, loads and fills caches.

    One that takes over a minute is run once, in the first; if all take less than a second there are
    fifteen. `Timings.rows` says in how many each did.
    """
    repeats, rounds = {}, {}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for name, contender in contenders.items():
        first = _turn(contender, 1)
        usual = _turn(contender, 1) if first < SLOW / 6 else first  # the first may have compiled
        repeats[name] = math.ceil(SHORTEST_TURN / usual)
        rounds[name] = SLOW_ROUNDS if usual > SLOW else ROUNDS if usual > FAST else FAST_ROUNDS
        if usual > SLOW:
            seconds[name].append(usual)
    usual_rounds = min(ROUNDS if count < FAST_ROUNDS else FAST_ROUNDS for count in rounds.values())
    for _ in range(usual_rounds):
        for name, contender in contenders.items():
            if len(seconds[name]) < rounds[name]:
                seconds[name].append(_turn(contender, repeats[name]))
    return Timings(seconds)


def _turn(contender: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        contender()
    return (time.perf_counter() - start) / repeats
