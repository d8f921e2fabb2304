"""Pages of comparisons: of actions, policies and designs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from jmdp.base.interval import Verdict
from jmdp.base.rounding import confidence_percent, plus_minus, typeset
from jmdp.base.settings import cut
from jmdp.comparisons.comparison import ActionComparison, Comparison, WholeComparison
from jmdp.comparisons.comparison_table import (
    assumptions,
    earlier_randomness,
    effort,
    eliminated,
    sample_size,
    stopped,
    titles,
    unvaried,
)
from jmdp.comparisons.policy_comparison import PolicyComparison, RunComparison, RunComparisons
from jmdp.comparisons.score_comparison import ScoreComparison
from jmdp.results.certificate import Outcome
from jmdp.results.text import confidence, percent
from jmdp.show.plots.comparison_chart import comparison_chart
from jmdp.show.reports.page import (
    MOST_DRAWN,
    Again,
    Figure,
    Page,
    Table,
    again,
    coupling_words,
    later,
    name,
    settings,
    short_name,
)
from jmdp.statistics.assumptions import Assumptions
from jmdp.statistics.selection import Margin


def _tables(parts: Sequence[Comparison]) -> list[Table]:
    """The rows of a comparison, or of several measures, as tables that fit on a page."""
    c = parts[0]
    titled = titles(c)
    if len(parts) > 1:
        titled[:2] = "mean", f"advantage over the {_role(c)}"
    mean, gap, std, better, worse, correlation, ratio, ceiling = titled
    rows = [row for part in parts for row in _rows(part, titled)]
    others = [row for row in rows if gap in row]
    index = ["measure"] * (len(parts) > 1) + [c.summary.labels.kind]
    beside = f"the {_role(c)}"
    it, of = ("it", "over") if isinstance(c, WholeComparison) else (beside, "of")
    quantiles = [part for part in others[0] if part.endswith(" of advantage")]
    regrets = [part for part in others[0] if part.endswith("regret")]
    undefined = any(math.isnan(row[part]) for row in others for part in (correlation, ceiling))
    words = {
        name(better, 60): f"how often {it} is better, {'with' if c.simulated else 'in pairs of'} the same "
        f"{'randomness' if c.simulated else c.wording.run}",
        "worst 5% of advantage": f"mean of the worst 5% of {c.wording.run}s; with an interval only if a range of "
        "returns is given",
        "win rate": f"how often {it} is better, plus half of how often both are the same",
        std: f"standard deviation of the gap to {beside}",
        ratio: f"how many times as many {c.wording.run}s independent sampling would need for the same precision",
        ceiling: "no sharing of randomness can gain more, with returns of these standard deviations",
        "mean regret": f"what the {c.summary.labels.kind} earns less than the best one in hindsight, in the samples in "
        f"which every {c.summary.labels.kind} was simulated (n = {len(c.summary.samples.complete.returns):,})",
    }

    paired = f"Chances, standard deviations and correlations are from the first {c.paired_samples:,} samples."
    paired *= c.paired_samples != c.samples

    def table(rows: Sequence[Mapping[str, Any]], title: str, columns: Sequence[str], note: str = "") -> Table:
        meant = {part: words[part] for part in [name(part, 60) for part in columns] if part in words}
        return Table.of_rows(rows, [*index, *columns], title=title, note=f"{paired}{note}", words=meant)

    tables = [
        table(rows, "Means and gaps", [mean, gap, better, worse, "samples"]),
        table(others, f"Advantage {of} {beside} in one {c.wording.run}", [*quantiles, "win rate"]),
        table(
            others,
            "What shared randomness gains" if c.simulated else "What pairs gain",
            [std, correlation, ratio, ceiling],
            " –: undefined, because a return or a gap did not vary." * undefined,
        ),
    ]
    if c.margin is not None:
        margins = [row for part in parts for row in _margins(part, c.margin)]
        tables.insert(0, table(margins, "The margin", list(margins[0])[2:]))
    return [*tables, table(rows, "Regret", regrets)] if regrets else tables


def _rows(c: Comparison, titled: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a comparison, the best mean first, with these titles; that of the reference has no gap."""
    found = {row[c.summary.labels.kind]: row for row in c.rows()}
    rows = []
    for other in c.ranked:
        row = found[other] | _measure(c)
        row |= {part: percent(row[part]) for part in (*titles(c)[3:5], "win rate")}
        row |= dict(zip(titled, [row.pop(part) for part in titles(c)], strict=True))
        if other == c.reference:
            row[c.summary.labels.kind] = f"{name(other)} ({_role(c)})"
            row = {part: row[part] for part in row if part not in titled[1:]}
        rows.append(row)
    return rows


