"""Pages of reviews: of one episode, and of several."""

from __future__ import annotations

from typing import Any

from jmdp.base.rounding import between, counted
from jmdp.results.text import confidence
from jmdp.reviews.decision import MISTAKE, RIGHT
from jmdp.reviews.review import Review
from jmdp.reviews.review_text import episode_notes, in_this_luck, luck_cell, notes, regret_cell, subject
from jmdp.reviews.reviews import Reviews
from jmdp.reviews.trajectory import Replay
from jmdp.show.plots.reviews import review_chart, reviews_chart
from jmdp.show.reports.page import Figure, Page, Table, name
from jmdp.show.reports.review_parts import (
    Moment,
    again_of,
    futures,
    is_replayed,
    short_title,
    split,
    timeline,
)

_WORST = 10
"""Decisions in the table of all episodes."""

_OF_ONE = 3
"""Decisions of one episode in that table."""

_STEPS_AND_DECISIONS = (
    "Above: the value of each state and the luck of each step. Below: each decision, by the regret of its action "
    "and the luck that followed."
)
_STATES_AND_EPISODES = (
    "Above: the states in which most is lost, with intervals. Below: each episode by the luck in it; were luck the "
    "only difference between episodes, all points would be on the line."
)


def page(result: Review | Reviews, command: str | None = None) -> Page:
    """The page of a review, or of several."""
    if isinstance(result, Reviews):
        return _several_page(result, command)
    r = result
    return Page(
        kind="Review of an episode",
        question=f"{subject(r)} of {short_title(r.simulator)}: was it luck, or a bad decision?",
        verdict=r.answer,
        decided=_decided(r),
        sampling=_sampled(r),
        figures=[Figure.of(review_chart(r), _STEPS_AND_DECISIONS)],
        tables=_tables(r),
        found=_found(r, _steps(r), f"{sum(one.steps for one in r.values):,} simulated steps for the values"),
        trust=_trust(r),
        again=again_of([r], command),
        template="review.html.jinja",
        extra={"futures": futures(r), "futures_note": _futures_note(r), **_timeline(r)},
    )


def _sampled(r: Review) -> str:
    """n, seed and confidence."""
    counts = [one.samples for one in r.values[:-1]] or [0]
    if r.exact:
        return f"exact values, seed of the episode {r.seed}"
    if not r.has_intervals:
        return f"estimates, no intervals; seed {r.seed}"
    if not _is_random(r):
        return f"n = 1 rollout of each action from each state, exact because nothing is random there; seed {r.seed}"
    each = f"n = {between(min(counts), max(counts))} rollouts of each action from each state"
    return f"{each}, seed {r.seed}, {confidence(r.confidence, large_sample=True)}"


def _is_random(r: Review) -> bool:
    """False if values are exact, or single rollouts are."""
    return not r.exact and any(one.samples != 1 for one in r.values[:-1])


def _decided(r: Review) -> bool | None:
    if any(one.judgement == MISTAKE for one in r.decisions):
        return False
    return True if all(one.judgement == RIGHT for one in r.decisions) else None


def _tables(r: Review) -> list[Table]:
    """The split of the return, and the rows of the worst decisions."""
    note = "" if r.discount == 1 else f"Discounted to step {r.first}, γ = {r.discount:g}."
    parts = Table.of_rows(split(r), ["part", "value", "meaning"], title="Where the return came from", note=note)
    rows, worst = r.rows(), [one.step - r.first for one in r.worst()]
    order = [*worst, *(i for i in range(len(r)) if i not in set(worst))]
    shown = [rows[i] | {"regret": regret_cell(r.decisions[i].regret), "luck": luck_cell(r.decisions[i])} for i in order]
    luck = [part for part in ("return in this luck", "best return in this luck") if part in rows[0]]
    labelled = ["state"] * any(row["state"] for row in rows)
    decisions = Table.of_rows(
        shown,
        ["step", *labelled, "action", "best action", "regret", "luck", *luck, "judgement"],
        title="Decisions, the largest regrets first",
        words={
            "best action": "with the largest mean return from this state",
            "regret": "how much more the best action earns on average from this state; not discounted",
            "luck": "reward and value of the next state, minus what the action earns on average",
            "in this luck": "with the random numbers of this episode; the best return is that of any action",
        },
    )
    return [parts, *_others(r), decisions]


def _others(r: Review) -> list[Table]:
    """What other policies would have earned."""
    if not r.others:
        return []
    own = float(r.earned)
    rows = [{"rule": rule, "earned": earned, "more": earned - own} for rule, earned in in_this_luck(r)]
    words = {"more": "than the reviewed actions; in these steps, with the very luck they had"}
    return [Table.of_rows(rows, ["rule", "earned", "more"], title="What other rules would have earned", words=words)]


def _futures_note(r: Review) -> str:
    if not isinstance(r.replay, Replay):
        returns = ", only the returns in its luck are known" if is_replayed(r) else ""
        return f"A saved review cannot be simulated again{returns}."
    return f"Earned: rewards since the decision{', discounted to it' if r.discount < 1 else ''}."


def _timeline(r: Review) -> dict[str, Any]:
    """The pictures of the steps, with judgements, and a note; or why there are none."""
    shown, pictures = timeline(r)
    over = "the episode ended" if r.trajectory.terminated else "the review ends here"
    moments = []
    for step in shown if pictures.found else []:
        if step == r.first + len(r):
            moments.append(Moment(f"after step {step - 1}", over, pictures.found.get(step), "end"))
        else:
            one = r.decisions[step - r.first]
            moments.append(
                Moment(f"step {step}: {name(one.action)}", one.kind, pictures.found.get(step), one.judgement)
            )
    said = ["Each picture is the state before the step."] * bool(moments)
    if moments and len(shown) <= len(r):
        said.append(f"{len(shown):,} of {len(r) + 1:,} states are shown, evenly spaced, with the worst decisions.")
    return {"timeline": moments, "timeline_note": " ".join(filter(None, [*said, pictures.missing]))}


