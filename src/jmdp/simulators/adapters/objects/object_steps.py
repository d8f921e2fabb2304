"""Start and step of an ordinary object with all its generators set to the key of a shock.

Results of `step` and `reset` of an ordinary object: the accepted forms, and the error for all others.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from jmdp.base.global_generators import global_state, restore_global_state
from jmdp.base.keyed_generator import KeyedGenerator
from jmdp.base.luck import Shock
from jmdp.base.settings import short
from jmdp.errors import SimulatorError
from jmdp.simulators.adapters.exogenous import ExogenousInputs
from jmdp.simulators.adapters.gymnasium.env_operations import seeded_global_generators
from jmdp.simulators.adapters.objects.copies import SharedAttributes
from jmdp.simulators.adapters.objects.generators import GeneratorKeys, KeyedStep, Watch, are_simple, note_use
from jmdp.simulators.digests import digest_of
from jmdp.simulators.simulator import REPEATED


class _Missing:
    """Type of `MISSING`."""

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING = _Missing()
"""Observation that neither `step` nor `reset` returned."""


class StepResult(NamedTuple):
    """What a step returned."""

    observation: Any
    reward: Any
    terminated: Any
    truncated: bool


_NUMBERS = (int, float, np.integer, np.floating)
_BOOLEANS = (bool, np.bool_)


def step_result(returned: Any, owner: str) -> StepResult:
    """Observation, reward and end of an episode, from what the step of `owner` returned."""
    if isinstance(returned, tuple):
        size = len(returned)
        if size == 2 and isinstance(returned[1], _BOOLEANS):
            return _checked(StepResult(MISSING, returned[0], returned[1], False), returned, owner)
        if size == 3 or (size == 4 and isinstance(returned[3], dict)):
            return _checked(StepResult(returned[0], returned[1], returned[2], False), returned, owner)
        if size == 5 and isinstance(returned[3], _BOOLEANS):
            return _checked(StepResult(*returned[:4]), returned, owner)
    elif _is_number(returned) and not isinstance(returned, _BOOLEANS):
        return StepResult(MISSING, returned, False, False)
    raise SimulatorError(f"step of {owner} returned {_described(returned)}. {_FORMS}")


def _checked(result: StepResult, returned: Any, owner: str) -> StepResult:
    if _is_number(result.reward) and isinstance(result.terminated, _BOOLEANS):
        return result
    raise SimulatorError(f"step of {owner} returned {_described(returned)}. {_FORMS}")


def _is_number(value: Any) -> bool:
    if isinstance(value, _NUMBERS):
        return True
    scalar = hasattr(value, "shape") and hasattr(value, "item") and value.shape == ()
    return scalar and isinstance(value.item(), _NUMBERS)


def _described(returned: Any) -> str:
    if isinstance(returned, tuple):
        kinds = [
            f"array of shape {part.shape}" if isinstance(part, np.ndarray) and part.shape else type(part).__name__
            for part in returned
        ]
        return f"({', '.join(kinds)})"
    return "None" if returned is None else f"a {type(returned).__name__}"


_FORMS = (
    "Return a reward, (reward, done), (observation, reward, done), (observation, reward, done, info) or Gymnasium's "
    "(observation, reward, terminated, truncated, info), where the reward is a number, done a bool and info a dict. To "
    "keep the class as it is, give a function: ObjectSimulator(…, step=lambda thing, action: (observation, reward, "
    "done))."
)


def first_observation(returned: Any) -> Any:
    """Observation that a reset returned: the value itself, or the first of Gymnasium's (observation, info)."""
    if returned is None:
        return MISSING
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict):
        return returned[0]
    return returned


_NOTHING = Shock(bytes(16))
_NONE: dict[str, Any] = {}


def own_step(thing: Any, action: Any, **inputs: Any) -> Any:
    """The object's own step."""
    return thing.step(action, **inputs)


