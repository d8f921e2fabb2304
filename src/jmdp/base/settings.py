"""Validation of settings, shared by all methods. Each check stores the value as a plain Python number."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, TypeVar, cast

import numpy as np

from jmdp.errors import SettingsError

_MOST_NAMES = 100_000

UNCONVERTIBLE = (TypeError, ValueError, ArithmeticError, RuntimeError, MemoryError)
"""What Python, NumPy and torch raise for values that they cannot convert to numbers or arrays."""

_LARGEST_INTEGER = 2**62

_SMALLEST_CHANCE = 1e-12

_LARGEST_MOMENT = 2.0**960
"""Moments (on rewards of size 1) and their weights must stay well within the range of a float."""


Seeded = TypeVar("Seeded", bound=Callable[..., Any])


def asks_for_seed(target: Seeded) -> Seeded:
    """Let a function or class with a required keyword `seed` say why it is required, if it is not given."""
    call: Callable[..., Any] = target.__init__ if isinstance(target, type) else target  # type: ignore[misc]

    @functools.wraps(call)
    def run(*args: Any, **kwargs: Any) -> Any:
        if "seed" not in kwargs:
            raise SettingsError(
                f"seed is missing: {target.__name__}(…, seed=0). All random numbers are derived from it, so that the "
                "same seed gives the same result on every machine, and another seed a new sample."
            )
        return call(*args, **kwargs)

    if not isinstance(target, type):
        return cast(Seeded, run)
    target.__init__ = run  # type: ignore[misc]
    return target


def refuse_overflow(order: int, discount: float) -> None:
    """Raise if moments of this order, up to (4/(1 − γ))^order, may be too large for a float."""
    most = math.floor(math.log(_LARGEST_MOMENT) / math.log(4 / (1 - discount)))
    if order > most:
        raise SettingsError(
            f"order is {order}. Give at most {most}: higher moments can overflow with discount {discount!r}."
        )


def nonnegative(settings: object, name: str, *, optional: bool = False) -> None:
    """Require a finite number ≥ 0, or None if optional."""
    value = getattr(settings, name)
    if optional and value is None:
        return
    number = real_number(value)
    if not 0 <= number < math.inf:
        raise SettingsError(f"{name} is {short(value)}. Give a finite number ≥ 0.")
    object.__setattr__(settings, name, number)


def boolean(settings: object, name: str) -> None:
    """Require True or False: other objects with a truth value are probably mistakes."""
    object.__setattr__(settings, name, boolean_value(name, getattr(settings, name)))


def boolean_value(name: str, value: object) -> bool:
    """Return a value that satisfies `boolean` as a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise SettingsError(f"{name} is {short(value)}. Give True or False.")
    return bool(value)


def short(value: object, most: int = 80) -> str:
    """The value as text for a message, on one line; long ones are cut."""
    try:
        said = repr(value)
    except (ValueError, RecursionError):  # integers that are too long to print, or tuples that are nested too deeply
        said = f"an int of {value.bit_length():,} bits" if isinstance(value, int) else object.__repr__(value)
    return cut(said, most)


def cut(text: str, most: int = 200) -> str:
    """The text on one line, cut if it is long."""
    said = " ".join(text.split())
    return said if len(said) <= most else f"{said[: most - 1]}…"


def error_text(error: BaseException, most: int = 200) -> str:
    """Class and text of an exception, on one line."""
    try:
        text = str(error)
    except Exception:  # as in tracebacks of Python: a fault in the text of an exception must not hide the exception
        text = "its text cannot be read"
    return cut(f"{type(error).__name__}: {text}", most)


def real_number(value: Any) -> float:
    """The value as a float, NumPy's and other scalars included; nan if it is no real number.

    Integers beyond the range of a float become infinite. Booleans and text are no numbers here: they are mistakes.
    """
    if isinstance(value, (bool, np.bool_, str, bytes)):
        return math.nan
    try:
        other = isinstance(value, complex) or getattr(getattr(value, "dtype", None), "kind", "f") in "cbSUT"
        return math.nan if other or getattr(value, "ndim", 0) != 0 else float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except UNCONVERTIBLE:
        return math.nan


def function(name: str, value: object, error: type[ValueError], *, optional: bool = False) -> None:
    """Require something that can be called, or None if optional."""
    if not (callable(value) or (optional and value is None)):
        raise error(f"{name} is {short(value)}. Give a function.")


