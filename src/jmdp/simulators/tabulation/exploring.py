"""Exploration of the states of a simulator, breadth first, and the table of those found."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats, Integers
from jmdp.base.luck import Shock
from jmdp.base.settings import short
from jmdp.errors import SettingsError, SimulatorError
from jmdp.simulators.simulator import Simulator
from jmdp.simulators.starts import Starts
from jmdp.simulators.tabulation.finite_luck import Cells, Path
from jmdp.simulators.tabulation.joint_rows import JointOutcome, JointRow, JointSteps, chance_of, row_error

ENDED = -1
"""Number of the state after the end of an episode, until the table is made."""

_BYTES = 60.0
"""Memory for each number of the table while it is made."""


class ScenarioArrays(NamedTuple):
    """Arrays of a scenario table; state S − 1 is the one after the end if `has_end`."""

    prob: Floats  # [S, K]
    reward: Floats  # [S, K, A]
    next_state: Integers  # [S, K, A]
    has_end: bool
    aligned: bool  # whether scenario k is the same values of the same draws in every state


class _Row(NamedTuple):
    """Joint outcomes of one state, numbered."""

    weights: Floats  # [K]
    reward: Floats  # [K, A]
    after: Integers  # [K, A]
    draws: bytes | None
    sampled: bool

    def grouped(self, group: Integers, first: Integers) -> _Row:
        """The row with scenarios of one group merged; `first` has one scenario of each group."""
        weights: Floats = np.bincount(group, self.weights, len(first)).astype(np.float64)
        return self._replace(weights=weights, reward=self.reward[first], after=self.after[first])

    def groups(self) -> tuple[Integers, Integers]:
        """Equal numbers [K] for equal outcomes, in order of their first, and the first scenario of each number."""
        columns = np.hstack([self.reward + 0.0, self.after])  # + 0.0: −0.0 becomes 0.0
        return _numbered(np.ascontiguousarray(columns).view(np.dtype((np.void, 8 * columns.shape[1])))[:, 0])


def _numbered(keys: Any) -> tuple[Integers, Integers]:
    """Numbers of equal keys in order of their first, and the position of each number's first key."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[inverse], first[order]


