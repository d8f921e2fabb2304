"""Call public entries with hostile arguments: only typed errors, right answers or long work that was asked for.

Call number i of a seed is a function of (seed, i), so a finding can be repeated alone. Entries are called in turn.
"""

from __future__ import annotations

import collections
import contextlib
import importlib
import os
import pkgutil
import signal
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import jmdp
from hostile.entries import Arguments, Entry
from hostile.values import CallError, Hostile, like
from jmdp.errors import JMDPError

SECONDS = 60
"""Time limit of a call that asks for little work, in seconds of CPU time; the first call of a kernel compiles it."""

SECONDS_OF_LONG_WORK = 1

_PACKAGE = os.path.dirname(jmdp.__file__)

SHORTEST_MESSAGE, LONGEST_MESSAGE = 15, 1200


class _OutOfTime(BaseException):
    """Raised in a call that takes too long. It is no Exception, so that the call cannot handle it."""


@dataclass(frozen=True)
class Finding:
    """A call that did what no call may do."""

    number: int
    what: str
    call: str

    def __str__(self) -> str:
        return f"call {self.number}: {self.what}\n    {self.call}"


@dataclass(frozen=True)
class Call:
    """One call: an entry and its arguments, one or two of them hostile."""

    entry: Entry
    given: Arguments
    valid: Arguments
    hostile: dict[str, Hostile]

    @classmethod
    def of(cls, entries: Sequence[Entry], seed: int, number: int) -> Call:
        """The call of this number."""
        rng = np.random.default_rng([seed, number])
        entry = entries[number % len(entries)]
        state = rng.bit_generator.state
        valid = entry.valid(rng)
        rng.bit_generator.state = state
        given = entry.valid(rng)
        names = [name for name in given if name not in entry.fixed]
        count = min(len(names), 1 if rng.random() < 0.8 else 2)
        hostile = {str(name): like(given[str(name)], rng) for name in rng.choice(names, count, replace=False)}
        return cls(entry, {**given, **{name: h.value for name, h in hostile.items()}}, valid, hostile)

    def __str__(self) -> str:
        return f"{self.entry.name}({', '.join(f'{name}={value}' for name, value in self.hostile.items())})"

    @property
    def asks_for_long_work(self) -> bool:
        """Whether the call may take as long as it likes."""
        return not self.entry.amounts.isdisjoint(self.hostile)

    @property
    def means_the_same(self) -> bool:
        """Whether the answer must be that of the valid arguments."""
        return all(value.same for value in self.hostile.values())

    def run(self) -> tuple[str, str | None]:
        """Make the call. Returns what happened (accepted, refused, long, …) and what is wrong, or None."""
        try:
            with _limit(SECONDS_OF_LONG_WORK if self.asks_for_long_work else SECONDS):
                try:
                    result = self.entry.call(**self.given)
                except JMDPError as refusal:
                    return "refused", _of_message(refusal)
                return "accepted", self._of_result(result)
        except _OutOfTime:
            return "long", None if self.asks_for_long_work else f"not finished in {SECONDS} s"
        except Exception as raw:
            if _is_of_the_caller(raw):
                return "raised by the caller", None
            return "raw", _of_exception(raw)

    def _of_result(self, result: Any) -> str | None:
        for name, function in self.entry.then.items():
            try:
                function(result)
            except JMDPError as refusal:
                if (wrong := _of_message(refusal)) is not None:
                    return f"{name} of the result: {wrong}"
            except Exception as raw:
                if not _is_of_the_caller(raw):
                    return f"{name} of the result: {_of_exception(raw)}"
        if (wrong := self.entry.check(result, self.given)) is not None:
            return f"wrong: {wrong}"
        if self.means_the_same:
            answer, expected = self.entry.answer(result), self.entry.answer(self.entry.call(**self.valid))
            if not _equal(answer, expected):
                return f"another answer than with the valid value: {answer!r:.100}, not {expected!r:.100}"
        return None


def _is_of_the_caller(raw: Exception) -> bool:
    """Whether a function of the caller raised this, one of `values` or of an entry: it comes out unchanged."""
    files = [frame.filename for frame in traceback.extract_tb(raw.__traceback__)]
    last = max((i for i, name in enumerate(files) if name.startswith(_PACKAGE)), default=len(files))
    return isinstance(raw, CallError) or any("/hostile/entries" in name for name in files[last + 1 : last + 2])


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return bool(a == b)


def _of_message(error: JMDPError) -> str | None:
    length = len(str(error))
    if SHORTEST_MESSAGE <= length <= LONGEST_MESSAGE:
        return None
    return f"message of {length} characters: {error!s:.100}"


def _of_exception(raw: Exception) -> str:
    frames = traceback.extract_tb(raw.__traceback__)
    ours = [frame for frame in frames if "/jmdp/" in frame.filename] or frames
    place = f"{ours[-1].filename.rpartition('/jmdp/')[2]}:{ours[-1].lineno}"
    return f"{type(raw).__name__} at {place}: {str(raw)[:120]!r}"


@contextlib.contextmanager
def _limit(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, 2.0)  # again and again: in a callback, an exception is ignored
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _import_everything() -> None:
    """Import all modules: the end of a long call within an import would leave a module half initialised."""
    for module in pkgutil.walk_packages(jmdp.__path__, "jmdp."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def fuzz(entries: Sequence[Entry], seed: int, numbers: range) -> tuple[collections.Counter[str], list[Finding]]:
    """Make these calls. Returns how often each thing happened, and the findings."""
    _import_everything()
    happened: collections.Counter[str] = collections.Counter()
    findings = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in numbers:
            call = Call.of(entries, seed, number)
            what, wrong = call.run()
            happened[what] += 1
            if wrong is not None:
                findings.append(Finding(number, wrong, str(call)))
    return happened, findings
