"""Files of version 1 of the format, as records of this version; earlier names of settings."""

from __future__ import annotations

from typing import Any

from jmdp.base.settings import short
from jmdp.files.types import WrongFieldError
from jmdp.statistics.assumptions import Assumptions

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
