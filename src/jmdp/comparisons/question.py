"""A comparison before its first sample: how samples are drawn, and what the result is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from jmdp.base.arrays import Floats
from jmdp.base.labels import Labels
from jmdp.comparisons.comparison import Comparison
from jmdp.comparisons.pairing import pairing_costs
from jmdp.comparisons.settings import Settings
from jmdp.distribute.pools import Pool
from jmdp.methods.monte_carlo.monte_carlo import MonteCarlo
from jmdp.simulators.draws import Draws
from jmdp.simulators.episodes import EpisodeDraws
from jmdp.simulators.rollouts import rollouts_at_once
from jmdp.simulators.simulator import Simulator
from jmdp.statistics.drawn_samples import DrawnSamples, Sampled
from jmdp.statistics.limits import Limits
from jmdp.statistics.sample_summary import SampleSummary
from jmdp.statistics.selection import SelectionRule

_PAIRED_AT_LEAST = 32
"""Samples after which pairing may be switched off."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Question(ABC):
    """A comparison before its first sample. Subclasses define how samples are drawn and how the result is built."""

    verb: ClassVar[str]

    labels: Labels  # of the alternatives
    settings: Settings
    discount: float = 1.0
    horizon: int = 1
    reward_bound: float | None = None
    sign: float = 1.0  # −1 if smaller returns are better
    baseline: str | None = None  # the alternative that the others are compared with

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

    def between_looks(self, sampled: Sampled, pool: Pool) -> Sampled:
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

    def summary(self, sampled: Sampled, certain: bool = False) -> SampleSummary:
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
            sampling=replace(settings.sampling, looks=sampled.looks),
            assume=settings.assume,
            method=MonteCarlo(seed=settings.seed, confidence=settings.confidence, horizon=self.horizon),
            certain=certain,
            sign=self.sign,
            shares=self.shares,
        )

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

    def pairing_costs(self, sampled: Sampled) -> bool:
        """Whether independent samples of the active alternatives would clearly give narrower gaps than pairs."""
        past, active = self.measured(sampled.samples).of(*sampled.active), sampled.active
        assert isinstance(past, EpisodeDraws)
        if past.paired < _PAIRED_AT_LEAST:
            return False
        reference = self.rule.reference(self.sign * past.returns.mean(axis=0), active)
        return pairing_costs(past.returns, active.index(reference))


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatorQuestion(Question):
    """A comparison that a simulator answers, of actions or of policies."""

    simulator: Simulator
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


def same_objects(objects: Sequence[Any]) -> tuple[int, ...]:
    """For each object the position of the first that is the same."""
    keys = list(map(id, objects))
    return tuple(map(keys.index, keys))
