"""Copies of an ordinary object: by its own methods, by pickle, by deepcopy, or by repeating all steps.

`freeze` stores a state of an object and `thaw` makes an object in that state, any number of times.

Attributes that all copies of an object share, such as logs: steps write them, but do not read them.

State of an ordinary object, and episodes that step an object in place.

Sizes of the attributes of an object, to name those that grow with time and make copies slow.
"""

from __future__ import annotations

import copy
import copyreg
import io
import pickle
import sys
import types
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from itertools import islice
from typing import Any

from jmdp.base.keyed_generator import KeyedGenerator
from jmdp.base.luck import Shock
from jmdp.errors import SettingsError, SimulatorError
from jmdp.simulators.adapters.gymnasium.saved import History
from jmdp.simulators.adapters.objects.generators import FIXED, GeneratorKeys, is_keyable
from jmdp.simulators.object_graph import Parts, has_dictionary_only, parts_of, visible_attributes, walk
from jmdp.simulators.simulator import Simulator, SteppedEpisode

_CONTAINERS = (list, dict, set, deque)


class SharedAttributes:
    """Values of the shared attributes, taken from one object.

    After each step, containers are emptied to their contents at the start. So they do not grow with the number of
    simulated steps, and every step finds the same contents.
    """

    def __init__(self, names: Sequence[str], thing: Any) -> None:
        missing = [name for name in names if not hasattr(thing, name)]
        if isinstance(names, str) or missing:
            name = type(thing).__name__
            raise SettingsError(
                f"shared is {names!r}, but {name} has no attribute {missing[0]!r} after the reset. Give the names of "
                'attributes: shared=("log",).'
                if not isinstance(names, str)
                else f"shared is the text {names!r}. Give a tuple of names: shared=({names!r},)."
            )
        self.values = {name: getattr(thing, name) for name in names}
        self._contents = {
            name: copy.copy(value) for name, value in self.values.items() if type(value) in _CONTAINERS
        }  # at the start
        self.ids = {id(value): name for name, value in self.values.items() if _has_identity(value)}

    def attach(self, thing: Any) -> None:
        """Give an object the shared values, with their contents at the start."""
        for name, value in self.values.items():
            if getattr(thing, name, None) is not value:
                object.__setattr__(thing, name, value)
        for name, contents in self._contents.items():
            value = self.values[name]
            if len(value) != len(contents):
                value.clear()
                value.update(contents) if isinstance(value, (dict, set)) else value.extend(contents)


def _has_identity(value: Any) -> bool:
    """False for values that may occur elsewhere in an object by chance."""
    return value is not None and not isinstance(value, (bool, int, float, str, bytes, tuple, frozenset))


class ObjectState:
    """State of an object, opaque except to its simulator: the object itself, and what is needed to copy it."""

    __slots__ = ("__weakref__", "copies", "frozen", "history", "live", "observation", "steps", "truncated", "used_up")

    def __init__(
        self, live: Any, observation: Any, history: History | None, steps: int = 0, truncated: bool = False
    ) -> None:
        self.live, self.observation, self.steps = live, observation, steps
        self.history = history  # steps that led to the state; None if they are not needed
        self.truncated, self.used_up = truncated, False
        self.frozen: Any = None  # stored by `copies`, once the state was copied
        self.copies: Copies | None = None

    def freeze(self, copies: Copies) -> Any:
        """Return the stored state; store it at the first call."""
        if self.frozen is None:
            self.copies, self.frozen = copies, copies.freeze(self.live, self.history)
        return self.frozen

    def take(self) -> Any:
        """Return the object, which the state gives up."""
        thing, self.live = self.live, None
        return thing

    def __del__(self) -> None:
        if self.live is not None and isinstance(self.copies, SavedCopies):
            self.copies.recycle(self.live)

    def __reduce__(self) -> tuple[Any, ...]:
        # Objects that are copied in another way than by pickle may not survive it, so their steps are repeated.
        stored, path = None, [] if self.history is None else self.history.path()
        if isinstance(self.copies, (PickledCopies, SavedCopies)):
            stored = self.freeze(self.copies)
        elif path[0][0] is not None:
            raise SimulatorError(
                "The current state of this object cannot be sent to worker processes: it cannot be pickled, and the "
                "steps that led to it are unknown. Compare without pool=…, or from simulator.start(…)."
            )
        return _restored, (self.copies, stored, self.observation, path, self.steps, self.truncated)


