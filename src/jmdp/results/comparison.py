"""What `compare` brings back: which action is better, by how much, how surely, and what a wrong choice would cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate, Interval
from jmdp.base.labels import Label
from jmdp.errors import LabelError, SettingsError, UnavailableError
from jmdp.results import anytime
from jmdp.results.comparison_table import comparison_table
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.gap import Gap
from jmdp.results.outcome import Outcome
from jmdp.results.result import Tabulated, figure
from jmdp.results.samples.bounded_returns import BoundedReturns, bounded_limits
from jmdp.results.samples.limits import Limits
from jmdp.simulators.simulator import Draws, is_exact_sum

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison(Tabulated):
    """Actions compared from one state under shared luck.

    Intervals hold whenever one stops: for any one action, all its gaps together at `confidence`. Those of chances and
    quantiles hold for any distribution. With a `return_range` those of means, of standard deviations of gaps and of
    regret do too. Without one, intervals of means are large-sample ones: they allow for unseen outcomes by what was
    seen, and `break_even` says what an unseen outcome must cost to overturn the decision. Everything else is then an
    estimate without interval: a `Gap` has None for it, an `Estimate` infinite ends.
    """

    index: ClassVar = ("action",)
    alternative: ClassVar[str] = "action"  # what is compared, in words
    run: ClassVar[str] = "rollout"  # what one sample of it is

    evaluation: Evaluation  # of the one state: means, covariances, gaps, distributions
    draws: Draws
    outcome: Outcome
    best: str | None  # the action that is better than every other, if one was found
    simulator: str
    policy: str
    discount: float
    horizon: int
    seed: int
    confidence: float
    limits: Limits  # what horizon and rounding hide
    bounded: BoundedReturns | None  # intervals that hold within a `return_range`, if one was given
    tie_tolerance: float  # gaps up to this size are ties
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

    @property
    def reference(self) -> str:
        """The one that the others are shown beside: the leader here."""
        return self.leader

    @property
    def mean(self) -> Floats:
        """[A], means of the returns."""
        mean: Floats = self.evaluation.mean[0]
        return mean

    def mean_of(self, action: Label) -> Estimate:
        """E[Z(action)] with its interval."""
        a = self._at(action)
        if self.bounded is not None:
            low, high = self.bounded.means
            return Estimate(float(self.mean[a]), float(low[a]), float(high[a]))
        return self.evaluation.mean_of(0, a)

    def gap(self, first: Label, second: Label) -> Gap:
        """Z(first) − Z(second) under the shared luck: mean, spread, correlation, distribution."""
        a, b = self._at(first), self._at(second)
        gap = self.evaluation.gap(0, a, b)
        if self.bounded is None or a == b:
            return gap
        low, high = self.bounded.gap_means
        variance = replace(self.bounded, draws=self.draws.one_coupling).gap_variance(a, b)
        central = (*gap.central_moments[:2], Estimate(gap.variance, variance.low, variance.high))
        mean = Interval(float(low[a, b]), float(high[a, b]))
        return replace(gap, mean_interval=mean, variance_interval=variance, central_moments=central)

    def superiority(self, first: Label, second: Label) -> Estimate:
        """P(Z(first) − Z(second) > tie_tolerance).

        Returns that are equal to the last bit are a tie where they were added up without rounding, or are sums of the
        same rewards in the same steps. Cut rollouts count as far as seen; the interval allows for the rest.
        """
        a, b = self._at(first), self._at(second)
        if a == b:
            return Estimate(0.0, 0.0, 0.0)
        draws = self.draws.one_coupling
        n = len(draws.returns)
        x, y = draws.returns[:, a], draws.returns[:, b]
        same = draws.gains[:, a] == draws.gains[:, b]
        gaps = np.where(same, 0.0, x - y)
        exact = same | (draws.exact[:, a] & draws.exact[:, b] & is_exact_sum(x, -y, gaps))
        slack = np.where(draws.ends[:, a] == draws.ends[:, b], 0.0, 2 * self.limits.cut)
        slack = slack + np.where(exact, 0.0, 2 * self.limits.rounding)
        seen, surely, perhaps = (int((gaps + off > self.tie_tolerance).sum()) for off in (0.0, -slack, slack))
        low, high = (anytime.chance_interval(count, n, self._error) for count in (surely, perhaps))
        return Estimate(seen / n, low.low, high.high)

    def regret(self, action: Label) -> Regret:
        """What the best action in hindsight would have earned more, under the same luck: max_b Z(b) − Z(action) ≥ 0."""
        a = self._at(action)
        draws = self.draws.one_coupling
        returns, ends = draws.returns, draws.ends
        cut = np.where((ends != ends[:, [a]]).any(axis=1), 2 * self.limits.cut, 0.0)
        hidden = cut + 2 * self.limits.rounding
        most = math.inf if self.bounded is None else self.bounded.width
        values = returns.max(axis=1) - returns[:, a]
        return Regret(self.evaluation.actions.name(a), values, hidden, most, 1 - self.confidence)

    def variance_reduction(self, first: Label, second: Label) -> Estimate:
        """(Var Z(first) + Var Z(second))/Var(gap): how many times more unpaired rollouts as sharp a mean gap needs.

        Infinite where the gap never varied, nan where the returns did not either. An estimate without interval.
        """
        a, b = self._at(first), self._at(second)
        x, y = (self.limits.scale.divide(self.draws.one_coupling.returns[:, i]) for i in (a, b))
        x, y = x - x.mean(), y - y.mean()
        noise = (2 * self.limits.scale.divide(self.limits.rounding)) ** 2  # of what is all rounding
        alone, together = float((x * x + y * y).mean()), float(((x - y) ** 2).mean())
        if together <= noise:
            return Estimate.within(math.inf if alone > noise else math.nan, None)
        return Estimate.within(alone / together, None)

    @property
    def unseen(self) -> float:
        """Outcomes with a chance below this may not have been drawn even once, at the stated confidence."""
        return min(1.0, -math.log(1 - self.confidence) / self.samples)

    @property
    def runner_up(self) -> str:
        """The action with the second largest mean so far."""
        others = [action for action in self.actions if action != self.leader]
        return max(others, key=lambda action: float(self.mean_of(action)))

    @property
    def break_even(self) -> float | None:
        """How much an unseen outcome must cost to overturn the decision; None without one, or with a `return_range`.

        An outcome of chance p = `unseen` in which the runner-up earns x more than the best action brings their mean gap
        g down to (1 − p) g − p x, which is 0 at x = g (1 − p)/p. `return_range` rules out what is beyond it instead.
        """
        if self.best is None or self.bounded is not None:
            return None
        return self.gap(self.best, self.runner_up).mean * (1 - self.unseen) / self.unseen

    def continued(self, samples: int) -> Comparison:
        """Go on to this many rollouts of each action; an open question ends when it is decided. Nothing is drawn twice.

        `max_steps` holds no longer.
        """
        return self.continue_with(samples)

    def rows(self) -> list[dict[str, Any]]:
        """One row an action, beside the leader."""
        rows = []
        for action in self.actions:
            regret = self.regret(action)
            worst = {
                "regret_mean": regret.mean,
                "regret_95": regret.quantile(0.95),
                "regret_worst_5": regret.cvar(0.05),
            }
            about = {"samples": self.samples, "seed": self.seed, "confidence": self.confidence}
            rows.append({self.alternative: action} | self.beside_leader(action) | worst | about)
        return rows

    def to_xarray(self) -> xarray.Dataset:
        """The evaluation of the one state: means, covariances and correlations with their labels and errors."""
        return self.evaluation.to_xarray()

    def plot(self) -> Figure:
        """Draw it: `jmdp.plots.comparison_chart`."""
        return figure("comparison_chart", self)

    def beside_leader(self, action: Label) -> dict[str, Estimate]:
        """One action's line of a table: its mean, and how the leader does against it."""
        leader = self.leader
        gap = self.gap(leader, action)
        same = gap.first == gap.second
        return {
            "mean": self.mean_of(action),
            "behind": Estimate.within(gap.mean, gap.mean_interval),
            "behind_std": Estimate(0.0, 0.0, 0.0) if same else Estimate.within(gap.std, gap.std_interval),
            "leader_better": self.superiority(leader, action),
            "leader_worse": self.superiority(action, leader),
            "correlation": Estimate.within(
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
        return comparison_table(self)


@dataclass(frozen=True, eq=False)
class Regret:
    """The distribution of what an action forgoes: samples [n] ≥ 0 of max_b Z(b) − Z(action).

    Quantiles have intervals that hold for any distribution. The mean and `cvar` have some only where returns are within
    a known range, and are estimates without interval elsewhere.
    """

    action: str
    values: Floats  # [n]
    hidden: Floats  # [n], what a horizon and rounding can hide of it in a sample
    most: float  # no regret is larger; infinite without a `return_range`
    error: float  # chance that an interval does not hold, whenever one stops

    @property
    def mean(self) -> Estimate:
        """The expectation."""
        value = float(self.values.mean())
        if math.isinf(self.most):
            return Estimate.within(value, None)
        ends = (self.values - self.hidden)[:, None], (self.values + self.hidden)[:, None]
        low, high = bounded_limits(*ends, 0.0, self.most, 0.0, self.error)
        return Estimate(value, float(low[0]), float(high[0]))

    def quantile(self, p: float) -> Estimate:
        """With chance p the regret is at most this."""
        _refuse_no_chance(p)
        low, high = self._between(p, self.error)
        return Estimate(float(np.sort(self.values)[math.ceil(self.values.size * p) - 1]), low, high)

    def cvar(self, p: float) -> Estimate:
        """The mean of the worst p of all outcomes: those with the largest regret.

        Its interval is that of (1/p) ∫ quantile(1 − u) du over u from 0 to p, from intervals of the quantiles at
        u = p, p/√2, p/2, …, which hold together. Beyond the last one the regret is at most `most`.
        """
        _refuse_no_chance(p)
        start = float(np.quantile(self.values, 1 - p, method="inverted_cdf"))
        value = start + float(np.maximum(self.values - start, 0.0).mean()) / p
        if math.isinf(self.most):
            return Estimate.within(value, None)
        tails = p * 2.0 ** (-0.5 * np.arange(_LEVELS))
        lows, highs = np.array([self._between(1 - tail, self.error / _LEVELS) for tail in tails]).T
        parts = -np.diff(tails, append=0.0) / p
        low, high = float(parts @ lows), float(parts @ np.append(highs[1:], self.most))
        off = 2.0**-46 * self.most
        return Estimate(value, max(0.0, low - off), min(self.most, high + off))

    def _between(self, p: float, error: float) -> tuple[float, float]:
        """Limits of the quantile of p."""
        n = self.values.size
        low, high = anytime.quantile_ranks(p, n, error)
        least = float(np.sort(self.values - self.hidden)[low - 1]) if low else 0.0
        most = float(np.sort(self.values + self.hidden)[high - 1]) if high <= n else math.inf
        return max(0.0, least), min(self.most, most)


_LEVELS = 16
"""Quantiles that the interval of a mean of worst outcomes is made of."""


def _forgotten(samples: int) -> Comparison:
    raise UnavailableError("A comparison that was pickled has no simulator to go on with. Compare again.")


def _refuse_no_chance(p: float) -> None:
    if not 0 < p < 1:
        raise SettingsError(f"p is {p!r}. Give a probability, e.g. 0.95.")
