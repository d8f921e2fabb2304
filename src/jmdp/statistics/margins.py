"""Margins of non-inferiority: is the new alternative worse than the old one by more than a margin?"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from jmdp.base.settings import boolean, real_number, short
from jmdp.errors import SettingsError

_PERCENT = re.compile(r"\s*(?P<number>[^%\s]+)\s*%\s*")


@dataclass(frozen=True)
class Margin:
    """The largest loss that is accepted: in units of the return, or relative to the size of the old mean.

    Parameters
    ----------
    size
        The loss, ≥ 0. If `relative`, a fraction of |E[old]|, below 1.
    relative
        Whether `size` is a fraction.
    """

    size: float
    relative: bool = False

    def __post_init__(self) -> None:
        boolean(self, "relative")
        number = real_number(self.size)
        if not 0 <= number < math.inf:
            raise SettingsError(f"margin is {short(self.size)}. {_GIVE}")
        if self.relative and number >= 1:
            raise SettingsError(f"margin is {100 * number:g}% of the old mean. Give less than 100%.")
        object.__setattr__(self, "size", number)

    @classmethod
    def of(cls, given: object) -> Margin:
        """Read a margin: a `Margin`, a number (5), or a text ("5", or "2%" of the old mean)."""
        if isinstance(given, Margin):
            return given
        if isinstance(given, str):
            percent = _PERCENT.fullmatch(given)
            try:
                number = float(given if percent is None else percent["number"])
            except ValueError:
                raise SettingsError(f"margin is {short(given)}. {_GIVE}") from None
            if not 0 <= number < math.inf:
                raise SettingsError(f"margin is {short(given)}. {_GIVE}")
            return cls(number) if percent is None else cls(number / 100, relative=True)
        return cls(given)  # type: ignore[arg-type]  # made a float, or refused

    def __str__(self) -> str:
        return f"{100 * self.size:.12g}%" if self.relative else f"{self.size:.12g}"


_GIVE = 'Give the largest loss to accept, ≥ 0: a number in units of the return (5), or a share of the old mean ("2%").'
