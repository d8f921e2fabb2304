"""The page of an evaluation: one state in detail, then the means of all states.

Pages of learned evaluations, and of their calibration in held-out states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jmdp.base.interval import Estimate
from jmdp.base.labels import Label
from jmdp.base.rounding import at_most, confidence_percent
from jmdp.base.settings import short
from jmdp.results.bootstrap import Judgement
from jmdp.results.calibration import Calibration, held_out, seeds
from jmdp.results.certificate import Outcome
from jmdp.results.evaluation import Evaluation, origin
from jmdp.results.gaps.gap import Gap, estimates, known_distribution, no_better
from jmdp.results.gaps.gap import sentence as gap_sentence
from jmdp.results.text import Written, written
from jmdp.show.plots.gaps import gap_chart
from jmdp.show.plots.learning import calibration_scatter
from jmdp.show.reports.page import (
    MOST_DRAWN,
    MOST_ROWS,
    Again,
    Cell,
    Figure,
    Page,
    Table,
    again,
    coupling_words,
    name,
    sentence,
    settings,
    short_name,
)

if TYPE_CHECKING:
    from jmdp.methods.learned.learned_result import LearnedResult


def page(
    result: Evaluation | LearnedResult | Calibration, command: str | None = None, state: Label | None = None
) -> Page:
    """The page of an evaluation about one state: by default the start distribution, else the first one."""
    if not isinstance(result, Evaluation):
        return learned_page(result, command)
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
        question=_question(e, s),
        verdict=sentence(_verdict(e, s, gaps)),
        decided=None if e.outcome.successful else False,
        sampling=origin(e),
        figures=[_figure(e, s, gaps)] if drawn else [],
        no_figure=f"{few}; the numbers are below.",
        tables=_tables(e, s, ranked, gaps),
        found=_found(e),
        trust=_trust(e),
        again=_again(e, command),
    )


def _where(e: Evaluation, s: int) -> str:
    text = e.states.name(s)
    special = {"here": "the given state"} | ({} if e.start is None else {"start": "the start distribution"})
    return special.get(text, f"state {name(text)}")


def _question(e: Evaluation, s: int) -> str:
    where = _where(e, s)
    if e.actions.size == 1:
        return f"What is earned from {where}?"
    return f"Which of {e.actions.size} {e.actions.plural} earns most from {where}, and by how much?"


def _verdict(e: Evaluation, s: int, gaps: Sequence[Gap]) -> str:
    said = f"the mean return is {e.mean_of(e.states[s], e.actions[0])} ({origin(e)})"
    if gaps:
        said = gap_sentence(gaps[0], known_distribution(gaps[0]))
    return said if e.outcome.successful else f"{said.removesuffix('.')}. Not finished: {e.outcome.value}"


def _figure(e: Evaluation, s: int, gaps: Sequence[Gap]) -> Figure:
    known = "estimates, no interval" if e.certificate is None else "with their intervals"
    caption = (
        f"Mean gaps of {name(gaps[0].first)} over the other {e.actions.plural}, {known}; bars are one standard "
        "deviation of the gap to each side, with shared and with independent randomness."
    )
    return Figure.of(gap_chart(e, e.states[s]), caption)


def _tables(e: Evaluation, s: int, ranked: Sequence[int], gaps: Sequence[Gap]) -> list[Table]:
    """The gaps in one state, and the rows of the evaluation: those of this state first."""
    certain = e.certificate is not None and e.certificate.kind != "statistical"
    note = "Without brackets: rounded to six digits, which are certain." if certain else ""
    kind, A, rows, where = e.actions.kind, e.actions.size, e.rows(), _where(e, s)
    here, others = [rows[s * A + a] for a in ranked], rows[: s * A] + rows[(s + 1) * A :]
    title = f"Returns from {where}" + ", then from the other states" * bool(others)
    returns = Table.of_rows([*here, *others], list(rows[0]), title=title, note=note)
    if not gaps:
        return [returns]
    best = name(gaps[0].first, 40)
    chances = [_no_better(gap) for gap in gaps]
    chance, words = f"P({best} not better)", {}
    columns = [kind, "mean gap", "std of the gap", "correlation"]
    if any(value != "" for value in chances):
        columns.append(chance)
        words = {chance: f"the chance that {best} earns no more, with the same randomness; ≤ is an upper bound on it"}
    found = [
        dict(zip(columns, [gap.second, *estimates(gap).values(), value], strict=False))
        for gap, value in zip(gaps, chances, strict=True)
    ]
    title = f"{best} minus each other {kind}, from {where}"
    return [Table.of_rows(found, columns, title=title, note=note, words=words), returns]


def _no_better(gap: Gap) -> Cell:
    """P(gap ≤ 0), or an upper bound on it; empty if neither is known."""
    chance, is_bound = no_better(gap)
    return "" if chance is None else Written(f"≤ {at_most(chance, 3)}") if is_bound else chance


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


_WORDS = {
    "ratio": "variances: learned / simulated, summed over gaps (1 is perfect)",
    "gap_ratio": "the same with equal weight for each gap",
    "independent_ratio": "the same if randomness were not shared",
    "closed_form_ratio": "the same by a closed form, without learning",
    "variance_gain": "variances: gain over one constant for all gaps, in nats (above 0 is useful)",
    "rank_correlation": "variances: rank correlation of learned and simulated",
    "rank_ceiling": "the same for a perfect learner, about",
    "rank_reliability": "the same for a second simulation",
    "mean_gain": "means: R² relative to no gap (above 0 is useful)",
    "mean_correlation": "means: correlation of learned and simulated",
    "mean_ceiling": "the same for a perfect learner, about",
    "mean_reliability": "the same for a second simulation",
    "mean_error": "means: root mean square error beyond noise, in units of return",
}
_RATIOS = ("ratio", "independent_ratio", "closed_form_ratio")


def learned_page(result: LearnedResult | Calibration, command: str | None = None) -> Page:
    """The page of a learned evaluation, or of a calibration alone."""
    if isinstance(result, Calibration):
        return Page(
            kind="Calibration of learned gaps",
            question=f"Do learned gaps agree with simulated ones in {held_out(result)}, not used for training?",
            sampling=_sampled(result),
            again=_calibrated(result, command),
            **_judged(result),
        )
    e, c = result, result.calibration
    trained = f"{e.effort}, seed {getattr(e.method, 'seed', None)}"
    simulator, policy = short(e.simulator, 200), short(e.actor, 200)
    ended = sentence(e.outcome.value)
    judged: dict[str, Any] = {"verdict": ended, "found": [], "trust": []} if c is None else _judged(c)
    judged["found"] = [
        ("Simulator", name(simulator)),
        ("Policy", name(policy)),
        ("Shared randomness", coupling_words(e.coupling, "actions")),
        ("Returns", f"discount {e.discount:g}; simulated over {e.horizon:,} steps"),
        ("Method", short(e.method, 600)),
        ("Training", trained),
        *judged["found"],
    ]
    judged["trust"] = [*e.caveats, *judged["trust"]]
    asked = settings(coupling=e.coupling, method=e.method, discount=e.discount)
    return Page(
        kind="Learned evaluation",
        question=f"Can a method predict how the returns of {e.actions.size} actions of {short_name(simulator)} differ "
        "in any state, with the same randomness?",
        sampling=f"{trained}. " + ("No states were held out: estimates, no interval" if c is None else _sampled(c)),
        no_figure="No states were held out, so there is nothing to compare with. Use calibrate(seed=…).",
        again=again(
            command, [("simulator", simulator), ("policy", policy)], "jmdp.evaluate", ["simulator, policy,", *asked]
        ),
        **judged,
    )


def _judged(c: Calibration) -> dict[str, Any]:
    """The parts of a learned_page that are those of the calibration."""
    useful = {verdict is Judgement.USEFUL for verdict in (c.verdict, c.mean_verdict)}
    decided = useful.pop() if len(useful) == 1 else None
    trust = [
        "Held-out states are assumed to be drawn from the distribution of interest, and rollouts of different states "
        "to be independent.",
        "Intervals do not cover the variation between training runs.",
        "A verdict is “better than a constant” only if the whole 95% interval of the gain is above 0.",
        "Simulated gaps are cut at the horizon of the rollouts.",
    ]
    if c.states < 30:
        trust.append(f"{held_out(c)} are few: intervals over states may be too narrow.")
    simulated = f"{c.gaps:,} gaps in {held_out(c)}, {c.rollouts:,} rollouts each under shared randomness"
    return {
        "verdict": f"In {held_out(c)}, learned gap variances are {_words(c.verdict)} and learned mean gaps are "
        f"{_words(c.mean_verdict)} (95% confidence).",
        "decided": decided,
        "figures": [Figure.of(calibration_scatter(c), "Each point is the gap of two actions in a held-out state.")],
        "tables": [_table(c)],
        "found": [("Simulation", simulated)],
        "trust": trust,
    }


def _calibrated(c: Calibration, command: str | None) -> Again:
    given = [("learned", "a LearnedResult: jmdp.evaluate(…, method=jmdp.LearnedMoments(…))")]
    seed = settings(seed=c.seeds[0])
    if len(c.seeds) > 1:
        given.append(("seed", f"one of {', '.join(map(str, c.seeds))}, whose records were joined"))
        seed = ["seed=seed,"]
    return again(command, given, "learned.calibrate", [*seed, *settings(states=c.states, rollouts=c.rollouts)])


def _words(verdict: Judgement) -> str:
    return "not judged, because nothing varied" if verdict is Judgement.NOTHING_VARIED else verdict.value


def _sampled(c: Calibration) -> str:
    return f"n = {c.rollouts:,} rollouts of each of {c.gaps:,} gaps in {held_out(c)}, {seeds(c)}, 95% confidence"


def _table(c: Calibration) -> Table:
    over_states, over_rollouts = "value, 95% interval over states", "95% interval over rollouts"
    rows = []
    for key, words in _WORDS.items():
        value: Estimate | None = getattr(c, key)
        if value is None:
            continue
        near = written(Estimate.within(float(value), c.over_rollouts(value))).interval if key in _RATIOS else ""
        rows.append({"quantity": words, over_states: value, over_rollouts: near})
    return Table.of_rows(
        rows,
        ["quantity", over_states, over_rollouts],
        title="Agreement of learned and simulated gaps",
        note="Intervals over states cover the choice of states and rollouts (bootstrap); intervals over rollouts cover "
        "the choice of rollouts in these states only.",
    )
