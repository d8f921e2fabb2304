"""Incremental: joint moments learned from one-step samples, one coordinate at a time."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from jmdp.base import whole_files
from jmdp.base.arrays import Floats, Scale
from jmdp.base.labels import identity
from jmdp.base.machine import budget, deferred_interrupts, require
from jmdp.base.progress import count_bar
from jmdp.base.settings import asks_for_seed, boolean, nonnegative, probability, short, whole
from jmdp.errors import CheckpointError, SettingsError, UnavailableError
from jmdp.methods.incremental.coordinate_sampling import BlockSampling, CoordinateSampling, MomentCells, TablePairs
from jmdp.methods.incremental.stochastic_approximation import (
    BATCHES,
    CELL_BYTES,
    LOCAL_BYTES,
    Moments,
    PolynomialSteps,
    Segment,
    StepSizes,
    StochasticApproximation,
    segments,
    step_table,
)
from jmdp.methods.method import COVERS, Method, check_kind
from jmdp.methods.shared.return_range import ReturnRange, RewardUnits
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.certificate import Certificate, Outcome
from jmdp.results.evaluation import Evaluation
from jmdp.results.parts import CrossCovariances

_LITTLE_OF_THE_START = 0.05
"""Largest weight of the initial value at which a covariance is reported."""

_REVISION = 2
"""Increase it when the same settings give other numbers or segments, to reject older checkpoints."""


@asks_for_seed
@dataclass(frozen=True, kw_only=True)
class Incremental(Method[Evaluation]):
    """Joint moments by stochastic approximation: sample a step and update one coordinate.

    M(i) ← M(i) + α (T̂(M, i) − M(i)) (Eq. (28)), where i is a mean, a square, or a product of two branches, and T̂ the
    one-sample backup of the paper's incremental JIPE-2 (Section 5.2): Eq. (25), Eq. (26) or Eq. (27). Only samples of
    one step of one branch or of two are used: the paper's 1- and 2-JSTM.

    The results are averages of the iterates over the last three quarters of the run (Polyak and Ruppert). T̂ is affine
    in M and each sample is independent of the past, so the averages converge to the fixed point with constant steps
    too, if each coordinate receives a share of the updates that tends to a positive number (`sampling`;
    docs/mathematics.md). Theorem 5.4 (repeated as Theorem A.4) is about iterates, Eq. (30). It needs the decreasing
    steps of Eq. (29), and only infinitely many updates of each coordinate. Intervals come from averages of 32
    successive batches, widened by the remaining weight of the initial values. They are large-sample intervals: an
    outcome too rare to be drawn a few dozen times is not included. Covariances between states have no intervals.

    Memory is 60 bytes for each pair of coordinates (state, action), 100 with a checkpoint.

    Parameters
    ----------
    seed
        Seed of all randomness; the same seed gives the same numbers.
    updates
        Total number of coordinate updates.
    tolerance
        Stop early if every interval is narrow enough: means to `tolerance` times the largest standard deviation,
        covariances to `tolerance` times the largest variance. Checked after 1/1024, 1/256, … of the updates.
        None runs all updates.
    confidence
        Confidence level of each individual interval.
    steps
        Step sizes by the number of earlier updates of the coordinate: `PolynomialSteps`, `ConstantSteps`, or a function
        from an array of counts to an array of steps.
    sampling
        Selection of coordinates: `BlockSampling`, `UniformSampling`, `TrajectorySampling`, or another subclass of
        `CoordinateSampling`.
    centred
        Learn moments of Z − m, with m the mean estimated earlier in the run. This is exact for any m and far less noisy
        if means are large compared with standard deviations. False learns the paper's E[Z Z̃] (Eq. (11)).
    averaging
        False returns the last iterates, without intervals.
    path
        File to which the run is saved. If it exists, the run is resumed from it, with bit-identical results.
    checkpoint_seconds
        Seconds between saves.
    memory_budget
        Maximum memory in bytes; by default 80% of the free memory.
    """

    covers = COVERS["Incremental(seed=…)"]

    seed: int
    updates: int = 10_000_000
    tolerance: float | None = None
    confidence: float = 0.95
    steps: StepSizes = PolynomialSteps()
    sampling: CoordinateSampling = BlockSampling()
    centred: bool = True
    averaging: bool = True
    path: str | os.PathLike[str] | None = None
    checkpoint_seconds: float = 30.0
    memory_budget: int | None = None

    step_name = "window"
    residual_name = "TD error of means"

    def __post_init__(self) -> None:
        whole(self, "seed", 0)
        whole(self, "updates", BATCHES)
        nonnegative(self, "tolerance", optional=True)
        probability(self, "confidence")
        check_kind("sampling", self.sampling, CoordinateSampling, SettingsError)
        boolean(self, "centred")
        boolean(self, "averaging")
        nonnegative(self, "checkpoint_seconds")
        whole(self, "memory_budget", 1, optional=True)
        if self.path is not None:
            if not isinstance(self.path, (str, os.PathLike)):
                raise SettingsError(f"path is {short(self.path)}. Give the name of a file, or None.")
            object.__setattr__(self, "path", os.fspath(self.path))
        if not callable(self.steps) or isinstance(self.steps, type):
            raise SettingsError(f"steps is {short(self.steps)}. Give PolynomialSteps(), ConstantSteps() or a function.")
        if self.tolerance is not None and not self.averaging:
            raise SettingsError("tolerance needs intervals, which only averages have. Leave averaging=True.")

    def on_table(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, progress: bool) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        S, _, A = model.shape
        rewards = RewardUnits.of(model)
        scale = rewards.scale
        mean, covariance = np.zeros((S, A)), np.zeros((S, A, A))
        outcome, certificate, pairs, curve = Outcome.SAMPLED, None, None, None
        found = Moments.none(A)
        if not model.terminal.all():
            self._require(model)
            cells = MomentCells(model, coupling)
            steps = step_table(self.steps)
            source = TablePairs(model, policy, coupling, cells, rewards.reward)
            estimates = StochasticApproximation(
                cells,
                source,
                self.sampling,
                steps,
                model.discount,
                self.centred,
                self.updates,
                self.seed,
            )
            outcome = self._learn(estimates, self._identity(model, policy, coupling, steps), progress)
            found = estimates.moments(self.confidence, self.averaging)
            pairs, curve = LearnedPairs(model, cells, estimates, scale, self.averaging), estimates.curve(scale)
        mean[~model.terminal], covariance[~model.terminal] = found.mean, found.covariance
        if self.averaging and outcome is not Outcome.INTERRUPTED:
            certificate = self._certificate(model, found, scale)
        return Evaluation(
            mean=scale.restore(mean),
            covariance=scale.restore(covariance, 2),
            certificate=certificate,
            outcome=outcome,
            coupling=coupling,
            method=self,
            states=model.states,
            actions=model.actions,
            residuals=np.zeros(0) if curve is None else np.array(curve.rms[:, 0]),
            cross=pairs,
            ranges=ReturnRange(model, policy),
            learning=curve,
        )

    def _identity(
        self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, steps: Floats
    ) -> npt.NDArray[np.uint8]:
        """Hash of everything that determines a run: step sizes by their table, the tolerance by whether it is set."""
        tables = (model.prob, model.reward, model.next_state, model.terminal, model.discount, policy.probs, steps)
        settings = (self.seed, self.updates, self.centred, self.tolerance is not None, self.sampling)
        return np.frombuffer(identity(_REVISION, tables, coupling, settings), np.uint8)

    def _require(self, model: TabularJMDP) -> None:
        S, _, A = model.shape
        X, local = S * A, int((~model.terminal).sum()) * A * A
        what = f"Incremental on {X} pairs of state and action"
        fix = "Use LinearProjected(features, samples=…, seed=…), which learns only the parameters of features"
        resumed = 0 if self.path is None else 40  # a checkpoint is read while the initial table exists
        needed = (CELL_BYTES + resumed) * (2 * X + X * (X + 1) // 2) + LOCAL_BYTES * local
        require(needed, budget(self.memory_budget), what, fix)

    def _learn(self, estimates: StochasticApproximation, run: npt.NDArray[np.uint8], progress: bool) -> Outcome:
        """Run all segments, or those that a checkpoint leaves; save checkpoints if requested."""
        if self.path is None:
            return self._remaining(estimates, lambda: None, progress)
        path = Path(self.path)
        with whole_files.reserved_checkpoint(path) as exists:
            if exists:
                _resume(path, estimates, run, segments(self.updates, looks=self.tolerance is not None))
            return self._remaining(
                estimates, lambda: whole_files.save(path, {**estimates.arrays(), "identity": run}), progress
            )

    def _remaining(self, estimates: StochasticApproximation, save: Callable[[], None], progress: bool) -> Outcome:
        """Run all remaining segments, and save now and then."""
        saved = time.monotonic()
        bar = count_bar(type(self).__name__, progress, int(estimates.done[1]), self.updates)
        with bar as report, deferred_interrupts() as interrupted:
            for segment in segments(self.updates, looks=self.tolerance is not None):
                if segment.number + 1 < estimates.done[0]:
                    continue
                if segment.number >= estimates.done[0]:
                    estimates.advance(segment)
                    report(int(estimates.done[1]))
                if segment.ends_stage and self._is_narrow(estimates):
                    save()
                    return Outcome.CONVERGED
                if interrupted():
                    save()
                    return Outcome.INTERRUPTED
                if time.monotonic() - saved >= self.checkpoint_seconds:
                    save()
                    saved = time.monotonic()
        save()
        return Outcome.SAMPLED if self.tolerance is None else Outcome.BUDGET_EXHAUSTED

    def _is_narrow(self, estimates: StochasticApproximation) -> bool:
        """Whether all intervals meet the tolerance, or are as narrow as rounding permits."""
        if self.tolerance is None:
            return False
        found = estimates.moments(self.confidence)
        variance = max(0.0, float(np.einsum("laa->la", found.covariance).max()))
        means = max(self.tolerance * math.sqrt(variance), 2 * found.mean_floor)
        covariances = max(self.tolerance * variance, 2 * found.covariance_floor)
        mean_error, covariance_error = float(found.mean_error.max()), float(found.covariance_error.max())
        narrow = mean_error <= means and covariance_error <= covariances
        return narrow and math.isfinite(mean_error + covariance_error)

    def _certificate(self, model: TabularJMDP, found: Moments, scale: Scale) -> Certificate:
        def whole_table(errors: Floats, order: int) -> Floats:
            table = np.zeros((model.shape[0], *errors.shape[1:]))
            table[~model.terminal] = errors
            return scale.restore_error(table, order)

        return Certificate(
            kind="statistical",
            mean_error=whole_table(found.mean_error, 1),
            covariance_error=whole_table(found.covariance_error, 2),
            gap_mean_error=whole_table(found.gap_mean_error, 1),
            gap_variance_error=whole_table(found.gap_variance_error, 2),
            discount=model.discount,
            reward_bound=model.reward_bound,
            confidence=self.confidence,
            correlation_error=whole_table(found.correlation_error, 0),
            large_sample=True,
        )


class LearnedPairs(CrossCovariances):
    """Covariances between states, from the cells of a run, without intervals."""

    certified = False

    def __init__(
        self, model: TabularJMDP, cells: MomentCells, estimates: StochasticApproximation, scale: Scale, averaging: bool
    ) -> None:
        self._states, self._actions, self._terminal = model.states, model.actions, model.terminal
        self._cells, self._scale = cells, scale
        self._values = estimates.average(slice(None)) if averaging else estimates.table[:, 0].copy()
        # Updated in this stage, with little weight left of the initial value.
        self._known = (estimates.table[:, 1] > estimates.counts_before_stage) & (
            estimates.table[:, 3] <= _LITTLE_OF_THE_START
        )

    def cross_covariance(self, s: int, a: int, t: int, b: int) -> float:
        """Cov(Z(s, a), Z(t, b))."""
        if self._terminal[s] or self._terminal[t]:
            return 0.0
        x, y = s * self._cells.actions + a, t * self._cells.actions + b
        at = int(self._cells.product(np.array(x), np.array(y)))
        if not self._known[at]:
            one, other = (f"({self._states.name(i)}, {self._actions.name(j)})" for i, j in ((s, a), (t, b)))
            raise UnavailableError(
                f"The covariance of {one} and {other} is unavailable: it received too few updates. "
                "Increase updates, or use a sampling that reaches it: BlockSampling() or UniformSampling()."
            )
        return self._scale.restore(float(self._values[at] - self._values[x] * self._values[y]), 2)


def _resume(
    path: Path, estimates: StochasticApproximation, run: npt.NDArray[np.uint8], whole: Iterator[Segment]
) -> None:
    arrays = whole_files.load(path, {**estimates.arrays(), "identity": run})
    if not np.array_equal(arrays.pop("identity"), run):
        raise CheckpointError(
            f"{path} is the checkpoint of a run with another model, policy, coupling or settings. {whole_files.FIX}"
        )
    if not estimates.accepts(arrays, whole):
        raise CheckpointError(f"{path} contains invalid numbers. {whole_files.FIX}")
    estimates.restore(arrays)
