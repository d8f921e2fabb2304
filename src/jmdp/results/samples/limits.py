"""What is not seen of sampled returns: the steps after the horizon, and rounding in those before."""

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
from jmdp.simulators.simulator import Draws, Simulator


@dataclass(frozen=True)
class Limits:
    """How far a sampled return can be from the whole one."""

    bound: float  # the largest |reward|
    cut: float  # what the steps not taken can amount to in one return
    rounding: float
    scale: Scale  # returns and cut, divided by it, are at most 1
    assumption: str | None = None  # what `cut` rests on, unless rewards are known to be bounded

    @classmethod
    def of_bound(cls, bound: float, discount: float, horizon: int) -> Limits:
        """Of rewards that are known to be at most `bound` in size, with a discount below 1."""
        most = bound / (1 - discount)
        cut = math.nextafter(discount**horizon * most, math.inf) if bound and discount else 0.0
        return cls(bound, cut, (horizon + 64) * ROUNDOFF * most, Scale.above(most))

    @classmethod
    def of_draws(cls, draws: Sequence[Draws], discount: float, horizon: int, reward_bound: float | None) -> Limits:
        """From what was drawn. Without a `reward_bound`, rewards to come are taken to be no larger than those met.

        With discount 1 the horizon is part of the question, and nothing is cut off. Where rollouts were cut, all
        rewards were 0 and no bound is known, nothing is known of what is to come.
        """
        largest = max(float(np.abs(drawn.returns).max()) for drawn in draws)
        if not math.isfinite(largest):
            raise SimulatorError("A return is too large for a float. Scale the rewards down, by 1e-100 say.")
        met = max(drawn.largest_reward for drawn in draws)
        if reward_bound is not None and met > reward_bound:
            raise SettingsError(f"reward_bound is {reward_bound!r}, but a reward of size {met!r} was met.")
        bound = met if reward_bound is None else float(reward_bound)
        most = bound * horizon if discount == 1 else bound / (1 - discount)
        cut, assumption = 0.0, None
        if bound and 0 < discount < 1:
            cut = math.nextafter(discount**horizon * most, math.inf)
        if reward_bound is None and 0 < discount < 1 and any(drawn.open_returns.any() for drawn in draws):
            if bound == 0:
                cut = math.inf
            else:
                assumption = f"rewards after step {horizon} are no larger than {at_most(met)}, the largest met"
        scale = Scale.above(max(largest, cut if math.isfinite(cut) else 0.0))
        return cls(bound, cut, (horizon + 64) * ROUNDOFF * most, scale, assumption)


def known_reward_bound(simulator: Simulator, states: Sequence[Any], given: float | None) -> float | None:
    """The largest |reward| from these states on: the simulator's own if it knows it, else the one given."""
    known = [simulator.largest_reward_from(state) for state in states]
    bounds = [bound for bound in known if bound is not None]
    if len(bounds) < len(known):
        return given
    if given is not None and given < max(bounds):
        raise SettingsError(
            f"reward_bound is {given!r}, but rewards of size {max(bounds)!r} can be met from here. Leave it out: "
            f"{simulator!r} knows its own."
        )
    return max(bounds)
