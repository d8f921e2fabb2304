"""Search for randomness that cannot be keyed, to name it in an error.

Copies of an object share the variables of closures, default arguments, class attributes and global variables; Python's
generator objects cannot be copied at all; generators of torch and of the operating system are not keyed.
"""

from __future__ import annotations

import random
import sys
import types
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.simulators.checking.probe import GLOBALS, SavedGenerator
from jmdp.simulators.objects.generators import generator_places, is_keyable, parts_of

_LIBRARIES = frozenset({*sys.stdlib_module_names, "gymnasium", "jax", "jmdp", "mesa", "numpy", "pandas",
                        "scipy", "simpy", "sklearn", "torch"} - {"__main__", "builtins"})  # fmt: skip
"""Packages whose functions and classes are not searched."""

_MOST_VALUES = 20_000
"""Largest number of values that are searched."""

_OWN = "own"
_FIXES = {
    "closure": "Copies share the variables of a function. Keep the generator in an attribute: self.rng = "
    "np.random.default_rng().",
    "default": "Copies share the default arguments of a function. Keep the generator in an attribute: self.rng = "
    "np.random.default_rng().",
    "class": "All objects share the attributes of their class. Make the generator in __init__: self.rng = "
    "np.random.default_rng().",
    "global": "All objects share a global variable. Make the generator in __init__: self.rng = "
    "np.random.default_rng().",
    "frame": "A generator object cannot be copied, and what it draws cannot be keyed. Draw in step: "
    "self.rng.normal(), instead of next(…).",
    "torch": "Generators of torch are not keyed. Draw from a NumPy generator, self.rng, and convert: "
    "torch.from_numpy(self.rng.normal(size=…)).",
    "shared": "Attributes in shared=… are not keyed. Remove this one.",
    "sequence": "Seeds spawned in a step are the same in all samples. Draw seeds from a generator that is made in "
    "__init__: np.random.default_rng(self.rng.integers(2**63)).",
    "system": "The operating system's generator cannot be keyed. Use random.Random() or np.random.default_rng().",
}


@dataclass(frozen=True, eq=False)
class Hidden:
    """A random generator that cannot be keyed."""

    where: str
    kind: str
    generator: Any

    @property
    def fix(self) -> str:
        """What to change in the code."""
        return _FIXES[self.kind]

    def state(self) -> Any:
        """Value that is equal as long as nothing was drawn; None if unknown."""
        if isinstance(self.generator, random.SystemRandom):
            return None
        if isinstance(self.generator, np.random.SeedSequence):
            return self.generator.n_children_spawned
        if is_torch_generator(self.generator):
            return self.generator.get_state().numpy().tobytes()
        return SavedGenerator.of(self.generator).key


