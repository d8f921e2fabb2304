"""Rounds of `ReachablePairs`: explore further, cut, solve, and compute the widths of the intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Floats, Integers
from jmdp.base.labels import Labels
from jmdp.methods.exact_pairs.exact_pairs import ExactPairs
from jmdp.methods.method import Method
from jmdp.methods.reachable_pairs.region import Cut, Explorer, Surroundings
from jmdp.models.coupling import Coupling
from jmdp.models.policy import StackedTable
from jmdp.results.certificate import Certificate, Outcome
from jmdp.results.evaluation import Evaluation

_FIRST_THRESHOLD, _FINER = 1e-2, 1e-2
"""States that receive less discounted mass are not explored: initial threshold, and its factor per refinement."""

_SMALL_TABLE = 18 * 8
_LARGE_TABLE = 3.2 * 8
"""Bytes per pair of states that ExactPairs uses, without and with compiled sweeps."""


@dataclass(frozen=True)
class SearchLimits:
    """Target width of the intervals, and limits on states and memory."""

    tolerance: float
    max_states: int
    allowed_bytes: float


@dataclass(frozen=True, eq=False)
class Found:
    """Moments of the origin's returns and their errors, on rewards of size 1, by the scale of the explorer."""

    mean: Floats  # [A]
    mean_error: Floats  # [A]
    covariance: Floats  # [A, A]
    engine_error: float  # of the covariances of the cut table
    missing: Floats  # [A], root mean square of the part cut off

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
        """Errors by angle: a part of size m rotates a vector of length σ by at most asin(m/σ), at both ends of ρ."""
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
        alternatives: Labels,
        name: str,
        outcome: Outcome,
        coupling: Coupling,
        method: Method[Evaluation],
        widths: Floats,
    ) -> Evaluation:
        """Convert to an `Evaluation` of one state, on the rewards as given."""
        model, scale = explorer.model, explorer.scale
        covariance_error, gap_error, correlation_error = self.errors()
        exact = not (self.mean_error.any() or covariance_error.any())
        covariance = scale.restore(self.covariance, 2)
        # `Evaluation` recomputes correlations from these covariances, which may have lost digits to underflow.
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
        return Evaluation(
            mean=scale.restore(self.mean)[None],
            covariance=covariance[None],
            certificate=certificate,
            outcome=outcome,
            coupling=coupling,
            method=method,
            states=Labels.of_table("state", 1, [name]),
            actions=alternatives,
            residuals=widths,
        )


def _correlation(covariance: Floats) -> Floats:
    """Correlations [A, A]; nan where a variance is 0."""
    std = np.sqrt(np.diag(covariance))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.clip(covariance / np.multiply.outer(std, std), -1, 1))


