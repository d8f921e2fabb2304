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
from jmdp.errors import LabelError, SettingsError, UnavailableError
from jmdp.evaluation import Evaluation
from jmdp.gaps.gap import Gap
from jmdp.interval import Estimate, Interval
from jmdp.labels import Label
from jmdp.methods.drawn_evaluation import Limits
from jmdp.simulator import Draws

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Decision(Enum):
    """Why a comparison ended."""

    BEST_FOUND = "one action is better on average than every other"
    PRECISE = "every mean gap is known to the precision asked for"
    ONE_FUTURE = "only one future was seen: all rollouts of each action were the same"
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
    limits: Limits  # what horizon and rounding hide
    numbers: tuple[int, ...] | None  # of the actions in the simulator, where they are numbered
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
        a = self._at(action)
        assert self.evaluation.certificate is not None
        return Estimate.around(
            float(self.evaluation.mean[0, a]), float(np.asarray(self.evaluation.certificate.mean_error)[0, a])
        )

    def gap(self, first: Label, second: Label) -> Gap:
        """Z(first) − Z(second) under the shared luck: mean, spread, correlation, law."""
        return self.evaluation.gap(0, self._at(first), self._at(second))

    def superiority(self, first: Label, second: Label) -> Estimate:
        """P(Z(first) > Z(second)); ties apart. Cut rollouts count as far as seen, the interval allows for the rest."""
        a, b = self._at(first), self._at(second)
        if a == b:
            return Estimate(0.0, 0.0, 0.0)
        draws, n = self.draws, self.samples
        gaps = draws.returns[:, a] - draws.returns[:, b]
        settled = draws.ends[:, a] == draws.ends[:, b]
        tie = settled & (draws.gains[:, a] == draws.gains[:, b])
        slack = np.where(settled, 0.0, 2 * self.limits.cut) + 2 * self.limits.rounding
        seen, surely, perhaps = (int((~tie & (gaps > least)).sum()) for least in (0.0, slack, -slack))
        low, high = (anytime.chance_interval(count, n, self._error) for count in (surely, perhaps))
        return Estimate(seen / n, low.low, high.high)

    def regret(self, action: Label) -> Regret:
        """What the best action in hindsight would have earned more, under the same luck: max_b Z(b) − Z(action) ≥ 0."""
        a = self._at(action)
        returns, ends = self.draws.returns, self.draws.ends
        part_open = float((ends != ends[:, [a]]).any(axis=1).mean())
        hidden = 2 * self.limits.cut if part_open else 0.0
        spread = float(np.ptp(returns)) or float(np.abs(returns).max())
        values = returns.max(axis=1) - returns[:, a]
        return Regret(self.evaluation.actions.name(a), values, hidden, part_open, spread, 1 - self.confidence)

    def variance_reduction(self, first: Label, second: Label) -> Estimate:
        """(Var Z(first) + Var Z(second))/Var(gap): how many times more unpaired rollouts as sharp a mean gap needs.

        Infinite where the gap never varied, nan where the returns did not either.
        """
        a, b = self._at(first), self._at(second)
        x, y = (np.ldexp(self.draws.returns[:, i], -self.limits.exponent) for i in (a, b))
        x, y = x - x.mean(), y - y.mean()
        noise = (2 * math.ldexp(self.limits.rounding, -self.limits.exponent)) ** 2  # of what is all rounding
        alone, together = float((x * x + y * y).mean()), float(((x - y) ** 2).mean())
        if together <= noise:
            return Estimate(math.inf if alone > noise else math.nan, 0.0, math.inf)
        ratio = alone / together
        influence = (x * x + y * y - ratio * (x - y) ** 2) / together
        radius = anytime.mean_radius(self.samples, self._error) * influence.std() / math.sqrt(self.samples) / ratio
        return Estimate(ratio, ratio * math.exp(-radius), ratio * math.exp(min(radius, 700.0)))

    @property
    def unseen(self) -> float:
        """Outcomes with a chance below this may not have been drawn even once, at the stated confidence."""
        return min(1.0, -math.log(1 - self.confidence) / self.samples)

    def continued(self, samples: int) -> Comparison:
        """Go on to this many rollouts of each action; an open question ends when it is decided. Nothing is drawn twice.

        `max_steps` holds no longer.
        """
        return self.continue_with(samples)

    def to_dataframe(self) -> pd.DataFrame:
        """One row an action, beside the leader: estimates with the ends of their intervals."""
        import pandas as pd

        rows: list[dict[str, Any]] = []
        for action in self.actions:
            row: dict[str, Any] = {"action": action}
            regret = self.regret(action)
            worst = {
                "regret_mean": regret.mean,
                "regret_95": regret.quantile(0.95),
                "regret_worst_5": regret.cvar(0.05),
            }
            for name, value in (self.beside_leader(action) | worst).items():
                row |= {name: float(value), f"{name}_low": value.low, f"{name}_high": value.high}
            rows.append(row | {"samples": self.samples, "seed": self.seed, "confidence": self.confidence})
        return pd.DataFrame(rows).set_index("action")

    def plot(self) -> Figure:
        """Draw it: `jmdp.plots.comparison_chart`."""
        from jmdp.plots import comparison_chart

        return comparison_chart(self)

    def beside_leader(self, action: Label) -> dict[str, Estimate]:
        """One action's line of a table: its mean, and how the leader does against it."""
        leader = self.leader
        gap = self.gap(leader, action)
        same = gap.first == gap.second
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
        }

    def _at(self, label: Label) -> int:
        """Which of those compared it is: by name, or by its number in the simulator."""
        if self.numbers is None or isinstance(label, str):
            return self.evaluation.actions.index(label)
        if isinstance(label, bool) or label not in self.numbers:
            raise LabelError(f"Action {label!r} was not compared: {', '.join(self.actions)} were.")
        return self.numbers.index(label)

    @property
    def _error(self) -> float:
        """Chance of error of one interval: those of one action's gaps share what is allowed."""
        return (1 - self.confidence) / max(1, len(self.actions) - 1)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "continue_with": _forgotten}

    def __repr__(self) -> str:
        from jmdp.comparison_table import comparison_table

        return comparison_table(self)


