"""Samples of returns under shared randomness, and fingerprints by which equal returns are recognised.

Sequence of shocks that are derived when they are used.

Returns of many branches, summed from their rewards for all branches at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Floats, Integers
from jmdp.base.luck import Shock

Concatenate = Callable[[Sequence[npt.NDArray[Any]]], npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Draws:
    """Sampled returns of several actions from one state under shared randomness."""

    returns: Floats  # [n, A], discounted rewards up to the horizon
    ends: npt.NDArray[
        np.signedinteger[Any]
    ]  # [n, A], ENDED, or a number that is equal for branches of a sample that have merged
    gains: Integers  # [n, A], fingerprint of the rewards: equal ones have exactly the same return; `exact_gains`
    largest_reward: float  # largest |reward| observed
    steps: int  # simulated steps
    shared_steps: int  # steps skipped because the branch had merged with another
    drew: bool  # False only if no step and no policy used its randomness, so that all samples are equal

    @cached_property
    def open_returns(self) -> Floats:
        """[A], share of samples in which a branch had not ended at the horizon."""
        return np.asarray((self.ends != ENDED).mean(axis=0))

    @cached_property
    def open_gaps(self) -> Floats:
        """[A, A], share of samples in which two branches had neither both ended nor merged."""
        return np.stack([(self.ends != self.ends[:, [a]]).mean(axis=0) for a in range(self.ends.shape[1])])

    @cached_property
    def exact(self) -> npt.NDArray[np.bool_]:
        """[n, A], True for returns that were summed without rounding, according to their fingerprints."""
        return np.asarray(self.gains == fingerprint(self.returns))

    @property
    def one_future(self) -> bool:
        """True if all rollouts of each action gave the same return."""
        return len(self.returns) > 1 and bool(
            (self.returns == self.returns[0]).all() and (self.gains == self.gains[0]).all()
        )

    @property
    def one_coupling(self) -> Draws:
        """The samples drawn under the requested coupling: here all of them."""
        return self

    def columns(self, at: Sequence[int]) -> Self:
        """The same samples of the alternatives at these positions."""
        tables: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                tables[field.name] = value[:, at]
        return replace(self, **tables)

    @classmethod
    def joined(cls, parts: Sequence[Draws], concatenate: Concatenate = np.concatenate) -> Draws:
        """Concatenate draws along the sample axis."""
        returns, ends, gains, largest, steps, shared, drew = zip(*map(_PARTS, parts), strict=True)
        arrays = concatenate(returns), concatenate(ends), concatenate(gains)
        return cls(*arrays, max(largest), sum(steps), sum(shared), any(drew))


_PARTS = attrgetter("returns", "ends", "gains", "largest_reward", "steps", "shared_steps", "drew")


@dataclass(frozen=True)
class LuckProbe:
    """Returns [m, P] of samples that were run again with part of their randomness redrawn."""

    returns: Floats  # of the original samples
    same_start: Floats  # only the start was kept
    same_steps: Floats | None  # start and steps were kept, the policies' draws were not; None if policies draw nothing


@dataclass(frozen=True, eq=False)
class EpisodeDraws(Draws):
    """Sampled returns of several policies: `Draws` with the starts and a `LuckProbe`."""

    starts: Integers  # [n, P], index of the start; −1 if the simulator draws its own
    paired: int  # number of samples under the requested coupling, which come first; the others are independent
    probe: LuckProbe | None = None

    @property
    def one_coupling(self) -> Draws:
        """The samples under the requested coupling."""
        n = self.paired
        if n == len(self.returns):
            return self
        return self.rows(np.arange(n))

    def rows(self, at: Integers) -> EpisodeDraws:
        """The samples at these positions, which are in increasing order."""
        found = {name: getattr(self, name)[at] for name in ("returns", "ends", "gains", "starts")}
        return replace(self, **found, paired=int((at < self.paired).sum()))

    @classmethod
    def joined(cls, parts: Sequence[Draws], concatenate: Concatenate = np.concatenate) -> EpisodeDraws:
        """Concatenate draws along the sample axis."""
        episodes = [part for part in parts if isinstance(part, EpisodeDraws)]
        return cls(
            **vars(Draws.joined(parts, concatenate)),
            starts=concatenate([part.starts for part in episodes]),
            paired=sum(part.paired for part in episodes),
            probe=next((part.probe for part in episodes if part.probe is not None), None),
        )


def exact_gains(gains: Integers, returns: Floats, exact: npt.NDArray[np.bool_]) -> Integers:
    """Fingerprints [n, A] of the rewards of each branch, 64 bits.

    A fingerprint depends on the rewards and their steps. For a return that was summed without rounding it depends on
    the return alone, so that two are also equal if the same sum was obtained in another order or in other parts.
    """
    return np.where(exact, fingerprint(returns), gains)


def fingerprint(returns: Floats) -> Integers:
    """Fingerprints of returns that have no rounding error."""
    bits = np.ascontiguousarray(returns + 0.0).view(np.uint64)  # + 0.0: −0 is 0
    mixed = (bits ^ (bits >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed ^ (mixed >> np.uint64(29))).view(np.int64)


def is_exact_sum(x: Any, y: Any, total: Any) -> Any:
    """True if the float `total` is exactly x + y: the rounding error of an addition is itself a float (Knuth)."""
    with np.errstate(invalid="ignore"):  # an infinite total is not exact
        part = total - x
        return (x - (total - part)) + (y - part) == 0


ENDED = -1
"""Entry of `Draws.ends` for a branch that has reached a terminal state."""


_ROOM = 1 << 26
"""Bytes of an array that are reserved at once; memory that is not written to is not used."""


class Room:
    """Arrays to which samples are appended without a copy of those before, which would be in memory twice."""

    def __init__(self, most: int) -> None:
        self._most = most  # samples at most
        self._used: list[tuple[npt.NDArray[Any], int]] = []  # arrays, and how many of their rows are used

    def concatenate(self, parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """`np.concatenate`, in place if the first part is the used part of an array that has room for the others."""
        first, n, dtype = parts[0], sum(map(len, parts)), np.result_type(*parts)
        others = [(room, used) for room, used in self._used if room is not first.base]
        for room, used in self._used:
            if room is first.base and used == len(first) and len(room) >= n and room.dtype == dtype:
                break
        else:
            reserved = max(4 * n, _ROOM // max(1, first[:1].nbytes))
            room = np.empty((max(n, min(reserved, self._most)), *first.shape[1:]), dtype)
            room[: len(first)] = first
        np.concatenate(parts[1:] or [first[:0]], out=room[len(first) : n])
        self._used = [*others, (room, n)]
        return room[:n]


class LazyShocks(Sequence[Shock]):
    """Shocks derived from some values when they are used: many policies use none."""

    def __init__(self, derive: Callable[[Any], Shock], values: Sequence[Any]) -> None:
        self._derive, self._values = derive, values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Shock]:
        return map(self._derive, self._values)

    @overload
    def __getitem__(self, i: int) -> Shock: ...

    @overload
    def __getitem__(self, i: slice) -> list[Shock]: ...

    def __getitem__(self, i: int | slice) -> Shock | list[Shock]:
        return list(map(self._derive, self._values[i])) if isinstance(i, slice) else self._derive(self._values[i])


def branch_bytes(number: int) -> bytes:
    """Number of a branch as part of a key."""
    return number.to_bytes(8, "little")


Unsigned = npt.NDArray[np.uint64]

_ENTRIES = 200_000
"""Rewards that are collected before they are summed: a few megabytes."""


class BranchSums:
    """Discounted sums of the rewards of n branches, and the fingerprints of the rewards (`exact_gains`)."""

    def __init__(self, branches: int, discount: float) -> None:
        self.returns = np.zeros(branches)
        self.largest = 0.0  # |reward|
        self._gains, self._exact = np.zeros(branches, np.uint64), np.ones(branches, np.bool_)
        self._weight, self._t, self._discount = 1.0, 0, discount

    def add(self, rewards: Floats) -> None:
        """Add the rewards [steps, n] of the next steps, one after another."""
        self.largest = max(self.largest, float(np.abs(rewards).max(initial=0.0)))
        weights = np.multiply.accumulate([self._weight, *[self._discount] * len(rewards)])
        some = rewards != 0  # a reward of 0 changes neither the return nor its fingerprint
        with np.errstate(over="ignore"):  # the results refuse infinite returns
            sums = np.add.accumulate(np.concatenate([self.returns[None], weights[:-1, None] * rewards]))
        whole = int((weights[:-1] == 1).sum())  # steps without discount, which come first
        self._exact &= (~some[:whole] | is_exact_sum(sums[:whole], rewards[:whole], sums[1 : whole + 1])).all(axis=0)
        self._exact &= ~some[whole:].any(axis=0)
        steps = np.arange(self._t, self._t + len(rewards), dtype=np.uint64)[:, None]
        self._gains = self._gains + np.where(some, _mixed(steps, rewards), np.uint64(0)).sum(axis=0, dtype=np.uint64)
        self.returns, self._weight, self._t = sums[-1], float(weights[-1]), self._t + len(rewards)

    @property
    def gains(self) -> Integers:
        """Fingerprints [n] of the rewards."""
        return exact_gains(self._gains.view(np.int64), self.returns, self._exact)


def _mixed(steps: Unsigned, rewards: Floats) -> Unsigned:
    """64-bit fingerprint of each reward and its step (the mixer of SplitMix64); a sequence has the sum of them."""
    z = (steps + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    z = z ^ rewards.view(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    return z ^ (z >> np.uint64(31))


class EpisodeSums:
    """Sums of the rewards of whole episodes [samples, branches], which end one after another."""

    def __init__(self, samples: int, branches: int, discount: float) -> None:
        self._shape, self._discount = (samples, branches), discount
        self._returns, self._gains = np.zeros(samples * branches), np.zeros(samples * branches, np.int64)
        self._at: list[int] = []
        self._rewards: list[list[float]] = []
        self._entries = 0
        self.largest = 0.0  # |reward|, of the rewards summed so far

    def add(self, row: int, branch: int, rewards: list[float]) -> None:
        """Add the rewards of an episode, in order of time; they must be finite."""
        self._at.append(row * self._shape[1] + branch)
        self._rewards.append(rewards)
        self._entries += len(rewards)
        if self._entries > _ENTRIES:
            self._sum()

    def totals(self) -> tuple[Floats, Integers]:
        """Returns and fingerprints [samples, branches] of all episodes added so far."""
        if self._at:
            self._sum()
        return self._returns.reshape(self._shape), self._gains.reshape(self._shape)

    def _sum(self) -> None:
        longest = max(map(len, self._rewards))
        padded = [rewards + [0.0] * (longest - len(rewards)) for rewards in self._rewards]
        sums = BranchSums(len(padded), self._discount)
        sums.add(np.ascontiguousarray(np.array(padded, np.float64).T))
        self._returns[self._at], self._gains[self._at] = sums.returns, sums.gains
        self.largest = max(self.largest, sums.largest)
        self._at, self._rewards, self._entries = [], [], 0
