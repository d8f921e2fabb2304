"""Interface of a simulator: a pure step from any state, with the randomness (luck) as an argument.

A *state* is an opaque, immutable snapshot. `Simulator.step` returns the outcome of an action in a state under a `Shock`
(the random key of one step), and may be called for any actions in any order. `digest` identifies equal states, and
`observe` returns the policy's observation. Nothing else is needed to compare actions under common random numbers. The
coupling decides which steps receive equal shocks.

Notes on exceptions of simulators, which come out unchanged.

Actions of a simulator: their labels, and the candidates of a comparison with the values passed to the simulator.

How to build a simulator: what is sent to workers in place of a simulator that cannot be pickled.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import numpy as np

from jmdp.base.arrays import Integers
from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.base.luck_batch import Shocks
from jmdp.base.settings import UNCONVERTIBLE, function, integer, listed, short
from jmdp.errors import JMDPError, SettingsError, SimulatorError, UnavailableError
from jmdp.simulators.digests import digest_of, equal_values
from jmdp.simulators.object_graph import generators_in
from jmdp.simulators.rollouts.draws import Draws

T = TypeVar("T")


class Step(NamedTuple):
    """Outcome of one action."""

    reward: float
    state: Any
    terminated: bool  # no reward can follow. False at a time limit: rollouts continue beyond it


Outcomes = tuple[Sequence[Any], Sequence[Any], Sequence[Any]]
"""Rewards, next states and terminations of several steps."""


class Simulator(ABC):
    """Base class of all simulators. A subclass must define `step`; all other methods have defaults.

    If states contain anything but plain Python and NumPy values, define `digest` too. Take all randomness of a step
    from its shock, through ``shock.generator()`` or ``shock.uniform()``, and draw it before the action is used, so that
    every action receives the same random numbers. `jmdp.testing.check_simulator` checks this. Do not share a simulator
    between threads.
    """

    actions: Labels | None = None  # None without a finite list of actions: the ones to compare must be given
    discount: float | None = None  # None if the simulator defines none
    lanes: int = 64  # recommended number of branches simulated at once
    check: bool = True  # try a few steps before sampling, and raise if randomness is not shared
    exogenous: Collection[str] = ()  # names of the inputs that steps can read from a recorded history
    recipe: Callable[[], Simulator] | None = None  # builds it anew in other processes; see `Recipe`

    @abstractmethod
    def step(self, state: Any, action: Any, shock: Shock) -> Step:
        """Outcome of the action in this state under this shock. The state must not be changed: it may be used again."""

    def advance(self, state: Any, action: Any, shock: Shock) -> Step:
        """`step` from a state that will not be used again, which may avoid a copy."""
        return self.step(state, action, shock)

    def step_all(self, states: Sequence[Any], actions: Sequence[Any], shocks: Sequence[Shock]) -> Outcomes:
        """Outcomes of `step` from each of these states."""
        return outcomes_of(self, map(self.step, states, actions, shocks))

    def advance_all(self, states: Sequence[Any], actions: Sequence[Any], shocks: Sequence[Shock]) -> Outcomes:
        """Outcomes of `advance` from each of these states, none of which is terminal."""
        go = self.step if type(self).advance is Simulator.advance else self.advance
        return outcomes_of(self, map(go, states, actions, shocks))

    def step_many(self, states: Any, actions: Integers, shocks: Shocks) -> tuple[Any, Any, Any]:
        """`step` for n branches at once, optional: rewards [n], next states and terminations [n].

        States are rows of one array, so a state must be a number, or a tuple or array of numbers of fixed length.
        `actions` [n] are indices. ``shocks.uniform()`` returns [n] numbers, ``shocks.uniforms(m)`` [n, m], the same as
        `Shock.uniform` and `Shock.uniforms` of each branch. The outcomes must be those of `step`, bit for bit.
        """
        raise UnavailableError(f"{type(self).__name__} defines no step_many.")

    def scenario_of(self, state: Any, shock: Shock) -> int | None:
        """Number of the scenario that a step from this state has under the shock; None if there are no scenarios."""
        return None

    def digest(self, state: Any) -> bytes:
        """Bytes that are equal for equal states, and for no others."""
        return digest_of(state)

    def same_state(self, one: Any, other: Any) -> bool:
        """Whether two states are equal, that is, whether their digests are."""
        if type(self).digest is Simulator.digest:
            return equal_values(one, other)
        return self.digest(one) == self.digest(other)

    def observe(self, state: Any) -> Any:
        """Observation of a state, the input of a policy."""
        return state

    def observe_all(self, states: list[Any]) -> list[Any]:
        """Observation of each of these states."""
        return list(map(self.observe, states))

    def start(self, shock: Shock) -> Any:
        """Start state: the current one if the simulator has one, otherwise one drawn with this shock."""
        raise UnavailableError(f"{type(self).__name__} defines no start state. Give a state.")

    def program(self, plan: Any) -> Callable[[int, int], Draws] | None:
        """Compiled program for samples (first, count) of a `BranchPlan`; None if there is none for its policies.

        By default the program uses `step_many`, if it is defined.
        """
        engine = import_module("jmdp.simulators.rollouts.array_engine")  # by name, because it imports this module
        program: Callable[[int, int], Draws] | None = engine.batched_program(self, plan)
        return program

    @property
    def episode_limit(self) -> int | None:
        """Number of steps after which the simulator ends an episode; None without a time limit."""
        return None

    @property
    def episode_lanes(self) -> int:
        """Recommended number of episodes simulated at once."""
        return min(self.lanes, 256)

    def episode(
        self, shock: Shock, state: Any = None, *, truncated_ends: bool = False, digests: bool = False
    ) -> Episode:
        """Begin an episode in the given state, or in the one that `start` draws with this shock.

        `truncated_ends` treats truncations as terminations, in environments that distinguish the two. Set `digests` if
        `Episode.digest` will be called.
        """
        return SteppedEpisode(self, self.start(shock) if state is None else state)

    def in_block(self, simulate: Callable[[], T]) -> T:
        """Result of a block of simulations, whose states may share what steps do not write to and end with it.

        If a step has written to it, the block is simulated again, and nothing is shared from then on.
        """
        return simulate()

    def largest_reward_from(self, state: Any) -> float | None:
        """Largest |reward| that any actions can give from this state on; None if unknown."""
        return None

    def pack(self, state: Any) -> Any:
        """What is sent to other processes in place of a state, to be picklable or small."""
        return state

    def unpack(self, packed: Any) -> Any:
        """The state of which `pack` returned this, in another process."""
        return packed

    def __reduce_ex__(self, protocol: Any) -> Any:
        return super().__reduce_ex__(protocol) if self.recipe is None else (_rebuilt, (self.recipe,))

    def check_coupling(self, coupling: Any) -> None:  # noqa: B027 (most accept any)
        """Raise if the simulator does not support this coupling."""

    def frame(self, state: Any) -> Any:
        """Picture of a state, an array [height, width, 3] of uint8, for reviews; None if there is none."""
        return None

    def generators(self, state: Any) -> dict[str, Any]:
        """Generators other than the shock's in the state or the simulator, by name; for `check_simulator`."""
        return {**generators_in(state, "state"), **generators_in(vars(self), "simulator")}

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _rebuilt(recipe: Callable[[], Simulator]) -> Simulator:
    return recipe()


