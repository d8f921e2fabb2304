"""ReachablePairs: certified intervals at one state of a model that is never enumerated."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jmdp.arrays import Floats, Integers
from jmdp.coupling import Coupling
from jmdp.evaluation import Certificate, Evaluation, Outcome
from jmdp.labels import Labels
from jmdp.lazy_model import LazyJMDP
from jmdp.methods.exact_pairs import ExactPairs
from jmdp.methods.memory import budget
from jmdp.methods.method import Method
from jmdp.methods.region import Cut, Explorer, Surroundings
from jmdp.methods.settings import nonnegative, whole
from jmdp.model import TabularJMDP
from jmdp.policy import TabularPolicy

_FIRST_THRESHOLD, _FINER = 1e-2, 1e-2
"""States that less discounted mass gets to are not looked at: at first, and what that is multiplied by to see more."""

_SMALL_TABLE = 6 * 8
_LARGE_TABLE = 3.2 * 8
"""Bytes per pair of states that ExactPairs takes, below and above the size from which it is compiled."""


@dataclass(frozen=True)
class ReachablePairs(Method):
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
        Stop when the interval of every gap variance is narrower than this fraction of it, that of every gap mean than
        this fraction of the gap's standard deviation, and that of every correlation than this. A gap that hardly varies
        beside the returns is measured with theirs: by `tolerance` times their largest variance, or `tolerance`² times
        their largest squared mean.
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

    takes_lazy_models: ClassVar[bool] = True
    step_name: ClassVar[str] = "round"
    residual_name: ClassVar[str] = "width"

    def __post_init__(self) -> None:
        nonnegative(self, "tolerance")
        whole(self, "max_states", 1)
        if self.memory_budget is not None:
            whole(self, "memory_budget", 1)
        if self.seconds is not None:
            nonnegative(self, "seconds")

    def run(
        self,
        model: TabularJMDP | LazyJMDP,
        policy: TabularPolicy | Callable[[Any], Any],
        coupling: Coupling,
        progress: bool,
    ) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        started = time.monotonic()
        state, name = self.state, str(self.state)
        if isinstance(model, TabularJMDP):
            state = model.states.index(self.state)  # type: ignore[arg-type]
            name, model = model.states.name(state), LazyJMDP.of(model)
        choose = (lambda s: policy.probs[s]) if isinstance(policy, TabularPolicy) else policy
        explorer = Explorer(model, choose, model.index(state))
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
        return search.best.evaluation(model, name, outcome, coupling, self, np.array(search.widths))


@dataclass(frozen=True, eq=False)
class _Found:
    """What is known of the origin's returns."""

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
        out = 1 + 2.0**-30
        missing, std = self.missing, np.sqrt(np.diag(self.covariance) + self.engine_error)
        both = missing[:, None] + missing[None, :]
        covariance = np.multiply.outer(missing, std) + np.multiply.outer(std, missing)
        covariance = (covariance + np.multiply.outer(missing, missing) + self.engine_error) * out
        gap_std = np.sqrt(self.gap_std**2 + 4 * self.engine_error)
        gap = (both * (2 * gap_std + both) + 4 * self.engine_error) * out
        np.fill_diagonal(gap, 0.0)
        return covariance, gap, self._correlation_errors()

    def _correlation_errors(self) -> Floats:
        """A part of size m added to a vector of length σ turns it by at most asin(m/σ)."""
        variance = np.diag(self.covariance) - self.engine_error
        std = np.sqrt(np.maximum(variance, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            turn = np.where(self.missing < std, np.arcsin(np.minimum(self.missing / std, 1.0)), np.pi)
            correlation = np.clip(self.covariance / np.multiply.outer(std, std), -1, 1)
            engine = 8 * self.engine_error / np.minimum.outer(variance, variance)
        angle, turns = np.arccos(correlation), turn[:, None] + turn[None, :]
        low, high = np.cos(np.minimum(angle + turns, np.pi)), np.cos(np.maximum(angle - turns, 0.0))
        error = np.maximum(high - correlation, correlation - low) + engine + 2.0**-40
        return np.where(np.isfinite(error), np.minimum(error, 2.0), 2.0)

    def evaluation(
        self,
        model: LazyJMDP,
        name: str,
        outcome: Outcome,
        coupling: Coupling,
        method: Method,
        widths: Floats,
    ) -> Evaluation:
        """The same as an `Evaluation` of one state."""
        covariance_error, gap_error, correlation_error = self.errors()
        exact = not (self.mean_error.any() or covariance_error.any())
        certificate = Certificate(
            "exact" if exact else "certified",
            self.mean_error[None],
            covariance_error[None],
            (self.mean_error[:, None] + self.mean_error[None, :])[None],
            gap_error[None],
            model.discount,
            model.reward_bound,
            correlation_error=correlation_error[None],
        )
        actions = model.actions or Labels.of("action", len(self.mean), None)
        return Evaluation(
            self.mean[None].copy(),
            self.covariance[None].copy(),
            certificate,
            outcome,
            coupling,
            method,
            Labels.of("state", 1, [name]),
            actions,
            widths,
        )


class _Search:
    """The rounds: look further around, cut, solve, see how wide the intervals are."""

    def __init__(
        self, method: ReachablePairs, explorer: Explorer, coupling: Coupling, progress: bool, allowed: float
    ) -> None:
        self.method, self.explorer, self.coupling, self.progress = method, explorer, coupling, progress
        small = int(math.sqrt(allowed / _SMALL_TABLE))
        self.most_inside = max(small if small < 300 else int(math.sqrt(allowed / _LARGE_TABLE)), 2) - 1
        lazy = explorer.model
        A, bound = explorer.probs.shape[1], lazy.reward_bound / (1 - lazy.discount)
        self.best = _Found(np.zeros(A), np.full(A, bound), np.zeros((A, A)), 0.0, np.full(A, bound))
        if lazy.terminal[explorer.origin]:
            self.best = _Found(np.zeros(A), np.zeros(A), np.zeros((A, A)), 0.0, np.zeros(A))
        self.threshold = _FIRST_THRESHOLD
        self.need = math.inf  # root mean square that may be missing
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
        importance = around.met * around.spread
        seen = math.sqrt(float(importance.sum()))
        need = min(self.need, 0.3 * max(seen, method.tolerance * float(np.abs(around.mean).max())))
        importance[explorer.origin] = np.inf
        too_wide = math.sqrt(around.leak) > need / 2 or 4 * float(around.mean_error.max()) > 8 * need
        if too_wide and not (explorer.complete or used_up):
            self.threshold *= _FINER
            return True
        if too_wide:  # what lies beyond can no longer be looked at: no use in less than it hides
            need = max(need, math.sqrt(around.leak))
        inside = self._inside(importance, need)
        found, interrupted = self._solve(around, inside)
        if found.missing.max() <= self.best.missing.max():
            self.best = found
        self.widths.append(self._width())
        if interrupted:
            raise KeyboardInterrupt
        if self._narrow():
            self.outcome = Outcome.CONVERGED
            return False
        self.need = min(self._needed(), need / 2)
        everything = explorer.complete and inside.size == int(explorer.asked.sum())
        return not (everything or inside.size >= self.most_inside or (too_wide and used_up))

    def _inside(self, importance: Floats, need: float) -> Integers:
        """The fewest states outside of which so little is missing; as many as there is room for at most."""
        order = np.argsort(-importance, kind="stable")[: int(self.explorer.asked.sum())]
        order = order[self.explorer.asked[order]]
        beyond = np.cumsum(importance[order][::-1])[::-1]  # from each on
        count = int(np.searchsorted(-beyond, -0.75 * need * need, side="left"))
        return np.sort(order[: max(1, min(count, self.most_inside))])

    def _solve(self, around: Surroundings, inside: Integers) -> tuple[_Found, bool]:
        cut = Cut.at(self.explorer, inside, around.value, around.spread)
        solver = ExactPairs(tolerance=1e-9, memory_budget=2**62)
        result = solver.run(cut.model, cut.policy, self.coupling, self.progress)
        origin = int(np.flatnonzero(inside == self.explorer.origin)[0])
        certificate = result.certificate
        engine_error = float(certificate.covariance_error) if certificate is not None else math.inf
        missing = np.sqrt(cut.missing_ahead) * (1 + 2.0**-40)
        found = _Found(around.mean, around.mean_error, result.covariance[origin], engine_error, missing)
        return found, result.outcome is Outcome.INTERRUPTED

    def _least(self) -> float:
        """The standard deviation below which nothing is thought to vary."""
        variance, mean = float(np.diag(self.best.covariance).max()), float(np.abs(self.best.mean).max())
        return max(math.sqrt(self.method.tolerance * variance), self.method.tolerance * mean)

    def _width(self) -> float:
        """The widest interval: of a gap's variance, mean or correlation, each on its own scale."""
        A = len(self.best.mean)
        if A == 1:
            return 0.0
        off = ~np.eye(A, dtype=bool)
        least, std = self._least(), np.sqrt(np.diag(self.best.covariance))
        scale = np.maximum(self.best.gap_std, least)
        _, gap, correlation = self.best.errors()
        mean = self.best.mean_error[:, None] + self.best.mean_error[None, :]
        if not (gap[off].any() or mean[off].any()):
            return 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = np.nan_to_num(np.stack([2 * gap / scale**2, 2 * mean / scale]), nan=0.0, posinf=np.inf)
        varies = np.minimum.outer(std, std) >= least
        return float(max(parts[:, off].max(), (2 * correlation)[off & varies].max(initial=0.0)))

    def _narrow(self) -> bool:
        return self._width() <= self.method.tolerance

    def _needed(self) -> float:
        """What may be missing, in root mean square, for the intervals to be narrow enough."""
        A = len(self.best.mean)
        scale = np.maximum(self.best.gap_std, self._least())[~np.eye(A, dtype=bool)]
        return self.method.tolerance * float(scale.min()) / 9