@dataclass(frozen=True, eq=False)
class Regret:
    """The law of what an action forgoes: samples [n] ≥ 0 of max_b Z(b) − Z(action)."""

    action: str
    values: Floats  # [n]
    hidden: float  # what a horizon can hide of it in a sample
    part_open: float  # of samples where it can hide anything: not all branches had ended or met
    spread: float  # how far returns were apart at all
    error: float  # chance that an interval does not hold, whenever one stops

    @property
    def mean(self) -> Estimate:
        """The expectation."""
        middle = float(self.values.mean())
        return self._positive(middle, self.values - middle, self.part_open)

    def quantile(self, p: float) -> Estimate:
        """With chance p the regret is at most this."""
        _refuse_no_chance(p)
        ordered = np.sort(self.values)
        n = ordered.size
        low, high = anytime.quantile_ranks(p, n, self.error)
        least = float(ordered[low - 1]) if low else 0.0
        most = float(ordered[high - 1]) if high <= n else math.inf
        return Estimate(float(ordered[math.ceil(n * p) - 1]), max(0.0, least - self.hidden), most + self.hidden)

    def cvar(self, p: float) -> Estimate:
        """The mean of the worst p of all outcomes: those with the largest regret."""
        _refuse_no_chance(p)
        start = float(np.quantile(self.values, 1 - p, method="inverted_cdf"))
        beyond = np.maximum(self.values - start, 0.0) / p
        middle = start + float(beyond.mean())
        return self._positive(middle, beyond - beyond.mean(), min(1.0, self.part_open / p), 1 / p)

    def _positive(self, value: float, deviations: Floats, part: float, times: float = 1.0) -> Estimate:
        error = float(anytime.mean_errors(deviations[:, None], self.error, times * self.spread)[0])
        wide = Interval.around(value, error + (self.hidden * part if part else 0.0))
        return Estimate(value, max(0.0, wide.low), wide.high)


def _forgotten(samples: int) -> Comparison:
    raise UnavailableError("A comparison that was pickled has no simulator to go on with. Compare again.")


def _refuse_no_chance(p: float) -> None:
    if not 0 < p < 1:
        raise SettingsError(f"p is {p!r}. Give a probability, e.g. 0.95.")


def _estimate(value: float, interval: Interval | None) -> Estimate:
    wide = Interval(-math.inf, math.inf) if interval is None else interval
    return Estimate(value, wide.low, wide.high)
