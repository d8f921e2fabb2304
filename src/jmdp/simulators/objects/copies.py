"""Copies of an ordinary object: by its own methods, by pickle, by deepcopy, or by repeating all steps.

`freeze` stores a state of an object and `thaw` makes an object in that state, any number of times.
"""

from __future__ import annotations

import copy
import copyreg
import io
import pickle
import types
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import Any

from jmdp.base.keyed_generator import KeyedGenerator
from jmdp.base.luck import Shock
from jmdp.simulators.gymnasium.replayed import History
from jmdp.simulators.objects.generators import GeneratorKeys
from jmdp.simulators.objects.shared_attributes import SharedAttributes
from jmdp.simulators.shared_objects import unpickled_with

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
    """Copies by pickle. Shared attributes are not pickled."""

    name = "pickle"

    def __init__(self, shared: SharedAttributes) -> None:
        self._shared = shared

    def freeze(self, thing: Any, history: History | None) -> bytes:
        """Pickle an object."""
        written = io.BytesIO()
        if self._shared.ids:
            _SharingPickler(written, self._shared.ids).dump(thing)
        else:
            _Pickler(written).dump(thing)
        return written.getvalue()

    def thaw(self, frozen: bytes) -> Any:
        """Unpickle an object."""
        if not self._shared.ids:
            return pickle.loads(frozen)
        return unpickled_with(frozen, self._shared.values)


class _Pickler(pickle.Pickler):
    """Pickler that stores modules, as in ``self.rng = np.random``, by their names."""

    def __init__(self, written: io.BytesIO) -> None:
        super().__init__(written, pickle.HIGHEST_PROTOCOL)
        self.dispatch_table = {**copyreg.dispatch_table, types.ModuleType: _reduced_module}


def _reduced_module(module: types.ModuleType) -> tuple[Any, tuple[str]]:
    return import_module, (module.__name__,)


class _SharingPickler(_Pickler):
    def __init__(self, written: io.BytesIO, ids: dict[int, str]) -> None:
        super().__init__(written)
        self._ids = ids

    def persistent_id(self, value: Any) -> str | None:
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
