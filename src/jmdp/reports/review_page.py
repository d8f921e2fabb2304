"""Pages of reviews: of one episode, and of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jmdp.base.rounding import confidence_percent
from jmdp.plots.review_chart import review_chart
from jmdp.reports import reviews_page
from jmdp.reports.page import Cell, Figure, Page, Table
from jmdp.reports.pictures import Picture, Pictures, timeline
from jmdp.reports.review_again import again_of
from jmdp.reports.review_cells import luck_cell, place, regret_cell, short_title
from jmdp.reports.review_futures import futures, in_this_luck, is_replayed
from jmdp.reports.review_split import split
from jmdp.reports.words import name, sentence
from jmdp.reviews.decision import MISTAKE, RIGHT
from jmdp.reviews.replay import Replay
from jmdp.reviews.review import Review
from jmdp.reviews.review_text import notes
from jmdp.reviews.reviews import Reviews

_WORST = 10
"""Decisions in the table."""


def page(result: Review | Reviews, command: str | None = None) -> Page:
    """The page of a review, or of several."""
    if isinstance(result, Reviews):
        return reviews_page.page(result, command)
    r = result
    shown, pictures = timeline(r)
    return Page(
        kind="Review of an episode",
        title=f"Episode {r.episode:,} of {short_title(r.simulator)} reviewed",
        question="Was it luck, or a bad decision?",
        verdict=r.answer,
        decided=_decided(r),
        status=_status(r),
        sampling=sampled(r),
        figures=[_figure(r)],
        tables=_worst(r),
        found=_found(r),
        trust=_trust(r),
        again=again_of([r], command),
        template="review.html.jinja",
        extra={
            "split": split(r),
            "split_note": f"{sentence(sampled(r))} {_discounting(r)}",
            "futures": futures(r, sampled(r)),
            "futures_note": _futures_note(r),
            "cards": [_card(r, step, pictures) for step in shown],
            "timeline_note": _timeline_note(r, len(shown), pictures),
        },
    )


def sampled(r: Review) -> str:
    """n, seed and confidence."""
    counts = [one.samples for one in r.values[:-1]] or [0]
    if r.exact:
        return f"exact values, seed of the episode {r.seed}"
    if not r.has_intervals:
        return f"estimates, no intervals; seed {r.seed}"
    if not _is_random(r):
        return f"n = 1 rollout of each action from each state, exact because nothing is random there; seed {r.seed}"
    many = f"{min(counts):,} to {max(counts):,}" if min(counts) < max(counts) else f"{max(counts):,}"
    each = f"n = {many} rollouts of each action from each state"
    return f"{each}, seed {r.seed}, {confidence_percent(r.confidence)} confidence, large-sample intervals"


def _is_random(r: Review) -> bool:
    """False if values are exact, or single rollouts are."""
    return not r.exact and any(one.samples != 1 for one in r.values[:-1])


def _mistakes(r: Review) -> int:
    return sum(one.judgement == MISTAKE for one in r.decisions)


def _decided(r: Review) -> bool | None:
    if _mistakes(r):
        return False
    return True if all(one.judgement == RIGHT for one in r.decisions) else None


def _status(r: Review) -> str:
    wrong = _mistakes(r)
    if wrong:
        return f"{wrong:,} mistake{'s' * (wrong != 1)} in {len(r):,} step{'s' * (len(r) != 1)}"
    return "No action would have been better" if _decided(r) else "No mistake shown"


def _discounting(r: Review) -> str:
    return "" if r.discount == 1 else f"Discounted to step {r.first}, γ = {r.discount:g}."


def _figure(r: Review) -> Figure:
    caption = (
        "Above: the value of each state and the luck of each step. Below: each decision, by the regret of its action "
        f"and the luck that followed. {sentence(sampled(r))}"
    )
    return Figure.of(
        review_chart(r),
        caption,
        f"Chart of the values and the luck of {len(r)} steps, and of their decisions by regret and luck. {r.answer} "
        "The numbers are in the tables below.",
    )


def _worst(r: Review) -> list[Table]:
    worst = r.worst(_WORST)
    if not worst:
        return []
    rows: list[list[Cell]] = []
    for one in worst:
        i = one.step - r.first
        best = int(r.values[i].action_values.argmax())
        rows.append(
            [
                place(one.step, one.state),
                f"{name(one.action)} instead of {name(one.best)}",
                regret_cell(one.regret),
                luck_cell(one),
                in_this_luck(r, one.step, r.taken[i]),
                in_this_luck(r, one.step, best),
                one.kind,
            ]
        )
    several = len(r.worst())
    more = f" The worst {_WORST} of {several:,} decisions with a regret." if several > _WORST else ""
    return [
        Table(
            title="Worst decisions",
            columns=["step", "decision", "regret", "luck", "taken, in this luck", "best, in this luck", "judgement"],
            rows=rows,
            note=sentence(sampled(r)) + more,
            words={
                "regret": "how much more the best action earns on average from this state; not discounted",
                "luck": "reward and value of the next state, minus what the action earns on average",
                "in this luck": "return from this step on, with the random numbers of this episode",
            },
        )
    ]


@dataclass(frozen=True)
class Card:
    """A step of the timeline."""

    step: str
    action: str
    judgement: str  # or "end"
    kind: str  # decision and luck in words
    numbers: Sequence[tuple[str, Cell]] = ()
    picture: Picture | None = None


def _card(r: Review, step: int, pictures: Pictures) -> Card:
    picture = pictures.found.get(step)
    if step == r.first + len(r):
        over = "the episode ended" if r.trajectory.terminated else "the review ends here"
        return Card(f"after step {step - 1}", over, "end", "", picture=picture)
    one = r.decisions[step - r.first]
    numbers: list[tuple[str, Cell]] = [("luck", luck_cell(one))]
    if float(one.regret) > 0:
        numbers.append(("regret", regret_cell(one.regret)))
    if one.state and picture is None:
        numbers.insert(0, ("state", name(one.state)))
    return Card(f"step {step}", name(one.action), one.judgement, one.kind, numbers, picture)


def _futures_note(r: Review) -> str:
    if not isinstance(r.replay, Replay):
        returns = ", only the returns in its luck are known" if is_replayed(r) else ""
        return f"A saved review cannot be simulated again{returns}."
    return f"Earned: rewards since the decision{', discounted to it' if r.discount < 1 else ''}."


def _timeline_note(r: Review, shown: int, pictures: Pictures) -> str:
    every, said = len(r) + 1, []
    if pictures.found:
        said.append("Each picture is the state before the step.")
    if shown < every:
        said.append(f"{shown:,} of {every:,} states are shown, evenly spaced, with the worst decisions.")
    return " ".join(filter(None, [*said, pictures.missing, sentence(sampled(r))]))


def _found(r: Review) -> list[tuple[str, str]]:
    last = r.first + len(r) - 1
    ended = "the episode ended" if r.trajectory.terminated else "the episode did not end"
    itself = "the reviewed policy itself" if r.reference is None else name(r.reference)
    return [
        ("Simulator", name(r.simulator)),
        ("Policy", name(r.policy)),
        ("Reference", f"{itself}: values are those of this policy, which follows after every other action"),
        ("Steps", f"{r.first:,} to {last:,} of episode {r.episode:,}; {ended}"),
        ("Returns", f"discount {r.discount:g}, rewards before step {r.end:,}"),
        ("Values", r.method),
        ("Effort", f"{sum(one.steps for one in r.values):,} simulated steps for the values"),
        ("Same luck", "other actions meet the random numbers of the episode, step by step"),
    ]


def _trust(r: Review) -> list[str]:
    said = [*notes(r)]
    if _is_random(r):
        said.append("the decisions shown first have the largest of many estimated regrets, which tend to be too large")
    said.append("a mistake is judged by averages: it can turn out well, and a right decision badly")
    said.append("a future in the luck of this episode is a single one; it does not show which action is better")
    if r.reference is not None:
        said.append("skill is relative to the reference policy")
    said.append("the numbers are about this simulator, which may differ from the real system")
    return [sentence(text) for text in said]
