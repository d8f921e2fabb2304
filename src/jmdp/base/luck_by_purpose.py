"""Randomness by purpose: a generator or a random number for each name, so that designs that are compared share it.

With one generator, a design that draws one number more shifts all later draws of the run, and nothing is shared from
there on. With a name for each draw, such as ``luck.exponential("service", customer, mean=3.0)``, both designs give the
same customer the same number, whatever was drawn before.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np

from jmdp.base.keyed_generator import philox
from jmdp.base.luck import Shock
from jmdp.base.records import Period, Record, Row
from jmdp.base.settings import real_number, short
from jmdp.errors import SettingsError

Key = Any  # str, int, a NumPy integer, or a tuple of these, nested to any depth

Option = TypeVar("Option")

_SUMMED = 12.0
"""Poisson means up to this are inverted by adding probabilities, larger ones by SciPy."""

_LARGEST_MEAN = 2.0**31
"""Largest mean of a Poisson number; the inverse is inaccurate for much larger ones."""


_PURPOSES = 1000
"""Number of purposes whose hashes are kept; one takes less than a kilobyte."""

_ZERO, _ONE, _MOST = 0.0, 1.0, sys.float_info.max

_LARGEST_SCALE = 1e300
"""Largest mean and standard deviation: draws are less than 100 times as large, and must be finite."""


class Luck:
    """All randomness of one simulation run, or of one step, by purpose.

    A key names what a random number is for: strings, integers, and tuples of them. Equal keys mean equal random numbers
    in all designs that are compared, in every process and on every machine.

    - ``luck["arrivals"]`` is a NumPy generator that continues: the second access goes on where the first stopped.
      ``luck["service", 17]`` is another one, for customer 17.
    - ``luck.exponential("service", 17, mean=3.0)`` is one number, and no generator is made. The same key always gives
      the same number, so draws that must differ need different keys: add the customer or the time step. `uniform`,
      `exponential`, `poisson`, `normal` and `choice` invert the distribution function at one uniform number that
      depends on the key only. The result is monotone in it, so a changed parameter keeps the designs coupled.
    - ``luck.seed("weather")`` is a seed for another program or library.

    `compare_runs` passes an object of this class to each run. In `Simulator.step`, begin with
    ``luck = jmdp.Luck(shock)``: every call of the step starts from the beginning of its generators.

    Parameters
    ----------
    shock
        Key from which all random numbers derive.
    """

    __slots__ = ("_begun", "_hash", "_shock", "_streams", "_usage")

    def __init__(self, shock: Shock) -> None:
        if type(shock) is not Shock:
            if not isinstance(shock, Shock):
                raise SettingsError(f"shock is {short(shock)}. Give a shock: jmdp.Luck(jmdp.Shock.of_sample(seed, i)).")
            self.__class__ = getattr(shock, "luck", type(self))  # one that notes its draws
        self._shock, self._usage = shock, shock.usage
        self._hash = blake2b(shock.peek(), digest_size=16)
        self._begun: dict[str, Callable[[], Any]] = {}  # by purpose: a copy of the hash of a key up to its number
        self._streams: dict[bytes, np.random.Generator] = {}

    def __getitem__(self, key: Key) -> np.random.Generator:
        """Generator for this purpose; it continues within the run."""
        key = key if type(key) is tuple else (key,)
        name = _encoded(key)
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = np.random.Generator(philox(self._digest(key, b"stream" + name)))
        return found

    def seed(self, *key: Key) -> int:
        """Return an integer in [0, 2**31), to seed another program or library."""
        return int.from_bytes(self._digest(key, b"seed" + _encoded(key))[:4], "little") >> 1

    def uniform(self, *key: Key, low: float = _ZERO, high: float = _ONE) -> float:
        """Return a number that is uniform between low and high."""
        purpose, number = key if len(key) == 2 else (None, None)
        if type(purpose) is str and type(number) is int:  # most draws: only the number is encoded and hashed
            try:
                keyed = self._begun[purpose]()
            except KeyError:
                keyed = self._begin(purpose)
            try:
                keyed.update(b"%d)" % number)
            except ValueError:
                raise _too_long() from None
            bits = _FIRST_WORD(keyed.digest())[0]
        else:
            bits = _FIRST_WORD(self._digest(key, _encoded(key)))[0]
        u: float = ((bits >> 12) + 0.5) * 2.0**-52  # 52 bits, neither 0 nor 1
        if low is _ZERO and high is _ONE:
            return u
        low = _number("low", low, -_MOST, _MOST, "a finite number")
        high = _number("high", high, low, _MOST, f"a finite number of at least low, {low!r}")
        return min(max(low * (1 - u) + high * u, low), high)  # rounding may leave the interval

    def exponential(self, *key: Key, mean: float) -> float:
        """Return an exponential number with this mean: −mean ln(1 − u)."""
        if type(mean) is not float or not 0 <= mean <= _LARGEST_SCALE:
            mean = _number("mean", mean, 0, _LARGEST_SCALE, "a finite number ≥ 0, at most 1e300")
        return -mean * math.log1p(-self.uniform(*key))

    def normal(self, *key: Key, mean: float, std: float) -> float:
        """Return a normal number with this mean and standard deviation."""
        mean = _number("mean", mean, -_LARGEST_SCALE, _LARGEST_SCALE, "a finite number, at most 1e300 in size")
        std = _number("std", std, 0, _LARGEST_SCALE, "a finite number ≥ 0, at most 1e300")
        return float(mean + std * _special().ndtri(self.uniform(*key)))

    def poisson(self, *key: Key, mean: float) -> int:
        """Return a Poisson number with this mean: the smallest k with P(N ≤ k) ≥ u."""
        mean = _number("mean", mean, 0, _LARGEST_MEAN, "a number from 0 to 2**31")
        u = self.uniform(*key)
        return _summed_poisson(u, mean) if mean <= _SUMMED else _inverse_poisson(u, mean)

    def choice(self, *key: Key, options: Sequence[Option], probabilities: Sequence[float] | None = None) -> Option:
        """Return one of the options, equally likely or with these probabilities.

        Options are assigned to consecutive parts of [0, 1] in their order. Keep this order where designs differ.
        """
        n = _length(options)
        if n == 0:
            raise _wrong("options", options, "a list of at least one option")
        u = self.uniform(*key)
        if probabilities is None:
            return _option(options, int(u * n))
        if _length(probabilities) != n:
            raise _wrong("probabilities", probabilities, f"{n} numbers ≥ 0, one for each option")
        if not isinstance(probabilities, (list, tuple)):
            probabilities = [_option(probabilities, i) for i in range(n)]
        chances = [_number("a probability", p, 0, 1, "a number from 0 to 1") for p in probabilities]
        total = math.fsum(chances)
        if abs(total - 1) > 1e-9:
            raise SettingsError(f"probabilities sum to {total!r}. They must sum to 1.")
        return _option(options, _place(u * total, chances))

    def recorded(self, purpose: str, period: Any = None) -> Any:
        """Return what was recorded for this purpose in a period, if the call was given ``luck=RecordedLuck(…)``.

        A run names the period, ``for day in luck.periods: luck.recorded("demand", day)``, and asks in every period, in
        order, whether it needs the row or not; or at once, for an array: ``luck.recorded("demand", luck.periods)``. In
        a step of a simulator the period is that of the step.
        """
        return self._history.value(purpose, period)

    @property
    def shock(self) -> Shock:
        """Key from which all random numbers derive."""
        return self._shock

    @property
    def periods(self) -> Sequence[Period]:
        """Labels of the recorded periods."""
        history = self._history
        return history.periods if isinstance(history, Record) else (history.period,)

    @property
    def _history(self) -> Record | Row:
        if self._shock.recorded is None:
            raise SettingsError(
                "There is no recorded luck. Give the call a history: luck=jmdp.RecordedLuck(frame). A Luck of your own "
                "has it from history.given_to(shock)."
            )
        return self._shock.recorded

    def _begin(self, purpose: str) -> Any:
        """Return the hash of a key of this purpose up to its number, and keep it."""
        if len(self._begun) == _PURPOSES:
            self._begun.clear()
        begun = self._keyed(purpose)
        begun.update(b"(%a, " % purpose)
        self._begun[purpose] = begun.copy
        return begun.copy()

    def _digest(self, key: tuple[Key, ...], name: bytes) -> bytes:
        keyed = self._keyed(key[0])
        keyed.update(name)
        digest: bytes = keyed.digest()
        return digest

    def _keyed(self, first: Key) -> Any:
        """Hash that keys with this first part continue; the use of their source is recorded."""
        shock = self._shock
        if type(shock) is Shock:
            if self._usage is not None:
                self._usage.used = True
            return self._hash.copy()  # faster than hashing the shock's words again
        shock = shock.of_source(source_of(first))
        shock.note_use()
        return blake2b(shock.peek(), digest_size=16)

    def __getstate__(self) -> tuple[Shock, dict[bytes, np.random.Generator]]:
        return self._shock, self._streams

    def __setstate__(self, state: tuple[Shock, dict[bytes, np.random.Generator]]) -> None:
        self.__init__(state[0])  # type: ignore[misc]
        self._streams = state[1]

    def __repr__(self) -> str:
        return f"Luck({self._shock!r})"


UNNAMED = "unnamed"
"""The source of draws that have no name."""


def source_of(first: Key) -> str:
    """Source of the draws whose keys have this first part, whatever their indices; a number is no name."""
    while type(first) is tuple and first:
        first = first[0]
    return str(first) if isinstance(first, str) else UNNAMED


class _OfGenerators:
    """Attribute that NumPy's generators have and `Luck` does not: an error that says what to use.

    A method `__getattr__` of `Luck` would do the same, but makes each access to any attribute slower.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, luck: Luck | None, owner: type[Luck]) -> Any:
        raise AttributeError(
            f'Luck has no {self.name}. Use a generator, luck["purpose", i].{self.name}(…), or invert the distribution '
            'function: scipy.stats.gamma.ppf(luck.uniform("purpose", i), 2.0).'
        )