def is_torch_generator(value: Any) -> bool:
    """Whether a value is a generator of torch, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Generator)


def hidden_generators(thing: Any, shared: Collection[str]) -> list[Hidden]:
    """All generators that can be reached from an object, but not keyed, and the global one of torch.

    Those in the attributes that copies share are not keyed either.
    """
    keyed = {id(generator) for _, generator in generator_places(thing, shared)}
    found: dict[int, Hidden] = {}
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "default_generator"):
        generator = torch.default_generator
        found[id(generator)] = Hidden("the global generator of torch", "torch", generator)
    for value, where, kind in _reachable(thing):
        if isinstance(value, random.SystemRandom):
            found.setdefault(id(value), Hidden(where, "system", value))
        elif isinstance(value, np.random.SeedSequence):
            found.setdefault(id(value), Hidden(where, "sequence", value))
        elif is_torch_generator(value):
            found.setdefault(id(value), Hidden(where, "torch", value))
        elif is_keyable(value) and id(value) not in keyed:
            found.setdefault(id(value), Hidden(where, "shared" if kind == _OWN else kind, value))
    return list(found.values())


def _reachable(thing: Any) -> Iterator[tuple[Any, str, str]]:
    """Everything reachable from an object: value, name, and the first way by which copies come to share it."""
    seen: dict[int, Any] = {}
    todo: deque[tuple[Any, str, str]] = deque([(thing, "self", _OWN)])
    while todo and len(seen) < _MOST_VALUES:
        value, where, kind = todo.popleft()
        if id(value) in seen or isinstance(value, (str, bytes, int, float, types.ModuleType)) or value is None:
            continue
        seen[id(value)] = value
        yield value, where, kind
        if is_keyable(value) or any(value is one for one in GLOBALS.values()) or is_torch_generator(value):
            continue
        todo += list(_next(value, where, kind))


def _next(value: Any, where: str, kind: str) -> Iterator[tuple[Any, str, str]]:
    if isinstance(value, types.FunctionType):
        if not _of_a_library(value.__module__):
            yield from _in_function(value, where, kind)
        return
    if isinstance(value, type):
        if not _of_a_library(value.__module__):
            for name, entry in vars(value).items():
                entry = getattr(entry, "__func__", getattr(entry, "fget", entry))
                inner = kind if isinstance(entry, types.FunctionType) else _first(kind, "class")
                yield entry, f"{value.__qualname__}.{name}", inner
        return
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        for name, entry in (frame.f_locals if frame is not None else {}).items():
            yield entry, f"{where} (its variable {name})", _first(kind, "frame")
        return
    if isinstance(value, types.MethodType):
        yield value.__func__, where, kind
    if isinstance(value, (map, filter, zip)):
        yield value.__reduce__()[1], where, kind
    for _, text, part in parts_of(value):
        yield part, where + text, kind
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    named = [*((f"[{key!r}]", entry) for key, entry in entries)]
    named += [(f".{name}", entry) for name, entry in getattr(value, "__dict__", {}).items()]
    for text, entry in named:
        if isinstance(entry, (types.FunctionType, type)):  # `parts_of` leaves them out
            yield entry, where + text, kind
    for cls in type(value).__mro__[:-1]:
        yield cls, cls.__qualname__, kind


def _in_function(function: types.FunctionType, where: str, kind: str) -> Iterator[tuple[Any, str, str]]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield cell.cell_contents, f"{where} (the variable {name} of its closure)", _first(kind, "closure")
        except ValueError:  # not set yet
            continue
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for entry in defaults:
        yield entry, f"{where} (a default argument)", _first(kind, "default")
    for name in names_in(code):
        if name in function.__globals__:
            entry = function.__globals__[name]
            module = function.__globals__.get("__name__", "")
            is_code = isinstance(entry, (types.FunctionType, type))
            yield entry, name if is_code else f"{name} of module {module}", kind if is_code else _first(kind, "global")


def names_in(code: types.CodeType) -> set[str]:
    """Names of globals and attributes in a function and in those defined within it."""
    inner = [names_in(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*inner)


def _first(kind: str, other: str) -> str:
    return other if kind == _OWN else kind


def _of_a_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _LIBRARIES


_SOURCES = {
    "default_rng": "makes a generator of its own, np.random.default_rng(…)",
    "RandomState": "makes a generator of its own, np.random.RandomState(…)",
    "Random": "makes a generator of its own, random.Random(…)",
    **{
        name: f"makes a generator of its own, np.random.{name}(…)"
        for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
    },
    "SeedSequence": "makes a seed of its own, np.random.SeedSequence(…)",
    "spawn": "makes generators of its own by spawn(…)",
    "seed": "sets a seed, by seed(…)",
    "urandom": "draws from the operating system, os.urandom(…)",
    "secrets": "draws from the operating system, by the module secrets",
    "SystemRandom": "draws from the operating system, random.SystemRandom()",
    "uuid4": "draws from the operating system, uuid.uuid4()",
    "uuid1": "uses the clock, uuid.uuid1()",
    "perf_counter": "uses the clock, time.perf_counter()",
    "perf_counter_ns": "uses the clock, time.perf_counter_ns()",
    "time_ns": "uses the clock, time.time_ns()",
    "utcnow": "uses the clock, datetime.utcnow()",
}
"""Names in the code of a step that explain randomness without an attribute."""


def sources_in_code(thing: Any, step: Any) -> list[str]:
    """Calls in a step, or in functions that it may call, of other randomness than the object's, as sentences."""
    functions: dict[str, list[tuple[Any, str]]] = {}
    for value, where, _ in _reachable(thing):
        if isinstance(value, types.FunctionType) and not _of_a_library(value.__module__):
            functions.setdefault(value.__name__, []).append((value, where.removeprefix("self.")))
    own = {*functions, *getattr(thing, "__dict__", ())}  # an attribute `seed` or a method `spawn` of the object
    found: dict[str, None] = {}
    todo = [(step, getattr(step, "__name__", "step"))]
    while todo:
        function, where = todo.pop(0)
        names = names_in(function.__code__) if isinstance(function, types.FunctionType) else {"step"}
        found.update({f"{where} {_SOURCES[name]}": None for name in _SOURCES if name in names - own})
        for name in sorted(names & functions.keys()):
            todo += functions.pop(name)
    return list(found)


def iterators_of(thing: Any) -> dict[str, Any]:
    """Iterators among the attributes of an object and in its containers, by name; counters are left out."""
    found = {}
    for value, where, kind in _reachable(thing):
        module = type(value).__module__
        known = isinstance(value, types.GeneratorType) or (module == "builtins" and hasattr(value, "__next__"))
        if known and kind == _OWN and not isinstance(value, (type, enumerate)):
            found[where.removeprefix("self.")] = value
    return found


def lengths_of(thing: Any) -> dict[str, int]:
    """Lengths of the lists, deques and arrays of numbers among the attributes of an object, by name."""
    found = {}
    for _, name, value in parts_of(thing):
        if isinstance(value, (list, deque)):
            known = bool(value) and all(isinstance(entry, (int, float, np.number)) for entry in value)
        else:
            known = isinstance(value, np.ndarray) and value.ndim > 0 and value.dtype.kind in "biuf"
        if known:
            found[name.removeprefix(".")] = len(value)
    return found