class Episode(ABC):
    """An episode in progress. It only moves forward, so environments that cannot be copied support it too."""

    @property
    @abstractmethod
    def observation(self) -> Any:
        """Current observation, the input of a policy."""

    @abstractmethod
    def step(self, action: Any, shock: Shock) -> tuple[float, bool]:
        """Take an action under this shock; return the reward, and whether the episode is over."""

    def play(self, choose: Callable[[Any], Any], shocks: Iterable[Shock], rewards: list[float]) -> bool:
        """Take the chosen actions under these shocks until the episode is over; return whether it is.

        The rewards, which must be finite, are appended. A shock is taken from the iterator before each step.
        """
        over = False
        for shock in shocks:
            action = choose(self.observation)
            reward, over = self.step(action, shock)
            if type(reward) is not float or reward - reward != 0:  # not a float, or not finite
                reward = finite_reward(reward, action, len(rewards))
            rewards.append(reward)
            if over:
                break
        return over

    def scenario(self, shock: Shock) -> int | None:
        """The scenario that the next step has under this shock, as `Simulator.scenario_of`."""
        return None

    def digest(self) -> bytes:
        """Bytes that are equal for equal states; only `Local` needs them."""
        raise SimulatorError(
            "Local() shares randomness among branches in equal states, but states of this environment cannot be "
            "compared. Use Synchronous(), or a simulator with a digest."
        )

    def frame(self) -> Any:
        """Picture of the current state, as `Simulator.frame`; None if there is none."""
        return None

    def close(self) -> None:  # noqa: B027 (most have nothing to release)
        """Release the resources of the episode."""


