"""The page of the reviews of several episodes."""

from __future__ import annotations

import heapq
import math

from jmdp.base.interval import Estimate
from jmdp.base.rounding import confidence_percent
from jmdp.plots.reviews_chart import reviews_chart
from jmdp.reports.page import Cell, Figure, Number, Page, Table, percent
from jmdp.reports.review_again import again_of
from jmdp.reports.review_cells import luck_cell, place, regret_cell, short_title
from jmdp.reports.words import name, sentence
from jmdp.reviews.decision import MISTAKE, Decision
from jmdp.reviews.many_text import notes
from jmdp.reviews.reviews import Reviews

_WORST = 10
"""Decisions in the table of all episodes."""

_MOST_STATES = 20
"""Rows of the table of states."""

_OF_ONE = 3
"""Decisions of one episode in that table."""


def page(reviews: Reviews, command: str | None = None) -> Page:
    """The page of several reviews."""
    r = reviews.first
    return Page(
        kind="Review of episodes",
        title=f"{len(reviews):,} episodes of {short_title(r.simulator)} reviewed",
        question="Where does the policy lose most, and how much of the difference between episodes is luck?",
        verdict=reviews.answer,
        status=_status(reviews),
        sampling=sampled(reviews),
        figures=[_figure(reviews)],
        tables=[_parts(reviews), *_states(reviews), *_worst(reviews)],
        found=_found(reviews),
        trust=_trust(reviews),
        again=again_of(reviews.reviews, command),
    )


def sampled(reviews: Reviews) -> str:
    """n, seed and confidence."""
    r = reviews.first
    confidence = f"{confidence_percent(r.confidence)} confidence, large-sample intervals"
    return f"n = {len(reviews):,} episodes, seed {r.seed}, {confidence}"


def _status(reviews: Reviews) -> str:
    share = reviews.shares["luck"]
    if math.isnan(share):
        return "All returns are equal"
    said = percent(share)
    return f"Luck: {said.value} of the variance of returns" + (
        f" {said.interval}" if said.interval else ", no interval"
    )


def _figure(reviews: Reviews) -> Figure:
    return Figure.of(
        reviews_chart(reviews),
        "Above: the states in which most is lost, with intervals. Below: each episode by the luck in it; were luck the "
        f"only difference between episodes, all points would be on the line. {sentence(sampled(reviews))}",
        f"Chart of the regret in the worst states, and of the returns of {len(reviews)} episodes by their luck. "
        f"{reviews.answer} The numbers are in the tables below.",
    )


def _parts(reviews: Reviews) -> Table:
    factor = reviews.episodes_factor
    rows: list[list[Cell]] = [
        ["mean return", reviews.mean],
        ["mean return, corrected for luck", reviews.corrected],
        ["times as many episodes for the plain mean", _ratio(factor)],
        *([f"share of the variance: {part}", _share(share)] for part, share in reviews.shares.items()),
    ]
    return Table(
        title="Returns and luck",
        columns=["quantity", "estimate"],
        rows=rows,
        note=sentence(sampled(reviews)),
        words={
            "corrected": "without the luck of each episode, and without its skill if the policy is its own reference: "
            "their means are 0, so only the interval changes",
            "share of the variance": "covariance of the part with the return, divided by the variance of the return",
        },
    )


def _ratio(factor: Estimate) -> Cell:
    return Number("∞", None) if math.isinf(factor) else factor


def _share(share: Estimate) -> Cell:
    return Number("–", None, exact=True) if math.isnan(share) else percent(share)


def _states(reviews: Reviews) -> list[Table]:
    columns = ("visits", "mistakes", "mean regret", "regret per episode", "mean luck")
    actions = ("most frequent action", "better action")
    rows: list[list[Cell]] = []
    for row in reviews.rows()[:_MOST_STATES]:
        cells: list[Cell] = [row[part] if isinstance(row[part], Estimate) else f"{row[part]:,}" for part in columns]
        rows.append([name(row["state"]) or "without a label", *cells, *(name(row[part]) for part in actions)])
    every = len(reviews.rows())
    more = f" The first {_MOST_STATES} of {every:,} states; to_dataframe() has all." if every > _MOST_STATES else ""
    return [
        Table(
            title="Regret by state, most is lost in the first",
            columns=["state", *columns, *actions],
            rows=rows,
            note=sentence(sampled(reviews)) + more,
            words={
                "mistakes": "visits in which another action is known to be better on average",
                "mean regret": "how much more the best action earns on average from this state, per visit",
                "regret per episode": "sum of the regrets in this state, discounted, per episode",
            },
        )
    ]


def _worst(reviews: Reviews) -> list[Table]:
    """The worst decisions of all episodes."""
    found = [(i, one) for i, review in enumerate(reviews) for one in review.worst(_OF_ONE)]
    worst = heapq.nsmallest(_WORST, found, key=_order)
    if not worst:
        return []
    rows: list[list[Cell]] = [
        [
            f"reviews[{i}], episode {reviews[i].episode:,}",
            place(one.step, one.state),
            f"{name(one.action)} instead of {name(one.best)}",
            regret_cell(one.regret),
            luck_cell(one),
            one.kind,
        ]
        for i, one in worst
    ]
    return [
        Table(
            title="Worst single decisions",
            columns=["episode", "step", "decision", "regret", "luck", "judgement"],
            rows=rows,
            note=f"At most {_OF_ONE} of an episode. Values by {reviews.first.method}, seed {reviews.first.seed}. "
            f'reviews[i].report("episode.html") writes the page of one episode.',
        )
    ]


def _order(found: tuple[int, Decision]) -> tuple[float, float, int, int]:
    i, one = found
    return -one.regret.low if math.isfinite(one.regret.high) else 0.0, -float(one.regret), i, one.step


def _found(reviews: Reviews) -> list[tuple[str, str]]:
    r = reviews.first
    steps = sum(map(len, reviews))
    wrong = sum(one.judgement == MISTAKE for review in reviews for one in review.decisions)
    itself = "the reviewed policy itself" if r.reference is None else name(r.reference)
    return [
        ("Simulator", name(r.simulator)),
        ("Policy", name(r.policy)),
        ("Reference", f"{itself}: values are those of this policy"),
        ("Decisions", f"{steps:,} in {len(reviews):,} episodes; {wrong:,} shown to be mistakes"),
        ("Returns", f"discount {r.discount:g}, rewards before step {r.end:,}"),
        ("Values", r.method),
        ("Effort", f"{reviews.cost:.3g} simulated steps for the values of each step of an episode"),
    ]


def _trust(reviews: Reviews) -> list[str]:
    said = [*notes(reviews)[-2:]]
    said.append("states are sorted by an estimate: the first tend to have too large a regret")
    if not reviews.first.exact:
        said.append("the regrets of single decisions are the largest of many estimates, which tend to be too large")
    said.append("the correction for luck does not change the mean, whatever the quality of the values")
    said.append("the numbers are about this simulator, which may differ from the real system")
    return [sentence(text) for text in said]
