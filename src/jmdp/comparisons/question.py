"""A comparison before its first sample: how samples are drawn, and what the result is.

Settings that all comparisons have in common.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from jmdp.base.arrays import Floats
from jmdp.base.labels import Labels
from jmdp.base.luck_sources import Redraw
from jmdp.base.recorded_luck import RecordedLuck
from jmdp.base.settings import boolean, choice, cut, instance, probability, short, whole
from jmdp.comparisons.comparison import Comparison
from jmdp.comparisons.explaining import TableGap
from jmdp.comparisons.pairing import pairing_costs
from jmdp.distribute.pools import Pool
from jmdp.distribute.process_pool import check_pool
from jmdp.errors import CouplingError, LabelError, SettingsError
from jmdp.methods.method import check_kind
from jmdp.methods.monte_carlo.monte_carlo import LONGEST, MonteCarlo
from jmdp.models.coupling import Coupling, Independent, Synchronous
from jmdp.simulators.checking.sampling import check_repeatable
from jmdp.simulators.rollouts.draws import Draws, EpisodeDraws
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import paired_draws, rollouts_at_once
from jmdp.simulators.simulator import Simulator
from jmdp.statistics.assumptions import Assumptions, positive
from jmdp.statistics.drawn_evaluation import DrawnSamples, SamplingState
from jmdp.statistics.history import HistoryUse
from jmdp.statistics.means import Sampling
from jmdp.statistics.sample_summary import SampleSummary
from jmdp.statistics.selection import Limits, Margin, SelectionRule

_SEQUENTIAL = ("precision", "indifference", "margin", "max_samples", "max_steps", "max_seconds", "looks", "assume")
"""Settings that have no meaning for resampled histories."""

_HISTORIES = 200
"""Resampled histories by default: their spread then has an error of 5%."""

_MOST = 10_000
"""Samples of each alternative, if no budget is given."""


@dataclass(frozen=True, kw_only=True)
class ComparisonSettings:
    """Settings of a comparison, as documented in `jmdp.compare`."""

    seed: int
    coupling: Coupling = Synchronous(policy_luck="shared")
    confidence: float = 0.95
    precision: float | None = None
    indifference: float | None = None
    margin: Margin | None = None
    samples: int | None = None
    max_samples: int | None = None
    max_steps: float | None = None
    max_seconds: float | None = None
    looks: Literal["scheduled", "planned"] = "scheduled"
    stratify: bool = False
    horizon: int | None = None
    assume: Assumptions = field(default_factory=Assumptions)
    pool: int | Pool | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        check_kind("coupling", self.coupling, Coupling, CouplingError)
        instance("assume", self.assume, Assumptions, hint="Give jmdp.Assumptions(return_range=…, largest_loss=…).")
        whole(self, "seed", 0)
        whole(self, "samples", 2, optional=True)
        whole(self, "max_samples", 2, optional=True)
        probability(self, "confidence")
        choice("looks", self.looks, ("scheduled", "planned"))
        whole(self, "horizon", 1, LONGEST, optional=True)
        for name in ("precision", "indifference", "max_steps", "max_seconds"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        object.__setattr__(self, "pool", check_pool(self.pool))
        boolean(self, "stratify")
        boolean(self, "progress")
        if self.margin is not None:
            object.__setattr__(self, "margin", Margin.of(self.margin))
        self._check_together()

    def _check_together(self) -> None:
        """Raise if settings exclude each other."""
        if self.precision is not None and self.indifference is not None:
            raise SettingsError(
                "precision and indifference are both given. Give precision to know every gap, or indifference to find "
                "an alternative that is good enough."
            )
        if self.margin is not None and (self.precision is not None or self.indifference is not None):
            raise SettingsError("margin is given together with precision or indifference. Give one of them.")
        if self.samples is not None:
            for name in ("max_samples", "max_steps", "max_seconds", "precision", "indifference"):
                if getattr(self, name) is not None:
                    raise SettingsError(
                        f"samples and {name} are both given. samples={self.samples} draws so many and looks once. Omit "
                        f"it to sample until the comparison is decided, with {name} and at most max_samples."
                    )
        if self.stratify and self.assume.return_range is not None:
            raise SettingsError(
                "stratify and return_range are both given. Intervals within a range need starts that are drawn "
                "independently. Give one of them."
            )
        if self.looks == "planned" and (self.max_samples is None or self.samples is not None):
            raise SettingsError('looks="planned" needs max_samples, within which the five looks are, and no samples.')

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ComparisonSettings:
        """Settings from all arguments of a comparison; those that it does not have keep their defaults."""
        known = {name: given[name] for name in cls.__dataclass_fields__ if name in given}
        if known.get("assume") is None:
            known.pop("assume", None)
        return cls(**known)

    def for_history(self, history: object, own: Collection[str] = ()) -> ComparisonSettings:
        """The settings with a history: its resampled histories are a fixed number of samples, examined once."""
        if history is None:
            return self
        instance("luck", history, RecordedLuck, hint=" Give luck=jmdp.RecordedLuck(frame).")
        assert isinstance(history, RecordedLuck)
        if not history.is_resampled:
            return self
        usual = ComparisonSettings(seed=0)
        given = [name for name in _SEQUENTIAL if getattr(self, name) != getattr(usual, name)]
        if given := sorted({*given, *own}):
            raise SettingsError(
                f"{given[0]} is given with resampled histories. More of them do not make a history longer, so the "
                "interval does not depend on their number: give samples=… (200 by default) alone."
            )
        return replace(self, samples=self.samples or _HISTORIES)

    @property
    def most(self) -> int:
        """Samples of each alternative at most."""
        return self.samples or self.max_samples or _MOST

    @property
    def sampling(self) -> Sampling:
        """When samples are examined."""
        if self.samples is not None:
            return Sampling("fixed")
        return Sampling("planned", self.most) if self.looks == "planned" else Sampling()


def alternative_names(kind: str, given: Any, baseline: Any) -> tuple[Labels, str | None]:
    """Labels of the alternatives in a dictionary, and the name of the baseline, which must be one of them or None."""
    plural = Labels(kind, 0).plural
    if not isinstance(given, Mapping):
        raise SettingsError(
            f"The {plural} are a {type(given).__name__}. Give a dictionary from names to {plural}: "
            '{"old": …, "new": …}.'
        )
    names = [_name(name, plural) for name in given]
    if len(names) < 2 or len(set(names)) < len(names):
        raise SettingsError(
            f"The names of the {plural} are {short(names, 200)}. Give two or more {plural} with different names."
        )
    chosen = None if baseline is None else _name(baseline, plural)
    if chosen is not None and chosen not in names:
        close = difflib.get_close_matches(chosen[:100], names, n=1)
        hint = f" Did you mean {short(close[0])}?" if close else ""
        among = cut(", ".join(names))
        raise LabelError(f"baseline is {short(baseline)}. Give the name of one of the {plural}: {among}.{hint}")
    return Labels.of(kind, len(names), names), chosen


def _name(name: Any, plural: str) -> str:
    try:
        return str(name)
    except ValueError as error:  # an integer that is too long to print
        raise SettingsError(f"{short(name)} is given as the name of one of the {plural}. Give a string.") from error


_PAIRED_AT_LEAST = 32
"""Samples after which pairing may be switched off."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Question(ABC):
    """A comparison before its first sample. Subclasses define how samples are drawn and how the result is built."""

    verb: ClassVar[str]

    labels: Labels  # of the alternatives
    settings: ComparisonSettings
    discount: float = 1.0
    horizon: int = 1
    reward_bound: float | None = None
    sign: float = 1.0  # −1 if smaller returns are better
    baseline: str | None = None  # the alternative that the others are compared with
    history: RecordedLuck | None = None
    use: HistoryUse | None = None  # of the history
    measure: int = 0  # number of the measure that is compared

    @property
    @abstractmethod
    def work(self) -> Any:
        """Picklable function of (first, count, alternatives, paired) that draws a block of samples."""

    @property
    @abstractmethod
    def compiled(self) -> bool:
        """True if a compiled program draws the samples, so that blocks may be large."""

    @abstractmethod
    def block_size(self, alternatives: int, seconds: float) -> int:
        """Largest number of samples in a block; `seconds` is the time of one rollout so far, 0 if unknown."""

    @abstractmethod
    def described(self) -> str:
        """Text for what is simulated."""

    @abstractmethod
    def result(self, common: dict[str, Any]) -> Comparison:
        """Build the result from the arguments common to all comparisons."""

    @abstractmethod
    def one_future(self, draws: Draws, decided: bool) -> bool:
        """True if all samples are identical and it is unknown whether others are possible."""

    @abstractmethod
    def check(self, draws: Draws, late: bool) -> None:
        """Raise if the first or the last of these samples differ when drawn again; `late` if it was done before."""

    @property
    def checked(self) -> bool:
        """False if the user has turned off the checks."""
        return True

    @property
    def eliminates(self) -> bool:
        """Whether alternatives that are known to be worse are simulated no further."""
        return self.settings.precision is None and self.settings.samples is None

    def same(self) -> tuple[int, ...] | None:
        """For each alternative a number that is equal for alternatives with certainly equal means."""
        return None

    def table_gap(self, pair: tuple[int, int]) -> TableGap | None:
        """The gap between two alternatives as that of a table with sources, of which exact shares are known."""
        return None

    def between_looks(self, sampled: SamplingState, pool: Pool) -> SamplingState:
        """Adapt the sampling to the samples so far."""
        return sampled

    def parts(self, samples: DrawnSamples) -> Sequence[Question]:
        """One question for each measure."""
        return (self,)

    def joint(self, found: Sequence[Comparison]) -> Any:
        """The result of all parts."""
        return found[0]

    @cached_property
    def rule(self) -> SelectionRule:
        """Rule of elimination and stopping."""
        settings = self.settings
        return SelectionRule(
            alternatives=self.labels.size,
            confidence=settings.confidence,
            indifference=settings.indifference or 0.0,
            baseline=None if self.baseline is None else self.labels.index(self.baseline),
            margin=settings.margin,
            same=self.same(),
        )

    def with_precision(self, precision: Any) -> Self:
        """The question of every mean gap to ± `precision`, instead of the one that was asked."""
        settings = replace(self.settings, precision=precision, indifference=None, margin=None, samples=None)
        return replace(self, settings=settings)

    def summary(self, sampled: SamplingState) -> SampleSummary:
        """Estimates and intervals of these samples."""
        settings, samples = self.settings, self.measured(sampled.samples)
        return SampleSummary(
            samples=samples,
            labels=self.labels,
            limits=Limits.of_draws(
                [stage.draws for stage in samples.stages], self.discount, self.horizon, self.reward_bound
            ),
            coupling=settings.coupling,
            discount=self.discount,
            horizon=self.horizon,
            seed=settings.seed,
            confidence=settings.confidence,
            error=self.rule.error,
            sampling=self.sampling(sampled.looks),
            assume=settings.assume,
            method=MonteCarlo(seed=settings.seed, confidence=settings.confidence, horizon=self.horizon),
            sign=self.sign,
            shares=self.shares,
            history=self.use,
        )

    def sampling(self, looks: int) -> Sampling:
        """How samples are examined."""
        if self.use is not None and self.use.resampled:
            return self.use.sampling(looks)
        return replace(self.settings.sampling, looks=looks)

    @property
    def shares(self) -> Floats | None:
        """Probabilities of the starts, if they are drawn in proportion to them."""
        return None

    def measured(self, samples: DrawnSamples) -> DrawnSamples:
        """The samples of the measure that is compared."""
        return samples

    def certain(self, samples: DrawnSamples) -> bool:
        """True if no step and no policy used its randomness. Unchecked simulators may have randomness of their own."""
        return self.checked and not any(stage.draws.drew for stage in samples.stages)

    def pairing_costs(self, sampled: SamplingState) -> bool:
        """Whether independent samples of the active alternatives would clearly give narrower gaps than pairs."""
        past, active = self.measured(sampled.samples).of(*sampled.active), sampled.active
        assert isinstance(past, EpisodeDraws)
        if past.paired < _PAIRED_AT_LEAST:
            return False
        reference = self.rule.reference(self.sign * past.returns.mean(axis=0), active)
        return pairing_costs(past.returns, active.index(reference))


