"""Alternating measurement of contenders, so that all run under the same conditions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

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


Costs = list[float]
"""Costs of one contender, one for each round."""


@dataclass(frozen=True)
class Cost:
    """Cost of our contender: relative to a limit, absolute, or as the exponent of its growth."""

    best: float  # from the smallest costs of all rounds
    low: float  # smallest and largest of a single round
    high: float
    rounds: int
    ours: float  # smallest cost
    limit: float | None  # smallest cost of the limit

    @classmethod
    def ratio(cls, costs: list[Costs], factor: float = 1.0) -> Cost:
        """Return `factor` × our cost / that of the limit."""
        ours, limit = costs
        best, rounds = min(ours) / min(limit), [a / b for a, b in zip(ours, limit, strict=True)]
        return cls(factor * best, factor * min(rounds), factor * max(rounds), len(ours), min(ours), min(limit))

    @classmethod
    def absolute(cls, ours: Costs, *limit: Costs) -> Cost:
        """Return our cost itself; that of a limit is for information."""
        return cls(min(ours), min(ours), max(ours), len(ours), min(ours), min(limit[0]) if limit else None)

    @classmethod
    def exponent(cls, sizes: list[int], costs: list[Costs]) -> Cost:
        """Return the exponent of cost ∝ size^exponent, by least squares on logarithms; one list of costs per size."""
        rounds = [_exponent(sizes, costs_of_round) for costs_of_round in zip(*costs, strict=True)]
        best = list(map(min, costs))
        return cls(_exponent(sizes, best), min(rounds), max(rounds), len(rounds), best[-1], None)

    def spread(self) -> str:
        """Return the range over single rounds as text."""
        return f"{self.low:.3g} … {self.high:.3g}"


def _exponent(sizes: list[int], costs: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def cpu(call: Callable[[], object]) -> float:
    """Return the CPU seconds of a call, of all threads of this process."""
    start = time.process_time()
    call()
    return time.process_time() - start


def rounds_of(count: int, *contenders: Callable[[], float]) -> list[Costs]:
    """Call the contenders alternately, `count` times each; each returns its cost."""
    rounds = [[contender() for contender in contenders] for _ in range(count)]
    return [list(costs) for costs in zip(*rounds, strict=True)]


def cpu_rounds(count: int, *contenders: Callable[[], object]) -> list[Costs]:
    """Return the CPU seconds of contenders that run alternately, after a warm-up."""
    for contender in contenders:
        contender()
    return rounds_of(count, *(partial(cpu, contender) for contender in contenders))
