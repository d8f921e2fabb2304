"""Randomness (luck) as a key: sixteen bytes determine all randomness of one time step, so that actions can share it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import repeat
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from jmdp.base.arrays import Floats, Integers, refuse_large
from jmdp.base.keyed_generator import KeyedGenerator, unshared_generator
from jmdp.base.records import Record, Row
from jmdp.base.settings import integer, short, whole_number
from jmdp.errors import SettingsError

if TYPE_CHECKING:
    import jax


class Usage:
    """Whether any of the shocks that share this record was used."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used = False


class Shock:
    """All randomness of one time step, as the key of a counter-based generator.

    Branches with equal shocks receive the same randomness. A shock is immutable: `generator` always returns a generator
    in its initial state. The key of a derived shock is computed when it is first used.

    `recorded` is the history that takes the place of random numbers, if there is one: all of it in the root of a
    sample, the row of the period in the shock of a step, and in all that derives from it.
    """

    __slots__ = ("_origin", "_words", "recorded", "usage")

    def __init__(self, words: bytes) -> None:
        if type(words) is not bytes or len(words) != 16:
            raise SettingsError(f"words is {short(words)}. Give 16 bytes, or use jmdp.Shock.of_sample(seed, sample).")
        self._words: bytes | None = words  # 16 bytes; None if not computed yet
        self._origin: tuple[Shock, bytes, int, bytes] | None = None
        self.usage: Usage | None = None
        self.recorded: Record | Row | None = None

    @classmethod
    def of_sample(cls, seed: int, sample: int, usage: Usage | None = None) -> Shock:
        """Return the shock from which all randomness of one sample derives, a pure function of both numbers.

        `usage` records whether it or a shock derived from it is used.
        """
        if not (type(seed) is type(sample) is int and -_MOST <= seed <= _MOST and -_MOST <= sample <= _MOST):
            seed, sample = _whole("seed", seed), _whole("sample", sample)
        blank = _blank()
        blank.update(b"%d %d" % (seed, sample))
        shock = cls(blank.digest())
        shock.usage = usage
        return shock

    def derived(self, purpose: bytes, step: int = 0, where: bytes = b"") -> Shock:
        """Return another shock, independent of this one and of those for any other purpose, step or place."""
        shock = _new(Shock)
        shock._words, shock._origin, shock.usage = None, (self, purpose, step, where), self.usage
        recorded = self.recorded
        shock.recorded = recorded if recorded is None or purpose != STEP else recorded.at(step)
        return shock

    @property
    def words(self) -> bytes:
        """The sixteen bytes of the key."""
        if self.usage is not None:
            self.usage.used = True
        return self._words or self.peek()

    def peek(self) -> bytes:
        """Return `words` without recording a use, for callers that record it with `note_use` if they use them."""
        if self._words is None:
            assert self._origin is not None
            origin, purpose, step, where = self._origin
            try:
                words = (origin._words or origin.peek()) + _STEP(step) + purpose + b"\0" + where
            except (TypeError, struct.error) as error:
                raise _not_derivable(purpose, step, where) from error
            blank = _blank()
            blank.update(words)
            self._words, self._origin = blank.digest(), None
        return self._words

    def note_use(self) -> None:
        """Record that the shock was used."""
        if self.usage is not None:
            self.usage.used = True

    def of_source(self, source: str) -> Shock:
        """Return the shock of the draws of this source: this one, unless some sources are drawn again."""
        return self

    def generator(self) -> np.random.Generator:
        """Return a NumPy generator (Philox) with this key; one that no other code refers to."""
        if self.usage is not None:
            self.usage.used = True
        return unshared_generator(self._words or self.peek())

    def restart(self, generator: np.random.Generator) -> np.random.Generator:
        """Reset a generator made by `generator` to this key and return it."""
        if isinstance(generator, KeyedGenerator):
            generator.restart(self.words)
        else:
            KeyedGenerator(generator.bit_generator).restart(self.words)
        return generator

    def key(self) -> jax.Array:
        """Return a JAX key."""
        import jax

        data = jax.numpy.asarray(np.frombuffer(self.words, np.uint32, 2))
        key: jax.Array = jax.random.wrap_key_data(data, impl="threefry2x32")
        return key

    def seed(self) -> int:
        """Return a seed derived from this shock: an integer below 2**56."""
        return int.from_bytes(self.words[:7], "little")

    def uniform(self) -> float:
        """Return one number in [0, 1), for steps that need no more; it is not the first number of `generator`."""
        return (int.from_bytes(self.words[:8], "little") >> 11) * 2.0**-53

    def uniforms(self, count: int) -> Floats:
        """Return `count` numbers in [0, 1); they are neither those of `generator` nor `uniform`."""
        if type(count) is not int or not 0 <= count <= _MANY:
            count = whole_number("count", count, 0)
            refuse_large(f"{count:,} uniform numbers", 100.0 * count)
        data = b"".join(self.derived(b"uniforms", j).words for j in range((count + 1) // 2))
        return (np.frombuffer(data, np.uint64)[:count] >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shock) and self.peek() == other.peek()

    def __hash__(self) -> int:
        return hash(self.peek())

    def __reduce__(self) -> tuple[Any, ...]:
        return Shock, (self.words,), (None if self.recorded is None else (None, {"recorded": self.recorded}))

    def __repr__(self) -> str:
        return f"Shock({self.peek().hex()})"


class StepShocks(Sequence[Shock]):
    """Shocks that many branches receive in one step, computed together when they are first used.

    Shock i is ``roots[i].derived(purpose, step, places[i])``, with an empty place if there are none. If rows are given,
    the shock of branch i is number rows[i] of these: branches with equal rows have one shock.
    """

    __slots__ = ("_origin", "_rows", "_shocks", "_words")

    def __init__(
        self,
        roots: Sequence[Shock],
        purpose: bytes,
        step: int,
        places: Sequence[bytes] | None = None,
        rows: Integers | None = None,
    ) -> None:
        self._origin, self._rows = (roots, purpose, step, places), rows
        self._words: list[bytes] | None = None
        self._shocks: list[Shock] | None = None

    def __len__(self) -> int:
        return len(self._origin[0]) if self._rows is None else len(self._rows)

    def __iter__(self) -> Iterator[Shock]:
        shocks = self._distinct()
        return iter(shocks) if self._rows is None else map(shocks.__getitem__, self._rows.tolist())

    @overload
    def __getitem__(self, i: int) -> Shock: ...

    @overload
    def __getitem__(self, i: slice) -> list[Shock]: ...

    def __getitem__(self, i: int | slice) -> Shock | list[Shock]:
        return list(self)[i]

    def uniform(self) -> list[float]:
        """`Shock.uniform` of every branch."""
        usage = self._origin[0][0].usage if len(self._origin[0]) else None
        if usage is not None:
            usage.used = True
        words = np.frombuffer(b"".join(self._keys()), np.uint64)[::2]
        numbers = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
        found: list[float] = (numbers if self._rows is None else numbers[self._rows]).tolist()
        return found

    def _keys(self) -> list[bytes]:
        if self._words is None:
            roots, purpose, step, places = self._origin
            end, words = _STEP(step) + purpose + b"\0", []
            for root, place in zip(roots, repeat(b"", len(roots)) if places is None else places, strict=True):
                blank = _blank()
                blank.update((root._words or root.peek()) + end + place)
                words.append(blank.digest())
            self._words = words
        return self._words

    def _distinct(self) -> list[Shock]:
        if self._shocks is None:
            self._shocks = list(map(Shock, self._keys()))
            _, purpose, step, _ = self._origin
            for shock, root in zip(self._shocks, self._origin[0], strict=True):
                shock.usage, recorded = root.usage, root.recorded
                if recorded is not None:
                    shock.recorded = recorded.at(step) if purpose == STEP else recorded
        return self._shocks


STEP = b"environment"
"""Purpose of the shock of a step of a simulator, by which it is known which period of a recorded history it is."""

_new = object.__new__
_blank = blake2b(digest_size=16).copy
"""A hash of nothing: a copy takes half the time of a new one."""
_STEP = struct.Struct("<q").pack
_MOST = 1 << 128
"""Largest absolute value of a seed or of the number of a sample."""
_MANY = 1 << 16
"""Numbers that are drawn at once without a look at the memory that they need."""


def _whole(name: str, value: object) -> int:
    number = integer(value)
    if number is None or abs(number) > _MOST:
        raise SettingsError(f"{name} is {short(value)}. Give a whole number of at most 2**128.")
    return number


def _not_derivable(purpose: object, step: object, where: object) -> SettingsError:
    given = ", ".join(map(short, (purpose, step, where)))
    return SettingsError(
        f"A shock cannot be derived for ({given}). Give a purpose in bytes, the number of a step below 2**63, and a "
        "place in bytes."
    )
