"""Theorem B.4: the projected operator is a contraction on the support of the stationary distribution of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

import jmdp
from jmdp.methods.linear_projected import Restart
from jmdp.show.plots.style import COLOURS, DASHES, WIDTH, clear_spines, new_figure
from reproduction.experiment import Experiment, Numbers, Work
from reproduction.findings import Claim, Finding, Floats, Measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEATURES = np.array([[1.0, 0.0], [1.0, 0.5], [0.5, 1.0], [1.0, -0.5]])
"""Features [X, d], of full rank; they do not span the true moments."""


class Collection(NamedTuple):
    """Moments (Eq. (12)): means [X] and second moments [X, X]."""

    mean: Floats
    second: Floats

    def minus(self, other: Collection) -> Collection:
        """Return the difference."""
        return Collection(self.mean - other.mean, self.second - other.second)


@dataclass(frozen=True, kw_only=True)
class ProjectedContraction(Experiment):
    """Projected JIPE-2 (Eq. (72)) with the paper's stationary weights, on a model small enough for all pairs X²."""

    name = "projection"
    title = "Projected JIPE-2 contracts"
    where = "Theorem B.4"
    ours = (
        "The paper has no experiment of it. Ours: two towns and two ways to sell, with weather that affects both "
        "equally (γ = 0.9, rewards in [0, 1], the uniform policy), and two features. β is half of the largest value "
        "that the proof allows, so κ = (1 + γ²)/2."
    )

    discount: float = 0.9
    pairs: int = 1000
    """Pairs of moment collections to which the operator is applied."""
    starts: int = 20
    sweeps: int = 60
    seed: int = 2026
    """Random seed of collections and starts."""

    @classmethod
    def quick(cls) -> Self:
        """Fewer pairs and starts."""
        return cls(pairs=100, starts=3)

    def run(self, work: Work) -> Numbers:
        """Apply the operator to pairs of collections, and iterate it; check Eq. (85), Eq. (78) and Eq. (79)."""
        world = PairWorld(two_towns(self.discount))
        rng = np.random.default_rng(self.seed)
        ratios = []
        for i in range(self.pairs):
            one, other = random_collection(rng, world, i), random_collection(rng, world, i + 1)
            moved = world.projected(world.backup(one)).minus(world.projected(world.backup(other)))
            ratios.append(world.norm(moved) / world.norm(one.minus(other)))
        fixed = world.settled(random_collection(rng, world, 3), 400)
        distances = []
        for i in range(self.starts):
            now, way = random_collection(rng, world, i), []
            for _ in range(self.sweeps):
                way.append(world.norm(now.minus(fixed)))
                now = world.projected(world.backup(now))
            distances.append(way)
        truth = world.truth(work.progress)
        off, best = world.norm(fixed.minus(truth)), world.norm(world.projected(truth).minus(truth))
        seen = world.weights > 1e-12
        pointwise = np.abs(fixed.second - truth.second) * world.beta * np.sqrt(world.weights) / off
        data = {
            "kappa": world.kappa, "ratios": ratios, "distances": distances, "bound": off * (1 - world.kappa) / best,
            "pointwise": pointwise[seen].tolist(), "gap_weights": world.gap_weights(),
            "restart_shares": world.restart_shares(work.progress),
        }  # fmt: skip
        return Numbers(self._judged(data), data)

    def _judged(self, data: dict[str, Any]) -> list[Finding]:
        kappa = data["kappa"]
        ways = np.array(data["distances"])
        factors = (ways[:, 1:] / ways[:, :-1])[ways[:, :-1] > 1e-6 * ways[:, :1]].tolist()
        return [
            Claim(
                "ΠT₂ is a κ-contraction in max(‖·‖_ν, β‖·‖_μ₂).", self.where,
                "largest ratio of the distances after and before a projected sweep",
            ).at_most(kappa, _range(data["ratios"], "pairs of moment collections")),
            Claim(
                "Projected JIPE-2 converges to one fixed point from every start.", self.where,
                "largest factor per sweep of the distance to the fixed point",
            ).at_most(kappa, _range(factors, f"sweeps from {self.starts} starts")),
            Claim(
                "The error of the fixed point is at most 1/(1 − κ) times that of the best fit.", self.where,
                "error over its bound",
            ).at_most(1.0, _range([data["bound"]], "fit")),
            Claim(
                "The error of each moment of a pair in the support of μ₂ is at most ‖M̂ − M‖/(β√μ₂).", self.where,
                "largest ratio of error to bound",
            ).at_most(1.0, _range(data["pointwise"], "pairs in the support")),
            Claim(
                "All of this is relative to the support of μ₂ (under Assumption B.2 the diagonal, so without any gap).",
                self.where, "largest weight μ₂ of two actions in one state",
                remark="The theorem holds as stated, but does not cover gaps: their pairs have weight 0. "
                "`Restart` weights cover them (docs/projection.md).",
            ).at_most(1e-12, _range(data["gap_weights"], "pairs of actions in one state")),
            Claim(
                "`Restart` weights cover every gap, and the bounds hold.", self.where,
                "largest ratio of error to bound for the covariance of two actions, with the same features",
                addition=True,
            ).at_most(1.0, _range(data["restart_shares"], "pairs of actions in one state"), better=True),
        ]  # fmt: skip

    def figure(self, data: dict[str, Any]) -> Figure:
        """Distances to the fixed point, and the ratios of single sweeps beside κ."""
        figure, [[ways_axes], [ratio_axes]] = new_figure(2, 1, size=(WIDTH, 6.4))
        ways = np.array(data["distances"])
        for i, way in enumerate(ways):
            shown = way[way > 1e-14 * way[0]] / way[0]
            ways_axes.semilogy(
                shown, color=COLOURS[0], alpha=0.4, linewidth=1, label="single starts" if i == 0 else None
            )
        sweeps = np.arange(ways.shape[1])
        bound = f"bound of the theorem: κ = {data['kappa']:.3g} per sweep"
        style: dict[str, Any] = {"color": COLOURS[1], "linestyle": DASHES[1], "linewidth": 2}
        ways_axes.semilogy(sweeps, data["kappa"] ** sweeps, label=bound, **style)
        ways_axes.set_xlabel("projected sweep")
        ways_axes.set_ylabel("distance to the fixed point,\nrelative to that of the start")
        ways_axes.legend(frameon=False)
        ratio_axes.hist(data["ratios"], bins=40, color=COLOURS[0])
        ratio_axes.axvline(data["kappa"], label="bound κ", **style)
        ratio_axes.set_xlabel("distance of two moment collections,\nafter / before a projected sweep")
        ratio_axes.set_ylabel("number of pairs")
        ratio_axes.legend(frameon=False, loc="upper left")
        for panel in (ways_axes, ratio_axes):
            clear_spines(panel)
        return figure