def _restored(
    copies: Copies | None, frozen: Any, seen: Any, path: list[tuple[Any, Any]], steps: int, truncated: bool
) -> ObjectState:
    history = None
    for event in path:
        history = History(history, event)
    state = ObjectState(None, seen, history, steps, truncated)
    state.copies, state.frozen = copies, frozen
    return state


class ObjectEpisode(SteppedEpisode):
    """Episode whose object belongs to no other state, so that the first step needs no copy either."""

    def __init__(self, simulator: Simulator, state: ObjectState, *, copy_first: bool, truncated_ends: bool) -> None:
        super().__init__(simulator, state)
        self._truncated_ends = truncated_ends
        if not copy_first:
            self._go = simulator.advance

    def step(self, action: Any, shock: Shock) -> tuple[float, bool]:
        """Step the object; return the reward and whether the episode has ended."""
        reward, over = super().step(action, shock)
        return reward, over or (self._truncated_ends and self._state.truncated)

    def play(self, choose: Callable[[Any], Any], shocks: Iterable[Shock], rewards: list[float]) -> bool:
        """`Episode.play`, in one object whose states are not kept if possible."""
        left, simulator = iter(shocks), self._simulator
        if self._go == simulator.step and super().play(choose, islice(left, 1), rewards):
            return True
        if simulator.keeps_states or self._state.live is None:  # type: ignore[attr-defined]
            return super().play(choose, left, rewards)
        return simulator.play(  # type: ignore[attr-defined,no-any-return]
            self._state, choose, left, rewards, truncated_ends=self._truncated_ends
        )


OWN_METHODS = (("save_state", "restore_state"), ("get_state", "set_state"), ("snapshot", "restore"))
"""Pairs of methods of objects that save and restore their states; `clone` alone returns a copy."""

_MOST_SPARE = 64
"""Objects that are kept to be restored again."""


class Copies(ABC):
    """How to copy objects of one kind."""

    name: str  # for messages: "copied by …"

    @abstractmethod
    def freeze(self, thing: Any, history: History | None) -> Any:
        """Store the state of an object. `history` are the steps that led to it; None if unknown."""

    @abstractmethod
    def thaw(self, frozen: Any) -> Any:
        """Make an object in a stored state."""

    def recycle(self, thing: Any) -> None:  # noqa: B027 (most make new objects)
        """Accept an object that is no longer used."""


