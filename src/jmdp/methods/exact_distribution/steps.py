"""All one-step outcomes of returns and gaps, G = gain + γ G', with their probabilities.

A gap of two branches in states s and t is the return of the pair: G(s, t) = R − R̃ + γ G(s', t'). The return of a
terminal state is 0, so the gap against it is a single return, G(s, end) = Z(s), and one list of pairs serves both. Once
two branches have merged their gap is 0 from then on, which is the pair (end, end).

Policy-drawn pairs depend on one another; returns and gaps of given first actions are one step ahead of them.

Steps of the gaps of several policies: pairs of states in blocks of different policies (`policy_blocks`).
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, combinations

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers, Scale
from jmdp.base.machine import require
from jmdp.errors import UnavailableError
from jmdp.methods.shared import double_double as dd
from jmdp.methods.shared.policy_chain import shared_choices, shared_scenarios
from jmdp.methods.shared.same_state import joint_actions
from jmdp.models.coupling import Coupling
from jmdp.models.policy import StackedTable, TabularPolicy
from jmdp.models.tabular import TabularJMDP

OUTCOME_BYTES = 144.0
"""Probability, gain, exact gain, source and factor, in the three copies made while lists are built and joined."""


@dataclass(frozen=True, eq=False)
class Steps:
    """Outcomes of some rows, concatenated row by row: the input of `kernels.distributions`."""

    starts: Integers  # [rows + 1]
    chance: Floats  # [outcomes]
    gain: Floats  # [outcomes]
    source: Integers  # [outcomes], the pair that follows
    factor: Floats  # [outcomes], ±γ
    exact: dd.DoubleDouble  # [outcomes], the gain without rounding, in units of the model

    @property
    def most_outcomes(self) -> int:
        """Largest number of outcomes of a row."""
        return int(np.diff(self.starts).max(initial=0))


@dataclass(frozen=True, eq=False)
class OutcomeList:
    """Outcomes of one branch or of a pair, before equal ones are joined."""

    chance: Floats  # 0 if a positive product underflows: possible outcomes are all listed
    gain: Floats
    tail: Floats  # gain + tail is exact
    one: Integers
    other: Integers


class DistributionSteps:
    """Steps of one model, policy and coupling, on rewards of size 1; raises if they may exceed the memory."""

    def __init__(
        self,
        model: TabularJMDP,
        policy: TabularPolicy,
        coupling: Coupling,
        scale: Scale,
        allowed_bytes: float,
        *,
        every_pair: bool = False,  # also those that are not reachable, so that all policies have the same rows
    ) -> None:
        self._model, self._policy, self._coupling = model, policy, coupling
        self.discount, self.scale = model.discount, scale
        S = model.shape[0]
        self.states = np.flatnonzero(~model.terminal)
        self.end = self.states.size
        number = np.full(S, self.end)
        number[self.states] = np.arange(self.end)
        self._next = number[model.next_state]
        one, other = self._drawn_pairs()
        self._row = np.zeros((self.end + 1, self.end + 1), np.int64)
        self._row[one, other] = self._row[other, one] = np.arange(one.size)
        self._shared_draws = [(w, scenarios, choices) for w, scenarios in shared_scenarios(model, coupling)
                      for w, choices in self._choices(w)]  # fmt: skip
        self.most_merged = 1  # most outcomes joined into one
        self._branches = [
            [self._branch(i, scenarios, choices) for i in range(self.end + 1)]
            for _, scenarios, choices in self._shared_draws
        ]
        pairs = sum(sum(outcomes.chance.size for outcomes in given) ** 2 for given in self._branches) / 2
        fix = "Use MonteCarlo(seed=…), or join scenarios with equal outcomes"
        require(
            OUTCOME_BYTES * pairs, allowed_bytes, f"ExactDistribution on {pairs:.2g} outcomes of pairs of states", fix
        )
        returns, gaps = self._alternatives()
        self.first_gap = self._returns = len(returns)  # rows of `given` from here on are gaps
        if every_pair:
            drawn = {row: self._drawn(int(i), int(j)) for row, (i, j) in enumerate(zip(one, other, strict=True))}
        else:
            drawn = self._reachable(one, other, returns + gaps)
        self._pairs = one[sorted(drawn)], other[sorted(drawn)]
        self._row = np.searchsorted(sorted(drawn), self._row)  # unreachable pairs have no row
        self.drawn = self._steps([drawn[row] for row in sorted(drawn)])
        self.given = self._steps(returns + gaps)
        self._kept: Integers | None = None  # numbers of the rows of `given`, if there are not all of them

    def only(self, gaps: Sequence[tuple[int, int, int]]) -> DistributionSteps:
        """The steps of these gaps (s, a, b) of non-terminal states, and of all pairs that can follow them."""
        part = copy.copy(self)
        rows = self.gap_rows(gaps)
        given = _taken(self.given, rows)
        reached = np.zeros(self.drawn.starts.size - 1, bool)
        reached[-1] = True  # (end, end)
        new = np.unique(given.source)
        while new.size:
            reached[new] = True
            following = np.unique(_taken(self.drawn, new).source)
            new = following[~reached[following]]
        kept, place = np.flatnonzero(reached), np.cumsum(reached) - 1
        drawn = _taken(self.drawn, kept)
        part.drawn, part.given = (replace(steps, source=place[steps.source]) for steps in (drawn, given))
        part._pairs = self._pairs[0][kept], self._pairs[1][kept]
        part.first_gap, part._kept = 0, rows
        return part

    def _at(self, row: int) -> int:
        """Place in `given` of the row with this number among those of all returns and gaps."""
        if self._kept is None:
            return row
        at = int(np.searchsorted(self._kept, row))
        if at == self._kept.size or self._kept[at] != row:
            raise UnavailableError("This distribution was not asked for. Use the evaluation that has all of them.")
        return at

    def _reachable(self, one: Integers, other: Integers, given: list[OutcomeList]) -> dict[int, OutcomeList]:
        """Outcomes of all pairs that can follow the given outcomes, and of (end, end), by their numbers."""
        last = one.size - 1
        found, waiting = {last: self._drawn(self.end, self.end)}, list(given)
        while waiting and self.discount > 0:
            outcomes = waiting.pop()
            for row in np.unique(self._row[outcomes.one, outcomes.other]).tolist():
                if row not in found:
                    found[row] = self._drawn(int(one[row]), int(other[row]))
                    waiting.append(found[row])
        return found

    def _drawn_pairs(self) -> tuple[Integers, Integers]:
        """Pairs of states whose gaps are stored, each once; (end, end) is the last."""
        one, other = np.triu_indices(self.end + 1)
        return one, other

    def _alternatives(self) -> tuple[list[OutcomeList], list[OutcomeList]]:
        """Requested returns and gaps: those of each state's actions."""
        A = self._model.shape[2]
        self.actions = list(combinations(range(A), 2))
        returns = [self._given(i, a) for i in range(self.end) for a in range(A)]
        return returns, [self._given_pair(i, a, b) for i in range(self.end) for a, b in self.actions]

    def final_gaps(self, final: Floats) -> dd.DoubleDouble:
        """Gaps of all drawn rows if states have these final values [S]."""
        values = np.append(final[self.states], 0.0)
        one, other = self._pairs
        return dd.difference(values[one], values[other])

    @property
    def shares_choices(self) -> bool:
        """Whether one uniform number selects the actions of all branches: its break points move mass by rounding."""
        return self._coupling.policy_luck == "shared"

    def list_all(self) -> bool:
        """Whether every outcome of positive probability is among the steps.

        With shared policy luck, rounding may lose an action whose break points are closer than one unit of rounding.
        """
        if not self.shares_choices:
            return True
        _, actions = shared_choices(self._policy)
        return _exact_choices(self._policy) <= {tuple(row) for row in actions.tolist()}

    def return_row(self, s: int, a: int) -> int:
        """Row of `given` for a non-terminal state."""
        return self._at(int(np.searchsorted(self.states, s)) * self._model.shape[2] + a)

    def gap_row(self, s: int, a: int, b: int) -> int:
        """Row of `given` for a < b and a non-terminal state."""
        i = int(np.searchsorted(self.states, s))
        return self._at(self._returns + i * len(self.actions) + self.actions.index((a, b)))

    def gap_rows(self, gaps: Sequence[tuple[int, int, int]]) -> Integers:
        """Rows of `given` for gaps (s, a, b), each once."""
        return np.unique([self.gap_row(s, min(a, b), max(a, b)) for s, a, b in gaps])

    def _choices(self, weight: float) -> list[tuple[float, Floats]]:
        if self._coupling.policy_luck == "independent":
            return [(weight, self._policy.probs)]
        widths, actions = shared_choices(self._policy)
        one_hot = np.eye(self._policy.probs.shape[1])
        return [(weight * float(width), one_hot[chosen]) for width, chosen in zip(widths, actions, strict=True)]

    def _branch(self, i: int, scenarios: Floats, choices: Floats) -> OutcomeList:
        """One branch that draws its action, given the shared randomness."""
        if i == self.end:
            return self._nothing(1.0)
        s = self.states[i]
        k, a = np.nonzero(np.logical_and.outer(scenarios[s] > 0, choices[s] > 0))
        chance, n = scenarios[s][k] * choices[s][a], self._next[s, k, a]
        chance, gain, tail, n, _ = self._joined_equals(
            chance, self._model.reward[s, k, a], np.zeros(n.size), n, np.zeros(n.size)
        )
        return OutcomeList(chance, gain, tail, n, np.full(n.size, self.end))

    def _drawn(self, i: int, j: int) -> OutcomeList:
        """Two distinct branches in states i and j that draw their actions."""
        if i == j < self.end and self._coupling.shared_in_a_state:
            return self._same_state(i)
        return self._apart(i, j)

    def _apart(self, i: int, j: int) -> OutcomeList:
        """Two branches that are independent given the randomness shared between states."""
        parts = [
            _product(w, given[i], given[j]) for (w, _, _), given in zip(self._shared_draws, self._branches, strict=True)
        ]
        return joined(parts)

    def _same_state(self, i: int) -> OutcomeList:
        """Two branches that share a scenario; they merge if they draw the same action."""
        s = self.states[i]
        pi = self._policy.probs[s]
        if self._coupling.policy_luck == "shared":
            return self._nothing(1.0)
        a, b = np.nonzero(np.logical_and.outer(pi > 0, pi > 0))
        parts = [self._nothing(float((pi * pi).sum()))]
        for x, y in zip(a, b, strict=True):
            if x != y:
                parts.append(self._together((i, int(x)), (i, int(y)), float(pi[x] * pi[y])))
        return joined(parts)

    def _nothing(self, chance: float) -> OutcomeList:
        return OutcomeList(np.full(1, chance), np.zeros(1), np.zeros(1), np.full(1, self.end), np.full(1, self.end))

    def _together(self, one: tuple[int, int], other: tuple[int, int], weight: float) -> OutcomeList:
        """Two given actions, each (state, action), that share the scenario of their state or place."""
        (i, a), (j, b) = one, other
        s, t = self.states[i], self.states[j]
        k = np.flatnonzero(self._model.prob[s])
        gain, tail = dd.difference(self._model.reward[s, k, a], self._model.reward[t, k, b])
        return OutcomeList(weight * self._model.prob[s, k], gain, tail, self._next[s, k, a], self._next[t, k, b])

    def _given(self, i: int, a: int) -> OutcomeList:
        """One given action."""
        s = self.states[i]
        k = np.flatnonzero(self._model.prob[s])
        reward, end = self._model.reward[s, k, a], np.full(k.size, self.end)
        return OutcomeList(self._model.prob[s, k], reward, np.zeros(k.size), self._next[s, k, a], end)

    def _given_pair(self, i: int, a: int, b: int) -> OutcomeList:
        """Two given actions of one state."""
        if self._coupling.shared_in_a_state:
            return self._together((i, a), (i, b), 1.0)
        return _product(1.0, self._given(i, a), self._given(i, b))

    def _steps(self, rows: list[OutcomeList]) -> Steps:
        """Join equal outcomes, and convert pairs to rows."""
        if not rows:
            none = np.zeros(0)
            return Steps(np.zeros(1, np.int64), none, none, np.zeros(0, np.int64), none, dd.of(none))
        merged = [self._merged(outcomes) for outcomes in rows]
        counts = [part[0].size for part in merged]
        chance, gain, tail, source, factor = (np.concatenate(parts) for parts in zip(*merged, strict=True))
        scaled = self.scale.divide(gain)
        # A gain that is not 0 must not become 0, because the kernel treats 0 as exact.
        scaled = np.where((scaled == 0) & (gain != 0), np.copysign(5e-324, gain), scaled)
        return Steps(np.cumsum([0, *counts]), chance, scaled, source, factor, dd.DoubleDouble(gain, tail))

    def _merged(self, outcomes: OutcomeList) -> tuple[Floats, Floats, Floats, Integers, Floats]:
        source = self._row[outcomes.one, outcomes.other]
        if self.discount == 0:  # later rewards do not count, as after the end
            source = np.full_like(source, self._row[self.end, self.end])
        factor = np.where(outcomes.one <= outcomes.other, self.discount, -self.discount)
        return self._joined_equals(outcomes.chance, outcomes.gain, outcomes.tail, source, factor)

    def _joined_equals(
        self, chance: Floats, gain: Floats, tail: Floats, source: Integers, factor: Floats
    ) -> tuple[Floats, Floats, Floats, Integers, Floats]:
        order = np.lexsort((factor, source, tail, gain))
        chance, gain, tail, source, factor = chance[order], gain[order], tail[order], source[order], factor[order]
        new = np.ones(order.size, bool)
        new[1:] = np.any([key[1:] != key[:-1] for key in (gain, tail, source, factor)], axis=0)
        self.most_merged = max(self.most_merged, int(np.bincount(np.cumsum(new), minlength=1).max()))
        return np.add.reduceat(chance, np.flatnonzero(new)), gain[new], tail[new], source[new], factor[new]