class PairWorld:
    """Small model with dense tables over X²: T₂, the stationary distributions, and the projection of Section B."""

    def __init__(self, model: jmdp.TabularJMDP) -> None:
        self.model, self.policy = model, jmdp.TabularPolicy.uniform(model)
        S, _, A = model.shape
        self.coordinates = list(product(range(S), range(A)))
        self.count, g = S * A, model.discount
        self.kappa, self.beta = (1 + g * g) / 2, (1 - g * g) / (4 * g)
        self.earned, self.step, self.second, self.cross, self.pair_step = self._tables()
        self.stationary = _in_the_long_run(self.step, np.full(self.count, 1 / self.count))
        start = np.full(self.count**2, 1 / self.count**2)
        self.weights = _in_the_long_run(self.pair_step, start).reshape(self.count, self.count)
        products = np.einsum("xi,yj->xyij", FEATURES, FEATURES)
        self._features = _packed(products).reshape(self.count**2, -1)
        self._gram = self._features.T @ (self.weights.ravel()[:, None] * self._features)
        self._rate = 1 / float(np.linalg.eigvalsh(self._gram)[-1])

    def _tables(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """E[R] [X], P [X, X], E[R R̃] [X, X], E[R 1{Y' = z}] [X, X, X] and P₂ [X², X²], from the tables of the model."""
        X, A = self.count, self.model.actions.size
        earned, step = np.zeros(X), np.zeros((X, X))
        second, cross, pair_step = np.zeros((X, X)), np.zeros((X, X, X)), np.zeros((X, X, X, X))
        for i, x in enumerate(self.coordinates):
            for p, r, n in self._ways(x):
                earned[i] += p * r
                for a, q in enumerate(self.policy.probs[n]):
                    to, chance = n * A + a, p * q
                    step[i, to] += chance
                    second[i, i] += chance * r * r
                    cross[i, i, to] += chance * r
                    pair_step[i, i, to, to] += chance
            for j, y in enumerate(self.coordinates):
                if i != j:
                    for p, r, n, u, m in self._ways_of_two(x, y):
                        second[i, j] += p * r * u
                        for (a, q), (b, o) in product(enumerate(self.policy.probs[n]), enumerate(self.policy.probs[m])):
                            cross[i, j, m * A + b] += p * q * o * r
                            pair_step[i, j, n * A + a, m * A + b] += p * q * o
        return earned, step, second, cross, pair_step.reshape(X * X, X * X)

    def _ways(self, x: tuple[int, int]) -> Iterator[tuple[float, float, int]]:
        """Yield the outcomes of a step from a coordinate: probability, reward, next state."""
        s, a = x
        for k, p in enumerate(self.model.prob[s]):
            yield float(p), float(self.model.reward[s, k, a]), int(self.model.next_state[s, k, a])

    def _ways_of_two(self, x: tuple[int, int], y: tuple[int, int]) -> Iterator[tuple[float, float, int, float, int]]:
        """Yield joint outcomes of two coordinates under `Local`: only coordinates in one state share a scenario."""
        if x[0] == y[0]:
            for (p, r, n), (_, u, m) in zip(self._ways(x), self._ways(y), strict=True):
                yield p, r, n, u, m
        else:
            for (p, r, n), (q, u, m) in product(self._ways(x), self._ways(y)):
                yield p * q, r, n, u, m

    def backup(self, moments: Collection) -> Collection:
        """Return T₂ M (Definition 5.1)."""
        g, ahead = self.model.discount, self.cross @ moments.mean
        later = (self.pair_step @ moments.second.ravel()).reshape(self.count, self.count)
        return Collection(
            self.earned + g * self.step @ moments.mean, self.second + g * (ahead + ahead.T) + g * g * later
        )

    def projected(self, moments: Collection) -> Collection:
        """Return Π M: least squares for means (Eq. (69)); for second moments within the cone (Eq. (70)).

        The second projection uses projected gradients if the cone constraint is active.
        """
        left = FEATURES.T * self.stationary
        mean = FEATURES @ np.linalg.solve(left @ FEATURES, left @ moments.mean)
        right = self._features.T @ (self.weights * moments.second).ravel()
        free: Floats = np.linalg.solve(self._gram, right).astype(np.float64)
        new, least = _nearest_semidefinite(free)
        if least >= 0:
            return Collection(mean, (self._features @ free).reshape(self.count, self.count))
        theta, ahead, momentum = new, new, 1.0
        for _ in range(20_000):
            new = _nearest_semidefinite(ahead - self._rate * (self._gram @ ahead - right))[0]
            if float(np.abs(new - ahead).max()) <= 1e-14 * float(np.abs(free).max()):
                break
            faster = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            back = float((ahead - new) @ (new - theta)) > 0  # overshot: restart the acceleration
            ahead = new if back else new + (momentum - 1) / faster * (new - theta)
            theta, momentum = new, 1.0 if back else float(faster)
        return Collection(mean, (self._features @ new).reshape(self.count, self.count))

    def norm(self, moments: Collection) -> float:
        """Return the norm of Theorem B.4, max(‖M_μ‖_ν, β ‖M_Σ‖_μ₂) (Eq. (77))."""
        first = float(np.sqrt(self.stationary @ moments.mean**2))
        return max(first, self.beta * float(np.sqrt((self.weights * moments.second**2).sum())))

    def settled(self, moments: Collection, sweeps: int) -> Collection:
        """Return the moments after this many projected sweeps."""
        for _ in range(sweeps):
            moments = self.projected(self.backup(moments))
        return moments

    def truth(self, progress: bool) -> Collection:
        """Return the true moments, computed by `ExactPairs`."""
        result = jmdp.evaluate(self.model, self.policy, jmdp.Local(), progress=progress)
        second = [[result.second_moment(*x, *y) for y in self.coordinates] for x in self.coordinates]
        return Collection(result.mean.ravel(), np.array(second))

    def gap_weights(self) -> list[float]:
        """Return the weights μ₂ of all pairs of different actions in one state."""
        A = self.model.actions.size
        return [
            float(self.weights[i, j]) for i, j in product(range(self.count), repeat=2) if i != j and i // A == j // A
        ]

    def restart_shares(self, progress: bool) -> list[float]:
        """Return error over bound for the covariances of two actions in one state, of a fit with `Restart` weights."""
        method = jmdp.LinearProjected(FEATURES, weights=Restart())
        truth, fit = (jmdp.evaluate(self.model, self.policy, jmdp.Local(), method=m, progress=progress)
                      for m in (jmdp.ExactPairs(), method))  # fmt: skip
        assert fit.projection is not None
        S, A = self.model.states.size, self.model.actions.size
        return [
            float(abs(fit.covariance[s, a, b] - truth.covariance[s, a, b]) / fit.projection.error_bound(s, a, s, b))
            for s, a, b in product(range(S), range(A), range(A)) if a < b
        ]  # fmt: skip


def two_towns(discount: float) -> jmdp.TabularJMDP:
    """Model in which the weather affects both ways to sell equally and determines the next town; rewards in [0, 1]."""
    reward = np.array([[[1.0, 1.2], [-1.0, -0.9]], [[2.0, 2.1], [-2.0, -1.8]]])
    after = [[[0, 0], [1, 1]]] * 2
    return jmdp.TabularJMDP([[0.5, 0.5]] * 2, (reward + 2.0) / 4.1, after, discount)


def random_collection(rng: np.random.Generator, world: PairWorld, kind: int) -> Collection:
    """Return moments of any sign and scale; every fourth collection is constant, which P and P₂ do not change."""
    X, scale = world.count, 10.0 ** rng.uniform(-2, 2)
    if kind % 4 == 3:
        return Collection(np.full(X, rng.normal()), np.full((X, X), scale * rng.normal()))
    root = rng.normal(size=(X, X))
    second = root @ root.T if kind % 2 else root + root.T
    return Collection(rng.normal(size=X), scale * second)


def _packed(matrices: Floats) -> Floats:
    """Symmetric parts of matrices [..., d, d] as vectors [..., d (d + 1)/2] with the same inner products."""
    i, j = np.triu_indices(matrices.shape[-1])
    factor = np.where(i == j, 0.5, np.sqrt(0.5))
    return np.asarray((matrices[..., i, j] + matrices[..., j, i]) * factor)


def _nearest_semidefinite(packed: Floats) -> tuple[Floats, float]:
    """Return the nearest positive semidefinite matrix, and the smallest eigenvalue of the given one."""
    d = FEATURES.shape[1]
    i, j = np.triu_indices(d)
    matrix = np.zeros((d, d))
    matrix[i, j] = packed * np.where(i == j, 0.5, np.sqrt(0.5))
    values, vectors = np.linalg.eigh(matrix + matrix.T)
    return _packed((vectors * np.maximum(values, 0.0)) @ vectors.T), float(values[0])


def _in_the_long_run(step: Floats, start: Floats) -> Floats:
    """Return the limiting distribution of a chain from this start, by repeated squaring."""
    for _ in range(40):
        step = step @ step
        step /= step.sum(axis=1, keepdims=True)
    return np.asarray(start @ step)


def _range(values: list[float], of: str) -> Measured:
    return Measured(max(values), min(values), max(values), "computed", len(values), of)
