"""Adapter that makes a simulator of an ordinary Python class with `reset`, `step` and its own random generators."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from jmdp.base.arrays import are_indices
from jmdp.base.labels import Labels
from jmdp.base.luck import Shock, Usage
from jmdp.base.settings import function, names, short
from jmdp.errors import SettingsError, SimulatorError, UnavailableError
from jmdp.simulators.adapters.exogenous import ExogenousInputs, Source
from jmdp.simulators.adapters.gymnasium.saved import History
from jmdp.simulators.adapters.objects.advice import refuse_object
from jmdp.simulators.adapters.objects.copies import (
    ClonedCopies,
    Copies,
    DeepCopies,
    ObjectEpisode,
    ObjectState,
    PickledCopies,
    ReplayedCopies,
    SavedCopies,
    own_copies,
)
from jmdp.simulators.adapters.objects.generators import Watch, generator_places
from jmdp.simulators.adapters.objects.object_steps import MISSING, ObjectSteps, own_step
from jmdp.simulators.adapters.objects.trial import Trial, differing_attributes, report_of, try_out, warn_of_seeds
from jmdp.simulators.checking.visits import branch_fault
from jmdp.simulators.digests import digest_of, same_at_a_glance
from jmdp.simulators.simulator import Episode, Outcomes, Simulator, Step, action_labels, finite_reward

_NUMBERS = itertools.count()
"""Numbers of the states given by `current`, whose histories are unknown."""

_MANY = 256
"""Number of small objects that are stepped together, so that the work on all of them together takes little time."""

_MOST_ACTIONS = 32
"""Largest number of actions that are tried."""


class ObjectSimulator(Simulator):
    """Simulator of an ordinary Python object: `reset()` begins an episode, and `step(action)` returns a reward.

    The object keeps its own random generators: NumPy's (new, old or bit generators) or Python's, in attributes, slots
    and containers. They are found, and set to the key of the step before each step, so that all actions receive the
    same randomness. If steps draw from the global generators of NumPy or Python, these are set during each step and
    restored after it. An object with one NumPy generator, ``rng``, takes the same steps as after ``rng =
    shock.generator()``.

    `step` returns a reward, (reward, done), (observation, reward, done), (observation, reward, done, info) or
    Gymnasium's five values; `truncated` ends whole episodes of `compare_policies` without a discount, but no rollouts.
    `reset` is optional, takes no arguments, and returns an observation, (observation, info) or None.

    Before use, about a hundred steps are tried, with each of up to 32 actions. The same keys must give the same steps
    in two objects; otherwise, and for generators that cannot be keyed (closures, class attributes, global variables,
    torch), an error names the place and the fix. Copies are made by the object's methods ``save_state`` and
    ``restore_state``, ``get_state`` and ``set_state``, ``snapshot`` and ``restore``, or ``clone``; else by pickle, else
    by ``copy.deepcopy``, else by repeating all steps: the first of these by which copies and original continue exactly
    as without copying. `report` says which, and what else was found.

    Parameters
    ----------
    factory
        The class, or a function without arguments that makes a new object.
    actions
        Number of actions or their names (`step` receives the index), or a dictionary from names to the values that
        `step` receives. None: any values; the ones to compare are then given to `compare`, and the trial uses the first
        action that is simulated.
    step
        ``step(object, action)``, if the object's own method has another name, returns nothing (Mesa) or something else.
    observe
        ``observe(object)``: the observation for policies, if `step` returns none or another one is needed. It must not
        change the object.
    save, restore
        ``save(object)`` and ``restore(object, saved)``: how to save and restore the state, instead of the object's own
        methods.
    snapshot
        "pickle", "deepcopy" or "replay": use this way to copy. None chooses.
    shared
        Names of attributes that steps write but never read, such as a log. Copies share them, and they are not part of
        the state. Their contents are set back after each step.
    digest
        ``digest(object)``: value that is equal for equal states. None uses all attributes.
    exogenous
        Inputs that `step` takes as keyword arguments, ``step(action, demand=…)``, as in `FunctionSimulator`: recorded
        with ``luck=history``, otherwise drawn.
    """

    def __init__(
        self,
        factory: Callable[[], Any],
        actions: int | Sequence[str] | Mapping[str, Any] | None = None,
        *,
        step: Callable[[Any, Any], Any] | None = None,
        observe: Callable[[Any], Any] | None = None,
        save: Callable[[Any], Any] | None = None,
        restore: Callable[[Any, Any], object] | None = None,
        snapshot: Literal["pickle", "deepcopy", "replay"] | None = None,
        shared: Sequence[str] = (),
        digest: Callable[[Any], Any] | None = None,
        exogenous: Mapping[str, Source] | None = None,
    ) -> None:
        refuse_object(factory, has_step=step is not None)
        if (save is None) != (restore is None):
            raise SettingsError("save and restore must be given together. Give both or neither.")
        if snapshot is not None and (type(snapshot) is not str or snapshot not in ("pickle", "deepcopy", "replay")):
            raise SettingsError(f'snapshot is {short(snapshot)}. Use None, "pickle", "deepcopy" or "replay".')
        self.actions, self._values = _actions(actions)
        given = {"step": step, "observe": observe, "save": save, "restore": restore, "digest": digest}
        for name, value in given.items():
            function(name, value, SettingsError, optional=True)
        self._step, self._observe, self._own_digest = step or own_step, observe, digest
        inputs = ExogenousInputs(exogenous)
        self.exogenous = inputs.sources
        self._steps = ObjectSteps(factory, self._step, digest, names("shared", shared, SettingsError), inputs)
        self._ways = self._ways_to_copy(snapshot, save, restore)
        self._copies: Copies | None = None  # chosen in `_ready`
        self._trial: Trial | None = None
        self._remarks: list[str] = []
        self._keeps_history = True  # whether states store the steps that led to them
        self._same_start: tuple[bytes, Any, bool] | None = None  # copy, observation, and use of the shock
        if self._values is not None:
            self._ready(self._values[0])

    def _ways_to_copy(self, snapshot: str | None, save: Any, restore: Any) -> list[Copies]:
        steps = self._steps
        known: dict[str, Copies] = {
            "pickle": PickledCopies(steps.shared, steps.keys),
            "deepcopy": DeepCopies(steps.shared, steps.keys),
            "replay": ReplayedCopies(_Begin(steps), steps.step),
        }
        if snapshot is not None:
            return [known[snapshot]]
        if save is not None:
            return [SavedCopies("the given functions", steps.spare, save, restore)]
        return [*own_copies(steps.spare(), steps.spare), *known.values()]

    def _ready(self, value: Any) -> Copies:
        """Try the object with this action, or with several of its own, unless this was done before."""
        if self._copies is None:
            values = [value] if self._values is None else self._values
            self._trial = try_out(self._steps, _some(values, _MOST_ACTIONS), self._step)
            if self._steps.keys.places is not None:
                self._steps.watch = Watch(self._steps.keys, self._steps.name)
            self._copies = self._chosen_copies([value] if self.actions is None else _some(range(self.actions.size), 3))
            if self._trial.made:
                warn_of_seeds(self._steps.name, self._trial.made)
            self.lanes = _MANY if self._trial.small else self.lanes  # samples do not depend on this number
            stored = isinstance(self._copies, (PickledCopies, SavedCopies))
            self._keeps_history = self._trial.opaque or not stored
            self._steps.attributes = None if self._steps.uses_globals else self._steps.keys.attributes()
            self._same_start = self._start_without_draws(self._copies)
        return self._copies

    def _start_without_draws(self, copies: Copies) -> tuple[bytes, Any, bool] | None:
        """The start if it draws nothing, so that copies of it take the place of new objects; else None."""
        assert self._trial is not None
        if self._trial.starts_vary or not isinstance(copies, PickledCopies):
            return None
        usage = Usage()
        thing, seen = self._steps.begin(Shock.of_sample(0, 0, usage))
        return None if self._steps.drew_at_start else (copies.freeze(thing, None), _kept(seen), usage.used)

    def _chosen_copies(self, actions: Sequence[Any]) -> Copies:
        """The first way of copying by which branches continue as episodes without copies."""
        self._remarks = []
        try:
            for way in self._ways:
                self._copies = way
                fault = self._fault_of(way, actions)
                if fault is None:
                    return way
                self._remarks.append(f"not by {way.name}: {fault}")
        finally:
            self._copies = None
        raise SimulatorError(f"{self._steps.name} cannot be copied. " + ". ".join(self._remarks))

    def _fault_of(self, way: Copies, actions: Sequence[Any]) -> str | None:
        """Why copies cannot be made in this way; None if they can.

        Attributes that the object's own methods do not restore, and that change no reward and no observation, are from
        then on no part of a state.
        """
        ignored = self._steps.ignored
        try:
            fault = branch_fault(self, actions)
            if fault is None or not isinstance(way, (SavedCopies, ClonedCopies)):
                return fault
            left_out = self._not_restored(way, actions)
            self._steps.ignored = ignored.union(left_out)
            if left_out and branch_fault(self, actions) is None:
                self._remarks.append(f"they do not restore {', '.join(left_out)}, which is then no part of the state")
                return None
        except Exception as error:  # own methods to copy, and steps of a wrong copy, may raise anything
            fault = f"{type(error).__name__}: {error}"
        self._steps.ignored = ignored
        return fault

    def _not_restored(self, way: Copies, actions: Sequence[Any]) -> list[str]:
        """Attributes that differ between an object and a copy of it, made in an object that has taken other steps."""
        root = Shock.of_sample(0, 0)
        self.step(self.start(root), actions[0], root.derived(b"elsewhere"))  # whose object is restored below
        state, ended = self.start(root), False
        for t in range(3):
            if not (ended or state.truncated):
                _, state, ended = self.advance(state, actions[t % len(actions)], root.derived(b"step", t))
        copied = way.thaw(state.freeze(way))
        self._steps.shared.attach(copied)
        return differing_attributes(state.live, copied)

    @property
    def report(self) -> str:
        """What the trial found: how objects are copied, their generators, and what grows with time."""
        if self._copies is None or self._trial is None:
            raise UnavailableError(
                "There is no report yet: it is about steps that are tried, which needs actions. Give them to the "
                "simulator, ObjectSimulator(…, actions=[…]), or call step before report."
            )
        return report_of(self._steps.name, self._copies.name, self._remarks, self._trial)

    def start(self, shock: Shock) -> ObjectState:
        """State of a new object after its reset, with the randomness of this shock."""
        if self._same_start is None or self._copies is None or type(shock) is not Shock:
            thing, seen = self._steps.begin(shock)
        else:
            frozen, seen, uses = self._same_start
            thing, seen = self._copies.thaw(frozen), _kept(seen)
            self._steps.shared.attach(thing)
            if uses:
                shock.note_use()
        return ObjectState(thing, seen, History(None, (None, shock)) if self.keeps_states else None)

    def current(self, thing: Any, observation: Any = MISSING) -> ObjectState:
        """State of an object of your own, which is copied and not changed.

        `observation` is needed only if a policy acts in this state and there is no `observe`.
        """
        if self._copies is None:
            raise UnavailableError(
                "current(…) copies an object. How it can be copied is found by trying steps, which needs actions. Give "
                "them to the simulator, ObjectSimulator(…, actions=[…]), or call step before current."
            )
        copied = self._copy_of(thing)
        self._steps.shared.attach(copied)
        own = {id(generator) for _, generator in generator_places(thing)[0]}
        if any(id(generator) in own for _, generator in generator_places(copied)[0]):
            raise SimulatorError(f"A copy of this {type(thing).__name__} shares its generator. Start with start(…).")
        self._steps.keys.set(copied, Shock(bytes(16)))
        state = ObjectState(copied, observation, History(None, (f"current {next(_NUMBERS)}", None)))
        state.copies = self._copies
        return state

    def _copy_of(self, thing: Any) -> Any:
        shared = self._steps.shared
        error: Exception | None = None
        # A saved state may contain that of a generator of another kind than the keyed ones.
        for way in (self._copies, PickledCopies(shared, self._steps.keys), DeepCopies(shared, self._steps.keys)):
            if way is not None and not isinstance(way, ReplayedCopies):
                try:
                    return way.thaw(way.freeze(thing, None))
                except Exception as raised:  # copying may raise anything
                    error = raised
        raise SimulatorError(
            f"The current state of this {type(thing).__name__} cannot be copied: {error}. Reach it by steps from "
            "simulator.start(…), or give save=… and restore=…."
        ) from error

    def step(self, state: ObjectState, action: Any, shock: Shock) -> Step:
        """Step of a copy of the object in this state."""
        value = self._value(action)
        copies = self._ready(value)
        if type(state) is not ObjectState or state.used_up:
            _refuse_unusable(state)
        if state.live is None and state.frozen is None:
            state.live = self._replayed(state)
        thing = copies.thaw(state.freeze(copies))
        self._steps.shared.attach(thing)
        return self._stepped(thing, state, value, shock)

    def advance(self, state: ObjectState, action: Any, shock: Shock) -> Step:
        """Step of the object itself; the given state cannot be used again."""
        value = self._value(action)
        if self._copies is None:
            self._ready(value)
        if type(state) is not ObjectState or state.used_up:
            _refuse_unusable(state)
        thing = state.live if state.live is not None else self._thing(state)
        state.used_up, state.live = True, None
        return self._stepped(thing, state, value, shock)

    def advance_all(self, states: Sequence[Any], actions: Sequence[Any], shocks: Sequence[Shock]) -> Outcomes:
        """`advance` from each of these states, which become the next ones if they need no history."""
        if self.keeps_states or type(self).advance is not ObjectSimulator.advance:
            return super().advance_all(states, actions, shocks)
        if self._values is not None and are_indices(actions, len(self._values)):
            values: Iterable[Any] = map(self._values.__getitem__, actions)
        else:
            values = map(self._value, actions)
        step, rewards, over = self._steps.step, [], []
        for state, value, shock in zip(states, values, shocks, strict=True):
            if type(state) is not ObjectState or state.used_up:
                _refuse_unusable(state)
            thing = state.live if state.live is not None else self._thing(state)
            state.steps += 1
            seen, reward, ended, truncated = step(thing, value, shock, state.steps)
            state.observation = seen if type(seen) is int else _kept(seen)
            state.frozen, state.truncated = None, state.truncated or bool(truncated)
            rewards.append(float(reward))
            over.append(bool(ended))
        return rewards, states, over

    def play(
        self,
        state: ObjectState,
        choose: Callable[[Any], Any],
        shocks: Iterator[Shock],
        rewards: list[float],
        *,
        truncated_ends: bool,
    ) -> bool:
        """`Episode.play` by `advance`, without the states in between: the state given becomes the last one."""
        thing, number, seen = state.live, state.steps, state.observation
        step, values = self._steps.step, () if self.actions is None or self._values is None else self._values
        size, keep, looks = len(values), rewards.append, self._observe is not None
        try:
            for shock in shocks:
                if looks or seen is MISSING:
                    state.steps, state.observation = number, seen
                    seen = self.observe(state)
                action = choose(seen)
                value = values[action] if type(action) is int and 0 <= action < size else self._value(action)
                number += 1
                seen, reward, over, truncated = step(thing, value, shock, number)
                if type(seen) is not int:
                    seen = _kept(seen)
                if reward - reward != 0:
                    reward = finite_reward(reward, action, len(rewards))
                keep(reward if type(reward) is float else float(reward))
                if truncated:
                    state.truncated = True
                if over or (truncated_ends and state.truncated):
                    return True
        finally:
            state.steps, state.observation, state.copies, state.frozen = number, seen, self._copies, None
        return False

    def _stepped(self, thing: Any, state: ObjectState, value: Any, shock: Shock) -> Step:
        steps = state.steps + 1
        seen, reward, over, truncated = self._steps.step(thing, value, shock, steps)
        history = History(state.history, (_kept(value), shock)) if self._keeps_history else None
        after = ObjectState(thing, _kept(seen), history, steps, state.truncated or bool(truncated))
        after.copies = self._copies
        return Step(float(reward), after, bool(over))

    def _thing(self, state: ObjectState) -> Any:
        """The object of a state."""
        if state.live is None:
            state.live = self._replayed(state) if state.frozen is None else self._ready(None).thaw(state.frozen)
            self._steps.shared.attach(state.live)
        return state.live

    def _replayed(self, state: ObjectState) -> Any:
        assert state.history is not None
        return ReplayedCopies(_Begin(self._steps), self._steps.step).thaw(state.history)

    def _value(self, action: Any) -> Any:
        """Value passed to the object's step."""
        if self.actions is None or self._values is None:
            return action
        if type(action) is int and 0 <= action < self.actions.size:
            return self._values[action]
        return self._values[self.actions.index(action)]

    def episode(
        self, shock: Shock, state: ObjectState | None = None, *, truncated_ends: bool = False, digests: bool = False
    ) -> Episode:
        """Episode in an object of its own."""
        begun = self.start(shock) if state is None else state
        _refuse_unusable(begun)
        return ObjectEpisode(self, begun, copy_first=state is not None, truncated_ends=truncated_ends)

    def digest(self, state: ObjectState) -> bytes:
        """Digest of a state; equal states have equal digests. Of objects that cannot be inspected, equal histories."""
        _refuse_unusable(state)
        if self._own_digest is None and self._trial is not None and self._trial.opaque and state.history is not None:
            return digest_of(state.history.digest())
        return self._steps.digest(self._thing(state))

    @property
    def keeps_states(self) -> bool:
        """Whether each state of an episode is needed for its history, or objects were not tried yet."""
        return self._keeps_history or self._copies is None

    def same_state(self, one: ObjectState, other: ObjectState) -> bool:
        """Whether two states are equal; digests are computed only if this is not seen from plain attributes."""
        found = None
        if self._own_digest is None and not self.keeps_states:
            for state in (one, other):
                _refuse_unusable(state)
            found = same_at_a_glance(self._thing(one), self._thing(other), self._steps.ignored)
        return self.digest(one) == self.digest(other) if found is None else found

    def observe(self, state: ObjectState) -> Any:
        """Observation that `step` or `reset` returned, or that `observe` finds."""
        _refuse_unusable(state)
        if self._observe is not None:
            return _kept(self._observe(self._thing(state)))
        if state.observation is MISSING:
            verb = "step" if state.steps else "reset"
            raise UnavailableError(
                f"The policy needs an observation, but {verb} of {self._steps.name} returned none. Give a function of "
                "the object: ObjectSimulator(…, observe=lambda thing: thing.stock)."
            )
        return state.observation

    def observe_all(self, states: list[Any]) -> list[Any]:
        """`observe` of each of these states."""
        if self._observe is None and type(self).observe is ObjectSimulator.observe:
            seen = [state.observation for state in states if not state.used_up]
            if len(seen) == len(states) and type(MISSING) not in set(map(type, seen)):
                return seen
        return super().observe_all(states)

    def generators(self, state: ObjectState) -> dict[str, Any]:
        """None besides the global ones: the trial has refused all that steps draw from and that are not keyed."""
        return {}

    def __repr__(self) -> str:
        how = "" if self._copies is None else f", copied by {self._copies.name}"
        grown = tuple(self._trial.growing or ()) if self._trial is not None else ()
        return f"ObjectSimulator({self._steps.name}{how}{', growing: ' * bool(grown)}{', '.join(grown)})"


