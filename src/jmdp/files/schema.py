"""The schema of saved results: the classes of objects, and what the annotations of their fields do not say.

A file contains one object, written as JSON, whose arrays are variables of the file. When one of these classes or an
annotation of a field changes, `VERSION` increases, and files of earlier versions must still be read:
`tests/files/fixtures` has one of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jmdp.base.arrays import ROW_SUM_TOLERANCE, Scale
from jmdp.base.settings import short
from jmdp.comparisons.question import ComparisonSettings
from jmdp.files.long_tables import HandedOver
from jmdp.files.types import KINDS, Kind, WrongFieldError
from jmdp.models.coupling import Independent, Local, Synchronous
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP, changed, with_read_labels
from jmdp.results.calibration import Calibration
from jmdp.results.certificate import Certificate
from jmdp.results.result import EvaluationInput, LearningCurve
from jmdp.simulators.rollouts.draws import Draws, EpisodeDraws, LuckProbe
from jmdp.statistics.assumptions import Assumptions
from jmdp.statistics.drawn_evaluation import DrawnSamples, Stage
from jmdp.statistics.history import HistoryUse
from jmdp.statistics.means import Sampling
from jmdp.statistics.selection import Limits, Margin

VERSION = 2
READABLE = (1, 2)


def _table(fields: dict[str, Any]) -> TabularJMDP:
    """A table; its arrays are taken out of `fields` and freed as soon as they are copied."""
    coupled_by, normalised, error = (fields.pop(name) for name in ("coupled_by", "normalised", "prob_error"))
    for name, size in (("normalised", normalised), ("prob_error", error)):
        if not 0 <= size <= ROW_SUM_TOLERANCE:
            raise WrongFieldError(name, f"a correction of {size}")
    names = {f"{kind}_names": fields.pop(f"{kind}s").names for kind in ("state", "action")}
    for name in [name for name, value in fields.items() if isinstance(value, np.ndarray)]:
        fields[name] = HandedOver(fields[name])
    model = with_read_labels(TabularJMDP(**fields, **names))
    object.__setattr__(model, "normalised", max(model.normalised, normalised))
    return changed(model, prob_error=error, coupled_by=coupled_by)


def _samples(alternatives: int, stages: tuple[Stage, ...]) -> DrawnSamples:
    """Samples in stages, each with some of the alternatives of the stage before."""
    before = set(range(alternatives)) if 0 < alternatives <= 1_000_000 else set()
    for stage in stages:
        own = stage.alternatives
        if list(own) != sorted(set(own)) or not own or not set(own) <= before:
            raise WrongFieldError("stages", f"the alternatives {short(own)} after {short(sorted(before))}")
        if stage.draws.returns.shape[1] != len(own) or not len(stage.draws.returns):
            raise WrongFieldError("stages", f"returns of shape {stage.draws.returns.shape} for {len(own)} alternatives")
        before = set(own)
    if not stages or len(stages[0].alternatives) != alternatives:
        raise WrongFieldError("stages", f"a first stage without all of {short(alternatives)} alternatives")
    return DrawnSamples(alternatives, stages)


def _calibration(fields: dict[str, Any]) -> Calibration:
    seeds = fields.pop("seeds")
    return Calibration(seed=seeds[0] if len(seeds) == 1 else seeds, **fields)


_TABLE = ("prob", "reward", "next_state", "discount", "terminal", "states", "actions")
_PAIRS = ("state", "first", "second", "mean", "variance", "independent", "returns")
_DRAWS = {"returns": "n A", "ends": "n A", "gains": "n A"}
_ERRORS = ("covariance_error", "gap_mean_error", "gap_variance_error", "correlation_error")

MODEL = Kind(
    TabularJMDP,
    {"prob": "S K", "reward": "S K A", "next_state": "S K A", "terminal": "S", "states": "S", "actions": "A"},
    names=(*_TABLE, "coupled_by", "normalised", "prob_error", "sources"),
    usual={"prob_error": 0.0, "sources": None},
    build=_table,
)
CALIBRATION = Kind(
    Calibration,
    dict.fromkeys((*_PAIRS[:-1], "closed_form", "reference"), "M") | {"returns": "M n pair"},
    names=(*_PAIRS, "seeds", "closed_form", "reference"),
    usual={"reference": None},
    types={"seeds": tuple[int, ...]},
    build=_calibration,
)
SETTINGS = Kind(
    ComparisonSettings,
    names=[name for name in ComparisonSettings.__dataclass_fields__ if name not in ("pool", "progress")],
    usual={"stratify": False},
    name="Settings",
)

KINDS += [
    MODEL,
    CALIBRATION,
    SETTINGS,
    *map(Kind, (Local, Synchronous, Independent, Limits, Scale, Margin, Stage, HistoryUse)),
    Kind(Sampling, usual={"freedom": 0.0, "widening": 1.0}),
    Kind(TabularPolicy, {"probs": "S A"}),
    Kind(EvaluationInput, {"start": "S", "terminal_value": "S"}, name="Asked"),
    Kind(Certificate, {"mean_error": "S A"} | dict.fromkeys(_ERRORS, "S A A"), axes_of_whole=True),
    Kind(LearningCurve, {"updates": "T", "rms": "T B", "drift": "T B", "floor": "B"}),
    Kind(Draws, _DRAWS),
    Kind(EpisodeDraws, _DRAWS | {"starts": "n A"}),
    Kind(LuckProbe, dict.fromkeys(("returns", "same_start", "same_steps"), "m A"), axes_of_whole=True),
    Kind(DrawnSamples, build=lambda fields: _samples(**fields)),
    Kind(
        Assumptions,
        types={
            "return_range": tuple[float, float] | None | Mapping[str, tuple[float, float] | None],
            "largest_loss": float | None | Mapping[str, float | None],
            "rarest": float | Mapping[str, float],
            "tie_tolerance": float | Mapping[str, float],
        },
    ),
]
