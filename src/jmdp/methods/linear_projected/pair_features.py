"""Features of pairs under the weights: the equations of a projected fit, and its Bellman residual, from the table.

A pair (x, y) has the features g(x, y) of φ(x)ᵀ Θ φ(y) + 1{s = t} ψ(x)ᵀ Λ ψ(y). Pairs in one state are enumerated. Pairs
in different states are independent given the shared randomness (`SharedLuck`), so all sums factorise: with u, v any
functions of a coordinate and its outcome given the shared randomness j, averaged over actions,

    Σ_{s≠t} Σ_{a,b} w(x, y) E[u(x) v(y)] = Σ_j w_j Σ_{s≠t} ρ(s, t) u_j(s) v_j(t),

products of matrices over states. Features here are orthonormal under ν; those of terminal states are 0.

Moments in the span of features: the basis they are fitted in, and the fit.

Equations of a projected fit from sampled transitions of pairs with restarts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats, Integers, Scale, cumulative_rows
from jmdp.base.machine import deferred_interrupts
from jmdp.methods.incremental.coordinate_sampling import MomentCells, TablePairs
from jmdp.methods.kernels.tables import ENDED, MEAN
from jmdp.methods.linear_projected.pair_steps import PairWeights, Restart, start_weights
from jmdp.methods.linear_projected.psd_fit import outer, packed, triangle
from jmdp.methods.shared.return_range import RewardUnits
from jmdp.models.coupling import Coupling
from jmdp.models.outcomes import one_step
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.parts import CrossCovariances

if TYPE_CHECKING:
    from scipy.sparse import csr_array


AT_ONCE = 4_000_000
"""Maximum size of an array that is processed at once."""

_RANK = 1e-11
"""Relative threshold on singular values of features (normalised columns) below which they are linearly dependent."""


@dataclass(frozen=True, eq=False)
class Source:
    """Contribution of one step to the moment of a pair: E[u ũ] − E[v ṽ], u = gain + ahead(x'), v = after(x').

    Covariance: u the TD error r + γ μ(x') − μ(x), v = 0. Second moment: u = r + γ μ(x'), v = γ μ(x').
    """

    gain: Floats  # [S, K, A]
    ahead: Floats  # [S, A]
    after: Floats  # [S, A]

    @property
    def parts(self) -> list[tuple[float, Floats, Floats]]:
        """Sign, gain and next-state term of each product."""
        both = [(1.0, self.gain, self.ahead), (-1.0, np.zeros_like(self.gain), self.after)]
        return both if self.after.any() else both[:1]


def source_of(target: str, model: TabularJMDP, reward: Floats, mean: Floats) -> Source:
    """Contribution of one step to the fitted moment, given means [S, A]."""
    ahead = model.discount * mean
    if target == "second_moment":
        return Source(reward, ahead, ahead)
    return Source(reward - mean[:, None, :], ahead, np.zeros_like(mean))


class PairFeatures:
    """Equations and residuals of one model, policy, weights and features φ [S, A, d], ψ [S, A, e] (e = 0 for none)."""

    def __init__(
        self, model: TabularJMDP, policy: TabularPolicy, weights: PairWeights, phi: Floats, psi: Floats
    ) -> None:
        self.model, self.policy, self.weights, self.phi, self.psi = model, policy, weights, phi, psi
        self.prob: Floats = model.prob * ~model.terminal[:, None]
        self.sizes = phi.shape[2], psi.shape[2]
        self._chosen = [
            (w, np.einsum("sa,sad->sd", c, phi), np.einsum("sa,sad->sd", c, psi)) for w, c in weights.luck.choices
        ]
        self._a, self._b = np.triu_indices(model.shape[2])
        pi = policy.probs
        # Features of the next pair, before actions are drawn: of merged branches, and of two branches in one state.
        self._one = [packed(np.einsum("sa,sai,saj->sij", pi, f, f)) for f in (phi, psi)]
        self._met: Floats = np.sum([w * outer(chosen, chosen) for w, _, chosen in self._chosen], axis=0)

    # ------------------------------------------------------------------------------------------ equations

    def equations(self, source: Source) -> tuple[Floats, Floats, Floats]:
        """Equations G, H [n, n] and b [n] over all pairs with positive weight, with inner products as in Eq. (68)."""
        n = sum(d * (d + 1) // 2 for d in self.sizes)
        G, H, b = np.zeros((n, n)), np.zeros((n, n)), np.zeros(n)
        for g, h, value, weight in self._one_by_one(source):
            scaled = g * weight[:, None]
            G += scaled.T @ g
            H += scaled.T @ h
            b += scaled.T @ value
        self._between(G, H, b, source)
        return (G + G.T) / 2, H, b

    def _one_by_one(self, source: Source) -> Iterator[tuple[Floats, Floats, Floats, Floats]]:
        """g, P₂ g [·, n], the source and the weight [·] of pairs in one state, and of start pairs in different ones."""
        for states in self.blocks(sum(d * (d + 1) // 2 for d in self.sizes) * self._a.size):
            yield self._same_state(states, source)
        if self.weights.extra[0].size:
            yield *self._extra(source), self.weights.extra[2]

    def blocks(self, numbers: int) -> Iterator[slice]:
        """Blocks of states, sized for this many numbers per state."""
        at_once = max(1, AT_ONCE // max(1, numbers))
        return (slice(first, first + at_once) for first in range(0, self.model.shape[0], at_once))

    def _same_state(self, states: slice, source: Source) -> tuple[Floats, Floats, Floats, Floats]:
        """g, P₂ g [·, n], the source and the weight [·] of pairs (s, a), (s, b), a ≤ b; a < b counts twice."""
        a, b, n = self._a, self._b, self.model.next_state[states]
        alike = a == b
        phi, psi, p = self.phi[states], self.psi[states], self.prob[states]
        g = np.concatenate([outer(f[:, a], f[:, b]) for f in (phi, psi)], axis=2)
        h = np.zeros_like(g)
        d = self._one[0].shape[1]
        for k in range(n.shape[1]):
            to_a, to_b = n[:, k, a], n[:, k, b]
            step = np.empty_like(g)
            step[:, alike] = np.concatenate([one[to_a[:, alike]] for one in self._one], axis=2)
            one, other = to_a[:, ~alike], to_b[:, ~alike]
            step[:, ~alike, :d] = sum(w * outer(f[one], f[other]) for w, f, _ in self._chosen)
            step[:, ~alike, d:] = np.where((one == other)[:, :, None], self._met[one], 0.0)
            h += p[:, k, None, None] * step
        value = self.same_state_source(states, source)[:, a, b]
        weight = self.weights.same[states][:, a, b] * np.where(alike, 1.0, 2.0)
        return g.reshape(value.size, g.shape[2]), h.reshape(value.size, g.shape[2]), value.ravel(), weight.ravel()

    def same_state_source(self, states: slice, source: Source) -> Floats:
        """Source of pairs in one state [·, A, A]."""
        n, p, A = self.model.next_state[states], self.prob[states], self.model.shape[2]
        found, own = np.zeros((p.shape[0], A, A)), np.zeros((p.shape[0], A))
        for sign, gain, ahead in source.parts:
            for w, choice in self.weights.luck.choices:
                u = gain[states] + (choice * ahead).sum(axis=1)[n]
                found += sign * w * np.einsum("sk,ska,skb->sab", p, u, u)
            spread = gain[states][..., None] + ahead[n]
            own += sign * np.einsum("sk,skab,skab->sa", p, self.policy.probs[n], spread * spread)
        np.einsum("saa->sa", found)[...] = own  # branches on the same coordinate have merged
        return found

    def _extra(self, source: Source) -> tuple[Floats, Floats, Floats]:
        """g, P₂ g [·, n] and the source of start pairs in different states."""
        x, y, _ = self.weights.extra
        flat = self.phi.reshape(-1, self.sizes[0])
        e = self.sizes[1] * (self.sizes[1] + 1) // 2
        g = np.concatenate([outer(flat[x], flat[y]), np.zeros((x.size, e))], axis=1)
        h, value = np.zeros_like(g), np.zeros(x.size)
        for weight, step, scenarios in self._scenarios:
            for w, f, f2 in self._chosen:
                h[:, : g.shape[1] - e] += weight * w * outer(step[x] @ f, step[y] @ f)
                h[:, g.shape[1] - e :] += weight * w * (step[x].multiply(step[y]) @ outer(f2, f2))
            for sign, w, u in self._gains(source, scenarios):
                value += weight * sign * w * u.ravel()[x] * u.ravel()[y]
        return g, h, value

    @cached_property
    def _scenarios(self) -> list[tuple[float, csr_array[np.float64], Floats]]:
        """Weight, step [S·A, S] and probabilities [S, K] of each value of the scenario shared between states."""
        not_terminal = ~self.model.terminal[:, None]
        given = [(p, rows * not_terminal) for p, rows in self.weights.luck.scenarios]
        return [(p, one_step(rows, self.model.next_state), rows) for p, rows in given]

    def _gains(self, source: Source, scenarios: Floats) -> Iterator[tuple[float, float, Floats]]:
        """Sign, weight and mean [S, A] of u and of v, given the shared randomness."""
        n = self.model.next_state
        for sign, gain, ahead in source.parts:
            for w, choice in self.weights.luck.choices:
                following = gain + (choice * ahead).sum(axis=1)[n]
                yield sign, w, np.einsum("sk,ska->sa", scenarios, following)

    def _between(self, G: Floats, H: Floats, b: Floats, source: Source) -> None:
        """Add the pairs in different states."""
        rho, phi, (d, e) = self.weights.between, self.phi, self.sizes
        if not rho.any():
            return
        S, first = rho.shape[0], d * (d + 1) // 2
        full = np.arange(d * d).reshape(d, d)
        tables = np.zeros((d * d, d * d))
        for v, choice in self.weights.drawn:
            here = np.einsum("sa,sai,saj->sij", choice, phi, phi).reshape(S, -1)
            tables += v * (here.T @ (rho @ here))
        G[:first, :first] += _symmetric(tables, full)
        tables[...] = 0.0
        for weight, step, scenarios in self._scenarios:
            for w, chosen, chosen_2 in self._chosen:
                following = (step @ chosen).reshape(S, -1, d)
                for v, choice in self.weights.drawn:
                    here = np.einsum("sa,sai,saj->sij", choice, phi, following).reshape(S, -1)
                    tables += (weight * w * v) * (here.T @ (rho @ here))
                    if e:
                        meeting = self._meeting(step, choice)
                        H[:first, first:] += (weight * w * v) * (meeting.T @ outer(chosen_2, chosen_2))
            for sign, w, u in self._gains(source, scenarios):
                for v, choice in self.weights.drawn:
                    here = np.einsum("sa,sai,sa->si", choice, phi, u)
                    b[:first] += weight * sign * w * v * packed(here.T @ rho @ here)
        H[:first, :first] += _symmetric(tables, full)

    def _meeting(self, step: csr_array[np.float64], choice: Floats) -> Floats:
        """Σ_{s≠t} ρ g over pairs that step into the same state, for each such state, [S, n]."""
        rho, d = self.weights.between, self.sizes[0]
        S, A, _ = self.phi.shape
        scaled = (self.phi * choice[:, :, None]).reshape(S * A, d)
        columns = step.tocsc()
        found = np.zeros((S, d * (d + 1) // 2))
        for s in range(S):
            at = slice(columns.indptr[s], columns.indptr[s + 1])
            x = columns.indices[at]
            if x.size:
                u = scaled[x] * columns.data[at, None]
                found[s] = packed(u.T @ rho[np.ix_(x // A, x // A)] @ u)
        return found

    # ------------------------------------------------------------------------------------------- residual

    def residuals(self, theta: Floats, lam: Floats, source: Source) -> Iterator[tuple[Floats, Floats]]:
        """Weights and Bellman residuals k − source − γ² P₂ k of all pairs with positive weight, in blocks."""
        square = self.model.discount**2
        parameters = np.concatenate([packed(theta), packed(lam)])
        for g, h, value, weight in self._one_by_one(source):
            yield weight, g @ parameters - value - square * (h @ parameters)
        S, _, A = self.model.shape
        phi, rho = self.phi.reshape(S * A, -1), self.weights.between
        for states in self.blocks(S * A * A):
            rows = slice(states.start * A, states.stop * A)
            found = (phi[rows] @ theta) @ phi.T
            for p, step, scenarios in self._scenarios:
                for w, chosen, chosen_2 in self._chosen:
                    following = step @ chosen
                    found -= (square * p * w) * ((following[rows] @ theta) @ following.T)
                    if self.sizes[1]:
                        at_once = np.einsum("sd,de,se->s", chosen_2, lam, chosen_2)
                        found -= (square * p * w) * (step[rows].multiply(at_once) @ step.T).toarray()
                for sign, w, u in self._gains(source, scenarios):
                    found -= p * sign * w * np.multiply.outer(u.ravel()[rows], u.ravel())
            drawn = sum(v * np.multiply.outer(c[states].ravel(), c.ravel()) for v, c in self.weights.drawn)
            yield np.repeat(np.repeat(rho[states], A, axis=0), A, axis=1) * drawn, found


def orthonormal(features: Floats, nu: Floats) -> tuple[Floats, Floats]:
    """Orthonormal features X [X, r] with Σ ν x xᵀ = 1, and T [d, r] with X = features @ T.

    The inner product is Eq. (65). Directions in which features vanish under ν are left out, so Assumption B.1 (full
    column rank) is not required: r may be 0.
    """
    if not features.shape[1]:
        return features, np.zeros((0, 0))
    exponent = np.frexp(np.abs(features).max(axis=0, initial=0.0))[1]
    features = np.ldexp(features, -exponent)  # exact, and squares stay in range
    root = np.sqrt(nu.ravel())[:, None]
    size = np.sqrt(np.einsum("xd,xd->d", root * features, root * features))
    scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    _, values, vectors = np.linalg.svd(root * features * scale, full_matrices=False)
    large = values > _RANK * max(float(values.max(initial=0.0)), 1e-300)
    transform = scale[:, None] * vectors[large].T / values[large]
    return features @ transform, np.ldexp(transform, -exponent[:, None])


def _symmetric(tables: Floats, index: Integers) -> Floats:
    """Matrix [n, n], Σ g gᵀ from Σ (φ_i φ'_j)(φ̃_k φ̃'_l) at [index ij, index kl], symmetric in its two sides."""
    i, k, factor = triangle(index.shape[0])
    straight = tables[index[i][:, i], index[k][:, k]]
    crossed = tables[index[i][:, k], index[k][:, i]]
    return np.asarray(2 * np.multiply.outer(factor, factor) * (straight + crossed))


@dataclass(frozen=True, eq=False)
class FeatureBasis(arrays.FrozenArrays):
    """φ and ψ in coordinates that are orthonormal under ν, and the transforms back."""

    phi: Floats  # [S·A, d]
    psi: Floats  # [S·A, e]
    to_phi: Floats  # maps parameters of the basis to those of the features as given
    to_psi: Floats

    @classmethod
    def of(cls, phi: Floats, psi: Floats, nu: Floats) -> FeatureBasis:
        """Orthonormal basis of these features under weights ν of coordinates."""
        (phi, to_phi), (psi, to_psi) = orthonormal(phi, nu), orthonormal(psi, nu)
        return cls(phi, psi, to_phi, to_psi)


@dataclass(frozen=True, eq=False)
class FittedMoments(arrays.FrozenArrays, CrossCovariances):
    """Fitted parameters, and the covariance of any pair under them."""

    certified = False  # a `Projection` has the bounds

    basis: FeatureBasis
    theta: Floats  # [d], of means
    kernel: Floats  # [d, d]
    kernel_2: Floats  # [e, e]
    mean: Floats  # [S, A], on rewards of size 1
    target: str
    scale: Scale

    def same_state(self) -> Floats:
        """Covariances within states [S, A, A], exactly symmetric."""
        S, A = self.mean.shape
        phi, psi = self.basis.phi.reshape(S, A, -1), self.basis.psi.reshape(S, A, -1)
        found = (phi @ self.kernel) @ phi.transpose(0, 2, 1) + (psi @ self.kernel_2) @ psi.transpose(0, 2, 1)
        if self.target == "second_moment":
            found -= self.mean[:, :, None] * self.mean[:, None, :]
        return np.asarray((found + found.transpose(0, 2, 1)) / 2)

    def cross_covariance(self, s: int, a: int, t: int, b: int) -> float:
        """Cov(Z(s, a), Z(t, b)) for s ≠ t."""
        A = self.mean.shape[1]
        found = float(self.basis.phi[s * A + a] @ self.kernel @ self.basis.phi[t * A + b])
        if self.target == "second_moment":
            found -= float(self.mean[s, a] * self.mean[t, b])
        return self.scale.restore(found, 2)


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
