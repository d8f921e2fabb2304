"""What `compare` brings back: which action is better, by how much, how surely, and what a wrong choice would cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from jmdp import anytime
from jmdp.arrays import Floats
from jmdp.errors import SettingsError
from jmdp.evaluation import Evaluation
from jmdp.gaps.gap import Gap
from jmdp.interval import Estimate, Interval
from jmdp.labels import Label
from jmdp.methods.drawn_evaluation import apart
from jmdp.simulator import Draws

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Decision(Enum):
    """Why a comparison ended."""

    BEST_FOUND = "one action is better on average than every other"
    PRECISE = "every mean gap is known to the precision asked for"
    BUDGET_SPENT = "the budget was spent before the question was decided"
    INTERRUPTED = "it was interrupted"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Actions compared from one state under shared luck.

    Intervals hold whenever one stops: for any one action, all its gaps together at `confidence`. They are large-sample
    intervals (with a term for what is rare), except those of chances, which hold for any number of samples. An outcome
    too rare to be drawn even once is in none of them.
    """

    evaluation: Evaluation  # of the one state: means, covariances, gaps, laws
    draws: Draws
    outcome: Decision
    best: str | None  # the action that is better than every other, if one was found
    simulator: str
    policy: str
    discount: float
    horizon: int
    seed: int
    confidence: float
    continue_with: Callable[[int], Comparison] = field(repr=False)

    @property
    def samples(self) -> int:
        """Rollouts of each action."""
        return int(self.draws.returns.shape[0])

    @property
    def actions(self) -> list[str]:
        """Names of the actions compared."""
        labels = self.evaluation.actions
        return [labels.name(i) for i in range(labels.size)]

    @cached_property
    def leader(self) -> str:
        """The action with the largest mean so far; `best` where that is sure."""
        return self.evaluation.actions.name(int(self.evaluation.mean[0].argmax()))

    def mean(self, action: Label) -> Estimate:
        """E[Z(action)]."""
        a = self.evaluation.actions.index(action)
        assert self.evaluation.certificate is not None
        return Estimate.around(
            float(self.evaluation.mean[0, a]), float(np.asarray(self.evaluation.certificate.mean_error)[0, a])
        )

    def gap(self, first: Label, second: Label) -> Gap:
        """Z(first) − Z(second) under the shared luck: mean, spread, correlation, law."""
        return self.evaluation.gap(0, first, second)

    def superiority(self, first: Label, second: Label) -> Estimate:
        """P(Z(first) > Z(second)); ties apart. Rollouts cut before it was settled count for neither side."""
        a, b = self._pair(first, second)
        low, high = self._beats[a, b]
        n, error = self.samples, self._error
        seen = float(self._wins[a, b]) / n
        return Estimate(seen, anytime.chance_interval(low, n, error).low, anytime.chance_interval(high, n, error).high)

    def regret(self, action: Label) -> Regret:
        """What the best action in hindsight would have earned more, under the same luck: max_b Z(b) − Z(action) ≥ 0."""
        a = self.evaluation.actions.index(action)
        returns, ends = self.draws.returns, self.draws.ends
        part_open = float((ends != ends[:, [a]]).any(axis=1).mean())
        name, error = self.evaluation.actions.name(a), 1 - self.confidence
        return Regret(name, returns.max(axis=1) - returns[:, a], self._cut, part_open, error)

    def variance_reduction(self, first: Label, second: Label) -> Estimate:
        """(Var Z(first) + Var Z(second))/Var(gap): how many times more unpaired rollouts as sharp a mean gap needs.

        Infinite where the two never differed.
        """
        a, b = self._pair(first, second)
        returns = self.draws.returns
        x, y = (returns[:, i] - returns[:, i].mean() for i in (a, b))
        apart_, together = float((x * x + y * y).mean()), float(((x - y) ** 2).mean())
        if together == 0:
            return Estimate(math.inf if apart_ else math.nan, 0.0, math.inf)
        ratio = apart_ / together
        influence = (x * x + y * y - ratio * (x - y) ** 2) / together
        radius = anytime.mean_radius(self.samples, self._error) * influence.std() / math.sqrt(self.samples) / ratio
        return Estimate(ratio, ratio * math.exp(-radius), ratio * math.exp(radius))

    def continued(self, samples: int) -> Comparison:
        """Go on to this many rollouts of each action, or until the question is decided. Nothing is drawn twice."""
        return self.continue_with(samples)

    def to_dataframe(self) -> pd.DataFrame:
        """One row an action, beside the leader: estimates with the ends of their intervals."""
        import pandas as pd

        rows: list[dict[str, Any]] = []
        for action in self.actions:
            row: dict[str, Any] = {"action": action}
            for name, value in self._row(action).items():
                row |= {name: float(value), f"{name}_low": value.low, f"{name}_high": value.high}
            rows.append(row | {"samples": self.samples, "seed": self.seed, "confidence": self.confidence})
        return pd.DataFrame(rows).set_index("action")

    def plot(self) -> Figure:
        """Draw it: `jmdp.plots.comparison_chart`."""
        from jmdp.plots import comparison_chart

        return comparison_chart(self)

    def _row(self, action: str) -> dict[str, Estimate]:
        leader, regret = self.leader, self.regret(action)
        gap = self.gap(leader, action)
        same = leader == action
        return {
            "mean": self.mean(action),
            "behind": _estimate(gap.mean, gap.mean_interval),
            "behind_std": _estimate(gap.std, gap.std_interval),
            "leader_better": self.superiority(leader, action),
            "leader_worse": self.superiority(action, leader),
            "correlation": _estimate(
                1.0 if same else gap.correlation, Interval(1.0, 1.0) if same else gap.correlation_interval
            ),
            "variance_reduction": self.variance_reduction(leader, action),
            "regret_mean": regret.mean,
            "regret_95": regret.quantile(0.95),
            "regret_worst_5": regret.cvar(0.05),
        }

    def _pair(self, first: Label, second: Label) -> tuple[int, int]:
        return self.evaluation.actions.index(first), self.evaluation.actions.index(second)

    @property
    def _error(self) -> float:
        """Chance of error of one interval: those of one action's gaps share what is allowed."""
        return (1 - self.confidence) / max(1, len(self.actions) - 1)

    @cached_property
    def _cut(self) -> float:
        """What a horizon can hide of one return."""
        if self.discount == 1:
            return 0.0
        return self.discount**self.horizon * self.draws.largest_reward / (1 - self.discount)

    @cached_property
    def _wins(self) -> Any:
        """[A, A], in how many samples an action earned more than another, as far as was seen."""
        returns = self.draws.returns
        return ((returns[:, :, None] > returns[:, None, :]) & ~self._ties).sum(axis=0)

    @cached_property
    def _ties(self) -> Any:
        gains, ends = self.draws.gains, self.draws.ends
        return (gains[:, :, None] == gains[:, None, :]) & (ends[:, :, None] == ends[:, None, :])

    @cached_property
    def _beats(self) -> dict[tuple[int, int], tuple[int, int]]:
        """In how many samples an action surely earned more than another, and in how many perhaps."""
        returns = self.draws.returns
        gaps = returns[:, :, None] - returns[:, None, :]
        slack = 2 * self._cut * apart(self.draws.ends)
        surely, perhaps = (gaps > slack) & ~self._ties, (gaps > -slack) & ~self._ties
        low, high = surely.sum(axis=0), perhaps.sum(axis=0)
        A = range(returns.shape[1])
        return {(a, b): (int(low[a, b]), int(high[a, b]) if a != b else 0) for a in A for b in A}

    def __repr__(self) -> str:
        from jmdp.comparison_table import comparison_table

        return comparison_table(self)