class SteppedEpisode(Episode):
    """Episode simulated with `Simulator.step` and `advance`."""

    def __init__(self, simulator: Simulator, state: Any) -> None:
        self._simulator, self._state, self._go = simulator, state, simulator.step

    @property
    def observation(self) -> Any:
        """Observation of the current state."""
        return self._simulator.observe(self._state)

    def step(self, action: Any, shock: Shock) -> tuple[float, bool]:
        """Simulate one step; the start state is not changed, because other episodes may start in it."""
        reward, self._state, over = three_parts(self._simulator, self._go(self._state, action, shock))
        self._go = self._simulator.advance
        return reward, over

    def scenario(self, shock: Shock) -> int | None:
        """The scenario that the simulator reports."""
        return self._simulator.scenario_of(self._state, shock)

    def digest(self) -> bytes:
        """The simulator's digest of the current state."""
        return self._simulator.digest(self._state)

    def frame(self) -> Any:
        """The simulator's picture of the current state."""
        return self._simulator.frame(self._state)


def three_parts(simulator: Simulator, outcome: Any) -> tuple[Any, Any, Any]:
    """Reward, state and termination returned by a step."""
    try:
        reward, state, terminated = outcome
    except (TypeError, ValueError):
        what = f"{len(outcome)} values" if isinstance(outcome, tuple) else f"a {type(outcome).__name__}"
        raise SimulatorError(f"{simulator!r}.step returned {what}. Return Step(reward, state, terminated).") from None
    return reward, state, terminated


def outcomes_of(simulator: Simulator, steps: Iterable[Any]) -> Outcomes:
    """Outcomes of these steps, at least one."""
    steps = list(steps)
    try:
        rewards, states, over = zip(*steps, strict=True)
    except (TypeError, ValueError):
        for step in steps:
            three_parts(simulator, step)
        raise
    return rewards, states, over


def finite_step(simulator: Simulator, go: Callable[..., Any], state: Any, action: Any, shock: Shock, t: int) -> Step:
    """Outcome of `go`, which is `step` or `advance`, with a finite reward; what it raises gets a note of the step."""
    try:
        outcome = go(state, action, shock)
    except Exception as error:
        note_step(error, simulator, t)
        raise
    reward, after, terminated = three_parts(simulator, outcome)
    return Step(finite_reward(reward, action, t), after, is_over(terminated))


def finite_reward(reward: Any, action: Any, t: int) -> float:
    """Reward as a float; raise if it is not a finite number."""
    earned = _earned(reward)
    if earned is None or not math.isfinite(earned):
        raise SimulatorError(
            f"Action {short(action)} in step {t} of a rollout returned the reward {short(reward)}. Return a finite "
            "number; jmdp.testing.check_simulator finds the actions and states that do not."
        )
    return earned


def plain_reward(reward: Any) -> float:
    """Reward as a float, which may be infinite or nan; raise if it is not a number."""
    earned = float(reward) if type(reward) is int and -_EXACT < reward < _EXACT else _earned(reward)
    if earned is None:
        raise SimulatorError(f"A step returned the reward {short(reward)}. Return a finite number.")
    return earned


def _earned(reward: Any) -> float | None:
    """Reward as a float; None if it is no real number, as text and complex numbers, which float() would convert."""
    try:
        if type(reward) in _NUMBERS:
            return float(reward)
        if isinstance(reward, (str, bytes, np.complexfloating)):
            return None
        return float(reward.detach() if hasattr(reward, "detach") else reward)  # a torch tensor may require a gradient
    except OverflowError:
        return math.inf
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: a torch tensor of several numbers
        return None


_EXACT = 1 << 53
"""Integers below are floats too."""

_NUMBERS = frozenset({float, int, bool, np.float64, np.float32})


def is_over(terminated: Any) -> bool:
    """Whether a step was the last one; raise if what it returned has no truth value."""
    try:
        return bool(terminated)
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: a torch tensor of several truth values
        raise SimulatorError(
            f"The end of an episode is {short(terminated)}, which is neither true nor false. Return True or False."
        ) from error


REPEATED = "The same call with the same seed raises it again, unless its cause lies outside the simulator."


def note_step(error: Exception, simulator: Simulator, t: int) -> None:
    """Add the step (from 0) in which an exception was raised, unless it says more already."""
    if not isinstance(error, JMDPError) and not getattr(error, "__notes__", None):
        error.add_note(f"Raised in step {t + 1} of {simulator!r}. {REPEATED}")


