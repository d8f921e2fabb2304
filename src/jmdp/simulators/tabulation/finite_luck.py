"""Enumeration of the draws of a step: a shock whose generators return every possible value in turn.

A step is repeated for every path, that is, for every sequence of values of its draws. Generators of a `FiniteShock`
return the values of one path. Only `integers` and `choice` (with replacement) have finitely many values here; any other
use of the shock ends the enumeration, with the reason, and gives ordinary random numbers.

All actions run on the same path. With equal shocks, generators give two actions the same value in draw i if both have
made the same calls with the same arguments up to draw i. If the calls differ, the values depend on how NumPy consumes
its random bits, so the enumeration ends too. An action may make fewer draws than another.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from jmdp.base.arrays import Floats, Integers, cumulative_rows
from jmdp.base.keyed_generator import KeyedGenerator, philox
from jmdp.base.luck import Shock
from jmdp.base.settings import integer

MOST_PATHS = 10_000
"""Largest number of paths of one state; with more the state is sampled."""

_TOO_MANY = f"a step has more than {MOST_PATHS:,} combinations of draws"

_ROOT = Shock(b"jmdp.finite.luck")
"""Names the streams; its numbers are used only after an enumeration has ended."""


class _Branch(NamedTuple):
    """One draw of a path."""

    call: Hashable  # method and arguments
    values: Integers  # the possible values, as indices
    weights: Floats  # their probabilities
    at: int  # the value of this path is values[at]


class Cells:
    """Consecutive parts of [0, 1) with these probabilities; a step uses `uniform` only to find the part."""

    def __init__(self, weights: Floats) -> None:
        self.weights = weights
        self._sums: list[float] = [0.0, *cumulative_rows(weights[None])[0].tolist()]

    def number_in(self, cell: int) -> float:
        """A number in this part."""
        low, high = self._sums[cell], self._sums[cell + 1]
        middle = low + (high - low) / 2
        return middle if middle < high else low


class Path:
    """The values of all draws on one path, and the reason why the enumeration ended, if it did."""

    def __init__(self, cells: Cells | None = None) -> None:
        self.branches: dict[tuple[bytes, int], _Branch] = {}  # by stream and position, in order of their first draw
        self.cells = cells  # None if it is unknown how `uniform` is used
        self.reason: str | None = None
        self.open = True  # False after the step: then the path is complete
        self._restarted: list[KeyedGenerator] = []

    def shock(self) -> FiniteShock:
        """The shock of this path, for one action."""
        return FiniteShock(_ROOT.words, self)

    def end(self, reason: str) -> None:
        """End the enumeration, unless the path is complete."""
        if self.open and self.reason is None:
            self.reason = reason

    def close(self) -> None:
        """Complete the path."""
        self.watch(None)
        self.open = False

    def watch(self, generator: KeyedGenerator | None) -> None:
        """Notice draws from generators that were restarted in place, which are not enumerated."""
        if any(known.moved for known in self._restarted):
            self.end("a generator is restarted in place")
        self._restarted = [] if generator is None else [generator]

    def take(self, place: tuple[bytes, int], call: Hashable, count: int, p: Floats | None) -> int | None:
        """Value of the draw at this position of a stream; None if it is not enumerated."""
        known = self.branches.get(place)
        if self.reason is not None or (known is None and not self.open):
            return None
        if known is None:
            if count * math.prod(len(branch.values) for branch in self.branches.values()) > MOST_PATHS:
                self.end(_TOO_MANY)
                return None
            values = np.arange(count) if p is None else np.flatnonzero(p > 0)
            weights = np.full(count, 1 / count) if p is None else p[values] / math.fsum(p)
            known = self.branches[place] = _Branch(call, values, weights, 0)
        elif known.call != call:
            self.end("actions differ in their draws")
            return None
        return int(known.values[known.at])

    @property
    def probability(self) -> float:
        """Probability of the path."""
        return math.prod(float(branch.weights[branch.at]) for branch in self.branches.values())

    @property
    def draws(self) -> list[Any]:
        """The draws and their values, for comparison with those of other states."""
        return [(place, branch.call, branch.at) for place, branch in self.branches.items()]

    def following(self) -> Path | None:
        """The next path in depth-first order; None after the last."""
        branches = list(self.branches.items())
        while branches:
            place, last = branches.pop()
            if last.at + 1 < len(last.values):
                path = Path(self.cells)
                path.branches = dict([*branches, (place, last._replace(at=last.at + 1))])
                return path
        return None


class FiniteShock(Shock):
    """A shock whose draws have the values of a path."""

    __slots__ = ("_path",)

    def __init__(self, words: bytes, path: Path) -> None:
        super().__init__(words)
        self._path = path

    @property
    def words(self) -> bytes:
        """The key itself: not enumerated."""
        return self.peek()

    def peek(self) -> bytes:
        """The key itself: not enumerated."""
        self._path.end("a step uses the key of its shock (jmdp.Luck, JAX, a seed)")
        return super().peek()

    def generator(self) -> np.random.Generator:
        """Generator that returns the values of the path."""
        return FiniteGenerator(self._stream, self._path)

    def restart(self, generator: np.random.Generator) -> np.random.Generator:
        """Return a generator of this path. The given one is reset too, for callers that continue with it."""
        if isinstance(generator, FiniteGenerator):
            generator.follow(self._stream, self._path)
            return generator
        keyed = generator if isinstance(generator, KeyedGenerator) else KeyedGenerator(generator.bit_generator)
        self._path.watch(keyed)
        keyed.restart(self._stream)
        return self.generator()

    def uniform(self) -> float:
        """Middle of a part of [0, 1), if the parts are known."""
        path = self._path
        if path.cells is None:
            path.end("a step calls shock.uniform()")
        else:
            weights = path.cells.weights
            cell = path.take((b"uniform" + self._stream, 0), "uniform", len(weights), weights)
            if cell is not None:
                return path.cells.number_in(cell)
        return (int.from_bytes(self._stream[:8], "little") >> 11) * 2.0**-53

    def uniforms(self, count: int) -> Floats:
        """Uniform numbers: not enumerated."""
        self._path.end("a step calls shock.uniforms()")
        return super().uniforms(count)

    def derived(self, purpose: bytes, step: int = 0, where: bytes = b"") -> Shock:
        """A shock with other streams on the same path."""
        return FiniteShock(Shock(self._stream).derived(purpose, step, where).words, self._path)

    @property
    def _stream(self) -> bytes:
        return super().peek()

    def __reduce__(self) -> Any:
        return FiniteShock, (self._stream, self._path)


class FiniteGenerator(np.random.Generator):
    """A generator that returns the values of a path."""

    def __init__(self, stream: bytes, path: Path) -> None:
        super().__init__(philox(stream))
        self.follow(stream, path)
        self._busy = False  # NumPy's own methods call one another

    def follow(self, stream: bytes, path: Path) -> None:
        """Go to the beginning of a stream."""
        self._stream, self._path, self._position = stream, path, 0
        self._repeats = not path.open  # made by a shock that a state has kept: the values are those of its path

    @property
    def bit_generator(self) -> np.random.BitGenerator:
        """Random bits: not enumerated."""
        self._path.end("a step uses the bit generator")
        return super().bit_generator

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        """Random integers: every value in turn."""
        shape, limits = _shape(size), (0, low) if high is None else (low, high)
        first, last = (integer(limit) for limit in limits)
        if not self._enumerates or shape is None or first is None or last is None:
            return self._real("integers", low, high, size, dtype, endpoint)
        count = last + bool(endpoint) - first
        at = self._take(("integers", first, count, np.dtype(dtype).str), shape, count, None)
        if at is None:
            return self._real("integers", low, high, size, dtype, endpoint)
        if size is None:
            return self._call("integers", first + int(at), first + int(at), None, dtype, True)
        found = self._call("integers", 0, 1, size, dtype)
        found[...] = first + at
        return found

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
    ) -> Any:
        """Choice with replacement: every value in turn."""
        shape, count = _shape(size), integer(a)
        options = np.asarray(a) if count is None else None
        chances = None if p is None else np.asarray(p, np.float64)
        if self._enumerates and shape is not None and (replace or size is None):
            if options is not None and 0 <= axis < options.ndim:
                count = options.shape[axis]
            if count and (chances is None or (chances.shape == (count,) and abs(math.fsum(chances) - 1) < 1e-8)):
                at = self._take(
                    ("choice", count, None if chances is None else chances.tobytes()), shape, count, chances
                )
                if at is not None:
                    return self._chosen(options, size, axis, at, p is not None)
        return self._real("choice", a, size, replace, p, axis, shuffle)

    def _chosen(self, options: Any, size: Any, axis: int, at: Any, weighted: bool) -> Any:
        """What NumPy returns for these indices, also of the same type."""
        if options is None:
            return self._call("choice", 1, size, True, [1.0] if weighted else None) + (int(at) if size is None else at)
        if size is None:
            return self._call("choice", options.take([int(at)], axis), None, True, None, axis)
        return options.take(at, axis)

    @property
    def _enumerates(self) -> bool:
        return not self._busy and (self._path.open or self._repeats)

    def _take(self, call: Hashable, shape: tuple[int, ...], count: int, p: Floats | None) -> Any:
        """Indices of the values of a call, one for each entry of the shape; None if they are not enumerated."""
        if count < 1:  # NumPy raises
            return None
        if math.prod(shape) > MOST_PATHS:
            self._path.end(_TOO_MANY)
            return None
        found = []
        for j in range(math.prod(shape)):
            at = self._path.take((self._stream, self._position), (call, shape, j), count, p)
            if at is None:
                return None
            found.append(at)
            self._position += 1
        return np.array(found, np.int64).reshape(shape)

    def _real(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """NumPy's own draw, which ends the enumeration."""
        if not self._busy:
            more = " with arrays or without replacement" * (name in ("integers", "choice"))
            self._path.end(f"a step calls {name}(){more}")
        return self._call(name, *args, **kwargs)

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        before, self._busy = self._busy, True
        try:
            return getattr(np.random.Generator, name)(self, *args, **kwargs)
        finally:
            self._busy = before

    def __deepcopy__(self, memo: dict[int, Any]) -> FiniteGenerator:
        other = FiniteGenerator(self._stream, self._path)
        other._position, other._repeats = self._position, self._repeats
        return other

    def __reduce__(self) -> Any:
        self._path.end("a step copies or pickles a generator")
        return np.random.Generator, (super().bit_generator,)


def _shape(size: Any) -> tuple[int, ...] | None:
    """The argument `size` as a tuple; None if it is no size."""
    lengths = () if size is None else size if isinstance(size, tuple) else (size,)
    found = [integer(length) for length in lengths]
    return tuple(n for n in found if n is not None) if all(n is not None and n >= 0 for n in found) else None


def _not_enumerated(name: str) -> Any:
    def method(self: FiniteGenerator, *args: Any, **kwargs: Any) -> Any:
        return self._real(name, *args, **kwargs)

    return method


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in ("bit_generator", "integers", "choice"):
        setattr(FiniteGenerator, _name, _not_enumerated(_name))
