"""What jmdp asks of a simulator: a pure step from any state, with the luck as an argument.

A *state* is an opaque snapshot that never changes. `Simulator.step` says what an action does in it under a `Shock`, and
may be asked again, for another action, in any order. `digest` says which states are the same, `observe` what a policy
sees. Nothing else is needed to compare actions under shared luck. Which shocks are equal is the coupling's affair.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Floats, Integers
from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.errors import SettingsError, SimulatorError, UnavailableError
from jmdp.simulators.digests import digest_of, generators_in


class Step(NamedTuple):
    """What one action led to."""

    reward: float
    state: Any
    terminated: bool  # nothing is earned from here on. A time limit is no end: rollouts go on beyond it


@dataclass(frozen=True, eq=False)
class Draws:
    """Returns of several actions under shared luck, drawn again and again from one state."""

    returns: Floats  # [n, A], discounted rewards up to the horizon
    ends: Integers  # [n, A], ENDED, or a number that branches of a sample share if they stand on one coordinate
    gains: Integers  # [n, A], fingerprint of what was earned: equal ones have exactly the same return; `exact_gains`
    largest_reward: float  # the largest |reward| met
    steps: int  # that were simulated
    shared_steps: int  # that were not, for the branch had met another

    @cached_property
    def open_returns(self) -> Floats:
        """[A], the part of samples in which a branch had not ended before its rollout was cut."""
        return np.asarray((self.ends != ENDED).mean(axis=0))

    @cached_property
    def open_gaps(self) -> Floats:
        """[A, A], the part of samples in which branches had neither both ended nor met."""
        return np.stack([(self.ends != self.ends[:, [a]]).mean(axis=0) for a in range(self.ends.shape[1])])

    @cached_property
    def exact(self) -> npt.NDArray[np.bool_]:
        """[n, A], the returns that were added up without rounding, by their fingerprints."""
        return np.asarray(self.gains == _fingerprint(self.returns))

    @property
    def one_future(self) -> bool:
        """Did all rollouts of each action give the same return?"""
        return len(self.returns) > 1 and bool(
            (self.returns == self.returns[0]).all() and (self.gains == self.gains[0]).all()
        )

    @property
    def one_coupling(self) -> Draws:
        """The samples drawn under the coupling that was asked for: all of them here."""
        return self

    @classmethod
    def joined(cls, parts: Sequence[Draws]) -> Draws:
        """One after the other."""
        return cls(
            np.concatenate([part.returns for part in parts]),
            np.concatenate([part.ends for part in parts]),
            np.concatenate([part.gains for part in parts]),
            max(part.largest_reward for part in parts),
            sum(part.steps for part in parts),
            sum(part.shared_steps for part in parts),
        )


def exact_gains(gains: Integers, returns: Floats, exact: npt.NDArray[np.bool_]) -> Integers:
    """Fingerprints of what branches earned [n, A].

    That of the rewards in their steps, or, for a return that was added up without rounding, that of the return alone:
    then two are equal also where the same sum came in another order or in other parts. 64 bits either way.
    """
    return np.where(exact, _fingerprint(returns), gains)


def _fingerprint(returns: Floats) -> Integers:
    bits = np.ascontiguousarray(returns + 0.0).view(np.uint64)  # + 0.0: −0 is 0
    mixed = (bits ^ (bits >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed ^ (mixed >> np.uint64(29))).view(np.int64)


def is_exact_sum(x: Any, y: Any, total: Any) -> Any:
    """Is the float `total` of x + y the sum itself? By the rounding error of an addition, which is a float (Knuth)."""
    with np.errstate(invalid="ignore"):  # an infinite total is not exact
        part = total - x
        return (x - (total - part)) + (y - part) == 0


ENDED = -1
"""Where a branch stands that has come to a terminal state."""


class Simulator(ABC):
    """Base of all simulators. One's own needs `step`; the rest has sensible defaults.

    States of plain Python and NumPy values need nothing more. If a state holds anything else, give `digest` too. All
    luck of a step comes from its shock, through ``shock.generator()`` or ``shock.uniform()``; draw all of it before
    looking at the action, so that every action meets the same. `jmdp.testing.check_simulator` tells whether it is so.
    One simulator serves one thread.
    """

    actions: Labels | None = None  # None where actions are not numbered: those to compare must then be given
    discount: float | None = None  # where the simulator has one of its own
    lanes: int = 64  # how many branches are best kept under way at once
    check: bool = True  # try a few steps before sampling, and refuse if randomness is not shared

    @abstractmethod
    def step(self, state: Any, action: Any, shock: Shock) -> Step:
        """What the action does in the state under this luck. Changes nothing: the state can be used again."""

    def advance(self, state: Any, action: Any, shock: Shock) -> Step:
        """`step` for a caller who will never use this state again, which may spare a copy."""
        return self.step(state, action, shock)

    def digest(self, state: Any) -> bytes:
        """Bytes that are equal for states that are the same, and for no others."""
        return digest_of(state)

    def observe(self, state: Any) -> Any:
        """What a policy sees of a state."""
        return state

    def start(self, shock: Shock) -> Any:
        """A state to begin in: the one it stands in if there is such a thing, else one drawn with this luck."""
        raise UnavailableError(f"{type(self).__name__} does not say where to start. Give a state.")

    def compiled_draws(self, actor: Any, plan: Any) -> Callable[[int, int], Draws] | None:
        """A compiled program for samples (first, count) of a `RolloutPlan`, where there is one for this policy."""
        return None

    @property
    def episode_limit(self) -> int | None:
        """The steps after which the simulator ends an episode, where it has a time limit."""
        return None

    @property
    def episode_lanes(self) -> int:
        """How many episodes are best kept under way at once."""
        return min(self.lanes, 256)

    def episode(
        self, shock: Shock, state: Any = None, *, truncated_ends: bool = False, digests: bool = False
    ) -> Episode:
        """A new episode from a given state, or from the one that `start` draws with this luck.

        `truncated_ends` is for environments that tell a truncation from an end: treat it as one. `digests` says that
        `Episode.digest` will be asked for.
        """
        return SteppedEpisode(self, self.start(shock) if state is None else state)

    def compiled_episodes(self, plan: Any) -> Callable[[int, int], Any] | None:
        """A compiled program for samples (first, count) of an `EpisodePlan`, where there is one for these policies."""
        return None

    def largest_reward_from(self, state: Any) -> float | None:
        """The largest |reward| that any actions can meet from this state on; None where that is not known."""
        return None

    def check_coupling(self, coupling: Any) -> None:  # noqa: B027 (most take any)
        """Raise unless this way to share luck makes sense here."""

    def generators(self, state: Any) -> dict[str, Any]:
        """Generators that a state or the simulator keeps besides the shock, by name; for `check_simulator`."""
        return {**generators_in(state, "state"), **generators_in(vars(self), "simulator")}

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Episode(ABC):
    """One episode under way. Only going on is possible, so that environments that cannot be copied have it too."""

    @property
    @abstractmethod
    def observation(self) -> Any:
        """What a policy sees now."""

    @abstractmethod
    def step(self, action: Any, shock: Shock) -> tuple[float, bool]:
        """Take an action under this luck: the reward, and whether the episode is over."""

    def digest(self) -> bytes:
        """Bytes that are equal for equal states; needed by `Local` alone."""
        raise SimulatorError(
            "Local() shares randomness among branches in the same state, and this environment cannot say which states "
            "are the same. Use Synchronous(), or a simulator with a digest."
        )

    def close(self) -> None:  # noqa: B027 (most hold nothing)
        """Give back what the episode runs on."""


class SteppedEpisode(Episode):
    """An episode by `Simulator.step`."""

    def __init__(self, simulator: Simulator, state: Any) -> None:
        self._simulator, self._state, self._go = simulator, state, simulator.step

    @property
    def observation(self) -> Any:
        """What the simulator shows of the state."""
        return self._simulator.observe(self._state)

    def step(self, action: Any, shock: Shock) -> tuple[float, bool]:
        """One step; the first state is kept as it was, for other episodes may start in it."""
        reward, self._state, over = three_parts(self._simulator, self._go(self._state, action, shock))
        self._go = self._simulator.advance
        return reward, over

    def digest(self) -> bytes:
        """The simulator's."""
        return self._simulator.digest(self._state)


