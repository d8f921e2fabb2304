"""Parts of pages of reviews: the split of a return, both futures of a decision, and the code that makes it again.

Pictures of states: small images with a palette, as many as a page can hold.
"""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jmdp.base.interval import Estimate
from jmdp.base.rounding import significant, typeset
from jmdp.base.settings import UNCONVERTIBLE, error_text
from jmdp.errors import UnavailableError
from jmdp.results.text import UNDEFINED, Written, shown
from jmdp.reviews.decision import MISTAKE, NONE, Decision
from jmdp.reviews.review import Review
from jmdp.reviews.trajectory import Replay, Trajectory, discounted
from jmdp.show.plots.reviews import futures_chart
from jmdp.show.reports.page import (
    Again,
    Figure,
    Table,
    again,
    later,
    name,
    settings,
    short_name,
)


def short_title(simulator: str) -> str:
    """A simulator without its class and settings: pong for ALESimulator('pong', frame_skip=4)."""
    return re.sub(r"(, \w+=[\w.'\"]+)+$", "", short_name(simulator)).strip("'\"")


def again_of(reviews: Sequence[Review], command: str | None) -> Again:
    """The call of `jmdp.review` for one episode, or for several."""
    r = reviews[0]
    given = [("simulator", r.simulator)]
    more: list[str] = []
    if r.policy == "given actions":
        given += [("policy", f"the reference policy, {r.reference}"), ("played", "the list of the actions")]
        more.append("played=played,")
    else:
        given.append(("policy", r.policy))
        if r.reference is not None:
            given.append(("reference", r.reference))
            more.append("reference=reference,")
    if isinstance(r.replay, Replay) and r.replay.player.plan.starts.given:
        given.append(("starts", f"the start states: {', '.join(r.replay.player.plan.starts.names[:20])}"))
        more.append("starts=starts,")
    more += _actions(r)
    if r.month is not None:
        given.append(("history", f"the jmdp.RecordedLuck, of which {r.month.first} to {r.month.until} is a part"))
        more.append(f"luck=history.part({r.month.first!r}, {r.month.until!r}),")
    if r.others:
        given.append(("others", f"a dictionary of other policies: {', '.join(r.others)}"))
        more.append("others=others,")
    if r.deviation is not None:
        given.append(("recorded", "the states that were recorded"))
        more.append(f"recorded=recorded, tolerance={r.deviation.tolerance!r},")
    keywords = settings(seed=r.seed, **_episodes(reviews), discount=r.discount, horizon=_horizon(reviews))
    keywords += settings(confidence=r.confidence)
    whole = all(one.trajectory.terminated for one in reviews) or _stop(reviews) == _horizon(reviews)
    steps = [f"steps=range({r.first}, {_stop(reviews)}),"] if r.first > 0 or not whole else []
    return again(command, given, "jmdp.review", ["simulator, policy,", *more, *keywords, *steps, *_method(r)])


def _actions(r: Review) -> list[str]:
    """Which actions have values, unless all have."""
    if not isinstance(r.replay, Replay):
        return []
    labels = r.replay.player.simulator.actions
    if labels is None:
        return [f"actions={later('the actions to compare')}"]
    return settings(actions=list(r.actions)) if len(r.actions) < labels.size else []


def _episodes(reviews: Sequence[Review]) -> dict[str, int | list[int]]:
    numbers = [one.episode for one in reviews]
    if len(numbers) == 1:
        return {"episode": numbers[0]}
    return {"episodes": len(numbers) if numbers == list(range(len(numbers))) else numbers}


def _stop(reviews: Sequence[Review]) -> int:
    return max(one.first + one.asked for one in reviews)


def _horizon(reviews: Sequence[Review]) -> int:
    """Largest number of steps; with a discount rollouts end this many steps after the last reviewed one."""
    r = reviews[0]
    return r.end if r.discount == 1 else r.end - _stop(reviews)


