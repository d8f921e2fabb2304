"""Equations of a projected fit from sampled transitions of pairs with restarts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import Floats, Integers, cumulative_rows
from jmdp.base.interrupts import deferred_interrupts
from jmdp.methods.incremental.moment_cells import MomentCells, TablePairs
from jmdp.methods.kernels.coordinates import ENDED, MEAN
from jmdp.methods.linear_projected.fitted_moments import FeatureBasis
from jmdp.methods.linear_projected.pair_weights import Restart, start_weights
from jmdp.methods.linear_projected.psd_fit import outer
from jmdp.methods.shared.reward_units import RewardUnits
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

_CHAINS = 1000
"""Pairs that are simulated in parallel."""


@dataclass(frozen=True, eq=False)
class SampledEquations:
    """Equations like those of `PairFeatures.equations`, with the fitted means that they use."""

    G: Floats  # [n, n]
    H: Floats
    b: Floats  # [n]
    theta: Floats  # [d]
    mean: Floats  # [S, A]
    basis: FeatureBasis
    complete: bool  # False if Ctrl-C ended the sums early


@dataclass(frozen=True, eq=False)
class PairTransitions:
    """Sampled transitions of pairs: x, y, x', y' and both rewards, in blocks; the same ones on each iteration."""

    model: TabularJMDP
    policy: TabularPolicy
    coupling: Coupling
    restart: Restart
    samples: int
    seed: int

    def __iter__(self) -> Iterator[tuple[Integers, Integers, Integers, Integers, Floats, Floats]]:
        chains = min(_CHAINS, self.samples)
        process = PairProcess(self.model, self.policy, self.coupling, self.restart, self.seed, chains)
        return process.transitions(self.samples)


class PairProcess:
    """Simulated pairs that restart with probability 1 − α at each step: their distribution is w at all times.

    If one branch of a pair has ended, the other continues, for the weights of means. A branch that has ended is at
    coordinate S·A, whose features are 0. Only samples of scenarios and actions are used, no expectations over them.
    """

    def __init__(
        self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, settings: Restart, seed: int, chains: int
    ) -> None:
        cells = MomentCells(model, coupling)
        self._source = TablePairs(model, policy, coupling, cells, RewardUnits.of(model).reward)
        self._ended, self._anywhere = cells.coordinates, int(cells.mean[0, 0])
        self._rng = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(seed)))
        self._chains, self._alpha = chains, settings.alpha(model.discount)
        A = model.shape[2]
        same, (x, y, weight) = start_weights(settings, model)
        s, a, b = np.nonzero(same)
        self._starts = np.concatenate([np.stack([s * A + a, s * A + b]), np.stack([x, y])], axis=1)
        mass = np.concatenate([same[s, a, b], weight])
        self._cumulative = cumulative_rows(mass[None] / mass.sum())[0]
        self.x, self.y = self._begin(chains)
        age = self._rng.geometric(1 - self._alpha, chains) - 1  # stationary distribution of the age of a pair
        for t in range(int(age.max(initial=0))):
            moved = self._move()
            younger = age > t
            self.x, self.y = np.where(younger, moved[0], self.x), np.where(younger, moved[1], self.y)

    def _begin(self, count: int) -> Integers:
        at = np.searchsorted(self._cumulative, self._rng.random(count), side="right")
        return np.asarray(self._starts[:, at])

    def _move(self) -> tuple[Integers, Integers, Floats, Floats]:
        """Next x and y, and the rewards of this step."""
        goes, other_goes = self.x < self._ended, self.y < self._ended
        one = np.where(goes, self.x, np.where(other_goes, self.y, self._anywhere))
        two = goes & other_goes & (self.x != self.y)
        gains, ahead = self._source.draw(self._rng, one, np.where(two, self.y, MEAN))
        ahead[ahead == ENDED] = self._ended
        x, r = np.where(goes, ahead[0], self._ended), np.where(goes, gains[0], 0.0)
        y = np.where(two, ahead[1], np.where(other_goes, ahead[0], self._ended))
        q = np.where(two, gains[1], np.where(other_goes, gains[0], 0.0))
        return x, y, r, q

    def transitions(self, count: int) -> Iterator[tuple[Integers, Integers, Integers, Integers, Floats, Floats]]:
        """Blocks of x, y, x', y' and both rewards, `count` transitions in total."""
        while count > 0:
            moved = self._move()
            yield tuple(part[:count] for part in (self.x, self.y, *moved))  # type: ignore[misc]
            count -= self._chains
            again = self._rng.random(self._chains) >= self._alpha
            fresh = self._begin(self._chains)
            self.x, self.y = np.where(again, fresh[0], moved[0]), np.where(again, fresh[1], moved[1])


def sampled_equations(transitions: PairTransitions, phi: Floats, psi: Floats, target: str) -> SampledEquations:
    """Equations from three passes over the same transitions: for weights of coordinates, for means, for pairs."""
    (S, _, A), gamma, samples = transitions.model.shape, transitions.model.discount, transitions.samples
    visits = np.zeros(S * A + 1)
    for x, y, *_ in transitions:
        visits += np.bincount(x, minlength=visits.size) + np.bincount(y, minlength=visits.size)
    nu = visits[:-1] / (2 * samples)
    found = FeatureBasis.of(phi, psi, nu)
    basis, basis_2 = (np.vstack([f, np.zeros(f.shape[1])]) for f in (found.phi, found.psi))  # 0 for ended branches
    d = basis.shape[1]
    matrix, right = np.zeros((d, d)), np.zeros(d)
    for x, y, x_next, y_next, r, q in transitions:
        for here, there, gained in ((x, x_next, r), (y, y_next, q)):
            matrix += basis[here].T @ (basis[here] - gamma * basis[there])
            right += basis[here].T @ gained
    theta: Floats = np.asarray(np.linalg.lstsq(matrix, right, rcond=1e-12)[0], dtype=np.float64)
    mean = basis @ theta
    n = sum(f.shape[1] * (f.shape[1] + 1) // 2 for f in (basis, basis_2))
    G, H, b = np.zeros((n, n)), np.zeros((n, n)), np.zeros(n)

    def features(x: Integers, y: Integers) -> Floats:
        own = outer(basis_2[x], basis_2[y]) * (x // A == y // A)[:, None]
        return np.concatenate([outer(basis[x], basis[y]), own], axis=1)

    def add(x: Integers, y: Integers, x_next: Integers, y_next: Integers, r: Floats, q: Floats) -> None:
        g, h = features(x, y), features(x_next, y_next)
        if target == "second_moment":
            value = r * q + gamma * (r * mean[y_next] + q * mean[x_next])
        else:
            value = (r + gamma * mean[x_next] - mean[x]) * (q + gamma * mean[y_next] - mean[y])
        G[:] += g.T @ g
        H[:] += g.T @ h
        b[:] += g.T @ value

    done, complete = 0, True
    with deferred_interrupts() as interrupted:
        for transition in transitions:
            add(*transition)
            done += transition[0].size
            if done < samples and interrupted():
                complete = False
                break
    return SampledEquations(G / done, H / done, b / done, theta, mean[:-1].reshape(S, A), found, complete)
