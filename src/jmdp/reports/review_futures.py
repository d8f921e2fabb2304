"""Both futures of the worst decisions: the episode as it went, and with the best action in the same luck."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jmdp.base.interval import Estimate
from jmdp.base.rounding import significant, typeset
from jmdp.plots.futures_chart import futures_chart
from jmdp.reports.page import Cell, Figure, Number, Table
from jmdp.reports.pictures import Picture, Pictures
from jmdp.reports.words import MOST_ROWS, name, rows_left_out, sentence
from jmdp.reviews.decision import MISTAKE, Decision
from jmdp.reviews.replay import Replay
from jmdp.reviews.review import Review
from jmdp.reviews.review_text import shown
from jmdp.reviews.trajectory import Trajectory, discounted

MOST_FUTURES = 3
_FRAMES = 6
_WEIGHT = 0.05
"""Steps are shown while their discount is at least this."""


@dataclass(frozen=True)
class Moment:
    """A picture of a future, or that it has ended."""

    step: str
    text: str
    picture: Picture | None


@dataclass(frozen=True, kw_only=True)
class Future:
    """A decision, what its actions earn, and both futures."""

    title: str
    said: str
    table: Table
    rows: Sequence[tuple[str, Sequence[Moment]]] = ()
    figure: Figure | None = None


def futures(review: Review, sampled: str) -> list[Future]:
    """Both futures of the worst decisions; `sampled` is the note of the tables."""
    return [_future(review, one, sampled) for one in review.worst(MOST_FUTURES)]


def is_replayed(review: Review) -> bool:
    """False for an episode of saved reviews of several, of which the returns in its luck are not known."""
    return review.replayed is not None or isinstance(review.replay, Replay)


def in_this_luck(review: Review, step: int, action: int) -> Number:
    """What an action would have earned in the luck of the episode: a number without error."""
    if not is_replayed(review):
        return Number("–", None, exact=True)
    return Number(significant(float(review.hindsight[step - review.first, action]), 4), None, exact=True)


def _future(r: Review, one: Decision, sampled: str) -> Future:
    best = _best(r, one)
    title = f"Step {one.step}: {name(one.action)} or {name(one.best)}"
    table = _table(r, one, sampled)
    if not isinstance(r.replay, Replay):  # of a saved review
        return Future(title=title, said=_said(r, one), table=table)
    other = r.replay.what_if(r.trajectory, one.step, best, r.end)
    both = _cut(r, {f"{one.action} (as it went)": _as_it_went(r, one), f"{one.best} instead": other})
    rows = _rows(r, both)
    figure = None if rows else _figure(r, one, both)
    return Future(title=title, said=_said(r, one), table=table, rows=rows, figure=figure)


def _best(r: Review, one: Decision) -> int:
    return int(r.values[one.step - r.first].action_values.argmax())


def _said(r: Review, one: Decision) -> str:
    known = "" if one.judgement == MISTAKE else "; this may be 0"
    said = f"{name(one.best)} earns {with_interval(one.regret)} more on average{known}."
    if not is_replayed(r):
        return said
    earned, other = (in_this_luck(r, one.step, a).value for a in (r.taken[one.step - r.first], _best(r, one)))
    taken = f"and {name(one.action)} {earned}"
    return f"{said} In the luck of this episode it would have earned {other} from here on, {taken}."


def with_interval(value: Estimate) -> str:
    """A number and its interval in a sentence."""
    if not math.isfinite(value.error):
        return f"{significant(value, 3)} (estimate, no interval)"
    return typeset(shown(value))


def _table(r: Review, one: Decision, sampled: str) -> Table:
    """What each action earns on average, and in this luck."""
    i = one.step - r.first
    values = r.values[i]
    order = np.argsort(-values.action_values, kind="stable")[:MOST_ROWS]
    rows: list[list[Cell]] = []
    for a in order.tolist():
        value, error = float(values.action_values[a]), float(values.action_errors[a])
        gap, gap_error = value - float(values.action_values[r.taken[i]]), float(values.gap_errors[a])
        taken = " (taken)" if a == r.taken[i] else ""
        beside: Cell = "" if taken else estimated(gap, gap_error)
        label = one.action if taken else r.actions[a]  # actions without a list are called "taken" in all steps
        rows.append([name(label) + taken, estimated(value, error), beside, in_this_luck(r, one.step, a)])
    return Table(
        title=f"What each action earns from step {one.step} on",
        columns=["action", "on average", f"more than {name(one.action)}", "in this luck"],
        rows=rows,
        note=sentence(sampled) + rows_left_out(len(r.actions)),
    )


def estimated(value: float, error: float) -> Estimate:
    """A number with its error, which may be unknown."""
    return Estimate.around(value, error) if math.isfinite(error) else Estimate.within(value, None)


def _as_it_went(r: Review, one: Decision) -> Trajectory:
    """The episode from a step on: also beyond the reviewed steps if the policy is its own reference."""
    assert isinstance(r.replay, Replay)
    i = one.step - r.first
    if r.reference is None:
        return r.replay.what_if(r.trajectory, one.step, r.taken[i], r.end)
    t = r.trajectory
    return replace(
        t, first=one.step, states=t.states[i:], actions=t.actions[i:], rewards=t.rewards[i:], names=t.names[i:]
    )


def _cut(r: Review, both: Mapping[str, Trajectory]) -> dict[str, Trajectory]:
    """Both futures up to the step that is shown last: until both end, one is not known further, or little counts."""
    most = max(map(len, both.values()))
    most = min([most, *(len(one) for one in both.values() if not one.terminated)])
    if r.discount < 1:
        most = min(most, max(1, math.ceil(math.log(_WEIGHT) / math.log(max(r.discount, 1e-9)))))
    return {said: one.shortened(min(most, len(one))) for said, one in both.items()}


def _rows(r: Review, both: Mapping[str, Trajectory]) -> list[tuple[str, list[Moment]]]:
    """Pictures of both futures before the same steps; empty if there are none."""
    first = next(iter(both.values())).first
    last = first + max(map(len, both.values()))
    steps = sorted({round(x) for x in np.linspace(first, last, _FRAMES)})
    rows = []
    for said, one in both.items():
        end = one.first + len(one)
        wanted = sorted({min(step, end) for step in steps})
        pictures = Pictures.of(r, one, wanted)
        if not pictures.found:
            return []
        rows.append((name(said), [_moment(r, one, step, pictures) for step in wanted]))
    return rows


def _moment(r: Review, one: Trajectory, step: int, pictures: Pictures) -> Moment:
    earned = significant(discounted(one.rewards[: step - one.first], r.discount), 3)
    ended = one.terminated and step == one.first + len(one)
    where = f"end, after step {step - 1}" if ended else f"before step {step}"
    return Moment(where, f"earned {earned}", pictures.found.get(step))


def _figure(r: Review, one: Decision, both: Mapping[str, Trajectory]) -> Figure:
    first, second = (name(said) for said in both)
    return Figure.of(
        futures_chart(both, r.discount),
        f"Rewards since step {one.step} in both futures; random numbers of episode {r.episode}, seed {r.seed}.",
        f"Chart of what {first} and {second} earn up to each step after step {one.step}.",
    )
