"""Structs of Thrift's compact protocol as trees that can be changed and written again, for damaged Parquet files."""

from __future__ import annotations

import struct
from typing import Any

TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
INTEGERS = (4, 5, 6)
Tree = dict[int, list[Any]]
"""Fields of a struct: [type, value] by number."""


def parse(data: bytes, at: int = 0) -> tuple[Tree, int]:
    """The struct at a place, and where it ends."""
    tree: Tree = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _signed(data, at)
        kind = head & 15
        if kind in (TRUE, FALSE):
            tree[number] = [kind, None]
        else:
            value, at = _value(data, at, kind)
            tree[number] = [kind, value]
    return tree, at + 1


def written(tree: Tree) -> bytes:
    """Bytes of a struct."""
    out = b""
    for number, (kind, value) in tree.items():
        out += bytes([kind]) + _varint(number << 1 ^ number >> 63)
        out += b"" if kind in (TRUE, FALSE) else _bytes(kind, value)
    return out + b"\0"


def integers(tree: Tree, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all integers in a tree."""
    found = []
    for number, (kind, value) in tree.items():
        found += _integers(kind, value, (*path, number))
    return found


def get(tree: Tree, path: tuple[Any, ...]) -> Any:
    """The [type, value] at a path: numbers of fields, and (index,) within a list."""
    cell: Any = [STRUCT, tree]
    for step in path:
        if isinstance(step, tuple):
            kind, values = cell[1]
            cell = [kind, values[step[0]]]
        else:
            cell = cell[1][step]
    return cell


def put(tree: Tree, path: tuple[Any, ...], value: Any) -> None:
    """Change the value at a path, whose last step is a field or an index."""
    cell = get(tree, path[:-1])
    if isinstance(path[-1], tuple):
        cell[1][1][path[-1][0]] = value
    else:
        cell[1][path[-1]][1] = value


def _integers(kind: int, value: Any, path: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    if kind in INTEGERS:
        return [path]
    if kind == STRUCT:
        return integers(value, path)
    if kind in (LIST, SET):
        inner, values = value
        return [found for i, one in enumerate(values) for found in _integers(inner, one, (*path, (i,)))]
    return []


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in INTEGERS:
        return _signed(data, at)
    if kind in (TRUE, FALSE, BYTE):
        return data[at], at + 1
    if kind == DOUBLE:
        return struct.unpack_from("<d", data, at)[0], at + 8
    if kind == BINARY:
        size, at = _unsigned(data, at)
        return data[at : at + size], at + size
    if kind in (LIST, SET):
        head, at = data[at], at + 1
        count = head >> 4
        if count == 15:
            count, at = _unsigned(data, at)
        values = []
        for _ in range(count):
            value, at = _value(data, at, head & 15)
            values.append(value)
        return [head & 15, values], at
    return parse(data, at)


def _bytes(kind: int, value: Any) -> bytes:
    if kind in INTEGERS:
        return _varint((value << 1 ^ value >> 63) & (2**64 - 1))
    if kind in (TRUE, FALSE, BYTE):
        return bytes([value])
    if kind == DOUBLE:
        return struct.pack("<d", value)
    if kind == BINARY:
        return _varint(len(value)) + value
    if kind in (LIST, SET):
        inner, values = value
        return bytes([240 | inner]) + _varint(len(values)) + b"".join(_bytes(inner, one) for one in values)
    return written(value)


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = _unsigned(data, at)
    return value >> 1 ^ -(value & 1), at


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 128:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
