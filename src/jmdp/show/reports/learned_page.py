"""Pages of learned evaluations and of their calibration in held-out states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jmdp.base.interval import Estimate
from jmdp.base.settings import short
from jmdp.results.calibration import Calibration, Judgement
from jmdp.results.calibration.table import held_out, seeds
from jmdp.results.text import written
from jmdp.show.plots.calibration_scatter import calibration_scatter
from jmdp.show.reports.page import (
    Again,
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


def page(result: LearnedResult | Calibration, command: str | None = None) -> Page:
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
    """The parts of a page that are those of the calibration."""
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