class _Begin:
    """Start of an object, without its observation; a class, because lambdas cannot be pickled."""

    def __init__(self, steps: ObjectSteps) -> None:
        self._steps = steps

    def __call__(self, shock: Shock) -> Any:
        return self._steps.begin(shock)[0]


def _actions(actions: Any) -> tuple[Labels | None, Sequence[Any] | None]:
    """Labels of the actions, and the values that step receives."""
    if actions is None:
        return None, None
    if isinstance(actions, Mapping):
        return action_labels([str(name) for name in actions]), list(actions.values())
    if isinstance(actions, (list, tuple)) and not all(isinstance(name, str) for name in actions):
        raise SettingsError(
            f"actions is {short(actions)}. Give names with values, actions={{'order 5': 5}}, or omit actions here and "
            "give the values to jmdp.compare(…, actions=[…])."
        )
    labels = action_labels(actions)
    return labels, range(labels.size)


def _some(values: Sequence[Any], most: int) -> list[Any]:
    """All of these, or as many from the first to the last one."""
    if len(values) <= most:
        return list(values)
    last = len(values) - 1
    return [values[min(last, round(i * last / (most - 1)))] for i in range(most)]


def _kept(value: Any) -> Any:
    """A value that later steps of the object do not change."""
    if value is None or value is MISSING or type(value) in (int, float, str, bool):
        return value
    return value.copy() if type(value) is np.ndarray and not value.dtype.hasobject else copy.deepcopy(value)


def _refuse_unusable(state: Any) -> None:
    if not isinstance(state, ObjectState):
        raise SettingsError(
            f"The state is a {type(state).__name__}. Give a state of this simulator: simulator.current(thing) for an "
            "object of your own, or simulator.start(…)."
        )
    if state.used_up:
        raise SimulatorError("This state was passed to advance() and cannot be used again. Use step() to keep a state.")
