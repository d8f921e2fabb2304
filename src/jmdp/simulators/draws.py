"""Samples of returns under shared randomness, and fingerprints by which equal returns are recognised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Floats, Integers


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
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        tables: dict[str, Any] = {name: x[:, at] for name, x in values.items() if isinstance(x, np.ndarray)}
        return replace(self, **tables)

    @classmethod
    def joined(cls, parts: Sequence[Draws]) -> Draws:
        """Concatenate draws along the sample axis."""
        return cls(
            np.concatenate([part.returns for part in parts]),
            np.concatenate([part.ends for part in parts]),
            np.concatenate([part.gains for part in parts]),
            max(part.largest_reward for part in parts),
            sum(part.steps for part in parts),
            sum(part.shared_steps for part in parts),
            any(part.drew for part in parts),
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
