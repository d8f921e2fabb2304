"""Calls of `ProcessPool.ordered` and their blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from jmdp.distribute.pickling import Parcel, pickled_arguments, unpickled_error, unpickled_result


class End(NamedTuple):
    """How a worker process has ended."""

    text: str
    killed: bool  # from outside
    stack: str = ""  # of a block that took too long


class Call:
    """A call of `ordered`: the blocks whose turn has not come."""

    def __init__(self, parcel: Parcel, arguments: Iterator[tuple[Any, ...]], numbers: Iterator[int]) -> None:
        self.parcel, self._arguments, self._numbers = parcel, arguments, numbers
        self.blocks: deque[Block] = deque()  # in order
        self.unsent: list[Block] = []
        self.results = 0
        self.cancelled: float | None = None  # time

    def take(self, most: int) -> None:
        """Take arguments for new blocks, up to this number of blocks. An error is raised when it is its turn."""
        while len(self.blocks) < most:
            block = Block(self, next(self._numbers))
            try:
                block.arguments = pickled_arguments(next(self._arguments))
                self.unsent.append(block)
            except StopIteration:
                return
            except Exception as error:
                block.error, self._arguments = error, iter(())
            self.blocks.append(block)


class Block:
    """A block of work, from its arguments to its answer."""

    def __init__(self, call: Call, number: int) -> None:
        self.call, self.number = call, number  # unique in the pool
        self.arguments = b""
        self.answer: tuple[bool, bytes] | None = None  # succeeded; pickled result, or error and trace
        self.error: Exception | None = None
        self.ends: list[End] = []  # of workers that ran it, since the last block of the call has finished

    @property
    def answered(self) -> bool:
        """True if the result is known."""
        return self.answer is not None or self.error is not None

    def result(self) -> Any:
        """Return the result, or raise the error of the block."""
        if self.error is not None:
            raise self.error
        assert self.answer is not None
        succeeded, payload = self.answer
        if succeeded:
            return unpickled_result(payload)
        raise unpickled_error(payload, "worker process")
