"""Simulation of whole episodes of several policies on a table.

Random numbers are counter-based, not drawn in sequence: the number for step t and a place is u(key, t, place), with
keys for each sample. So each branch is simulated separately, and branches with equal places share their numbers.
"""

from __future__ import annotations

import numpy as np

from jmdp.base.arrays import Integers
from jmdp.base.compiled_kernel import compiled, compiled_part
from jmdp.methods.kernels.branches import choose, fingerprint
from jmdp.methods.kernels.tables import PolicyTables, SampledReturns, Unsigned

_STEP, _PLACE = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11, _1 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11), np.uint64(1)


@compiled_part()
def _mixed(z: np.uint64) -> np.uint64:
    """Finaliser of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014)."""
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)


@compiled_part()
def uniform(key: np.uint64, t: int, place: int) -> float:
    """Uniform number in [0, 1): SplitMix64 from this key after t + 1 steps, mixed again with the place."""
    z = _mixed(key + (np.uint64(t) + _1) * _STEP)
    z = _mixed(z + np.uint64(place) * _PLACE)
    return (z >> _11) * 2.0**-53


@compiled()
def policy_returns(
    tables: PolicyTables,
    keys: Unsigned,  # [n, 3], keys of start, scenarios and action draws
    discount: float,
    horizon: int,
    starts: Integers,  # [n, P], index of the start; if it is negative, one is drawn and filled in
    out: SampledReturns,
) -> None:
    """Fill `out` with discounted returns of every policy over at most `horizon` steps.

    `ends` is −1 if the episode ended, else the index of the policy: branches of different policies never merge.
    """
    cumulative_prob, reward, next_state, terminal, policy, start_state, cumulative_start = tables[:7]
    in_state, between_states, shared_policy_luck = tables[7:]
    returns, ends, gains, exact, totals = out
    for row in range(returns.shape[0]):
        for i in range(returns.shape[1]):
            if starts[row, i] < 0:
                u = uniform(keys[row, 0], 0, 0 if in_state else i + 1)
                starts[row, i] = np.searchsorted(cumulative_start, u, side="right")
            s = start_state[starts[row, i]]
            total, mark, rewarded, weight = 0.0, np.int64(0), 0, 1.0
            for t in range(horizon):
                if terminal[s]:
                    break
                a = choose(policy[i, s], uniform(keys[row, 2], t, 0 if shared_policy_luck else i + 1))
                place = 0 if between_states else (s + 1 if in_state else i + 1)
                k = choose(cumulative_prob[s], uniform(keys[row, 1], t, place))
                gained = reward[s, k, a]
                if gained != 0:
                    total += weight * gained
                    rewarded += t + 1
                    mark = fingerprint(mark, t, gained)
                    totals[2] = max(totals[2], abs(gained))
                s = next_state[s, k, a]
                weight *= discount
                totals[0] += 1
            returns[row, i], gains[row, i], exact[row, i] = total, mark, rewarded <= 1
            ends[row, i] = -1 if terminal[s] else i