@dataclass(frozen=True, eq=False)
class PlanBlocks:
    """Blocks of samples of a plan: a pure function of the plan and of the numbers of samples and branches."""

    simulator: Simulator
    plan: BranchPlan

    def __getstate__(self) -> tuple[Any, ...]:
        return self.simulator, self.plan.packed(self.simulator.pack)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        simulator, plan = state
        self.__init__(simulator, plan.packed(simulator.unpack))  # type: ignore[misc]

    def redrawn(self, redraw: Redraw, seed: int) -> PlanBlocks:
        """Blocks of samples with another seed and random starts, in which some sources are drawn again."""
        return replace(self, plan=replace(self.plan, redraw=redraw, seed=seed, stratify=False))

    def __call__(self, first: int, count: int, alternatives: tuple[int, ...], paired: bool) -> Draws:
        """Samples first … first + count − 1 of some of the branches, under the coupling of the plan if `paired`."""
        plan = self.plan.some(alternatives)
        if paired:
            return paired_draws(self.simulator, plan, first, count)
        drawn = paired_draws(self.simulator, replace(plan, coupling=Independent()), first, count)
        assert isinstance(drawn, EpisodeDraws)
        return replace(drawn, paired=0)


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatorQuestion(Question):
    """A comparison that a simulator answers, of actions or of policies."""

    simulator: Simulator
    plan: BranchPlan
    repeats: bool = True  # simulate some samples again, and raise if they differ

    def block_size(self, alternatives: int, seconds: float) -> int:
        """Number of samples that are simulated in lockstep."""
        return rollouts_at_once(self.simulator, alternatives)

    def described(self) -> str:
        """The simulator."""
        return repr(self.simulator)

    @property
    def checked(self) -> bool:
        """False if the simulator is not checked."""
        return self.simulator.check

    @cached_property
    def work(self) -> PlanBlocks:
        """Function that draws a block of samples."""
        return PlanBlocks(self.simulator, replace(self.plan, most=self.settings.most))

    @cached_property
    def compiled(self) -> bool:
        """True if a compiled program draws the samples."""
        return self.simulator.program(self.work.plan) is not None

    def check(self, draws: Draws, late: bool) -> None:
        """Raise if samples differ when they are drawn again."""
        if self.repeats:
            check_repeatable(draws, self.simulator, self.plan, late=late)


def same_objects(objects: Sequence[Any]) -> tuple[int, ...]:
    """For each object the position of the first that is the same."""
    keys = list(map(id, objects))
    return tuple(map(keys.index, keys))
