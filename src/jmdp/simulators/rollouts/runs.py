"""Paired runs: whole simulations of several designs that receive the same randomness by purpose."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.luck import Shock, Usage
from jmdp.base.luck_by_purpose import Luck
from jmdp.base.luck_sources import Redraw, root_shock
from jmdp.base.recorded_luck import RecordedLuck
from jmdp.base.records import Record
from jmdp.base.settings import cut, real_number, short
from jmdp.errors import SimulatorError
from jmdp.simulators.rollouts.draws import ENDED, Concatenate, Draws, EpisodeDraws, branch_bytes, fingerprint

Run = Callable[[Luck], Any]
"""A whole simulation: a function of the randomness that returns a number, or a dictionary of numbers."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RunDraws(EpisodeDraws):
    """Results of runs; `returns` is the first measure."""

    values: Floats  # [n, D, M]
    measures: tuple[str, ...] | None  # names of the M numbers; None if runs return a single number

    @classmethod
    def of(cls, values: Floats, measures: tuple[str, ...] | None, drew: bool, paired: bool) -> RunDraws:
        """Draws of these values."""
        return cls(**_common(values[:, :, 0], drew, paired=len(values) * paired), values=values, measures=measures)

    def measure(self, j: int) -> EpisodeDraws:
        """The values of one measure."""
        return EpisodeDraws(**_common(self.values[:, :, j], self.drew, self.paired))

    @classmethod
    def joined(cls, parts: Sequence[Draws], concatenate: Concatenate = np.concatenate) -> RunDraws:
        """Concatenate draws along the sample axis."""
        runs = [part for part in parts if isinstance(part, RunDraws)]
        for part in runs:
            _check_measures(part.measures, runs[0].measures, "A block of runs")
        values = concatenate([part.values for part in runs])
        common = _common(values[:, :, 0], any(part.drew for part in runs), sum(part.paired for part in runs))
        return cls(**common, values=values, measures=runs[0].measures)


def _common(returns: Floats, drew: bool, paired: int) -> dict[str, Any]:
    """Fields of `EpisodeDraws` for runs, which end, and whose returns have no rounding error."""
    returns = np.ascontiguousarray(returns)
    return {
        "returns": returns,
        "ends": np.full(returns.shape, ENDED, np.int32),
        "gains": fingerprint(returns),
        "largest_reward": float(np.abs(returns).max(initial=0.0)),
        "steps": returns.size,
        "shared_steps": 0,
        "drew": drew,
        "starts": np.full(returns.shape, -1, np.int64),
        "paired": paired,
    }


