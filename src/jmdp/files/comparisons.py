"""Comparisons as saved objects: their samples, what was decided, and how far they got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.labels import Label, Labels
from jmdp.base.settings import cut, short
from jmdp.comparisons.comparison import Comparison
from jmdp.comparisons.policy_comparison import PolicyComparison
from jmdp.comparisons.run_comparison import RunComparison, RunComparisons
from jmdp.errors import LabelError, UnavailableError
from jmdp.files import schema
from jmdp.files.continuing import PROGRESS, Progress, Resumption, of_actions, of_policies, of_runs
from jmdp.files.kinds import Kind, Object
from jmdp.files.types import FLAG, LABEL, NUMBER, TEXT, WHOLE, Array, LabelsOf, Listed, Optional, WrongFieldError
from jmdp.methods.monte_carlo import MonteCarlo
from jmdp.models.coupling import Coupling
from jmdp.simulators.episodes import EpisodeDraws
from jmdp.simulators.runs import RunDraws
from jmdp.simulators.starts import Starts
from jmdp.statistics.assumptions import Assumptions
from jmdp.statistics.drawn_samples import DrawnSamples, Stage
from jmdp.statistics.limits import Limits
from jmdp.statistics.means import Sampling
from jmdp.statistics.sample_summary import SampleSummary


@dataclass(frozen=True, kw_only=True)
class SavedComparison:
    """The fields of any comparison that a file contains."""

    of_what: str  # "actions", "policies" or "runs"
    samples: DrawnSamples
    labels: Labels
    limits: Limits
    coupling: Coupling
    discount: float
    horizon: int
    seed: int
    confidence: float
    error: float
    sampling: Sampling
    assume: Assumptions
    certain: bool
    sign: float
    shares: Floats | None
    outcome: Any
    best: str | None
    survivors: tuple[str, ...]
    worse_than: dict[str, str]
    baseline: str | None
    margin: Any
    indifference: float | None
    simulator: str
    policy: str
    numbers: tuple[Label, ...] | None
    start_names: tuple[str, ...] | None
    start_probabilities: Floats | None
    measure: str | None
    minimized: bool
    file_version: int | None = None
    progress: Progress | None

    @classmethod
    def of(cls, c: Comparison) -> SavedComparison:
        """The parts of a comparison that are saved."""
        kept = {f.name: getattr(c, f.name) for f in fields(cls) if hasattr(c, f.name)}
        summary = {
            f.name: getattr(c.summary, f.name) for f in fields(SampleSummary) if f.name in cls.__dataclass_fields__
        }
        starts = c.starts if isinstance(c, PolicyComparison) else None
        return cls(
            **{"measure": None, "minimized": False}
            | kept
            | summary
            | {
                "of_what": _KINDS[type(c)],
                "start_names": None if starts is None else tuple(starts.names),
                "start_probabilities": None if starts is None else starts.probabilities,
                "progress": Progress.of(c.continue_with),
            }
        )

    def restored(self) -> Comparison:
        """The comparison."""
        self._check()
        summary = {f.name: getattr(self, f.name) for f in fields(SampleSummary) if f.init and hasattr(self, f.name)}
        method = MonteCarlo(seed=self.seed, confidence=self.confidence, horizon=self.horizon)
        common = {f.name: getattr(self, f.name) for f in fields(Comparison) if hasattr(self, f.name)}
        common["summary"] = SampleSummary(**summary, method=method)
        common["continue_with"] = _not_continued
        if self.of_what == "actions":
            return self._with_progress(Comparison(**common), of_actions)
        if self.of_what == "policies":
            return self._with_progress(PolicyComparison(**common, starts=self._starts()), of_policies)
        return self._with_progress(RunComparison(**common, measure=self.measure, minimized=self.minimized), of_runs)

    def _with_progress(self, c: Comparison, question: Any) -> Comparison:
        if self.progress is None:
            return c
        samples = run_samples([c]) if isinstance(c, RunComparison) else c.draws
        self.progress.with_samples(samples)  # raises if they do not match
        return replace(c, continue_with=Resumption(self.progress, c, samples, question))

    def _starts(self) -> Starts:
        names, probabilities = self.start_names, self.start_probabilities
        if names is None or probabilities is None or len(names) != len(probabilities):
            raise WrongFieldError("start_names", "not one name for each start")
        if len(names) and not (np.isfinite(probabilities).all() and abs(probabilities.sum() - 1) < 1e-6):
            raise WrongFieldError("start_probabilities", "probabilities that do not sum to 1")
        return Starts(names, probabilities, names)

    def _check(self) -> None:
        """Raise if fields do not match."""
        if self.labels.names is None or self.labels.size != self.samples.alternatives or self.labels.size < 2:
            raise WrongFieldError("labels", f"{self.labels.size} names of {self.samples.alternatives} alternatives")
        episodes = all(isinstance(stage.draws, EpisodeDraws) for stage in self.samples.stages)
        if self.of_what not in _KINDS.values() or (self.of_what != "actions") != episodes:
            raise WrongFieldError("of_what", f"{short(self.of_what)} with samples of another kind")
        if not 0 < self.error < 1 or not 0 < self.confidence < 1 or not 0 <= self.discount <= 1:
            raise WrongFieldError("error", "a probability outside (0, 1)")
        if self.sign not in (-1.0, 1.0) or self.horizon < 1 or self.seed < 0:
            raise WrongFieldError("sign", "a sign, horizon or seed that is impossible")
        for stage in self.samples.stages:
            paired = getattr(stage.draws, "paired", 0)
            if not 0 <= paired <= len(stage.draws.returns) or not np.isfinite(stage.draws.returns).all():
                raise WrongFieldError("samples", "returns that are not finite, or more pairs than samples")
        try:
            named = [self.best, self.baseline, *self.survivors, *self.worse_than, *self.worse_than.values()]
            for name in named:
                if name is not None:
                    self.labels.index(name)
        except LabelError as error:
            raise WrongFieldError("survivors", str(error)) from None
        if not set(self.labels.names) - set(self.worse_than):
            raise WrongFieldError("worse_than", "all alternatives")
        if self.numbers is not None and len(self.numbers) != self.labels.size:
            raise WrongFieldError("numbers", f"{len(self.numbers)} numbers of {self.labels.size} actions")
        kind, looks, most = self.sampling.kind, self.sampling.looks, self.sampling.most
        if kind not in ("fixed", "sequential", "planned") or looks < 1 or most < (2 if kind == "planned" else 0):
            raise WrongFieldError("sampling", f"{short(kind)} sampling with {looks} looks at {most} samples")
        if self.assume.by_measure:
            raise WrongFieldError("assume", "values by measure in the comparison of one measure")


_KINDS: dict[type, str] = {Comparison: "actions", PolicyComparison: "policies", RunComparison: "runs"}


def _not_continued(samples: int, given: Mapping[str, Any]) -> Any:
    raise UnavailableError(
        "This is one measure of several, or was loaded from a pickle. Continue the whole comparison."
    )


@dataclass(frozen=True, kw_only=True)
class SavedComparisons:
    """The fields of a comparison by several measures that a file contains."""

    measures: tuple[SavedComparison, ...]
    confidence: float
    progress: Progress | None

    @classmethod
    def of(cls, c: RunComparisons) -> SavedComparisons:
        """The parts that are saved."""
        return cls(
            measures=tuple(map(SavedComparison.of, c.values())),
            confidence=c.confidence,
            progress=Progress.of(c.continue_with),
        )

    def restored(self) -> RunComparisons:
        """The comparisons."""
        found = [saved.restored() for saved in self.measures]
        names = [c.measure for c in found if isinstance(c, RunComparison) and c.measure is not None]
        if not found or len(names) != len(found) or names != sorted(set(names)):
            raise WrongFieldError("measures", f"measures that are not named in order: {cut(', '.join(names))}")
        by_name: dict[str, Any] = dict(zip(names, found, strict=True))
        c = RunComparisons(comparisons=by_name, confidence=self.confidence, continue_with=_not_continued)
        if self.progress is None:
            return c
        samples = run_samples(found)
        self.progress.with_samples(samples)
        return replace(c, continue_with=Resumption(self.progress, c, samples, of_runs))


def run_samples(measures: list[Any]) -> DrawnSamples:
    """Samples of runs from those of their measures."""
    first = measures[0].draws
    names = None if measures[0].measure is None else tuple(c.measure for c in measures)
    stages = []
    for i, stage in enumerate(first.stages):
        parts = [c.draws.stages[i] if i < len(c.draws.stages) else None for c in measures]
        if any(p is None or p.alternatives != stage.alternatives or p.draws.returns.shape != stage.draws.returns.shape
               for p in parts):  # fmt: skip
            raise WrongFieldError("measures", "measures with different samples")
        values = np.stack([part.draws.returns for part in parts if part is not None], axis=2)
        draws = RunDraws.of(values, names, stage.draws.drew, paired=True)
        stages.append(Stage(stage.alternatives, replace(draws, paired=stage.draws.paired)))
    return DrawnSamples(first.alternatives, tuple(stages))


_FIELDS = {
    "of_what": TEXT,
    "samples": schema.SAMPLES,
    "labels": LabelsOf("A"),
    "limits": schema.LIMITS,
    "coupling": schema.COUPLING,
    "discount": NUMBER,
    "horizon": WHOLE,
    "seed": WHOLE,
    "confidence": NUMBER,
    "error": NUMBER,
    "sampling": schema.SAMPLING,
    "assume": schema.ASSUMPTIONS,
    "certain": FLAG,
    "sign": NUMBER,
    "shares": Optional(Array("<f8", "starts")),
    "outcome": schema.OUTCOME,
    "best": Optional(TEXT),
    "survivors": Listed(TEXT),
    "worse_than": schema.WORSE,
    "baseline": Optional(TEXT),
    "margin": Optional(schema.MARGIN),
    "indifference": Optional(NUMBER),
    "simulator": TEXT,
    "policy": TEXT,
    "numbers": Optional(Listed(LABEL)),
    "start_names": Optional(Listed(TEXT)),
    "start_probabilities": Optional(Array("<f8", "starts")),
    "measure": Optional(TEXT),
    "minimized": FLAG,
    "file_version": Optional(WHOLE),
    "progress": PROGRESS,
}

KIND = Kind(SavedComparison, _FIELDS, usual={"file_version": None, "shares": None})

_SEVERAL = {"measures": Listed(Object(lambda: {"SavedComparison": KIND})), "confidence": NUMBER, "progress": PROGRESS}

KIND_OF_SEVERAL = Kind(SavedComparisons, _SEVERAL)