def _exact_choices(policy: TabularPolicy) -> set[tuple[int, ...]]:
    """Actions of all states for each value of one uniform number, from the stored probabilities in rationals."""
    rows = [list(accumulate(Fraction(p) for p in row)) for row in policy.probs.tolist()]
    ends = [[end / row[-1] for end in row] for row in rows]
    edges = sorted({Fraction(0)}.union(*ends) - {Fraction(1)})
    return {tuple(bisect_right(row, edge) for row in ends) for edge in edges}


def _taken(steps: Steps, rows: Integers) -> Steps:
    """Some rows of the steps."""
    counts = np.diff(steps.starts)[rows]
    starts = np.append(0, np.cumsum(counts))
    at = np.arange(starts[-1]) + np.repeat(steps.starts[rows] - starts[:-1], counts)
    gain, tail = (word[at] for word in steps.exact)
    return Steps(
        starts, steps.chance[at], steps.gain[at], steps.source[at], steps.factor[at], dd.DoubleDouble(gain, tail)
    )


def _product(weight: float, one: OutcomeList, other: OutcomeList) -> OutcomeList:
    """Two branches that are independent given the shared randomness."""
    shape = (one.chance.size, other.chance.size)
    gain, tail = dd.difference(one.gain[:, None], other.gain)  # single returns have no tail
    return OutcomeList(
        weight * np.multiply.outer(one.chance, other.chance).ravel(),
        gain.ravel(),
        tail.ravel(),
        np.broadcast_to(one.one[:, None], shape).ravel(),
        np.broadcast_to(other.one, shape).ravel(),
    )


