"""Stochastic approximation of joint moments: choice of coordinates, sampled steps, and updates.

Each coordinate (see `jmdp.methods.kernels.tables`) has a cell: means first, then squares, then products, with
(x, y) after all products that have a smaller y.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.compiled_kernel import compiled, compiled_part
from jmdp.methods.kernels.tables import ENDED, MEAN, SQUARE

DIGITS = 12
"""Leading binary digits of a cell's update count that determine its step size; exact for counts below 2**12."""

_FIRST = np.float64(1.0).view(np.int64) >> (53 - DIGITS)

RUN = 16
"""Consecutive updates of one block."""

_SHORT = 32

_NOTHING = 1e-200
"""Weights below this are set to 0: arithmetic on subnormal numbers is slow."""


class StepTables(NamedTuple):
    """Tables from which a step of one or two branches is drawn."""

    cumulative_prob: Floats  # [S, K]
    reward: Floats  # [S, K, A]
    successor: Integers  # [S, K, A], the next state, or ENDED
    cumulative_policy: Floats  # [S, A]
    shared_in_a_state: bool
    shared_between_states: bool
    shared_policy_luck: bool
    state_of: Integers  # [X]


class UpdateRule(NamedTuple):
    """Parameters of the update of a cell, given a sampled step."""

    steps: Floats  # step sizes, indexed by the leading bits of a count as a float
    discount: float
    branches_merge: bool  # branches at the same coordinate merge
    reference: Floats  # [X], subtracted from the return
    state_of: Integers  # [X]


@compiled_part()
def pick(cumulative: Floats, u: float) -> int:
    """Return the first i with u < cumulative[i]. Short rows are counted without branches, to avoid mispredictions."""
    if cumulative.size <= _SHORT:
        i = 0
        for j in range(cumulative.size - 1):
            i += u >= cumulative[j]
        return i
    return int(np.searchsorted(cumulative, u, side="right"))


