"""Error bounds of a projected fit: its Bellman residual over 1 − κ, in the weighted norm and in the largest entry.

If w P₂ ≤ c w the step of pairs contracts with γ²√c in ‖·‖_w, and with γ² in the maximum over pairs with positive
weight, because these lead only to such pairs. So the error of a fitted k with respect to the true C is at most

    ‖k − C‖ ≤ ( ‖k − T̂ k‖ + ‖T̂ k − T k‖ ) / (1 − κ),          |k − C|(x, y) ≤ ‖k − C‖_w / √w(x, y),

T̂ the Bellman operator with the fitted means, T with the true ones. The effect of an error e of the means is derived
in docs/projection.md. The second bound is Eq. (79). In place of the first, the paper bounds ‖M̂ − M‖ by the distance
of M from its projection (Theorem B.4, Eq. (78)), which is unknown.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Floats, Scale, largest
from jmdp.methods.linear_projected.pair_features import AT_ONCE, FittedMoments, PairFeatures, Source
from jmdp.methods.linear_projected.pair_steps import PairWeights
from jmdp.methods.shared.pair_operator import row_error_units
from jmdp.methods.shared.return_range import RewardUnits
from jmdp.models.tabular import TabularJMDP
from jmdp.results.certificate import Certificate
from jmdp.results.parts import PairBounds

_UP = 1 + 1e-9
"""Upper bound on the relative rounding error of a norm."""


@dataclass(frozen=True, eq=False)
class Bounds(arrays.FrozenArrays, PairBounds):
    """Contraction factors, and bounds in the units of the rewards; None or infinite if unavailable."""

    kappa: float
    contraction: float
    mean_contraction: float
    beta: float | None
    mean_norm: float | None  # ‖μ̂ − μ‖_ν
    norm: float | None  # ‖k − C‖_w
    largest: float  # |k − C| of any pair with positive weight
    slip: float  # rounding of an entry
    mean_error: Floats  # [S, A]
    mean_size: Floats | None  # [S, A], |μ̂| where the second moment was fitted
    weights: PairWeights | None

    @classmethod
    def none(cls, states: int, actions: int, alpha: float, discount: float) -> Bounds:
        """Bounds of a fit from samples: the contraction that restarting guarantees, without error bounds."""
        unknown = np.full((states, actions), np.inf)
        c = 1 / alpha
        return cls(discount**2 * math.sqrt(c), c, c, None, None, None, np.inf, 0.0, unknown, None, None)

    def weight(self, s: int, a: int, t: int, b: int) -> float:
        """w((s, a), (t, b))."""
        return math.nan if self.weights is None else self.weights.weight(s, a, t, b)

    def error_bound(self, s: int, a: int, t: int, b: int) -> float:
        """Bound on the error of Cov(Z(s, a), Z(t, b))."""
        weights = np.array([[self.weight(s, a, t, b)]])
        size = None if self.mean_size is None else (self.mean_size[[s], [a]], self.mean_size[[t], [b]])
        return float(self._errors(weights, self.mean_error[[s], [a]], self.mean_error[[t], [b]], size)[0, 0])

    def _errors(self, weights: Floats, one: Floats, other: Floats, size: tuple[Floats, Floats] | None) -> Floats:
        """[.., a, b], from weights of pairs and errors of means [.., a], [.., b]."""
        if self.norm is None:
            return np.full(weights.shape, np.inf)
        root = np.sqrt(weights)
        with np.errstate(over="ignore"):  # an infinite bound is valid
            spread = np.divide(self.norm, root, out=np.full(weights.shape, np.inf), where=root > 0)
        found = np.where(root > 0, np.minimum(spread, self.largest), np.inf) + self.slip
        if size is not None:  # includes the error of the subtracted μ̂ μ̃̂
            with np.errstate(invalid="ignore", over="ignore"):
                x, y = one[..., :, None], other[..., None, :]
                found = found + (size[0][..., :, None] + x) * y + x * size[1][..., None, :]
                found += np.where((x > 0) | (y > 0), 2.0**-1072, 0.0)  # the products may underflow
            found = np.where(np.isnan(found), np.inf, found)
        with np.errstate(over="ignore"):
            return np.asarray(found * _UP)

    def within_states(self) -> Floats:
        """Bounds on the errors of covariances within states [S, A, A]."""
        if self.weights is None:
            return np.full((*self.mean_error.shape, self.mean_error.shape[1]), np.inf)
        size = None if self.mean_size is None else (self.mean_size, self.mean_size)
        return self._errors(self.weights.same, self.mean_error, self.mean_error, size)

    def certificate(self, model: TabularJMDP) -> Certificate | None:
        """Bounds for each mean and each covariance within a state, and for gaps."""
        if self.norm is None or self.weights is None:
            return None
        errors = self.within_states()
        errors[model.terminal] = 0.0
        own = np.einsum("saa->sa", errors)
        e = self.mean_error
        with np.errstate(over="ignore"):
            gap_errors = (own[:, :, None] + own[:, None, :] + 2 * errors) * _UP
        return Certificate(
            kind="certified",
            mean_error=e.copy(),
            covariance_error=errors,
            gap_mean_error=e[:, :, None] + e[:, None, :],
            gap_variance_error=gap_errors,
            discount=model.discount,
            reward_bound=model.reward_bound,
        )


def fitted_bounds(pairs: PairFeatures, fit: FittedMoments, source: Source, rewards: RewardUnits) -> Bounds:
    """Bounds for a fit on rewards of size 1."""
    reward, bound, scale = rewards.reward, rewards.bound, rewards.scale
    model, weights, gamma = pairs.model, pairs.weights, pairs.model.discount
    mean = fit.mean
    root, root_1 = math.sqrt(weights.contraction), math.sqrt(weights.mean_contraction)
    kappa, kappa_1 = gamma**2 * root * _UP, gamma * root_1 * _UP
    units = _units(pairs)
    mean_norm, mean_error = _mean_bounds(pairs, mean, reward, bound, kappa_1, units)
    seen = (weights.mean > 0) & ~model.terminal[:, None]
    mean_largest = float(mean_error[seen].max(initial=0.0))

    # ‖T̂ k − T k‖, due to the error e of the means.
    if fit.target == "second_moment":
        from_mean, from_mean_largest = 2 * bound * kappa_1 * mean_norm, 2 * bound * gamma * mean_largest
    else:
        steps = np.concatenate([np.einsum("saa->sa", pairs.same_state_source(s, source)) for s in pairs.blocks(64)])
        spread = math.sqrt(max(0.0, float(steps[seen].max(initial=0.0)))) * _UP  # upper bound on that of a TD error
        slip_norm, slip_largest = (1 + kappa_1) * mean_norm, (1 + gamma) * mean_largest
        from_mean = (2 * spread + slip_largest) * slip_norm
        from_mean_largest = (2 * spread + slip_largest) * slip_largest

    total = mass = most = 0.0
    for weight, residual in pairs.residuals(fit.kernel, fit.kernel_2, source):
        total += float((weight * residual**2).sum())
        mass += float(weight.sum())
        most = max(most, float(np.abs(residual[weight > 0]).max(initial=0.0)))
    slip = units * ROUNDOFF * _size(pairs, fit, source) + (UNDERFLOW if bound else 0.0)
    norm = (math.sqrt(total) * _UP + slip * math.sqrt(mass) * _UP + from_mean) * _UP
    norm = norm / (1 - kappa) if kappa < 1 else math.inf
    top = (most + slip + from_mean_largest) * _UP / ((1 - gamma) * (1 + gamma))
    top = top if math.isfinite(weights.contraction) else math.inf
    beta = sizes = None
    if fit.target == "second_moment":
        kappa, beta = _joint_contraction(kappa, kappa_1, bound, scale)
        sizes = scale.restore(np.abs(mean))
    return Bounds(
        kappa,
        weights.contraction,
        weights.mean_contraction,
        beta,
        scale.restore_error(mean_norm),
        scale.restore_error(norm, 2),
        scale.restore_error(top, 2),
        scale.restore_error(slip, 2),
        np.where(model.terminal[:, None], 0.0, scale.restore_error(mean_error)),
        sizes,
        weights,
    )


def _joint_contraction(kappa: float, kappa_1: float, bound: float, scale: Scale) -> tuple[float, float]:
    """κ of means and second moments together, and the weight β of second moments in their norm (Eq. (77)).

    κ = max(κ₁, 2 β B κ₁ + γ²√c), which is Eq. (85) for B = c = 1: the largest β that leaves κ unchanged or, if κ₁ is
    smaller, increases it little. Eq. (86) would permit a larger β.
    """
    spare = kappa_1 - kappa if kappa_1 > kappa else (1 - kappa) / 16
    beta = spare / (2 * bound * kappa_1) if bound * kappa_1 > 0 else 1.0
    kappa = max(kappa_1, kappa + (spare if bound * kappa_1 > 0 else 0.0))
    # Means grow with rewards, second moments with their squares. A smaller β is also valid if it overflows.
    return kappa, min(scale.divide(beta), sys.float_info.max)


def _mean_bounds(
    pairs: PairFeatures, mean: Floats, reward: Floats, bound: float, kappa: float, units: float
) -> tuple[float, Floats]:
    """‖e‖_ν ≤ ‖μ̂ − T μ̂‖_ν/(1 − κ₁), and |e(x)| [S, A]: that over √ν(x), or the largest residual over 1 − γ."""
    model, nu = pairs.model, pairs.weights.mean
    ahead = (pairs.policy.probs * mean).sum(axis=1)[model.next_state]
    residual = mean - np.einsum("sk,ska->sa", pairs.prob, reward + model.discount * ahead)
    slip = units * ROUNDOFF * (bound + 2 * largest(mean)) + (UNDERFLOW if bound else 0.0)
    norm = (math.sqrt(float((nu * residual**2).sum())) + slip * math.sqrt(float(nu.sum()))) * _UP
    norm = norm / (1 - kappa) if kappa < 1 else math.inf
    top = (float(np.abs(residual[nu > 0]).max(initial=0.0)) + slip) / (1 - model.discount) * _UP
    if not math.isfinite(pairs.weights.mean_contraction):
        top = math.inf
    error = np.full(mean.shape, np.inf)
    error[nu > 0] = np.minimum(norm / np.sqrt(nu[nu > 0]), top) * _UP
    return norm, error


def _units(pairs: PairFeatures) -> float:
    """Upper bound on the rounding error of an entry of a residual, in units of rounding of any of its terms.

    Features of a next pair average at most K A outcomes for each branch, with rows of probabilities that sum to 1 up to
    rounding. A kernel sums d² + e² terms in two products; shared randomness is summed over its values, gains over K
    scenarios.
    """
    _, K, A = pairs.model.shape
    d, e = pairs.sizes
    over = row_error_units(pairs.model, pairs.policy)
    values = len(pairs.weights.luck.scenarios) * len(pairs.weights.luck.choices)
    sums = 2 * d + 2 * e + d * (d + 1) / 2 + e * (e + 1) / 2 + 2 * K * A + K * A * A + values + 64
    return float(4 * (sums + 2 * over))


def _size(pairs: PairFeatures, fit: FittedMoments, source: Source) -> float:
    """Largest sum of absolute terms in a residual, to which rounding errors are relative."""
    S, A, d = pairs.phi.shape
    phi, size, own = np.abs(pairs.phi.reshape(S * A, d)), 0.0, 0.0
    at_once = max(1, AT_ONCE // (S * A))
    for first in range(0, S * A, at_once):
        rows = slice(first, first + at_once)
        size = max(size, float(((phi[rows] @ np.abs(fit.kernel)) @ phi.T).max(initial=0.0)))
    for states in pairs.blocks(A * A):
        psi = np.abs(pairs.psi[states])
        own = max(own, float(((psi @ np.abs(fit.kernel_2)) @ psi.transpose(0, 2, 1)).max(initial=0.0)))
    gains: float = sum((largest(gain) + largest(ahead)) ** 2 for _, gain, ahead in source.parts)
    return float(2 * (size + own) + gains)
