"""A comparison in progress: when it looks at its samples, what it eliminates, and when it is over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from jmdp.base.labels import Labels
from jmdp.distribute.pools import Pool
from jmdp.results.anytime import ENOUGH
from jmdp.results.outcome import Outcome
from jmdp.results.samples.drawn_samples import DrawnSamples, Sampled
from jmdp.results.samples.selection import SelectionRule, Standing, next_look
from jmdp.simulators.draws import Draws


class _Sequential(Protocol):
    """The part of a `Question` that its course depends on."""

    @property
    def labels(self) -> Labels: ...
    @property
    def rule(self) -> SelectionRule: ...
    @property
    def work(self) -> Any: ...
    @property
    def compiled(self) -> bool: ...
    @property
    def eliminates(self) -> bool: ...
    def certain(self, samples: DrawnSamples) -> bool: ...
    def check(self, draws: Draws) -> None: ...
    def standing(self, sampled: Sampled) -> Standing | None: ...
    def outcome(self, sampled: Sampled, standing: Standing | None) -> Outcome: ...
    def between_looks(self, sampled: Sampled, pool: Pool) -> Sampled: ...
    def comparison(self, sampled: Sampled, interrupted: bool = False) -> Any: ...


class Course:
    """A comparison in progress: its samples so far, and the decisions at scheduled looks.

    It depends on the samples only, not on how they are drawn.
    """

    def __init__(self, question: _Sequential, pool: Pool, sampled: Sampled, budget: int) -> None:
        self.question, self.pool, self.sampled, self.budget = question, pool, sampled, budget
        self.fresh = not sampled.samples.stages
        self._open = not sampled.decided

    @classmethod
    def begin(cls, question: _Sequential, pool: Pool, budget: int) -> Course:
        """A comparison without samples."""
        k = question.labels.size
        return cls(question, pool, Sampled(DrawnSamples(k), tuple(range(k))), budget)

    @property
    def over(self) -> bool:
        """Whether the samples are used up, or the comparison was decided."""
        samples = self.sampled.samples
        n = len(samples)
        if n >= self.budget or (self.sampled.decided and self._open):
            return True
        return not self._open and self.question.certain(samples) and n > 0

    @property
    def next_look(self) -> int:
        """Number of samples at the next look."""
        return min(self.scheduled(len(self.sampled.samples)), self.budget)

    def scheduled(self, n: int) -> int:
        """The first scheduled look after n samples. Compiled programs draw many samples as fast as one."""
        return max(next_look(n), ENOUGH if self.question.compiled else 1)

    def add(self, blocks: list[Draws]) -> None:
        """Add samples of the active alternatives."""
        draws = blocks[0].joined(blocks)
        samples = self.sampled.samples.with_block(self.sampled.active, draws)
        self.sampled = replace(self.sampled, samples=samples)

    def look(self, before: int) -> Standing | None:
        """Eliminate and decide, after samples were added up to the look that follows `before` samples."""
        question, n = self.question, len(self.sampled.samples)
        if self.fresh and before < ENOUGH <= n:
            self.check()
        standing = question.standing(self.sampled)
        if not self._open:
            return standing
        if question.outcome(self.sampled, standing) is not Outcome.BUDGET_EXHAUSTED:
            self.sampled = replace(self.sampled, decided=True)
        elif n == self.scheduled(before):
            self._adapt(standing)
        return standing

    def check(self) -> None:
        """Raise if the first samples differ when they are drawn again."""
        self.question.check(self.sampled.samples.complete.one_coupling)

    def answer(self, interrupted: bool = False) -> Any:
        """Result from the samples so far."""
        if self.fresh and len(self.sampled.samples) < ENOUGH:
            self.check()
        return self.question.comparison(self.sampled, interrupted)

    def _adapt(self, standing: Standing | None) -> None:
        """Stop simulating eliminated alternatives, and let the question adapt the sampling."""
        sampled = self.sampled
        if standing is not None and self.question.eliminates:
            gone = [(i, standing.reference) for i in sampled.active if i not in standing.survivors]
            worse = gone if self.question.rule.baseline is None else []
            sampled = replace(sampled, active=standing.survivors, worse_than=(*sampled.worse_than, *worse))
        if len(sampled.samples) < self.budget:
            sampled = self.question.between_looks(sampled, self.pool)
        self.sampled = sampled