def _found(r: Review, decided: str, effort: str) -> list[tuple[str, str]]:
    itself = "the reviewed policy itself" if r.reference is None else name(r.reference)
    return [
        ("Simulator", name(r.simulator)),
        ("Policy", name(r.policy)),
        ("Reference", f"{itself}: values are those of this policy, which follows after every other action"),
        ("Decisions", decided),
        ("Returns", f"discount {r.discount:g}, rewards before step {r.end:,}"),
        ("Values", r.method),
        ("Effort", effort),
        ("Same luck", "other actions meet the random numbers of the episode, step by step"),
    ]


def _steps(r: Review) -> str:
    ended = "the episode ended" if r.trajectory.terminated else "the episode did not end"
    return f"steps {r.first:,} to {r.first + len(r) - 1:,} of episode {r.episode:,}; {ended}"


def _trust(r: Review) -> list[str]:
    said = [*([r.deviation.sentence()] if r.deviation is not None else []), *notes(r)]
    if _is_random(r):
        said.append("the decisions shown first have the largest of many estimated regrets, which tend to be too large")
    said.append("a mistake is judged by averages: it can turn out well, and a right decision badly")
    said.append("a future in the luck of this episode is a single one; it does not show which action is better")
    if r.reference is not None:
        said.append("skill is relative to the reference policy")
    return said


def _several_page(reviews: Reviews, command: str | None) -> Page:
    """The page of several reviews."""
    r = reviews.first
    wrong = sum(one.judgement == MISTAKE for review in reviews for one in review.decisions)
    decided = f"{sum(map(len, reviews)):,} in {len(reviews):,} episodes; {wrong:,} shown to be mistakes"
    sure = confidence(r.confidence, large_sample=True)
    return Page(
        kind="Review of episodes",
        question=f"{len(reviews):,} episodes of {short_title(r.simulator)}: where does the policy lose most, and how "
        "much of the difference between them is luck?",
        verdict=reviews.answer,
        sampling=f"n = {counted(len(reviews), 'episode')}, seed {r.seed}, {sure}",
        figures=[Figure.of(reviews_chart(reviews), _STATES_AND_EPISODES)],
        tables=[_parts(reviews), _by_state(reviews), *_worst_of_all(reviews)],
        found=_found(r, decided, f"{reviews.cost:.3g} simulated steps for the values of each step"),
        trust=_trust_in_several(reviews),
        again=again_of(reviews.reviews, command),
    )


def _parts(reviews: Reviews) -> Table:
    rows = [
        {"quantity": "mean return", "estimate": reviews.mean},
        {"quantity": "mean return, corrected for luck", "estimate": reviews.corrected},
        {"quantity": "times as many episodes for the plain mean", "estimate": reviews.episodes_factor},
    ]
    rows += [{"quantity": f"share of the variance: {part}", "estimate": one} for part, one in reviews.shares.items()]
    return Table.of_rows(
        rows,
        ["quantity", "estimate"],
        title="Returns and luck",
        words={
            "corrected": "without the luck of each episode, and without its skill if the policy is its own reference: "
            "their means are 0, so only the interval changes",
            "share of the variance": "covariance of the part with the return, divided by the variance of the return",
        },
    )


def _by_state(reviews: Reviews) -> Table:
    numbers = ["visits", "mistakes", "mean regret", "regret per episode", "mean luck"]
    return Table.of_rows(
        [row | {"state": row["state"] or "without a label"} for row in reviews.rows()],
        ["state", *numbers, "most frequent action", "better action"],
        title="Regret by state, most is lost in the first",
        words={
            "mistakes": "visits in which another action is known to be better on average",
            "mean regret": "how much more the best action earns on average from this state, per visit",
            "regret per episode": "sum of the regrets in this state, discounted, per episode",
        },
    )


def _worst_of_all(reviews: Reviews) -> list[Table]:
    """The worst decisions of all episodes."""
    found = [(i, one) for i, review in enumerate(reviews) for one in review.worst(_OF_ONE)]
    found.sort(key=lambda pair: (-pair[1].regret.low if pair[1].regret.has_interval else 0.0, -float(pair[1].regret)))
    if not found:
        return []
    rows = [
        {
            "episode": f"reviews[{i}], episode {reviews[i].episode:,}",
            "step": f"{one.step}: {name(one.state)}" if one.state else one.step,
            "action": one.action,
            "best action": one.best,
            "regret": regret_cell(one.regret),
            "luck": luck_cell(one),
            "judgement": one.kind,
        }
        for i, one in found[:_WORST]
    ]
    note = (
        f"At most {_OF_ONE} of an episode. Values by {reviews.first.method}, seed {reviews.first.seed}. "
        f'reviews[i].report("episode.html") writes the page of one episode.'
    )
    return [Table.of_rows(rows, list(rows[0]), title="Worst single decisions", note=note)]


def _trust_in_several(reviews: Reviews) -> list[str]:
    said = [*episode_notes(reviews)[-2:], "states are sorted by an estimate: the first tend to have too large a regret"]
    if not reviews.first.exact:
        said.append("the regrets of single decisions are the largest of many estimates, which tend to be too large")
    return [*said, "the correction for luck does not change the mean, whatever the quality of the values"]
