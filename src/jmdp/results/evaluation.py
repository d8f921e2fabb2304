"""The result of `evaluate`: joint moments of the returns, their certificate, how the method ended, and its text."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import ROUNDOFF, Floats
from jmdp.base.interval import ANYWHERE, Estimate, Interval, known_twice
from jmdp.base.labels import Label, Labels
from jmdp.base.rounding import at_most
from jmdp.base.savable import Reportable, Savable, report
from jmdp.base.settings import short
from jmdp.errors import SettingsError, UnavailableError
from jmdp.models.coupling import Coupling
from jmdp.results.certificate import Certificate, Outcome
from jmdp.results.gaps.distribution import Distribution, GapDistribution
from jmdp.results.gaps.gap import Gap, clipped, correlations, fisher, sentence
from jmdp.results.parts import (
    CrossCovariances,
    Distributions,
    MethodSettings,
    Moments,
    Projection,
    Ranges,
    StartSplit,
    VarianceSplit,
)
from jmdp.results.result import (
    EvaluationInput,
    LearningCurve,
    Quantity,
    Tabulated,
    figure,
    labelled_arrays,
    unavailable,
)
from jmdp.results.text import NO_BOUNDS, confidence, facts

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Evaluation(arrays.FrozenArrays, Tabulated, Savable, Reportable):
    """Joint moments of the returns Z(s, a) of one policy under one coupling.

    Z(s, a) is Eq. (1). `mean` is Eq. (10); `covariance` contains the covariances of the joint return vector of each
    state (Definition 4.6).
    """

    @property
    def _index(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns that identify a row."""
        return "state", self.actions.kind

    mean: Floats  # [S, A]
    covariance: Floats  # [S, A, A], Cov(Z(s, a), Z(s, b))
    certificate: Certificate | None
    outcome: Outcome
    coupling: Coupling
    method: MethodSettings
    states: Labels
    actions: Labels
    residuals: Floats  # [sweeps], in the method's own norm, nan where not measured; empty where nothing is swept
    cross: CrossCovariances | None = None
    moments: Moments | None = None
    distributions: Distributions | None = None
    ranges: Ranges | None = None
    projection: Projection | None = None
    learning: LearningCurve | None = None
    start: StartSplit | None = None
    asked: EvaluationInput | None = None  # what was evaluated, if that was a table
    gap_mean: Floats | None = None  # [S, A, A], means of gaps, if more accurate than differences of means
    gap_variance: Floats | None = None  # [S, A, A], variances of gaps, if more accurate than sums of covariances

    def __post_init__(self) -> None:
        self.freeze()

    @property
    def coupled_by(self) -> str | None:
        """How the outcomes of different actions were coupled, if the model was made of marginals by `couple`."""
        return None if self.asked is None else self.asked.model.coupled_by

    @cached_property
    def correlation(self) -> Floats:
        """[S, A, A], correlation of Z(s, a) and Z(s, b).

        nan if a variance may be 0; without an interval, if it is 0 up to rounding.
        """
        error = 0.0 if self.certificate is None else self.certificate.covariance_error
        floor = np.einsum("saa->sa", np.broadcast_to(error, self.covariance.shape))
        with np.errstate(over="ignore"):
            floor = np.where(np.isinf(floor), np.square(2.0**-46 * self.mean), floor)
        rho = correlations(self.covariance, floor)
        arrays.frozen(rho)
        return rho

    def cross_covariance(self, s: Label, a: Label, t: Label, b: Label) -> float:
        """Cov(Z(s, a), Z(t, b)) for any two states."""
        i, x, j, y = self.states.index(s), self.actions.index(a), self.states.index(t), self.actions.index(b)
        if i == j:
            return float(self.covariance[i, x, y])
        if self.cross is None:
            raise unavailable(type(self.method).__name__, Quantity.CROSS_COVARIANCES)
        return self.cross.cross_covariance(i, x, j, y) if i < j else self.cross.cross_covariance(j, y, i, x)

    def second_moment(self, s: Label, a: Label, t: Label, b: Label) -> float:
        """E[Z(s, a) Z(t, b)], the paper's Σ(s, a, t, b) (Eq. (11))."""
        i, x, j, y = self.states.index(s), self.actions.index(a), self.states.index(t), self.actions.index(b)
        return self.cross_covariance(s, a, t, b) + float(self.mean[i, x] * self.mean[j, y])

    def moment(self, *coordinates: tuple[Label, Label]) -> Estimate:
        """E[Z(x) Z(y) …] for coordinates x = (state, action); a repeated coordinate is a power of the same return.

        ``moment((s, a), (s, a), (s, b))`` is E[Z(s, a)² Z(s, b)], the paper's n-th order joint moment (Eq. (31)).
        """
        at = [self._coordinate(x) for x in coordinates]
        if not at:
            return Estimate.around(1.0, 0.0)
        if self.moments is not None and len(at) <= self.moments.order:
            found = self.moments.moment(at)
            known = len(at) == 1 or at[0][0] == at[-1][0] or (self.cross is not None and self.cross.certified)
            return (
                known_twice(found, self._low_moment(coordinates))
                if len(at) <= 2 and known and self._is_certain
                else found
            )
        if len(at) > 2:
            raise UnavailableError(
                f"This evaluation has no moments of order {len(at)}. Use ExactPairs(order={len(at)}) for two "
                f"coordinates, JIPE(order={len(at)}) for any."
            )
        return self._low_moment(coordinates)

    def _low_moment(self, coordinates: tuple[tuple[Label, Label], ...]) -> Estimate:
        """E[Z(x)] or E[Z(x) Z(y)], from means and covariances."""
        low, high = -math.inf, math.inf
        if len(coordinates) == 1:
            return self.mean_of(*coordinates[0])
        (s, a), (t, b) = coordinates
        value = self.second_moment(s, a, t, b)
        one, other = self.mean_interval(s, a), self.mean_interval(t, b)
        covariance = self.cross_covariance_interval(s, a, t, b)
        if covariance is not None and one is not None and other is not None:
            both = covariance + one * other
            low, high = both.low, both.high
        return Estimate(value, low, high)

    def _coordinate(self, x: tuple[Label, Label]) -> tuple[int, int]:
        if not isinstance(x, (tuple, list)) or len(x) != 2:
            raise SettingsError(f"A coordinate is {short(x)}. Give a tuple (state, action).")
        return self.states.index(x[0]), self.actions.index(x[1])

    def _covariance_error(self, certificate: Certificate, s: int, a: int, t: int, b: int) -> float:
        if self.projection is not None:
            return self.projection.error_bound(s, a, t, b)
        errors = np.asarray(certificate.covariance_error)
        if errors.ndim == 0:
            return float(errors)
        if s == t:
            return float(errors[s, a, b])
        if self.cross is not None:
            return self.cross.cross_covariance_error(s, a, t, b)
        return math.inf  # the errors are those of covariances within a state only

    def return_distribution(self, s: Label, a: Label) -> Distribution:
        """Return the distribution of the return Z(s, a)."""
        i, x = self.states.index(s), self.actions.index(a)
        return self._distributions().return_distribution(i, x)

    def _distributions(self) -> Distributions:
        if self.distributions is None:
            raise unavailable(type(self.method).__name__, Quantity.DISTRIBUTIONS)
        return self.distributions

    def mean_interval(self, s: Label, a: Label) -> Interval | None:
        """Interval of E[Z(s, a)], or None without a certificate."""
        at = self.states.index(s), self.actions.index(a)
        return self._interval(self.mean, at, "mean_error")

    def mean_of(self, s: Label, a: Label) -> Estimate:
        """E[Z(s, a)] with its interval."""
        return Estimate.within(float(self.mean[self.states.index(s), self.actions.index(a)]), self.mean_interval(s, a))

    def covariance_interval(self, s: Label, a: Label, b: Label) -> Interval | None:
        """Interval of Cov(Z(s, a), Z(s, b)), or None if unavailable."""
        return self._covariance_interval(self.states.index(s), self.actions.index(a), self.actions.index(b))

    def _covariance_interval(self, i: int, x: int, y: int) -> Interval | None:
        found = self._interval(self.covariance, (i, x, y), "covariance_error")
        return None if found is None or math.isinf(found.width) else found

    def cross_covariance_interval(self, s: Label, a: Label, t: Label, b: Label) -> Interval | None:
        """Interval of Cov(Z(s, a), Z(t, b)) for any two states, or None without a certificate."""
        if self.certificate is None:
            return None
        i, x, j, y = self.states.index(s), self.actions.index(a), self.states.index(t), self.actions.index(b)
        return Interval.around(self.cross_covariance(s, a, t, b), self._covariance_error(self.certificate, i, x, j, y))

    def _interval(self, values: Floats, at: tuple[int, ...], error: str) -> Interval | None:
        if self.certificate is None:
            return None
        errors = np.broadcast_to(getattr(self.certificate, error), values.shape)
        return Interval.around(float(values[at]), float(errors[at]))

    def gap(self, s: Label, a: Label, b: Label) -> Gap:
        """Return the gap Z(s, a) − Z(s, b) under shared randomness. Its variance is Eq. (35), sign corrected."""
        i, x, y = self.states.index(s), self.actions.index(a), self.actions.index(b)
        va, vb, cab = (float(self.covariance[i, p, q]) for p, q in ((x, x), (y, y), (x, y)))
        mean = float(self.mean[i, x] - self.mean[i, y] if self.gap_mean is None else self.gap_mean[i, x, y])
        variance = max(0.0, va + vb - 2 * cab if self.gap_variance is None else float(self.gap_variance[i, x, y]))
        means = variances = correlations = None
        if x == y:
            variance, means, variances = 0.0, Interval(0.0, 0.0), Interval(0.0, 0.0)
        elif self.certificate is not None:
            shape = self.covariance.shape
            mean_error = float(np.broadcast_to(self.certificate.gap_mean_error, shape)[i, x, y])
            variance_error = float(np.broadcast_to(self.certificate.gap_variance_error, shape)[i, x, y])
            # The subtractions above are rounded too.
            rounded = ROUNDOFF * abs(mean) if self.gap_mean is None else 0.0
            means = Interval.around(mean, mean_error + rounded if mean_error else 0.0)
            rounded = 4 * ROUNDOFF * (va + vb + 2 * abs(cab)) if self.gap_variance is None else 0.0
            wide = Interval.around(variance, variance_error + rounded if variance_error else 0.0)
            variances = None if math.isinf(variance_error) else Interval(max(0.0, wide.low), wide.high)
            correlations = self._correlation_interval(i, x, y, variances)
        return Gap(
            state=self.states.name(i),
            first=self.actions.name(x),
            second=self.actions.name(y),
            coupling=self.coupling,
            mean=mean,
            variance=variance,
            correlation=float(self.correlation[i, x, y]),
            mean_interval=means,
            variance_interval=variances,
            correlation_interval=correlations,
            confidence=None if self.certificate is None else self.certificate.confidence,
            large_sample=self.certificate is not None and self.certificate.large_sample and x != y,
            support=self._gap_support(i, x, y),
            central_moments=self._gap_moments(i, x, y, variance, variances),
            find_distribution=partial(self._gap_distribution, i, x, y),
        )

    def variance_split(self, a: Label, b: Label) -> VarianceSplit:
        """Var(Z(a) − Z(b)) from a random start, split into its parts within and between starts."""
        if self.start is None:
            raise UnavailableError(
                "This evaluation has no start distribution. Pass one: evaluate(model, policies, …, starts=…)."
            )
        return self.start.split(self.actions.index(a), self.actions.index(b))

    def _gap_distribution(self, i: int, x: int, y: int, tolerance: float | None) -> GapDistribution:
        if x == y:
            return GapDistribution.zero()
        known = self._distributions()
        return (known if tolerance is None else known.refined([(i, x, y)], tolerance)).gap_distribution(i, x, y)

    def _gap_support(self, i: int, x: int, y: int) -> Interval:
        """Interval of all possible gaps: from reachable rewards if available, else from |Z| ≤ B/(1 − γ)."""
        if self.ranges is not None:
            return self.ranges.of_gap(i, x, y)
        if self.certificate is None:
            return ANYWHERE
        bound = 2 * self.certificate.reward_bound / (1 - self.certificate.discount) * (1 + 2.0**-50)
        bound = math.nextafter(bound, math.inf) if bound else 0.0  # it may be subnormal
        return Interval(-bound, bound)

    def _gap_moments(self, i: int, x: int, y: int, variance: float, variances: Interval | None) -> tuple[Estimate, ...]:
        """Central moments of a gap of all available orders."""
        order = 2 if self.moments is None else self.moments.order
        if x == y:
            return tuple(Estimate.around(float(n == 0), 0.0) for n in range(order + 1))
        wide = Interval(0.0, math.inf) if variances is None else variances
        second = Estimate(variance, wide.low, wide.high)
        if self.moments is None:
            return Estimate.around(1.0, 0.0), Estimate.around(0.0, 0.0), second
        none, first, known, *higher = self.moments.gap_moments(i, x, y)
        return none, first, known_twice(known, second) if self._is_certain else known, *higher

    @property
    def _is_certain(self) -> bool:
        """True if intervals contain their quantities for certain, so that those of one quantity may be intersected."""
        return self.certificate is not None and self.certificate.confidence is None

    def _correlation_interval(self, i: int, x: int, y: int, gap_variance: Interval | None) -> Interval | None:
        va, vb, c = (self._covariance_interval(i, *pair) for pair in ((x, x), (y, y), (x, y)))
        if self.certificate is None or va is None or vb is None or c is None:
            return None
        if va.low <= 0 or vb.low <= 0:
            return Interval(-1.0, 1.0)
        if gap_variance == Interval(0.0, 0.0):
            return Interval(1.0, 1.0)  # the returns are equal, or differ by a constant
        if self.certificate.correlation_error is not None:
            middle, error = float(self.correlation[i, x, y]), float(self.certificate.correlation_error[i, x, y])
            return clipped(middle, error) if self.certificate.confidence is None else fisher(middle, error)
        corners = [e / math.sqrt(v) / math.sqrt(w) for e in (c.low, c.high) for v in (va.low, va.high)
                   for w in (vb.low, vb.high)]  # fmt: skip
        low, high = Interval.around(min(corners), 4 * ROUNDOFF), Interval.around(max(corners), 4 * ROUNDOFF)
        return Interval(max(-1.0, low.low), min(1.0, high.high))

    def rows(self) -> list[dict[str, Any]]:
        """One row per state and action: mean and standard deviation of the return."""
        return [
            {
                "state": self.states.name(s),
                self.actions.kind: self.actions.name(a),
                "mean return": self.mean_of(self.states[s], self.actions[a]),
                "std": self._std(s, a),
            }
            for s, a in np.ndindex(self.mean.shape)
        ]

    def _std(self, s: int, a: int) -> Estimate:
        wide = self._covariance_interval(s, a, a)
        value = math.sqrt(max(0.0, float(self.covariance[s, a, a])))
        return Estimate.within(value, None if wide is None else wide.square_root())

    def plot(self, state: Label | None = None) -> Figure:
        """Draw `jmdp.plots.gap_chart` of one state: by default the start distribution, else the first state."""
        if state is None:
            state = self.states[0 if self.start is None else self.states.size - 1]
        return figure("gap_chart", self, state)

    def to_xarray(self) -> xarray.Dataset:
        """Mean, covariance and correlation with labels and errors, as an xarray Dataset."""
        values = {"mean": self.mean, "covariance": self.covariance, "correlation": self.correlation}
        if self.certificate is not None:
            values["mean_error"] = np.broadcast_to(self.certificate.mean_error, self.mean.shape)
            values["covariance_error"] = np.broadcast_to(self.certificate.covariance_error, self.covariance.shape)
        attributes = {
            "coupling": repr(self.coupling),
            "method": repr(self.method),
            "outcome": self.outcome.name,
            "certificate": "none" if self.certificate is None else self.certificate.kind,
        } | ({} if self.coupled_by is None else {"coupled_by": self.coupled_by})
        kind = self.actions.kind
        axes, names = ("state", kind, f"{kind}_2"), list(self.actions)
        found: xarray.Dataset = labelled_arrays().Dataset(
            {name: (axes[: array.ndim], array) for name, array in values.items()},
            {"state": list(self.states), kind: names, f"{kind}_2": names},
            attributes,
        )
        return found

    def report(self, path: str | os.PathLike[str], state: Label | None = None) -> None:
        """Write a self-contained HTML page about one state: by default the start distribution, else the first one."""
        report(self, path, state=state)

    def _note(self) -> str:
        return origin(self)

    def __repr__(self) -> str:
        return evaluation_text(self)


