"""Errors of other packages while they read a file, as errors of jmdp that name the file and the place in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jmdp.base.settings import error_text
from jmdp.errors import FileError, JMDPError, MemoryBudgetError

FIX = "Save it again, or restore it from a copy."


@contextmanager
def damage(place: str, fix: str = FIX) -> Iterator[None]:
    """Raise `FileError` for any error that is not one of jmdp; `MemoryBudgetError` if there is too little memory."""
    try:
        with enough_memory(place):
            yield
    except JMDPError:
        raise
    except Exception as error:  # of any kind: zipfile, zlib, NumPy and pyarrow raise many
        raise FileError(f"{place} cannot be read ({error_text(error)}). {fix}") from error


@contextmanager
def enough_memory(place: str) -> Iterator[None]:
    """Raise `MemoryBudgetError` if memory that was planned is not there, e.g. because of a limit of the process."""
    try:
        yield
    except JMDPError:
        raise
    except MemoryError as error:
        raise MemoryBudgetError(f"{place} needs more memory than this process may use. Free some memory.") from error
