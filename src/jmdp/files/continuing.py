"""Going on with a comparison from a file, when it is given its simulator.

A file contains no simulator, policy or state. `continued` must be given them, and simulates some samples again to see
that they are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jmdp.base.settings import short, whole_number
from jmdp.comparisons.compare import action_question
from jmdp.comparisons.compare_policies import policy_question
from jmdp.comparisons.compare_runs import BY_MEASURE, RunQuestion, run_question
from jmdp.comparisons.comparison import Comparison
from jmdp.comparisons.policy_comparison import PolicyComparison
from jmdp.comparisons.question import Question
from jmdp.comparisons.run_comparison import RunComparison, RunComparisons
from jmdp.comparisons.sampling import Continuation, continued
from jmdp.comparisons.settings import Settings
from jmdp.errors import SettingsError, SimulatorError
from jmdp.files import schema
from jmdp.files.kinds import Kind, Object
from jmdp.files.types import FLAG, NUMBER, TEXT, WHOLE, ByName, Listed, Optional, Tuple, Type, WrongFieldError
from jmdp.simulators.draws import Draws
from jmdp.statistics.drawn_samples import DrawnSamples, Sampled


@dataclass(frozen=True)
class Progress:
    """How far a comparison got, without its samples, and its settings."""

    settings: Settings
    active: tuple[int, ...]
    paired: bool
    worse_than: tuple[tuple[int, int], ...]
    decided: bool
    looks: int = 1
    minimize: bool | tuple[str, ...] | None = None  # of runs
    own: Mapping[str, Mapping[str, Any]] | None = None  # settings of single measures of runs

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

    def with_samples(self, samples: DrawnSamples) -> Sampled:
        """All that later samples depend on."""
        numbers = {*self.active, *(i for pair in self.worse_than for i in pair)}
        if not self.active or not numbers <= set(range(samples.alternatives)):
            raise WrongFieldError("progress", f"the alternatives {short(sorted(numbers))} of {samples.alternatives}")
        return Sampled(samples, self.active, self.paired, self.worse_than, self.decided, self.looks)


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
        sampled = self.progress.with_samples(self.samples)
        question = self.question(self.comparison, self.progress, given)
        _check_samples(question, sampled.samples.complete.one_coupling)
        return continued(question, sampled, samples, given.get("precision"))


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


def _settings(progress: Progress, given: Mapping[str, Any], **more: Any) -> Settings:
    """Settings of the comparison, with the pool and the progress bar of this call."""
    here = {name: given[name] for name in ("pool", "progress") if name in given}
    return replace(progress.settings, **here, **more)


def _same(what: str, found: Any, saved: Any) -> None:
    if found != saved:
        raise SimulatorError(
            f"{what} was {short(saved)} in the saved comparison, and is now {short(found)}. Give the same simulator, "
            "policy and actions."
        )


def of_actions(c: Comparison, progress: Progress, given: Mapping[str, Any]) -> Question:
    """The question of a comparison of actions."""
    _asked(given, ("simulator", "policy"), ("state", "actions"))
    actions = given.get("actions")
    if actions is None and c.numbers is not None:
        actions = list(c.numbers)
    settings = _settings(progress, given, horizon=c.horizon)
    question = action_question(given["simulator"], given["policy"], given.get("state"), actions, c.discount, settings)
    _same("The list of actions", question.labels.names, c.summary.labels.names)
    question.check_luck()
    return question


def of_policies(c: PolicyComparison, progress: Progress, given: Mapping[str, Any]) -> Question:
    """The question of a comparison of policies."""
    _asked(given, ("simulator", "policies"), ("starts",))
    settings = _settings(progress, given, horizon=c.horizon)
    question = policy_question(
        given["simulator"], given["policies"], given.get("starts"), c.discount, c.baseline, settings
    )
    _same("The list of policies", question.labels.names, c.summary.labels.names)
    _same("The list of starts", list(question.plan.starts.names), list(c.starts.names))
    _same("The starts' probabilities", question.plan.starts.probabilities.tolist(), c.starts.probabilities.tolist())
    return question


def of_runs(c: RunComparison | RunComparisons, progress: Progress, given: Mapping[str, Any]) -> Question:
    """The question of a comparison of runs."""
    _asked(given, ("runs",))
    first = next(iter(c.values())) if isinstance(c, RunComparisons) else c
    minimize = progress.minimize if isinstance(progress.minimize, bool) else frozenset(progress.minimize or ())
    question = run_question(given["runs"], first.baseline, minimize, progress.own or {}, _settings(progress, given))
    _same("The list of designs", question.labels.names, first.summary.labels.names)
    return question


class _Minimize(Type):
    """True or false, or names of measures."""

    def encode(self, value: Any, sink: Any, place: str) -> Any:
        return value if value is None or isinstance(value, bool) else list(value)

    def decode(self, node: Any, source: Any, place: str, sizes: Any) -> Any:
        return node if node is None or isinstance(node, bool) else Listed(TEXT).decode(node, source, place, sizes)


_PROGRESS_FIELDS = {
    "settings": schema.SETTINGS,
    "active": Listed(WHOLE),
    "paired": FLAG,
    "worse_than": Listed(Tuple(WHOLE, 2)),
    "decided": FLAG,
    "looks": WHOLE,
    "minimize": _Minimize(),
    "own": Optional(ByName(ByName(Optional(NUMBER)))),
}

PROGRESS = Optional(Object(lambda: {"Progress": Kind(Progress, _PROGRESS_FIELDS)}))