MOST_ACTIONS = 1_000_000
"""Actions that are tried or compared unless some are chosen."""


def action_labels(actions: int | Sequence[str]) -> Labels:
    """Labels for `Simulator.actions`, from the number of actions or their names."""
    if isinstance(actions, Sequence) and not isinstance(actions, (str, bytes)) and len(actions):
        return Labels.of("action", len(actions), actions)
    number = integer(actions)
    if number is None or not 1 <= number <= 2**62:
        raise SettingsError(f"actions is {short(actions)}. Give the number of actions, or a list of their names.")
    return Labels.of("action", number, None)


def all_actions(labels: Labels) -> range:
    """Indices of all actions; raise if there are too many to list."""
    if labels.size > MOST_ACTIONS:
        raise SettingsError(f"There are {labels.size:,} actions. Choose at most {MOST_ACTIONS:,}: actions=[…].")
    return range(labels.size)


def listed_actions(actions: Any) -> list[Any]:
    """The given actions as a list; raise if they are no list, or one that is too long."""
    some = listed(actions, MOST_ACTIONS)
    if some is None:
        raise SettingsError(f"actions is {short(actions)}. Give a list of actions.")
    if len(some) > MOST_ACTIONS:
        raise SettingsError(f"actions has more than {MOST_ACTIONS:,} entries. Give fewer.")
    return some


def candidate_actions(
    numbered: Labels | None, actions: Sequence[Any] | Mapping[str, Any] | None
) -> tuple[list[Any], Labels]:
    """Values that are passed to the simulator for each candidate, and the labels of the candidates."""
    if isinstance(actions, (set, frozenset)):
        raise SettingsError(f"actions is {short(actions)}, a set, which has no order. Give a list.")
    if numbered is None:
        if actions is None:
            raise SettingsError(
                "This simulator has no finite list of actions. Give the ones to compare in this call: actions=[…], or "
                'with names, actions={"left": …, "right": …}; on the command line --actions.'
            )
        chosen = listed_actions(actions.values() if isinstance(actions, Mapping) else actions)
        names = [_name(one) for one in (actions if isinstance(actions, Mapping) else chosen)]
        if len(set(names)) < len(names):
            names = [f"action {i}" for i in range(len(chosen))]
        count = len({digest_of(action) for action in chosen})
    else:
        if isinstance(actions, Mapping):
            raise SettingsError(f"actions is {short(actions)}. Give a list of actions, by index or name.")
        if actions is None:
            chosen = list(all_actions(numbered))
        else:
            chosen = [numbered.index(label) for label in listed_actions(actions)]
        names = [numbered.name(a) for a in chosen]
        count = len(set(chosen))
    if len(chosen) < 2 or count != len(names):
        raise SettingsError(f"actions are {short(names, 200)}. Give at least two different actions.")
    return chosen, Labels.of("action", len(chosen), names)


def _name(action: Any) -> str:
    try:
        if hasattr(action, "shape"):
            return np.array2string(np.asarray(action), precision=4, separator=", ")
        return str(action)
    except UNCONVERTIBLE:  # a tensor without data, or an integer that is too long to print
        return short(action)


@dataclass(frozen=True, init=False)
class Recipe:
    """How to build a simulator, for those that cannot be sent to other processes or are large.

    Use it in place of the simulator. ``factory(*args)`` is called once here and once in each worker process that
    simulates; it returns a simulator or an environment, always in the same state:

        jmdp.compare(jmdp.Recipe(make_env, "LunarLander-v3"), …, pool=jmdp.distribute.RayPool())

    Parameters
    ----------
    factory
        Function that builds the simulator.
    args
        Its arguments, which must be picklable.
    """

    factory: Callable[..., Any]
    args: tuple[Any, ...]

    def __init__(self, factory: Callable[..., Any], *args: Any) -> None:
        function("factory", factory, SimulatorError)
        object.__setattr__(self, "factory", factory)
        object.__setattr__(self, "args", args)

    def simulator(self, convert: Callable[[Any], Simulator]) -> Simulator:
        """Build the simulator. When it is pickled, this recipe and `convert` are stored instead."""
        made = self.factory(*self.args)
        simulator = convert(made)
        if simulator.recipe is not None:
            raise SimulatorError(
                "The factory of the recipe returned a simulator that was built by another recipe. Give that recipe."
            )
        simulator.recipe = partial(self.simulator, convert)
        return simulator
