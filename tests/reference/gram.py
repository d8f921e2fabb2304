"""Kernels, TD targets and losses coordinate by coordinate in plain Python and float64: twins of `jmdp.neural`."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import numpy as np

_told: dict[tuple[int, bytes], Any] = {}
"""Each network and its outputs, asked for once. A network that is kept shares its id with no other."""


class Coordinate:
    """A state and an action with the features of one network, in double precision."""

    def __init__(self, network: Any, observation: Any, action: int) -> None:
        observation = np.asarray(observation)
        key = id(network), observation.tobytes()
        if key not in _told:
            _told[key] = network, _outputs(network, observation)
        features, means = _told[key][1]
        v, w, n = (np.asarray(part, np.float64) for part in features)
        self.v, self.w, self.n = v[action], w[action], float(n[action])
        self.mean = float(means[action])


@eqx.filter_jit
def _outputs(network: Any, observation: np.ndarray) -> Any:
    return network.features(observation), network.means(observation)


def kernel(x: Coordinate, y: Coordinate, same_state: bool, same_coordinate: bool) -> float:
    """⟨v, v⟩ + 1{same state}⟨w, w⟩ + 1{x = y} n, as it is written."""
    found = float(np.dot(x.v, y.v))
    if same_state:
        found += float(np.dot(x.w, y.w))
    return found + (x.n if same_coordinate else 0.0)


def block(x: Coordinate, y: Coordinate, same_state: bool, same_coordinate: bool) -> np.ndarray:
    """Var x, Var y, Cov, Var of the gap: the last from the other three."""
    first, second = (kernel(z, z, True, True) for z in (x, y))
    covariance = kernel(x, y, same_state, same_coordinate)
    return np.array([first, second, covariance, first + second - 2 * covariance])


def gram(network: Any, observations: Any, states: Any, actions: Any) -> np.ndarray:
    """[n, n], covariances of any coordinates; equal numbers of states are one state."""
    every = [Coordinate(network, o, int(a)) for o, a in zip(observations, actions, strict=True)]
    n = len(every)
    found = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            same = states[i] == states[j]
            found[i, j] = kernel(every[i], every[j], same, same and actions[i] == actions[j])
    return found


def targets(network: Any, batch: Any) -> tuple[np.ndarray, np.ndarray]:
    """Means [B, 2] and second moments [B, 4] that the network should have said, row by row."""
    B = len(batch.doubled)
    mean, moments = np.zeros((B, 2)), np.zeros((B, 4))
    now = [[Coordinate(network, batch.observation[i][b], int(batch.action[i][b])) for b in (0, 1)] for i in range(B)]
    end = [
        [Coordinate(network, batch.end_observation[i][b], int(batch.end_action[i][b])) for b in (0, 1)]
        for i in range(B)
    ]
    for i in range(B):
        for b in (0, 1):
            later = 0.0 if batch.ended[i][b] else end[i][b].mean
            mean[i, b] = float(batch.reward[i][b]) + float(batch.discount[i]) * later
    for i in range(B):
        if batch.doubled[i]:
            mate = i + 1 if i % 2 == 0 else i - 1
            one, other = mean[i] - mean[mate]
            share = 0.5
        else:
            one, other = (mean[i, b] - now[i][b].mean for b in (0, 1))
            share = 1.0
        drawn = share * np.array([one * one, other * other, one * other, (one - other) ** 2])
        x, y = end[i]
        over = [bool(e) for e in batch.ended[i]]
        same = bool(batch.end_same[i])
        first, second, covariance, gap = block(x, y, same, same and batch.end_action[i][0] == batch.end_action[i][1])
        if over[0] and over[1]:
            left = [0.0, 0.0, 0.0, 0.0]
        elif over[0]:
            left = [0.0, second, 0.0, second]
        elif over[1]:
            left = [first, 0.0, 0.0, first]
        else:
            left = [first, second, covariance, gap]
        moments[i] = drawn + float(batch.discount[i]) ** 2 * np.array(left)
    return mean, moments


def loss(network: Any, batch: Any, mean: np.ndarray, moments: np.ndarray, scales: Any) -> float:
    """What is minimised, summed row by row; no dropout."""

    def quasi(found: float, aim: float, unit: float) -> float:
        return math.log(found / unit + 1e-3) + (aim / unit + 1e-3) / (found / unit + 1e-3)

    parts: dict[str, list[float]] = {name: [] for name in ("middle", "gap mean", "gap", "first", "second", "joint")}
    for i in range(len(batch.doubled)):
        x, y = (Coordinate(network, batch.observation[i][b], int(batch.action[i][b])) for b in (0, 1))
        same = bool(batch.same[i])
        one = same and batch.action[i][0] == batch.action[i][1]
        first, second, covariance, gap = block(x, y, same, one)
        errors = x.mean - mean[i, 0], y.mean - mean[i, 1]
        if batch.live[i].all():
            parts["middle"].append(((errors[0] + errors[1]) / 2) ** 2 / scales.variance)
            if not one:
                parts["gap mean"].append((errors[0] - errors[1]) ** 2 / scales.mean_gap)
                parts["gap"].append(quasi(gap, moments[i, 3], scales.gap_variance))
                parts["joint"].append(0.5 * (covariance - moments[i, 2]) ** 2 / scales.variance**2)
        if batch.live[i][0]:
            parts["first"].append(0.5 * quasi(first, moments[i, 0], scales.variance))
        if batch.live[i][1]:
            parts["second"].append(0.5 * quasi(second, moments[i, 1], scales.variance))
    return sum(sum(part) / max(len(part), 1) for part in parts.values())