def joined(parts: list[OutcomeList]) -> OutcomeList:
    """Concatenation of several lists of outcomes."""
    return OutcomeList(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in OutcomeList.__annotations__)
    )


class PolicySteps(DistributionSteps):
    """Steps whose alternatives are policies: their returns and gaps are those of policy-drawn branches."""

    def __init__(
        self,
        blocks: StackedTable,
        policy: TabularPolicy,
        coupling: Coupling,
        scale: Scale,
        allowed_bytes: float,
        *,
        every_pair: bool = False,
    ) -> None:
        self._blocks = blocks
        self._joint = joint_actions(policy, coupling)
        super().__init__(blocks.model, policy, coupling, scale, allowed_bytes, every_pair=every_pair)

    def return_row(self, s: int, i: int) -> int:
        """Row of `given` for policy i from a non-terminal state."""
        return self._at(int(np.searchsorted(self._starts, s)) * self._blocks.count + i)

    def gap_row(self, s: int, i: int, j: int) -> int:
        """Row of `given` for policies i < j."""
        at = int(np.searchsorted(self._starts, s))
        return self._at(self._returns + at * len(self.actions) + self.actions.index((i, j)))

    def rows_of(self, states: Integers) -> Booleans:
        """Rows of `given` of these states, True or False."""
        asked = np.isin(self._starts, states)
        return np.concatenate([np.repeat(asked, self._blocks.count), np.repeat(asked, len(self.actions))])

    @property
    def _starts(self) -> Integers:
        """Non-terminal states of the first block."""
        return np.asarray(self.states[self.states < self._blocks.block])

    def _drawn_pairs(self) -> tuple[Integers, Integers]:
        one, other = super()._drawn_pairs()
        block_of = np.append(self.states // self._blocks.block, -1)
        kept = (block_of[one] != block_of[other]) | (one == self.end)
        return one[kept], other[kept]

    def _alternatives(self) -> tuple[list[OutcomeList], list[OutcomeList]]:
        P, per_block = self._blocks.count, self._starts.size
        self.actions = list(combinations(range(P), 2))
        returns = [self._drawn(i * per_block + s, self.end) for s in range(per_block) for i in range(P)]
        gaps = [self._drawn(i * per_block + s, j * per_block + s) for s in range(per_block) for i, j in self.actions]
        return returns, gaps

    def _drawn(self, i: int, j: int) -> OutcomeList:
        """Two branches of different policies; at the same place they may share its scenario and nothing else."""
        coupling, block = self._coupling, self._blocks.block
        within = coupling.shared_in_a_state and not coupling.shared_between_states
        if not within or self.end in (i, j) or self.states[i] % block != self.states[j] % block:
            return self._apart(i, j)
        s, t = self.states[i], self.states[j]
        joint = self._joint(np.array([s]), np.array([t]))[0]
        pi = self._policy.probs
        # Every possible outcome is listed, even if its probability underflows.
        listed = joint > 0 if coupling.policy_luck == "shared" else np.logical_and.outer(pi[s] > 0, pi[t] > 0)
        a, b = np.nonzero(listed)
        return joined([self._together((i, int(x)), (j, int(y)), float(joint[x, y])) for x, y in zip(a, b, strict=True)])
