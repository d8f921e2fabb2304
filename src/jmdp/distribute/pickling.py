"""Pickles for worker processes, with errors that name what cannot be sent and the fix.

Unpickler that inserts shared objects, which the pickle contains by name.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from jmdp.base.settings import error_text, short
from jmdp.errors import SettingsError, SimulatorError

_LONGEST_TEXT = 10_000
"""Characters of the text of an exception that cannot be sent itself."""
_SEND = (
    "{} cannot be sent to worker processes ({}). Define functions with def and classes at the top of a module, not as "
    "a lambda or within another function, or use pool=None."
)
_LOAD = (
    "A worker process cannot load {} ({}). Define your functions and classes in a module that can be imported, not "
    "in a notebook or an interactive session, or use pool=None."
)


@dataclass(frozen=True)
class Parcel:
    """Pickled work, identified by the digest of its pickle."""

    digest: bytes
    pickled: bytes

    @classmethod
    def of(cls, work: Callable[..., Any], dumps: Callable[..., bytes] = pickle.dumps) -> Parcel:
        """Pickle the work; raise `SettingsError` naming its part that cannot be pickled."""
        try:
            pickled = dumps(work, pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # pickling can raise any exception
            raise _named(work, error, dumps) from error
        return cls(hashlib.sha256(pickled).digest(), pickled)


def pickled_arguments(arguments: Any, dumps: Callable[..., bytes] = pickle.dumps) -> bytes:
    """Pickle the arguments of one or more blocks."""
    try:
        return dumps(arguments, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise SettingsError(_SEND.format("Arguments of a block", error_text(error))) from error


def pickled_result(result: Any) -> bytes:
    """Pickle the result of a block, in a worker process."""
    try:
        return pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise SettingsError(
            f"The result of a block, a {type(result).__name__}, cannot be sent back by a worker process "
            f"({error_text(error)}). Return an object that pickle supports, or use pool=None."
        ) from error


def unpickled(what: str, pickled: bytes) -> Any:
    """Load a pickle in a worker process."""
    try:
        return pickle.loads(pickled)
    except Exception as error:
        raise SettingsError(_LOAD.format(what, error_text(error))) from error


def unpickled_result(pickled: bytes) -> Any:
    """Load the result of a block, in the parent process."""
    try:
        return pickle.loads(pickled)
    except Exception as error:  # unpickling can raise any exception
        raise SettingsError(
            f"The result of a block cannot be loaded ({error_text(error)}). Return an object that pickle supports, or "
            "use pool=None."
        ) from error


def sendable(error: Exception) -> Exception:
    """Return the exception, or a SimulatorError with its text if it does not survive pickling."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # the constructor of its class does not accept its args
        return SimulatorError(error_text(error, _LONGEST_TEXT))
    return error


def pickled_error(error: Exception) -> bytes:
    """Pickle the exception that is being handled, with its traceback, in a worker process."""
    return pickle.dumps((sendable(error), traceback.format_exc()))


def unpickled_error(pickled: bytes, where: str) -> Exception:
    """Load an exception in the parent process; its cause is the traceback in the worker."""
    error: Exception
    error, trace = pickle.loads(pickled)
    error.__cause__ = RuntimeError(f"In a {where}:\n{trace}")
    return error


def _named(work: Any, error: Exception, dumps: Callable[..., bytes]) -> SettingsError:
    """Error that names the innermost part of the work that cannot be pickled, or the work itself."""
    path, part = [], work
    for _ in range(_DEEPEST):
        inner = next(((name, x, fault) for name, x in _parts(part) if (fault := _fault(x, dumps))), None)
        if inner is None:
            break
        path.append(inner[0])
        part, error = inner[1:]
    place = "policy" if "actors" in path else next((name for name in path if name != "plan"), None)
    where = "" if place is None else f", part of the {place},"
    return SettingsError(_SEND.format(f"{_described(part)}{where}", error_text(error)))


_DEEPEST = 6
"""Levels of parts that are searched."""


def _fault(part: Any, dumps: Callable[..., bytes]) -> Exception | None:
    """Why this cannot be pickled; None if it can."""
    try:
        dumps(part)
    except Exception as error:
        return error
    return None


def _described(part: Any) -> str:
    if isinstance(part, FunctionType):
        kind = "A lambda" if part.__name__ == "<lambda>" else f"The function {part.__name__}"
        return f"{kind} ({Path(part.__code__.co_filename).name}, line {part.__code__.co_firstlineno})"
    return f"{short(part)} ({type(part).__name__})"


def _parts(work: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(work, partial):
        yield from ((f"argument {i}", part) for i, part in enumerate(work.args))
        yield from work.keywords.items()
    if isinstance(work, (list, tuple)):
        yield from ((str(i), part) for i, part in enumerate(work))
    if isinstance(work, dict):
        yield from ((str(key), part) for key, part in work.items())
    owner = getattr(work, "__self__", work)  # of a method, the object that it belongs to
    if isinstance(owner, (type, ModuleType, FunctionType)):
        return
    for name, part in getattr(owner, "__dict__", {}).items():
        yield name.strip("_").replace("_", " "), part


def unpickled_with(content: bytes, shared: Mapping[str, Any]) -> Any:
    """The object that was pickled with names in place of the shared objects (`persistent_id`)."""
    return _Unpickler(io.BytesIO(content), shared).load()


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shared: Mapping[str, Any]) -> None:
        super().__init__(file)
        self._shared = shared

    def persistent_load(self, name: str) -> Any:
        return self._shared[name]
