"""What a worker does in a study: compare in each state of a block. A pure function of the states and their numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jmdp.comparisons.compare import ActionQuestion
from jmdp.comparisons.compare_policies import PolicyQuestion
from jmdp.comparisons.sampling import Course
from jmdp.distribute.pools import SerialPool
from jmdp.methods.evaluate import evaluate
from jmdp.methods.reachable_pairs import ReachablePairs
from jmdp.models.coupling import Coupling
from jmdp.models.lazy import LazyJMDP
from jmdp.results.certificate import Outcome
from jmdp.simulators.rollouts.array_engine import joint_draws
from jmdp.simulators.rollouts.batched_states import has_many_steps
from jmdp.simulators.rollouts.draws import Draws
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.studies.parts import Columns, Finished
from jmdp.studies.points import (
    Block,
    Failure,
    Row,
    attempt,
    comparison_rows,
    evaluation_rows,
    failed_rows,
    printable,
    state_key,
)

_CHECKED_EVERY = 64
"""Of the states of a compiled simulator one in so many is checked; of others, every state."""

_MOST_NUMBERS = 4_000_000
"""Returns that a worker holds at the same time, approximately."""

_TOGETHER = 64
"""States that `step_many` simulates together."""


@dataclass(frozen=True, kw_only=True)
class Work(ABC):
    """Function of a block that returns its results."""

    columns: Columns
    seed: int
    last: bool  # states that are not decided are finished, too

    def __call__(self, block: Block) -> Finished:
        """Results of the states of a block."""
        return self._finished(block, self._found(block))

    def lost(self, block: Block, error: str) -> Finished:
        """Results of a block whose worker died: all states have failed."""
        return self._finished(block, [Failure(error)] * len(block))

    def _finished(self, block: Block, found: Sequence[list[Row] | Failure]) -> Finished:
        rows: list[Row] = []
        waiting, outcomes = [], Counter[str]()
        for at, one in enumerate(found):
            state = failed_rows(one.text, len(self.names)) if isinstance(one, Failure) else one
            outcome = state[0]["outcome"]
            waiting.append(outcome == Outcome.BUDGET_EXHAUSTED.name and not self.last)
            if waiting[-1]:
                continue
            outcomes[outcome] += 1
            number = block.numbers[at]
            place = dict(zip(self.columns.coordinates, block.places[at], strict=True))
            common = {"number": number, "state": block.labels[at], "key": state_key(self.seed, number), **place}
            rows += [
                common | {self.columns.alternative: name} | row for name, row in zip(self.names, state, strict=True)
            ]
        return Finished([self.columns.batch(rows)], waiting, outcomes)

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Names of the alternatives."""

    @property
    def together(self) -> int:
        """Number of states of a block that are simulated faster together."""
        return 1

    @property
    def pack(self) -> Callable[[Any], Any]:
        """Function that makes a state picklable."""
        return _same

    @abstractmethod
    def _found(self, block: Block) -> Sequence[list[Row] | Failure]:
        """Rows of each state, without those that all kinds of results have in common."""


