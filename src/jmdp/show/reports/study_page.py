"""The page of a study: the map or the sorted gaps, the states with the largest gaps, and the errors of failed ones."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from jmdp.base.interval import Estimate
from jmdp.base.rounding import between, confidence_percent, counted, typeset
from jmdp.base.settings import cut, short
from jmdp.errors import UnavailableError
from jmdp.results.certificate import Outcome
from jmdp.results.text import percent, shown
from jmdp.show.reports.page import Again, Figure, Page, Table, again, later, settings, short_name
from jmdp.statistics.assumptions import Assumptions
from jmdp.studies.study import Study

if TYPE_CHECKING:
    import pandas as pd

_LISTED = 50
"""States in the table."""

_MOST_ERRORS = 20


def page(study: Study, command: str | None = None) -> Page:
    """The page of a study, complete or still running."""
    progress = study.progress
    if not progress.finished:
        raise UnavailableError("No state is finished yet. Open the study again later.")
    best = study.best().sort_values("gap", ascending=False, kind="stable")
    caption = f"The leading {study.alternative} in each state, and its gap to the runner-up."
    return Page(
        kind="Study of many states",
        question=_question(study),
        verdict=_verdict(study, best),
        decided=None if 0 < progress.decided < progress.states else bool(progress.decided),
        sampling=_sampling(study, best),
        figures=[Figure.of(study.plot(), caption)] if best["gap"].notna().any() else [],
        no_figure="There is no picture, because no state has a gap.",
        tables=[*_largest(study, best), *_failures(study)],
        found=_found(study),
        trust=_trust(study),
        again=_again(study, command),
    )


def _question(study: Study) -> str:
    names, count = cut(", ".join(study.alternatives), 160), len(study.alternatives)
    where = f"{counted(study.progress.states, 'state')} of {short_name(study._folder.header['simulator'])}"
    if study.alternative == "policy":
        return f"Which of {count} policies ({names}) is best from each of {where} on?"
    policy = cut(study._folder.header["policy"], 80)
    then = f"if the policy ({policy}) is followed afterwards"
    return f"Which of {count} actions ({names}) is best in each of {where}, {then}?"


def _verdict(study: Study, best: pd.DataFrame) -> str:
    progress, confidence, compared = study.progress, _confidence(study), len(best)
    if not compared:
        return f"No state could be compared: {counted(progress.failed, 'state')} failed."
    parts = [f"The best {study.alternative} is known in {progress.decided:,} of {counted(progress.states, 'state')}"]
    near, within = progress.outcomes.get(Outcome.GOOD_ENOUGH.name, 0), study.settings.get("indifference")
    if near and within is not None:
        some = "all" if near == progress.decided else f"{near:,}"
        parts[0] += f" (in {some} of them to within {short(within)} of the best)"
    if confidence is None and progress.decided:
        parts[0] += ", with certified intervals"
    elif confidence is not None and progress.decided:
        wrong = f"{(1 - confidence) * compared:,.1f} of the {compared:,}"
        parts[0] += (
            f", each at {confidence_percent(confidence)} confidence, so that on average at most {wrong} may be wrong"
        )
    first = best.iloc[0]
    if math.isfinite(first["gap"]):
        pair = f"{cut(first['leader'], 40)} over {cut(first['runner_up'], 40)}"
        gap = typeset(shown(_estimate(first, "gap")))
        parts.append(f"the largest gap is {gap}, of {pair} in state {cut(first['state'], 60)}")
    return "; ".join(parts) + "."


def _sampling(study: Study, best: pd.DataFrame) -> str:
    seed, confidence, n = study.settings.get("seed"), _confidence(study), best["n"].dropna()
    if confidence is None:
        return f"Nothing was sampled: the intervals are certified. Seed {short(seed)} (not used)."
    least, most = (n.min(), n.max()) if len(n) else (0, 0)
    return (
        f"n = {between(least, most)} paired rollouts of the leader in a state, {n.sum():,.0f} in all states; seed "
        f"{short(seed)}, from which each state has a key of its own; intervals at {confidence_percent(confidence)} "
        "confidence for each state."
    )


def _largest(study: Study, best: pd.DataFrame) -> list[Table]:
    """The states with the largest gaps."""
    mean = f"mean return of the {study.alternative}"
    rows = [
        {
            "state": row["state"],
            "leader": row["leader"],
            "gap to the runner-up": _estimate(row, "gap"),
            "runner-up": row["runner_up"] or "–",
            "P(better)": percent(_estimate(row, "better")),
            mean: _estimate(row, "mean"),
            "n": "–" if math.isnan(row["n"]) else int(row["n"]),
            "outcome": f"{'decided' if row['decided'] else 'undecided'} ({row['outcome']})",
        }
        for row in best.head(_LISTED).to_dict("records")
    ]
    if not rows:
        return []
    left = f"{counted(len(best) - len(rows), 'state')} with smaller or unknown gaps are left out; study.best() has all."
    words = {
        "gap": "mean return of the leader, which has the largest one, minus that of the runner-up",
        "P(better)": "how often the leader earns more than the runner-up under the same randomness",
        "n": "samples (rollouts) of the leader; – if nothing was sampled",
    }
    note = left * (len(best) > len(rows))
    title = "The states with the largest gaps" if len(best) > len(rows) else "All compared states, largest gap first"
    return [Table.of_rows(rows, list(rows[0]), title=title, note=note, words=words)]


def _estimate(row: Any, name: str) -> Estimate:
    """A number of a state; an end of its interval is infinite where the study has none."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return Estimate(row[name], -math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high)