class PickledCopies(Copies):
    """Copies by pickle. Shared attributes and keyed generators, which are set before each step, are not pickled."""

    name = "pickle"

    def __init__(self, shared: SharedAttributes, keys: GeneratorKeys) -> None:
        self._shared, self._keys = shared, keys
        self._plain: tuple[bytes, type, dict[str, Any]] = b"", object, {}  # last object of plain attributes: its pickle

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_plain": (b"", object, {})}

    def freeze(self, thing: Any, history: History | None) -> bytes:
        """Pickle an object."""
        written = io.BytesIO()
        keyed = {id(generator): (where,) for where, generator in self._keys.held.items()}
        names: dict[int, Any] = {**keyed, **self._shared.ids}
        if names:
            _SharingPickler(written, names).dump(thing)
        else:
            _Pickler(written).dump(thing)
        return written.getvalue()

    def thaw(self, frozen: bytes) -> Any:
        """Unpickle an object; attributes that cannot be changed are copied, if many copies of one object are made."""
        if frozen is self._plain[0]:
            _, kind, attributes = self._plain
            copied: Any = object.__new__(kind)
            vars(copied).update(attributes)
            return copied
        reader: Any = pickle.Unpickler(io.BytesIO(frozen))
        reader.persistent_load = self._named
        thing: Any = reader.load()
        if self._is_plain(thing):
            self._plain = frozen, type(thing), dict(vars(thing))
        return thing

    def _is_plain(self, thing: Any) -> bool:
        """Whether pickle copies nothing but attributes, none of which can be changed."""
        kind = type(thing)
        if not has_dictionary_only(kind) or any(getattr(kind, name, None) is not own for name, own in _PLAIN.items()):
            return False
        held = set(map(id, self._keys.held.values()))
        return kind not in copyreg.dispatch_table and all(
            type(value) in FIXED or id(value) in held for value in vars(thing).values()
        )

    def _named(self, name: Any) -> Any:
        """The shared attribute of this name, or the generator at a place, which is in a tuple."""
        return self._keys.hold(*name) if type(name) is tuple else self._shared.values[name]


_PLAIN = {
    name: getattr(object, name, None)
    for name in ("__new__", "__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__getnewargs__",
                 "__getnewargs_ex__", "__getattribute__")
}  # fmt: skip
"""Methods by which a class changes how pickle copies it."""


class _Pickler(pickle.Pickler):
    """Pickler that stores modules, as in ``self.rng = np.random``, by their names."""

    def __init__(self, written: io.BytesIO) -> None:
        super().__init__(written, pickle.HIGHEST_PROTOCOL)
        self.dispatch_table = {**copyreg.dispatch_table, types.ModuleType: _reduced_module}


def _reduced_module(module: types.ModuleType) -> tuple[Any, tuple[str]]:
    return import_module, (module.__name__,)


class _SharingPickler(_Pickler):
    def __init__(self, written: io.BytesIO, ids: dict[int, Any]) -> None:
        super().__init__(written)
        self._ids = ids

    def persistent_id(self, value: Any) -> Any:
        return self._ids.get(id(value))


class DeepCopies(Copies):
    """Copies by `copy.deepcopy`. Keyed generators are not copied, because they are set before each step."""

    name = "deepcopy"

    def __init__(self, shared: SharedAttributes, keys: GeneratorKeys) -> None:
        self._shared, self._keys = shared, keys

    def freeze(self, thing: Any, history: History | None) -> Any:
        """The object itself: a state that is stored is not used further."""
        return thing

    def thaw(self, frozen: Any) -> Any:
        """Copy the object."""
        memo: dict[int, Any] = {id(value): value for value in self._shared.values.values()}
        memo.pop(id(None), None)
        memo.update(
            (id(part), part) for part in getattr(frozen, "__dict__", {}).values() if type(part) is types.ModuleType
        )
        for _, generator in self._keys.find(frozen):
            if type(generator) is KeyedGenerator:
                memo[id(generator)] = generator
        return copy.deepcopy(frozen, memo)


class ClonedCopies(Copies):
    """Copies by the object's own method `clone`."""

    name = "its method clone"

    def freeze(self, thing: Any, history: History | None) -> Any:
        """The object itself: a state that is stored is not used further."""
        return thing

    def thaw(self, frozen: Any) -> Any:
        """Clone the object."""
        return frozen.clone()


class SavedCopies(Copies):
    """Copies by two functions that save and restore the state of an object."""

    def __init__(
        self,
        name: str,
        make: Callable[[], Any],
        save: Callable[[Any], Any],
        restore: Callable[[Any, Any], object],
    ) -> None:
        self.name, self._make, self._save, self._restore = name, make, save, restore
        self._spare: list[Any] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_spare": []}

    def freeze(self, thing: Any, history: History | None) -> Any:
        """Save the state."""
        return self._save(thing)

    def thaw(self, frozen: Any) -> Any:
        """Restore the state in an object that is no longer used, or in a new one."""
        thing = self._spare.pop() if self._spare else self._make()
        self._restore(thing, frozen)
        return thing

    def recycle(self, thing: Any) -> None:
        """Keep the object for a later restore."""
        if len(self._spare) < _MOST_SPARE:
            self._spare.append(thing)


