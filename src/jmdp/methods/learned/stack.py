"""Weighted averages of candidates, with weights from predictions of states that were not used to fit them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Floats
from jmdp.methods.learned.candidates import (
    BoostedLogs,
    Candidate,
    Constant,
    Forest,
    Linear,
    LinearLogs,
    Moments,
    Neighbours,
    Scaled,
    Table,
)

_FOLDS = 5
"""Folds are of consecutive states."""

_FLOOR = 1e-2
"""Share of the average that predicted and simulated variances are increased by in the score."""

_LEAST = 0.02
"""Candidates with a smaller weight are left out."""

_PENALTY = 0.02
"""Penalty of unequal weights, which vanishes with the number of states."""

_WAVES = 150

Fit = Callable[[Floats, Floats, int], Candidate]

MEANS: Mapping[str, Fit] = {
    "constant": Constant.fit,
    "table": Table.fit,
    "10 neighbours": partial(Neighbours.fit, count=10),
    "forest, leaves of 3": partial(Forest.fit, leaf=3),
    "forest, leaves of 10": partial(Forest.fit, leaf=10),
    "linear regression": Linear.fit,
    "linear regression on waves": partial(Linear.fit, waves=_WAVES),
}
COVARIANCES: Mapping[str, Fit] = {
    "constant": Constant.fit,
    "table": Table.fit,
    "10 neighbours": partial(Neighbours.fit, count=10),
    "40 neighbours": partial(Neighbours.fit, count=40),
    "forest, leaves of 5": partial(Forest.fit, leaf=5),
    "forest, leaves of 20": partial(Forest.fit, leaf=20),
    "gamma regression": partial(Scaled.fit, regression=LinearLogs.fit),
    "gamma regression on waves": partial(Scaled.fit, regression=partial(LinearLogs.fit, waves=_WAVES)),
    "boosted trees": partial(Scaled.fit, regression=BoostedLogs.fit, most=0),
}


@dataclass(frozen=True, eq=False)
class MeanStack(arrays.FrozenArrays):
    """Regression of mean returns: candidates with their weights."""

    names: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    levels: Floats  # [candidates], weights for the average of all actions
    weights: Floats  # [candidates], weights for the deviations from it

    @classmethod
    def fit(cls, inputs: Floats, returns: Floats) -> MeanStack:
        """Fit to returns [N, n, A]."""
        rows = returns.mean(axis=1)
        predicted = _out_of_fold(MEANS, inputs, rows, returns.shape[1])
        levels = _least_squares(predicted.mean(axis=2, keepdims=True), rows.mean(axis=1, keepdims=True))
        weights = _least_squares(_deviations(predicted), _deviations(rows))
        used = (levels > 0) | (weights > 0)
        names, found = _fitted(MEANS, used, inputs, rows, returns.shape[1])
        return cls(names, found, levels[used], weights[used])

    def __call__(self, inputs: Floats) -> Floats:
        """Mean returns [n, A]."""
        found: Floats = np.zeros((len(inputs), 1))
        for one, weight, level in zip(self.candidates, self.weights, self.levels, strict=True):
            rows = one.rows(inputs)
            average = rows.mean(axis=1, keepdims=True)
            found = np.asarray(found + weight * (rows - average) + level * average)
        return found


@dataclass(frozen=True, eq=False)
class CovarianceStack(arrays.FrozenArrays):
    """Regression of covariance matrices: candidates with their weights, and a factor."""

    names: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    weights: Floats  # [candidates]
    factor: float

    @classmethod
    def fit(cls, inputs: Floats, returns: Floats) -> CovarianceStack:
        """Fit to returns [N, n, A]."""
        rows = covariance_rows(returns)
        predicted = _out_of_fold(COVARIANCES, inputs, rows, returns.shape[1])
        pairs = len(Moments(returns.shape[2]).pairs[0])
        seen, predicted = rows[:, :pairs], predicted[:, :, :pairs]
        unit = seen.mean(axis=0)
        seen, predicted = seen[:, unit > 0] / unit[unit > 0], predicted[:, :, unit > 0] / unit[unit > 0]
        weights = _best_score(predicted, seen)
        factor = _factor(np.tensordot(weights, predicted, 1), seen)
        names, found = _fitted(COVARIANCES, weights > 0, inputs, rows, returns.shape[1])
        return cls(names, found, weights[weights > 0], factor)

    @classmethod
    def constant(cls, returns: Floats) -> CovarianceStack:
        """One covariance matrix for all states, the average."""
        found = Constant.fit(np.zeros((len(returns), 1)), covariance_rows(returns), returns.shape[1])
        return cls(("constant",), (found,), np.ones(1), 1.0)

    def __call__(self, inputs: Floats) -> Floats:
        """Rows of `Moments` [n, pairs + A]."""
        parts = (weight * one.rows(inputs) for one, weight in zip(self.candidates, self.weights, strict=True))
        return np.asarray(self.factor * sum(parts))


def _fitted(
    kinds: Mapping[str, Fit], used: Booleans, inputs: Floats, rows: Floats, rollouts: int
) -> tuple[tuple[str, ...], tuple[Candidate, ...]]:
    """Names and fits to all states of the candidates that are used."""
    names = tuple(name for name, use in zip(kinds, used, strict=True) if use)
    return names, tuple(kinds[name](inputs, rows, rollouts) for name in names)


def covariance_rows(returns: Floats) -> Floats:
    """Rows of `Moments` of the sample covariances of returns [N, n, A]."""
    deviations = returns - returns.mean(axis=1, keepdims=True)
    covariance = np.einsum("nia,nib->nab", deviations, deviations) / (returns.shape[1] - 1)
    return Moments(returns.shape[2]).rows(covariance)


def variation(returns: Floats) -> float:
    """Relative standard deviation, over the states, of the variances of gaps: 0 if noise explains all differences.

    The variances from two halves of the rollouts are independent estimates of that of a state, so their covariance over
    states is the variance of the true ones.
    """
    n = returns.shape[1]
    total = []
    for chosen in combinations(range(1, n), n // 2 - 1):
        half = np.isin(np.arange(n), (0, *chosen))
        one, other = (covariance_rows(returns[:, part]) for part in (half, ~half))
        total.append(((one - one.mean(axis=0)) * (other - other.mean(axis=0))).sum(axis=0) / (len(returns) - 1))
    pairs = len(Moments(returns.shape[2]).pairs[0])
    average = covariance_rows(returns).mean(axis=0)[:pairs]
    if not (average > 0).any():
        return 0.0
    square = float((np.mean(total, axis=0)[:pairs][average > 0] / average[average > 0] ** 2).mean())
    return float(np.sqrt(max(square, 0.0)))


def _out_of_fold(kinds: Mapping[str, Fit], inputs: Floats, rows: Floats, rollouts: int) -> Floats:
    """Predictions [candidates, N, m] of candidates that were fitted to the other folds."""
    fold = _FOLDS * np.arange(len(rows)) // len(rows)
    found = np.empty((len(kinds), *rows.shape))
    for j, fit in enumerate(kinds.values()):
        for i in range(_FOLDS):
            other = fold != i
            found[j, ~other] = fit(inputs[other], rows[other], rollouts).rows(inputs[~other])
    return found


def _deviations(rows: Floats) -> Floats:
    return np.asarray(rows - rows.mean(axis=-1, keepdims=True))


def _least_squares(predicted: Floats, seen: Floats) -> Floats:
    """Weights [candidates] ≥ 0 with sum 1 of predictions [candidates, N, m] that minimise the squared error."""
    errors = (predicted - seen).reshape(len(predicted), -1)
    products = errors @ errors.T
    size = max(float(np.diagonal(products).min()), 1e-300)
    products /= size

    def loss(weights: Floats) -> tuple[float, Floats]:
        return float(weights @ products @ weights) / 2, products @ weights

    return _simplex(loss, len(predicted), 1 / len(seen))


def _best_score(predicted: Floats, seen: Floats) -> Floats:
    """Weights ≥ 0 with sum 1 that minimise the mean of ln k + s²/k, with k predicted and s² seen, averages near 1."""
    k, s = predicted.reshape(len(predicted), -1) + _FLOOR, seen.ravel() + _FLOOR

    def loss(weights: Floats) -> tuple[float, Floats]:
        both = weights @ k
        slope = (1 - s / both) / both
        return float((np.log(both) + s / both).mean()), k @ slope / slope.size

    return _simplex(loss, len(predicted), 1 / len(seen))


def _simplex(loss: Callable[[Floats], tuple[float, Floats]], count: int, penalty: float) -> Floats:
    """Weights ≥ 0 with sum 1 that minimise a loss, by a softmax."""
    from scipy.optimize import minimize

    def of_logits(z: Floats) -> tuple[float, Floats]:
        weights = np.exp(z - z.max())
        weights /= weights.sum()
        value, slope = loss(weights)
        centred = z - z.mean()
        value += _PENALTY * penalty * float(centred @ centred)
        return value, weights * (slope - weights @ slope) + 2 * _PENALTY * penalty * centred

    z = minimize(of_logits, np.zeros(count), jac=True, method="L-BFGS-B").x
    weights = np.exp(z - z.max())
    weights /= weights.sum()
    weights[weights < _LEAST] = 0.0
    return np.asarray(weights / weights.sum())


def _factor(predicted: Floats, seen: Floats) -> float:
    """Σ seen/Σ predicted, shrunk towards 1 by its standard error over states."""
    above, below = seen.sum(axis=1), predicted.sum(axis=1)
    factor = float(above.sum() / below.sum())
    rest = above - factor * below
    error = float(np.sqrt(rest @ rest)) / float(above.sum())
    if factor == 1 or error == 0:
        return factor
    return float(factor ** max(0.0, 1 - (error / np.log(factor)) ** 2))
