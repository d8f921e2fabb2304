"""Sequence of shocks that are derived when they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

from jmdp.base.luck import Shock


class LazyShocks(Sequence[Shock]):
    """Shocks derived from some values when they are used: many policies use none."""

    def __init__(self, derive: Callable[[Any], Shock], values: Sequence[Any]) -> None:
        self._derive, self._values = derive, values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Shock]:
        return map(self._derive, self._values)

    @overload
    def __getitem__(self, i: int) -> Shock: ...

    @overload
    def __getitem__(self, i: slice) -> list[Shock]: ...

    def __getitem__(self, i: int | slice) -> Shock | list[Shock]:
        return list(map(self._derive, self._values[i])) if isinstance(i, slice) else self._derive(self._values[i])