for _name in dir(np.random.Generator):
    if not hasattr(Luck, _name):
        setattr(Luck, _name, _OfGenerators(_name))

_FIRST_WORD = struct.Struct("<Q8x").unpack


def _encoded(key: tuple[Key, ...]) -> bytes:
    """Bytes that are equal for equal keys, and for no others, in every process and version of Python."""
    if not key:
        raise SettingsError(
            'A random number needs a key that names its purpose: luck.uniform("arrivals", i), luck.seed("model").'
        )
    try:
        for part in key:
            if type(part) is not str and type(part) is not int:
                key = _plain(key)
                break
        return b"%a" % (key,)  # ASCII, because what is printable depends on the version of Python
    except RecursionError:
        raise SettingsError("A key contains tuples nested too deeply. Use fewer levels.") from None
    except SettingsError:
        raise
    except ValueError:  # Python refuses to print integers of more than 4,300 digits
        raise _too_long() from None


def _too_long() -> SettingsError:
    return SettingsError("A key contains an integer of more than 4,300 digits. Use smaller ones.")


def _plain(key: tuple[Key, ...]) -> tuple[Key, ...]:
    """The key with Python's own integers and strings; raise for anything else."""
    return tuple(part if type(part) in (str, int) else _plain_part(part) for part in key)


