"""ReachablePairs: certified intervals at one state of a model that is never enumerated."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Floats, Integers
from jmdp.base.labels import Labels
from jmdp.base.machine import budget
from jmdp.base.settings import nonnegative, whole
from jmdp.methods.exact_pairs.exact_pairs import ExactPairs
from jmdp.methods.method import Method
from jmdp.methods.reachable_pairs.region import Cut, Explorer, Surroundings
from jmdp.models.coupling import Coupling
from jmdp.models.lazy import LazyJMDP
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.certificate import Certificate
from jmdp.results.evaluation import Evaluation
from jmdp.results.outcome import Outcome

_FIRST_THRESHOLD, _FINER = 1e-2, 1e-2
"""States that less discounted mass gets to are not looked at: at first, and what that is multiplied by to see more."""

_SMALL_TABLE = 18 * 8
_LARGE_TABLE = 3.2 * 8
"""Bytes per pair of states that ExactPairs takes, where its sweeps are not compiled and where they are."""


@dataclass(frozen=True)
class ReachablePairs(Method[Evaluation]):
    """Intervals of gap mean, variance and correlation at one state, from the states one gets to from there.

    The walk is cut where it leaves a set of states; the finite table inside is solved by `ExactPairs`, and what was cut
    off is bounded in mean square by sums along single states (`jmdp.methods.region`). The set grows until the intervals
    are narrow enough or the budget ends. They are certified whenever that is.

    The evaluation that comes back has one state: call it by index 0 or by its name. Its `residuals` are the widths of
    the widest interval after each round, as fractions like `tolerance`.

    Parameters
    ----------
    state
        The decision state: of a `LazyJMDP` the state itself, of a `TabularJMDP` its index or name.
    tolerance
        Stop when the interval of the variance of every gap and every return is narrower than this fraction of it, that
        of every mean than this fraction of the standard deviation, and that of every correlation than this. What hardly
        varies is measured with what does: by `tolerance` times the largest variance of a return, or `tolerance`² times
        the largest squared mean.
    max_states
        Look at no more states than this.
    memory_budget
        Bytes the table of pairs may use; by default 80% of what is free.
    seconds
        Begin no new round after so long; None for no limit.
    """

    state: Hashable
    tolerance: float = 0.01
    max_states: int = 1_000_000
    memory_budget: int | None = None
    seconds: float | None = None

    step_name: ClassVar[str] = "round"
    residual_name: ClassVar[str] = "width"

    def __post_init__(self) -> None:
        nonnegative(self, "tolerance")
        whole(self, "max_states", 1)
        whole(self, "memory_budget", 1, optional=True)
        nonnegative(self, "seconds", optional=True)

    def on_table(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, progress: bool) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        state = model.states.index(self.state)  # type: ignore[arg-type]
        lazy = LazyJMDP.of(model)
        explorer = Explorer(lazy, lambda s: policy.probs[s], lazy.index(state))
        return self._search(explorer, model.states.name(state), coupling, progress)

    def on_lazy_model(
        self, model: LazyJMDP, policy: Callable[[Any], Any], coupling: Coupling, progress: bool
    ) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        return self._search(Explorer(model, policy, model.index(self.state)), str(self.state), coupling, progress)

    def _search(self, explorer: Explorer, name: str, coupling: Coupling, progress: bool) -> Evaluation:
        started = time.monotonic()
        search = _Search(self, explorer, coupling, progress, budget(self.memory_budget))
        outcome = Outcome.BUDGET_EXHAUSTED
        try:
            while search.round():
                if self.seconds is not None and time.monotonic() - started >= self.seconds:
                    break
            else:
                outcome = search.outcome
        except KeyboardInterrupt:
            outcome = Outcome.INTERRUPTED
        return search.best.evaluation(explorer, name, outcome, coupling, self, np.array(search.widths))


@dataclass(frozen=True, eq=False)
class _Found:
    """What is known of the origin's returns, on rewards of size 1, by the scale of the explorer."""

    mean: Floats  # [A]
    mean_error: Floats  # [A]
    covariance: Floats  # [A, A]
    engine_error: float  # of the covariances of the cut table
    missing: Floats  # [A], root mean square of what was cut off

    @property
    def gap_std(self) -> Floats:
        """[A, A], of the cut table."""
        variance = np.diag(self.covariance)
        gaps = variance[:, None] + variance[None, :] - 2 * self.covariance
        return np.asarray(np.sqrt(np.maximum(gaps, 0.0)))

    def errors(self) -> tuple[Floats, Floats, Floats]:
        """Bounds on the errors of covariances, gap variances and correlations, all [A, A]."""
        out, tiny = 1 + 2.0**-30, UNDERFLOW if self.engine_error or self.missing.any() else 0.0
        missing, std = self.missing, np.sqrt(np.diag(self.covariance) + self.engine_error)
        both = missing[:, None] + missing[None, :]
        covariance = np.multiply.outer(missing, std) + np.multiply.outer(std, missing)
        covariance = (covariance + np.multiply.outer(missing, missing) + self.engine_error + tiny) * out
        # The subtraction in gap_std is rounded too.
        gap_std = np.sqrt(self.gap_std**2 + 4 * self.engine_error + 16 * ROUNDOFF * float(std.max()) ** 2)
        gap = (both * (2 * gap_std + both) + 4 * self.engine_error + tiny) * out
        np.fill_diagonal(gap, 0.0)
        return covariance, gap, self._correlation_errors()

    def _correlation_errors(self) -> Floats:
        """A part of size m added to a vector of length σ turns it by at most asin(m/σ), from either end of its ρ."""
        variance = np.diag(self.covariance) - self.engine_error
        std = np.sqrt(np.maximum(variance, 0.0))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            turn = np.where(self.missing < std, np.arcsin(np.minimum(self.missing / std, 1.0)), np.pi)
            correlation = np.clip(self.covariance / np.multiply.outer(std, std), -1, 1)
            engine = 4 * self.engine_error / np.minimum.outer(variance, variance)
            near, far = np.arccos(np.minimum(correlation + engine, 1)), np.arccos(np.maximum(correlation - engine, -1))
        turns = turn[:, None] + turn[None, :]
        low, high = np.cos(np.minimum(far + turns, np.pi)), np.cos(np.maximum(near - turns, 0.0))
        error = np.maximum(high - correlation, correlation - low) + engine + 2.0**-40
        varies = np.minimum.outer(variance, variance) > 0
        return np.where(varies & np.isfinite(error), np.minimum(error, 2.0), 2.0)

    def evaluation(
        self,
        explorer: Explorer,
        name: str,
        outcome: Outcome,
        coupling: Coupling,
        method: Method[Evaluation],
        widths: Floats,
    ) -> Evaluation:
        """The same as an `Evaluation` of one state, on rewards as they were given."""
        model, scale = explorer.model, explorer.scale
        covariance_error, gap_error, correlation_error = self.errors()
        exact = not (self.mean_error.any() or covariance_error.any())
        covariance = scale.restore(self.covariance, 2)
        # Correlations are computed again from covariances that may have lost digits to underflow.
        change = np.abs(_correlation(covariance) - _correlation(self.covariance))
        correlation_error = np.where(np.isnan(change), 2.0, np.minimum(correlation_error + change + 2.0**-48, 2.0))
        mean_error = scale.restore_error(self.mean_error)
        certificate = Certificate(
            kind="exact" if exact else "certified",
            mean_error=mean_error[None],
            covariance_error=scale.restore_error(covariance_error, 2)[None],
            gap_mean_error=(mean_error[:, None] + mean_error[None, :])[None],
            gap_variance_error=scale.restore_error(gap_error, 2)[None],
            discount=model.discount,
            reward_bound=model.reward_bound,
            correlation_error=correlation_error[None],
        )
        actions = model.actions or Labels.of("action", len(self.mean), None)
        return Evaluation(
            mean=scale.restore(self.mean)[None],
            covariance=covariance[None],
            certificate=certificate,
            outcome=outcome,
            coupling=coupling,
            method=method,
            states=Labels.of("state", 1, [name]),
            actions=actions,
            residuals=widths,
        )


