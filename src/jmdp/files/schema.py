"""The schema of saved results: the kinds of objects, and the types of their fields.

A file contains one object, written as JSON, whose arrays are variables of the file. When a class or a field here
changes, `VERSION` increases, and files of earlier versions must still be read: `tests/files/fixtures` has one of each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jmdp.base.arrays import ROW_SUM_TOLERANCE
from jmdp.base.scale import Scale
from jmdp.base.settings import short
from jmdp.comparisons.settings import Settings
from jmdp.files import methods
from jmdp.files.finishing import HandedOver
from jmdp.files.kinds import Kind, Object
from jmdp.files.types import (
    FLAG,
    NUMBER,
    TEXT,
    WHOLE,
    Array,
    ByMeasure,
    ByName,
    LabelsOf,
    Listed,
    NumberOrArray,
    OneOf,
    Optional,
    Tuple,
    WrongFieldError,
)
from jmdp.models.coupling import Independent, Local, Synchronous
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP, changed, with_read_labels
from jmdp.results.asked import Asked
from jmdp.results.calibration import Calibration
from jmdp.results.certificate import Certificate
from jmdp.results.learning_curve import LearningCurve
from jmdp.results.outcome import Outcome
from jmdp.simulators.draws import Draws
from jmdp.simulators.episodes import EpisodeDraws, LuckProbe
from jmdp.statistics.assumptions import Assumptions
from jmdp.statistics.drawn_samples import DrawnSamples, Stage
from jmdp.statistics.limits import Limits
from jmdp.statistics.margins import Margin
from jmdp.statistics.means import Sampling

VERSION = 2
READABLE = (1, 2)

_LUCK = {"policy_luck": TEXT}

COUPLING = Object(lambda: {kind.__name__: Kind(kind, _LUCK) for kind in (Local, Synchronous, Independent)})

_TABLE = {
    "prob": Array("<f8", "S K"),
    "reward": Array("<f8", "S K A"),
    "next_state": Array("<i8", "S K A"),
    "discount": NUMBER,
    "terminal": Array("|b1", "S"),
    "states": LabelsOf("S"),
    "actions": LabelsOf("A"),
    "coupled_by": Optional(TEXT),
    "normalised": NUMBER,
    "prob_error": NUMBER,
}

MODELS = {"TabularJMDP": Kind(TabularJMDP, _TABLE, lambda fields: _table(fields), usual={"prob_error": 0.0})}

POLICY = Object(lambda: {"TabularPolicy": Kind(TabularPolicy, {"probs": Array("<f8", "S A")})})

ASKED = Object(
    lambda: {
        "Asked": Kind(
            Asked,
            {
                "model": Object(lambda: MODELS),
                "discount": NUMBER,
                "names": Optional(Listed(TEXT)),
                "policies": Listed(Listed(POLICY)),
                "start": Optional(Array("<f8", "S")),
                "horizon": Optional(WHOLE),
                "terminal_value": Optional(Array("<f8", "S")),
            },
        )
    }
)

_CERTIFICATE = {
    "kind": TEXT,
    "mean_error": NumberOrArray("S A"),
    "covariance_error": NumberOrArray("S A A"),
    "gap_mean_error": NumberOrArray("S A A"),
    "gap_variance_error": NumberOrArray("S A A"),
    "discount": NUMBER,
    "reward_bound": NUMBER,
    "confidence": Optional(NUMBER),
    "correlation_error": Optional(Array("<f8", "S A A")),
    "assumption": Optional(TEXT),
    "large_sample": FLAG,
}

_LEARNING = {
    "blocks": Listed(TEXT),
    "updates": Array("<f8", "T"),
    "rms": Array("<f8", "T B"),
    "drift": Array("<f8", "T B"),
    "floor": Optional(Array("<f8", "B")),
}

_DRAWS = {
    "returns": Array("<f8", "n A"),
    "ends": Array("<i4 <i8", "n A"),
    "gains": Array("<i8", "n A"),
    "largest_reward": NUMBER,
    "steps": WHOLE,
    "shared_steps": WHOLE,
    "drew": FLAG,
}

_PROBE = {
    "returns": Array("<f8", "m A"),
    "same_start": Array("<f8", "m A"),
    "same_steps": Optional(Array("<f8", "m A")),
}

_EPISODES = {
    **_DRAWS,
    "starts": Array("<i8", "n A"),
    "paired": WHOLE,
    "probe": Optional(Object(lambda: {"LuckProbe": Kind(LuckProbe, _PROBE, axes_of_whole=True)})),
}

DRAWS = Object(lambda: {"Draws": Kind(Draws, _DRAWS), "EpisodeDraws": Kind(EpisodeDraws, _EPISODES)})

_STAGE = Object(lambda: {"Stage": Kind(Stage, {"alternatives": Listed(WHOLE), "draws": DRAWS})})

SAMPLES = Object(
    lambda: {
        "DrawnSamples": Kind(
            DrawnSamples, {"alternatives": WHOLE, "stages": Listed(_STAGE)}, lambda fields: _samples(**fields)
        )
    }
)

LIMITS = Object(
    lambda: {
        "Limits": Kind(
            Limits,
            {
                "bound": NUMBER,
                "cut": NUMBER,
                "rounding": NUMBER,
                "scale": Object(lambda: {"Scale": Kind(Scale, {"exponent": WHOLE})}),
                "assumption": Optional(TEXT),
            },
        )
    }
)

MARGIN = Object(lambda: {"Margin": Kind(Margin, {"size": NUMBER, "relative": FLAG})})

_ASSUMPTIONS = {
    "return_range": ByMeasure(Optional(Tuple(NUMBER, 2))),
    "reward_bound": Optional(NUMBER),
    "largest_loss": ByMeasure(Optional(NUMBER)),
    "rarest": ByMeasure(NUMBER),
    "tie_tolerance": ByMeasure(NUMBER),
}

ASSUMPTIONS = Object(lambda: {"Assumptions": Kind(Assumptions, _ASSUMPTIONS)})

SAMPLING = Object(lambda: {"Sampling": Kind(Sampling, {"kind": TEXT, "most": WHOLE, "looks": WHOLE})})

_SETTINGS = {
    "seed": WHOLE,
    "coupling": COUPLING,
    "confidence": NUMBER,
    "precision": Optional(NUMBER),
    "indifference": Optional(NUMBER),
    "margin": Optional(MARGIN),
    "samples": Optional(WHOLE),
    "max_samples": Optional(WHOLE),
    "max_steps": Optional(NUMBER),
    "max_seconds": Optional(NUMBER),
    "looks": TEXT,
    "stratify": FLAG,
    "horizon": Optional(WHOLE),
    "assume": ASSUMPTIONS,
}

SETTINGS = Object(lambda: {"Settings": Kind(Settings, _SETTINGS, usual={"stratify": False})})

_CALIBRATION = {
    **{name: Array("<i8", "M") for name in ("state", "first", "second")},
    **{name: Array("<f8", "M") for name in ("mean", "variance", "independent")},
    "returns": Array("<f8", "M n pair"),
    "seeds": Listed(WHOLE),
    "closed_form": Optional(Array("<f8", "M")),
}


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


METHOD = methods.Methods()
OUTCOME = OneOf(Outcome)
CERTIFICATE = Object(lambda: {"Certificate": Kind(Certificate, _CERTIFICATE, axes_of_whole=True)})
LEARNING = Object(lambda: {"LearningCurve": Kind(LearningCurve, _LEARNING)})
CALIBRATION_KIND = Kind(Calibration, _CALIBRATION, lambda fields: _calibration(**fields))
CALIBRATION = Object(lambda: {"Calibration": CALIBRATION_KIND})
WORSE = ByName(TEXT)


def _calibration(seeds: tuple[int, ...], **given: Any) -> Calibration:
    return Calibration(seed=seeds[0] if len(seeds) == 1 else seeds, **given)
