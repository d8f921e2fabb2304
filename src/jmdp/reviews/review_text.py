"""A review as text: the verdict, the parts of the return, the worst decisions, and how the values were found.

Several reviews as text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jmdp.base import rounding
from jmdp.base.interval import Estimate
from jmdp.base.rounding import between, counted
from jmdp.results.certificate import Outcome
from jmdp.results.text import ESTIMATES, Written, aligned, indented, lines, paragraphs, percent, shown
from jmdp.reviews.decision import MISTAKE, NONE, RIGHT, Decision
from jmdp.statistics.anytime import missing

if TYPE_CHECKING:
    from jmdp.reviews.review import Review
    from jmdp.reviews.reviews import Reviews

_WORST = 5
"""Decisions that are printed."""


def size(estimate: Estimate) -> str:
    """The size of a number, with its interval if that does not support three digits."""
    positive = estimate if float(estimate) >= 0 else estimate.negative()
    digits = rounding.supported_digits(positive, 3)
    return shown(positive) if digits is None else rounding.without_zeros(positive, digits, 6)


def verdict(review: Review) -> str:
    """The verdict in one sentence: what was earned, the luck in it, and the worst decision."""
    r = review
    if all(one.fortune == NONE for one in r.decisions):
        luck = "luck is negligible" if r.exact else "nothing was random after the start"
    elif r.luck.low > 0 or r.luck.high < 0 or not r.luck.has_interval:
        luck = f"luck {'added' if float(r.luck) > 0 else 'cost'} {size(r.luck)}"
    else:
        luck = f"luck is not distinguishable from 0 ({shown(r.luck)})"
    earned = f"earned {shown(r.total)}, {shown(r.expectation)} is expected"
    return f"{subject(r)} {earned}: {luck}; {_skilled(r)}{_decided(r)}."


def subject(r: Review) -> str:
    """What is reviewed: an episode, or the periods of a history."""
    return f"Episode {r.episode}" if r.month is None else f"The actions of {r.month.period}"


def in_this_luck(r: Review) -> list[tuple[str, float]]:
    """What the reviewed actions and each other policy earn in the reviewed steps, the most first."""
    found = {"reviewed actions": float(r.earned), **r.others}
    return sorted(found.items(), key=lambda pair: -pair[1])


def _skilled(r: Review) -> str:
    """What the decisions added, if the policy is not its own reference."""
    if r.reference is None:
        return ""
    if r.skill.has_interval and r.skill.low <= 0 <= r.skill.high and r.skill.high > r.skill.low:
        return f"the decisions are as good as those of the reference, as far as can be told ({shown(r.skill)}); "
    return f"the decisions {'added' if float(r.skill) >= 0 else 'cost'} {size(r.skill)}; "


def _decided(r: Review) -> str:
    mistakes = [one for one in r.decisions if one.judgement == MISTAKE]
    if not mistakes:
        if all(one.judgement == RIGHT for one in r.decisions):
            most = r.regret.high if r.exact else 0.0
            tied = f" by more than {rounding.at_most(most, 2)}" if most else ""
            return f"no action would have been better on average in any step{tied}"
        if r.has_intervals:
            return "no mistake is shown"
        regretted = r.worst(1)
        return _of(r, regretted[0]) if regretted else "no other action has a larger value"
    worst = r.worst(1)[0]
    count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes, the worst"
    return f"{count} {_of(r, worst)}"


def _of(r: Review, one: Decision) -> str:
    where = f"in step {one.step}" if r.month is None else f"in step {one.step} ({one.state})"
    return f"{where}: {one.action} instead of {one.best} costs {size(one.regret)} on average"


def review_text(review: Review) -> str:
    """The review as sentences and a table of the worst decisions."""
    r = review
    ended = "the episode ended" if r.trajectory.terminated else "the episode did not end"
    steps = f"steps {r.first} to {r.first + len(r) - 1}" if len(r) else "no steps"
    parts: dict[str, Estimate] = {"earned": r.earned}
    if not r.final.low == r.final.high == 0:
        parts["+ value of the last state"] = r.final
    parts |= {"= expectation": r.expectation, "+ skill": r.skill, "+ luck": r.luck}
    return paragraphs(
        [
            *([r.deviation.sentence()] if r.deviation is not None else []),
            verdict(r),
            f"{steps} of {r.simulator}, policy {r.policy}; {ended}; discount {r.discount:g}, seed {r.seed}",
            indented(aligned([[name, shown(value)] for name, value in parts.items()])),
            *_others(r),
            *_table(r.worst(_WORST)),
            *notes(r),
        ]
    )


def _others(r: Review) -> list[list[str]]:
    """What other policies would have earned."""
    if not r.others:
        return []
    rows = aligned([[name, f"{earned:.6g}"] for name, earned in in_this_luck(r)])
    return [["earned in this very luck", *indented(rows)]]


def _table(worst: Sequence[Decision]) -> list[str | list[str]]:
    if not worst:
        return ["no decision has a regret", []]
    rows = [
        {
            "step": one.step,
            "state": one.state,
            "action": one.action,
            "best action": one.best,
            "regret": regret_cell(one.regret),
            "luck": luck_cell(one),
            "judgement": one.kind,
        }
        for one in worst
    ]
    return [["worst decisions", *indented(lines(rows))]]


def regret_cell(value: Estimate) -> Estimate:
    """A regret, which is never negative: without an upper end it has no interval."""
    return value if math.isfinite(value.high) else Estimate.within(float(value), None)


def luck_cell(one: Decision) -> Estimate | Written:
    """Luck, 0 where nothing was random."""
    return Written("0") if one.fortune == NONE else one.luck


def notes(r: Review) -> list[str]:
    """How the values were found, and what the intervals mean."""
    reference = "of the reviewed policy itself" if r.reference is None else f"of the reference policy, {r.reference}"
    counts = [one.samples for one in r.values[:-1]] or [0]
    certain = not r.exact and max(counts) <= 1 and all(one.value_error == 0 for one in r.values)
    said = [*(r.month.sentences() if r.month is not None else [])]
    said.append(f"values {reference}, by {'rollouts' if certain else r.method}")
    if r.exact:
        said.append("values are exact up to certified errors, which the intervals include")
    elif not r.has_intervals:
        why = "values are those of a function whose error is unknown, so they have no intervals"
        same = "all rollouts had the same return, so nothing is known about other outcomes, and there are no intervals"
        said.append(same if "rollouts" in r.method else why)
    elif certain:
        said.append("nothing is random after the start, so one rollout of each action is exact")
    else:
        wrong = (1 - r.confidence) * len(r)
        many = between(min(counts), max(counts))
        said.append(
            f"{many} rollouts of each action from each state, from seed {r.seed}; each interval has confidence "
            f"{r.confidence:g} (large samples): on average at most {wrong:.2g} of {len(r)} regrets are outside theirs"
        )
        said.append(
            f"{missing(max(counts), 'rollout')}; intervals allow for it where rollouts vary less than half as much "
            "as from another step, or fewer than 8 of them differ"
        )
    if "rollouts" in r.method and not r.trajectory.terminated:
        said.append(f"rewards after step {r.end - 1} do not count")
    if r.outcome is Outcome.INTERRUPTED:
        said.append(f"interrupted: continue with steps=range({r.first + len(r)}, …)")
    return said


_MOST_GROUPS = 8
"""States that are printed."""


def answer(several: Reviews) -> str:
    """The verdict in one sentence."""
    s, rows = several, several.rows()
    lost = [row for row in rows if float(row["regret per episode"]) > 0]
    worst = "no decision has a regret"
    if lost:
        name, regret = lost[0]["state"] or "states without a label", lost[0]["regret per episode"]
        cost = f"{size(regret)} per episode"
        worst = f"most is lost in state {name}: {cost}"
        if regret.low <= 0:
            worst = f"no state is shown to lose anything (largest estimate: state {name}, {cost})"
    if all(float(share) != float(share) for share in s.shares.values()):
        spread = "all returns are equal"
    else:
        spread = f"luck is {percent(s.shares['luck'])} of the variance of returns"
    cut = "" if all(one.trajectory.terminated for one in s) else " in the reviewed steps"
    return f"{counted(len(s), 'episode')} earn{'s' * (len(s) == 1)} {shown(s.mean)} on average{cut}; {spread}; {worst}."


def reviews_text(several: Reviews) -> str:
    """The verdict, the states with the largest regret, and the value corrected for luck."""
    s, rows = several, several.rows()
    mistakes = ["mistakes"] if s.first.has_intervals else []  # otherwise none is decided
    columns = ("visits", *mistakes, "mean regret", "regret per episode", "mean luck")
    more = [f"… and {len(rows) - _MOST_GROUPS} more states"] if len(rows) > _MOST_GROUPS else []
    first = s.first
    return paragraphs(
        [
            answer(s),
            f"{first.simulator}, policy {first.policy}; discount {first.discount:g}, seed {first.seed}",
            indented([*lines(rows[:_MOST_GROUPS], ["state", *columns]), *more]),
            *episode_notes(s),
        ]
    )


def episode_notes(s: Reviews) -> list[str]:
    """The corrected value, shares of the variance, and what the intervals assume."""
    factor = s.episodes_factor
    simulated = f"; the review simulated {s.cost:.3g} times the steps of the episodes themselves" if s.cost else ""
    shares = ", ".join(f"{name} {percent(share)}" for name, share in s.shares.items() if float(share) == float(share))
    kind = "of the reference policy"
    if not s.first.exact:
        kind = "estimates; regrets, being maxima of them, tend to be too large"
    return [
        f"mean return {shown(s.mean)}; corrected for luck {shown(s.corrected)}",
        *([] if float(factor) != float(factor) else [f"the corrected mean needs {_times(factor)} episodes{simulated}"]),
        *([f"shares of the variance of returns: {shares}"] if shares else []),
        f"{counted(len(s), 'episode')}, seed {s.first.seed}; intervals of averages over episodes: confidence "
        f"{s.first.confidence:g} (large samples); values of decisions are {kind}",
        f"values by {s.first.method}; {ESTIMATES}",
    ]


def _times(factor: Estimate) -> str:
    if float(factor) == float("inf"):
        return "infinitely many times fewer"
    if float(factor) >= 1:
        return f"{shown(factor)} times fewer"
    more = Estimate(1 / float(factor), 1 / factor.high, 1 / factor.low if factor.low > 0 else math.inf)
    return f"{shown(more)} times more"
