"""What comes back from learning: joint moments at any state, how they fared in held-out states, and no certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate
from jmdp.base.labels import Label, Labels
from jmdp.base.luck import Shock
from jmdp.methods.method import Method
from jmdp.methods.neural_gram.lookahead import Lookahead
from jmdp.methods.neural_gram.losses import compiled_means, compiled_moments, still_to_come
from jmdp.methods.neural_gram.network import GramNetwork, blocks, covariances, gap_variances
from jmdp.models.actors.actor import Actor, numpy_of
from jmdp.models.coupling import Coupling
from jmdp.results.calibration import Calibration, Judgement
from jmdp.results.gaps.gap import Gap
from jmdp.results.learning_curve import LearningCurve
from jmdp.results.outcome import Outcome
from jmdp.simulators.pair_walks import PairWalks, WalkPlan, walks_from
from jmdp.simulators.simulator import Simulator
from jmdp.simulators.workers import WorkerPool


class Moments(NamedTuple):
    """Joint moments of all actions, of many observations."""

    mean: Floats  # [n, A]
    covariance: Floats  # [n, A, A]
    gap_variance: Floats  # [n, A, A]


@dataclass(frozen=True, eq=False, repr=False)
class LearnedEvaluation:
    """Joint moments of returns as a network has learned them, for any state of the simulator.

    There is no certificate. `calibration`, the held-out record, says how learned gaps compare with simulated ones in
    states that were not learned from, and `outcome` is its verdict: are learned variances of gaps better than one
    constant for all? Those states also chose when to stop, so a record from `calibrate` with another seed is stricter.
    """

    network: GramNetwork
    simulator: Simulator
    actor: Actor
    coupling: Coupling
    method: Method[LearnedEvaluation]
    discount: float
    horizon: int  # steps of rollouts that count as the truth
    actions: Labels
    outcome: Outcome
    learning: LearningCurve
    calibration: Calibration | None

    certificate = None

    def moments(self, observations: npt.ArrayLike) -> Moments:
        """Of many observations at once, ``[n, ...]``."""
        return Moments(*(np.asarray(part, np.float64) for part in _moments(self.network, numpy_of(observations))))

    def mean(self, state: Any) -> Floats:
        """[A], E[Z(state, ·)]."""
        return np.asarray(self._at(state).mean[0])

    def covariance(self, state: Any) -> Floats:
        """[A, A], Cov(Z(state, a), Z(state, b)): positive semidefinite whatever was learned."""
        return np.asarray(self._at(state).covariance[0])

    def correlation(self, state: Any) -> Floats:
        """[A, A]; nan where a variance is 0."""
        found = self.covariance(state)
        std = np.sqrt(np.where(np.diag(found) > 0, np.diag(found), np.nan))
        return np.asarray(np.clip(found / (std[:, None] * std), -1, 1))

    def cross_covariance(self, state: Any, a: Label, other: Any, b: Label) -> float:
        """Cov(Z(state, a), Z(other, b)) for any two states."""
        same = self.simulator.digest(state) == self.simulator.digest(other)
        seen = np.stack([self._seen(state), self._seen(other)])
        x, y = self.actions.index(a), self.actions.index(b)
        return float(_cross(self.network, seen, x, y, np.bool_(same)))

    def gap(self, state: Any, a: Label, b: Label, lookahead: Lookahead | None = None) -> Gap:
        """The gap Z(state, a) − Z(state, b) under the shared luck."""
        x, y = self.actions.index(a), self.actions.index(b)
        found = self._at(state)
        mean, variance = float(found.mean[0, x] - found.mean[0, y]), float(found.gap_variance[0, x, y])
        if lookahead is not None and x != y:
            walks = walks_from(
                self.simulator, self.actor, self.coupling, [state], [(x, y)],
                repeats=lookahead.repeats, length=lookahead.steps, root=Shock.of_sample(lookahead.seed, 0),
            )  # fmt: skip
            means, variances = looked_ahead(self.network, walks, self.discount, self.trust)
            mean, variance = float(means[0]), float(variances[0])
        return Gap(
            state=f"{type(state).__name__}",
            first=self.actions.name(x),
            second=self.actions.name(y),
            coupling=self.coupling,
            mean=mean,
            variance=variance,
            correlation=float(self.correlation(state)[x, y]),
            mean_interval=None,
            variance_interval=None,
            correlation_interval=None,
            central_moments=(Estimate.around(1.0, 0.0), Estimate.around(0.0, 0.0), Estimate(variance, 0.0, math.inf)),
        )

    @property
    def trust(self) -> float:
        """Rollouts that the network's variance of a gap is worth, by its held-out record; 4 without one."""
        return 4.0 if self.calibration is None else worth(self.calibration)

    def calibrate(self, *, seed: int, states: int = 160, rollouts: int = 24, workers: int = 1) -> Calibration:
        """Simulate fresh states and compare. No seed gives the walks that were learned from or stopped with."""
        root, spacing = Shock.of_sample(seed, 0).derived(b"calibration"), 40
        plan = WalkPlan(min(states, 16), spacing, rollouts, self.horizon)
        with WorkerPool(self.simulator, self.actor, self.coupling, workers=workers) as pool:
            walks = pool.collect(plan, seed=root.seed(), blocks=-(-states // plan.visits))
        return calibration_of(self.network, walks, self.discount, seed)

    def _seen(self, state: Any) -> npt.NDArray[Any]:
        return np.asarray(numpy_of(self.simulator.observe(state)))

    def _at(self, state: Any) -> Moments:
        return self.moments(self._seen(state)[None])

    @property
    def _so_far(self) -> str:
        """The verdict on a network whose training was interrupted; other outcomes are verdicts themselves."""
        return "" if self.outcome is not Outcome.INTERRUPTED else f"; so far {judged(self.calibration).value}"

    def __repr__(self) -> str:
        lines = [
            f"LearnedEvaluation of {self.simulator!r}, {self.outcome.name}: {self.outcome.value}{self._so_far}",
            f"  coupling     {self.coupling}",
            f"  policy       {self.actor!r}",
            f"  updates      {self.learning.updates[-1] if self.learning.updates.size else 0:,.0f}",
            "  certificate  none",
        ]
        return "\n".join(lines) + ("" if self.calibration is None else f"\n{self.calibration!r}")


def judged(record: Calibration | None) -> Outcome:
    """The outcome of a run that was not interrupted, by its held-out record."""
    return Outcome.NOT_JUDGED if record is None else _OUTCOMES[record.verdict]


_OUTCOMES = {
    Judgement.USEFUL: Outcome.TRAINED,
    Judgement.NOT_BETTER: Outcome.NOT_BETTER,
    Judgement.NOTHING_VARIED: Outcome.NOTHING_VARIED,
}


def calibration_of(
    network: GramNetwork, walks: PairWalks, discount: float, seed: int, closed_form: Floats | None = None
) -> Calibration:
    """Learned gaps against walks long enough to be the truth, several from each state."""
    returns = walks.returns(discount)
    every, M = returns.shape[1], len(returns)
    found = Moments(*(np.asarray(part, np.float64) for part in _moments(network, walks.observation[::every, 0, 0])))
    i, (a, b) = np.arange(M), walks.action[::every, 0].T
    variance = np.einsum("naa->na", found.covariance)
    return Calibration(
        i, a, b, found.mean[i, a] - found.mean[i, b], found.gap_variance[i, a, b], variance[i, a] + variance[i, b],
        returns, seed, closed_form,
    )  # fmt: skip


def looked_ahead(network: GramNetwork, walks: PairWalks, discount: float, trust: float) -> tuple[Floats, Floats]:
    """[visits] each: means and variances of gaps, from walks of a few steps and the network where they end.

    With Y = Σ_{t<k} γ^t (R − R̃)_t + γ^k (q(x_k) − q(y_k)): the mean is Y's, the variance Y's own plus γ^{2k} times the
    network's at the end; of that and of the network's word at the beginning, as if it had been found in `trust`
    rollouts, the average.
    """
    k, repeats = walks.length, int((walks.visit == walks.visit[0]).sum())
    end, action, ended = walks.observation[:, -1], walks.action[:, -1], walks.ended[:, -1]
    q = np.where(ended, 0.0, np.asarray(compiled_means(network, end, action), np.float64))
    gain = walks.returns(discount) + discount**k * q.reshape(-1, repeats, 2)
    gain = gain[..., 0] - gain[..., 1]
    later = still_to_come(compiled_moments(network, end, action, walks.same[:, -1]), ended)
    left = np.asarray(later.gap, np.float64).reshape(-1, repeats)
    found = gain.var(axis=1, ddof=1) + discount ** (2 * k) * left.mean(axis=1)
    rows = slice(None, None, repeats)
    starts = compiled_moments(network, walks.observation[rows, 0], walks.action[rows, 0], walks.same[rows, 0])
    word = np.asarray(starts.gap)
    return gain.mean(axis=1), (trust * word + (repeats - 1) * found) / (trust + repeats - 1)


def worth(record: Calibration) -> float:
    """How many rollouts, less one, would be off as much as the network's variances of gaps, relative: 2/τ².

    With s² from n rollouts around truth σ² = k(1 + τε): E[(s²/k)²] = (1 + τ²)(1 + 2/(n − 1)) for normal gaps.
    """
    n = record.returns.shape[1]
    ratio = record.simulated_variance / np.maximum(record.variance, 1e-12)
    if not ratio.mean() > 0:  # nothing was seen to vary
        return 0.5
    ratio = ratio / ratio.mean()
    spread = float((ratio**2).mean()) / (1 + 2 / (n - 1)) - 1
    return float(np.clip(2 / max(spread, 1e-9), 0.5, 64.0))


@eqx.filter_jit
def _moments(network: GramNetwork, observations: Any) -> Any:
    found = jax.vmap(network.features)(observations)
    return jax.vmap(network.means)(observations), jax.vmap(covariances)(found), jax.vmap(gap_variances)(found)


@eqx.filter_jit
def _cross(network: GramNetwork, observations: Any, x: Any, y: Any, same: Any) -> Any:
    found = jax.vmap(network.features)(observations)
    one, other = (type(found)(*(part[i, z] for part in found)) for i, z in ((0, x), (1, y)))
    return blocks(one, other, same, same & (jnp.asarray(x) == y)).covariance
