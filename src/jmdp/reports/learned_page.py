"""Pages of learned evaluations and of their calibration in held-out states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jmdp.base.interval import Estimate
from jmdp.base.settings import short
from jmdp.plots.calibration_scatter import calibration_scatter
from jmdp.reports.again import again, settings
from jmdp.reports.page import Cell, Figure, Page, Table, estimate
from jmdp.reports.words import coupling_words, name, sentence, short_name
from jmdp.results.calibration import Calibration, Judgement

if TYPE_CHECKING:
    from jmdp.methods.neural_gram import LearnedEvaluation

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
_NO_CERTIFICATE = "there is no certificate: predictions of the network in a single state are estimates, no interval"
_STRICTER = "the held-out states also decide when training stops: calibrate with another seed for a stricter test"
_RATIOS = ("ratio", "independent_ratio", "closed_form_ratio")


def page(result: LearnedEvaluation | Calibration, command: str | None = None) -> Page:
    """The page of a learned evaluation, or of a calibration alone."""
    return _calibration_page(result, command) if isinstance(result, Calibration) else _learned_page(result, command)


def _calibration_page(c: Calibration, command: str | None) -> Page:
    given = [("learned", "a LearnedEvaluation: jmdp.evaluate(…, method=jmdp.NeuralGram(…))")]
    if len(c.seeds) > 1:
        given.append(("seed", f"one of {', '.join(map(str, c.seeds))}, whose records were joined"))
    seed = settings(seed=c.seeds[0]) if len(c.seeds) == 1 else ["seed=seed,"]
    return Page(
        kind="Calibration of learned gaps",
        title=f"Learned gaps in {_states(c)}",
        question=f"Do learned gaps agree with simulated ones in {_states(c)} that were not used for training?",
        verdict=_judged(c),
        decided=_useful(c),
        status={True: "Useful", False: "Not useful", None: "Useful in part"}[_useful(c)],
        sampling=_sampled(c),
        figures=[_figure(c)],
        tables=[_table(c)],
        found=_simulated(c),
        trust=[sentence(text) for text in _trust(c)],
        again=again(command, given, "learned.calibrate", [*seed, *settings(states=c.states, rollouts=c.rollouts)]),
    )


def _learned_page(found: LearnedEvaluation, command: str | None) -> Page:
    c, simulator = found.calibration, name(short(found.simulator, 200))
    updates = int(found.learning.updates[-1]) if found.learning.updates.size else 0
    seed = getattr(found.method, "seed", None)
    trained = f"Trained with {updates:,} updates, seed {seed}"
    given = [("simulator", short(found.simulator, 200)), ("policy", short(found.actor, 200))]
    asked = settings(coupling=found.coupling, method=found.method, discount=found.discount)
    return Page(
        kind="Learned evaluation",
        title=f"{found.actions.size} actions of {short_name(short(found.simulator, 200))}, learned by a network",
        question="Can a network predict how the returns of actions differ in any state, with the same randomness?",
        verdict=sentence(found.outcome.value) if c is None else _judged(c),
        decided=None if c is None else _useful(c),
        status=sentence(found.outcome.value).rstrip("."),
        sampling=f"{trained}. " + ("No states were held out: estimates, no interval" if c is None else _sampled(c)),
        figures=[] if c is None else [_figure(c)],
        no_figure="No states were held out, so there is nothing to compare with. Use calibrate(seed=…).",
        tables=[] if c is None else [_table(c)],
        found=[
            ("Simulator", simulator),
            ("Policy", name(short(found.actor, 200))),
            ("Shared randomness", coupling_words(found.coupling, "actions")),
            ("Returns", f"discount {found.discount:g}; simulated over {found.horizon:,} steps"),
            ("Network", short(found.method, 600)),
            ("Training", trained),
            *([] if c is None else _simulated(c)),
        ],
        trust=[sentence(text) for text in (_NO_CERTIFICATE, *([] if c is None else [*_trust(c), _STRICTER]))],
        again=again(command, given, "jmdp.evaluate", ["simulator, policy,", *asked]),
    )


def _useful(c: Calibration) -> bool | None:
    """True if variances and means are useful, False if neither is, None otherwise."""
    useful = {verdict is Judgement.USEFUL for verdict in (c.verdict, c.mean_verdict)}
    return useful.pop() if len(useful) == 1 else None


def _states(c: Calibration) -> str:
    return "1 held-out state" if c.states == 1 else f"{c.states:,} held-out states"


def _judged(c: Calibration) -> str:
    return (
        f"In {_states(c)}, learned gap variances are {_words(c.verdict)} and learned mean gaps are "
        f"{_words(c.mean_verdict)} (95% confidence)."
    )


def _words(verdict: Judgement) -> str:
    return "not judged, because nothing varied" if verdict is Judgement.NOTHING_VARIED else verdict.value


def _sampled(c: Calibration) -> str:
    seeds = f"seed{'s' * (len(c.seeds) > 1)} {', '.join(map(str, c.seeds))}"
    return f"n = {c.rollouts:,} rollouts of each of {c.gaps:,} gaps in {_states(c)}, {seeds}, 95% confidence"


def _figure(c: Calibration) -> Figure:
    caption = f"Each point is the gap of two actions in a held-out state. {_sampled(c)}."
    alt = f"Scatter plots of learned against simulated gaps. {_judged(c)} The numbers are in the table below."
    return Figure.of(calibration_scatter(c), caption, alt)


def _table(c: Calibration) -> Table:
    rows: list[list[Cell]] = []
    for key, words in _WORDS.items():
        value: Estimate | None = getattr(c, key)
        if value is None:
            continue
        near: Cell = ""
        if key in _RATIOS:
            near = estimate(Estimate.within(float(value), c.over_rollouts(value))).interval or ""
        rows.append([words, value, near])
    return Table(
        title="Agreement of learned and simulated gaps",
        columns=["quantity", "value, 95% interval over states", "95% interval over rollouts"],
        rows=rows,
        note=f"{_sampled(c)}. Intervals over states cover the choice of states and rollouts (bootstrap); intervals "
        "over rollouts cover the choice of rollouts in these states only.",
    )


def _simulated(c: Calibration) -> list[tuple[str, str]]:
    return [("Simulation", f"{c.gaps:,} gaps in {_states(c)}, {c.rollouts:,} rollouts each under shared randomness")]


def _trust(c: Calibration) -> list[str]:
    said: list[Any] = [
        "held-out states are assumed to be drawn from the distribution of interest, and rollouts of different states "
        "to be independent",
        "intervals do not cover the variation between training runs",
        "a verdict is “better than a constant” only if the whole 95% interval of the gain is above 0",
        "simulated gaps are cut at the horizon of the rollouts",
    ]
    if c.states < 30:
        said.append(f"{_states(c)} are few: intervals over states may be too narrow")
    return said
