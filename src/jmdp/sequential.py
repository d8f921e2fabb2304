"""Sequential sampling for all comparisons: draw blocks until the comparison is decided."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from jmdp.base.interval import ANYWHERE
from jmdp.base.labels import Labels
from jmdp.base.progress import status_bar
from jmdp.base.settings import cut, whole_number
from jmdp.comparison_settings import Settings
from jmdp.course import Course
from jmdp.distribute.pool_setting import pool_of
from jmdp.distribute.pools import Pool
from jmdp.errors import SettingsError
from jmdp.methods.monte_carlo.monte_carlo import MonteCarlo
from jmdp.results.anytime import ENOUGH
from jmdp.results.comparison import Comparison
from jmdp.results.outcome import Outcome
from jmdp.results.samples.drawn_samples import DrawnSamples, Sampled
from jmdp.results.samples.limits import Limits
from jmdp.results.samples.sample_summary import SampleSummary
from jmdp.results.samples.selection import Decision, SelectionRule, Standing
from jmdp.simulators.draws import Draws

_LARGEST_BLOCK = 1 << 16
"""Samples of one block of a compiled simulator."""

_MANY = 300
"""Equal samples that suggest that nothing varies: an outcome not seen in so many has a chance below 1%, at 95%."""

_OUTCOMES = {
    Decision.OPEN: Outcome.BUDGET_EXHAUSTED,
    Decision.BEST: Outcome.BEST_FOUND,
    Decision.GOOD_ENOUGH: Outcome.GOOD_ENOUGH,
    Decision.EQUAL: Outcome.EQUAL_BEST,
    Decision.SETTLED: Outcome.BASELINE_COMPARED,
    Decision.MARGIN: Outcome.MARGIN_DECIDED,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Question(ABC):
    """A comparison before its first sample. Subclasses define how samples are drawn and how the result is built."""

    verb: ClassVar[str]

    labels: Labels  # of the alternatives
    settings: Settings
    discount: float = 1.0
    horizon: int = 1
    reward_bound: float | None = None
    progress: bool
    sign: float = 1.0  # −1 if smaller returns are better

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

    @property
    def checked(self) -> bool:
        """False if the user has turned off the checks."""
        return True

    @property
    def eliminates(self) -> bool:
        """Whether alternatives that are known to be worse are simulated no further."""
        return self.settings.precision is None

    @abstractmethod
    def _result(self, common: dict[str, Any]) -> Comparison:
        """Build the result from the arguments common to all comparisons."""

    @abstractmethod
    def _one_future(self, draws: Draws, decided: bool) -> bool:
        """True if all samples are identical and it is unknown whether others are possible."""

    @abstractmethod
    def check(self, draws: Draws) -> None:
        """Raise if samples differ when they are drawn again; `draws` has the first ones."""

    def same(self) -> tuple[int, ...] | None:
        """For each alternative a number that is equal for alternatives with certainly equal means."""
        return None

    def between_looks(self, sampled: Sampled, pool: Pool) -> Sampled:
        """Adapt the sampling to the samples so far."""
        return sampled

    @cached_property
    def rule(self) -> SelectionRule:
        """Rule of elimination and stopping."""
        settings = self.settings
        return SelectionRule(
            alternatives=self.labels.size,
            confidence=settings.confidence,
            indifference=settings.indifference or 0.0,
            margin=settings.margin,
            same=self.same(),
        )

    def answer(self, sampled: Sampled | None = None, samples: int | None = None) -> Any:
        """Draw until the comparison is decided or the budget is used up, from scratch or from `sampled`."""
        k = self.labels.size
        sampled = sampled or Sampled(DrawnSamples(k), tuple(range(k)))
        with pool_of(self.settings.pool) as pool:
            return _Run(self, pool, sampled, self.settings.samples if samples is None else samples).answer()

    def continued(self, sampled: Sampled, samples: int, precision: Any = None) -> Any:
        """Draw until there are this many samples, or until it is decided; with a precision, until that is reached."""
        whole_number("samples", samples, 2)
        if precision is None:
            return self.answer(sampled, samples)
        question, sampled = self.with_precision(precision), replace(sampled, decided=False)
        if question.outcome(sampled, question.standing(sampled)) is not Outcome.BUDGET_EXHAUSTED:
            return question.comparison(replace(sampled, decided=True))
        return question.answer(sampled, samples)

    def with_precision(self, precision: Any) -> Self:
        """The question of every mean gap to ± `precision`, instead of the one that was asked."""
        return replace(self, settings=replace(self.settings, precision=precision, indifference=None, margin=None))

    def summary(self, samples: DrawnSamples, certain: bool = False) -> SampleSummary:
        """Estimates and intervals of these samples."""
        settings, draws = self.settings, [stage.draws for stage in samples.stages]
        return SampleSummary(
            samples=samples,
            labels=self.labels,
            limits=Limits.of_draws(draws, self.discount, self.horizon, self.reward_bound),
            coupling=settings.coupling,
            discount=self.discount,
            horizon=self.horizon,
            seed=settings.seed,
            confidence=settings.confidence,
            error=self.rule.error,
            return_range=settings.return_range,
            method=MonteCarlo(seed=settings.seed, confidence=settings.confidence, horizon=self.horizon),
            certain=certain,
            sign=self.sign,
        )

    def certain(self, samples: DrawnSamples) -> bool:
        """True if no step and no policy used its randomness. Unchecked simulators may have randomness of their own."""
        return self.checked and not any(stage.draws.drew for stage in samples.stages)

    def standing(self, sampled: Sampled) -> Standing | None:
        """Examine the samples so far; None if they are too few for a decision, or for seeing that nothing varies."""
        n, ranged = len(sampled.samples), self.settings.return_range is not None
        if not ranged and (n < ENOUGH or (n < _MANY and self._one_future(sampled.samples.complete, True))):
            return None
        summary, active = self.summary(sampled.samples), sampled.active
        reference = self.rule.reference(self.sign * summary.samples.of(*active).returns.mean(axis=0), active)
        limits = summary.gap_limits(reference, active, self.rule.margin)
        leader = reference if self.rule.baseline is None else summary.ranking[0]
        return self.rule.examine(reference, active, *limits, leader=leader)

    def outcome(self, sampled: Sampled, standing: Standing | None) -> Outcome:
        """Outcome if sampling stops now."""
        if self.certain(sampled.samples):
            return Outcome.DETERMINISTIC
        if standing is None:
            return Outcome.BUDGET_EXHAUSTED
        if self.settings.precision is None:
            found = _OUTCOMES[standing.decision]
        else:
            found = Outcome.PRECISE if self._precise(sampled, standing) else Outcome.BUDGET_EXHAUSTED
        decided = found is not Outcome.BUDGET_EXHAUSTED
        stated = self.rule.margin is not None or self.settings.return_range is not None
        if not stated and self._one_future(sampled.samples.complete, decided):
            return Outcome.ONE_FUTURE
        return found

    def _precise(self, sampled: Sampled, standing: Standing) -> bool:
        """Whether all mean gaps, or those to the baseline, are known to ± `precision`."""
        assert self.settings.precision is not None
        if any(standing.high[i] - standing.low[i] > 2 * self.settings.precision for i in standing.low):
            return False  # not even those of the leader
        summary, active = self.summary(sampled.samples), sampled.active
        references = active if self.rule.baseline is None else ()
        limits = (summary.gap_limits(i, active) for i in references)
        return all((high - low <= 2 * self.settings.precision).all() for low, high in limits)

    def comparison(self, sampled: Sampled, interrupted: bool = False) -> Any:
        """Result from the samples so far: a `Comparison`, or several."""
        standing = self.standing(sampled)
        outcome = self.outcome(sampled, standing)
        if interrupted and outcome is Outcome.BUDGET_EXHAUSTED:
            outcome = Outcome.INTERRUPTED
        certain = outcome is Outcome.DETERMINISTIC
        summary = self.summary(sampled.samples, certain)
        names, best = self.labels.name, self._best(summary, standing, outcome)
        survivors = sampled.active if standing is None else standing.survivors
        worse = {names(i): names(by) for i, by in sampled.worse_than}
        common = {
            "summary": summary,
            "outcome": outcome,
            "best": None if best is None else names(best),
            "survivors": tuple(map(names, survivors)) if best is None else (names(best),),
            "worse_than": worse,
            "indifference": self.settings.indifference,
            "margin": self.settings.margin,
            "simulator": self.described(),
            "tie_tolerance": self.settings.tie_tolerance,
            "continue_with": Continuation(self, sampled),
        }
        return self._result(common)

    def _best(self, summary: SampleSummary, standing: Standing | None, outcome: Outcome) -> int | None:
        """The alternative that is known to be better than every other, or None.

        None if nothing varied: randomness may have been drawn before the state was reached.
        """
        if outcome in (Outcome.ONE_FUTURE, Outcome.DETERMINISTIC) or standing is None:
            return None
        if standing.decision is Decision.BEST:
            return standing.reference
        if standing.decision not in (Decision.SETTLED, Decision.MARGIN):
            return None
        leader = summary.ranking[0]
        others = [i for i in range(summary.labels.size) if i != leader]
        ends = [summary.pair(leader, i).gap(0, 0, 1).mean_interval or ANYWHERE for i in others]
        return leader if all(end.low > 0 if self.sign > 0 else end.high < 0 for end in ends) else None


@dataclass(frozen=True, eq=False)
class Continuation:
    """Goes on with a comparison."""

    question: Question
    sampled: Sampled

    def __call__(self, samples: int, given: Mapping[str, Any]) -> Any:
        """Draw until there are this many samples, or until it is decided."""
        if own := [name for name in given if name != "precision"]:
            raise SettingsError(
                f"{cut(', '.join(own))} was given, but this comparison has its own. Only one from a file needs it."
            )
        return self.question.continued(self.sampled, samples, given.get("precision"))


class _Run:
    """Sampling in progress. Blocks are admitted in order, and decisions are made at scheduled looks only."""

    def __init__(self, question: Question, pool: Pool, sampled: Sampled, budget: int) -> None:
        self._course = Course(question, pool, sampled, budget)
        self._question, self._pool = question, pool
        self._blocks: Generator[Draws, None, None] | None = None
        self._pending: list[Draws] = []
        self._begun = self._looked = time.monotonic()
        self._seconds_a_rollout = 0.0

    def answer(self) -> Any:
        """Draw until decided, or until the budget is used up."""
        question, course, interrupted = self._question, self._course, False
        try:
            with status_bar(question.verb, question.progress, self._n, course.budget, self._seconds) as report:
                while not course.over and not self._spent():
                    standing = self._look()
                    said = "" if standing is None else standing.described(question.labels.name, question.rule)
                    report(self._n, said)
        except KeyboardInterrupt:
            interrupted = True
            self._admit()
            if self._n < 2:
                raise
        finally:
            self._cancel()
        return course.answer(interrupted)

    @property
    def _n(self) -> int:
        return len(self._course.sampled.samples)

    @property
    def _seconds(self) -> float | None:
        return self._question.settings.seconds if self._course.fresh else None

    def _spent(self) -> bool:
        """Whether steps or time are used up, or would be before the next look."""
        samples, settings = self._course.sampled.samples, self._question.settings
        n = len(samples)
        if n < 2 or not self._course.fresh:
            return False
        if settings.max_steps is not None and samples.steps >= settings.max_steps:
            return True
        if settings.seconds is None:
            return False
        ahead = (self._course.next_look - n) * len(self._course.sampled.active) * self._seconds_a_rollout
        return time.monotonic() - self._begun + ahead > settings.seconds

    def _look(self) -> Standing | None:
        """Draw samples up to the next look, then eliminate and decide."""
        course, before, target = self._course, self._n, self._course.next_look
        n = before
        self._blocks = self._blocks or self._pool.ordered(self._question.work, self._arguments(before))
        while n < target:
            self._pending.append(next(self._blocks))
            n += len(self._pending[-1].returns)
        self._admit()
        now, old = time.monotonic(), course.sampled
        self._seconds_a_rollout = (now - self._looked) / ((n - before) * len(old.active))
        self._looked = now
        standing = course.look(before)
        if (course.sampled.active, course.sampled.paired) != (old.active, old.paired):
            self._cancel()  # blocks in flight have other alternatives
        return standing

    def _arguments(self, n: int) -> Iterator[tuple[int, int, tuple[int, ...], bool]]:
        """First sample, size, alternatives and pairing of each block; blocks end at looks."""
        active, paired, budget = self._course.sampled.active, self._course.sampled.paired, self._course.budget
        while n < budget:
            end = min(self._course.scheduled(n), budget)
            while n < end:
                rows = _LARGEST_BLOCK
                if not self._question.compiled:
                    rows = self._question.block_size(len(active), self._seconds_a_rollout)
                count = min(rows, end - n)
                yield n, count, active, paired
                n += count

    def _admit(self) -> None:
        """Add the pending blocks to the samples."""
        if self._pending:
            self._course.add(self._pending)
            self._pending = []

    def _cancel(self) -> None:
        """Drop the blocks in flight."""
        if self._blocks is not None:
            self._blocks.close()
            self._blocks = None