@dataclass(frozen=True, kw_only=True)
class SimulatedWork(Work):
    """Comparisons by simulation, with at most `budget` samples in each state."""

    question: ActionQuestion | PolicyQuestion  # without a state
    budget: int

    @property
    def names(self) -> list[str]:
        """Names of the actions or policies."""
        labels = self.question.labels
        return [printable(labels.name(i)) for i in range(labels.size)]

    @property
    def together(self) -> int:
        """Number of states of a block: more than one if `step_many` simulates them together."""
        if not (isinstance(self.question, ActionQuestion) and has_many_steps(self.question.simulator)):
            return 1
        return max(1, min(_TOGETHER, _MOST_NUMBERS // (self.budget * self.question.labels.size)))

    @property
    def pack(self) -> Callable[[Any], Any]:
        """Function that makes a state picklable."""
        return self.question.simulator.pack

    def _found(self, block: Block) -> Sequence[list[Row] | Failure]:
        states = block.unpacked(self.question.simulator.unpack)
        courses: list[Course | Failure] = [
            state if isinstance(state, Failure) else attempt(self._begun, number, state)
            for number, state in zip(block.numbers, states, strict=True)
        ]
        if self.together > 1:
            self._advance_together(courses)
        return [course if isinstance(course, Failure) else attempt(_rows, course) for course in courses]

    def _begun(self, number: int, state: Any) -> Course:
        """The comparison in a state, before its first sample."""
        question = self.question.at(state, state_key(self.seed, number))
        if not question.compiled or number % _CHECKED_EVERY == 0:
            question.check_luck()
        else:
            question = replace(question, repeats=False)
        return Course(question, SerialPool(), None, self.budget)

    def _advance_together(self, courses: list[Course | Failure]) -> None:
        """Draw the samples of several states together, look by look, until all comparisons are over."""
        kinds = [_kind(course) for course in courses]
        while True:
            groups = defaultdict(list)
            for at, course in enumerate(courses):
                if isinstance(course, Course) and not course.over:
                    n = len(course.sampled.samples)
                    groups[n, course.next_look, course.sampled.active, kinds[at]].append(at)
            if not groups:
                return
            for (n, target, active, _), members in groups.items():
                plans = [_plan(courses[at]).some(active) for at in members]
                drawn = attempt(joint_draws, self.question.simulator, plans, n, target - n)
                if isinstance(drawn, Failure):
                    return  # the states are simulated one by one, to find the one that fails
                for at, draws in zip(members, drawn, strict=True):
                    courses[at] = attempt(_looked, courses[at], draws)


@dataclass(frozen=True, kw_only=True)
class CertifiedWork(Work):
    """Certified intervals from the states reachable from each state of a lazy model."""

    model: LazyJMDP
    policy: Callable[[Any], Any]
    coupling: Coupling
    tolerance: float
    budget: int  # states to explore
    indifference: float | None
    alternatives: list[str]

    @property
    def names(self) -> list[str]:
        """Names of the actions."""
        return self.alternatives

    def _found(self, block: Block) -> Sequence[list[Row] | Failure]:
        states = block.unpacked(_same)
        return [state if isinstance(state, Failure) else attempt(self._certified, state) for state in states]

    def _certified(self, state: Any) -> list[Row]:
        memory = max(1 << 26, 16 * self.budget**2)  # fixed, so that results do not depend on the machine
        method = ReachablePairs(state, self.tolerance, self.budget, memory)
        found = evaluate(_fresh(self.model), self.policy, self.coupling, method=method, throw=False, progress=False)
        if found.outcome is Outcome.INTERRUPTED:
            raise KeyboardInterrupt
        return evaluation_rows(found, self.indifference)


def _fresh(model: LazyJMDP) -> LazyJMDP:
    """The same model without the states explored so far, on whose numbers rounding errors depend."""
    made = LazyJMDP(model.scenarios, model.discount, model.reward_bound)
    made.actions = model.actions
    return made


def _same(state: Any) -> Any:
    return state


def _plan(course: Course | Failure) -> BranchPlan:
    assert isinstance(course, Course)
    plan: BranchPlan = course.question.work.plan
    return plan


def _drawn(course: Course) -> Draws:
    """Samples up to the next look."""
    n, sampled = len(course.sampled.samples), course.sampled
    draws: Draws = course.question.work(n, course.next_look - n, sampled.active, sampled.paired)
    return draws


def _look(course: Course, draws: Draws) -> None:
    before = len(course.sampled.samples)
    course.add([draws])
    course.look(before)


def _looked(course: Course | Failure, draws: Draws) -> Course:
    """The comparison after these samples."""
    assert isinstance(course, Course)
    if draws.one_future:  # whether anything was drawn is known only for states that are simulated alone
        draws = _drawn(course)
    _look(course, draws)
    return course


def _rows(course: Course) -> list[Row]:
    """Rows of a state, after the samples that are still missing were drawn."""
    while not course.over:
        _look(course, _drawn(course))
    return comparison_rows(course.answer())


def _kind(course: Course | Failure) -> Any:
    """Types in a state: only states with equal types have the same rows in a common array as alone."""
    if isinstance(course, Failure):
        return None
    state = course.question.work.plan.state
    array = attempt(np.asarray, state)
    if isinstance(array, Failure):
        return None
    inside = tuple(map(type, state)) if isinstance(state, (tuple, list)) else None
    return type(state), inside, array.dtype.str, array.shape
