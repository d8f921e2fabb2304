"""Start and step of an ordinary object with all its generators set to the key of a shock."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any

from jmdp.base.luck import Shock
from jmdp.base.settings import short
from jmdp.errors import SimulatorError
from jmdp.simulators.digests import digest_of
from jmdp.simulators.gymnasium.global_generators import seeded_global_generators
from jmdp.simulators.objects.generators import GeneratorKeys, KeyedStep, note_use
from jmdp.simulators.objects.shared_attributes import SharedAttributes
from jmdp.simulators.objects.step_results import StepResult, first_observation, step_result
from jmdp.simulators.step_notes import REPEATED

_NOTHING = Shock(bytes(16))


def own_step(thing: Any, action: Any) -> Any:
    """The object's own step."""
    return thing.step(action)


class ObjectSteps:
    """Operations on the objects that a factory makes."""

    def __init__(
        self,
        factory: Callable[[], Any],
        step: Callable[[Any, Any], Any],
        digest: Callable[[Any], Any] | None,
        shared: Sequence[str],
    ) -> None:
        self._factory, self._step, self._own_digest = factory, step, digest
        self.ignored = frozenset(() if isinstance(shared, str) else shared)  # attributes that are no part of a state
        self.uses_globals = False  # whether steps draw from the global generators of NumPy or Python
        with seeded_global_generators(_NOTHING):
            first = self._first_object()
        self.name = type(first).__name__
        self.shared = SharedAttributes(shared, first)
        self.keys = GeneratorKeys(first, self.ignored)
        self.last: KeyedStep | None = None  # generators of the last step, for the trial

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
        with seeded_global_generators(shock):
            thing = self._factory()
            self.keys.detach(thing)
            keyed = self.keys.set(thing, shock)
            seen = self._reset(thing)
        keyed.note_use()
        self.keys.set(thing, _NOTHING)  # the reset may have made new ones; saved states hold those of one kind only
        self.shared.attach(thing)
        return thing, seen

    def spare(self) -> Any:
        """New object in any state."""
        return self.begin(_NOTHING)[0]

    def step(self, thing: Any, action: Any, shock: Shock, number: int | None = None) -> StepResult:
        """Step of an object, which is changed. `number`, counted from 1 in the episode, is for messages."""
        keyed = self.keys.set(thing, shock)
        try:
            if self.uses_globals:
                with seeded_global_generators(shock):
                    returned = self._step(thing, action)
                note_use(shock)
            else:
                returned = self._step(thing, action)
        except Exception as error:
            place = "a step" if number is None else f"step {number} of the episode"
            error.add_note(f"Raised in {place} of {self.name}, with the action {short(action)}. {REPEATED}")
            raise
        keyed.note_use()
        self.last = keyed
        self.shared.attach(thing)
        return step_result(returned, self.name)

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