@dataclass(frozen=True, eq=False)
class Regret:
    """The law of what an action forgoes: samples [n] ≥ 0 of max_b Z(b) − Z(action)."""

    action: str
    values: Floats  # [n]
    cut: float  # what a horizon can hide of one return
    part_open: float  # of samples where it can hide anything: not all branches had ended or met
    error: float  # chance that an interval does not hold, whenever one stops

    @property
    def mean(self) -> Estimate:
        """The expectation."""
        middle = float(self.values.mean())
        error = float(anytime.mean_errors((self.values - middle)[:, None], self.error)[0])
        return self._positive(middle, error + 2 * self.cut * self.part_open)

    def quantile(self, p: float) -> Estimate:
        """With chance p the regret is at most this."""
        _refuse_no_chance(p)
        ordered = np.sort(self.values)
        n = ordered.size
        low, high = anytime.quantile_ranks(p, n, self.error)
        least = float(ordered[low - 1]) if low else 0.0
        most = float(ordered[high - 1]) if high <= n else math.inf
        hidden = 2 * self.cut if self.part_open else 0.0
        return Estimate(float(ordered[math.ceil(n * p) - 1]), max(0.0, least - hidden), most + hidden)

    def cvar(self, p: float) -> Estimate:
        """The mean of the worst p of all outcomes: those with the largest regret."""
        _refuse_no_chance(p)
        start = float(np.quantile(self.values, 1 - p, method="inverted_cdf"))
        beyond = np.maximum(self.values - start, 0.0) / p
        middle = start + float(beyond.mean())
        error = float(anytime.mean_errors((beyond - beyond.mean())[:, None], self.error, spread=start)[0])
        return self._positive(middle, error + 2 * self.cut * min(1.0, self.part_open / p))

    def _positive(self, value: float, error: float) -> Estimate:
        wide = Interval.around(value, error)
        return Estimate(value, max(0.0, wide.low), wide.high)


def _refuse_no_chance(p: float) -> None:
    if not 0 < p < 1:
        raise SettingsError(f"p is {p!r}. Give a probability, e.g. 0.95.")


def _estimate(value: float, interval: Interval | None) -> Estimate:
    wide = Interval(-math.inf, math.inf) if interval is None else interval
    return Estimate(value, wide.low, wide.high)