class Exploration:
    """States found so far, in order, with the joint outcomes of those that were expanded."""

    def __init__(self, simulator: Simulator, cells: Cells | None, seed: int | None, samples: int, most: int) -> None:
        self._simulator, self._seed, self._samples, self._most = simulator, seed, samples, most
        self._steps = JointSteps(simulator, cells)
        self._roots: list[Shock] = []
        self.states: list[Any] = []
        self._index: dict[bytes, int] = {}
        self._rows: list[_Row] = []
        self._widest = 1
        self.reasons: Counter[str] = Counter()  # why states were sampled
        self.counts: dict[int, list[int]] = {}  # samples of each outcome, by state
        self.start_counts: int | None = None  # number of sampled starts; None if they are given or enumerated

    def begin(self, given: Starts | None) -> list[tuple[int, float]]:
        """Add the start states; return their numbers and probabilities."""
        if given is not None:
            begun = [(self._steps.digest(state), state) for state in given.states]
            if len(dict(begun)) < len(begun):
                raise SettingsError("starts contains a state twice. Give a list of states, each once.")
            return [(self._number(*one), p) for one, p in zip(begun, given.probabilities.tolist(), strict=True)]
        found = self._enumerated_starts()
        if isinstance(found, str):
            found = self._sampled_starts(found)
        return [(self._number(digest, state), chance) for digest, (state, chance) in found.items()]

    def _enumerated_starts(self) -> dict[bytes, tuple[Any, float]] | str:
        """Starts and their probabilities by digest, or the reason why they cannot be enumerated."""
        found: dict[bytes, tuple[Any, float]] = {}
        path: Path | None = Path()
        while path is not None:
            state = self._simulator.start(path.shock())
            digest = self._steps.digest(state)
            path.close()
            if path.reason is not None:
                return path.reason
            first, chance = found.get(digest, (state, 0.0))
            found[digest] = first, chance + path.probability
            path = path.following()
        return found

    def _sampled_starts(self, reason: str) -> dict[bytes, tuple[Any, float]]:
        why = f"its start cannot be enumerated: {reason.replace('a step', 'start')}"
        found: dict[bytes, tuple[Any, float]] = {}
        roots = self._shocks(why, "give seed=…, or starts=[…]")
        for root in roots:
            state = self._simulator.start(root)
            digest = self._steps.digest(state)
            first, chance = found.get(digest, (state, 0.0))
            found[digest] = first, chance + 1 / len(roots)
        self.start_counts = len(roots)
        return found

    def _shocks(self, why: str, fix: str = "give seed=…") -> list[Shock]:
        """The shocks of all samples."""
        if not self._roots:
            if self._seed is None:
                raise SettingsError(f"{self._simulator!r} must be sampled, because {why}. To sample, {fix}.")
            arrays.refuse_large(f"samples={self._samples:,}", 200.0 * self._samples)
            self._roots = [Shock.of_sample(self._seed, i) for i in range(self._samples)]
        return self._roots

    def _number(self, digest: bytes, state: Any) -> int:
        found = self._index.get(digest)
        if found is None:
            if len(self.states) == self._most:
                raise SimulatorError(
                    f"{self._simulator!r} has more than {self._most:,} states{_example(state)}. Give a larger "
                    "max_states; leave out of the state, or of its digest, what does not affect the future (clocks, "
                    "counters, logs); or compare without a table: jmdp.compare, jmdp.compare_policies."
                )
            found = self._index[digest] = len(self.states)
            self.states.append(state)
        return found

    def run(self, report: Callable[[int], None]) -> None:
        """Expand every state that can be reached."""
        while len(self._rows) < len(self.states):
            s = len(self._rows)
            row = self._steps.enumerated(self.states[s])
            if isinstance(row, str):
                self.reasons[row] += 1
                row = self._steps.sampled(self.states[s], self._shocks(row))
                assert row.counts is not None
                self.counts[s] = row.counts
            self._rows.append(self._numbered(row))
            self._widest = max(self._widest, len(row.weights))
            self._refuse_large()
            report(len(self._rows))

    def _numbered(self, row: JointRow) -> _Row:
        """The row with numbers for its next states, which are added."""

        def number(outcome: JointOutcome) -> list[int]:
            return [self._number(digest, row.reached[digest]) if digest else ENDED for _, digest in outcome]

        reward = np.array([[earned for earned, _ in outcome] for outcome in row.outcomes])
        after = np.array([number(outcome) for outcome in row.outcomes], np.int64)
        return _Row(np.array(row.weights), reward, after, row.draws, row.counts is not None)

    def _refuse_large(self) -> None:
        assert self._simulator.actions is not None
        S, K, A = len(self.states), self._widest, self._simulator.actions.size
        arrays.refuse_large(f"A table of {S:,} states, {K:,} scenarios and {A:,} actions", _BYTES * S * K * A)

    def errors(self, confidence: float) -> Floats:
        """Bounds [states] on the total variation distance from the true joint outcomes; 0 if enumerated."""
        error = np.zeros(len(self.states))
        for j, (s, counts) in enumerate(self.counts.items(), 1):
            error[s] = row_error(counts, chance_of(confidence, j))
        return error

    def table(self) -> ScenarioArrays:
        """The scenario table, with equal scenarios merged.

        If all random states make the same draws, scenario k has the same values of these draws in every state.
        """
        rows, kinds = self._rows, {row.draws for row in self._rows if row.draws is not None}
        aligned = not self.counts and len(kinds) <= 1
        rows = _aligned(rows) if aligned else [row.grouped(*row.groups()) for row in rows]
        has_end = any((row.after == ENDED).any() for row in rows)
        S, K, A = len(rows) + has_end, max(len(row.weights) for row in rows), rows[0].reward.shape[1]
        prob, reward = np.zeros((S, K)), np.zeros((S, K, A))
        following = np.broadcast_to(np.arange(S)[:, None, None], (S, K, A)).copy()
        for s, row in enumerate(rows):
            k = len(row.weights)
            prob[s, :k], reward[s, :k] = row.weights / math.fsum(row.weights), row.reward
            following[s, :k] = np.where(row.after == ENDED, S - 1, row.after)
        prob[len(rows) :, 0] = 1.0
        return ScenarioArrays(prob, reward, following, has_end, aligned)


def _example(state: Any) -> str:
    return f", e.g. {short(state)}" if isinstance(state, (str, int, float, tuple, np.generic, np.ndarray)) else ""


def _aligned(rows: list[_Row]) -> list[_Row]:
    """Rows with the same scenarios; two scenarios are merged if they have equal outcomes in every state."""
    widest = max(rows, key=lambda row: len(row.weights))
    K = len(widest.weights)
    if K == 1:
        return rows
    group = np.zeros(K, np.int64)
    for row in rows:
        if len(row.weights) == K:
            group, _ = _numbered(group * K + row.groups()[0])
    group, first = _numbered(group)
    return [_spread(row, widest).grouped(group, first) for row in rows]


def _spread(row: _Row, widest: _Row) -> _Row:
    """A row without randomness, repeated for every scenario."""
    K, A = len(widest.weights), row.reward.shape[1]
    if len(row.weights) == K:
        return row
    return row._replace(
        weights=widest.weights,
        reward=np.broadcast_to(row.reward, (K, A)),
        after=np.broadcast_to(row.after, (K, A)),
    )