def _role(c: Comparison) -> str:
    return "leader" if c.baseline is None else "baseline"


def _measure(c: Comparison) -> dict[str, str]:
    measure = c.measure if isinstance(c, RunComparison) else None
    return {"measure": f"{name(measure or '')}{', smaller is better' * (c.summary.sign < 0)}"}


def _margins(c: Comparison, margin: Margin) -> list[dict[str, Any]]:
    """The verdicts on the margin."""
    rows = []
    for found in (c.not_worse(margin, other) for other in c.ranked if other != c.reference):
        change = "" if found.change is None else typeset(found.percent)
        row = _measure(c) | {c.summary.labels.kind: found.new, "gap to the baseline": found.gap, "change": change}
        row |= {
            "margin": typeset(str(margin)),
            "not worse?": found.verdict.value,
            f"pairs of {c.wording.run}s": found.samples,
        }
        rows.append(row)
    return rows


def page(result: Comparison | RunComparisons, command: str | None = None) -> Page:
    """The page of one comparison, or of several measures of the same runs."""
    several = isinstance(result, RunComparisons)
    parts: list[Comparison] = list(result.values()) if isinstance(result, RunComparisons) else [result]
    c = parts[0]
    decided = [_decided(part) for part in parts]
    return Page(
        kind=f"Comparison of {c.summary.labels.plural} {'under shared randomness' if c.simulated else 'by scores'}",
        question=_question(c, len(parts) if several else 0),
        verdict=_verdict(result),
        decided=None if None in decided else all(decided),
        sampling=_sampling(c, result.confidence if several else None),
        figures=[_figure(part) for part in parts if len(part.alternatives) <= MOST_DRAWN],
        no_figure=f"Figures have at most {MOST_DRAWN} {c.summary.labels.plural}; the numbers are below.",
        tables=_tables(parts),
        found=_found(parts),
        trust=list(dict.fromkeys(said for part in parts for said in _trust(part))),
        again=_again(parts, result.confidence, several, command),
    )


def _question(c: Comparison, measures: int) -> str:
    many, what = len(c.alternatives), c.summary.labels.plural
    others = [name(other) for other in c.alternatives if other != c.reference]
    best = "is best" if isinstance(c, RunComparison | ScoreComparison) else "earns most"
    if c.margin is not None:
        asked = f"Is {' or '.join(others)} worse than {name(c.reference)} on average by more than {c.margin}"
    elif c.baseline is not None:
        asked = f"Is {' or '.join(others)} better or worse than {name(c.baseline)} on average"
    else:
        asked = f"Which of {many} {what} {best} on average"
    if isinstance(c, RunComparison):
        of = f"for each of {measures} measures" if measures else f"by {name(c.measure)}" if c.measure else ""
        return f"{asked}{', ' if of else ''}{of}?"
    if isinstance(c, ScoreComparison):
        return f"{asked}, by {c.wording.mean}?"
    if isinstance(c, PolicyComparison):
        return f"{asked} over an episode of {short_name(c.simulator)}?"
    return f"{asked} in one state of {short_name(c.simulator)}, if the same policy is followed afterwards?"


