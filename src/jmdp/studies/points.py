"""The decision points of a study: states with their labels, coordinates and keys.

Rows of a study: the result in one state, a row for each alternative.
"""

from __future__ import annotations

import hashlib
import math
import pickle
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from jmdp.base.interval import Estimate
from jmdp.base.settings import listed, short
from jmdp.comparisons.answer import chosen
from jmdp.comparisons.comparison import Comparison
from jmdp.errors import SettingsError
from jmdp.models.tabular import TabularJMDP
from jmdp.results.certificate import Outcome
from jmdp.results.evaluation import Evaluation
from jmdp.statistics.means import ENOUGH
from jmdp.studies.parts import RESERVED

T = TypeVar("T")

Place = tuple[float | None, ...]
"""Coordinates of a state."""

_MOST_STATES = 100_000_000
_MOST_COORDINATES = 8
_LONGEST_LABEL = 200


def state_key(seed: int, number: int) -> int:
    """Random seed of the comparison in the state with this number."""
    digest = hashlib.blake2b(b"study %d %d" % (seed, number), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2  # seeds are at most 2^62


@dataclass(frozen=True)
class Failure:
    """In place of a state or of its result: the text of an error."""

    text: str


def attempt(function: Callable[..., T], *given: Any) -> T | Failure:
    """The value of a function of the caller, or its failure. Ctrl-C is none."""
    try:
        return function(*given)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException:  # of any kind: SystemExit, too, concerns one state only
        return Failure(traceback.format_exc())


@dataclass(frozen=True, eq=False)
class Points:
    """States in which a study compares, by number."""

    states: Sequence[Any]
    labels: Sequence[Any]  # what labels and coordinates are made of: the states, or their names
    grid: int | None = None  # columns, if the labels are the numbers of cells of a grid
    names: Callable[[Any], str] | None = None  # of the states of a table

    @classmethod
    def of(cls, states: Any, source: Any) -> Points:
        """Points from the argument `states` of a study."""
        model = getattr(source, "model", source)
        if isinstance(model, TabularJMDP):
            return cls._of_table(states, model, getattr(source, "grid", None))
        if states is None:
            raise SettingsError("states is None, but only tables have a list of states. Give the states to compare in.")
        if isinstance(states, Mapping):
            return cls(list(states.values()), list(states))._checked()
        if hasattr(states, "iloc"):  # of pandas, whose indices are labels
            states = list(states) if getattr(states, "ndim", 0) == 1 else 0
        if not (states.ndim if isinstance(states, np.ndarray) else _indexed(states)):
            found = None if isinstance(states, (set, frozenset)) else listed(states, _MOST_STATES)
            if found is None:
                raise SettingsError(
                    f"states is {short(states)}. Give a list of states, or a dictionary from labels to states."
                )
            states = found
        return cls(states, states)._checked()

    @classmethod
    def _of_table(cls, states: Any, model: TabularJMDP, grid: tuple[int, int] | None) -> Points:
        labels = list(states) if isinstance(states, Mapping) else None
        states = list(states.values()) if isinstance(states, Mapping) else states
        if states is None:
            numbers = np.flatnonzero(~model.terminal).tolist()
        elif (given := listed(states, _MOST_STATES)) is not None:
            numbers = [model.states.index(state) for state in given]
        else:
            raise SettingsError(f"states is {short(states)}. Give a list of states by index or name, or None for all.")
        if labels is not None:
            return cls(numbers, labels)._checked()
        return cls(numbers, numbers, grid=None if grid is None else grid[1], names=model.states.name)._checked()

    def _checked(self) -> Points:
        if not 0 < len(self.states) <= _MOST_STATES:
            raise SettingsError(f"There are {len(self.states):,} states. Give 1 to {_MOST_STATES:,}.")
        return self

    def __len__(self) -> int:
        return len(self.states)

    @cached_property
    def coordinates(self) -> dict[str, str]:
        """Names and kinds ("int" or "float") of the numbers that place a state, as those of the first state are."""
        if self.grid is not None:
            return {"row": "int", "column": "int"}
        first = attempt(self.labels.__getitem__, 0)
        numbers = _numbers(first)
        if not numbers:
            return {}
        names = getattr(first, "_fields", ())
        if not names or RESERVED & set(names):
            names = [f"x{i}" for i in range(len(numbers))]
        return {name: "int" if isinstance(x, int) else "float" for name, x in zip(names, numbers, strict=True)}

    def block(self, numbers: Sequence[int], pack: Callable[[Any], Any]) -> Block:
        """The points with these numbers."""
        labels, places = self.described(numbers)
        return Block(list(numbers), pack, labels, places, [self._state(number) for number in numbers])

    def described(self, numbers: Sequence[int]) -> tuple[list[str], list[Place]]:
        """Labels and coordinates of the points with these numbers."""
        nowhere = (None,) * len(self.coordinates)
        texts: list[str] = []
        places: list[Place] = []
        for number in numbers:
            label = attempt(self.labels.__getitem__, number)
            text, place = attempt(self._text, label), attempt(self._place, label)
            texts.append(text if isinstance(text, str) else str(number))
            places.append(nowhere if isinstance(place, Failure) else place)
        return texts, places

    def checksum(self, numbers: Sequence[int]) -> str:
        """Checksum of the labels and coordinates of the points with these numbers."""
        return hashlib.blake2b(repr(self.described(numbers)).encode(), digest_size=8).hexdigest()

    def _state(self, number: int) -> Any:
        state = attempt(self.states.__getitem__, number)
        return Failure("The state is None. Give a state.") if state is None else state

    def _text(self, label: Any) -> str | None:
        if self.names is not None:
            return printable(self.names(label))
        if isinstance(label, (str, int, float, np.generic)):
            return printable(str(label)[:_LONGEST_LABEL])
        numbers = _numbers(label)
        return None if numbers is None else ", ".join(map(repr, numbers))

    def _place(self, label: Any) -> Place:
        wanted = self.coordinates
        if self.grid is not None:
            return divmod(int(label), self.grid)
        numbers = _numbers(label) if wanted else None
        if numbers is None or len(numbers) != len(wanted):
            return (None,) * len(wanted)
        kinds = zip(numbers, wanted.values(), strict=True)
        return tuple(float(x) if kind == "float" else x if isinstance(x, int) else None for x, kind in kinds)


@dataclass
class Block:
    """Points that one worker processes. States are packed when the block is sent to another process."""

    numbers: list[int]
    pack: Callable[[Any], Any] | None
    labels: list[str]
    places: list[Place]
    states: list[Any]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getstate__(self) -> dict[str, Any]:
        if self.pack is None:
            return vars(self)
        return vars(self) | {"states": [_sent(self.pack, state) for state in self.states], "pack": None}

    def only(self, at: int) -> Block:
        """One of the points."""
        one = slice(at, at + 1)
        return Block(self.numbers[one], self.pack, self.labels[one], self.places[one], self.states[one])

    def unpacked(self, unpack: Callable[[Any], Any]) -> list[Any]:
        """The states, in this process or in another one."""
        if self.pack is not None:
            return self.states
        return [_received(unpack, state) for state in self.states]


def printable(text: str) -> str:
    """The text without what cannot be encoded."""
    return text.encode(errors="backslashreplace").decode()


def _sent(pack: Callable[[Any], Any], state: Any) -> bytes | Failure:
    """A state as bytes, so that one that cannot be sent does not stop the others."""
    if isinstance(state, Failure):
        return state
    return attempt(lambda: _pickled(pack(state)))


def _received(unpack: Callable[[Any], Any], state: bytes | Failure) -> Any:
    if isinstance(state, Failure):
        return state
    return attempt(lambda: unpack(pickle.loads(state)))


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:  # pickling may raise anything
        import cloudpickle  # it supports functions and classes of scripts, if it is installed

        found: bytes = cloudpickle.dumps(value)
        return found


def _indexed(states: Any) -> bool:
    """Whether states can be taken by number, so that they need not be listed."""
    return hasattr(states, "__len__") and hasattr(states, "__getitem__") and not isinstance(states, (str, bytes))


def _numbers(label: Any) -> list[int | float] | None:
    """The numbers in a tuple, list or array; None if it is anything else."""
    entries = label.tolist() if isinstance(label, np.ndarray) and label.ndim == 1 else label
    if not isinstance(entries, (tuple, list)) or not 0 < len(entries) <= _MOST_COORDINATES:
        return None
    plain = [x.item() if isinstance(x, np.generic) else x for x in entries]
    if not all(isinstance(x, (int, float)) and not isinstance(x, bool) and abs(x) < 2**62 for x in plain):
        return None
    return plain


Row = dict[str, Any]

_LONGEST_ERROR = 20_000
_VARYING = re.compile(r" at 0x[0-9a-fA-F]+|(?<=repeated) \d+(?= more)")
"""Parts of tracebacks that differ between processes: addresses, and depths of recursion."""


def comparison_rows(found: Comparison) -> list[Row]:
    """Rows of a comparison: the gap of each alternative to its rival, the leader; that of the leader, the runner-up."""
    names = found.alternatives
    means, lows, highs = found.summary.means
    leader, second = names.index(found.leader), names.index(found.runner_up)
    gaps = _gaps(found, leader)
    rows = []
    for i, name in enumerate(names):
        rival = second if i == leader else leader
        rows.append(
            {
                "best": name == chosen(found) or (found.outcome is Outcome.EQUAL_BEST and name in found.survivors),
                "leader": i == leader,
                **_columns("mean", Estimate(means[i], lows[i], highs[i])),
                "rival": names[rival],
                **_columns("gap", gaps[second] if i == leader else gaps[i].negative()),
                **_columns("better", found.superiority(name, names[rival])),
                **_columns("worse", found.superiority(names[rival], name)),
                "n": int(found.summary.samples.counts[i]),
                "outcome": found.outcome.name,
            }
        )
    return rows


def _gaps(found: Comparison, leader: int) -> dict[int, Estimate]:
    """Mean advantage of the leader over each other alternative, from the samples that both have."""
    others = [i for i in range(len(found.alternatives)) if i != leader]
    summary, counts = found.summary, found.summary.samples.counts
    if summary.certain or (summary.return_range is None and counts.min() < ENOUGH):
        return {i: found.advantage(found.alternatives[leader], found.alternatives[i]) for i in others}
    gaps = {}
    for n in np.unique(counts[others]):  # alternatives with equally many samples together
        group = [leader, *(i for i in others if counts[i] == n)]
        means = summary.samples.of(*group).returns.mean(axis=0)
        low, high = summary.gap_limits(leader, group)
        for at, i in enumerate(group[1:], 1):
            gaps[i] = Estimate(summary.sign * float(means[0] - means[at]), float(low[at]), float(high[at]))
    return gaps


def evaluation_rows(found: Evaluation, indifference: float | None) -> list[Row]:
    """Rows of a certified evaluation of one state."""
    names = [found.actions.name(a) for a in range(found.actions.size)]
    means, A = found.mean[0], range(found.actions.size)
    leader = int(np.argmax(means))
    second = max((a for a in A if a != leader), key=lambda a: means[a])
    gaps = {a: found.gap(found.states[0], found.actions[leader], found.actions[a]) for a in A if a != leader}
    least = min(Estimate.within(gap.mean, gap.mean_interval).low for gap in gaps.values())
    outcome = found.outcome
    if least > 0:
        outcome = Outcome.BEST_FOUND
    elif indifference is not None and least > -indifference:
        outcome = Outcome.GOOD_ENOUGH
    rows = []
    for a in A:
        gap = gaps[second if a == leader else a]
        ahead = Estimate.within(gap.mean, gap.mean_interval)
        not_more = gap.inferiority_bound() if ahead.low > 0 else 1.0  # the largest chance of gap ≤ 0
        more, less = Estimate(math.nan, 1 - not_more, 1.0), Estimate(math.nan, 0.0, not_more)
        error = math.inf if found.certificate is None else float(np.asarray(found.certificate.mean_error)[0, a])
        rows.append(
            {
                "best": a == leader and outcome in (Outcome.BEST_FOUND, Outcome.GOOD_ENOUGH),
                "leader": a == leader,
                **_columns("mean", Estimate.around(float(means[a]), error)),
                "rival": names[second if a == leader else leader],
                **_columns("gap", ahead if a == leader else ahead.negative()),
                **_columns("better", more if a == leader else less),
                **_columns("worse", less if a == leader else more),
                "n": None,
                "outcome": outcome.name,
            }
        )
    return rows


def failed_rows(error: str, alternatives: int) -> list[Row]:
    """Rows of a state whose comparison raised an error."""
    said = printable(_VARYING.sub("", error)[-_LONGEST_ERROR:])
    return [{"best": False, "leader": False, "n": 0, "outcome": Outcome.FAILED.name, "error": said}] * alternatives


def _columns(name: str, estimate: Estimate) -> Row:
    ends: Sequence[float] = (float(estimate), estimate.low, estimate.high)
    value, low, high = (end if math.isfinite(end) else None for end in ends)
    return {name: value, f"{name}_low": low, f"{name}_high": high}
