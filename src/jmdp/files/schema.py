"""The schema of saved results: the classes of objects, and what the annotations of their fields do not say.

A file contains one object, written as JSON, whose arrays are variables of the file. When one of these classes or an
annotation of a field changes, `VERSION` increases, and files of earlier versions must still be read:
`tests/files/fixtures` has one of each.

Reviews are saved with the rewards and values of all steps, without states, simulator and policies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, get_type_hints

import numpy as np

from jmdp.base.arrays import ROW_SUM_TOLERANCE, Floats, Integers, Scale
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
from jmdp.reviews.recorded import Deviation, RecordedMonth
from jmdp.reviews.review import Review
from jmdp.reviews.reviews import Reviews
from jmdp.reviews.trajectory import Forgotten, Trajectory
from jmdp.reviews.values import StepValues
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


_VALUES = tuple(field.name for field in fields(StepValues) if field.name != "sampled")
_COUNTS = ("samples", "steps")
_BY_ACTION = ("action_values", "action_errors", "gap_errors")
_PLAIN = ("simulator", "policy", "reference", "method", "discount", "end", "seed", "confidence", "asked")
_RECORDED: dict[str, Any] = {"month": None, "deviation": None, "others": {}}


def _values(name: str) -> Callable[[Review], Any]:
    dtype = np.int64 if name in _COUNTS else np.float64
    return lambda review: np.array([getattr(one, name) for one in review.values], dtype)


def _review(fields: dict[str, Any]) -> Review:
    """The review, without a simulator."""
    found = SimpleNamespace(**fields)
    steps, A = len(found.rewards), len(found.actions)
    if len(found.value) != steps + 1 or steps < 1:
        raise WrongFieldError("value", f"{len(found.value)} values of {steps} steps")
    if {len(found.names), len(found.labels)} != {steps} or not ((found.taken >= 0) & (found.taken < A)).all():
        raise WrongFieldError("taken", "other steps or actions than those of the review")
    if not np.isfinite(found.rewards).all() or not 0 <= found.discount <= 1 or not 0 < found.confidence < 1:
        raise WrongFieldError("rewards", "numbers that no review has")
    rows = [{name: fields[name][i] for name in _VALUES} for i in range(steps + 1)]
    values = [StepValues(**{name: x if name in _BY_ACTION else x.item() for name, x in row.items()}) for row in rows]
    return Review(
        trajectory=Trajectory(found.episode, found.first, (), (), found.rewards, found.terminated, found.names),
        labels=found.labels,
        actions=found.actions,
        taken=found.taken.tolist(),
        values=values,
        replay=Forgotten(found.discrete, tuple(found.actions)),
        replayed=found.hindsight,
        **{name: fields[name] for name in (*_PLAIN, *_RECORDED)},
    )


def _reviews(fields: dict[str, Any]) -> Reviews:
    """The reviews, without a simulator."""
    found, groups = fields["reviews"], fields["groups"]
    if not found or [len(one) for one in found] != [len(one) for one in groups]:
        raise WrongFieldError("groups", "other steps than those of the reviews")
    return Reviews(**fields)


_STEPS = ("episode", "first", "rewards", "names", "terminated")

REVIEW = Kind(
    Review,
    {"rewards": "T", "taken": "T", "hindsight": "T A"}
    | {name: "N A" if name in _BY_ACTION else "N" for name in _VALUES},
    names=(*_STEPS, "labels", "actions", "taken", "discrete", "hindsight", *_PLAIN, *_RECORDED, *_VALUES),
    types={name: get_type_hints(Trajectory)[name] for name in _STEPS}
    | {"taken": Integers, "discrete": bool, "hindsight": Floats | None}
    | dict.fromkeys(_VALUES, Floats)
    | dict.fromkeys(_COUNTS, Integers),
    made={name: attrgetter(f"trajectory.{name}") for name in _STEPS}
    | {"taken": lambda review: np.array(review.taken, np.int64)}
    | {"discrete": attrgetter("replay.discrete"), "hindsight": attrgetter("replayed")}
    | {name: _values(name) for name in _VALUES},
    usual=_RECORDED,
    build=_review,
)
REVIEWS = Kind(Reviews, build=_reviews)

KINDS += [REVIEW, REVIEWS, Kind(RecordedMonth), Kind(Deviation)]
