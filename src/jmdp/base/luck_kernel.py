"""BLAKE2b (RFC 7693) of many short messages: the keys of `Shock.derived` for many shocks at once, a numba kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmdp.base.arrays import Words
from jmdp.base.compiled_kernel import compiled, compiled_part

_START = np.array(
    [
        0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
        0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
    ],
    np.uint64,
)  # fmt: skip
_ORDER = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    np.uint64,
)


@compiled_part(inline="always")
def _turned(z: np.uint64, bits: int) -> np.uint64:
    return (z >> np.uint64(bits)) | (z << np.uint64(64 - bits))


@compiled_part()
def _mixed(
    a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64, x: np.uint64, y: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    a = a + b + x
    d = _turned(d ^ a, 32)
    c = c + d
    b = _turned(b ^ c, 24)
    a = a + b + y
    d = _turned(d ^ a, 16)
    c = c + d
    b = _turned(b ^ c, 63)
    return a, b, c, d


@compiled_part()
def _round(v: Any, m: Any, r: int) -> Any:
    v0, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15 = v
    v0, v4, v8, v12 = _mixed(v0, v4, v8, v12, m[_ORDER[r, 0]], m[_ORDER[r, 1]])
    v1, v5, v9, v13 = _mixed(v1, v5, v9, v13, m[_ORDER[r, 2]], m[_ORDER[r, 3]])
    v2, v6, v10, v14 = _mixed(v2, v6, v10, v14, m[_ORDER[r, 4]], m[_ORDER[r, 5]])
    v3, v7, v11, v15 = _mixed(v3, v7, v11, v15, m[_ORDER[r, 6]], m[_ORDER[r, 7]])
    v0, v5, v10, v15 = _mixed(v0, v5, v10, v15, m[_ORDER[r, 8]], m[_ORDER[r, 9]])
    v1, v6, v11, v12 = _mixed(v1, v6, v11, v12, m[_ORDER[r, 10]], m[_ORDER[r, 11]])
    v2, v7, v8, v13 = _mixed(v2, v7, v8, v13, m[_ORDER[r, 12]], m[_ORDER[r, 13]])
    v3, v4, v9, v14 = _mixed(v3, v4, v9, v14, m[_ORDER[r, 14]], m[_ORDER[r, 15]])
    return v0, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15


@compiled_part(inline="always")  # inline, so that the loop in _digests is vectorised
def _digest(m: Any, length: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Digest of 16 bytes of the message m [16] of `length` < 128 bytes."""
    h0, h1, h2, h3, h4, h5, h6, h7 = (
        _START[0], _START[1], _START[2], _START[3], _START[4], _START[5], _START[6], _START[7]
    )  # fmt: skip
    first = h0 ^ np.uint64(0x01010010)  # no key, digest of 16 bytes
    v = first, h1, h2, h3, h4, h5, h6, h7, h0, h1, h2, h3, h4 ^ length, h5, ~h6, h7  # ~: the only block is the last
    v = _round(v, m, 0)
    v = _round(v, m, 1)
    v = _round(v, m, 2)
    v = _round(v, m, 3)
    v = _round(v, m, 4)
    v = _round(v, m, 5)
    v = _round(v, m, 6)
    v = _round(v, m, 7)
    v = _round(v, m, 8)
    v = _round(v, m, 9)
    v = _round(v, m, 0)
    v = _round(v, m, 1)
    return first ^ v[0] ^ v[8], h1 ^ v[1] ^ v[9]


@compiled_part()
def _digests(m: Words, length: np.uint64, out: Words) -> None:
    """Fill out [2, 64] with the digests of the messages m [16, 64]: four at a time, by vector instructions."""
    for j in range(64):
        k = np.uint64(j)
        message = (
            m[0, k], m[1, k], m[2, k], m[3, k], m[4, k], m[5, k], m[6, k], m[7, k],
            m[8, k], m[9, k], m[10, k], m[11, k], m[12, k], m[13, k], m[14, k], m[15, k],
        )  # fmt: skip
        out[0, k], out[1, k] = _digest(message, length)


@compiled()
def hash_all(words: Words, rest: Words, length: int, places: Words, out: Words) -> None:
    """Fill out [n, 2] with the digests of n messages of `length` < 128 bytes.

    A message consists of words [n, 2] and the same rest [14] for all; if places [n] are given, they are its last 8
    bytes, which must be 0 in `rest`.
    """
    m, found, n = np.empty((16, 64), np.uint64), np.empty((2, 64), np.uint64), len(words)
    at, shift = (length - 8) // 8, np.uint64(8 * ((length - 8) % 8))
    for first in range(0, n, 64):
        count = min(64, n - first)
        for j in range(14):
            m[j + 2] = rest[j]
        for k in range(count):
            m[0, k], m[1, k] = words[first + k, 0], words[first + k, 1]
        if len(places):
            for k in range(count):
                m[at, k] |= places[first + k] << shift
                if shift:
                    m[at + 1, k] |= places[first + k] >> (np.uint64(64) - shift)
        _digests(m, np.uint64(length), found)
        for k in range(count):
            out[first + k, 0], out[first + k, 1] = found[0, k], found[1, k]
