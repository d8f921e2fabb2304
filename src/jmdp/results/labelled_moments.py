"""Moments of the alternatives of all states as an xarray Dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jmdp.base.arrays import Floats
from jmdp.base.labels import Labels
from jmdp.results.result import labelled_arrays

if TYPE_CHECKING:
    import xarray


def labelled_moments(
    values: Mapping[str, Floats], states: Labels, alternatives: Labels, attributes: Mapping[str, str]
) -> xarray.Dataset:
    """Dataset of values [S, A] or [S, A, A]."""
    kind = alternatives.kind
    axes = ("state", kind, f"{kind}_2")
    found: xarray.Dataset = labelled_arrays().Dataset(
        {name: (axes[: array.ndim], array) for name, array in values.items()},
        {"state": _names(states), kind: _names(alternatives), f"{kind}_2": _names(alternatives)},
        attributes,
    )
    return found


def _names(labels: Labels) -> list[str] | list[int]:
    return list(range(labels.size)) if labels.names is None else list(labels.names)
