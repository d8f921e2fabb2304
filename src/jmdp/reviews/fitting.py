"""Value functions fitted to the returns of episodes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.errors import PolicyError
from jmdp.models.actors.actor import numpy_of
from jmdp.simulators.digests import digest_of

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
        rows = _rows(observations)
        if rows is None or rows.shape[1] != len(self.centre):
            return np.full(len(observations), self.overall)
        features = _features(rows, self.centre, self.scale)
        return np.clip(self.overall + features @ self.weights, self.low, self.high)


def key_of(observation: Any) -> Hashable:
    """Key by which equal observations are recognised."""
    return observation if isinstance(observation, (int, str)) else digest_of(observation)


def fitted(observations: Sequence[Any], returns: Floats) -> Averages | Ridge:
    """Value function fitted to these returns, each from an observation on."""
    keys = [key_of(one) for one in observations]
    overall = float(returns.mean())
    if len(keys) >= _RECURS * len(set(keys)) or _rows(observations) is None:
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
    assert rows is not None
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


def _rows(observations: Sequence[Any]) -> Floats | None:
    """The numbers in each observation, [n, d]; None if they are no numbers, or differ in number."""
    try:
        rows = [
            np.concatenate([numpy_of(part).astype(np.float64).ravel() for part in _parts(one)]) for one in observations
        ]
        return np.stack(rows) if np.isfinite(rows[0]).all() else None
    except (ValueError, TypeError, PolicyError):
        return None


def _parts(observation: Any) -> list[Any]:
    """The arrays of an observation that is a dictionary or a tuple."""
    if isinstance(observation, Mapping):
        return [part for key in sorted(observation, key=str) for part in _parts(observation[key])]
    if isinstance(observation, (tuple, list)):
        return [part for one in observation for part in _parts(one)]
    return [observation]


def _features(rows: Floats, centre: Floats, scale: Floats) -> Floats:
    z = np.clip((rows - centre) / scale, -10, 10)
    if z.shape[1] > _MOST_SQUARED:
        return np.asarray(z)
    i, j = np.triu_indices(z.shape[1])
    return np.hstack([z, z[:, i] * z[:, j]])
