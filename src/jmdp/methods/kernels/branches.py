"""Simulation of branches under shared randomness (luck): one step, and whole returns.

A branch is at a coordinate (state, action). The randomness that two branches share in a step follows from the two flags
of the coupling and its `policy_luck`. With `in_state`, branches at the same coordinate have merged: they share all
draws and stay equal.

Simulation of whole episodes of several policies on a table.

Random numbers are counter-based, not drawn in sequence: the number for step t and a place is u(key, t, place), with
keys for each sample. So each branch is simulated separately, and branches with equal places share their numbers.
"""

from __future__ import annotations

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.compiled_kernel import compiled, compiled_part
from jmdp.methods.kernels.tables import Branches, BranchTables, PolicyTables, SampledReturns, Unsigned

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


_SPREAD, _STEP_SPREAD = np.int64(0x5851F42D4C957F2D), np.int64(0x14057B7EF767814F)
"""Odd multipliers with well-mixed bits."""


@compiled_part()
def choose(cumulative: Floats, u: float) -> int:
    """Return the first i with u < cumulative[i]; the last entry is 1."""
    i = 0
    while u >= cumulative[i]:
        i += 1
    return i


@compiled_part()
def advance(
    rng: np.random.Generator,
    tables: BranchTables,
    state: Integers,  # [branches]
    action: Integers,  # [branches]
    moved: Branches,
) -> None:
    """Move every branch one step; fill `moved`."""
    cumulative_prob, reward, next_state, terminal, cumulative_policy, in_state, between_states, shared_policy_luck = (
        tables
    )
    new_state, new_action, gained, scenario, shared = moved
    common = rng.random() if between_states else 0.0
    policy_luck = rng.random() if shared_policy_luck else 0.0
    for i in range(state.size):
        s = state[i]
        if terminal[s]:
            new_state[i], new_action[i], gained[i], scenario[i] = s, action[i], 0.0, -1
            continue
        meets = coalesced = -1
        if in_state:
            for j in range(i):
                if state[j] == s:
                    meets = j
                    if action[j] == action[i]:
                        coalesced = j
                        break
        if meets >= 0:
            k = scenario[meets]
        elif between_states:
            k = choose(cumulative_prob[s], common)
        else:
            k = choose(cumulative_prob[s], rng.random())
        n = next_state[s, k, action[i]]
        scenario[i], gained[i], new_state[i], shared[i] = k, reward[s, k, action[i]], n, coalesced >= 0
        if coalesced >= 0:
            new_action[i] = new_action[coalesced]
        elif shared_policy_luck:
            new_action[i] = choose(cumulative_policy[n], policy_luck)
        else:
            new_action[i] = choose(cumulative_policy[n], rng.random())


@compiled()
def sample_returns(
    rng: np.random.Generator,
    tables: BranchTables,
    discount: float,
    horizon: int,
    start: int,
    first: Integers,  # [branches], the actions compared
    out: SampledReturns,
) -> None:
    """Fill `out` with discounted returns over `horizon` steps; each row is one joint sample of all branches.

    `ends` is the final coordinate of each branch: state × A + action, or −1 in a terminal state. Branches that do not
    merge get distinct numbers below −1 instead. `gains` is a fingerprint of all rewards and their steps, since equal
    sums may result from different rewards.
    """
    branches, terminal, reward = first.size, tables.terminal, tables.reward
    returns, ends, gains, exact, totals = out
    state, action = np.empty(branches, np.int64), np.empty(branches, np.int64)
    new_state, new_action = np.empty(branches, np.int64), np.empty(branches, np.int64)
    gained, scenario, shared = np.empty(branches), np.empty(branches, np.int64), np.empty(branches, np.bool_)
    moved = Branches(new_state, new_action, gained, scenario, shared)
    for row in range(returns.shape[0]):
        for i in range(branches):  # a copy of slices would compile the message for different shapes: half of all code
            state[i], action[i] = start, first[i]
            returns[row, i], gains[row, i], exact[row, i] = 0.0, 0, True
        weight = 1.0
        for t in range(horizon):
            advance(rng, tables, state, action, moved)
            over = True
            for i in range(branches):
                if scenario[i] >= 0:
                    totals[1 if shared[i] else 0] += 1
                if gained[i] != 0:  # steps without reward do not affect the fingerprint
                    returns[row, i] += weight * gained[i]
                    exact[row, i] = exact[row, i] and t == 0
                    gains[row, i] = fingerprint(gains[row, i], t, gained[i])
                    totals[2] = max(totals[2], abs(gained[i]))
                state[i], action[i] = new_state[i], new_action[i]
                over = over and terminal[state[i]]
            if over:
                break
            weight *= discount
        for i in range(branches):
            if terminal[state[i]]:
                ends[row, i] = -1
            elif tables.in_state:
                ends[row, i] = state[i] * reward.shape[2] + action[i]
            else:
                ends[row, i] = -2 - i


@compiled_part()
def fingerprint(before: np.int64, t: int, reward: float) -> np.int64:
    """64-bit fingerprint of all rewards up to this one and of their steps: products with odd numbers, folded."""
    mixed = (before ^ np.float64(reward).view(np.int64)) * _SPREAD + t * _STEP_SPREAD
    return mixed ^ (mixed >> 29)
