"""A review as text: the verdict, the parts of the return, the worst decisions, and how the values were found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from jmdp.base import rounding
from jmdp.base.interval import Estimate
from jmdp.comparisons.comparison_table import aligned
from jmdp.comparisons.comparison_table import shown as with_interval
from jmdp.results.outcome import Outcome
from jmdp.results.result import wrapped
from jmdp.reviews.decision import MISTAKE, NONE, RIGHT, Decision
from jmdp.statistics.unseen import missing

_WORST = 5
"""Decisions that are printed."""


class _Reviewed(Protocol):
    """The part of a `Review` that its text reads."""

    def __len__(self) -> int: ...
    @property
    def values(self) -> Sequence[Any]: ...
    @property
    def simulator(self) -> str: ...
    @property
    def policy(self) -> str: ...
    @property
    def reference(self) -> str | None: ...
    @property
    def method(self) -> str: ...
    @property
    def discount(self) -> float: ...
    @property
    def end(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def confidence(self) -> float: ...
    @property
    def episode(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def trajectory(self) -> Any: ...
    @property
    def exact(self) -> bool: ...
    @property
    def has_intervals(self) -> bool: ...
    @property
    def outcome(self) -> Outcome: ...
    @property
    def earned(self) -> Estimate: ...
    @property
    def total(self) -> Estimate: ...
    @property
    def final(self) -> Estimate: ...
    @property
    def expectation(self) -> Estimate: ...
    @property
    def skill(self) -> Estimate: ...
    @property
    def luck(self) -> Estimate: ...
    @property
    def regret(self) -> Estimate: ...
    @property
    def decisions(self) -> list[Decision]: ...
    def worst(self, count: int | None = None) -> list[Decision]: ...


def shown(estimate: Estimate, digits: int = 5) -> str:
    """A number to so many digits if its interval supports them, else with its interval."""
    supported = rounding.supported_digits(estimate, digits)
    return with_interval(estimate) if supported is None else rounding.without_zeros(estimate, supported, digits + 3)


def size(estimate: Estimate) -> str:
    """The size of a number, with its interval if that does not support three digits."""
    return shown(estimate if float(estimate) >= 0 else estimate.negative(), 3)


def verdict(review: _Reviewed) -> str:
    """The verdict in one sentence: what was earned, the luck in it, and the worst decision."""
    r = review
    if all(one.fortune == NONE for one in r.decisions):
        luck = "luck is negligible" if r.exact else "nothing was random after the start"
    elif r.luck.low > 0 or r.luck.high < 0 or not r.luck.has_interval:
        luck = f"luck {'added' if float(r.luck) > 0 else 'cost'} {size(r.luck)}"
    else:
        luck = f"luck is not distinguishable from 0 ({shown(r.luck)})"
    total = shown(r.total) if r.total.has_interval else f"{float(r.total):.5g}"
    return (
        f"Episode {r.episode} earned {total}, {shown(r.expectation)} is expected: {luck}; {_skilled(r)}{_decided(r)}."
    )


def _skilled(r: _Reviewed) -> str:
    """What the decisions added, if the policy is not its own reference."""
    if r.reference is None:
        return ""
    if r.skill.has_interval and r.skill.low <= 0 <= r.skill.high and r.skill.high > r.skill.low:
        return f"the decisions are as good as those of the reference, as far as can be told ({shown(r.skill)}); "
    return f"the decisions {'added' if float(r.skill) >= 0 else 'cost'} {size(r.skill)}; "


def _decided(r: _Reviewed) -> str:
    mistakes = [one for one in r.decisions if one.judgement == MISTAKE]
    if not mistakes:
        if all(one.judgement == RIGHT for one in r.decisions):
            most = r.regret.high if r.exact else 0.0
            tied = f" by more than {rounding.at_most(most, 2)}" if most else ""
            return f"no action would have been better on average in any step{tied}"
        if r.has_intervals:
            return "no mistake is shown"
        regretted = r.worst(1)
        return _of(regretted[0]) if regretted else "no other action has a larger value"
    worst = r.worst(1)[0]
    count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes, the worst"
    return f"{count} {_of(worst)}"


def _of(one: Decision) -> str:
    return f"in step {one.step}: {one.action} instead of {one.best} costs {size(one.regret)} on average"


def review_text(review: _Reviewed) -> str:
    """The review as sentences and a table of the worst decisions."""
    r = review
    ended = "the episode ended" if r.trajectory.terminated else "the episode did not end"
    steps = f"steps {r.first} to {r.first + len(r) - 1}" if len(r) else "no steps"
    lines = [
        verdict(r),
        f"{steps} of {r.simulator}, policy {r.policy}; {ended}; discount {r.discount:g}, seed {r.seed}",
        "",
        *_parts(r),
        "",
        *_table(r.worst(_WORST)),
        "",
        *notes(r),
    ]
    return "\n".join(wrapped(line, "  ") if line and not line.startswith(" ") else line for line in lines)


def _parts(r: _Reviewed) -> list[str]:
    rows = [
        ["earned", shown(r.earned, 6)],
        *([] if r.final.low == r.final.high == 0 else [["+ value of the last state", shown(r.final)]]),
        ["= expectation", shown(r.expectation)],
        ["+ skill", shown(r.skill)],
        ["+ luck", shown(r.luck)],
    ]
    return [f"  {line}" for line in aligned(rows)]


def _table(worst: Sequence[Decision]) -> list[str]:
    if not worst:
        return ["no decision has a regret"]
    head = ["  step", "state", "action", "best action", "regret", "luck", "judgement"]
    rows = [
        [f"  {one.step}", one.state, one.action, one.best, shown(one.regret), _luck(one), one.kind] for one in worst
    ]
    return ["worst decisions", *aligned([head, *rows])]


def _luck(one: Decision) -> str:
    return "0" if one.fortune == NONE else shown(one.luck)


def notes(r: _Reviewed) -> list[str]:
    """How the values were found, and what the intervals mean."""
    reference = "of the reviewed policy itself" if r.reference is None else f"of the reference policy, {r.reference}"
    counts = [one.samples for one in r.values[:-1]] or [0]
    certain = not r.exact and max(counts) <= 1 and all(one.value_error == 0 for one in r.values)
    lines = [f"values {reference}, by {'rollouts' if certain else r.method}"]
    if r.exact:
        lines.append("values are exact up to certified errors, which the intervals include")
    elif not r.has_intervals:
        why = "values are those of a function whose error is unknown, so they have no intervals"
        same = "all rollouts had the same return, so nothing is known about other outcomes, and there are no intervals"
        lines.append(same if "rollouts" in r.method else why)
    elif certain:
        lines.append("nothing is random after the start, so one rollout of each action is exact")
    else:
        wrong = (1 - r.confidence) * len(r)
        many = f"{max(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"
        lines.append(
            f"{many} rollouts of each action from each state, from seed {r.seed}; each interval has confidence "
            f"{r.confidence:g} (large samples): on average at most {wrong:.2g} of {len(r)} regrets are "
            "outside theirs"
        )
        lines.append(
            f"{missing(max(counts), 'rollout')}; intervals allow for it where rollouts vary less than half as much "
            "as from another step, or fewer than 8 of them differ"
        )
    if "rollouts" in r.method and not r.trajectory.terminated:
        lines.append(f"rewards after step {r.end - 1} do not count")
    if r.outcome is Outcome.INTERRUPTED:
        lines.append(f"interrupted: continue with steps=range({r.first + len(r)}, …)")
    return lines
