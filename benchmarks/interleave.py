"""Alternating timing of contenders in one process, so that all run under the same conditions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.report import Row

ROUNDS = 5
FAST, FAST_ROUNDS = 1.0, 15
"""Runs shorter than `FAST` seconds are timed in `FAST_ROUNDS` rounds, because they are disturbed more."""

SLOW = 60.0
"""Runs longer than this many seconds are timed in the first `SLOW_ROUNDS` rounds only."""

SLOW_ROUNDS = 1
SHORTEST_TURN = 0.05
"""Minimum seconds of a turn: a shorter contender is run several times per turn, and the mean is its time."""


@dataclass(frozen=True)
class Ratio:
    """Ratio of the times of two contenders."""

    best: float  # ratio of the best times
    low: float  # smallest and largest ratio of a single round
    high: float

    def times(self, count: float) -> Ratio:
        """Return the ratio of `count` runs of the first to one of the second."""
        return Ratio(count * self.best, count * self.low, count * self.high)

    def spread(self) -> str:
        """Return the range of the ratios of single rounds as text."""
        return f"{self.low:.3g} … {self.high:.3g}"


@dataclass(frozen=True)
class Timings:
    """Seconds of each contender in each of its rounds; all take part in the first rounds."""

    seconds: Mapping[str, list[float]]

    def best(self, name: str) -> float:
        """Return the shortest time of a contender, which is disturbed least."""
        return min(self.seconds[name])

    def ratio(self, name: str, to: str) -> Ratio:
        """Return the ratio of two contenders: of their best times, and per round."""
        rounds = [a / b for a, b in zip(self.seconds[name], self.seconds[to], strict=False)]
        return Ratio(self.best(name) / self.best(to), min(rounds), max(rounds))

    def rows(self, to: str) -> list[Row]:
        """Return one row per contender, with its ratio to the contender `to`."""
        return [
            {
                "contender": name,
                "best, s": self.best(name),
                "rounds": len(seconds),
                f"ratio to {to}": self.ratio(name, to).best,
                "range over rounds": self.ratio(name, to).spread(),
            }
            for name, seconds in self.seconds.items()
        ]


def interleave(contenders: Mapping[str, Callable[[], object]]) -> Timings:
    """Time the contenders alternately (A B A B …), in at least five rounds after a warm-up that compiles code.

    A contender that takes over a minute is run once. If all take less than a second, there are fifteen rounds.
    `Timings.rows` reports the number of rounds of each.
    """
    repeats, rounds = {}, {}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for name, contender in contenders.items():
        first = _turn(contender, 1)
        usual = _turn(contender, 1) if first < SLOW / 6 else first  # the first run may include compilation
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