def _method(r: Review) -> list[str]:
    """How the values were found, from its text."""
    rollouts = re.fullmatch(r"([\d,]+) rollouts of each action", r.method)
    if rollouts:
        return [f"method=jmdp.reviews.RolloutValues({rollouts[1].replace(',', '_')}),"]
    return [] if r.method.startswith("exact") else [f"method={later(r.method)}"]


MOST_FUTURES = 3
_FRAMES = 6
_WEIGHT = 0.05
"""Steps are shown while their discount is at least this."""


@dataclass(frozen=True)
class Moment:
    """A state, in the timeline or in a future."""

    step: str
    text: str
    picture: Picture | None
    judgement: str = ""  # of the decision in a timeline


@dataclass(frozen=True, kw_only=True)
class Future:
    """A decision, what its actions earn, and both futures."""

    title: str
    said: str
    table: Table
    rows: Sequence[tuple[str, Sequence[Moment]]] = ()
    figure: Figure | None = None


def futures(review: Review) -> list[Future]:
    """Both futures of the worst decisions."""
    return [_future(review, one) for one in review.worst(MOST_FUTURES)]


def is_replayed(review: Review) -> bool:
    """False for an episode of saved reviews of several, of which the returns in its luck are not known."""
    return review.replayed is not None or isinstance(review.replay, Replay)


def in_this_luck(review: Review, step: int, action: int) -> Written:
    """What an action would have earned in the luck of the episode: a number without error."""
    if not is_replayed(review):
        return UNDEFINED
    return Written(significant(float(review.hindsight[step - review.first, action]), 4))


def _future(r: Review, one: Decision) -> Future:
    best = _best(r, one)
    title = f"Step {one.step}: {name(one.action)} or {name(one.best)}"
    table = _table(r, one)
    if not isinstance(r.replay, Replay):  # of a saved review
        return Future(title=title, said=_said(r, one), table=table)
    other = r.replay.what_if(r.trajectory, one.step, best, r.end)
    both = _cut(r, {f"{one.action} (as it went)": _as_it_went(r, one), f"{one.best} instead": other})
    rows = _rows(r, both)
    caption = f"Rewards since step {one.step} in both futures, with the random numbers of episode {r.episode}."
    figure = None if rows else Figure.of(futures_chart(both, r.discount), caption)
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


def _table(r: Review, one: Decision) -> Table:
    """What each action earns on average, and in this luck."""
    i, beside, rows = one.step - r.first, f"more than {name(one.action)}", []
    values = r.values[i]
    for a in np.argsort(-values.action_values, kind="stable").tolist():
        value, error = float(values.action_values[a]), float(values.action_errors[a])
        gap, gap_error = value - float(values.action_values[r.taken[i]]), float(values.gap_errors[a])
        # Actions without a list are called "taken" in all steps.
        row = {"action": r.actions[a], beside: Estimate.around(gap, gap_error)}
        row = {"action": f"{name(one.action)} (taken)"} if a == r.taken[i] else row
        rows.append(row | {"on average": Estimate.around(value, error), "in this luck": in_this_luck(r, one.step, a)})
    columns = ["action", "on average", beside, "in this luck"]
    title = f"What each action earns from step {one.step} on"
    return Table.of_rows(rows, columns, title=title)


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


def split(r: Review) -> list[dict[str, Any]]:
    """Expectation + skill + luck = return, as rows of a table."""
    over = r.final.low == r.final.high == 0
    earned = f"{with_interval(r.earned)} was earned, and {with_interval(r.final)} is the value of the last state"
    total = Written(with_interval(r.total)) if over else r.total
    luck = "negligible" if r.exact else "nothing was random"
    if any(one.fortune != NONE for one in r.decisions):
        luck = "what chance added"
    parts = [
        ("expectation", r.expectation, "what the reference policy earns on average"),
        ("+ skill", r.skill, "what the decisions added on average"),
        ("+ luck", r.luck, luck),
        ("= return", total, "what was earned" if over else earned),
    ]
    return [{"part": part, "value": value, "meaning": meaning} for part, value, meaning in parts]


