"""Comparisons as saved objects: their samples, what was decided, and how far they got.

Going on with a comparison from a file, when it is given its simulator.

A file contains no simulator, policy or state. `continued` must be given them, and simulates some samples again to see
that they are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.settings import cut, short, whole_number
from jmdp.comparisons.compare import action_question
from jmdp.comparisons.compare_policies import policy_question
from jmdp.comparisons.compare_runs import BY_MEASURE, RunQuestion, run_question
from jmdp.comparisons.compare_scores import ScoreQuestion, Table
from jmdp.comparisons.comparison import ActionComparison, Comparison
from jmdp.comparisons.policy_comparison import PolicyComparison, RunComparison, RunComparisons
from jmdp.comparisons.question import ComparisonSettings, Question
from jmdp.comparisons.sampling import Continuation, continued
from jmdp.comparisons.score_comparison import ScoreComparison
from jmdp.errors import LabelError, SettingsError, SimulatorError, UnavailableError
from jmdp.files.types import KINDS, Kind, WrongFieldError
from jmdp.methods.monte_carlo import MonteCarlo
from jmdp.simulators.rollouts.draws import Draws, EpisodeDraws
from jmdp.simulators.rollouts.runs import RunDraws
from jmdp.simulators.starts import Starts
from jmdp.statistics.drawn_evaluation import DrawnSamples, SamplingState, Stage
from jmdp.statistics.means import Sampling
from jmdp.statistics.sample_summary import SampleSummary


@dataclass(frozen=True)
class Progress:
    """How far a comparison got, without its samples, and its settings."""

    settings: ComparisonSettings
    active: tuple[int, ...]
    paired: bool
    worse_than: tuple[tuple[int, int], ...]
    decided: bool
    looks: int = 1
    minimize: bool | tuple[str, ...] | None = None  # of runs
    own: Mapping[str, Mapping[str, float | None]] | None = None  # settings of single measures of runs

    def __post_init__(self) -> None:
        if not set(self.own or ()) <= set(BY_MEASURE):
            raise WrongFieldError("progress.own", f"settings that no measure has: {short(sorted(self.own or ()))}")

    @classmethod
    def of(cls, continue_with: Any) -> Progress | None:
        """What a comparison goes on with; None if it cannot."""
        if isinstance(continue_with, Resumption):
            return continue_with.progress
        if not isinstance(continue_with, Continuation):
            return None
        question, sampled = continue_with.question, continue_with.sampled
        found = cls(
            question.settings, sampled.active, sampled.paired, sampled.worse_than, sampled.decided, sampled.looks
        )
        if not isinstance(question, RunQuestion):
            return found if question.verb != "compare runs" else None  # one measure of several
        minimize = question.minimize if isinstance(question.minimize, bool) else tuple(sorted(question.minimize))
        return replace(found, minimize=minimize, own=question.own)

    def with_samples(self, samples: DrawnSamples) -> SamplingState:
        """All that later samples depend on."""
        numbers = {*self.active, *(i for pair in self.worse_than for i in pair)}
        if not self.active or not numbers <= set(range(samples.alternatives)):
            raise WrongFieldError("progress", f"the alternatives {short(sorted(numbers))} of {samples.alternatives}")
        return SamplingState(samples, self.active, self.paired, self.worse_than, self.decided, self.looks)


_Answer = Callable[[Any, Progress, Mapping[str, Any]], Question]


@dataclass(frozen=True, eq=False)
class Resumption:
    """Goes on with a comparison from a file, when it is given its simulator."""

    progress: Progress
    comparison: Any  # as it was saved
    samples: DrawnSamples
    question: _Answer

    def __call__(self, samples: int, given: Mapping[str, Any]) -> Any:
        """Draw until there are this many samples, or until it is decided."""
        whole_number("samples", samples, 2)
        return continued(self.asked(given), self.progress.with_samples(self.samples), samples, given.get("precision"))

    def asked(self, given: Mapping[str, Any]) -> Question:
        """The question, with the simulator that is given; raise if its samples differ."""
        question = self.question(self.comparison, self.progress, given)
        _check_samples(question, self.samples.complete.one_coupling)
        return question


def _check_samples(question: Question, drawn: Draws) -> None:
    """Draw the first samples again, and raise if they differ."""
    n = min(64 if question.compiled else 2, len(drawn.returns))
    again = question.work(0, n, tuple(range(drawn.returns.shape[1])), True)
    names = [name for name in ("returns", "ends", "gains", "values") if hasattr(drawn, name)]
    if not all(np.array_equal(getattr(again, name), getattr(drawn, name)[:n]) for name in names):
        raise SimulatorError(
            "Samples of the saved comparison differ when they are drawn again. Give the same simulator, state, policy "
            "and actions as then, and the same version of them."
        )


def _asked(given: Mapping[str, Any], needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    """Raise unless the arguments are those that a file cannot contain."""
    wanted = ", ".join(f"{name}=…" for name in needed)
    if unknown := [name for name in given if name not in (*needed, *optional, "precision", "pool", "progress")]:
        raise SettingsError(f"continued has no argument {short(unknown[0])}. Give {wanted}.")
    if missing := [name for name in needed if name not in given]:
        raise SettingsError(
            f"{missing[0]} is missing: a file contains no simulator, policy or function. Give those of the comparison: "
            f"continued(samples, {wanted})."
        )


def _settings(progress: Progress, given: Mapping[str, Any], **more: Any) -> ComparisonSettings:
    """Settings of the comparison, with the pool and the progress bar of this call."""
    here = {name: given[name] for name in ("pool", "progress") if name in given}
    return replace(progress.settings, **here, **more)


def _same(what: str, found: Any, saved: Any) -> None:
    if found != saved:
        raise SimulatorError(
            f"{what} was {short(saved)} in the saved comparison, and is now {short(found)}. Give the same simulator, "
            "policy and actions."
        )


def of_actions(c: ActionComparison, progress: Progress, given: Mapping[str, Any]) -> Question:
    """The question of a comparison of actions."""
    _asked(given, ("simulator", "policy"), ("state", "actions"))
    actions = given.get("actions")
    if actions is None and c.numbers is not None:
        actions = list(c.numbers)
    settings = _settings(progress, given, horizon=c.summary.horizon)
    question = action_question(
        given["simulator"], given["policy"], given.get("state"), actions, c.summary.discount, settings
    )
    _same("The list of actions", question.labels.names, c.summary.labels.names)
    question.check_luck()
    return question


def of_policies(c: PolicyComparison, progress: Progress, given: Mapping[str, Any]) -> Question:
    """The question of a comparison of policies."""
    _asked(given, ("simulator", "policies"), ("starts", "luck"))
    settings, luck = _settings(progress, given, horizon=c.summary.horizon), given.get("luck")
    question = policy_question(
        given["simulator"], given["policies"], given.get("starts"), c.summary.discount, c.baseline, settings, luck
    )
    _same("The list of policies", question.labels.names, c.summary.labels.names)
    _same("The list of starts", list(question.plan.starts.names), list(c.starts.names))
    _same("The starts' probabilities", question.plan.starts.probabilities.tolist(), c.starts.probabilities.tolist())
    return question


def of_runs(c: RunComparison | RunComparisons, progress: Progress, given: Mapping[str, Any]) -> Question:
    """The question of a comparison of runs."""
    _asked(given, ("runs",), ("luck",))
    first = next(iter(c.values())) if isinstance(c, RunComparisons) else c
    minimize = progress.minimize if isinstance(progress.minimize, bool) else frozenset(progress.minimize or ())
    settings, luck = _settings(progress, given), given.get("luck")
    question = run_question(given["runs"], first.baseline, minimize, progress.own or {}, settings, luck)
    _same("The list of designs", question.labels.names, first.summary.labels.names)
    return question


def _comparison(found: dict[str, Any]) -> Comparison:
    """The comparison of these fields."""
    saved = SimpleNamespace(**found)
    _check(saved)
    method = MonteCarlo(seed=saved.seed, confidence=saved.confidence, horizon=saved.horizon)
    common: dict[str, Any] = {name: found[name] for name in _OWN} | {
        "summary": SampleSummary(**{name: found[name] for name in (*_SUMMARY, "file_version")}, method=method),
        "continue_with": _not_continued,
    }
    if saved.of_what == "actions":
        return _going_on(
            ActionComparison(**common, policy=saved.policy, numbers=saved.numbers), saved.progress, of_actions
        )
    if saved.of_what == "policies":
        starts = _starts(saved.start_names, saved.start_probabilities)
        return _going_on(PolicyComparison(**common, policy=saved.policy, starts=starts), saved.progress, of_policies)
    c = RunComparison(**common, measure=saved.measure, minimized=saved.minimized)
    return _going_on(c, saved.progress, of_runs)


def _going_on(c: Comparison, progress: Progress | None, question: Any) -> Comparison:
    if progress is None:
        return c
    samples = run_samples([c]) if isinstance(c, RunComparison) else c.summary.samples
    progress.with_samples(samples)  # raises if they do not match
    return replace(c, continue_with=Resumption(progress, c, samples, question))


def _starts(names: tuple[str, ...] | None, probabilities: Floats | None) -> Starts:
    if names is None or probabilities is None or len(names) != len(probabilities):
        raise WrongFieldError("start_names", "not one name for each start")
    if len(names) and not (np.isfinite(probabilities).all() and abs(probabilities.sum() - 1) < 1e-6):
        raise WrongFieldError("start_probabilities", "probabilities that do not sum to 1")
    return Starts(names, probabilities, names)


def _check(saved: SimpleNamespace) -> None:
    """Raise if fields do not match."""
    if saved.labels.names is None or saved.labels.size != saved.samples.alternatives or saved.labels.size < 2:
        raise WrongFieldError("labels", f"{saved.labels.size} names of {saved.samples.alternatives} alternatives")
    episodes = all(isinstance(stage.draws, EpisodeDraws) for stage in saved.samples.stages)
    if saved.of_what not in _OF_WHAT.values() or (saved.of_what != "actions") != episodes:
        raise WrongFieldError("of_what", f"{short(saved.of_what)} with samples of another kind")
    if not 0 < saved.error < 1 or not 0 < saved.confidence < 1 or not 0 <= saved.discount <= 1:
        raise WrongFieldError("error", "a probability outside (0, 1)")
    if saved.sign not in (-1.0, 1.0) or saved.horizon < 1 or saved.seed < 0:
        raise WrongFieldError("sign", "a sign, horizon or seed that is impossible")
    for stage in saved.samples.stages:
        paired = getattr(stage.draws, "paired", 0)
        if not 0 <= paired <= len(stage.draws.returns) or not np.isfinite(stage.draws.returns).all():
            raise WrongFieldError("samples", "returns that are not finite, or more pairs than samples")
    try:
        named = [saved.best, saved.baseline, *saved.survivors, *saved.worse_than, *saved.worse_than.values()]
        for name in named:
            if name is not None:
                saved.labels.index(name)
    except LabelError as error:
        raise WrongFieldError("survivors", str(error)) from None
    if not set(saved.labels.names) - set(saved.worse_than):
        raise WrongFieldError("worse_than", "all alternatives")
    if saved.numbers is not None and len(saved.numbers) != saved.labels.size:
        raise WrongFieldError("numbers", f"{len(saved.numbers)} numbers of {saved.labels.size} actions")
    kind, looks, most = saved.sampling.kind, saved.sampling.looks, saved.sampling.most
    kinds = get_args(get_type_hints(Sampling)["kind"])
    if kind not in kinds or looks < 1 or most < (2 if kind == "planned" else 0):
        raise WrongFieldError("sampling", f"{short(kind)} sampling with {looks} looks at {most} samples")
    for earned in (saved.history.totals, saved.history.hidden) if saved.history is not None else ():
        if earned is not None and len(earned) != saved.labels.size:
            raise WrongFieldError("history", f"{len(earned)} numbers of {saved.labels.size} alternatives")
    if saved.assume.by_measure:
        raise WrongFieldError("assume", "values by measure in the comparison of one measure")


def _not_continued(samples: int, given: Mapping[str, Any]) -> Any:
    raise UnavailableError(
        "This is one measure of several, or was loaded from a pickle. Continue the whole comparison."
    )


def _comparisons(found: dict[str, Any]) -> RunComparisons:
    """The comparison by several measures of these fields."""
    measures, progress = found["measures"], found["progress"]
    names = [c.measure for c in measures if isinstance(c, RunComparison) and c.measure is not None]
    if not measures or len(names) != len(measures) or names != sorted(set(names)):
        raise WrongFieldError("measures", f"measures that are not named in order: {cut(', '.join(names))}")
    by_name: dict[str, Any] = dict(zip(names, measures, strict=True))
    c = RunComparisons(comparisons=by_name, confidence=found["confidence"], continue_with=_not_continued)
    if progress is None:
        return c
    samples = run_samples(measures)
    progress.with_samples(samples)
    return replace(c, continue_with=Resumption(progress, c, samples, of_runs))


def run_samples(measures: list[Any]) -> DrawnSamples:
    """Samples of runs from those of their measures."""
    first = measures[0].summary.samples
    names = None if measures[0].measure is None else tuple(c.measure for c in measures)
    stages = []
    for i, stage in enumerate(first.stages):
        parts = [c.summary.samples.stages[i] if i < len(c.summary.samples.stages) else None for c in measures]
        if any(p is None or p.alternatives != stage.alternatives or p.draws.returns.shape != stage.draws.returns.shape
               for p in parts):  # fmt: skip
            raise WrongFieldError("measures", "measures with different samples")
        values = np.stack([part.draws.returns for part in parts if part is not None], axis=2)
        draws = RunDraws.of(values, names, stage.draws.drew, paired=True)
        stages.append(Stage(stage.alternatives, replace(draws, paired=stage.draws.paired)))
    return DrawnSamples(first.alternatives, tuple(stages))


_SUMMARY = tuple(f.name for f in fields(SampleSummary) if f.init and f.name not in ("method", "file_version"))
_OWN = tuple(f.name for f in fields(Comparison) if f.name not in ("summary", "continue_with"))
_OF_WHAT: dict[type, str] = {ActionComparison: "actions", PolicyComparison: "policies", RunComparison: "runs"}
_OF_SOME = ("policy", "numbers", "start_names", "start_probabilities", "measure", "minimized")


def _progress(c: Any) -> Progress | None:
    return Progress.of(c.continue_with)


BY_CLASS = {
    cls: Kind(
        cls,
        {"labels": "A", "shares": "starts", "start_probabilities": "starts"},
        names=("of_what", *_SUMMARY, *_OWN, *_OF_SOME, "file_version", "progress"),
        types=get_type_hints(SampleSummary)
        | {"start_names": tuple[str, ...] | None, "start_probabilities": Floats | None, "measure": str | None}
        | {"policy": str, "numbers": get_type_hints(ActionComparison)["numbers"]}
        | {"of_what": str, "minimized": bool, "progress": Progress | None},
        made={name: attrgetter(f"summary.{name}") for name in (*_SUMMARY, "file_version")}
        | {
            "of_what": lambda c: _OF_WHAT[type(c)],
            "start_names": lambda c: c.starts.names if isinstance(c, PolicyComparison) else None,
            "start_probabilities": lambda c: c.starts.probabilities if isinstance(c, PolicyComparison) else None,
            "policy": lambda c: getattr(c, "policy", ""),
            "numbers": lambda c: getattr(c, "numbers", None),
            "measure": lambda c: getattr(c, "measure", None),
            "minimized": lambda c: getattr(c, "minimized", False),
            "progress": _progress,
        },
        usual={"file_version": None, "shares": None, "history": None},
        build=_comparison,
        name="SavedComparison",
    )
    for cls in _OF_WHAT
}
KIND_OF_SEVERAL = Kind(
    RunComparisons,
    names=("measures", "confidence", "progress"),
    types={"measures": tuple[RunComparison, ...], "progress": Progress | None},
    made={"measures": lambda c: c.values(), "progress": _progress},
    build=_comparisons,
)


def _score_comparison(found: dict[str, Any]) -> ScoreComparison:
    """The comparison of these scores, computed anew."""
    question, table = found["question"], found["table"]
    sizes = {len(table.alternatives), len(table.scores), *map(len, table.units)}
    if len(sizes) > 1 or len(table.units) != len(question.columns):
        raise WrongFieldError("table", "columns of different lengths, or not one for each level")
    compared: ScoreComparison = question.answer(table)
    return compared


KIND_OF_SCORES = Kind(
    ScoreComparison,
    names=("question", "table"),
    types={"question": ScoreQuestion, "table": Table},
    made={name: attrgetter(f"continue_scores.{name}") for name in ("question", "table")},
    build=_score_comparison,
)

KINDS += [Kind(ScoreQuestion), Kind(Table, {"scores": "row"})]
KINDS += [BY_CLASS[RunComparison], KIND_OF_SEVERAL, Kind(Progress)]
