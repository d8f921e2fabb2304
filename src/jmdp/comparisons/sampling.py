"""The sampling loop of all comparisons: draw blocks of samples, look at them, decide, and build the result."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jmdp.base.progress import status_bar
from jmdp.base.settings import cut, whole_number
from jmdp.comparisons.comparison import Comparison
from jmdp.comparisons.question import Question
from jmdp.distribute.pools import Pool
from jmdp.distribute.process_pool import pool_of
from jmdp.errors import SettingsError
from jmdp.results.certificate import Outcome
from jmdp.simulators.rollouts.draws import Draws, Room
from jmdp.statistics.drawn_evaluation import DrawnSamples, SamplingState
from jmdp.statistics.means import ENOUGH, planned_looks
from jmdp.statistics.planning import needed_words
from jmdp.statistics.sample_summary import SampleSummary
from jmdp.statistics.selection import Conclusion, LookResult

_LARGEST_BLOCK = 1 << 16
"""Samples of one block of a compiled simulator."""

_MANY = 300
"""Equal samples that suggest that nothing varies: an outcome not seen in so many has a chance below 1%, at 95%."""

OUTCOMES = {
    Conclusion.OPEN: Outcome.BUDGET_EXHAUSTED,
    Conclusion.BEST: Outcome.BEST_FOUND,
    Conclusion.GOOD_ENOUGH: Outcome.GOOD_ENOUGH,
    Conclusion.EQUAL: Outcome.EQUAL_BEST,
    Conclusion.EQUAL_SO_FAR: Outcome.EQUAL_SO_FAR,
    Conclusion.SETTLED: Outcome.BASELINE_COMPARED,
    Conclusion.MARGIN: Outcome.MARGIN_DECIDED,
}


# ------------------------------------------------------------------------------------------------ what samples say


def examined(question: Question, sampled: SamplingState, summary: SampleSummary) -> LookResult | None:
    """Examine the samples of one measure; None if they are too few for a decision, or for seeing that nothing varies.

    The samples of alternatives whose gaps to the reference were all 0 so far are ties if they are many.
    """
    n, rule, active = len(sampled.samples), question.rule, sampled.active
    if not summary.decisive(n) or n < 2:
        return None
    returns = summary.samples.of(*active).returns
    reference = rule.reference(question.sign * returns.mean(axis=0), active)
    same = (returns == returns[:, active.index(reference), None]).all(axis=0)
    tied = {i for i, equal in zip(active, same, strict=True) if equal and n >= _MANY}
    limits = summary.verdict_limits(reference, active, rule.margin)
    leader = reference if rule.baseline is None else summary.ranking[0]
    return rule.examine(reference, active, *limits, tied=tied, leader=leader)


def outcome_of(question: Question, sampled: SamplingState, summary: SampleSummary, look: LookResult | None) -> Outcome:
    """Outcome of one measure if sampling stops now; BUDGET_EXHAUSTED if it should go on."""
    settings, n = question.settings, len(sampled.samples)
    if question.certain(sampled.samples):
        return Outcome.DETERMINISTIC
    fixed = settings.samples is not None
    if look is None or (fixed and n < settings.most):
        return Outcome.BUDGET_EXHAUSTED
    found = Outcome.SAMPLED if fixed else OUTCOMES[look.decision]
    if settings.precision is not None:
        precise = _precise(question, sampled, summary, look.reference)
        found = Outcome.PRECISE if precise else Outcome.BUDGET_EXHAUSTED
    decided = found is not Outcome.BUDGET_EXHAUSTED
    stated = question.rule.margin is not None or settings.assume.return_range is not None
    if not stated and n >= _MANY and question.one_future(sampled.samples.complete, decided):
        return Outcome.ONE_FUTURE
    return found


def _needed(question: Question, sampled: SamplingState, look: LookResult) -> tuple[float, float] | None:
    """How many samples a decision will need, at least and at most."""
    rule, precision = question.rule, question.settings.precision
    return question.summary(sampled).needed(
        look.reference, look.survivors, rule.baseline is not None, rule.margin, rule.indifference, precision
    )


def _precise(question: Question, sampled: SamplingState, summary: SampleSummary, reference: int) -> bool:
    """Whether all mean gaps, or those to the baseline, are known to ± `precision`, or were the same in many samples."""
    settings = question.settings
    wide = 2 * (settings.precision or 0.0)
    many = len(sampled.samples) >= _MANY and settings.assume.return_range is None  # a range has an interval
    active = sampled.active
    others = [i for i in active if i != reference] if question.rule.baseline is None else []
    for i in (reference, *others):  # most often those of the first are not known
        low, high = summary.gap_limits(i, active)
        if not (high - low <= wide if not many else (high - low <= wide) | summary.unvaried(i, active)).all():
            return False
    return True


def comparison_of(question: Question, sampled: SamplingState, interrupted: bool = False) -> Comparison:
    """Result of one measure from the samples so far."""
    summary = question.summary(sampled)
    look = examined(question, sampled, summary)
    outcome = outcome_of(question, sampled, summary, look)
    if interrupted and outcome is Outcome.BUDGET_EXHAUSTED:
        outcome = Outcome.INTERRUPTED
    if outcome is Outcome.DETERMINISTIC:
        summary = replace(summary, certain=True)
    names, best = question.labels.name, best_of(summary, look, outcome)
    survivors = sampled.active if look is None else look.survivors
    return question.result(
        {
            "summary": summary,
            "outcome": outcome,
            "best": None if best is None else names(best),
            "survivors": tuple(map(names, survivors)) if best is None else (names(best),),
            "worse_than": {names(i): names(by) for i, by in sampled.worse_than},
            "baseline": question.baseline,
            "indifference": question.settings.indifference,
            "margin": question.settings.margin,
            "simulator": question.described(),
            "continue_with": Continuation(question, sampled),
        }
    )


def best_of(summary: SampleSummary, look: LookResult | None, outcome: Outcome) -> int | None:
    """The alternative that is known to be better than every other, or None.

    None if nothing varied: randomness may have been drawn before the state was reached.
    """
    if outcome in (Outcome.ONE_FUTURE, Outcome.DETERMINISTIC) or look is None:
        return None
    if look.decision is Conclusion.BEST:
        return look.reference
    if look.decision not in (Conclusion.SETTLED, Conclusion.MARGIN) and outcome is not Outcome.SAMPLED:
        return None
    leader = summary.ranking[0]
    for i in summary.ranking[1:]:
        if not summary.verdict_limits(leader, (leader, i))[0][1] > 0:
            return None
    return leader


def result_of(question: Question, sampled: SamplingState, interrupted: bool = False) -> Any:
    """Result from the samples so far: a `Comparison`, or one for each measure."""
    found = [comparison_of(part, sampled, interrupted) for part in question.parts(sampled.samples)]
    return replace(question.joint(found), continue_with=Continuation(question, sampled))


# ------------------------------------------------------------------------------------------------ drawing and looking


def answer(question: Question, sampled: SamplingState | None = None, samples: int | None = None) -> Any:
    """Draw until the comparison is decided or the budget is used up, from scratch or from `sampled`."""
    with pool_of(question.settings.pool) as pool:
        return _PooledCourse(question, pool, sampled, question.settings.most if samples is None else samples).result()


def continued(question: Question, sampled: SamplingState, samples: int, precision: Any = None) -> Any:
    """Draw until there are this many samples, or until it is decided; with a precision, until that is reached.

    A fixed number of samples has one more look. A plan ends: its looks are those of sequential samples from then on.
    """
    whole_number("samples", samples, 2)
    settings = question.settings
    if precision is not None:
        question, sampled = question.with_precision(precision), replace(sampled, decided=False)
        if _ended(question, sampled):
            return result_of(question, replace(sampled, decided=True))
    elif settings.samples is not None and samples > len(sampled.samples):
        question = replace(question, settings=replace(settings, samples=samples))
        sampled = replace(sampled, looks=sampled.looks + 1, decided=False)
    elif settings.looks == "planned":
        question = replace(question, settings=replace(settings, looks="scheduled"))
        sampled = replace(sampled, looks=sampled.looks + 1)
    return answer(question, sampled, samples)


@dataclass(frozen=True, eq=False)
class Continuation:
    """Goes on with a comparison."""

    question: Question
    sampled: SamplingState

    def __call__(self, samples: int, given: Mapping[str, Any]) -> Any:
        """Draw until there are this many samples, or until it is decided."""
        return continued(self.asked(given), self.sampled, samples, given.get("precision"))

    def asked(self, given: Mapping[str, Any]) -> Question:
        """The question that was asked; raise if a simulator is given, which it has."""
        if own := [name for name in given if name != "precision"]:
            raise SettingsError(
                f"{cut(', '.join(own))} was given, but this comparison has its own. Only one from a file needs it."
            )
        return self.question


def _ended(question: Question, sampled: SamplingState) -> bool:
    """Whether every measure is decided."""
    found = ((part, part.summary(sampled)) for part in question.parts(sampled.samples))
    outcomes = (outcome_of(part, sampled, one, examined(part, sampled, one)) for part, one in found)
    return Outcome.BUDGET_EXHAUSTED not in outcomes


class Course:
    """A comparison in progress: its samples so far, and the decisions at scheduled looks.

    It depends on the samples only, not on how they are drawn.
    """

    def __init__(self, question: Question, pool: Pool, sampled: SamplingState | None, budget: int) -> None:
        k = question.labels.size
        self.sampled = sampled or SamplingState(DrawnSamples(k), tuple(range(k)))
        self.question, self.pool, self.budget = question, pool, budget
        self.fresh = not self.sampled.samples.stages
        self._checked = self.n  # samples at the last check
        self._open = not self.sampled.decided
        self._room = Room(budget)

    @property
    def n(self) -> int:
        """Number of samples so far."""
        return len(self.sampled.samples)

    @property
    def over(self) -> bool:
        """Whether the samples are used up, or the comparison was decided."""
        if self.n >= self.budget or (self.sampled.decided and self._open):
            return True
        return not self._open and self.question.certain(self.sampled.samples) and self.n > 0

    @property
    def next_look(self) -> int:
        """Number of samples at the next look."""
        return min(self.scheduled(self.n), self.budget)

    def scheduled(self, n: int) -> int:
        """The first scheduled look after n samples. Compiled programs draw many samples as fast as one."""
        return max(self.question.settings.sampling.next_look(n), ENOUGH if self.question.compiled else 1)

    def add(self, blocks: list[Draws]) -> None:
        """Add samples of the active alternatives."""
        samples = self.sampled.samples.with_block(self.sampled.active, *blocks, concatenate=self._room.concatenate)
        self.sampled = replace(self.sampled, samples=samples)

    def look(self, before: int) -> Sequence[LookResult | None]:
        """Eliminate and decide, after samples were added up to the look that follows `before` samples."""
        question, n = self.question, self.n
        if self.fresh and before < ENOUGH <= n:
            self.check()
        parts = question.parts(self.sampled.samples)
        found = [(part, self.sampled, part.summary(self.sampled)) for part in parts]
        looks = [examined(*given) for given in found]
        if not self._open or not self._decides(n):
            return looks
        outcomes = [outcome_of(*given, look) for given, look in zip(found, looks, strict=True)]
        if Outcome.BUDGET_EXHAUSTED not in outcomes:
            self.sampled = replace(self.sampled, decided=True)
        elif n == self.scheduled(before):
            self._adapt(looks)
        return looks

    def check(self) -> None:
        """Raise if samples differ when they are drawn again: once early, and once after the last sample."""
        self.question.check(self.sampled.samples.complete.one_coupling, late=self._checked > 0)
        self._checked = self.n

    def answer(self, interrupted: bool = False) -> Any:
        """Result from the samples so far."""
        if self.n > self._checked and not (interrupted and self._checked):
            self.check()
        return result_of(self.question, self.sampled, interrupted)

    def _decides(self, n: int) -> bool:
        """Whether this is a look of the plan, if there is one; others are for the progress bar."""
        settings = self.question.settings
        return settings.looks != "planned" or n >= settings.most or n in planned_looks(settings.most)

    def _adapt(self, looks: Sequence[LookResult | None]) -> None:
        """Stop simulating eliminated alternatives, and let the question adapt the sampling.

        With several measures, an alternative is simulated as long as one of them needs it.
        """
        sampled, question = self.sampled, self.question
        known = [look for look in looks if look is not None]
        if len(known) == len(looks) and question.eliminates and (len(known) == 1 or question.baseline is not None):
            survivors = tuple(sorted({i for look in known for i in look.survivors}))
            gone = [(i, known[0].reference) for i in sampled.active if i not in survivors]
            worse = gone if question.baseline is None else []
            sampled = replace(sampled, active=survivors, worse_than=(*sampled.worse_than, *worse))
        if self.n < self.budget:
            sampled = question.between_looks(sampled, self.pool)
        self.sampled = sampled


class _PooledCourse(Course):
    """A comparison whose samples a pool draws. Blocks are admitted in order, and decided on at scheduled looks only."""

    def __init__(self, question: Question, pool: Pool, sampled: SamplingState | None, budget: int) -> None:
        super().__init__(question, pool, sampled, budget)
        self._blocks: Generator[Draws, None, None] | None = None
        self._pending: list[Draws] = []
        self._begun = self._looked = time.monotonic()
        self._seconds_a_rollout = 0.0

    def result(self) -> Any:
        """Draw until decided, or until the budget is used up."""
        question, interrupted = self.question, False
        try:
            with status_bar(
                question.verb,
                question.settings.progress,
                self.n,
                self.budget,
                question.settings.max_seconds if self.fresh else None,
                ends_early=question.settings.samples is None,
            ) as report:
                while not self.over and not self._spent():
                    looks = self._look()
                    report(self.n, *(self._status(looks) if question.settings.progress else ("",)))
        except KeyboardInterrupt:
            interrupted = True
            self._admit()
            if self.n < 2:
                raise
        finally:
            self._cancel()
        return self.answer(interrupted)

    def _spent(self) -> bool:
        """Whether steps or time are used up, or would be before the next look."""
        samples, settings, n = self.sampled.samples, self.question.settings, self.n
        if n < 2 or not self.fresh:
            return False
        if settings.max_steps is not None and samples.steps >= settings.max_steps:
            return True
        if settings.max_seconds is None:
            return False
        ahead = (self.next_look - n) * len(self.sampled.active) * self._seconds_a_rollout
        return time.monotonic() - self._begun + ahead > settings.max_seconds

    def _status(self, looks: Sequence[LookResult | None]) -> tuple[str, str]:
        """Where the comparison of the first measure stands, and a warning if the budget will not suffice."""
        known = [look for look in looks if look is not None]
        if len(known) < len(looks):
            return "", ""
        question = self.question
        status = known[0].described(question.labels.name, question.rule)
        if self.over:
            return status, ""
        parts = question.parts(self.sampled.samples)
        found = [_needed(part, self.sampled, one) for part, one in zip(parts, known, strict=True)]
        ranges = [one for one in found if one is not None]
        if len(ranges) < len(found):
            return status, ""
        low, high = (max(ends) for ends in zip(*ranges, strict=True))
        wanted = next((name for name in ("precision", "margin") if getattr(question.settings, name) is not None), "")
        horizon = parts[0].summary(self.sampled).cut_at
        what = "this precision" if wanted == "precision" else "a decision"
        said = needed_words(low, high, "samples", what, horizon)
        larger = f"a larger {wanted}" if wanted else "indifference= (differences that do not matter)"
        more = f"{said}; at most {self.budget:,} will be drawn. Give a larger max_samples, or {larger}"
        if horizon is not None and low == math.inf:
            more = f"{said}, or {larger}"
        return f"{status}; {said}", more if low > self.budget else ""

    def _look(self) -> Sequence[LookResult | None]:
        """Draw samples up to the next look, then eliminate and decide."""
        before, target = self.n, self.next_look
        n = before
        self._blocks = self._blocks or self.pool.ordered(self.question.work, self._arguments(before))
        while n < target:
            self._pending.append(next(self._blocks))
            n += len(self._pending[-1].returns)
        self._admit()
        now, old = time.monotonic(), self.sampled
        self._seconds_a_rollout = (now - self._looked) / ((n - before) * len(old.active))
        self._looked = now
        looks = self.look(before)
        if (self.sampled.active, self.sampled.paired) != (old.active, old.paired):
            self._cancel()  # blocks in flight have other alternatives
        return looks

    def _arguments(self, n: int) -> Iterator[tuple[int, int, tuple[int, ...], bool]]:
        """First sample, size, alternatives and pairing of each block; blocks end at looks."""
        active, paired, budget = self.sampled.active, self.sampled.paired, self.budget
        while n < budget:
            end = min(self.scheduled(n), budget)
            while n < end:
                rows = _LARGEST_BLOCK
                if not self.question.compiled:
                    rows = self.question.block_size(len(active), self._seconds_a_rollout)
                count = min(rows, end - n)
                yield n, count, active, paired
                n += count

    def _admit(self) -> None:
        """Add the pending blocks to the samples."""
        if self._pending:
            self.add(self._pending)
            self._pending = []

    def _cancel(self) -> None:
        """Drop the blocks in flight."""
        if self._blocks is not None:
            self._blocks.close()
            self._blocks = None
