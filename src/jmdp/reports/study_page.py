"""The page of a study: a map or sorted gaps, and a table of up to 10,000 states that can be sorted and filtered."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from jmdp.base.rounding import confidence_percent
from jmdp.base.settings import cut, short
from jmdp.errors import UnavailableError
from jmdp.reports.again import again, later
from jmdp.reports.page import Again, Page, Table
from jmdp.reports.study_data import MOST_LISTED, States, columns, embedded, number_text, outward
from jmdp.reports.study_maps import MOST_CELLS, Drawing, study_maps
from jmdp.reports.study_sorted_gaps import sorted_gaps
from jmdp.results.outcome import Outcome
from jmdp.statistics.assumptions import Assumptions
from jmdp.studies.study import Study

STATIC_ROWS = 200
"""Rows of the table that are there without JavaScript."""

_MOST_ERRORS = 20


def page(study: Study, command: str | None = None) -> Page:
    """The page of a study, complete or still running."""
    if not study.progress.finished:
        raise UnavailableError("No state is finished yet. Open the study again later.")
    states = States.of(study)
    progress, header = study.progress, study._folder.header
    simulator = cut(header["simulator"], 80)
    return Page(
        kind="Study of many states",
        title=f"Best {study.alternative} in {_states(progress.states)} of {simulator}",
        question=_question(study),
        verdict=_verdict(study, states),
        decided=None if 0 < progress.decided < progress.states else bool(progress.decided),
        status=f"decided in {progress.decided:,} of {_states(progress.states)}",
        sampling=_sampling(study, states),
        found=_found(study, states),
        trust=_trust(study, states),
        again=_again(study, command),
        template="study.html.jinja",
        extra=_extra(study, states),
        script=Path(__file__).with_name("study.js").read_text(encoding="utf-8"),
    )


def _extra(study: Study, states: States) -> dict[str, Any]:
    """What the template shows: drawings, the first rows, failures, and the data of the script."""
    data = columns(states)
    drawings = _drawings(study, states)
    return {
        "drawings": drawings,
        "undrawn": _undrawn(states, drawings),
        "rows": _static_rows(data, min(states.listed, STATIC_ROWS)),
        "listed": states.listed,
        "left_out": _left_out(states),
        "meanings": [(name, Outcome[name].value) for name in data["outcomes"]],
        "alternative": study.alternative,
        "failures": _failures(study, states),
        "data": embedded({"replay": _replay(study), **data}),
    }


def _drawings(study: Study, states: States) -> list[Drawing]:
    if states.place is not None and len(states.leader) <= MOST_CELLS:
        return study_maps(states, study.coordinates, study.alternative)
    drawn = sorted_gaps(states)
    return [] if drawn is None else [drawn]


def _undrawn(states: States, drawings: list[Drawing]) -> str:
    if not drawings:
        return "There is no picture, because no state has a gap."
    if states.place is not None and len(states.leader) > MOST_CELLS:
        return f"Maps of more than {MOST_CELLS:,} states are not in this page: jmdp.plots.study_map(study) draws them."
    return ""


def _static_rows(data: dict[str, list[Any]], count: int) -> list[list[tuple[str, str]]]:
    """The first rows, as the script writes them: the text of each cell, and the smaller one below it."""
    rows = []
    for i in range(count):
        texts = {name: number_text(*(data[name + end][i] for end in ("", "_low", "_high"))) for name in ("gap", "mean")}
        leads = number_text(*(data["better" + end][i] for end in ("", "_low", "_high")))
        leader, rival = data["leader"][i], data["rival"][i]
        rows.append(
            [
                (data["label"][i], f"no. {data['number'][i]}"),
                (data["names"][leader] if leader >= 0 else "–", f"over {data['names'][rival]}" if rival >= 0 else ""),
                texts["gap"],
                (("decided" if data["decided"][i] else "undecided"), data["outcomes"][data["outcome"][i]]),
                texts["mean"],
                leads,
                ("–" if data["n"][i] is None else f"{data['n'][i]:,}", ""),
                (data["key"][i], ""),
            ]
        )
        if data["outcomes"][data["outcome"][i]] == Outcome.FAILED.name:
            rows[-1][3] = ("failed", "")
    return rows


def _question(study: Study) -> str:
    names, count = cut(", ".join(study.alternatives), 160), len(study.alternatives)
    where = _states(study.progress.states)
    if study.alternative == "policy":
        return f"Which of {count} policies ({names}) is best from each of {where} on?"
    policy = cut(study._folder.header["policy"], 80)
    then = f"if the policy ({policy}) is followed afterwards"
    return f"Which of {count} actions ({names}) is best in each of {where}, {then}?"


def _verdict(study: Study, states: States) -> str:
    progress, confidence = study.progress, _confidence(study)
    compared = progress.finished - progress.failed
    if not compared:
        return f"No state could be compared: {_states(progress.failed)} failed."
    parts = [f"The best {study.alternative} is known in {progress.decided:,} of {_states(progress.states)}"]
    near = progress.outcomes.get(Outcome.GOOD_ENOUGH.name, 0)
    if near and study.settings.get("indifference") is not None:
        some = "all" if near == progress.decided else f"{near:,}"
        parts[0] += f" (in {some} of them to within {_indifference(study)} of the best)"
    if confidence is None and progress.decided:
        parts[0] += ", with certified intervals"
    elif confidence is not None and progress.decided:
        wrong = f"{(1 - confidence) * compared:,.1f} of the {compared:,}"
        parts[0] += (
            f", each at {confidence_percent(confidence)} confidence, so that on average at most {wrong} may be wrong"
        )
    if np.isfinite(states.gap[0]):
        value, ends = number_text(*outward(*states.estimate("gap", 0)))
        names, label = study.alternatives, cut(states.rows["state"][0].as_py(), 60)
        pair = f"{cut(names[states.leader[0]], 40)} over {cut(names[states.rival[0]], 40)}"
        parts.append(f"the largest gap is {value} {ends}, of {pair} in state {label}")
    return "; ".join(parts) + "."


def _sampling(study: Study, states: States) -> str:
    seed, confidence = study.settings.get("seed"), _confidence(study)
    if confidence is None:
        return f"Nothing was sampled: the intervals are certified. Seed {short(seed)} (not used)."
    n = states.n[~states.failed]
    size = f"n = {n.min():,.0f} to {n.max():,.0f}" if n.size and n.min() < n.max() else f"n = {n.max(initial=0):,.0f}"
    return (
        f"{size} paired rollouts of the leader in a state, {n.sum():,.0f} in all states; seed {short(seed)}, from "
        "which each state has a key of its own; intervals at "
        f"{confidence_percent(confidence)} confidence for each state."
    )


def _found(study: Study, states: States) -> list[tuple[str, str]]:
    header, progress = study._folder.header, study.progress
    outcomes = sorted(progress.outcomes.items(), key=lambda item: -item[1])
    said = [f"{count:,} {name}: {Outcome[name].value}" for name, count in outcomes]
    if not progress.complete:
        said.append(f"{progress.states - progress.finished:,} not finished; the same call of jmdp.study continues")
    certified = _confidence(study) is None
    method = (
        "ReachablePairs: explores the states that can be reached from each, with certified intervals"
        if certified
        else "paired rollouts under shared randomness, in each state until it is decided or its budget is used up"
    )
    asked = [(name, value) for name, value in study.settings.items() if value is not None]
    settings = [(name, cut(value, 200) if isinstance(value, str) else short(value, 200)) for name, value in asked]
    return [
        ("simulator", cut(header["simulator"], 300)),
        ("policy", cut(header["policy"], 300)),
        ("method", method),
        ("outcomes", "\n".join(said)),
        *settings,
        ("folder", study.path.name),
    ]


def _trust(study: Study, states: States) -> list[str]:
    confidence, said = _confidence(study), []
    if confidence is None:
        said.append("Means and gaps are certified: their intervals contain the true values of this model.")
    else:
        error = 1 - confidence
        said += [
            f"Each state is decided at {confidence_percent(confidence)} confidence, whatever its number of samples. "
            f"The intervals hold at all scheduled looks and allow for the number of {_plural(study)}."
            + ("" if study.settings.get("return_range") else " They are large-sample intervals of what was seen."),
            f"That is a statement about one state: of many, up to {100 * error:.3g}% may be decided wrongly on "
            f"average. For all decisions jointly, give confidence=1 - {error:.3g} / {study.progress.states}.",
            "The largest of many estimated gaps is probably overestimated; its interval is that of one state.",
        ]
    said.append(
        "Undecided does not mean equal: the budget, or the tolerance, was reached before one was known to be best."
    )
    said.append(
        "Numbers in this page have about five digits, and ends of intervals are rounded outwards, so that a printed "
        "interval contains the computed one. study.to_dataframe() has all digits."
    )
    if left := _left_out(states):
        said.append(left)
    return said


def _left_out(states: States) -> str:
    count = len(states.leader) - states.listed
    if not count:
        return ""
    return (
        f"The table has the {MOST_LISTED:,} states with the largest gaps; {_states(count)} with smaller or unknown "
        "gaps are left out. study.to_dataframe() and the Parquet files (study.files) have all."
    )


def _failures(study: Study, states: States) -> Table | None:
    """The errors, each with the number of its states."""
    if not states.failed.any():
        return None
    from pyarrow import array

    failed = states.rows.filter(array(states.failed))
    texts = [_last_line(error) for error in failed["error"].to_pylist()]
    counts, first = Counter(texts), dict(zip(reversed(texts), range(len(texts) - 1, -1, -1), strict=True))
    labels, keys = failed["state"], failed["key"]
    rows = [
        (cut(labels[first[text]].as_py(), 60), str(keys[first[text]].as_py()), f"{count:,}", text)
        for text, count in counts.most_common(_MOST_ERRORS)
    ]
    more = f" {len(counts) - _MOST_ERRORS:,} other errors are not shown." if len(counts) > _MOST_ERRORS else ""
    return Table(
        title=f"{_states(len(texts))} failed",
        columns=("first state", "its key", "states", "error"),
        rows=rows,
        note=f"study.failures() has the whole tracebacks.{more} jmdp.compare in such a state, with its key as the "
        "seed, raises the error again.",
    )


def _last_line(error: str | None) -> str:
    lines = [line for line in (error or "").splitlines() if line and not line[0].isspace()]
    return cut(lines[-1] if lines else "unknown error", 240)


def _again(study: Study, command: str | None) -> Again:
    header, asked = study._folder.header, study.settings
    several = study.alternative == "policy"
    given = [
        ("simulator", header["simulator"]),
        ("policies" if several else "policy", header["policy"]),
        ("states", f"{study.progress.states:,} states, in the same order"),
    ]
    arguments = [f"simulator, {given[1][0]}, states,"]
    if not several and _confidence(study) is not None:
        names = repr(study.alternatives)
        arguments.append(f"actions={names}," if len(names) <= 300 else f"actions={later(names)}")
    keywords = [f"{text}," for text in _keywords(asked)]
    return again(command, given, "jmdp.study", [*arguments, *keywords, f"path={study.path.name!r},"])


def _keywords(asked: dict[str, Any]) -> list[str]:
    """Settings as keyword arguments; those that are not set are omitted."""
    said, assumed = [], []
    defaults = {name: field.default for name, field in Assumptions.__dataclass_fields__.items()}
    for name, value in asked.items():
        if name in defaults:
            assumed += [f"{name}={short(value, 200)}"] * (value is not None and value != defaults[name])
            continue
        if value is None or not name.isidentifier() or (name == "confidence" and "tolerance" in asked):
            continue
        known = name == "coupling" and re.fullmatch(r"\w+\([\w=', ]*\)", str(value))
        plain = name != "coupling" and isinstance(value, (int, float, list))
        said.append(f"{name}={f'jmdp.{value}' if known else short(value, 200) if plain else '...'}")
    return [*said, f"assume=jmdp.Assumptions({', '.join(assumed)})"] if assumed else said


def _replay(study: Study) -> list[str]:
    """The call that repeats the comparison of one state, before and after its key; empty for certified studies."""
    if _confidence(study) is None:
        return []
    asked = study.settings
    kept = {name: value for name, value in asked.items() if name not in ("seed", "budget")}
    rest = ", ".join([f"max_samples={short(asked.get('budget'))}", *_keywords(kept)])
    if study.alternative == "policy":
        return ["jmdp.compare_policies(simulator, policies, starts=[state], seed=", f", {rest})"]
    return ["jmdp.compare(simulator, policy, state=state, seed=", f", {rest})"]


def _confidence(study: Study) -> float | None:
    """Confidence level of each decision; None if the study is certified."""
    confidence = study.settings.get("confidence")
    certified = study.settings.get("tolerance") is not None
    return float(confidence) if isinstance(confidence, (int, float)) and not certified else None


def _indifference(study: Study) -> str:
    return short(study.settings.get("indifference"))


def _plural(study: Study) -> str:
    return "policies" if study.alternative == "policy" else "actions"


def _states(count: int) -> str:
    return f"{count:,} state{'s' * (count != 1)}"
