"""Joint distributions of the outcomes of all actions in one state, in exact rationals and plain loops.

A list of an action is [(probability, outcome), …], with outcome = (reward, next state). Joint distributions are
dictionaries from a tuple with one outcome for each action to its probability.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import pairwise
from itertools import product as combinations

Outcome = tuple[float, int]
List = list[tuple[Fraction, Outcome]]
Joint = dict[tuple[Outcome, ...], Fraction]


def exact(pairs) -> List:
    """A list with probabilities that sum to 1 exactly."""
    total = sum(Fraction(float(p)) for p, _ in pairs)
    return [(Fraction(float(p)) / total, outcome) for p, outcome in pairs]


def common_uniform(lists: list[List]) -> Joint:
    """One uniform number for all actions, each list in its order."""
    ends = {Fraction(0), Fraction(1)}
    for one in lists:
        ends |= {sum((p for p, _ in one[: j + 1]), Fraction(0)) for j in range(len(one))}
    points = sorted(ends)
    joint: Joint = defaultdict(Fraction)
    for low, high in pairwise(points):
        joint[tuple(at(one, low) for one in lists)] += high - low
    return dict(joint)


def at(one: List, u: Fraction) -> Outcome:
    """The outcome whose interval contains u."""
    total = Fraction(0)
    for p, outcome in one:
        total += p
        if u < total:
            return outcome
    raise AssertionError("the list does not sum to 1")


def by_reward(one: List) -> List:
    """The list by reward, then next state."""
    return sorted(one, key=lambda pair: pair[1])


def independent(lists: list[List]) -> Joint:
    """All combinations."""
    joint: Joint = defaultdict(Fraction)
    for combination in combinations(*lists):
        chance = Fraction(1)
        for p, _ in combination:
            chance *= p
        joint[tuple(outcome for _, outcome in combination)] += chance
    return dict(joint)


def maximal(lists: list[List]) -> Joint:
    """The same next state with probability Σ_n min_a p_a(n); the remainders by one uniform number."""
    moves = [defaultdict(Fraction) for _ in lists]
    for move, one in zip(moves, lists, strict=True):
        for p, (_, n) in one:
            move[n] += p
    least = {n: min(move[n] for move in moves) for n in {n for move in moves for n in move}}
    joint: Joint = defaultdict(Fraction)
    for n, m in least.items():
        if m:
            given = [[(p / move[n], o) for p, o in one if o[1] == n] for move, one in zip(moves, lists, strict=True)]
            for outcomes, p in common_uniform(given).items():
                joint[outcomes] += m * p
    left = 1 - sum(least.values())
    if left:
        rest = [
            [(p * (1 - least[o[1]] / move[o[1]]) / left, o) for p, o in one if p and move[o[1]] > least[o[1]]]
            for move, one in zip(moves, lists, strict=True)
        ]
        for outcomes, p in common_uniform(rest).items():
            joint[outcomes] += left * p
    return dict(joint)
