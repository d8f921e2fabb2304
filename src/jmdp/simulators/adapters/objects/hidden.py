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
from itertools import islice
from typing import Any

import numpy as np

from jmdp.simulators.adapters.objects.generators import generator_places, is_keyable
from jmdp.simulators.checking.probe import GLOBALS, SavedGenerator
from jmdp.simulators.object_graph import BOUND_TO, Parts, Path, closure_of, hops, name_of, parts_of, walk

_LIBRARIES = frozenset({*sys.stdlib_module_names, "gymnasium", "jax", "jmdp", "mesa", "numpy", "pandas",
                        "scipy", "simpy", "sklearn", "torch"} - {"__main__", "builtins"})  # fmt: skip
"""Packages whose functions and classes are not searched."""

_MOST_VALUES = 20_000
"""Largest number of values that are searched."""

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
    keyed = {id(generator) for _, generator in generator_places(thing, shared)[0]}
    found: dict[int, Hidden] = {}
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "default_generator"):
        generator = torch.default_generator
        found[id(generator)] = Hidden("the global generator of torch", "torch", generator)
    for value, path in _reachable(thing):
        if isinstance(value, random.SystemRandom):
            kind = "system"
        elif isinstance(value, np.random.SeedSequence):
            kind = "sequence"
        elif is_torch_generator(value):
            kind = "torch"
        elif is_keyable(value) and id(value) not in keyed:
            kind = _sharing(path) or "shared"
        else:
            continue
        found.setdefault(id(value), Hidden(name_of(path, "self"), kind, value))
    return list(found.values())


def _reachable(thing: Any) -> Iterator[tuple[Any, Path]]:
    """Everything reachable from an object, and the paths, whose hops may be those of `_parts`."""
    return islice(((value, path) for path, value, _, new in walk(thing, _parts) if new), _MOST_VALUES)


def _parts(value: Any) -> Parts:
    """Parts of an object, and what all copies of it share, with the kind of sharing in place of the kind of a hop."""
    if isinstance(value, (types.FunctionType, type)):
        if not _is_of_user(value):
            return []
        return _parts_of_class(value) if isinstance(value, type) else _parts_of_function(value)
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        return [(("frame", name), part) for name, part in (frame.f_locals if frame is not None else {}).items()]
    if is_keyable(value) or any(value is one for one in GLOBALS.values()) or is_torch_generator(value):
        return []
    found = parts_of(value)
    if isinstance(value, types.MethodType):
        found.append(((BOUND_TO, "__func__"), value.__func__))
    if isinstance(value, (map, filter, zip)):
        found.append(((BOUND_TO, "arguments"), value.__reduce__()[1]))
    return [*found, *((("code", cls.__qualname__), cls) for cls in type(value).__mro__[:-1])]


def _parts_of_class(kind: type) -> Parts:
    entries = {name: getattr(part, "__func__", getattr(part, "fget", part)) for name, part in vars(kind).items()}
    return [
        (("code" if isinstance(part, types.FunctionType) else "class", f"{kind.__qualname__}.{name}"), part)
        for name, part in entries.items()
    ]


def _parts_of_function(function: types.FunctionType) -> Parts:
    found: Parts = [(("closure", name), part) for name, part in closure_of(function)]
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    found += [(("default", ""), part) for part in defaults]
    module = function.__globals__.get("__name__", "")
    for name in sorted(names_in(function.__code__) & function.__globals__.keys()):
        part = function.__globals__[name]
        is_code = isinstance(part, (types.FunctionType, type))
        found.append((("code", name) if is_code else ("global", f"{name} of module {module}"), part))
    return found


def _sharing(path: Path) -> str | None:
    """The first way by which copies come to share what is at the end of a path; None if they do not."""
    return next((kind for kind, _ in hops(path) if kind in _FIXES), None)


def _is_of_user(code: types.FunctionType | type) -> bool:
    return (code.__module__ or "").partition(".")[0] not in _LIBRARIES


def names_in(code: types.CodeType) -> set[str]:
    """Names of globals and attributes in a function and in those defined within it."""
    inner = [names_in(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*inner)


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
    for value, path in _reachable(thing):
        if isinstance(value, types.FunctionType) and _is_of_user(value):
            functions.setdefault(value.__name__, []).append((value, name_of(path, "self").removeprefix("self.")))
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
    for value, path in _reachable(thing):
        module = type(value).__module__
        known = isinstance(value, types.GeneratorType) or (module == "builtins" and hasattr(value, "__next__"))
        if known and not isinstance(value, (type, enumerate)) and _sharing(path) is None:
            found[name_of(path, "self").removeprefix("self.")] = value
    return found


def lengths_of(thing: Any) -> dict[str, int]:
    """Lengths of the lists, deques and arrays of numbers among the attributes of an object, by name."""
    found = {}
    for hop, value in parts_of(thing):
        if isinstance(value, (list, deque)):
            known = bool(value) and all(isinstance(entry, (int, float, np.number)) for entry in value)
        else:
            known = isinstance(value, np.ndarray) and value.ndim > 0 and value.dtype.kind in "biuf"
        if known:
            found[name_of(((), hop)).removeprefix(".")] = len(value)
    return found