def action_labels(actions: int | Sequence[str]) -> Labels:
    """Numbered actions, for `Simulator.actions`: how many there are, or their names."""
    if isinstance(actions, Sequence) and not isinstance(actions, str) and len(actions):
        return Labels.of("action", len(actions), actions)
    if isinstance(actions, Integral) and not isinstance(actions, bool) and int(actions) >= 1:
        return Labels.of("action", int(actions), None)
    raise SettingsError(f"actions is {actions!r}. Give how many there are, or a list of their names.")


def three_parts(simulator: Simulator, outcome: Any) -> tuple[Any, Any, Any]:
    """Reward, state and termination of what a step returned."""
    try:
        reward, state, terminated = outcome
    except (TypeError, ValueError):
        what = f"{len(outcome)} values" if isinstance(outcome, tuple) else f"a {type(outcome).__name__}"
        raise SimulatorError(
            f"{simulator!r}.step returned {what}. It returns Step(reward, state, terminated)."
        ) from None
    return reward, state, terminated


def finite_step(simulator: Simulator, outcome: Any, action: Any, t: int) -> Step:
    """What a step returned, as numbers that can be added up."""
    reward, state, terminated = three_parts(simulator, outcome)
    try:
        earned = float(reward)
    except (TypeError, ValueError):
        earned = math.nan
    if not math.isfinite(earned):
        raise SimulatorError(
            f"Action {action!r} in step {t} of a rollout earned {reward!r}. A reward is a finite number; "
            "jmdp.testing.check_simulator tells where others come from."
        )
    return Step(earned, state, bool(terminated))