@compiled()
def draw_blocks(
    uniform: Floats,  # [updates]
    block_luck: Floats,  # one uniform number for every RUN updates
    shares: Floats,  # [4], cumulative probabilities of mean, diagonal, same state, cross
    live: Integers,  # [live states], the nonterminal states
    actions: int,
    branches_merge: bool,  # branches at the same coordinate merge
    one: Integers,  # [updates]
    other: Integers,  # [updates]
) -> None:
    """Draw a block by its share for every RUN updates, and coordinates uniformly within it."""
    for first in range(0, one.size, RUN):
        block = pick(shares, block_luck[first // RUN])
        for k in range(first, min(first + RUN, one.size)):
            # One uniform number has enough bits for all choices here; each choice uses up its leading digits.
            at, rest = digit(uniform[k], live.size)
            a, rest = digit(rest, actions)
            x = live[at] * actions + a
            if block < 2:
                one[k], other[k] = x, MEAN if block == 0 else SQUARE
                continue
            t = at
            if block == 3:
                t, rest = digit(rest, live.size - 1)
                t += t >= at
            if block == 3 or not branches_merge:
                b, rest = digit(rest, actions)
            else:
                b, rest = digit(rest, actions - 1)
                b += b >= a
            y = live[t] * actions + b
            one[k], other[k] = min(x, y), max(x, y)


@compiled_part()
def digit(u: float, base: int) -> tuple[int, float]:
    """Split u in [0, 1) into its first digit in this base and the remainder, again in [0, 1)."""
    scaled = u * base
    first = min(int(scaled), base - 1)
    return first, scaled - first


@compiled()
def are_coordinates(one: Integers, other: Integers, is_live: Booleans, branches_merge: bool) -> bool:
    """True if all are valid, ordered coordinates of nonterminal states; others would index wrong cells."""
    for k in range(one.size):
        x, y = one[k], other[k]
        if not (0 <= x < is_live.size and SQUARE <= y < is_live.size and is_live[x]):
            return False
        if y >= 0 and not (is_live[y] and (y > x or (y == x and not branches_merge))):
            return False
    return True


@compiled()
def draw_outcomes(
    uniform: Floats,  # [4, updates]
    tables: StepTables,
    one: Integers,  # [updates]
    other: Integers,  # [updates], < 0 for a single branch
    gains: Floats,  # [2, updates]
    ahead: Integers,  # [2, updates], coordinate of each branch after the step, or ENDED
) -> None:
    """Sample a step of one branch (Eq. (15)), or of two distinct ones, from nonterminal states.

    Under Local, two branches in different states follow Eq. (17), in one state Eq. (18).
    """
    reward, successor, state_of = tables.reward, tables.successor, tables.state_of
    cumulative_prob, cumulative_policy = tables.cumulative_prob, tables.cumulative_policy
    actions = reward.shape[2]
    for k in range(one.size):
        x, y = one[k], other[k]
        s = state_of[x]
        a = x - s * actions
        i = pick(cumulative_prob[s], uniform[0, k])
        gains[0, k] = reward[s, i, a]
        n = successor[s, i, a]
        ahead[0, k] = ENDED if n == ENDED else n * actions + pick(cumulative_policy[n], uniform[1, k])
        if y < 0:
            continue
        t = state_of[y]
        b = y - t * actions
        if not (tables.shared_in_a_state and s == t):
            i = pick(cumulative_prob[t], uniform[0 if tables.shared_between_states else 2, k])
        gains[1, k] = reward[t, i, b]
        n = successor[t, i, b]
        luck = uniform[1 if tables.shared_policy_luck else 3, k]
        ahead[1, k] = ENDED if n == ENDED else n * actions + pick(cumulative_policy[n], luck)


@compiled()
def update(
    cells: Floats,  # [coordinates, 4]: value, updates, sum of values, weight of the start
    rule: UpdateRule,
    one: Integers,  # [updates], as in the next three
    other: Integers,
    gains: Floats,
    ahead: Integers,
    td: Floats,  # [4, 3]: updates, sum of TD errors and of their squares in each block
) -> None:
    """Move each cell in turn towards its sampled target (Eq. (28)).

    The targets are Eq. (25) for means, Eq. (26) for squares and Eq. (27) for products, of returns minus `reference`.
    """
    steps, discount, reference, state_of = rule.steps, rule.discount, rule.reference, rule.state_of
    X = reference.size
    square = discount * discount
    for k in range(one.size):
        x, y = one[k], other[k]
        n = ahead[0, k]
        gain, mean = gains[0, k] - reference[x], 0.0
        if n != ENDED:
            gain += discount * reference[n]
            mean = discount * cells[n, 0]
        target = memory = 0.0
        if y == MEAN:
            i, block = x, 0
            target = gain + mean
            if n != ENDED:
                memory = discount * cells[n, 3]
        elif y == SQUARE:
            i, block = X + x, 1
            target = gain * gain + 2 * gain * mean
            if n != ENDED:
                target += square * cells[X + n, 0]
                memory = square * cells[X + n, 3]
        else:
            i, block = 2 * X + y * (y + 1) // 2 + x, 2 if state_of[x] == state_of[y] else 3
            m = ahead[1, k]
            other_gain, other_mean = gains[1, k] - reference[y], 0.0
            if m != ENDED:
                other_gain += discount * reference[m]
                other_mean = discount * cells[m, 0]
            target = gain * other_gain + gain * other_mean + other_gain * mean
            if n != ENDED and m != ENDED:
                high = max(n, m)
                j = X + n if n == m and rule.branches_merge else 2 * X + high * (high + 1) // 2 + min(n, m)
                target += square * cells[j, 0]
                memory = square * cells[j, 3]
        error = target - cells[i, 0]
        cells[i, 1] += 1
        step = steps[(np.float64(cells[i, 1]).view(np.int64) >> (53 - DIGITS)) - _FIRST]
        cells[i, 0] += step * error
        cells[i, 2] += cells[i, 0]
        weight = cells[i, 3] + step * (memory - cells[i, 3])
        cells[i, 3] = weight if weight > _NOTHING else 0.0
        td[block, 0] += 1
        td[block, 1] += error
        td[block, 2] += error * error