class Search:
    """Rounds of exploring, cutting and solving, until the intervals are narrow enough.

    `explorers` has one explorer, if the alternatives are the actions at the origin, or one for each of several
    policies.
    """

    def __init__(self, limits: SearchLimits, explorers: list[Explorer], coupling: Coupling, progress: bool) -> None:
        self.limits, self.explorers, self.coupling, self.progress = limits, explorers, coupling, progress
        small = int(math.sqrt(limits.allowed_bytes / _SMALL_TABLE))
        compiled = small >= 300 and coupling.policy_luck == "independent"
        most = max(int(math.sqrt(limits.allowed_bytes / _LARGE_TABLE)) if compiled else small, 2) - 1
        self.most_inside = max(most // len(explorers), 1)
        self.explorer = explorers[0]
        bound, n = self.explorer.bound, self.explorer.probs.shape[1] if len(explorers) == 1 else len(explorers)
        self.best = Found(np.zeros(n), np.full(n, bound), np.zeros((n, n)), 0.0, np.full(n, bound))
        if self.explorer.model.terminal[self.explorer.origin]:
            self.best = Found(np.zeros(n), np.zeros(n), np.zeros((n, n)), 0.0, np.zeros(n))
        self.threshold = _FIRST_THRESHOLD
        self.need = math.inf  # largest root mean square error allowed of a cut
        self.hidden = math.inf  # error bound due to unexplored states
        self.solved = 0  # states of the last table
        self.outcome = Outcome.BUDGET_EXHAUSTED
        self.widths: list[float] = []

    def round(self) -> bool:
        """Run the next round. Returns False if the search is over; `outcome` then gives the reason."""
        limits = self.limits
        if self._narrow():
            self.outcome = Outcome.CONVERGED
            return False
        arounds = self._look()
        complete = all(explorer.complete for explorer in self.explorers)
        used_up = any(int(explorer.asked.sum()) >= limits.max_states for explorer in self.explorers)
        importances = [around.visits * around.spread**2 for around in arounds]
        seen = max(math.sqrt(float(importance.sum())) for importance in importances)
        largest_mean = max(float(np.abs(around.mean).max()) for around in arounds)
        need = min(self.need, 0.3 * max(seen, limits.tolerance * largest_mean))
        hidden = max(max(around.leak, float(around.mean_error.max()) / 2) for around in arounds)
        too_wide = hidden > need / 2
        stuck = hidden > 0.9 * self.hidden  # rounding dominates, so exploring further does not help
        if too_wide and not (complete or used_up or stuck):
            frontier = max(explorer.frontier for explorer in self.explorers)
            self.threshold, self.hidden = min(self.threshold * _FINER, frontier), hidden
            return True
        if too_wide and not complete:
            need = max(need, hidden)
        inside = self._inside(importances, need)
        self._take_narrower(*self._solve(arounds, inside))
        if self._narrow():
            self.outcome = Outcome.CONVERGED
            return False
        if inside.size >= self.most_inside or (too_wide and used_up):
            return False
        repeated = inside.size == self.solved
        asked = np.logical_or.reduce([explorer.asked for explorer in self.explorers])
        everything = complete and inside.size == int(asked.sum())
        if everything or (too_wide and stuck) or (repeated and need <= 1e-9 * seen):
            self.outcome = Outcome.STALLED
            return False
        self.solved, self.hidden = inside.size, math.inf
        self.need = min(self._needed(), need / (100 if repeated else 2))
        return True

    def _look(self) -> list[Surroundings]:
        """Explore up to the threshold, and compute the wide cuts."""
        for explorer in self.explorers:
            explorer.explore(self.threshold, self.limits.max_states, self.progress)
        for explorer in self.explorers:  # another explorer may have found more states since
            explorer.fit()
        arounds = [Surroundings.of(explorer) for explorer in self.explorers]
        for around in arounds:
            self.coupling.check_fits(around.model)
        return arounds

    def _take_narrower(self, found: Found, interrupted: bool) -> None:
        """Keep the narrower of the new and the previous result."""
        before, width = self.best, self._width()
        self.best = found
        if not self._width() <= width:
            self.best = before
        self.widths.append(self._width())
        if interrupted:
            raise KeyboardInterrupt

    def _inside(self, importances: list[Floats], need: float) -> Integers:
        """Smallest set of states with a root mean square error of at most `need`, limited by memory."""
        chosen = [
            self._inside_of(explorer, importance, need)
            for explorer, importance in zip(self.explorers, importances, strict=True)
        ]
        return np.unique(np.concatenate(chosen))

    def _inside_of(self, explorer: Explorer, importance: Floats, need: float) -> Integers:
        importance = importance.copy()
        importance[explorer.origin] = np.inf
        order = np.argsort(-importance, kind="stable")[: int(explorer.asked.sum())]
        order = order[explorer.asked[order]]
        beyond = np.cumsum(importance[order][::-1])[::-1]  # sums from each state on
        count = int(np.searchsorted(-beyond, -0.75 * need * need, side="left"))
        return order[: max(1, min(count, self.most_inside // len(self.explorers) or 1))]

    def _solve(self, arounds: list[Surroundings], inside: Integers) -> tuple[Found, bool]:
        for explorer in self.explorers:
            explorer.ask(inside)
        cuts = [
            Cut.at(explorer, inside, around.value, around.spread)
            for explorer, around in zip(self.explorers, arounds, strict=True)
        ]
        solver = ExactPairs(tolerance=min(1e-9, min(1.0, self.limits.tolerance) ** 2 / 100), memory_budget=2**62)
        origin = int(np.flatnonzero(inside == self.explorer.origin)[0])
        if len(cuts) > 1:
            return self._solve_policies(solver, arounds, cuts, origin)
        (cut,), (around,) = cuts, arounds
        result = solver.on_table(cut.model, cut.policy, self.coupling, self.progress)
        certificate = result.certificate
        engine_error = math.inf
        if certificate is not None:
            engine_error = float(np.broadcast_to(certificate.covariance_error, result.covariance.shape)[origin].max())
        covariance, missing = result.covariance[origin], cut.missing_ahead
        found = Found(around.mean, around.mean_error, covariance, engine_error, missing)
        return found, result.outcome is Outcome.INTERRUPTED

    def _solve_policies(
        self, solver: ExactPairs, arounds: list[Surroundings], cuts: list[Cut], origin: int
    ) -> tuple[Found, bool]:
        """Returns of the policies from the origin, with their first actions drawn too."""
        blocks = StackedTable.of([cut.model for cut in cuts])
        policy = blocks.policy([cut.policy for cut in cuts])
        table, solved, _ = solver.solve_blocks(blocks, policy, self.coupling, 2.0**62, self.progress)
        rows = [explorer.probs[explorer.origin] for explorer in self.explorers]
        mean = [float(row @ around.mean) for row, around in zip(rows, arounds, strict=True)]
        rounding = 8 * (len(rows[0]) + 4) * ROUNDOFF
        error = [
            float(row @ (around.mean_error + rounding * np.abs(around.mean))) * (1 + rounding)
            for row, around in zip(rows, arounds, strict=True)
        ]
        engine_error = float(np.asarray(table.certificate().covariance_error)[origin].max())
        missing = np.array([cut.missing[origin] for cut in cuts])
        found = Found(np.array(mean), np.array(error), table.covariance()[origin], engine_error, missing)
        return found, solved.outcome is Outcome.INTERRUPTED

    def _least(self) -> float:
        """Standard deviation below which a quantity is treated as constant."""
        variance, mean = float(np.diag(self.best.covariance).max()), float(np.abs(self.best.mean).max())
        return max(math.sqrt(self.limits.tolerance * variance), self.limits.tolerance * mean)

    def _scale(self) -> Floats:
        """[A, A], standard deviations that scale the errors: of gaps, and of single returns on the diagonal."""
        scale = self.best.gap_std.copy()
        np.fill_diagonal(scale, np.sqrt(np.diag(self.best.covariance)))
        return np.maximum(scale, self._least())

    def _width(self) -> float:
        """Largest relative width of the intervals of variances, means and correlations."""
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
        return self._width() <= self.limits.tolerance

    def _needed(self) -> float:
        """Root mean square error of a cut at which the intervals are narrow enough."""
        return self.limits.tolerance * float(self._scale().min()) / 9
