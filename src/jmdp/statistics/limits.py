"""Errors of sampled returns: truncation at the horizon, and rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base.arrays import ROUNDOFF
from jmdp.base.rounding import at_most
from jmdp.base.scale import Scale
from jmdp.errors import SettingsError, SimulatorError
from jmdp.simulators.draws import Draws
from jmdp.simulators.simulator import Simulator

_LARGEST_RETURN = 2.0**1000
"""Sums and differences of returns up to this size are finite."""


@dataclass(frozen=True)
class Limits:
    """Bounds on the error of a sampled return relative to the untruncated return."""

    bound: float  # the largest |reward|
    cut: float  # bound on the truncation error of one return
    rounding: float
    scale: Scale  # returns and cut are at most 1 in this unit
    assumption: str | None = None  # assumption of `cut`, if no reward bound is known

    @classmethod
    def of_bound(cls, bound: float, discount: float, horizon: int) -> Limits:
        """Limits for |rewards| of at most `bound` and a discount below 1."""
        most = bound / (1 - discount)
        cut = math.nextafter(discount**horizon * most, math.inf) if bound and discount else 0.0
        return cls(bound, cut, (horizon + 64) * ROUNDOFF * most, Scale.above(most))

    @classmethod
    def of_draws(cls, draws: Sequence[Draws], discount: float, horizon: int, reward_bound: float | None) -> Limits:
        """Limits from rollouts. Without a `reward_bound`, later rewards are assumed not to exceed the observed ones.

        With discount 1 the horizon is part of the problem and nothing is truncated. If rollouts were truncated, all
        rewards were 0 and no bound is known, the truncation error is unbounded.
        """
        largest = max(float(np.abs(drawn.returns).max()) for drawn in draws)
        if not largest <= _LARGEST_RETURN:
            raise SimulatorError("A return is too large for a float. Scale the rewards down, e.g. by 1e-100.")
        met = max(drawn.largest_reward for drawn in draws)
        if reward_bound is not None and met > reward_bound:
            raise SettingsError(
                f"reward_bound is {reward_bound!r}, but a reward of size {met!r} was observed. Increase or omit it."
            )
        bound = met if reward_bound is None else float(reward_bound)
        most = bound * horizon if discount == 1 else bound / (1 - discount)
        cut, assumption = 0.0, None
        if bound and 0 < discount < 1:
            cut = math.nextafter(discount**horizon * most, math.inf)
        if reward_bound is None and 0 < discount < 1 and any(drawn.open_returns.any() for drawn in draws):
            if bound == 0:
                cut = math.inf
            else:
                assumption = (
                    f"rewards after step {horizon} are at most {at_most(met)} in absolute value, the largest observed"
                )
        scale = Scale.above(max(largest, cut if math.isfinite(cut) else 0.0))
        return cls(bound, cut, (horizon + 64) * ROUNDOFF * most, scale, assumption)


def known_reward_bound(simulator: Simulator, states: Sequence[Any], given: float | None) -> float | None:
    """The largest |reward| reachable from these states: the simulator's bound if available, else the given one."""
    known = [simulator.largest_reward_from(state) for state in states]
    bounds = [bound for bound in known if bound is not None]
    if len(bounds) < len(known):
        return given
    if given is not None and given < max(bounds):
        raise SettingsError(
            f"reward_bound is {given!r}, but rewards of size {max(bounds)!r} are possible from here. Omit it: "
            f"{simulator!r} has its own bound."
        )
    return max(bounds)
