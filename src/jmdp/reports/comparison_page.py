"""Pages of comparisons: of actions, policies and designs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jmdp.base import rounding
from jmdp.base.interval import Verdict
from jmdp.comparisons.comparison import Comparison, WholeComparison
from jmdp.comparisons.comparison_table import assumptions, effort, eliminated, stopped, unvaried
from jmdp.comparisons.policy_comparison import PolicyComparison
from jmdp.comparisons.run_comparison import RunComparison, RunComparisons
from jmdp.plots.comparison_chart import comparison_chart
from jmdp.reports.again import again, later, settings
from jmdp.reports.comparison_tables import margin_table, means_table, one_run_table, regret_table, sampled, shared_table
from jmdp.reports.page import Again, Figure, Page, Table
from jmdp.reports.words import MOST_DRAWN, coupling_words, name, sentence, short_name
from jmdp.results.outcome import Outcome
from jmdp.statistics.assumptions import Assumptions


def page(result: Comparison | RunComparisons, command: str | None = None) -> Page:
    """The page of one comparison, or of several measures of the same runs."""
    several = isinstance(result, RunComparisons)
    parts = list(result.values()) if isinstance(result, RunComparisons) else [result]
    c = parts[0]
    decided = [_decided(part) for part in parts]
    return Page(
        kind=f"Comparison of {c.summary.labels.plural} under shared randomness",
        title=_title(c, len(parts) if several else 0),
        question=_question(c, len(parts) if several else 0),
        verdict=_verdict(result),
        decided=None if None in decided else all(decided),
        status=_status(parts),
        sampling=_sampling(result),
        figures=[_figure(part) for part in parts if len(part.actions) <= MOST_DRAWN],
        no_figure=f"Figures have at most {MOST_DRAWN} {c.summary.labels.plural}; the numbers are below.",
        tables=[table for part in parts for table in _tables(part)],
        found=_found(parts),
        trust=[*dict.fromkeys(said for part in parts for said in _trust(part)), *_jointly(result)],
        again=_again(result, command),
    )


def _title(c: Comparison, measures: int) -> str:
    what = f"{len(c.actions)} {c.summary.labels.plural}"
    if isinstance(c, RunComparison):
        return f"{what} compared" + (f" by {measures} measures" if measures else "")
    return f"{what} of {short_name(c.simulator)} compared"


def _question(c: Comparison, measures: int) -> str:
    many, what = len(c.actions), c.summary.labels.plural
    others = [name(other) for other in c.actions if other != c.reference]
    best = "is best" if isinstance(c, RunComparison) else "earns most"
    if c.margin is not None:
        asked = f"Is {' or '.join(others)} worse than {name(c.reference)} on average by more than {c.margin}"
    elif c.baseline is not None:
        asked = f"Is {' or '.join(others)} better or worse than {name(c.baseline)} on average"
    else:
        asked = f"Which of {many} {what} {best} on average"
    if isinstance(c, RunComparison):
        of = f"for each of {measures} measures" if measures else f"by {name(c.measure)}" if c.measure else ""
        return f"{asked}{', ' if of else ''}{of}?"
    if isinstance(c, PolicyComparison):
        return f"{asked} over an episode of {short_name(c.simulator)}?"
    return f"{asked} in one state of {short_name(c.simulator)}, if the same policy is followed afterwards?"


def _verdict(result: Comparison | RunComparisons) -> str:
    said = result.answer
    return said[:1].upper() + said[1:] if said.startswith(("undecided", "too few")) else said


def _decided(c: Comparison) -> bool | None:
    if c.margin is not None:
        return all(c.not_worse(c.margin, other).verdict is Verdict.YES for other in c.actions if other != c.reference)
    return None if c.outcome in (Outcome.DETERMINISTIC, Outcome.ONE_FUTURE) else c.decided


def _status(parts: Sequence[Comparison]) -> str:
    c = parts[0]
    if c.margin is not None:
        verdicts = {c.not_worse(c.margin, other).verdict for other in c.actions if other != c.reference}
        words = {Verdict.NO: "Worse by more than the margin", Verdict.UNKNOWN: "Not decided"}
        return next(
            (words[v] for v in (Verdict.NO, Verdict.UNKNOWN) if v in verdicts), "Not worse by more than the margin"
        )
    if len(parts) > 1:
        return f"{sum(part.decided for part in parts)} of {len(parts)} measures decided"
    special = {Outcome.DETERMINISTIC: "Exact for this state", Outcome.ONE_FUTURE: "Nothing varied"}
    return special.get(c.outcome, "Decided" if c.decided else "Not decided")


def _sampling(result: Comparison | RunComparisons) -> str:
    if not isinstance(result, RunComparisons):
        return sampled(result)
    each = next(iter(result.values()))
    jointly = rounding.confidence_percent(result.confidence)
    return f"{sampled(each)}: of each measure, so that all hold jointly at {jointly}"


def _figure(c: Comparison) -> Figure:
    beside = name(c.reference)
    caption = (
        f"Above: mean gaps to {beside} with their intervals; bars are one standard deviation of the gap to each side, "
        f"with shared and with independent randomness. Below: how often each is better. {sampled(c)}."
    )
    of = f"{c.mean_title} of {len(c.actions)} {c.summary.labels.plural}"
    return Figure.of(
        comparison_chart(c),
        f"Measure {name(c.measure)}. {caption}" if isinstance(c, RunComparison) and c.measure else caption,
        f"Chart of the {of} beside {beside}. {c.answer}. The numbers are in the tables below.",
    )


def _measured(c: Comparison, text: str) -> str:
    measure = getattr(c, "measure", None)
    return text if measure is None else f"{name(measure)}: {text}"


def _tables(c: Comparison) -> list[Table]:
    tables = [means_table(c), one_run_table(c), shared_table(c)]
    if c.margin is not None:
        tables.insert(0, margin_table(c))
    return tables if isinstance(c, WholeComparison) else [*tables, regret_table(c)]


def _found(parts: Sequence[Comparison]) -> list[tuple[str, str]]:
    c = parts[0]
    found = []
    if not isinstance(c, RunComparison):
        policy = "Policies" if isinstance(c, PolicyComparison) else "Policy afterwards"
        found += [("Simulator", name(c.simulator)), (policy, name(c.policy))]
        found.append(("Returns", f"rewards of {c.horizon:,} steps at most, discount {c.discount:g}"))
        found.append(("Shared randomness", coupling_words(c.summary.coupling, f"{c.run}s of a sample")))
    else:
        found.append(("Shared randomness", "draws with equal keys are equal in all designs"))
    found += [("Sampling", _measured(part, stopped(part))) for part in parts]
    found.append(("Effort", effort(c)))
    whole = [part for part in parts if isinstance(part, WholeComparison)]
    return [*found, *(("Gain by pairing", _measured(part, _gain(part))) for part in whole)]


def _gain(c: WholeComparison) -> str:
    note = " Shares of the variance are estimates, no interval." * (c.pairing.shares is not None)
    return " ".join(c.pairing.sentences()) + note


def _trust(c: Comparison) -> list[str]:
    beside = c.beside_reference if isinstance(c, WholeComparison) else c.beside_leader
    said = [*assumptions(c), *unvaried(c, beside), *eliminated(c)]
    if c.outcome in (Outcome.ONE_FUTURE, Outcome.DETERMINISTIC):
        said.append(
            "if the simulator is deterministic from this state, the means are exact; if its randomness was drawn "
            "earlier, or changes the return too rarely, other returns are possible"
        )
    if c.margin is not None:
        said.append(
            "the verdict on the margin uses wider intervals than the table of means: they allow for an unseen event "
            "that costs a whole episode"
        )
    what = "these simulations" if isinstance(c, RunComparison) else "this simulator"
    said.append(f"the numbers are about {what}, which may differ from the real system")
    return [sentence(text) for text in said]


def _jointly(result: Comparison | RunComparisons) -> list[str]:
    if not isinstance(result, RunComparisons):
        return []
    jointly = rounding.confidence_percent(result.confidence)
    return [f"All statements on the {len(result)} measures hold jointly at {jointly} confidence."]


def _again(result: Comparison | RunComparisons, command: str | None) -> Again:
    c = next(iter(result.values())) if isinstance(result, RunComparisons) else result
    asked = settings(
        seed=c.seed,
        baseline=c.baseline,
        confidence=result.confidence,
        indifference=c.indifference,
        margin=None if c.margin is None else str(c.margin),
        **_sampled(c),
        assume=_assumed(list(result.values()) if isinstance(result, RunComparisons) else [result]),
    )
    if _is_precise(c):
        asked.append(f"precision={later('as in the first call')}")
    names = ", ".join(map(repr, c.actions))
    if isinstance(c, RunComparison):
        parts = list(result.values()) if isinstance(result, RunComparisons) else [c]
        smaller = [part.measure for part in parts if part.minimized and part.measure is not None]
        asked += settings(minimize=(smaller or None) if isinstance(result, RunComparisons) else c.minimized or None)
        given = [("runs", f"a dictionary of functions: {names}")]
        return again(command, given, "jmdp.compare_runs", ["runs,", *asked])
    asked += settings(discount=c.discount, coupling=c.summary.coupling, horizon=c.horizon)
    given = [("simulator", c.simulator)]
    if isinstance(c, PolicyComparison):
        given.append(("policies", f"a dictionary of policies: {names}"))
        if c.starts.given:
            given.append(("starts", f"the start states: {', '.join(c.starts.names[:20])}"))
        starts = ["starts=starts,"] if c.starts.given else []
        return again(command, given, "jmdp.compare_policies", ["simulator, policies,", *starts, *asked])
    given += [("state", "the state in which the actions were compared"), ("policy", c.policy)]
    actions = repr(c.actions if _are_named(c) else list(c.numbers or ()))
    if c.numbers is None:
        given.append(("actions", f"a dictionary of actions: {names}"))
        actions = "actions"
    return again(command, given, "jmdp.compare", [f"simulator, policy, state=state, actions={actions},", *asked])


def _sampled(c: Comparison) -> dict[str, Any]:
    """The numbers of samples of the call, and its looks."""
    sampling = c.summary.sampling
    if sampling.kind == "planned":
        return {"max_samples": sampling.most, "looks": "planned"}
    return {"samples" if sampling.kind == "fixed" else "max_samples": c.samples}


def _assumed(parts: Sequence[Comparison]) -> Assumptions | None:
    """What the call was told beyond the samples: by measure where measures differ."""
    found: dict[str, Any] = {}
    for field in Assumptions.__dataclass_fields__:
        values = {getattr(c, "measure", None): getattr(c.summary.assume, field) for c in parts}
        first = next(iter(values.values()))
        found[field] = first if all(value == first for value in values.values()) else values
    return None if Assumptions(**found) == Assumptions() else Assumptions(**found)


def _are_named(c: Comparison) -> bool:
    return c.numbers is None or any(text != str(i) for text, i in zip(c.actions, c.numbers, strict=True))


def _is_precise(c: Comparison) -> bool:
    """True if the comparison was to be so precise: its result does not contain how much."""
    return c.outcome is Outcome.PRECISE or (c.outcome is Outcome.BUDGET_EXHAUSTED and c.best is not None)
