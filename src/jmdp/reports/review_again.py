"""The code that makes a review again."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jmdp.reports.again import again, later, settings
from jmdp.reports.page import Again
from jmdp.reviews.replay import Replay
from jmdp.reviews.review import Review


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
    keywords = settings(seed=r.seed, **_episodes(reviews), discount=r.discount, horizon=_horizon(reviews))
    keywords += settings(confidence=r.confidence)
    steps = [f"steps=range({r.first}, {_stop(reviews)}),"] if _windowed(reviews) else []
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


def _windowed(reviews: Sequence[Review]) -> bool:
    ended = all(one.trajectory.terminated for one in reviews)
    return reviews[0].first > 0 or not (ended or _stop(reviews) == _horizon(reviews))


def _method(r: Review) -> list[str]:
    """How the values were found, from its text."""
    rollouts = re.fullmatch(r"([\d,]+) rollouts of each action", r.method)
    if rollouts:
        return [f"method=jmdp.RolloutValues({rollouts[1].replace(',', '_')}),"]
    return [] if r.method.startswith("exact") else [f"method={later(r.method)}"]