def listed(value: Any, most: int) -> list[Any] | None:
    """The entries of a list or iterator, at most one more than `most`; None if it is text or no list."""
    try:
        return None if isinstance(value, (str, bytes)) else list(islice(value, most + 1))
    except (TypeError, RuntimeError):  # torch raises RuntimeError for sparse tensors
        return None


def names(name: str, value: Any, error: type[ValueError]) -> tuple[str, ...]:
    """The value as a tuple of names; raise if it is no list of names."""
    some = listed(value, _MOST_NAMES)
    if some is None or not all(isinstance(one, str) for one in some):
        hint = f": [{short(value)}]" if isinstance(value, str) else ""
        raise error(f"{name} is {short(value)}. Give a list of names{hint}.")
    if len(some) > _MOST_NAMES:
        raise error(f"{name} has more than {_MOST_NAMES:,} entries. Give fewer.")
    return tuple(str.__str__(one) for one in some)  # plain strings, also of NumPy's and of members of an Enum


def probability(settings: object, name: str) -> None:
    """Require a number strictly between 0 and 1, and not so close to 0 that 1 − value is 1."""
    object.__setattr__(settings, name, probability_value(name, getattr(settings, name)))


def probability_value(name: str, value: object) -> float:
    """Return a value that satisfies `probability` as a float."""
    number = real_number(value)
    if not _SMALLEST_CHANCE <= number < 1:
        raise SettingsError(f"{name} is {short(value)}. Give a probability, e.g. 0.95.")
    return number


def number_or_infinity(name: str, value: object) -> float:
    """Return a number, which may be infinite, as a float."""
    found = real_number(value)
    if math.isnan(found):
        raise SettingsError(f"{name} is {short(value)}. Give a number.")
    return found


def number(name: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """Return a finite number in [low, high] as a float."""
    found = real_number(value)
    if not (math.isfinite(found) and low <= found <= high):
        where = "finite number" if math.isinf(low) else f"number from {low:g} to {high:g}"
        raise SettingsError(f"{name} is {short(value)}. Give a {where}.")
    return found


def choice(name: str, value: object, allowed: Sequence[str], error: type[ValueError] = SettingsError) -> str:
    """Return the one of the allowed texts that the value is."""
    if not isinstance(value, str) or value not in allowed:
        raise error(f"{name} is {short(value)}. Use {' or '.join(map(repr, allowed))}.")
    return allowed[allowed.index(value)]  # a plain string, also for NumPy's and members of an Enum


def instance(name: str, value: object, kind: type, error: type[ValueError] = SettingsError, *, hint: str = "") -> None:
    """Raise `error`, with a hint, unless the value is an instance of `kind`."""
    if not isinstance(value, kind):
        raise error(f"{name} is a {type(value).__name__}, not a {kind.__name__}.{hint}")


def whole(settings: object, name: str, least: int, most: int = _LARGEST_INTEGER, *, optional: bool = False) -> None:
    """Require an integer from `least` to `most`, NumPy's included, or None if optional."""
    value = getattr(settings, name)
    if not (optional and value is None):
        object.__setattr__(settings, name, whole_number(name, value, least, most))


def whole_number(name: str, value: object, least: int, most: int = _LARGEST_INTEGER) -> int:
    """Return a value that satisfies `whole` as an int."""
    number = integer(value)
    if number is None or not least <= number <= most:
        wanted = f"from {least} to {most}"
        if most >= _LARGEST_INTEGER:
            wanted = f"of at least {least}" if number is None or number < least else f"of at most {most}"
        raise SettingsError(f"{name} is {short(value)}. Give a whole number {wanted}.")
    return number


def checked_grid(grid: Any, cells: int) -> tuple[int, int]:
    """Return (rows, columns) as a tuple of ints; raise unless their product is the number of cells."""
    try:
        rows, columns = (integer(n) for n in islice(grid, 3))
    except (TypeError, ValueError):  # no list, or they are not two
        rows = columns = None
    if rows is None or columns is None or min(rows, columns) < 1:
        raise SettingsError(f"grid is {short(grid)}. Give (rows, columns), two whole numbers of at least 1.")
    if rows * columns != cells:
        raise SettingsError(f"grid is {short(grid)}, that is {short(rows * columns)} cells, for {cells} states.")
    return rows, columns


def integer(value: Any) -> int | None:
    """The value as an int, NumPy's integers included; None if it is none. Booleans are none: they are mistakes."""
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        return int(operator.index(value))
    except (TypeError, RuntimeError):  # torch raises RuntimeError for tensors without data
        return None