def evaluation_text(e: Evaluation) -> str:
    """The sentence, the settings and the errors of an evaluation."""
    named: dict[str, object] = {
        "ended": f"{e.outcome.name}: {e.outcome.value}",
        "coupling": e.coupling,
        "method": e.method,
    }
    if e.coupled_by is not None:
        named["model"] = f"outcomes of actions coupled by {e.coupled_by}"
    if e.residuals.size:
        last = f"last {e.method.residual_name} {e.residuals[-1]:.3g}"
        named[f"{e.method.step_name}s"] = f"{e.residuals.size}, {last}"
    if e.certificate is not None:
        errors = {"means": e.certificate.mean_error, "covariances": e.certificate.covariance_error}
        for (name, error), values in zip(errors.items(), (e.mean, e.covariance), strict=True):
            each = "no error bound" if np.isinf(error).all() else f"each ± {at_most(float(np.max(error)), 2)} or less"
            named[name] = f"up to {at_most(float(np.abs(values).max()))}, {each}"
        if e.certificate.assumption is not None:
            named["assumption"] = e.certificate.assumption
    if e.projection is not None:
        known, pairs = e.projection.guaranteed_pairs
        named["projection"] = f"κ {e.projection.kappa:.3g}, guaranteed for {known} of {pairs} gaps"
    S, A = e.mean.shape
    about = f"Means and covariances of the returns of {A} {e.actions.plural} in {S} states, {_trust(e.certificate)}"
    return "\n".join([*_best_from_start(e), about, *facts(named)])


def origin(e: Evaluation) -> str:
    """Where the numbers come from: samples and seed if there are any, and how large the errors may be."""
    seed, trust = getattr(e.method, "seed", None), _trust(e.certificate)
    if seed is None:
        return f"computed by {type(e.method).__name__}, without sampling: {trust}"
    of = {"samples": "rollouts of each state", "updates": "updates"}
    counts = [f"n = {getattr(e.method, name):,} {unit}, " for name, unit in of.items() if hasattr(e.method, name)]
    return f"{''.join(counts[:1])}seed {seed}: {trust}"


def _best_from_start(e: Evaluation) -> list[str]:
    """The best alternative and the second best from the start distribution, if there is one."""
    start = e.mean.shape[0] - 1
    if e.start is None or e.mean.shape[1] < 2:
        return []
    second, best = np.argsort(e.mean[start], kind="stable")[-2:]
    return [sentence(e.gap(e.states[start], int(best), int(second)), None)]


def _trust(certificate: Certificate | None) -> str:
    if certificate is None:
        return NO_BOUNDS
    if certificate.confidence is None:
        return certificate.kind
    return f"each at {confidence(certificate.confidence, certificate.large_sample)}"
