"""State of an incremental run, as saved in a checkpoint, and its updates.

A run is divided into stages, each ending after four times as many updates as the one before, and a stage into batches.
Averages are taken over the current stage only, so earlier iterates are discarded, and its batches give the errors. A
segment is a part of a batch with its own random numbers, a pure function of (seed, segment): a run can stop after any
segment and resume with identical results.

Confidence intervals from the averages of successive batches of one run.

Batches that are long compared with the memory time of the iterates have nearly independent averages. The standard error
of a smooth function of the moments is then that of its linear part, evaluated batch by batch: for a covariance
Σ(x,y) − μ(x)μ(y), that of Σ_b(x,y) − μ(y)μ_b(x) − μ(x)μ_b(y). Intervals use Student's t with one degree of freedom less
than there are batches.

Step sizes of stochastic approximation, by the number of earlier updates of a coordinate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import ROUNDOFF, Floats, Integers, Scale
from jmdp.base.luck import Shock
from jmdp.base.settings import nonnegative
from jmdp.errors import SettingsError
from jmdp.methods.incremental.coordinate_sampling import BLOCKS, CoordinateSampling, MomentCells, TablePairs
from jmdp.results.result import LearningCurve

_LITTLE, _FEWEST = 1.1, 8


@dataclass(frozen=True, eq=False)
class Moments:
    """Estimates in non-terminal states, [L, A] or [L, A, A], each with the half width of its interval."""

    mean: Floats
    mean_error: Floats
    covariance: Floats
    covariance_error: Floats
    gap_mean_error: Floats
    gap_variance_error: Floats
    correlation_error: Floats
    mean_floor: float = 0.0  # part of the errors that is due to rounding
    covariance_floor: float = 0.0

    @classmethod
    def none(cls, actions: int) -> Moments:
        """Moments of zero states."""
        row, square = np.zeros((0, actions)), np.zeros((0, actions, actions))
        return cls(row, row, square, square, square, square, square)


def from_batches(
    mean: Floats,  # [L, A], over all batches
    product: Floats,  # [L, A, A]
    batch_mean: Floats,  # [B, L, A], nan where a batch had no update
    batch_product: Floats,  # [B, L, A, A]
    mean_times: Floats,  # [L, A], length of all batches in memory times
    product_times: Floats,  # [L, A, A]
    confidence: float,
) -> Moments:
    """Moments with their errors; an error is infinite if a batch is empty."""

    def error(batches: Floats, times: Floats) -> Floats:
        return half_widths(batches, times, confidence)

    covariance = product - mean[:, :, None] * mean[:, None, :]
    means = batch_mean - mean
    tilt = means[:, :, :, None] * mean[:, None, :]
    covariances = batch_product - product - tilt - tilt.transpose(0, 1, 3, 2)
    own, own_batches = np.einsum("laa->la", covariance), np.einsum("blaa->bla", covariances)
    scale = 1 / np.sqrt(np.where(own > 0, own, np.inf))
    correlation = covariance * scale[:, :, None] * scale[:, None, :]
    relative = own_batches * scale * scale
    halves = (relative[:, :, :, None] + relative[:, :, None, :]) / 2
    correlations = covariances * scale[:, :, None] * scale[:, None, :] - correlation * halves
    own_times = np.einsum("laa->la", product_times)
    all_times = np.minimum(product_times, np.minimum(own_times[:, :, None], own_times[:, None, :]))
    return Moments(
        mean,
        error(means, mean_times),
        covariance,
        error(covariances, product_times),
        error(means[:, :, :, None] - means[:, :, None, :], np.minimum(mean_times[:, :, None], mean_times[:, None, :])),
        error(own_batches[:, :, :, None] + own_batches[:, :, None, :] - 2 * covariances, all_times),
        error(correlations, all_times),
    )


def half_widths(batches: Floats, times: Floats, confidence: float) -> Floats:
    """Half widths of intervals around averages over all batches [B, …], of `times` […] memory times in total.

    Correlation between neighbouring batches makes the variance of averages of two of them larger than half. The ratio
    is estimated from all quantities together. Batches are joined until it is near 1, and the remaining excess is
    extrapolated (batches of twice the length would miss half of it: σ² ≈ 2 σ²(2b) − σ²(b)). Intervals of quantities
    with a longer memory than most are widened in proportion. If batches are shorter than the memory time, the memory
    time alone determines the widening.
    """
    from scipy.special import stdtrit

    p, B = (1 + confidence) / 2, batches.shape[0]
    excess = _excess(times, B)
    short = np.sqrt(batches.var(axis=0, ddof=1) / B * excess) * stdtrit(np.clip(times, 1, B - 1), p)
    while True:
        pairs = (batches[0::2] + batches[1::2]) / 2
        single, paired = (part.var(axis=0, ddof=1) / part.shape[0] for part in (batches, pairs))
        seen = single > 0
        ratio = float((paired[seen] / single[seen]).mean()) if seen.any() else 1.0
        if ratio <= _LITTLE or pairs.shape[0] <= _FEWEST // 2:
            break
        batches = pairs
    usual = float(np.median(excess))
    more = max(1.0, 2 * ratio - 1) * np.maximum(1.0, excess / usual if usual < np.inf else 1.0)
    long = np.sqrt(single * more) * float(stdtrit(batches.shape[0] - 1, p))
    widths = np.where(times < B, np.maximum(short, long), long)
    return np.where((times < 1) | ~np.isfinite(widths), np.inf, widths)


def _excess(times: Floats, B: int) -> Floats:
    """Ratio of the variance of an average over B batches to its estimate under independence; ≥ 1.

    If correlations decay like e^−t, the variance of an average over y memory times is proportional to
    f(y) = (1 − (1 − e^−y)/y)/y. So the sample variance of batches is proportional to f(y/B) − f(y), times B/(B − 1).
    """
    y = np.clip(times, 1e-3, 1e6)
    whole, part = _averaged(y), _averaged(y / B)
    return np.asarray((B - 1) * whole / (part - whole))


def _averaged(y: Floats) -> Floats:
    return (1 - -np.expm1(-y) / y) / y


StepSizes = Callable[[Floats], Floats]
"""Function from counts of earlier updates of a coordinate (0, 1, 2, …) to step sizes in (0, 1]."""

_DOUBLINGS = 48
"""Step sizes are tabulated for counts up to 2**48."""


@dataclass(frozen=True)
class ConstantSteps:
    """Constant α = `size`. Averages of iterates converge if every coordinate is updated regularly (`Incremental`).

    Constant steps do not satisfy Eq. (29).
    """

    size: float = 0.1

    def __post_init__(self) -> None:
        _check_first(self, "size")

    def __call__(self, counts: Floats) -> Floats:
        """Step sizes after these numbers of updates."""
        return np.full(counts.shape, self.size)


@dataclass(frozen=True)
class PolynomialSteps:
    """α_n = `first` × (1 + n/`delay`)^−`exponent` after n updates of the coordinate.

    With ½ < exponent ≤ 1 these are the steps of Robbins and Monro required by the paper's Theorem 5.4 (Eq. (29)). A
    larger delay keeps them large for longer.
    """

    exponent: float = 0.6
    first: float = 0.5
    delay: float = 100.0

    def __post_init__(self) -> None:
        _check_first(self, "first")
        nonnegative(self, "delay")
        nonnegative(self, "exponent")
        if not 0.5 < self.exponent <= 1:
            raise SettingsError(f"exponent is {self.exponent!r}. Give ½ < exponent ≤ 1, for which iterates converge.")
        if self.delay == 0:
            raise SettingsError("delay is 0. Give the number of updates after which steps begin to shrink, e.g. 1.")

    def __call__(self, counts: Floats) -> Floats:
        """Step sizes after these numbers of updates."""
        return np.asarray(self.first * (1 + counts / self.delay) ** -self.exponent)


def step_table(rule: StepSizes) -> Floats:
    """Table of step sizes for the kernel: of the 1st, 2nd, … update, at counts of twelve binary digits."""
    from jmdp.methods.kernels.moment_updates import DIGITS

    half = 2.0 ** (DIGITS - 1)
    leading = 1 + np.arange(half) / half
    counts = np.concatenate([np.floor(leading * 2.0**doublings) - 1 for doublings in range(_DOUBLINGS)])
    try:
        returned = rule(counts.copy())
    except Exception as error:
        error.add_note("Raised by steps. Give a function of an array of counts.")
        raise
    steps = arrays.floats("The result of steps", returned, "[counts]", SettingsError)
    if steps.shape != counts.shape:
        raise SettingsError(f"steps returned shape {steps.shape} for counts of shape {counts.shape}. Return one each.")
    bad = ~((steps > 0) & (steps <= 1))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise SettingsError(f"steps returned {steps[at]} after {counts[at]:.0f} updates. Return step sizes in (0, 1].")
    return np.ascontiguousarray(steps)


def _check_first(steps: object, name: str) -> None:
    nonnegative(steps, name)
    if not 0 < getattr(steps, name) <= 1:
        raise SettingsError(f"{name} is {getattr(steps, name)!r}. Give a step size in (0, 1].")


_STAGES, _GROWTH = 6, 4

BATCHES = 32

_SEGMENT = 1 << 19
"""Maximum updates of a segment: a fraction of a second."""

_CHUNK = 1 << 13
"""Updates whose random numbers are drawn at once, so that they stay in the cache."""

_WINDOWS = 1000

CELL_BYTES = 60
"""Memory of a coordinate: four numbers of its cell, its counts before and in this stage, its average."""

LOCAL_BYTES = 8 * (8 * BATCHES + 30)
"""Additional memory of two actions of one state: averages of all batches, and temporaries while errors are computed."""


@dataclass(frozen=True)
class Segment:
    """Part of a run that is executed at once."""

    number: int
    length: int
    batch: int
    begins_stage: bool
    ends_batch: bool
    ends_stage: bool


def segments(updates: int, looks: bool) -> Iterator[Segment]:
    """Segments of a whole run, in order. Only stages whose errors are computed need batches: the last, or all."""
    edges = sorted({updates // _GROWTH**j for j in range(_STAGES)} | {0})
    number = 0
    for first, last in pairwise(edges):
        batches = BATCHES if looks or last == updates else 1
        marks = [first + (last - first) * b // batches for b in range(batches + 1)]
        for batch, (start, end) in enumerate(pairwise(marks)):
            for at in range(start, max(end, start + 1), _SEGMENT):
                length = min(_SEGMENT, end - at)
                over = at + length == end
                yield Segment(number, length, batch, at == first and batch == 0, over, over and batch == batches - 1)
                number += 1


class StochasticApproximation:
    """Estimates of all moments, updated by samples."""

    def __init__(
        self,
        cells: MomentCells,
        source: TablePairs,
        sampling: CoordinateSampling,
        steps: Floats,
        discount: float,
        centred: bool,
        updates: int,
        seed: int,
    ) -> None:
        self._cells, self._source, self._sampling, self._steps = cells, source, sampling, steps
        self._discount, self._centred, self._updates, self._seed = discount, centred, updates, seed
        L, A = cells.mean.shape
        self.table: Floats = np.zeros((cells.size, 4))  # value, updates, sum over this stage, weight of initial value
        self.table[:, 3] = 1.0
        self.counts_before_stage: Floats = np.zeros(cells.size)  # updates when this stage began
        self.reference: Floats = np.zeros(cells.coordinates)  # subtracted from the return
        self.memory: Integers = sampling.begin(cells)
        self.windows: Floats = np.zeros((_WINDOWS, 4, 3))  # updates, sums of δ and δ²
        self.batch_mean: Floats = np.zeros((BATCHES, L, A))
        self.batch_product: Floats = np.zeros((BATCHES, L, A, A))
        self.before_mean: Floats = np.zeros((L, A, 2))  # updates and sums when this batch began
        self.before_product: Floats = np.zeros((L, A, A, 2))
        self.weight_before_stage_mean: Floats = np.ones((L, A))  # weight of the initial value when this stage began
        self.weight_before_stage_product: Floats = np.ones((L, A, A))
        self.start_mean: Floats = np.zeros((L, A))  # the same, averaged over batches of this stage
        self.start_product: Floats = np.zeros((L, A, A))
        self.done: Integers = np.zeros(2, np.int64)  # segments, updates

    def arrays(self) -> dict[str, Floats | Integers]:
        """Arrays that change during a run."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def accepts(self, arrays: dict[str, Floats | Integers], whole: Iterator[Segment]) -> bool:
        """Whether `arrays` can be the state of a run. Kernels use them as indices, so a file must be validated."""
        number, updates = (int(count) for count in arrays["done"])
        gone = [segment.length for segment in islice(whole, max(number, 0))]
        table, memory = arrays["table"], np.asarray(arrays["memory"], np.int64)
        return (
            (len(gone), sum(gone)) == (number, updates)
            and bool(np.isfinite(table).all() and (table[:, 1] >= 0).all() and (table[:, 1] <= updates).all())
            and self._sampling.accepts(memory, self._cells)
        )

    def restore(self, arrays: dict[str, Floats | Integers]) -> None:
        """Restore a state saved from `arrays()`."""
        for name, value in arrays.items():
            setattr(self, name, value)

    def advance(self, segment: Segment) -> None:
        """Run the updates of one segment."""
        from jmdp.methods.kernels.moment_updates import UpdateRule, update

        if segment.begins_stage:
            self._begin_stage()
        seed = Shock.of_sample(self._seed, 0).derived(b"segment", segment.number).seed()
        rng = np.random.Generator(np.random.SFC64(seed))  # twice as fast as Philox
        cells = self._cells
        rule = UpdateRule(self._steps, self._discount, cells.branches_merge, self.reference, cells.state_of)
        for start in range(0, segment.length, _CHUNK):
            size = min(_CHUNK, segment.length - start)
            one, other = self._sampling.draw(rng, size, cells, self._source, self.memory)
            self._check(one, other, size)
            gains, ahead = self._source.draw(rng, one, other)
            window = self.windows[int(self.done[1]) * _WINDOWS // self._updates]
            update(self.table, rule, one, other, gains, ahead, window)
            self.done[1] += size
        if segment.ends_batch:
            self._end_batch(segment.batch)
        self.done[0] = segment.number + 1

    def _check(self, one: Integers, other: Integers, size: int) -> None:
        """Raise for invalid coordinates, which would make a kernel write out of bounds."""
        from jmdp.methods.kernels.moment_updates import are_coordinates

        cells = self._cells
        known = one.shape == other.shape == (size,) and one.dtype == other.dtype == np.int64
        if not (known and are_coordinates(one, other, cells.is_live, cells.branches_merge)):
            raise SettingsError(
                f"{type(self._sampling).__name__} returned invalid coordinates. Return int64 arrays of the requested "
                "size: `one` is state × A + action of a non-terminal state, `other` is −1 (mean), −2 (square) or a "
                "larger coordinate."
            )

    def _begin_stage(self) -> None:
        """Reset averages; with a centred table, subtract the estimated mean from the return.

        With Y = Z − m and m the average of E[Y] so far, E[Y] − m ≈ 0 is the new mean and E[Y Ỹ] − m m̃ the new product.
        """
        cells, X = self._cells, self._cells.coordinates
        if self._centred:
            shift = np.zeros(X)
            shift[cells.mean] = self.average(cells.mean)
            self.reference += shift
            self.table[:X, 0] -= shift
            self.table[X : 2 * X, 0] -= shift * shift
            for y in np.flatnonzero(shift):
                row = 2 * X + y * (y + 1) // 2
                self.table[row : row + y + 1, 0] -= shift[: y + 1] * shift[y]
        self.counts_before_stage[...] = self.table[:, 1]
        self.weight_before_stage_mean[...], self.weight_before_stage_product[...] = (
            self.table[at, 3] for at in (cells.mean, cells.products)
        )
        self.table[:, 2] = 0.0
        self.start_mean[...] = 0.0
        self.start_product[...] = 0.0
        self._begin_batch()

    def _begin_batch(self) -> None:
        cells = self._cells
        self.before_mean[...] = self.table[cells.mean, 1:3]
        self.before_product[...] = self.table[cells.products, 1:3]
        self.start_mean += self.table[cells.mean, 3] / BATCHES
        self.start_product += self.table[cells.products, 3] / BATCHES

    def _end_batch(self, batch: int) -> None:
        cells = self._cells
        for at, before, averages in (
            (cells.mean, self.before_mean, self.batch_mean),
            (cells.products, self.before_product, self.batch_product),
        ):
            new = self.table[at, 1:3] - before
            averages[batch] = np.where(new[..., 0] > 0, new[..., 1] / np.maximum(new[..., 0], 1), np.nan)
        if batch < BATCHES - 1:
            self._begin_batch()

    def average(self, at: Integers | slice) -> Floats:
        """Averages of cells over this stage; for cells without an update, their values."""
        average, count = self.table[at, 0], self.table[at, 1] - self.counts_before_stage[at]
        average = average.copy()  # a slice is a view
        return np.divide(self.table[at, 2], count, out=average, where=count > 0)

    def moments(self, confidence: float, averaging: bool = True) -> Moments:
        """Means and covariances in each non-terminal state; their errors are valid for averages at the end of a stage.

        Errors include rounding and the bias of the initial values, which are 0: their weight in the averages times the
        size of the estimated moment.
        """
        cells = self._cells
        found = from_batches(
            self.average(cells.mean) if averaging else self.table[cells.mean, 0],
            self.average(cells.products) if averaging else self.table[cells.products, 0],
            self.batch_mean,
            self.batch_product,
            _memory_times(self.weight_before_stage_mean, self.table[cells.mean, 3]),
            _memory_times(self.weight_before_stage_product, self.table[cells.products, 3]),
            confidence,
        )
        mean, own = found.mean + self.reference[cells.mean], np.einsum("laa->la", found.covariance)
        # Estimates are smaller than the moments by the remaining weight of the initial value 0.
        largest = _grown(float(np.abs(mean).max()), self.start_mean)
        square = _grown(float(own.max()), self.start_product) + largest * largest
        gap_start = np.maximum(self.start_mean[:, :, None], self.start_mean[:, None, :])
        left = _times(np.maximum(self.start_product, gap_start), square)
        scale = np.sqrt(np.where(own > 0, own, np.inf))
        unknown = np.isinf(left)
        relative = np.where(unknown, np.inf, np.where(unknown, 0.0, left) / scale[:, :, None] / scale[:, None, :])
        own_left = np.einsum("laa->la", relative)
        # Errors of sums of this many terms; the error of one step persists for 1/(1 − γ) steps.
        rounding = 8 * ROUNDOFF * math.sqrt(float(self.table[:, 1].max())) / (1 - self._discount)
        mean_floor, floor = rounding * largest, rounding * square
        return replace(
            found,
            mean=mean,
            mean_error=found.mean_error + _times(self.start_mean, largest) + mean_floor,
            covariance_error=found.covariance_error + left + floor,
            gap_mean_error=found.gap_mean_error + 2 * _times(gap_start, largest) + 2 * mean_floor,
            gap_variance_error=found.gap_variance_error + 4 * left + 4 * floor,
            correlation_error=found.correlation_error + relative + (own_left[:, :, None] + own_left[:, None, :]) / 2,
            mean_floor=mean_floor,
            covariance_floor=floor,
        )

    def curve(self, scale: Scale) -> LearningCurve:
        """TD errors by window: of means, and of three kinds of products."""
        seen = self.windows[:, :, 0]
        rows = seen.any(axis=1)
        count, powers = np.where(seen > 0, seen, np.nan)[rows], np.array([1, 2, 2, 2])
        return LearningCurve(
            BLOCKS,
            np.cumsum(seen[rows].sum(axis=1)),
            scale.restore(np.sqrt(self.windows[rows, :, 2] / count), powers),
            scale.restore(self.windows[rows, :, 1] / count, powers),
        )


def _memory_times(before: Floats, now: Floats) -> Floats:
    """Number of factors e by which the weight of the initial value fell; infinite if it is 0."""
    fallen = np.divide(before, now, out=np.full(before.shape, np.inf), where=now > 0)
    return np.asarray(np.log(np.maximum(fallen, 1.0)))


def _grown(size: float, start: Floats) -> float:
    """Limit of an estimate that started at 0 and has size `size`, given the remaining weight of the start."""
    left = 1 - float(start.max())
    return size / left if left > 0 else math.inf


def _times(weight: Floats, size: float) -> Floats:
    """Weight × size; 0 for a weight of 0 even if the size is infinite."""
    return np.where(weight > 0, np.maximum(weight, 5e-324) * size, 0.0)