def _failures(study: Study) -> list[Table]:
    """The errors, each with the number of its states."""
    failed = study.failures()
    if not len(failed):
        return []
    failed["error"] = [_last_line(error) for error in failed["error"]]
    counts, first = Counter(failed["error"]), failed.drop_duplicates("error").set_index("error")
    rows = [
        {"error": text, "states": count, "first state": first.at[text, "state"], "its key": str(first.at[text, "key"])}
        for text, count in counts.most_common(_MOST_ERRORS)
    ]
    more = f" {len(counts) - _MOST_ERRORS:,} other errors are not shown." if len(counts) > _MOST_ERRORS else ""
    note = (
        "study.failures() has the whole tracebacks. jmdp.compare in such a state, with its key as the seed, raises the "
        f"error again.{more}"
    )
    return [Table.of_rows(rows, list(rows[0]), title=f"{counted(len(failed), 'state')} failed", note=note)]


def _last_line(error: str | None) -> str:
    lines = [line for line in (error or "").splitlines() if line and not line[0].isspace()]
    return cut(lines[-1] if lines else "unknown error", 240)


def _found(study: Study) -> list[tuple[str, str]]:
    header, progress = study._folder.header, study.progress
    outcomes = sorted(progress.outcomes.items(), key=lambda item: -item[1])
    said = [f"{count:,} {name}: {Outcome[name].value}" for name, count in outcomes]
    if not progress.complete:
        said.append(f"{progress.states - progress.finished:,} not finished; the same call of jmdp.study continues")
    method = (
        "ReachablePairs: explores the states that can be reached from each, with certified intervals"
        if _confidence(study) is None
        else "paired rollouts under shared randomness, in each state until it is decided or its budget is used up"
    )
    given = [(name, value) for name, value in study.settings.items() if value is not None]
    return [
        ("Simulator", cut(header["simulator"], 300)),
        ("Policy", cut(header["policy"], 300)),
        ("Method", method),
        ("Outcomes", "\n".join(said)),
        *((name, cut(value, 200) if isinstance(value, str) else short(value, 200)) for name, value in given),
        ("folder", study.path.name),
    ]


def _trust(study: Study) -> list[str]:
    confidence, said = _confidence(study), []
    if confidence is None:
        said.append("Means and gaps are certified: their intervals contain the true values of this model.")
    else:
        error = 1 - confidence
        plural = "policies" if study.alternative == "policy" else "actions"
        said += [
            f"Each state is decided at {confidence_percent(confidence)} confidence, whatever its number of samples. "
            f"The intervals hold at all scheduled looks and allow for the number of {plural}."
            + ("" if study.settings.get("return_range") else " They are large-sample intervals of what was seen."),
            f"That is a statement about one state: of many, up to {100 * error:.3g}% may be decided wrongly on "
            f"average. For all decisions jointly, give confidence=1 - {error:.3g} / {study.progress.states}.",
            "The largest of many estimated gaps is probably overestimated; its interval is that of one state.",
        ]
    return [
        *said,
        "Undecided does not mean equal: the budget, or the tolerance, was reached before one was known to be best.",
    ]


def _again(study: Study, command: str | None) -> Again:
    header, asked = study._folder.header, study.settings
    policy = "policies" if study.alternative == "policy" else "policy"
    given = [("simulator", header["simulator"]), (policy, header["policy"])]
    given.append(("states", f"{study.progress.states:,} states, in the same order"))
    arguments = [f"simulator, {policy}, states,"]
    if policy == "policy" and _confidence(study) is not None:
        names = repr(study.alternatives)
        arguments.append(f"actions={names}," if len(names) <= 300 else f"actions={later(names)}")
    if "tolerance" in asked:
        asked.pop("confidence", None)
    defaults = {part: field.default for part, field in Assumptions.__dataclass_fields__.items()}
    known = {part: asked.pop(part) for part in defaults if part in asked}
    assumed = settings(**{part: value for part, value in known.items() if value != defaults[part]})
    for part, value in asked.items():
        if part == "coupling" and re.fullmatch(r"\w+\([\w=', ]*\)", str(value)):
            arguments.append(f"coupling=jmdp.{value},")
        elif part.isidentifier():
            arguments += [f"{part}={later(value)}"] if isinstance(value, str) else settings(**{part: value})
    if assumed:
        arguments.append(f"assume=jmdp.Assumptions({' '.join(assumed).rstrip(',')}),")
    return again(command, given, "jmdp.study", [*arguments, *settings(path=study.path.name)])


def _confidence(study: Study) -> float | None:
    """Confidence level of each decision; None if the study is certified."""
    confidence = study.settings.get("confidence")
    certified = study.settings.get("tolerance") is not None
    return float(confidence) if isinstance(confidence, (int, float)) and not certified else None
