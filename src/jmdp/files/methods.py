"""Methods and their settings in saved results.

Files of version 1 of the format, as records of this version; earlier names of settings.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

from jmdp.base.settings import short
from jmdp.files.types import Place, Sink, Type, WrongFieldError, decoded, encoded
from jmdp.methods import METHODS
from jmdp.methods.incremental import (
    BlockSampling,
    ConstantSteps,
    PolynomialSteps,
    TrajectorySampling,
    UniformSampling,
)
from jmdp.methods.linear_projected import features
from jmdp.methods.linear_projected.linear_projected import GivenFeatures
from jmdp.methods.linear_projected.pair_steps import Restart, Stationary
from jmdp.results.parts import MethodSettings
from jmdp.statistics.assumptions import Assumptions


class SavedMethod(MethodSettings):
    """A method whose settings a file cannot contain, such as functions; its text only."""

    def __init__(self, text: str, step_name: str, residual_name: str) -> None:
        self.text, self.step_name, self.residual_name = text, step_name, residual_name

    def __repr__(self) -> str:
        return self.text


_METHODS = tuple(getattr(import_module(f"jmdp.methods.{folder}"), name) for name, folder in METHODS.items())
_SETTINGS_OF_METHODS = (
    PolynomialSteps,
    ConstantSteps,
    BlockSampling,
    UniformSampling,
    TrajectorySampling,
    Restart,
    Stationary,
    features.OneHot,
    features.TileCoding,
    features.RandomFourier,
    features.Polynomial,
)
_BY_NAME: dict[str, Any] = {cls.__name__: cls for cls in (*_METHODS, *_SETTINGS_OF_METHODS)}

_HERE_ONLY = ("pool", "path", "states")
"""Settings that are not saved: places and processes of one machine, and states, whose names the labels have."""


class _Setting(Type):
    """A setting of a method: a plain value, a list, an array, or one of the classes of settings."""

    def encode(self, value: Any, sink: Sink, place: str) -> Any:
        """The value; raise NotImplementedError for others, such as functions."""
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, (int, np.integer)):
            return int(value)
        if isinstance(value, (float, np.floating)):
            return encoded(float, value, sink, place) if np.isfinite(value) else {"number": str(float(value))}
        if isinstance(value, (list, tuple)):
            return [self.encode(one, sink, f"{place}.{i}") for i, one in enumerate(value)]
        if isinstance(value, np.ndarray) and value.dtype.str in ("<f8", "<i8", "|b1") and value.size:
            return {"array": sink.add(place, [f"{place}.{i}" for i in range(value.ndim)], value)}
        if isinstance(value, GivenFeatures):
            return self.encode(value.array, sink, place)
        if type(value) in _SETTINGS_OF_METHODS:
            return {"settings": type(value).__name__, **self.of(value, sink, place)}
        raise NotImplementedError

    def of(self, value: Any, sink: Sink, place: str) -> dict[str, Any]:
        """All fields of a method or of one of its settings."""
        assert is_dataclass(value)
        named = (f.name for f in fields(value) if f.init and f.name not in _HERE_ONLY)
        return {name: self.encode(getattr(value, name), sink, f"{place}.{name}") for name in named}

    def decode(self, node: Any, at: Place) -> Any:
        """The value."""
        if node is None or isinstance(node, (bool, str, int, float)):
            return node
        if isinstance(node, list):
            return tuple(self.decode(one, at.inside(i)) for i, one in enumerate(node))
        if set(node) == {"number"}:
            return decoded(float, node["number"], at)
        if set(node) == {"array"}:
            array = at.source.array(decoded(str, node["array"], at), at.name)
            return array.view(np.bool_) if array.dtype == np.int8 and set(np.unique(array)) <= {0, 1} else array
        return self.built(node, "settings", _SETTINGS_OF_METHODS, at)

    def built(self, node: dict[str, Any], key: str, classes: tuple[type, ...], at: Place) -> Any:
        """An object of one of these classes from its fields."""
        cls = _BY_NAME.get(node[key]) if isinstance(node.get(key), str) else None
        if cls not in classes:
            raise at.wrong(f"{short(node)} instead of one of: {', '.join(c.__name__ for c in classes)}")
        given = {name: self.decode(value, at.inside(name)) for name, value in node.items() if name != key}
        given = {EARLIER_NAMES.get(name, name): value for name, value in given.items()}
        given.pop("", None)
        known = {f.name for f in fields(cls) if f.init}
        if not set(given) <= known:
            raise at.wrong(f"settings that {cls.__name__} does not have: {short(sorted(set(given) - known))}")
        return cls(**given)


class Methods(Type):
    """A method with its settings, or, if they cannot be saved, its text."""

    def encode(self, value: Any, sink: Sink, place: str) -> dict[str, Any]:
        """Name and settings of the method, or its text."""
        if type(value) in _METHODS:
            before = dict(sink.arrays)
            try:
                return {"method": type(value).__name__, **_Setting().of(value, sink, place)}
            except NotImplementedError:
                sink.arrays = before
        return {"text": repr(value)[:10_000], "step": value.step_name, "residual": value.residual_name}

    def decode(self, node: Any, at: Place) -> Any:
        """The method."""
        if not isinstance(node, dict):
            raise at.wrong(f"{short(node)} instead of a method")
        if "method" in node:
            return _Setting().built(node, "method", _METHODS, at)
        if set(node) != {"text", "step", "residual"}:
            raise at.wrong(f"{short(node)} instead of a method")
        return SavedMethod(*(decoded(str, node[name], at) for name in ("text", "step", "residual")))


EARLIER_NAMES = {"seconds": "max_seconds", "solver": ""}
"""Settings in files before version 0.3, and their names now: of `LinearProjected` there was a choice of solvers."""

_RAREST = 0.5
"""Comparisons of version 1 were decided from 32 samples on, however rare an outcome could be."""


def upgraded(node: Any) -> Any:
    """A part of a record of version 1 as one of this version.

    Sampling was always sequential, with a budget of `samples` and `seconds`. Assumptions were settings of their own.
    """
    if type(node) is list:
        return [upgraded(one) for one in node]
    if type(node) is not dict:
        return node
    found = {key: upgraded(one) for key, one in node.items()}
    try:
        if "worse_than" in found and "sign" in found:
            sampling = {"class": "Sampling", "kind": "sequential", "most": 0, "looks": 1}
            found |= {"sampling": sampling, "file_version": 1}
            found["assume"] = _assumptions(found, ("return_range", "tie_tolerance"), _RAREST)
        elif found.get("class") == "Settings":
            found = {EARLIER_NAMES.get(name, name): value for name, value in found.items()}
            found |= {"samples": None, "max_samples": found["samples"], "looks": "scheduled"}
            names = ("return_range", "reward_bound", "tie_tolerance")
            found["assume"] = _assumptions(found, names, Assumptions.rarest)
        elif found.get("class") == "Progress":
            found["looks"] = 1
            _move_own(found)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise WrongFieldError("", f"a {short(found.get('class'))} that is none of version 1") from None
    return found


def _assumptions(found: dict[str, Any], names: tuple[str, ...], rarest: float) -> dict[str, Any]:
    """Take these fields out of the object."""
    others = {"class": "Assumptions", "reward_bound": None, "largest_loss": None, "rarest": rarest}
    return others | {name: found.pop(name) for name in names}


def _move_own(progress: dict[str, Any]) -> None:
    """Settings of single measures: lists of numbers, some of which are now assumptions."""
    if progress["own"] is None:
        return
    own = {name: [[measure, _value(numbers)] for measure, numbers in values] for name, values in progress["own"]}
    for name in ("return_range", "tie_tolerance"):
        if name in own:
            progress["settings"]["assume"][name] = {"measures": own.pop(name)}
    progress["own"] = [[name, values] for name, values in own.items()]


def _value(numbers: list[Any]) -> Any:
    return None if not numbers else numbers if len(numbers) == 2 else numbers[0]
