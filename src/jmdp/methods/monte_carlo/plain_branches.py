"""Branches of a table in plain Python, without numba: bit for bit the samples of `kernels/branches`.

Loading numba takes as long as 2 million steps here, and compiling the kernel as long as 2 million more.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain

import numpy as np

from jmdp.base.arrays import Integers
from jmdp.methods.kernels.tables import BranchTables, SampledReturns

_SPREAD, _STEP_SPREAD, _64_BITS = 0x5851F42D4C957F2D, 0x14057B7EF767814F, (1 << 64) - 1
_SIGN = ((1 << 29) - 1) << 35
"""The bits that the shift of a negative number by 29 fills."""

_Row = tuple[bool, list[float], list[list[tuple[int, float, int]]], list[float]]
"""Whether a state ends the rollout, its cumulative probabilities [K], its outcomes [K][A], its policy [A]."""


class _Rows(dict[int, _Row]):
    """The tables of each state as lists, which Python reads faster than arrays; of the states that are reached only."""

    def __init__(self, tables: BranchTables) -> None:
        self._tables = tables

    def __missing__(self, s: int) -> _Row:
        tables = self._tables
        after, reward = tables.next_state[s], tables.reward[s]
        parts = (part.tolist() for part in (after, reward, reward.view(np.uint64)))
        outcomes = [list(zip(*scenario, strict=True)) for scenario in zip(*parts, strict=True)]
        ended, cumulative, policy = tables.terminal[s], tables.cumulative_prob[s], tables.cumulative_policy[s]
        self[s] = row = bool(ended), cumulative.tolist(), outcomes, policy.tolist()
        return row


class PlainBranches:
    """Simulation of the branches of a table."""

    def __init__(self, tables: BranchTables) -> None:
        self._tables, self._rows = tables, _Rows(tables)

    def sample_returns(
        self,
        rng: np.random.Generator,  # not used for other draws until it is set again: more numbers are drawn than used
        discount: float,
        horizon: int,
        start: int,
        first: Integers,  # [branches], the actions compared
        out: SampledReturns,
    ) -> None:
        """Fill `out` as `kernels.branches.sample_returns` does."""
        draw = chain.from_iterable(iter(lambda: rng.random(256).tolist(), None)).__next__
        rows, actions = self._rows, first.tolist()
        A, in_state = self._tables.reward.shape[2], self._tables.in_state
        between_states, shared_policy_luck = self._tables.between_states, self._tables.shared_policy_luck
        steps = merged = 0
        largest = float(out.totals[2])
        for row in range(len(out.returns)):
            state, action = [start] * len(actions), actions.copy()
            total, mark, exact = [0.0] * len(actions), [0] * len(actions), [True] * len(actions)
            live, weight = [] if rows[start][0] else list(range(len(actions))), 1.0
            for t in range(horizon):
                common = draw() if between_states else None
                policy_luck = draw() if shared_policy_luck else None
                scenarios: dict[int, int] = {}
                moved: dict[int, tuple[int, int, float, int, bool]] = {}  # by coordinate, which merged branches share
                going = []
                for i in live:
                    place = state[i] if in_state else -1 - i
                    coordinate = place * A + action[i]
                    if coordinate in moved:
                        n, b, gained, bits, ended = moved[coordinate]
                        merged += 1
                    else:
                        _, cumulative, outcomes, _ = rows[state[i]]
                        if place not in scenarios:
                            scenarios[place] = bisect_right(cumulative, draw() if common is None else common)
                        n, gained, bits = outcomes[scenarios[place]][action[i]]
                        ended, _, _, policy = rows[n]
                        b = bisect_right(policy, draw() if policy_luck is None else policy_luck)
                        moved[coordinate] = n, b, gained, bits, ended
                        steps += 1
                    state[i], action[i] = n, b
                    if gained != 0:
                        total[i] += weight * gained
                        exact[i] = exact[i] and t == 0
                        mark[i] = _fingerprint(mark[i], t, bits)
                        largest = max(largest, abs(gained))
                    if not ended:
                        going.append(i)
                live = going
                if not live:
                    break
                weight *= discount
            out.returns[row], out.exact[row] = total, exact
            out.gains[row] = np.array(mark, np.uint64).view(np.int64)
            for i, s in enumerate(state):
                out.ends[row, i] = -1 if rows[s][0] else s * A + action[i] if in_state else -2 - i
        out.totals[:] = out.totals[0] + steps, out.totals[1] + merged, largest


def _fingerprint(before: int, t: int, reward: int) -> int:
    """`kernels.branches.fingerprint` of the bits of a reward, with unsigned numbers."""
    mixed = ((before ^ reward) * _SPREAD + t * _STEP_SPREAD) & _64_BITS
    return mixed ^ (mixed >> 29) ^ (_SIGN if mixed >> 63 else 0)
