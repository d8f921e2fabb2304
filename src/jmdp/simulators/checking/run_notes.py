"""Likely mistakes in runs, seen when samples are run again: what the runs draw, and from what.

A result is not invalid because of one of them, so they are warnings.
"""

from __future__ import annotations

import contextlib
import random
import re
import sys
import threading
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from difflib import SequenceMatcher
from itertools import combinations, islice, product
from typing import Any

import numpy as np

from jmdp.base.luck import Shock, Usage
from jmdp.base.luck_by_purpose import Key, Luck
from jmdp.base.settings import short

_CLOSE = 0.8
"""Similarity of two words, from 0 to 1, from which on one may be the other misspelt."""

_MANY = 20
"""Purposes of one design only, up to which they are compared with those of another."""

Purpose = tuple[str, ...]
"""Kind of a draw, and the words of its key without numbers."""


class RunNotes:
    """What the runs of several designs draw."""

    def __init__(self) -> None:
        self._runs: list[tuple[str, _NotingLuck]] = []

    def luck(self, design: str, seed: int, sample: int) -> Luck:
        """Randomness of the next run, which notes what is drawn."""
        luck = _NotingLuck(Shock.of_sample(seed, sample, Usage()))
        self._runs.append((design, luck))
        return luck

    @contextlib.contextmanager
    def then_warned(self) -> Iterator[None]:
        """Note what runs draw, also the seeds of other generators. Then warn of likely mistakes, of each kind once."""
        with _noted_seeds(lambda seed: self._runs[-1][1].seeds.add(seed) if self._runs else None):
            yield
        for found in (self._nothing(), self._again(), self._same_seeds(), self._near_purposes()):
            for text in islice(found, 1):
                warnings.warn(text, stacklevel=2)

    def _nothing(self) -> Iterator[str]:
        for design, luck in self._runs:
            if not luck.used:
                yield (
                    f"Design {short(design)} drew nothing from `luck`, so all its runs are equal. If the simulation is "
                    'random, its seed is fixed: pass it luck.seed("model"), or draw from luck.'
                )

    def _again(self) -> Iterator[str]:
        for design, luck in self._runs:
            for (kind, key), count in luck.noted.items():
                if kind == "number" and count > 1:
                    said = ", ".join(map(repr, key))
                    yield (
                        f"Design {short(design)} used the random number ({said}) {count} times in one run, and it is "
                        "the same number each time. If the draws should differ, add what they are for: "
                        f"({said}, customer); or use a generator: luck[{said}]. If they should not, draw it once."
                    )

    def _same_seeds(self) -> Iterator[str]:
        seeds: defaultdict[str, list[set[str]]] = defaultdict(list)
        for design, luck in self._runs:
            seeds[design].append(luck.seeds)
        for design, samples in seeds.items():
            for seed in sorted(set.intersection(*samples) if len(samples) > 1 else ()):
                yield (
                    f"Design {short(design)} makes a generator with the same seed in every run: {seed}. It draws the "
                    'same numbers each time. If they should vary, use luck["purpose"], or seed it with '
                    'luck.seed("purpose").'
                )

    def _near_purposes(self) -> Iterator[str]:
        used: defaultdict[str, set[Purpose]] = defaultdict(set)
        for design, luck in self._runs:
            used[design] |= {(kind, *_words(key)) for kind, key in luck.noted}
        for one, other in combinations(used, 2):
            mine, theirs = sorted(used[one] - used[other]), sorted(used[other] - used[one])
            if max(len(mine), len(theirs)) > _MANY:  # names of things, not purposes
                continue
            for p, q in product(mine, theirs):
                if _is_close(p, q):
                    yield (
                        f"Only design {short(one)} uses {_said(p)}, and only design {short(other)} {_said(q)}. If this "
                        "is one purpose, use the same key in the same way: different keys give different random "
                        "numbers."
                    )


class _NotingLuck(Luck):
    """Randomness that notes how often each key is used, and for what."""

    __slots__ = ("noted", "seeds")

    def __init__(self, shock: Shock) -> None:
        super().__init__(shock)
        self.noted: Counter[tuple[str, Key]] = Counter()
        self.seeds: set[str] = set()  # that other generators were given

    @property
    def used(self) -> bool:
        return self._usage is not None and self._usage.used

    def __getitem__(self, key: Key) -> np.random.Generator:
        self.noted["generator", key] += 1
        return super().__getitem__(key)

    def seed(self, *key: Key) -> int:
        self.noted["seed", key] += 1
        return super().seed(*key)

    def _uniform(self, key: tuple[Key, ...]) -> float:
        self.noted["number", key] += 1
        return super()._uniform(key)


def _words(key: Key) -> tuple[str, ...]:
    """Strings of a key without their numbers; those that have letters."""
    if isinstance(key, tuple):
        return tuple(word for part in key for word in _words(part))
    word = re.sub(r"[-+.,]*\d[\d.,]*", "", key) if isinstance(key, str) else ""
    return (word,) if re.search(r"[^\W\d_]", word) else ()


def _is_close(one: Purpose, other: Purpose) -> bool:
    """Whether the keys have nearly the same words, in upper or lower case; the kinds of draws may differ."""
    mine, theirs = (re.findall(r"[^\W_]+", " ".join(purpose[1:]).casefold()) for purpose in (one, other))
    alike = (SequenceMatcher(None, x, y).ratio() >= _CLOSE for x, y in zip(mine, theirs, strict=False))
    return len(mine) == len(theirs) > 0 and all(alike)


def _said(purpose: Purpose) -> str:
    return f"the {purpose[0]} {', '.join(map(repr, purpose[1:]))}"


_WATCHING = threading.Lock()


@contextlib.contextmanager
def _noted_seeds(note: Callable[[str], None]) -> Iterator[None]:
    """Note the calls that seed a generator of NumPy or Python. Nothing is noted if another thread does so."""
    if not _WATCHING.acquire(blocking=False):
        yield
        return
    method = random.Random.seed  # which random.Random(0) calls
    own = {"np.random.default_rng": np.random.default_rng, "np.random.seed": np.random.seed, "random.seed": random.seed}
    noting = {name: _noting(function, name, note) for name, function in own.items()}
    try:
        random.Random.seed = _noting(method, "random.Random", note)  # type: ignore[method-assign]
        _replace(own, noting)
        yield
    finally:
        _replace(noting, own)
        random.Random.seed = method  # type: ignore[method-assign]
        _WATCHING.release()


def _replace(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Replace functions in all modules, since some import them by name."""
    for module in list(sys.modules.values()):
        known = getattr(module, "__dict__", {})
        for full, function in old.items():
            name = full.rpartition(".")[2]
            if known.get(name) is function:
                known[name] = new[full]


def _noting(function: Any, name: str, note: Callable[[str], None]) -> Any:
    """The same function, which notes the seeds that it is given."""

    def call(*args: Any, **kwargs: Any) -> Any:
        for seed in (*args, *kwargs.values()):
            if isinstance(seed, (int, np.integer, str, list, tuple)):
                note(f"{name}({short(seed)})")
        return function(*args, **kwargs)

    return call
