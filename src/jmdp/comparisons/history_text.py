"""What a comparison with a recorded history says: what would have happened, or what to expect of such a period."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jmdp.base import rounding
from jmdp.base.rounding import counted, whole_percent
from jmdp.results.certificate import Outcome
from jmdp.statistics.history import HistoryUse

if TYPE_CHECKING:
    from jmdp.comparisons.comparison import Comparison


def history_answer(c: Comparison, usual: str) -> str:
    """The answer of a comparison with a history; `usual` is that of one without."""
    use = c.summary.history
    if use is None:
        return usual
    if use.resampled:
        return _expected(c, use)
    if c.outcome is not Outcome.DETERMINISTIC:
        about = f"The interval is about what is drawn: {recorded(use)}"
        return f"{usual.removesuffix('.')}. {about}{_hidden(c, use)}"
    said = "; ".join(_would(c, first, second) for first, second in _pairs(c))
    return (
        f"In {_period(use)}, {said}. This is what would have happened, exactly. It is one history, so there is no "
        f"interval, and it says nothing about other {use.name}s{_hidden(c, use)}"
    )


def recorded(use: HistoryUse) -> str:
    """That purposes are as recorded."""
    some = " and ".join(filter(None, [", ".join(use.purposes[:-1]), use.purposes[-1]]))
    return f"{some} {'are' if len(use.purposes) > 1 else 'is'} as recorded in {_period(use)}"


def _period(use: HistoryUse) -> str:
    return f"the history of {counted(use.periods, use.name)} ({use.first} to {use.last})"


def _pairs(c: Comparison) -> list[tuple[str, str]]:
    """The alternatives that the answer compares, the better one first: with the baseline, or the best two."""
    others = [name for name in c.alternatives if name != c.reference] if c.baseline else [c.runner_up]
    found = []
    for name in others:
        first, second = (c.reference, name) if not c.baseline else (name, c.reference)
        found.append((first, second) if float(c.advantage(first, second)) >= 0 else (second, first))
    return found


def _would(c: Comparison, first: str, second: str) -> str:
    gap = f"{float(c.advantage(first, second)):.10g}"
    return c.wording.would.format(first=first, second=second, gap=gap)


def _expected(c: Comparison, use: HistoryUse) -> str:
    """What to expect of a period of this length."""
    said = [_in_such_periods(c, use, first, second) for first, second in _pairs(c)]
    drawn = f"{c.samples:,} resampled histories in blocks of {counted(use.block or 0, use.name)}"
    level = f"{rounding.confidence_percent(c.confidence)} confidence, " * (use.freedom > 0)
    return f"{'; '.join(said)} ({level}{drawn}; {counts(use)}){_in_itself(c, use)}{_hidden(c, use)}"


def _in_such_periods(c: Comparison, use: HistoryUse, first: str, second: str) -> str:
    gap, over = c.advantage(first, second), f"over {counted(use.periods, use.name)} like these"
    if gap.low > 0:
        return f"{over}, {c.wording.by.format(first=first, second=second, gap=rounding.plus_minus(gap))}"
    why = "undecided" if gap.has_interval else "no interval"
    size = rounding.plus_minus(gap) if gap.has_interval else f"{float(gap):.4g}"
    return f"{why} {over}: {c.wording.gap.format(first=first, second=second, gap=size)}"


def counts(use: HistoryUse) -> str:
    """For how many independent periods the history counts."""
    if use.effective is None:
        return f"no number for each {use.name}, so it is not known for how many independent {use.name}s they count"
    about = f"{counted(use.periods, use.name)} count as about {use.effective:.0f} independent ones"
    return about if not use.lacks else f"{about}, {use.lacks}, so there is no interval"


def _in_itself(c: Comparison, use: HistoryUse) -> str:
    """The gaps in the recorded history."""
    if use.totals is None:
        return ""
    index, said = c.summary.labels.index, []
    for first, second in _pairs(c):
        gap = c.summary.sign * (use.gap(index(first), index(second)) or 0.0)
        said.append(c.wording.gap.format(first=first, second=second, gap=f"{gap:.6g}"))
    return f". In the recorded history itself: {'; '.join(said)}"


def _hidden(c: Comparison, use: HistoryUse) -> str:
    """How much of the gap falls in periods that hide what would have been."""
    if not use.censored:
        return ""
    where = f"{counted(use.censored, use.name)} of {use.periods} in which {use.marks} hides what would have been"
    if use.hidden is None or use.totals is None:
        return f". There are {where}: return one number for each {use.name} to see how much of the gap falls there"
    index, said = c.summary.labels.index, []
    for first, second in _pairs(c):
        a, b = index(first), index(second)
        part, whole = use.hidden_gap(a, b) or 0.0, use.gap(a, b) or 0.0
        share = f" ({whole_percent(part / whole)})" if whole and 0 <= part / whole <= 1 else ""
        said.append(f"{c.summary.sign * part:.6g}{share}")
    return f". Of this, {' and '.join(said)} falls in {where}"


def validity(use: HistoryUse) -> str:
    """When the intervals hold."""
    return (
        f"intervals of mean gaps are about any period of {counted(use.periods, use.name)} like those recorded: they "
        f"come from the spread of histories made from blocks of {counted(use.block or 0, use.name)}, and do not shrink "
        "with the number of these; means, chances and quantiles are those of these histories, without an interval"
    )
