"""LinearProjected: moments fitted in linear features, with error bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Floats, Scale
from jmdp.base.machine import budget, require
from jmdp.base.settings import choice, nonnegative, short, whole
from jmdp.errors import SettingsError
from jmdp.methods.linear_projected.bounds import Bounds, fitted_bounds
from jmdp.methods.linear_projected.features import Features, OneHot, matrix_of
from jmdp.methods.linear_projected.pair_features import (
    FeatureBasis,
    FittedMoments,
    PairFeatures,
    PairTransitions,
    SampledEquations,
    sampled_equations,
    source_of,
)
from jmdp.methods.linear_projected.pair_steps import PairWeights, Restart, SharedLuck, Stationary, pair_weights
from jmdp.methods.linear_projected.psd_fit import Cone, Fit, fit
from jmdp.methods.method import COVERS, Method
from jmdp.methods.shared.return_range import ReturnRange, RewardUnits
from jmdp.models.coupling import Coupling
from jmdp.models.outcomes import one_step
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.certificate import Outcome
from jmdp.results.evaluation import Evaluation
from jmdp.results.parts import Projection

AnyFeatures = Features | Callable[[int, int], npt.ArrayLike] | npt.ArrayLike

_SMALL = 256
"""Maximum number of coordinates at which parameters not determined by weighted pairs are filled in."""


@dataclass(frozen=True, repr=False)
class LinearProjected(Method[Evaluation]):
    """Projected JIPE-2 (paper, Section B): moments in the span of features.

    Means are φ(x)ᵀ θ (Eq. (63)) and covariances φ(x)ᵀ Θ φ(y) + 1{s = t} ψ(x)ᵀ Λ ψ(y) (the first term is Eq. (64)), Θ
    and Λ positive semidefinite: the fixed point of M ← Π T M (Eq. (71), Eq. (72)), with Π the least-squares projection
    (Eq. (69), Eq. (70)) under weights of pairs (`Restart`, `Stationary`). From a table it is computed by matrix
    products over states: sums over S²A² pairs in time S² d² + S A² K d⁴ + d⁶.

    Deviates from the paper in four ways. By default, weights restart, because a stationary distribution of pairs gives
    no weight to gaps. By default, the covariance is fitted instead of the second moment: its cone is a stronger
    constraint, and no squares are subtracted. Pairs in one state may have a separate kernel, because a smooth φ alone
    cannot represent large variances in two neighbouring states and a small covariance between them. The error of the
    fit is bounded: the certificate bounds each error from the Bellman residual of every pair of the table, rounding
    included (docs/projection.md), where Theorem B.4 uses the unknown distance of the moments from their projection.

    Parameters
    ----------
    features
        φ: `features.OneHot()`, another class of `features`, an array [S·A, d] or [S, A, d], or a function of (s, a).
    same_state
        ψ: features of the kernel for pairs in one state. True uses φ, None omits this kernel.
    weights
        `Restart()` or `Stationary()`.
    target
        "covariance", or "second_moment" as in the paper.
    samples
        None fits from the table. A number fits from this many sampled transitions of pairs, by least squares on
        temporal differences, without a certificate.
    seed
        Seed of the samples.
    tolerance
        Where the cone constraint is active, the projected equation is solved by splitting, which stops when its two
        half-steps differ by at most this, relative. The certificate is valid wherever it stops.
    max_sweeps
        Maximum number of steps of the splitting.
    memory_budget
        Maximum memory in bytes; by default 80% of the free memory.
    """

    covers = COVERS["LinearProjected(features)"]

    features: AnyFeatures
    same_state: AnyFeatures | Literal[True] | None = None
    weights: Restart | Stationary = Restart()
    target: Literal["covariance", "second_moment"] = "covariance"
    samples: int | None = None
    seed: int | None = None
    tolerance: float = 1e-10
    max_sweeps: int = 10_000
    memory_budget: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", _as_setting("features", self.features))
        if self.same_state is not None and self.same_state is not True:
            object.__setattr__(self, "same_state", _as_setting("same_state", self.same_state))
        if not isinstance(self.weights, Restart | Stationary):
            raise SettingsError(f"weights is {short(self.weights)}. Give Restart() or Stationary().")
        object.__setattr__(self, "target", choice("target", self.target, ("covariance", "second_moment")))
        whole(self, "samples", 2, optional=True)
        whole(self, "seed", 0, optional=True)
        if (self.samples is None) != (self.seed is None):
            raise SettingsError(f"samples is {self.samples} and seed {self.seed}. Give both, or neither for the table.")
        if self.samples is not None and isinstance(self.weights, Stationary):
            raise SettingsError("samples does not work with Stationary(). Use weights=Restart(), or samples=None.")
        nonnegative(self, "tolerance")
        whole(self, "max_sweeps", 1)
        whole(self, "memory_budget", 1, optional=True)

    def __repr__(self) -> str:
        """Settings that differ from the default; features by their name in jmdp."""
        said = [_said(self.features)]
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if value != field.default:
                said.append(f"{field.name}={_said(value)}")
        return f"LinearProjected({', '.join(said)})"

    def on_table(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, progress: bool) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        SharedLuck.of(model, policy, coupling)  # raises for couplings that this method does not support
        S, _, A = model.shape
        if model.terminal.all():
            raise SettingsError("Every state is terminal: all returns are 0 and cannot be fitted. Use ExactPairs().")
        second = self.features if self.same_state is True else self.same_state
        self._require(model, _width(self.features, model), _width(second, model))
        phi = matrix_of(self.features, model)
        own = np.zeros((S * A, 0)) if second is None else matrix_of(second, model, "same_state")
        self._require(model, phi.shape[1], own.shape[1])
        rewards = RewardUnits.of(model)
        if self.samples is not None and self.seed is not None and isinstance(self.weights, Restart):
            transitions = PairTransitions(model, policy, coupling, self.weights, self.samples, self.seed)
            return self._sampled(transitions, sampled_equations(transitions, phi, own, self.target), rewards.scale)
        weights = pair_weights(self.weights, model, policy, coupling)
        basis = FeatureBasis.of(phi, own, weights.mean)
        theta = _mean_parameters(model, policy, weights, basis.phi, rewards.reward)
        mean = (basis.phi @ theta).reshape(S, A)
        pairs = PairFeatures(model, policy, weights, basis.phi.reshape(S, A, -1), basis.psi.reshape(S, A, -1))
        source = source_of(self.target, model, rewards.reward, mean)
        G, H, b = pairs.equations(source)
        cone = Cone(pairs.sizes)

        def elsewhere() -> tuple[Floats, Floats]:
            every = PairFeatures(model, policy, weights.everywhere(model), pairs.phi, pairs.psi)
            G, H, b = every.equations(source)
            return G - model.discount**2 * H, b

        M, fill = G - model.discount**2 * H, elsewhere if S * A <= _SMALL else None
        found = fit(G, M, b, cone, self.tolerance, self.max_sweeps, fill)
        kernel, kernel_2 = cone.blocks(found.parameters)
        table = FittedMoments(basis, theta, kernel, kernel_2, mean, self.target, rewards.scale)
        bounds = fitted_bounds(pairs, table, source, rewards)
        return self._evaluation(model, policy, coupling, table, found, bounds)

    def _sampled(self, transitions: PairTransitions, drawn: SampledEquations, scale: Scale) -> Evaluation:
        """Fit from sampled equations."""
        model = transitions.model
        S, _, A = model.shape
        cone = Cone([f.shape[1] for f in (drawn.basis.phi, drawn.basis.psi)])
        M = drawn.G - model.discount**2 * drawn.H
        found = fit(drawn.G, M, drawn.b, cone, self.tolerance, self.max_sweeps)
        kernel, kernel_2 = cone.blocks(found.parameters)
        table = FittedMoments(drawn.basis, drawn.theta, kernel, kernel_2, drawn.mean, self.target, scale)
        if not drawn.complete:
            found = replace(found, outcome=Outcome.INTERRUPTED)
        elif found.outcome is Outcome.CONVERGED:
            found = replace(found, outcome=Outcome.SAMPLED)
        bounds = Bounds.none(S, A, transitions.restart.alpha(model.discount), model.discount)
        return self._evaluation(model, transitions.policy, transitions.coupling, table, found, bounds)

    def _evaluation(
        self,
        model: TabularJMDP,
        policy: TabularPolicy,
        coupling: Coupling,
        table: FittedMoments,
        found: Fit,
        bounds: Bounds,
    ) -> Evaluation:
        scale, to_phi, to_psi = table.scale, table.basis.to_phi, table.basis.to_psi
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # in the features' own units
            mean_parameters = scale.restore(to_phi @ table.theta)
            kernel, kernel_2 = (
                scale.restore(to @ k @ to.T, 2) for to, k in ((to_phi, table.kernel), (to_psi, table.kernel_2))
            )
        projection = Projection(
            to_phi.shape[0] + (to_psi.shape[0] if self.same_state is not True else 0),
            bounds.kappa,
            bounds.contraction,
            bounds.mean_contraction,
            bounds.beta,
            bounds.mean_norm,
            bounds.norm,
            None if bounds.weights is None else bounds.weights.same,
            mean_parameters,
            kernel,
            None if self.same_state is None else kernel_2,
            found.constrained,
            bounds,
            model.terminal.copy(),
            model.states,
            model.actions,
        )
        return Evaluation(
            mean=scale.restore(table.mean),
            covariance=scale.restore(table.same_state(), 2),
            certificate=bounds.certificate(model),
            outcome=found.outcome,
            coupling=coupling,
            method=self,
            states=model.states,
            actions=model.actions,
            residuals=found.residuals,
            cross=table,
            ranges=ReturnRange(model, policy),
            projection=projection,
        )

    def _require(self, model: TabularJMDP, d: int, e: int) -> None:
        S, K, A = model.shape
        n = (d * (d + 1) + e * (e + 1)) // 2
        numbers = 6.0 * n * n + 3.0 * d**4 + 4.0 * S * (d * d + e * e) + 6 * A * (d + e) * S + 24e6
        if self.samples is None:
            numbers += 6.0 * S * S + S * K * A * A * (6 if A > 1 else 3)
        fix = "Use fewer features, or ExactPairs(), which stores S² numbers"
        require(8 * numbers, budget(self.memory_budget), f"LinearProjected with {d} + {e} features", fix)


@dataclass(frozen=True, eq=False)
class GivenFeatures(arrays.FrozenArrays):
    """Features given as an array, compared by value."""

    array: Floats

    def matrix(self, model: TabularJMDP) -> Floats:
        """The array as a matrix."""
        return matrix_of(self.array, model)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GivenFeatures) and np.array_equal(self.array, other.array)

    def __hash__(self) -> int:
        return hash((self.array.shape, self.array.tobytes()))

    def __repr__(self) -> str:
        return f"<array {list(self.array.shape)}>"


def _as_setting(name: str, features: Any) -> Any:
    """Features as a setting: arrays are copied and frozen, everything else is kept."""
    if callable(getattr(features, "matrix", None)) or callable(features):
        return features
    axes = arrays.dimensions(features)
    if axes == 0:
        raise SettingsError(f"{name} is {short(features)}. Give features, e.g. features.OneHot() or an array [S·A, d].")
    array = arrays.floats(name, features, "[S, A, d]" if axes == 3 else "[S·A, d]", SettingsError)
    arrays.frozen(array)
    return GivenFeatures(array)


def _width(features: Any, model: TabularJMDP) -> int:
    """Number of columns if known before the matrix is built; else 0."""
    if isinstance(features, GivenFeatures):
        return int(features.array.shape[-1])
    return features.width(model) if isinstance(features, OneHot) else 0


def _said(value: object) -> str:
    module = "features." if type(value).__module__ == Features.__module__ else ""
    return f"{module}{value!r}"


def _mean_parameters(
    model: TabularJMDP, policy: TabularPolicy, weights: PairWeights, basis: Floats, reward: Floats
) -> Floats:
    """Solution θ of Φᵀ D_ν (Φ − γ P_π Φ) θ = Φᵀ D_ν r: the fixed point of Eq. (73)."""
    S, _, A = model.shape
    prob = model.prob * ~model.terminal[:, None]
    ahead = one_step(prob, model.next_state) @ np.einsum("sa,sad->sd", policy.probs, basis.reshape(S, A, -1))
    left = basis.T * weights.mean.ravel()
    gained = np.einsum("sk,ska->sa", prob, reward).ravel()
    matrix, right = left @ (basis - model.discount * ahead), left @ gained
    theta = np.linalg.solve(matrix, right)
    return np.asarray(theta + np.linalg.solve(matrix, right - matrix @ theta))