MOST_FRAMES = 120
"""Pictures of a timeline."""

_WIDTH = 160
"""Pixels of a picture; larger ones are scaled down."""

_TALLEST = 320
_COLOURS = 64
_MOST_BYTES = 1_500_000
"""Of the pictures of a timeline."""

_LARGEST = 100_000_000
"""Numbers of a frame; larger ones are not drawn."""


@dataclass(frozen=True)
class Picture:
    """A picture of a state."""

    png: bytes
    coarse: bool  # so small that its pixels are shown as squares

    @property
    def source(self) -> str:
        """The picture as a data URL."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode('ascii')}"


@dataclass(frozen=True)
class Pictures:
    """Pictures before some steps, or why there are none."""

    found: dict[int, Picture]
    missing: str = ""

    @classmethod
    def of(cls, review: Review, trajectory: Trajectory, steps: Sequence[int]) -> Pictures:
        """Pictures of the states before these steps; `trajectory` is that of the review or continues it."""
        at = sorted(set(steps))
        before = None if trajectory is review.trajectory else review.trajectory
        try:
            frames = review.replay.frames(trajectory, before, set(at))
        except UnavailableError as error:
            return cls({}, str(error))
        except Exception as error:  # of any kind: the environment draws
            return cls({}, f"The states could not be drawn: {error_text(error)}.")
        if frames is None:
            return cls(
                {}, 'The simulator draws no pictures; environments of Gymnasium do with render_mode="rgb_array".'
            )
        found = [encoded(frame) for frame in frames]
        if any(one is None for one in found):
            return cls({}, "The pictures of the simulator are not arrays [height, width, 3] of uint8.")
        return cls({step: one for step, one in zip(at, found, strict=False) if one is not None})

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(len(one.png) for one in self.found.values())


def encoded(frame: Any) -> Picture | None:
    """A frame as a small PNG; None if it is no picture."""
    from PIL import Image

    try:
        array = np.asarray(frame)
    except UNCONVERTIBLE:
        return None
    if array.dtype != np.uint8 or array.size == 0 or array.size > _LARGEST:
        return None
    if array.ndim == 3 and array.shape[2] in (3, 4):
        array = array[:, :, :3]
    elif array.ndim != 2:
        return None
    image = Image.fromarray(np.ascontiguousarray(array)).convert("RGB")
    scale = min(1.0, _WIDTH / image.width, _TALLEST / image.height)
    if scale < 1:
        size = max(1, round(scale * image.width)), max(1, round(scale * image.height))
        image = image.resize(size, Image.Resampling.BOX)
    file = io.BytesIO()
    image.quantize(_COLOURS, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return Picture(file.getvalue(), coarse=image.width < _WIDTH / 2)


def chosen(steps: Sequence[int], kept: Sequence[int], most: int) -> list[int]:
    """At most so many steps: evenly spaced ones, with the first, the last and as many of `kept` as have room."""
    if len(steps) <= most:
        return list(steps)
    found = {steps[0], steps[-1], *kept[: most // 3]}
    room = most - len(found)
    return sorted(found | {steps[round(x)] for x in np.linspace(0, len(steps) - 1, room + 2)[1:-1]})


def timeline(review: Review) -> tuple[list[int], Pictures]:
    """The steps of a timeline, the one after the last included, and their pictures."""
    steps = range(review.first, review.first + len(review) + 1)
    worst = [one.step for one in review.worst()]
    shown = chosen(steps, worst, MOST_FRAMES)
    pictures = Pictures.of(review, review.trajectory, shown)
    if pictures.size > _MOST_BYTES:
        most = max(12, math.floor(len(shown) * _MOST_BYTES / pictures.size))
        shown = chosen(shown, [step for step in worst if step in pictures.found], most)
        pictures = Pictures({step: pictures.found[step] for step in shown})
    return shown, pictures
