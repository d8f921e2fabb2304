"""Structs in Thrift's compact protocol, in which Parquet writes its footer and the headers of its pages."""

from __future__ import annotations

from typing import Any

_TRUE, _FALSE = 1, 2
_DEEPEST = 8


class ThriftError(ValueError):
    """Bytes that are no struct."""


class Reader:
    """Reads structs from bytes; never beyond their end."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._data, self.at, self._end = data, at, end

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """The next struct: its fields by number."""
        if depth > _DEEPEST:
            raise ThriftError("structs are nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            kind, step = head & 15, head >> 4
            number = number + step if step else self._signed()
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        match kind:
            case 1 | 2 | 3:  # in lists, booleans are bytes
                return self._byte()
            case 4 | 5 | 6:
                return self._signed()
            case 7:  # a double
                return self._bytes(8)
            case 8:  # bytes or text
                return self._bytes(self._unsigned())
            case 9 | 10:
                return self._list(depth + 1)
            case 12:
                return self.struct(depth + 1)
        raise ThriftError(f"unknown type {kind}")

    def _list(self, depth: int) -> list[Any]:
        if depth > _DEEPEST:
            raise ThriftError("lists are nested too deeply")
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._unsigned()
        if count > self._end - self.at:
            raise ThriftError("a list is too long")
        return [self._value(head & 15, depth) for _ in range(count)]

    def _byte(self) -> int:
        if self.at >= self._end:
            raise ThriftError("it ends too early")
        self.at += 1
        return self._data[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        if count > self._end - self.at:
            raise ThriftError("it ends too early")
        self.at += count
        return self._data[self.at - count : self.at]

    def _unsigned(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ThriftError("an integer is too long")
        if byte << shift >= 2**64:
            raise ThriftError("an integer is too long")
        return value | byte << shift

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)