class _Method:
    """A method by its name; unlike `operator.methodcaller` it takes the object's arguments later."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, thing: Any, *args: Any) -> Any:
        return getattr(thing, self._name)(*args)


class ReplayedCopies(Copies):
    """Copies by a new object that repeats all steps since the start, with the same keys."""

    name = "replay"

    def __init__(self, begin: Callable[[Shock], Any], step: Callable[[Any, Any, Shock], object]) -> None:
        self._begin, self._step = begin, step

    def freeze(self, thing: Any, history: History | None) -> History:
        """The steps that led to the state."""
        assert history is not None
        return history

    def thaw(self, frozen: History) -> Any:
        """Repeat the steps."""
        path = frozen.path()
        thing = self._begin(path[0][1])
        for action, shock in path[1:]:
            self._step(thing, action, shock)
        return thing


def own_copies(thing: Any, make: Callable[[], Any]) -> list[Copies]:
    """Copies by methods of the object, of which it may have several or none."""
    found: list[Copies] = []
    for save, restore in OWN_METHODS:
        if callable(getattr(thing, save, None)) and callable(getattr(thing, restore, None)):
            found.append(SavedCopies(f"its methods {save} and {restore}", make, _Method(save), _Method(restore)))
    return [*found, ClonedCopies()] if callable(getattr(thing, "clone", None)) else found


MEASURED_AT = (0, 10, 20)
"""Numbers of steps after which sizes are measured."""

_LEAST = 100
"""Bytes in ten steps below which an attribute does not count as growing."""


def attribute_sizes(thing: Any) -> dict[str, int]:
    """Approximate size of each attribute in bytes; values that several attributes refer to count in each once."""
    attributes = {name: value for name, value in visible_attributes(thing).items() if not is_keyable(value)}
    outside = {id(thing), *(id(value) for value in attributes.values() if not isinstance(value, (int, str, float)))}
    return {name: _size(value, outside - {id(value)}) for name, value in attributes.items()}


def _size(value: Any, outside: set[int]) -> int:
    try:
        written = io.BytesIO()
        _Measure(written, outside).dump(value)
        return written.tell()
    except Exception:  # cannot be pickled: the attempt may raise anything
        return _size_of_parts(value, outside)


class _Measure(pickle.Pickler):
    """Pickler that leaves out the object itself and its other attributes."""

    def __init__(self, written: io.BytesIO, outside: set[int]) -> None:
        super().__init__(written, pickle.HIGHEST_PROTOCOL)
        self._outside = outside

    def persistent_id(self, value: Any) -> str | None:
        return "" if id(value) in self._outside else None


def _size_of_parts(value: Any, outside: set[int]) -> int:
    def parts(part: Any) -> Parts:
        return [] if id(part) in outside else parts_of(part)

    found = walk(value, parts)
    return sys.getsizeof(value, 0) + sum(
        sys.getsizeof(part, 0) for _, part, _, new in found if new and id(part) not in outside
    )


def growing(sizes: Sequence[Mapping[str, int]]) -> dict[str, list[int]]:
    """Sizes of the attributes that grew in both intervals, largest first."""
    if len(sizes) < len(MEASURED_AT):
        return {}
    found = {name: [at.get(name, 0) for at in sizes] for name in sizes[-1]}
    grown = {name: seen for name, seen in found.items() if min(seen[1] - seen[0], seen[2] - seen[1]) >= _LEAST}
    return dict(sorted(grown.items(), key=lambda entry: -entry[1][-1]))
