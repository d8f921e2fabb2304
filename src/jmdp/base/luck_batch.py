"""Randomness (luck) of many branches at once: arrays of keys, each equal to that of a `Shock`."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

import numpy as np

from jmdp.base.arrays import Floats, Integers, Words
from jmdp.base.luck import Shock

_NOWHERE: Words = np.zeros(0, np.uint64)


class Shocks:
    """Shocks of n branches. Entry i is ``shocks[i]``, a `Shock`; branches that share their randomness have equal ones.

    The numbers of the methods are those of the methods of `Shock` with the same name, bit for bit.
    """

    __slots__ = ("_rows", "_words", "used")

    def __init__(self, words: Words, rows: Integers | None = None) -> None:
        self._words = words  # [m, 2]
        self._rows = rows  # [n], the row of `words` that is the key of each branch; None if there is one row for each
        self.used = False  # True once a number was drawn

    @classmethod
    def of(cls, shocks: list[Shock]) -> Shocks:
        """Combine these shocks."""
        return cls(np.frombuffer(b"".join(shock.words for shock in shocks), np.uint64).reshape(-1, 2))

    @classmethod
    def of_samples(cls, seeds: Sequence[int], first: int, count: int) -> Shocks:
        """Shocks of samples first … first + count − 1 of each seed in turn, as `Shock.of_sample`."""
        digests = [
            hashlib.blake2b(b"%d %d" % (seed, sample), digest_size=16).digest()
            for seed in seeds
            for sample in range(first, first + count)
        ]
        return cls(np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2))

    def __len__(self) -> int:
        return len(self._words) if self._rows is None else len(self._rows)

    def __getitem__(self, i: int) -> Shock:
        self.used = True
        return Shock(self._words[i if self._rows is None else self._rows[i]].tobytes())

    def rows(self, rows: Integers) -> Shocks:
        """Shocks of these rows; a row may occur several times. Numbers are computed once for each distinct row."""
        return Shocks(self._words, rows if self._rows is None else self._rows[rows])

    def derived(self, purpose: bytes, step: int = 0, places: Integers | None = None) -> Shocks:
        """Derive shocks as `Shock.derived` does, where place i is given by the 8 bytes of places[i], if given."""
        from jmdp.base.luck_kernel import hash_all

        rest = struct.pack("<q", step) + purpose + b"\0" + bytes(0 if places is None else 8)
        if len(rest) > 111:
            raise ValueError(f"The purpose has {len(purpose)} bytes. Use at most 94.")
        if places is None:
            words, where, rows = self._words, _NOWHERE, self._rows
        else:
            words = self._words if self._rows is None else self._words[self._rows]
            where, rows = np.ascontiguousarray(places, np.int64).view(np.uint64), None
        out = np.empty_like(words)
        hash_all(words, np.frombuffer(rest.ljust(112, b"\0"), np.uint64), 16 + len(rest), where, out)
        return Shocks(out, rows)

    def uniform(self) -> Floats:
        """One number in [0, 1) for each branch, [n]."""
        self.used = True
        numbers = _uniform(self._words[:, 0])
        return numbers if self._rows is None else numbers[self._rows]

    def uniforms(self, count: int) -> Floats:
        """`count` numbers in [0, 1) for each branch, [n, count]."""
        self.used = True
        numbers = np.empty((len(self._words), count))
        each = Shocks(self._words)
        for j in range(0, count, 2):
            numbers[:, j : j + 2] = _uniform(each.derived(b"uniforms", j // 2)._words[:, : count - j])
        return numbers if self._rows is None else numbers[self._rows]


def _uniform(words: Words) -> Floats:
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