def _verdict(result: Comparison | RunComparisons) -> str:
    """The answer; of several measures a line each."""
    if isinstance(result, RunComparisons):
        return "\n".join(f"{name(measure)}: {_line(c)}" for measure, c in result.items())
    said = result.answer
    return said[:1].upper() + said[1:] if said.startswith(("undecided", "too few")) else said


def _line(c: RunComparison) -> str:
    """The verdict on one measure, without how often and what would reverse it."""
    others = [other for other in c.alternatives if other != c.reference]
    if c.margin is not None:
        return "; ".join(c.not_worse(c.margin, other).sentence for other in others)
    seen = "" if c.firm else ", on what was seen"
    decided = f"{c.best} is best{seen}" if c.best is not None else "decided" if c.decided else "not decided"
    pairs = [(c.leader, c.runner_up)] if c.baseline is None else [(other, c.baseline) for other in others]
    gaps = [c.wording.gap.format(first=a, second=b, gap=plus_minus(c.advantage(a, b))) for a, b in pairs]
    return cut(f"{decided}; {'; '.join(gaps)}", 400)


def _decided(c: Comparison) -> bool | None:
    if c.margin is not None:
        return all(
            c.not_worse(c.margin, other).verdict is Verdict.YES for other in c.alternatives if other != c.reference
        )
    return None if c.outcome in (Outcome.DETERMINISTIC, Outcome.ONE_FUTURE) else c.decided


def _sampling(c: Comparison, joint: float | None) -> str:
    """Number of samples, seed and confidence; `joint` is that of several measures."""
    said = f"n = {sample_size(c)}, seed {c.seed}" if c.simulated else f"n = {sample_size(c)}"
    if c.summary.certain:
        return f"{said}, no random numbers were used"
    said += f", {confidence(c.confidence, c.summary.return_range is None)}"
    if joint is not None:
        said += f": of each measure, so that all hold jointly at {confidence_percent(joint)}"
    return said


def _figure(c: Comparison) -> Figure:
    caption = (
        f"Above: mean gaps to {name(c.reference)} with their intervals; bars are one standard deviation of the gap to "
        "each side, with shared and with independent randomness. Below: how often each is better."
    )
    measure = c.measure if isinstance(c, RunComparison) else None
    return Figure.of(comparison_chart(c), caption if measure is None else f"Measure {name(measure)}. {caption}")


def _found(parts: Sequence[Comparison]) -> list[tuple[str, str]]:
    c = parts[0]
    found = []
    if isinstance(c, ActionComparison | PolicyComparison):
        policy = "Policies" if isinstance(c, PolicyComparison) else "Policy afterwards"
        found += [("Simulator", name(c.simulator)), (policy, name(c.policy))]
        found.append(("Returns", f"rewards of {c.summary.horizon:,} steps at most, discount {c.summary.discount:g}"))
        found.append(("Shared randomness", coupling_words(c.summary.coupling, f"{c.wording.run}s of a sample")))
    elif isinstance(c, ScoreComparison):
        found.append(("Scores", c.effort))
    else:
        found.append(("Shared randomness", "draws with equal keys are equal in all designs"))
    for part in parts:
        measure = getattr(part, "measure", None)
        of = "" if measure is None else f", {name(measure, 40)}"
        if len(parts) > 1:
            found.append((f"Answer{of}", part.answer))
        found.append((f"Sampling{of}", stopped(part)))
        if isinstance(part, WholeComparison) and part.simulated:
            found.append((f"Gain by pairing{of}", _gain(part)))
    return [*found, ("Effort", effort(c))] if c.simulated else found


def _gain(c: WholeComparison) -> str:
    note = " Shares of the variance are estimates, no interval." * (c.pairing.shares is not None)
    return " ".join(c.pairing.sentences()) + note