def _correlation(covariance: Floats) -> Floats:
    """[A, A]; nan where a variance is 0."""
    std = np.sqrt(np.diag(covariance))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.clip(covariance / np.multiply.outer(std, std), -1, 1))


class _Search:
    """The rounds: look further around, cut, solve, see how wide the intervals are."""

    def __init__(
        self, method: ReachablePairs, explorer: Explorer, coupling: Coupling, progress: bool, allowed: float
    ) -> None:
        self.method, self.explorer, self.coupling, self.progress = method, explorer, coupling, progress
        small = int(math.sqrt(allowed / _SMALL_TABLE))
        compiled = small >= 300 and coupling.policy_luck == "independent"
        self.most_inside = max(int(math.sqrt(allowed / _LARGE_TABLE)) if compiled else small, 2) - 1
        lazy = explorer.model
        A, bound = explorer.probs.shape[1], explorer.bound
        self.best = _Found(np.zeros(A), np.full(A, bound), np.zeros((A, A)), 0.0, np.full(A, bound))
        if lazy.terminal[explorer.origin]:
            self.best = _Found(np.zeros(A), np.zeros(A), np.zeros((A, A)), 0.0, np.zeros(A))
        self.threshold = _FIRST_THRESHOLD
        self.need = math.inf  # root mean square that may be missing
        self.hidden = math.inf  # what lies beyond all states looked at can hide
        self.solved = 0  # states of the last table
        self.outcome = Outcome.BUDGET_EXHAUSTED
        self.widths: list[float] = []

    def round(self) -> bool:
        """Make the next round; False when there is nothing more to do, and `outcome` says why."""
        explorer, method = self.explorer, self.method
        if self._narrow():
            self.outcome = Outcome.CONVERGED
            return False
        explorer.explore(self.threshold, method.max_states, self.progress)
        around = Surroundings.of(explorer)
        self.coupling.check_fits(around.model)
        used_up = int(explorer.asked.sum()) >= method.max_states
        importance = around.visits * around.spread**2
        seen = math.sqrt(float(importance.sum()))
        need = min(self.need, 0.3 * max(seen, method.tolerance * float(np.abs(around.mean).max())))
        importance[explorer.origin] = np.inf
        hidden = max(around.leak, float(around.mean_error.max()) / 2)
        too_wide = hidden > need / 2
        stuck = hidden > 0.9 * self.hidden  # it is rounding that hides it, and no look further helps
        if too_wide and not (explorer.complete or used_up or stuck):
            self.threshold = min(self.threshold * _FINER, explorer.frontier)
            self.hidden = hidden
            return True
        if too_wide and not explorer.complete:
            need = max(need, hidden)
        inside = self._inside(importance, need)
        self._take_narrower(*self._solve(around, inside))
        if self._narrow():
            self.outcome = Outcome.CONVERGED
            return False
        if inside.size >= self.most_inside or (too_wide and used_up):
            return False
        repeated = inside.size == self.solved
        everything = explorer.complete and inside.size == int(explorer.asked.sum())
        if everything or (too_wide and stuck) or (repeated and need <= 1e-9 * seen):
            self.outcome = Outcome.STALLED
            return False
        self.solved, self.hidden = inside.size, math.inf
        self.need = min(self._needed(), need / (100 if repeated else 2))
        return True

    def _take_narrower(self, found: _Found, interrupted: bool) -> None:
        """Keep the narrower of what is found now and before."""
        before, width = self.best, self._width()
        self.best = found
        if not self._width() <= width:
            self.best = before
        self.widths.append(self._width())
        if interrupted:
            raise KeyboardInterrupt

    def _inside(self, importance: Floats, need: float) -> Integers:
        """The fewest states outside of which so little is missing; as many as there is room for at most."""
        order = np.argsort(-importance, kind="stable")[: int(self.explorer.asked.sum())]
        order = order[self.explorer.asked[order]]
        beyond = np.cumsum(importance[order][::-1])[::-1]  # from each on
        count = int(np.searchsorted(-beyond, -0.75 * need * need, side="left"))
        return np.sort(order[: max(1, min(count, self.most_inside))])

    def _solve(self, around: Surroundings, inside: Integers) -> tuple[_Found, bool]:
        cut = Cut.at(self.explorer, inside, around.value, around.spread)
        solver = ExactPairs(tolerance=min(1e-9, self.method.tolerance**2 / 100), memory_budget=2**62)
        result = solver.on_table(cut.model, cut.policy, self.coupling, self.progress)
        origin = int(np.flatnonzero(inside == self.explorer.origin)[0])
        certificate = result.certificate
        engine_error = math.inf
        if certificate is not None:
            engine_error = float(np.broadcast_to(certificate.covariance_error, result.covariance.shape)[origin].max())
        covariance, missing = result.covariance[origin], cut.missing_ahead
        found = _Found(around.mean, around.mean_error, covariance, engine_error, missing)
        return found, result.outcome is Outcome.INTERRUPTED

    def _least(self) -> float:
        """The standard deviation below which nothing is thought to vary."""
        variance, mean = float(np.diag(self.best.covariance).max()), float(np.abs(self.best.mean).max())
        return max(math.sqrt(self.method.tolerance * variance), self.method.tolerance * mean)

    def _scale(self) -> Floats:
        """[A, A], the standard deviation that a gap is measured with; a single return where both actions are one."""
        scale = self.best.gap_std.copy()
        np.fill_diagonal(scale, np.sqrt(np.diag(self.best.covariance)))
        return np.maximum(scale, self._least())

    def _width(self) -> float:
        """The widest interval: of a variance, mean or correlation, each on its own scale."""
        covariance, variance, correlation = self.best.errors()
        np.fill_diagonal(variance, np.diag(covariance))
        mean = self.best.mean_error[:, None] + self.best.mean_error[None, :]
        if not (variance.any() or mean.any()):
            return 0.0
        scale, std = self._scale(), np.sqrt(np.diag(self.best.covariance))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            parts = np.nan_to_num(np.stack([2 * variance / scale / scale, 2 * mean / scale]), nan=0.0, posinf=np.inf)
        varies = np.minimum.outer(std, std) >= self._least()
        np.fill_diagonal(varies, False)
        return float(max(parts.max(), (2 * correlation)[varies].max(initial=0.0)))

    def _narrow(self) -> bool:
        return self._width() <= self.method.tolerance

    def _needed(self) -> float:
        """What may be missing, in root mean square, for the intervals to be narrow enough."""
        return self.method.tolerance * float(self._scale().min()) / 9
