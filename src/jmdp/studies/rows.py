"""Rows of a study: the result in one state, a row for each alternative."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from jmdp.base.interval import Estimate
from jmdp.comparisons.comparison import Comparison
from jmdp.results.evaluation import Evaluation
from jmdp.results.outcome import Outcome
from jmdp.statistics.means import ENOUGH
from jmdp.studies.points import printable

Row = dict[str, Any]

_LONGEST_ERROR = 20_000
_VARYING = re.compile(r" at 0x[0-9a-fA-F]+|(?<=repeated) \d+(?= more)")
"""Parts of tracebacks that differ between processes: addresses, and depths of recursion."""


def comparison_rows(found: Comparison) -> list[Row]:
    """Rows of a comparison: the gap of each alternative to its rival, the leader; that of the leader, the runner-up."""
    names = found.actions
    means, lows, highs = found.summary.means
    leader, second = names.index(found.leader), names.index(found.runner_up)
    gaps = _gaps(found, leader)
    rows = []
    for i, name in enumerate(names):
        rival = second if i == leader else leader
        rows.append(
            {
                "best": name == found.choice or (found.outcome is Outcome.EQUAL_BEST and name in found.survivors),
                "leader": i == leader,
                **_columns("mean", Estimate(means[i], lows[i], highs[i])),
                "rival": names[rival],
                **_columns("gap", gaps[second] if i == leader else gaps[i].negative()),
                **_columns("better", found.superiority(name, names[rival])),
                **_columns("worse", found.superiority(names[rival], name)),
                "n": int(found.draws.counts[i]),
                "outcome": found.outcome.name,
            }
        )
    return rows


def _gaps(found: Comparison, leader: int) -> dict[int, Estimate]:
    """Mean advantage of the leader over each other alternative, from the samples that both have."""
    others = [i for i in range(len(found.actions)) if i != leader]
    summary, counts = found.summary, found.draws.counts
    if summary.certain or (found.return_range is None and counts.min() < ENOUGH):
        return {i: found.advantage(found.actions[leader], found.actions[i]) for i in others}
    gaps = {}
    for n in np.unique(counts[others]):  # alternatives with equally many samples together
        group = [leader, *(i for i in others if counts[i] == n)]
        means = summary.samples.of(*group).returns.mean(axis=0)
        low, high = summary.gap_limits(leader, group)
        for at, i in enumerate(group[1:], 1):
            gaps[i] = Estimate(found.sign * float(means[0] - means[at]), float(low[at]), float(high[at]))
    return gaps


def evaluation_rows(found: Evaluation, indifference: float | None) -> list[Row]:
    """Rows of a certified evaluation of one state."""
    names = [found.actions.name(a) for a in range(found.actions.size)]
    means, A = found.mean[0], range(found.actions.size)
    leader = int(np.argmax(means))
    second = max((a for a in A if a != leader), key=lambda a: means[a])
    gaps = {a: found.gap(found.states[0], found.actions[leader], found.actions[a]) for a in A if a != leader}
    least = min(Estimate.within(gap.mean, gap.mean_interval).low for gap in gaps.values())
    outcome = found.outcome
    if least > 0:
        outcome = Outcome.BEST_FOUND
    elif indifference is not None and least > -indifference:
        outcome = Outcome.GOOD_ENOUGH
    rows = []
    for a in A:
        gap = gaps[second if a == leader else a]
        ahead = Estimate.within(gap.mean, gap.mean_interval)
        not_more = gap.inferiority_bound() if ahead.low > 0 else 1.0  # the largest chance of gap ≤ 0
        more, less = Estimate(math.nan, 1 - not_more, 1.0), Estimate(math.nan, 0.0, not_more)
        error = math.inf if found.certificate is None else float(np.asarray(found.certificate.mean_error)[0, a])
        rows.append(
            {
                "best": a == leader and outcome in (Outcome.BEST_FOUND, Outcome.GOOD_ENOUGH),
                "leader": a == leader,
                **_columns("mean", Estimate.around(float(means[a]), error)),
                "rival": names[second if a == leader else leader],
                **_columns("gap", ahead if a == leader else ahead.negative()),
                **_columns("better", more if a == leader else less),
                **_columns("worse", less if a == leader else more),
                "n": None,
                "outcome": outcome.name,
            }
        )
    return rows


def failed_rows(error: str, alternatives: int) -> list[Row]:
    """Rows of a state whose comparison raised an error."""
    said = printable(_VARYING.sub("", error)[-_LONGEST_ERROR:])
    return [{"best": False, "leader": False, "n": 0, "outcome": Outcome.FAILED.name, "error": said}] * alternatives


def _columns(name: str, estimate: Estimate) -> Row:
    ends: Sequence[float] = (float(estimate), estimate.low, estimate.high)
    value, low, high = (end if math.isfinite(end) else None for end in ends)
    return {name: value, f"{name}_low": low, f"{name}_high": high}