def _trust(c: Comparison) -> list[str]:
    if isinstance(c, ScoreComparison):
        return [*c.remarks(), *unvaried(c)]
    said = [*assumptions(c), *unvaried(c), *eliminated(c), *earlier_randomness(c)]
    if c.margin is not None:
        said.append(
            "the verdict on the margin uses wider intervals than the table of means: they allow for an unseen event "
            "that costs a whole episode"
        )
    return said


def _again(parts: Sequence[Comparison], confidence: float, several: bool, command: str | None) -> Again:
    c = parts[0]
    if isinstance(c, ScoreComparison):
        given = [("scores", f"the scores of {', '.join(map(repr, c.alternatives))}")]
        return again(command, given, "jmdp.compare_scores", ["scores,", *settings(**c.continue_scores.question.given)])
    asked = settings(
        seed=c.seed,
        baseline=c.baseline,
        confidence=confidence,
        indifference=c.indifference,
        margin=None if c.margin is None else str(c.margin),
        **_sampled(c),
        assume=_assumed(parts),
    )
    if _is_precise(c):
        asked.append(f"precision={later('as in the first call')}")
    names, use = ", ".join(map(repr, c.alternatives)), c.summary.history
    history = []
    if use is not None:
        history.append(("history", f"the jmdp.RecordedLuck from {use.first} to {use.last}"))
        asked.append(f"luck=history{f'.resampled({use.block})' * use.resampled},")
    if isinstance(c, RunComparison):
        smaller = [part.measure for part in parts if isinstance(part, RunComparison) and part.minimized]
        asked += settings(minimize=(smaller if several else c.minimized) or None)
        given = [("runs", f"a dictionary of functions: {names}"), *history]
        return again(command, given, "jmdp.compare_runs", ["runs,", *asked])
    asked += settings(discount=c.summary.discount, coupling=c.summary.coupling, horizon=c.summary.horizon)
    given = [("simulator", c.simulator), *history]
    if isinstance(c, PolicyComparison):
        given.append(("policies", f"a dictionary of policies: {names}"))
        if c.starts.given:
            given.append(("starts", f"the start states: {', '.join(c.starts.names[:20])}"))
        starts = ["starts=starts,"] if c.starts.given else []
        return again(command, given, "jmdp.compare_policies", ["simulator, policies,", *starts, *asked])
    assert isinstance(c, ActionComparison)
    given += [("state", "the state in which the actions were compared"), ("policy", c.policy)]
    named = c.numbers is None or any(text != str(i) for text, i in zip(c.alternatives, c.numbers, strict=True))
    actions = repr(c.alternatives if named else list(c.numbers or ()))
    if c.numbers is None:
        given.append(("actions", f"a dictionary of actions: {names}"))
        actions = "actions"
    return again(command, given, "jmdp.compare", [f"simulator, policy, state=state, actions={actions},", *asked])


def _sampled(c: Comparison) -> dict[str, Any]:
    """The numbers of samples of the call, and its looks."""
    sampling = c.summary.sampling
    if sampling.kind == "planned":
        return {"max_samples": sampling.most, "looks": "planned"}
    return {"samples" if sampling.kind in ("fixed", "histories") else "max_samples": max(2, c.samples)}


def _assumed(parts: Sequence[Comparison]) -> Assumptions | None:
    """What the call was told beyond the samples: by measure where measures differ."""
    found: dict[str, Any] = {}
    for field in Assumptions.__dataclass_fields__:
        values = {getattr(c, "measure", None): getattr(c.summary.assume, field) for c in parts}
        first = next(iter(values.values()))
        found[field] = first if all(value == first for value in values.values()) else values
    return None if Assumptions(**found) == Assumptions() else Assumptions(**found)


def _is_precise(c: Comparison) -> bool:
    """True if the comparison was to be so precise: its result does not contain how much."""
    return c.outcome is Outcome.PRECISE or (c.outcome is Outcome.BUDGET_EXHAUSTED and c.best is not None)
