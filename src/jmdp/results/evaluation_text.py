"""An evaluation as text: a sentence, then how it was computed and how large the errors are."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.labels import Label, Labels
from jmdp.base.rounding import at_most, confidence_percent
from jmdp.models.coupling import Coupling
from jmdp.results.certificate import Certificate
from jmdp.results.gaps.gap import Gap
from jmdp.results.gaps.gap_text import sentence
from jmdp.results.outcome import Outcome
from jmdp.results.parts import MethodSettings, StartSplit
from jmdp.results.projection import Projection


class _Evaluation(Protocol):
    """The part of an `Evaluation` that its text reads; `Evaluation` imports this module."""

    @property
    def mean(self) -> Floats: ...
    @property
    def covariance(self) -> Floats: ...
    @property
    def residuals(self) -> Floats: ...
    @property
    def certificate(self) -> Certificate | None: ...
    @property
    def outcome(self) -> Outcome: ...
    @property
    def coupling(self) -> Coupling: ...
    @property
    def coupled_by(self) -> str | None: ...
    @property
    def method(self) -> MethodSettings: ...
    @property
    def states(self) -> Labels: ...
    @property
    def actions(self) -> Labels: ...
    @property
    def projection(self) -> Projection | None: ...
    @property
    def start(self) -> StartSplit | None: ...
    def gap(self, s: Label, a: Label, b: Label) -> Gap: ...


def evaluation_text(e: _Evaluation) -> str:
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


def origin(e: _Evaluation) -> str:
    """Where the numbers come from: samples and seed if there are any, and how large the errors may be."""
    seed, trust = getattr(e.method, "seed", None), _trust(e.certificate)
    if seed is None:
        return f"computed by {type(e.method).__name__}, without sampling: {trust}"
    of = {"samples": "rollouts of each state", "updates": "updates"}
    counts = [f"n = {getattr(e.method, name):,} {unit}, " for name, unit in of.items() if hasattr(e.method, name)]
    return f"{''.join(counts[:1])}seed {seed}: {trust}"


def _best_from_start(e: _Evaluation) -> list[str]:
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
