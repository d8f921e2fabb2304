"""The page of an evaluation: one state in detail, then the means of all states."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jmdp.base.interval import Estimate
from jmdp.base.labels import Label
from jmdp.base.rounding import at_most, confidence_percent, supported_digits, typeset
from jmdp.errors import UnavailableError
from jmdp.plots.gap_chart import gap_chart
from jmdp.reports.again import again, settings
from jmdp.reports.page import Again, Cell, Figure, Number, Page, Table
from jmdp.reports.words import MOST_DRAWN, MOST_ROWS, coupling_words, name, rows_left_out, sentence
from jmdp.results.evaluation import Evaluation
from jmdp.results.evaluation_text import origin
from jmdp.results.gaps.distribution import GapDistribution
from jmdp.results.gaps.gap import Gap
from jmdp.results.gaps.gap_text import sentence as gap_sentence
from jmdp.results.outcome import Outcome


def page(result: Evaluation, command: str | None = None, state: Label | None = None) -> Page:
    """The page of an evaluation about one state: by default the start distribution, else the first one."""
    e = result
    default = 0 if e.start is None else e.states.size - 1
    s = default if state is None else e.states.index(state)
    ranked = np.argsort(-e.mean[s], kind="stable").tolist()[:MOST_ROWS]
    gaps = [e.gap(e.states[s], e.actions[ranked[0]], e.actions[b]) for b in ranked[1:]]
    drawn = 1 < e.actions.size <= MOST_DRAWN
    few = (
        f"Figures have at most {MOST_DRAWN} {e.actions.plural}"
        if e.actions.size > 1
        else f"One {e.actions.kind} has no gap"
    )
    return Page(
        kind="Evaluation of joint returns",
        title=f"{e.actions.size} {e.actions.plural} in {_where(e, s)}",
        question=_question(e, s),
        verdict=sentence(_verdict(e, s, gaps)),
        decided=None if e.outcome.successful else False,
        status=_status(e),
        sampling=origin(e),
        figures=[_figure(e, s, gaps)] if drawn else [],
        no_figure=f"{few}; the numbers are below.",
        tables=[_state_table(e, s, ranked, gaps), *([_all_table(e)] if e.states.size > 1 else [])],
        found=_found(e),
        trust=[sentence(text) for text in _trust(e)],
        again=_again(e, command),
    )


def _status(e: Evaluation) -> str:
    if not e.outcome.successful:
        return f"Not finished: {e.outcome.value}"
    if e.certificate is None:
        return "Estimates without error bounds"
    return {"exact": "Exact", "certified": "Certified", "statistical": "Estimated from samples"}[e.certificate.kind]


def _where(e: Evaluation, s: int) -> str:
    text = e.states.name(s)
    special = {"here": "the given state"} | ({} if e.start is None else {"start": "the start distribution"})
    return special.get(text, f"state {name(text)}")


def _question(e: Evaluation, s: int) -> str:
    best = (
        f"Which of {e.actions.size} {e.actions.plural} earns most on average"
        if e.actions.size > 1
        else "What is earned"
    )
    return f"{best} from {_where(e, s)}, by how much, and how much do the returns differ with the same randomness?"


def _verdict(e: Evaluation, s: int, gaps: Sequence[Gap]) -> str:
    if gaps:
        return gap_sentence(gaps[0], _distribution(gaps[0]))
    return f"the mean return is {e.mean_of(e.states[s], e.actions[0])} ({origin(e)})"


def _distribution(gap: Gap) -> GapDistribution | None:
    try:
        return gap.distribution()
    except UnavailableError:
        return None


def _figure(e: Evaluation, s: int, gaps: Sequence[Gap]) -> Figure:
    first = name(gaps[0].first)
    known = "estimates, no interval" if e.certificate is None else "with their intervals"
    caption = (
        f"Mean gaps of {first} over the other {e.actions.plural}, {known}; bars are one standard deviation of the gap "
        f"to each side, with shared and with independent randomness. {sentence(origin(e))}"
    )
    words = f"Chart of the gaps in {_where(e, s)}. {_verdict(e, s, gaps)}."
    return Figure.of(gap_chart(e, e.states[s]), caption, words)


def _state_table(e: Evaluation, s: int, ranked: Sequence[int], gaps: Sequence[Gap]) -> Table:
    rows: list[list[Cell]] = []
    chances = [_no_better(gap) for gap in gaps]
    for i, a in enumerate(ranked):
        mean, std = _cell(e, e.mean_of(e.states[s], e.actions[a])), _cell(e, _std(e, s, a))
        if i == 0:
            rows.append([f"{name(e.actions.name(a))} (largest mean)", mean, std, "", "", "", ""])
            continue
        gap = gaps[i - 1]
        rows.append(
            [
                name(gap.second),
                mean,
                std,
                _cell(e, Estimate.within(gap.mean, gap.mean_interval)),
                _cell(e, Estimate.within(gap.std, gap.std_interval)),
                _cell(e, Estimate.within(gap.correlation, gap.correlation_interval)),
                chances[i - 1],
            ]
        )
    best = name(e.actions.name(ranked[0]), 40)
    columns = [e.actions.kind, "mean return", "std", f"gap: {best} minus it", "std of the gap", "correlation"]
    words, chance = {}, f"P({best} not better)"
    if not gaps:
        columns = columns[:3]
    elif any(cell != "–" for cell in chances):
        columns.append(chance)
        words = {chance: f"the chance that {best} earns no more, with the same randomness; ≤ is an upper bound on it"}
    return Table(
        title=f"Returns from {_where(e, s)}",
        columns=columns,
        rows=[row[: len(columns)] for row in rows],
        note=f"{sentence(origin(e))} {_rounded(e)}{rows_left_out(e.actions.size)}",
        words=words,
    )


def _cell(e: Evaluation, value: Estimate) -> Cell:
    """A number with its interval; if it is certain, and all of the interval rounds to six digits, those alone."""
    sampled = e.certificate is None or e.certificate.kind == "statistical"
    digits = None if sampled or math.isnan(value) else supported_digits(value, 6)
    return value if digits is None else Number(typeset(f"{float(value):.{digits}g}"), None, exact=True)


def _rounded(e: Evaluation) -> str:
    if e.certificate is None:
        return ""
    if e.certificate.kind == "statistical":
        return "Intervals are in brackets, rounded outwards."
    return "Without brackets: rounded to six digits, which are certain."


def _no_better(gap: Gap) -> Cell:
    """P(gap ≤ 0), or an upper bound on it."""
    found = _distribution(gap)
    if found is not None:
        return found.cdf(0.0)
    if gap.mean_interval is None or gap.std_interval is None:
        return "–"
    return Number(f"≤ {at_most(gap.inferiority_bound(), 3)}", None, exact=True)


def _std(e: Evaluation, s: int, a: int) -> Estimate:
    wide = e.covariance_interval(e.states[s], e.actions[a], e.actions[a])
    value = math.sqrt(max(0.0, float(e.covariance[s, a, a])))
    return Estimate.within(value, None if wide is None else wide.square_root())


def _all_table(e: Evaluation) -> Table:
    """Means in every state: one row each."""
    A = min(e.actions.size, 6)
    shown = min(e.states.size, MOST_ROWS)
    rows: list[list[Cell]] = [
        [name(e.states.name(s)), *(_cell(e, e.mean_of(e.states[s], e.actions[a])) for a in range(A))]
        for s in range(shown)
    ]
    all_of = f"{e.actions.size} {e.actions.plural}"
    left = f" The first {A} of {all_of}; to_dataframe() has all." if e.actions.size > A else ""
    return Table(
        title="Mean returns in all states",
        columns=["state", *(name(e.actions.name(a), 40) for a in range(A))],
        rows=rows,
        note=f"{sentence(origin(e))} {_rounded(e)}{left}{rows_left_out(e.states.size)}",
    )


def _found(e: Evaluation) -> list[tuple[str, str]]:
    found = [
        ("Method", f"{e.method}"),
        ("Ended", f"{e.outcome.name}: {e.outcome.value}"),
        ("Shared randomness", coupling_words(e.coupling, e.actions.plural)),
    ]
    if e.asked is not None:
        S, K, A = e.asked.model.shape
        found.insert(0, ("Model", f"a table of {S:,} states, {A:,} actions and {K:,} scenarios"))
        horizon = "" if e.asked.horizon is None else f", over {e.asked.horizon:,} steps"
        found.append(("Returns", f"discount {e.asked.discount:g}{horizon}"))
    elif e.certificate is not None:
        found.append(("Returns", f"discount {e.certificate.discount:g}"))
    if e.coupled_by is not None:
        found.append(("Model made", f"outcomes of actions coupled by {name(e.coupled_by)}"))
    if e.residuals.size:
        last = float(e.residuals[-1])
        found.append(
            ("Effort", f"{e.residuals.size:,} {e.method.step_name}s, last {e.method.residual_name} {last:.3g}")
        )
    return found


def _trust(e: Evaluation) -> list[str]:
    c = e.certificate
    said = []
    if c is None:
        said.append("there is no certificate: all numbers are estimates, no interval")
    elif c.kind == "statistical":
        rule = "a large-sample approximation" if c.large_sample else "valid for any distribution"
        said.append(
            f"each interval contains its number with probability {confidence_percent(c.confidence or 0)}; it is {rule}"
        )
        if c.large_sample:
            said.append("outcomes too rare to have been drawn are not included")
    elif c.kind == "exact":
        said.append("the numbers are exact: all errors are 0")
    else:
        mean, covariance = (at_most(float(np.max(error)), 2) for error in (c.mean_error, c.covariance_error))
        said.append(
            f"the intervals are certified: the means are off by at most {mean} and the covariances by at most "
            f"{covariance}, including rounding errors"
        )
    if c is not None and c.assumption is not None:
        said.append(f"it is assumed that {c.assumption}")
    if not e.outcome.successful:
        said.append(f"the method ended early: {e.outcome.value}")
    if e.outcome in (Outcome.TRAINED, Outcome.NOT_BETTER, Outcome.NOTHING_VARIED, Outcome.NOT_JUDGED):
        said.append(f"the numbers are predictions of a network: {e.outcome.value}")
    if e.projection is not None:
        known, pairs = e.projection.guaranteed_pairs
        said.append(f"the projection has κ {e.projection.kappa:.3g}, and bounds for {known:,} of {pairs:,} gaps")
    said.append(f"correlations and standard deviations of gaps depend on the coupling ({type(e.coupling).__name__})")
    said.append("the numbers are about this model, which may differ from the real system")
    return said


def _again(e: Evaluation, command: str | None) -> Again:
    given = [("model", "the simulator or model"), ("policy", "the policy")]
    more: dict[str, object] = {}
    if e.asked is not None:
        asked = e.asked
        given[0] = "model", repr(asked.model)
        policies = ", ".join(repr(policy) for several in asked.policies for policy in several[:1])
        named = "" if asked.names is None else f"a dictionary of policies, {', '.join(map(repr, asked.names))}: "
        given[1] = "policy", f"{named}{policies}"
        more = {"horizon": asked.horizon, "discount": None if asked.horizon is None else asked.discount}
    elif e.certificate is not None:
        more = {"discount": e.certificate.discount}
    keywords = settings(coupling=e.coupling, method=e.method, **more)
    if e.asked is not None and e.asked.start is not None:
        given.append(("start", "probabilities of the start states"))
        keywords.append("start=start,")
    if e.asked is not None and e.asked.terminal_value is not None:
        given.append(("terminal_value", "values of the states after the horizon"))
        keywords.append("terminal_value=terminal_value,")
    return again(command, given, "jmdp.evaluate", ["model, policy,", *keywords])
