"""Result of `NeuralGram`: learned joint moments at any state, with their calibration in held-out states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Floats
from jmdp.base.labels import Label
from jmdp.base.luck import Shock
from jmdp.base.settings import asks_for_seed
from jmdp.distribute.pools import Pool
from jmdp.methods.learned.learned_result import LearnedResult
from jmdp.methods.learned.visited import record_of
from jmdp.methods.neural_gram.lookahead import Lookahead
from jmdp.methods.neural_gram.lookahead_rollouts import LookaheadSimulation
from jmdp.methods.neural_gram.network import Features, GramNetwork, covariances, outputs
from jmdp.models.actors.actor import Actor
from jmdp.results.calibration import Calibration
from jmdp.results.evaluation import Evaluation
from jmdp.results.result import LearningCurve, labelled_arrays
from jmdp.simulators.rollouts.pair_walks import PairedRollouts, PairWalks, WalkPlan

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LearnedEvaluation(LearnedResult):
    """Joint moments of returns learned by a network, for any state of the simulator.

    The held-out states also decide when training stops, so `calibrate` with another seed is a stricter test.
    """

    actor: Actor
    network: GramNetwork
    learning: LearningCurve
    encoder: Any  # its settings, or the user's own

    @property
    def effort(self) -> str:
        """How long the network was trained, in words."""
        return f"Trained with {self._updates:,} updates"

    @property
    def caveats(self) -> list[str]:
        """Sentences on how far to trust the answer."""
        stricter = (
            "The held-out states also decide when training stops: calibrate with another seed for a stricter test."
        )
        return [
            "There is no certificate: predictions of the network in a single state are estimates, no interval.",
            *([] if self.calibration is None else [stricter]),
        ]

    @property
    def _updates(self) -> int:
        return int(self.learning.updates[-1]) if self.learning.updates.size else 0

    def moments(self, observations: npt.NDArray[Any]) -> tuple[Floats, Floats]:
        """Means [n, A] and covariances [n, A, A] of the returns of all actions, for observations [n, …]."""
        return _moments(self.network, observations)

    def means(self, observations: npt.NDArray[Any]) -> Floats:
        """Means [n, A] of the returns of all actions, for observations [n, …]."""
        return np.asarray(outputs(self.network, observations)[0])

    def at(self, state: Any, lookahead: Lookahead | None = None) -> Evaluation:
        """Return the evaluation of one state, named "here": ``learned.at(state).gap(0, a, b)``.

        Covariance matrices are always positive semidefinite. A `lookahead` simulates some steps first.
        """
        if lookahead is None:
            return super().at(state)
        simulation = LookaheadSimulation(self.simulator, self.actor, self.coupling, self.actions)
        rollouts = simulation.run(state, lookahead, self.discount)
        return self._here(*rollouts.moments(self.network, self.equivalent_rollouts))

    def cross_covariance(self, state: Any, a: Label, other: Any, b: Label) -> float:
        """Return Cov(Z(state, a), Z(other, b)) for any two states."""
        same = self.simulator.digest(state) == self.simulator.digest(other)
        x, y = self.actions.index(a), self.actions.index(b)
        _, features = outputs(self.network, np.stack([self._seen(state), self._seen(other)]))
        both = Features(*(part[[0, 1], [x, y]] for part in features))
        return float(covariances(both, same, same and x == y)[0, 1])

    @property
    def equivalent_rollouts(self) -> float:
        """Number of rollouts that estimate a gap variance as accurately as the network; 4 without held-out states."""
        return 4.0 if self.calibration is None else equivalent_rollouts(self.calibration)

    @asks_for_seed
    def calibrate(
        self, *, seed: int, states: int = 160, rollouts: int = 24, pool: int | Pool | None = None
    ) -> Calibration:
        """Compare learned gaps with simulated ones in new states, which differ from those of training for any seed."""
        root = Shock.of_sample(seed, 0).derived(b"calibration")
        pairs = PairedRollouts(self.simulator, self.actor, self.coupling)
        walks = pairs.collect(held_out_plan(rollouts, self.horizon), seed=root.seed(), blocks=states, pool=pool)
        return calibration_of(self.network, walks, self.discount, seed)

    def to_xarray(self) -> xarray.Dataset:
        """The learning curve and, if states were held out, the gaps of `calibration`."""
        curve = self.learning
        found: xarray.Dataset = labelled_arrays().Dataset(
            {"rms": (("window", "block"), curve.rms), "drift": (("window", "block"), curve.drift)},
            {"block": list(curve.blocks), "updates": ("window", curve.updates)},
            {"outcome": self.outcome.name, "coupling": repr(self.coupling), "method": repr(self.method)},
        )
        if self.calibration is None:
            return found
        return self.calibration.to_xarray().merge(found).assign_attrs(found.attrs)

    def __repr__(self) -> str:
        return self._lines("updates", self._updates) + ("" if self.calibration is None else f"\n{self.calibration!r}")


def held_out_plan(rollouts: int, steps: int) -> WalkPlan:
    """Rollouts from held-out states, one in each block: states of one episode are alike, and intervals too narrow."""
    return WalkPlan(1, 320, rollouts, steps)


def calibration_of(
    network: GramNetwork, walks: PairWalks, discount: float, seed: int, closed_form: Floats | None = None
) -> Calibration:
    """Compare learned gaps with simulated ones, from several long rollouts per state."""
    returns = walks.returns(discount)
    every, M = returns.shape[1], len(returns)
    mean, covariance = _moments(network, walks.observation[::every, 0, 0])
    pairs = walks.action[::every, 0]
    return record_of(mean, covariance, pairs, np.arange(M), returns, seed, closed_form=closed_form)


def equivalent_rollouts(record: Calibration) -> float:
    """Number of rollouts, minus one, whose gap variances have the same relative error τ as the network's: 2/τ².

    With s² from n rollouts and true σ² = k(1 + τε): E[(s²/k)²] = (1 + τ²)(1 + 2/(n − 1)) for normal gaps.
    """
    n = record.returns.shape[1]
    ratio = record.simulated_variance / np.maximum(record.variance, 1e-12)
    if not ratio.mean() > 0:  # no simulated gap varied
        return 0.5
    ratio = ratio / ratio.mean()
    spread = float((ratio**2).mean()) / (1 + 2 / (n - 1)) - 1
    return float(np.clip(2 / max(spread, 1e-9), 0.5, 64.0))


def _moments(network: GramNetwork, observations: npt.NDArray[Any]) -> tuple[Floats, Floats]:
    """Means [n, A] and covariances [n, A, A] of all actions, for observations ``[n, ...]``."""
    mean, features = outputs(network, observations)
    return mean, np.asarray(covariances(features, True, np.eye(mean.shape[1], dtype=np.bool_)))
