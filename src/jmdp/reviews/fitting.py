"""Value functions fitted to the returns of episodes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.models.actors.actor import numpy_of

_MOST_SQUARED = 40
"""Entries of an observation up to which squares and products are features too."""

_RECURS = 3.0
"""Average number of visits from which on observations have values of their own."""


@dataclass(frozen=True, eq=False)
class Averages:
    """Average return of each observation that was seen, and of all of them for others."""

    means: dict[Hashable, float]
    overall: float

    def __call__(self, observations: Sequence[Any]) -> Floats:
        """Values of these observations."""
        return np.array([self.means.get(key_of(one), self.overall) for one in observations])


@dataclass(frozen=True, eq=False)
class Ridge:
    """Ridge regression on standardised entries of observations and, if there are few, their squares and products."""

    centre: Floats
    scale: Floats
    weights: Floats
    overall: float
    low: float
    high: float  # values are cut to the range of the returns

    def __call__(self, observations: Sequence[Any]) -> Floats:
        """Values of these observations."""
        features = _features(_rows(observations), self.centre, self.scale)
        return np.clip(self.overall + features @ self.weights, self.low, self.high)


def key_of(observation: Any) -> Hashable:
    """Key by which equal observations are recognised."""
    if isinstance(observation, (int, str, tuple)):
        return observation
    array = numpy_of(observation)
    return array.item() if array.ndim == 0 else (array.shape, array.tobytes())


def fitted(observations: Sequence[Any], returns: Floats) -> Averages | Ridge:
    """Value function fitted to these returns, each from an observation on."""
    keys = [key_of(one) for one in observations]
    overall = float(returns.mean())
    numeric = all(isinstance(one, (int, float, np.ndarray, np.generic)) for one in observations[:1])
    if len(keys) >= _RECURS * len(set(keys)) or not numeric:
        return _averages(keys, returns, overall)
    return _ridge(observations, returns, overall)


def _averages(keys: Sequence[Hashable], returns: Floats, overall: float) -> Averages:
    sums: dict[Hashable, list[float]] = {}
    for key, earned in zip(keys, returns.tolist(), strict=True):
        total = sums.setdefault(key, [overall, 1.0])  # one visit with the average return, so that few visits count less
        total[0] += earned
        total[1] += 1
    return Averages({key: total / n for key, (total, n) in sums.items()}, overall)


def _ridge(observations: Sequence[Any], returns: Floats, overall: float) -> Ridge:
    """Regression whose penalty has the smallest error of generalised cross-validation."""
    rows = _rows(observations)
    centre, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    features = _features(rows, centre, scale)
    u, s, vt = np.linalg.svd(features, full_matrices=False)
    along, n = u.T @ (returns - overall), len(returns)
    best: tuple[float, Floats] = (np.inf, np.zeros(features.shape[1]))
    for penalty in n * 10.0 ** np.arange(-6.0, 3.0):
        kept = s**2 / (s**2 + penalty)
        residual = float(((returns - overall) ** 2).sum() - (along**2 * (2 * kept - kept**2)).sum())
        score = residual / max(1e-12, 1 - kept.sum() / n) ** 2
        if score < best[0]:
            best = score, vt.T @ (along * s / (s**2 + penalty))
    return Ridge(centre, scale, best[1], overall, float(returns.min()), float(returns.max()))


def _rows(observations: Sequence[Any]) -> Floats:
    return np.stack([numpy_of(one).astype(np.float64).ravel() for one in observations])


def _features(rows: Floats, centre: Floats, scale: Floats) -> Floats:
    z = np.clip((rows - centre) / scale, -10, 10)
    if z.shape[1] > _MOST_SQUARED:
        return np.asarray(z)
    i, j = np.triu_indices(z.shape[1])
    return np.hstack([z, z[:, i] * z[:, j]])
