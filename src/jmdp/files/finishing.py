"""The last step of all formats: the discount, and the model from arrays that nobody else holds."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from jmdp.base.guard import Plain
from jmdp.base.settings import real_number, short
from jmdp.errors import ModelError, SettingsError
from jmdp.models.tabular import TabularJMDP, with_read_labels


class HandedOver:
    """An array that is given away when it is converted: it is freed as soon as the model has its own copy."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._array: npt.NDArray[Any] | None = array
        self.shape = array.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array, self._array = self._array, None
        assert array is not None
        return array


def finished_model(name: str, plain: Plain, discount: float | None) -> TabularJMDP:
    """Model of the file `name` from its names and arrays, which are taken out of `plain`; errors name the file."""
    about, arrays = plain
    gamma = _discount(name, about.get("discount"), discount)
    names = {key: about.get(key) for key in ("state_names", "action_names")}
    parts: dict[str, Any] = {
        key: HandedOver(arrays.pop(key)) for key in ("prob", "reward", "next_state", "terminal") if key in arrays
    }
    try:
        model = TabularJMDP(discount=gamma, **parts, **names)
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from error
    return with_read_labels(model)


def _discount(name: str, own: float | None, given: float | None) -> float:
    """Discount of the file, or the given one; raise if both differ or both are missing."""
    if own is None and given is None:
        raise SettingsError(f"{name} has no discount. Give one, e.g. discount=0.99.")
    if own is None:
        assert given is not None
        return given
    if given is not None and real_number(given) != own:
        raise SettingsError(f"discount is {short(given)}, but that of {name} is {own!r}. Omit discount.")
    return own