class ObjectSteps:
    """Operations on the objects that a factory makes."""

    def __init__(
        self,
        factory: Callable[[], Any],
        step: Callable[..., Any],
        digest: Callable[[Any], Any] | None,
        shared: Sequence[str],
        inputs: ExogenousInputs,
    ) -> None:
        self._inputs = inputs
        self._factory, self._step, self._own_digest = factory, step, digest
        self.ignored = frozenset(() if isinstance(shared, str) else shared)  # attributes that are no part of a state
        self.uses_globals = False  # whether steps draw from the global generators of NumPy or Python
        with seeded_global_generators(_NOTHING):
            first = self._first_object()
        self.name = type(first).__name__
        self.shared = SharedAttributes(shared, first)
        self.keys = GeneratorKeys(first, self.ignored)
        self.last: KeyedStep | None = None  # generators of the last step, for the trial
        # After the trial: generators that are attributes, if there are no others.
        self.attributes: list[tuple[str, KeyedGenerator, bytes | None]] | None = None
        self.watch: Watch | None = None  # after the trial, unless every step searches for generators
        self._begun_with_globals = False  # whether a start drew from the global generators
        self.drew_at_start = True  # whether the last start drew anything

    def without_sharing(self, ignored: Collection[str] = ()) -> ObjectSteps:
        """The same without shared attributes; those in `ignored` are no part of a state either."""
        steps = copy.copy(self)
        steps.shared = SharedAttributes((), None)
        steps.ignored = frozenset((*self.ignored, *ignored))
        return steps

    def sharing(self, names: Sequence[str]) -> ObjectSteps:
        """The same with these shared attributes."""
        steps = copy.copy(self)
        thing, _ = self.begin(_NOTHING)
        steps.shared, steps.ignored = SharedAttributes(names, thing), self.ignored | frozenset(names)
        return steps

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "last": None}

    def _first_object(self) -> Any:
        name = getattr(self._factory, "__name__", "factory")
        try:
            first = self._factory()
        except TypeError as error:
            raise SimulatorError(
                f"{name}() raised TypeError: {error}. Give a function without arguments that makes the object: "
                f"ObjectSimulator(lambda: {name}(…), …)."
            ) from error
        try:
            self._reset(first)
        except TypeError as error:
            raise SimulatorError(
                f"reset() of {type(first).__name__} raised TypeError: {error}. It is called without arguments: give "
                "each of them a default."
            ) from error
        if self._step is own_step and not callable(getattr(first, "step", None)):
            raise SimulatorError(
                f"A {type(first).__name__} has no method step. Give a function: ObjectSimulator(…, step=lambda thing, "
                "action: …)."
            )
        return first

    def _reset(self, thing: Any) -> Any:
        reset = getattr(thing, "reset", None)
        return first_observation(reset() if callable(reset) else None)

    def begin(self, shock: Shock) -> tuple[Any, Any]:
        """New object after its reset, with the randomness of this shock; and its first observation."""
        before = None if self._begun_with_globals else global_state()
        if before is None:
            with seeded_global_generators(shock):
                thing, seen, keyed = self._made(shock)
        else:  # which takes a tenth of the time
            try:
                thing, seen, keyed = self._made(shock)
            finally:
                drew = global_state() != before
                if drew:
                    restore_global_state(before)
            if drew:
                self._begun_with_globals = True
                return self.begin(shock)
        self.drew_at_start = before is None or keyed.drew()
        keyed.note_use()
        self.keys.set(thing, _NOTHING)  # the reset may have made new ones; saved states hold those of one kind only
        self.shared.attach(thing)
        return thing, seen

    def _made(self, shock: Shock) -> tuple[Any, Any, KeyedStep]:
        """New object after its reset, with its generators set to the keys of the shock before the reset."""
        thing = self._factory()
        self.keys.detach(thing)
        keyed = self.keys.set(thing, shock)
        return thing, self._reset(thing), keyed

    def spare(self) -> Any:
        """New object in any state."""
        return self.begin(_NOTHING)[0]

    def step(self, thing: Any, action: Any, shock: Shock, number: int = 0) -> tuple[Any, Any, Any, bool]:
        """Step of an object, which is changed. `number`, counted from 1 in the episode, is 0 if unknown."""
        attributes, keyed = self.attributes, None
        if attributes is None or type(shock) is not Shock:
            keyed = self.keys.set(thing, shock)
        else:
            words = shock._words or shock.peek()
            for name, generator, where in attributes:
                if getattr(thing, name, None) is not generator:
                    keyed = self.keys.set(thing, shock)
                    break
                generator.restart(words if where is None else shock.derived(b"generator", 0, where).peek())
        try:
            own = self._step is own_step and not self.uses_globals and not self._inputs.sources
            returned = thing.step(action) if own else self._returned(thing, action, shock)
        except Exception as error:
            place = f"step {number} of the episode" if number else "a step"
            error.add_note(f"Raised in {place} of {self.name}, with the action {short(action)}. {REPEATED}")
            raise
        if keyed is not None:
            keyed.note_use()
            self.last = keyed
        elif (usage := shock.usage) is not None and not usage.used and attributes:
            usage.used = any(one.moved or getattr(thing, name, None) is not one for name, one, _ in attributes)
        if self.shared.values:
            self.shared.attach(thing)
        if usual := type(returned) is tuple and len(returned) == 4:
            seen, reward, over, more = returned
            usual = type(reward) is float and type(over) is bool and type(more) is dict
        result = (seen, reward, over, False) if usual else step_result(returned, self.name)
        if (watch := self.watch) is not None:
            watch.pause -= 1
            kinds = map(type, getattr(thing, "__dict__", _NONE).values())
            if not are_simple(kinds) or watch.pause <= 0 or number > watch.furthest:
                watch.look(thing, number)
        return result

    def _returned(self, thing: Any, action: Any, shock: Shock) -> Any:
        """What a step returns that has inputs, draws from the global generators, or is a function that was given."""
        if not self.uses_globals:
            return self._step(thing, action, **self._inputs.of(shock))
        with seeded_global_generators(shock):
            returned = self._step(thing, action, **self._inputs.of(shock))
        note_use(shock)
        return returned

    def digest(self, thing: Any) -> bytes:
        """Digest of all attributes except generators and shared ones, or of what the user's function returns."""
        if self._own_digest is not None:
            return digest_of(self._own_digest(thing))
        if not self.ignored:
            return digest_of(thing)
        return digest_of(thing, lambda owner: self.ignored if owner is thing else ())

    def fingerprint(self, thing: Any) -> bytes | None:
        """Digest; None if the object cannot be inspected."""
        try:
            return self.digest(thing)
        except SimulatorError:
            return None
