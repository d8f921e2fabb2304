"""`compare_runs`: run whole simulations of several designs with the same randomness until the best one is known."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np

from jmdp.base.labels import Labels
from jmdp.base.luck import Usage
from jmdp.base.machine import interruptible
from jmdp.base.recorded_luck import RecordedLuck
from jmdp.base.settings import asks_for_seed, cut, names, short
from jmdp.comparisons.comparison import Comparison
from jmdp.comparisons.policy_comparison import RunComparison, RunComparisons
from jmdp.comparisons.question import ComparisonSettings, Question, alternative_names, same_objects
from jmdp.comparisons.sampling import answer
from jmdp.distribute.pools import Pool
from jmdp.errors import SettingsError, SimulatorError
from jmdp.results.result import forgotten
from jmdp.simulators.checking.sampling import RunNotes
from jmdp.simulators.rollouts.draws import Draws
from jmdp.simulators.rollouts.runs import Run, RunBlocks, RunDraws
from jmdp.statistics.assumptions import Assumptions
from jmdp.statistics.drawn_evaluation import DrawnSamples, SamplingState
from jmdp.statistics.history import HistoryUse, used

_SECONDS_A_BLOCK = 0.25
"""Blocks are sized to take about this long: much longer than sending them to another process."""

_LARGEST_BLOCK = 256

BY_MEASURE = ("precision", "indifference")
"""Settings that can differ between measures."""


@interruptible
@asks_for_seed
def compare_runs(
    runs: Mapping[str, Run],
    *,
    seed: int,
    luck: RecordedLuck | None = None,
    minimize: bool | Collection[str] = False,
    baseline: str | None = None,
    confidence: float = 0.95,
    precision: float | Mapping[str, float] | None = None,
    indifference: float | Mapping[str, float] | None = None,
    samples: int | None = None,
    max_samples: int | None = None,
    max_seconds: float | None = None,
    looks: Literal["scheduled", "planned"] = "scheduled",
    assume: Assumptions | None = None,
    pool: int | Pool | None = None,
    progress: bool = True,
) -> RunComparison | RunComparisons:
    """Compare designs by whole simulation runs with the same randomness (luck), and stop when it is decided.

    Use this for simulations that have no steps to branch: a SimPy or Mesa model, a calculation as in a spreadsheet,
    another program. Each sample runs every design once. All designs receive a `Luck` with the same random numbers, by
    purpose. At scheduled sample sizes the confidence intervals of the mean gaps are updated, and designs that are known
    to be worse are eliminated, as in `compare`.

    Parameters
    ----------
    runs
        Dictionary from names to two or more functions ``f(luck)``. A function runs one simulation, takes all its
        randomness from `luck`, and returns a number, or a dictionary from names to numbers (measures).
    seed
        Random seed of all draws. Sample i depends only on the seed and i.
    luck
        A history in place of random numbers: `RecordedLuck`. Designs read it by period, ``luck.recorded("demand",
        day)``, and may return a list with one number for each period, whose sum is compared. If nothing else is random,
        each design is run once: the result is what would have happened, exactly. With ``history.resampled()`` each
        sample is another history made of its blocks (200 by default; `samples`), and the result is what to expect of a
        period of this length.
    minimize
        True if smaller numbers are better; for several measures, the names of those for which they are.
    baseline
        Name of the design to compare the others with, as in `compare_policies`.
    confidence
        As in `compare`. With several measures, 1 − confidence is divided equally among them, so that all statements
        hold jointly.
    precision, indifference
        As in `compare_policies`. For several measures, a dictionary with the values of some of them; a single value
        applies to all.
    samples, max_samples, max_seconds, looks, pool, progress
        As in `compare`; samples are runs of each design.
    assume
        As in `compare`. For several measures, its fields may be dictionaries too.

    Returns
    -------
    RunComparison or RunComparisons
        A `Comparison` of designs if the runs return numbers. If they return dictionaries, a mapping from the name of
        each measure to its comparison. Sampling then continues until every measure is decided, and designs are
        eliminated only relative to a baseline.
    """
    given = locals()
    own = {name: dict(given[name]) for name in BY_MEASURE if isinstance(given[name], Mapping)}
    settings = ComparisonSettings.of({name: value for name, value in given.items() if name not in own})
    settings = settings.for_history(luck, own)
    for measure in {measure for values in own.values() for measure in values}:
        _settings_of(settings, own, measure)  # raises if a value is wrong
    smaller = minimize if isinstance(minimize, bool) else _names(minimize)
    found: RunComparison | RunComparisons = answer(run_question(runs, baseline, smaller, own, settings, luck))
    return found


def run_question(
    runs: Mapping[str, Run],
    baseline: str | None,
    minimize: bool | frozenset[str],
    own: Mapping[str, Mapping[str, Any]],
    settings: ComparisonSettings,
    history: RecordedLuck | None = None,
) -> RunQuestion:
    """Check that designs and settings are compatible, and combine them."""
    labels, baseline = alternative_names("design", runs, baseline)
    named = {labels.name(i): run for i, run in enumerate(runs.values())}
    for name, run in named.items():
        if not callable(run):
            raise SettingsError(
                f"Design {short(name)} is a {type(run).__name__}. Give a function of the randomness: def run(luck): …"
            )
    question = RunQuestion(labels=labels, settings=settings, runs=named, baseline=baseline, minimize=minimize, own=own)
    return question if history is None else question.in_history(history)


def _settings_of(
    settings: ComparisonSettings, own: Mapping[str, Mapping[str, Any]], measure: str
) -> ComparisonSettings:
    """Settings of one measure."""
    given = {name: values[measure] for name, values in own.items() if measure in values}
    return replace(settings, assume=settings.assume.of_measure(measure), **given)


def _names(minimize: Any) -> frozenset[str]:
    try:
        return frozenset(names("minimize", minimize, SettingsError))
    except SettingsError:
        raise SettingsError(
            f"minimize is {short(minimize)}. Give True, or a list of names of measures: ['wait']."
        ) from None


@dataclass(frozen=True, kw_only=True, eq=False)
class _Question(Question):
    """Comparison of designs by one measure."""

    verb = "compare runs"
    compiled = False

    runs: Mapping[str, Run]
    name: str | None = None  # of the measure

    @cached_property
    def work(self) -> RunBlocks:
        """Function that draws a block of samples."""
        return RunBlocks(self.runs, self.settings.seed, self.history)

    def block_size(self, alternatives: int, seconds: float) -> int:
        """About a quarter of a second, and one sample before the time of a run is known."""
        return min(_LARGEST_BLOCK, int(_SECONDS_A_BLOCK / (alternatives * seconds))) or 1 if seconds else 1

    def described(self) -> str:
        """Names of the designs."""
        return ", ".join(self.runs)

    def same(self) -> tuple[int, ...] | None:
        """Equal numbers for designs that are the same function."""
        return same_objects(list(self.runs.values()))

    def measured(self, samples: DrawnSamples) -> DrawnSamples:
        """The values of this measure."""
        return samples.measure(self.measure)

    def check(self, draws: Draws, late: bool) -> None:
        """Run two samples again, with the designs in reverse order, and raise if a result differs.

        Unless it is late, warn of likely mistakes in what the runs draw.
        """
        assert isinstance(draws, RunDraws)
        notes = RunNotes()
        with nullcontext() if late else notes.then_warned():
            for sample in sorted({0, len(draws.returns) - 1}, reverse=True):
                for i, name in reversed(list(enumerate(self.runs))):
                    luck = notes.luck(name, self.work.root(sample, Usage()))
                    values = np.array(self.work.result(i, sample, luck)[1])
                    if not (values == draws.values[sample, i]).all():
                        raise _not_reproducible(name, sample, draws.values[sample, i], values)

    def between_looks(self, sampled: SamplingState, pool: Pool) -> SamplingState:
        """Draw independently if pairing increases the variance; a history is always shared."""
        if self.history is not None:
            return sampled
        return replace(sampled, paired=False) if sampled.paired and self.pairing_costs(sampled) else sampled

    def one_future(self, draws: Draws, decided: bool) -> bool:
        """True if all samples are identical and it is unknown whether others are possible."""
        return cast(RunDraws, draws).measure(self.measure).one_future

    def result(self, common: dict[str, Any]) -> Comparison:
        """Build the result."""
        return RunComparison(**common, measure=self.name, minimized=self.sign < 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class RunQuestion(_Question):
    """Comparison of designs by all measures, whose names are known from the first sample on."""

    minimize: bool | frozenset[str]
    own: Mapping[str, Mapping[str, Any]]  # settings by name, and their values by measure
    uses: Mapping[str | None, HistoryUse] = field(default_factory=dict)  # by measure

    def in_history(self, history: RecordedLuck) -> RunQuestion:
        """The question with this history, in which each design is run once: its gaps choose the length of blocks."""
        in_it = RunBlocks(self.runs, self.settings.seed, history.as_recorded()).by_period()
        history, uses = used(history, in_it)
        return replace(self, history=history, uses=uses)

    def with_precision(self, precision: Any) -> RunQuestion:
        """The question of every mean gap to ± `precision`, of all measures or of those that it names."""
        own = {name: values for name, values in self.own.items() if name not in ("precision", "indifference")}
        if isinstance(precision, Mapping):
            own["precision"], precision = dict(precision), None
        question = replace(super().with_precision(precision), own=own)
        for measure in own.get("precision", ()):
            _settings_of(question.settings, own, measure)  # raises if a value is wrong
        return question

    def parts(self, samples: DrawnSamples) -> Sequence[_Question]:
        """One question for each measure."""
        names = cast(RunDraws, samples.stages[0].draws).measures
        self._check_names(names)
        common = {name: getattr(self, name) for name in ("labels", "runs", "baseline", "history")}
        if names is None:
            settings, sign = _settings_of(self.settings, self.own, ""), -1.0 if self.minimize else 1.0
            return [_Question(**common, settings=settings, sign=sign, use=self.uses.get(None))]
        confidence = 1 - (1 - self.settings.confidence) / len(names)
        settings = replace(self.settings, confidence=confidence)
        smaller = frozenset(names if self.minimize else ()) if isinstance(self.minimize, bool) else self.minimize
        return [
            _Question(
                **common,
                settings=_settings_of(settings, self.own, name),
                measure=j,
                name=name,
                sign=-1.0 if name in smaller else 1.0,
                use=self.uses.get(name),
            )
            for j, name in enumerate(names)
        ]

    def _check_names(self, names: tuple[str, ...] | None) -> None:
        """Raise if a setting has the name of a measure that the runs do not return."""
        Labels.of("measure", len(names or ()), names)  # raises if a name cannot be printed
        by_name: dict[str, Collection[Any]] = {**self.own, **self.settings.assume.by_measure}
        if not isinstance(self.minimize, bool):
            by_name["minimize"] = self.minimize
        for setting, given in by_name.items():
            if names is None:
                raise SettingsError(f"{setting} has names, but the runs return a single number. Give one value.")
            if unknown := set(given) - set(names):
                others = ", ".join(sorted(one if isinstance(one, str) else short(one) for one in unknown))
                raise SettingsError(f"{setting} has {cut(others)}, but the runs return {cut(', '.join(names))}.")

    @property
    def eliminates(self) -> bool:
        """False if the gaps of any measure are wanted precisely."""
        return super().eliminates and "precision" not in self.own

    def pairing_costs(self, sampled: SamplingState) -> bool:
        """Whether pairing costs samples in every measure."""
        return all(part.pairing_costs(sampled) for part in self.parts(sampled.samples))

    def joint(self, found: Sequence[Comparison]) -> RunComparison | RunComparisons:
        """The comparison of the only measure, or all by name."""
        some = cast(Sequence[RunComparison], found)
        if some[0].measure is None:
            return some[0]
        comparisons = {str(one.measure): one for one in some}
        return RunComparisons(comparisons=comparisons, confidence=self.settings.confidence, continue_with=forgotten)


def _not_reproducible(name: str, sample: int, first: Any, again: Any) -> SimulatorError:
    before, now = (", ".join(map(repr, values.tolist())) for values in (first, again))
    return SimulatorError(
        f"Design {short(name)} is not reproducible: sample {sample} gave {before}, but {now} when run again with the "
        "same randomness. Take all random numbers from `luck`. Possible causes: the global generators of NumPy or "
        "Python; default_rng() without a seed; hash() of strings, which differs between processes, or the order of a "
        "set; data kept from earlier runs in a global variable, a class attribute or a mutable default argument."
    )