def _plain_part(part: Any) -> Key:
    if type(part) is tuple:
        return _plain(part)
    if isinstance(part, np.integer) and not isinstance(part, np.timedelta64):  # NumPy counts durations as integers
        return int(part)
    if type(part) is np.str_:
        return str(part)
    if isinstance(part, (float, np.floating)):
        hint = "A time is not a stable name: use its step number. Parameters are keywords: mean=2.5."
    elif isinstance(part, (bool, np.bool_)):
        hint = "True and 1 would be the same key: use words, such as 'on'."
    else:
        hint = "Use a name or a number that is the same in every run, such as an identifier."
    raise SettingsError(
        f"A {type(part).__name__} is part of a key: {short(part)}. Keys are strings, integers and tuples of them. "
        f"{hint}"
    )


def _number(name: str, value: Any, least: float, most: float, wanted: str) -> float:
    """The value as a float; raise unless it is a number from least to most."""
    number = value if type(value) is float else real_number(value)
    if not least <= number <= most:
        raise _wrong(name, value, wanted)
    return number


def _length(options: Any) -> int:
    """Number of options; 0 if they have no order."""
    if isinstance(options, (list, tuple)):
        return len(options)
    try:
        ordered = hasattr(options, "__len__") and hasattr(options, "__getitem__") and not isinstance(options, Mapping)
        return len(options) if ordered else 0
    except TypeError:  # an array without axes
        return 0


def _option(options: Sequence[Option], i: int) -> Option:
    """Option of this number."""
    try:
        return options[i]
    except (LookupError, TypeError, NotImplementedError) as error:  # of pandas, or of a memoryview
        raise _wrong("options", options, "a list") from error


def _wrong(name: str, value: Any, wanted: str) -> SettingsError:
    return SettingsError(f"{name} is {short(value)}. Give {wanted}.")


def _summed_poisson(u: float, mean: float) -> int:
    k, term = 0, math.exp(-mean)
    total = term
    while total < u:
        k += 1
        term *= mean / k
        if total + term == total:  # the sum cannot grow any more: u is in the last 1e-16
            break
        total += term
    return k


def _inverse_poisson(u: float, mean: float) -> int:
    special = _special()
    k: int = math.ceil(special.pdtrik(u, mean))
    return k - 1 if k > 0 and special.pdtr(k - 1, mean) >= u else k


def _place(u: float, probabilities: Sequence[float]) -> int:
    """Number of the part of [0, Σp] that contains u; a part of probability 0 is never chosen."""
    total, last = 0.0, 0
    for i, p in enumerate(probabilities):
        if p > 0:
            total, last = total + p, i
            if u < total:
                break
    return last


_loaded: list[Any] = []


def _special() -> Any:
    """`scipy.special`, imported on first use because it takes longer to import than all of jmdp."""
    if not _loaded:
        import scipy.special

        _loaded.append(scipy.special)
    return _loaded[0]