@dataclass(frozen=True, eq=False)
class RunBlocks:
    """Blocks of runs: a pure function of the numbers of samples and designs."""

    runs: Mapping[str, Run]
    seed: int
    history: RecordedLuck | None = None
    redraw: Redraw | None = None  # sources of randomness that are drawn again; None: all are as they are

    def root(self, sample: int, usage: Usage | None = None) -> Shock:
        """The shock from which all randomness of a sample derives, with its record if there is a history."""
        return root_shock(self.seed, sample, usage, self.history, self.redraw)

    def redrawn(self, redraw: Redraw, seed: int) -> RunBlocks:
        """Blocks of samples with another seed, in which some sources are drawn again."""
        return replace(self, redraw=redraw, seed=seed)

    def __call__(self, first: int, count: int, alternatives: tuple[int, ...], paired: bool) -> RunDraws:
        """Samples first … first + count − 1 of some of the designs, with the same randomness if `paired`."""
        usage, rows = Usage(), list[list[list[float]]]()
        measures: tuple[str, ...] | None = None
        for sample in range(first, first + count):
            row: list[list[float]] = []
            for i in alternatives:
                shock = self.root(sample, usage)
                luck = Luck(shock if paired else shock.derived(b"design", 0, branch_bytes(i)))
                names, values = self.result(i, sample, luck)
                if rows or row:
                    _check_measures(names, measures, f"Design {short(self._name(i))}")
                measures = names
                row.append(values)
            rows.append(row)
        return RunDraws.of(np.array(rows, float), measures, usage.used, paired)

    def result(self, i: int, sample: int, luck: Luck) -> tuple[tuple[str, ...] | None, list[float]]:
        """Names of the measures, in alphabetical order, and values of one run."""
        found, where = self.returned(i, sample, luck), f"Design {short(self._name(i))} in sample {sample}"
        if not isinstance(found, Mapping):
            return None, [self._number(found, where)]
        if not found or not all(isinstance(key, str) for key in found):
            raise SimulatorError(
                f"{where} returned {short(found)}. Return a number, or a dictionary from names to numbers."
            )
        measured = {str.__str__(key): value for key, value in found.items()}
        names = tuple(sorted(measured))
        return names, [self._number(measured[key], f"{where}, {short(key)},") for key in names]

    def returned(self, i: int, sample: int, luck: Luck) -> Any:
        """What a run returns."""
        name, run = list(self.runs.items())[i]
        try:
            found = run(luck)
            if isinstance(record := luck.shock.recorded, Record):
                record.finish(f"Design {short(name)}")
        except Exception as error:
            made = f"jmdp.Shock.of_sample({self.seed}, {sample})"
            made = made if self.history is None else f"history.given_to({made})"
            error.add_note(
                f"In the design {short(name)}, sample {sample}. A design receives a jmdp.Luck and draws by name, as in "
                'luck.poisson("demand", day, mean=9); luck.seed("model") seeds a library. To repeat this run alone, '
                f"call it with jmdp.Luck({made})."
            )
            raise
        return found

    def by_period(self) -> dict[str | None, Floats | None]:
        """What each design earns in each period [T, D] of the history, by measure; None if runs return no lists."""
        assert self.history is not None
        found: dict[str | None, list[Any]] = {}
        for i in range(len(self.runs)):
            returned, where = self.returned(i, 0, Luck(self.root(0))), f"Design {short(self._name(i))}"
            measured = returned if isinstance(returned, Mapping) else {None: returned}
            for name, value in measured.items():
                listed = by_period(value, len(self.history), where) if hasattr(value, "__len__") else None
                found.setdefault(name, []).append(listed)
        return {
            name: None if any(one is None for one in columns) else np.array(columns, float).T
            for name, columns in found.items()
        }

    def _number(self, value: Any, where: str) -> float:
        """A result as a number: with a history, one for each period may be returned, whose sum counts."""
        if self.history is None or not hasattr(value, "__len__"):
            return _number(value, where)
        return math.fsum(by_period(value, len(self.history), where))

    def _name(self, i: int) -> str:
        return list(self.runs)[i]


def by_period(value: Any, periods: int, where: str) -> list[float]:
    """One number for each period of a history."""
    plain = hasattr(value, "__len__") and not isinstance(value, (str, bytes, Mapping))
    listed = [] if not plain else value.tolist() if isinstance(value, np.ndarray) else list(value)
    if len(listed) != periods:
        said = f"{len(listed)} numbers" if listed else short(value)
        raise SimulatorError(f"{where} returned {said}. Return a list of {periods} numbers, one for each period.")
    if set(map(type, listed)) <= {int, float}:
        numbers = np.array(listed, float)
        if np.isfinite(numbers).all():
            found: list[float] = numbers.tolist()
            return found
    return [_number(one, where) for one in listed]


def _number(value: Any, where: str) -> float:
    """The value as a finite float."""
    if type(value) is float:
        number = value
    elif isinstance(value, (bool, np.bool_)):  # whether something happened in the run
        number = float(value)
    else:
        number = real_number(value)
    if not math.isfinite(number):
        raise SimulatorError(f"{where} returned {short(value)}. Return a finite number, or a dictionary of them.")
    return number


def _check_measures(names: Any, expected: Any, where: str) -> None:
    """Raise unless a run returned the same measures as the one before."""
    if names != expected:
        said = ["a number" if found is None else f"the names {cut(', '.join(found))}" for found in (names, expected)]
        raise SimulatorError(f"{where} returned {said[0]}, another run {said[1]}. All runs must return the same names.")
