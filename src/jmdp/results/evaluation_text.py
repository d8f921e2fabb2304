"""An evaluation as text: a sentence, then how it was computed and how large the errors are.

The base class of methods, and protocols of the parts of an evaluation that some methods provide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from jmdp.base.interval import Estimate, Interval
from jmdp.base.rounding import at_most, confidence_percent
from jmdp.results.certificate import Certificate
from jmdp.results.gaps.distribution import Distribution, GapDistribution
from jmdp.results.gaps.gap import sentence

if TYPE_CHECKING:
    from jmdp.results.evaluation import Evaluation


class MethodSettings:
    """Base class of methods, for results: settings, and the names of steps and residuals."""

    step_name: str = "sweep"  # unit of `Evaluation.residuals`, which has one number per step
    residual_name: str = "residual"


class CrossCovariances(Protocol):
    """Covariances between returns of different states, computed on request."""

    def cross_covariance(self, s: int, a: int, t: int, b: int) -> float:
        """Cov(Z(s, a), Z(t, b))."""


@runtime_checkable
class CertifiedCrossCovariances(CrossCovariances, Protocol):
    """Covariances between returns of different states, with error bounds."""

    def cross_covariance_error(self, s: int, a: int, t: int, b: int) -> float:
        """Bound on the error of `cross_covariance`."""


class HigherMoments(Protocol):
    """Moments of any order up to `order`."""

    @property
    def order(self) -> int:
        """The highest available order."""

    def moment(self, coordinates: Sequence[tuple[int, int]]) -> Estimate:
        """E[Π Z(x)] over at most `order` coordinates; a repeated coordinate is a power."""

    def gap_moments(self, s: int, a: int, b: int) -> tuple[Estimate, ...]:
        """Central moments of Z(s, a) − Z(s, b), a ≠ b, of orders 0, 1, …, `order`."""


class Distributions(Protocol):
    """Distributions of returns and of gaps, computed on request."""

    def return_distribution(self, s: int, a: int) -> Distribution:
        """The distribution of Z(s, a)."""

    def gap_distribution(self, s: int, a: int, b: int) -> GapDistribution:
        """The distribution of Z(s, a) − Z(s, b), a ≠ b."""

    def refined(self, gaps: Sequence[tuple[int, int, int]], tolerance: float) -> Distributions:
        """Distributions of these gaps (s, a, b), to another tolerance."""


class Ranges(Protocol):
    """Ranges of gaps."""

    def of_gap(self, s: int, a: int, b: int) -> Interval:
        """Interval that contains Z(s, a) − Z(s, b)."""


@dataclass(frozen=True)
class VarianceSplit:
    """Var G = E[Var(G | start)] + Var(E[G | start]): within starts and between them."""

    within: float
    between: float


class StartSplit(Protocol):
    """Variance split of a random start state."""

    def split(self, i: int, j: int) -> VarianceSplit:
        """Variance split of the gap between alternatives i and j."""


def evaluation_text(e: Evaluation) -> str:
    """The sentence, the settings and the errors of an evaluation."""
    lines = [
        *_best_from_start(e),
        f"Means and covariances of the returns of {e.mean.shape[1]} {e.actions.plural} in {e.mean.shape[0]} states, "
        f"{_trust(e.certificate)}",
        f"  ended        {e.outcome.name}: {e.outcome.value}",
        f"  coupling     {e.coupling}",
        f"  method       {e.method}",
        *([] if e.coupled_by is None else [f"  model        outcomes of actions coupled by {e.coupled_by}"]),
    ]
    if e.residuals.size:
        name, what = f"{e.method.step_name}s", e.method.residual_name
        lines.append(f"  {name:<12} {e.residuals.size}, last {what} {e.residuals[-1]:.3g}")
    if e.certificate is not None:
        c = e.certificate
        for name, values, errors in (
            ("means", e.mean, c.mean_error),
            ("covariances", e.covariance, c.covariance_error),
        ):
            error = (
                "no error bound" if np.isinf(errors).all() else f"each ± {at_most(float(np.max(errors)), 2)} or less"
            )
            lines.append(f"  {name:<12} up to {at_most(float(np.abs(values).max()))}, {error}")
        if c.assumption is not None:
            lines.append(f"  assumption   {c.assumption}")
    if e.projection is not None:
        known, pairs = e.projection.guaranteed_pairs
        lines.append(f"  projection   κ {e.projection.kappa:.3g}, guaranteed for {known} of {pairs} gaps")
    return "\n".join(lines)


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
        return "estimates without error bounds"
    if certificate.confidence is None:
        return certificate.kind
    return (
        f"each at {confidence_percent(certificate.confidence)} confidence"
        + " (large-sample)" * certificate.large_sample
    )
