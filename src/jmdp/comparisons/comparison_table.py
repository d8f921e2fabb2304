"""Comparisons as text: the answer, a line for each alternative, then regret or pairing, effort and assumptions.

The regret of an alternative, and the gap of two, in one run: their distributions, with intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jmdp.base import rounding
from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate
from jmdp.base.rounding import between, whole_percent
from jmdp.base.settings import real_number, short
from jmdp.comparisons.answer import answer_sentence, history_validity, is_unknown, recorded
from jmdp.comparisons.pairing import ceiling_text
from jmdp.errors import SettingsError
from jmdp.results.certificate import Outcome
from jmdp.results.text import ESTIMATES, UNDEFINED, Written, lines, paragraphs, percent, shown
from jmdp.statistics.bounded_returns import bounded_limits
from jmdp.statistics.means import Sampling

if TYPE_CHECKING:
    from jmdp.comparisons.comparison import ActionComparison, Comparison, WholeComparison


def titles(c: Comparison) -> list[str]:
    """Titles of the columns of `Comparison.beside`."""
    gap = [f"advantage over {c.reference}", "std", "P(better)", "P(worse)"]
    if c.summary.labels.kind == "action":
        gap = [f"advantage of {c.leader}", "std", f"P({c.leader} better)", f"P({c.leader} worse)"]
    return [c.wording.mean, *gap, "correlation", f"{c.wording.run}s if independent", "ceiling"]


def comparison_table(c: ActionComparison) -> str:
    """The comparison of actions as sentences and a table."""
    leader, summary, draws = c.leader, c.summary, c.summary.samples
    coupling = f"{type(summary.coupling).__name__} coupling, discount {summary.discount:g}, horizon {summary.horizon}"
    regret = c.regret(leader)
    skipped = draws.shared_steps / max(1, draws.steps + draws.shared_steps)
    saved = f", {whole_percent(skipped)} of steps skipped: rollouts had reached identical states" if skipped else ""
    above = [
        answer_sentence(c),
        *([] if c.outcome is Outcome.ONE_FUTURE else [stopped(c)]),
        *earlier_randomness(c),
        f"{len(c.alternatives)} actions of {c.simulator}, followed by the policy ({c.policy}); {coupling}",
    ]
    regrets = (
        f"regret of {leader}: mean {shown(regret.mean)}, 95% quantile {shown(regret.quantile(0.95))}, "
        f"worst 5% {shown(regret.cvar(0.05))}"
    )
    table = table_lines(c)
    return paragraphs([*above, table, *in_one_run(c), regrets, f"{effort(c)}{saved}", *_qualified(c, table)])


def whole_table(c: WholeComparison, about: str) -> str:
    """The comparison of policies or runs as sentences and a table; `about` states what was compared."""
    worked = effort(c) + ", including these reruns" * (c.pairing.shares is not None)
    table = table_lines(c)
    pairing = c.pairing.sentences() if c.summary.history is None else []
    below = [*in_one_run(c), *pairing, worked, *_qualified(c, table)]
    return paragraphs([c.answer, stopped(c), about, table, *below])


def _qualified(c: Comparison, table: Sequence[str]) -> list[str]:
    """What the numbers of a comparison assume and leave out."""
    dash = ["–: undefined, because a return or a gap did not vary"] * any(" –" in line for line in table)
    return [*unvaried(c), *eliminated(c), *assumptions(c), *dash]


def table_lines(c: Comparison) -> list[str]:
    """The table of alternatives."""
    unequal = len(set(c.counts.values())) > 1
    return lines(table_rows(c), [c.summary.labels.kind, *titles(c), *[f"{c.wording.run}s"] * unequal])


def stopped(c: Comparison) -> str:
    """What is known, or why sampling stopped before. A decided comparison may have gone on for more samples."""
    if not c.simulated:
        return "decided" if c.decided else "not decided by these scores"
    if c.outcome is Outcome.BUDGET_EXHAUSTED and c.best is not None:
        return "stopped: the budget is used up; the best is known, but not every mean gap to the requested precision"
    if c.outcome is Outcome.PRECISE and len(set(c.counts.values())) > 1:
        last = f"the {c.summary.labels.plural} that were simulated to the end"
        return f"decided: every mean gap of {last} is known to the requested precision"
    if c.outcome is Outcome.DETERMINISTIC and c.summary.history is not None:
        return f"exact: nothing is drawn, and {recorded(c.summary.history)}"
    if c.outcome is Outcome.SAMPLED:
        return f"one look: {c.outcome.value}"
    return f"{'decided' if c.outcome.successful else 'stopped'}: {c.outcome.value}"


def earlier_randomness(c: Comparison) -> list[str]:
    """What it may mean that nothing was random."""
    if c.outcome not in (Outcome.ONE_FUTURE, Outcome.DETERMINISTIC):
        return []
    return [
        "If the simulator is deterministic from this state, the means are exact. If its randomness was drawn earlier, "
        "in start or reset (a shuffled deck, recorded demand), or changes the return too rarely, other returns are "
        "possible: draw it in step, or compare from several starts."
    ]


def table_rows(c: Comparison) -> list[dict[str, Any]]:
    """One row per alternative, the best mean first; the reference has its mean only."""
    rows = []
    for name in c.ranked:
        row = {c.summary.labels.kind: name, c.wording.mean: c.mean_of(name), f"{c.wording.run}s": c.counts[name]}
        if name != c.reference:
            row |= zip(titles(c), _cells(c.beside(name)), strict=True)
        rows.append(row)
    return rows


def in_one_run(c: Comparison) -> list[str]:
    """By how much and how often alternatives are better than the baseline in one run, or the leader than the next."""
    if c.outcome in (Outcome.DETERMINISTIC, Outcome.ONE_FUTURE):
        return []
    said, others = [], [name for name in c.ranked if name != c.reference]
    for name in others[: 1 if c.baseline is None else _MOST_LINES]:
        first, second = (c.reference, name) if c.baseline is None else (name, c.reference)
        quantiles = ", ".join(f"{key} {shown(value)}" for key, value in c.advantage_quantiles(first, second).items())
        rate = c.win_rate(first, second)
        wins = f"win rate {'not known' if is_unknown(rate) else percent(rate)}, ties counting half"
        gap = f"advantage of {first} over {second} in one {c.wording.run}"
        said.append(f"{gap}: {quantiles.replace(' quantile', '')}; {wins}")
    return said


_MOST_LINES = 3
"""Alternatives whose advantage over the baseline in one run is printed."""


def sample_size(c: Comparison) -> str:
    """The samples of each alternative: ``64 to 1,200 rollouts of each action``."""
    least, most = min(c.counts.values()), max(c.counts.values())
    return f"{between(least, most)} {c.wording.run}{'s' * (most > 1)} of each {c.summary.labels.kind}"


def effort(c: Comparison) -> str:
    """Number of samples of each alternative, seed and steps."""
    if not c.simulated:
        return sample_size(c)
    equal = len(set(c.counts.values())) == 1
    total = "" if equal else f", {sum(c.counts.values()):,} in total"
    steps = "" if c.wording.run == "run" else f"; {c.summary.samples.steps:,} steps simulated"
    return f"{sample_size(c)}{total}, from seed {c.seed}{steps}"


def eliminated(c: Comparison) -> list[str]:
    """The samples of means and gaps, and alternatives that are known to be worse than one that is not the leader."""
    run, labels = c.wording.run, c.summary.labels
    others: dict[str, list[str]] = {}
    for name, better in c.worse_than.items():
        if better != c.leader:
            others.setdefault(better, []).append(name)
    own, both = (
        f"the {labels.kind}'s own {run}s",
        f"the {run}s that both {labels.plural} have",
    )
    unequal = [f"each mean is of {own}, each gap of {both}"] * (len(set(c.counts.values())) > 1)
    return [*unequal, *(f"known to be worse than {better}: {', '.join(names)}" for better, names in others.items())]


def _cells(beside: Mapping[str, Estimate]) -> list[Estimate | Written]:
    """The cells of one alternative: mean, advantage and its std, chances, correlation, variance reduction, ceiling."""
    mean, advantage, std, better, worse, correlation, reduction, ceiling = beside.values()
    varied = std.has_interval or math.isfinite(reduction)  # the rest is rounding
    return [
        mean,
        advantage,
        std if varied else Written("0"),
        *(Written("0 to 100%") if is_unknown(chance) else percent(chance) for chance in (better, worse)),
        UNDEFINED if math.isnan(correlation) else Written(f"{float(correlation):.3f}"),
        Written(f"{float(reduction):.1f} ×") if math.isfinite(reduction) else UNDEFINED,
        UNDEFINED if math.isnan(ceiling) else Written(ceiling_text(ceiling)),
    ]


def assumptions(c: Comparison) -> list[str]:
    """What the intervals cover and assume."""
    summary, said = c.summary, []
    if summary.file_version is not None:
        said.append(
            f"loaded from a file of version {summary.file_version}: the outcome is as recorded, the intervals are "
            "computed anew"
        )
    if summary.limits.assumption is not None:
        said.append(
            f"{c.wording.run}s are cut at step {summary.horizon}; the intervals allow for later rewards, assuming that "
            f"{summary.limits.assumption}. If they can be larger, give assume=jmdp.Assumptions(reward_bound=…)"
        )
    if c.outcome is Outcome.DETERMINISTIC:
        return said
    if summary.history is not None and summary.history.resampled:
        return [*said, history_validity(summary.history)]
    if summary.return_range is None:
        means = "those of means are large-sample intervals of what was seen"
    else:
        least, most = map(rounding.exactly, summary.return_range)
        means = f"those of means for any returns in [{least}, {most}]"
    said.append(f"{validity(c)}: those of chances and quantiles for any distribution, {means}")
    return [*said, ESTIMATES]


def validity(c: Comparison) -> str:
    """When the intervals hold."""
    sampling, run = c.summary.sampling, c.wording.run
    once, together = (rounding.confidence_percent(1 - n * (1 - c.confidence)) for n in (1, sampling.looks))
    if sampling.kind == "fixed" and sampling.looks > 1:
        return (
            f"intervals hold at {once} for this number of {run}s alone; the comparison was continued, so that all "
            f"{sampling.looks} looks together hold at {together}"
        )
    if sampling.kind == "fixed":
        return f"intervals hold for this number of {run}s, chosen in advance"
    looks = "looks of the plan" if sampling.kind == "planned" else "scheduled looks"
    if sampling.looks > 1:
        return f"intervals hold at all {looks} at {once}, and together with those of the plan before at {together}"
    return f"intervals hold at all {looks}, so that sampling may stop at any of them"


def unvaried(c: Comparison) -> list[str]:
    """Why a gap that was the same in all samples has no interval."""
    others = [name for name in c.alternatives if name != c.reference]
    same = [name for name in others if not math.isfinite(c.beside(name)["variance_reduction"])]
    if not same or c.outcome is Outcome.DETERMINISTIC:
        return []
    gaps = f"the gap to {same[0]} was" if len(same) == 1 else f"the gaps to {', '.join(same)} were"
    return [f"{gaps} the same in all samples: no spread was seen, so there is no interval"]


@dataclass(frozen=True, eq=False)
class OneRun:
    """Samples [n] of a quantity of one run, such as a gap, with intervals of its quantiles and its largest values.

    Intervals of quantiles are valid for any distribution. The mean and `cvar` have an interval only within known bounds
    (a `return_range`); otherwise they are estimates.
    """

    values: Floats  # [n]
    hidden: Floats  # [n], error of each sample by the horizon and by rounding
    least: float  # lower bound on the quantity; −infinite without a `return_range`
    most: float  # upper bound; infinite without a `return_range`
    error: float  # probability that an interval fails; 0 if nothing is random
    sampling: Sampling

    @property
    def mean(self) -> Estimate:
        """The expectation."""
        value = float(self.values.mean())
        if self.error == 0:
            return Estimate(value, *self._between(0.5, 0.0))
        if math.isinf(self.most):
            return Estimate.within(value, None)
        ends = (self.values - self.hidden)[:, None], (self.values + self.hidden)[:, None]
        low, high = bounded_limits(*ends, self.least, self.most, 0.0, self.error)
        return Estimate(value, float(low[0]), float(high[0]))

    def quantile(self, p: float) -> Estimate:
        """The smallest x with P(quantity ≤ x) ≥ p."""
        p = _chance(p)
        low, high = self._between(p, self.error)
        return Estimate(float(np.sort(self.values)[math.ceil(self.values.size * p) - 1]), low, high)

    def cvar(self, p: float) -> Estimate:
        """Mean of the largest p of all outcomes.

        The interval is that of (1/p) ∫ quantile(1 − u) du over u from 0 to p, from joint intervals of the quantiles at
        u = p, p/√2, p/2, …; beyond the last of them the quantity is at most `most`.
        """
        p = _chance(p)
        start = float(np.quantile(self.values, 1 - p, method="inverted_cdf"))
        value = start + float(np.maximum(self.values - start, 0.0).mean()) / p
        if self.error == 0:
            return Estimate(value, *self._between(p, 0.0))
        if math.isinf(self.most - self.least):
            return Estimate.within(value, None)
        tails = p * 2.0 ** (-0.5 * np.arange(_LEVELS))
        lows, highs = np.array([self._between(1 - tail, self.error / _LEVELS) for tail in tails]).T
        parts = -np.diff(tails, append=0.0) / p
        low, high = float(parts @ lows), float(parts @ np.append(highs[1:], self.most))
        off = 2.0**-46 * (self.most - self.least)
        return Estimate(value, max(self.least, low - off), min(self.most, high + off))

    def negative(self) -> OneRun:
        """The same samples of the negative quantity."""
        return replace(self, values=-self.values, least=-self.most, most=-self.least)

    def _between(self, p: float, error: float) -> tuple[float, float]:
        """Interval of the p-quantile."""
        n = self.values.size
        if error == 0:  # nothing is random
            return max(self.least, float((self.values - self.hidden)[0])), float((self.values + self.hidden)[0])
        low, high = self.sampling.quantile_ranks(p, n, error)
        least = float(np.sort(self.values - self.hidden)[low - 1]) if low else -math.inf
        most = float(np.sort(self.values + self.hidden)[high - 1]) if high <= n else math.inf
        return max(self.least, least), min(self.most, most)


@dataclass(frozen=True, eq=False)
class Regret(OneRun):
    """Distribution of the regret of an action: samples ≥ 0 of max_b Z(b) − Z(action), the worst being the largest."""

    action: str


_LEVELS = 16
"""Number of quantiles in the interval of `cvar`."""


_SMALLEST = 2.0**-40
"""Smallest chance of a tail: it must be many times the rounding error of 1 − p."""


def _chance(p: object) -> float:
    number = real_number(p)
    if not _SMALLEST <= number <= 1 - _SMALLEST:
        raise SettingsError(f"p is {short(p)}. Give a probability between 0 and 1, e.g. 0.95; at least 1e-12.")
    return number
