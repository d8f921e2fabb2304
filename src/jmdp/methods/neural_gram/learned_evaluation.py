"""Result of `NeuralGram`: learned joint moments at any state, with their calibration in held-out states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Floats
from jmdp.base.labels import Label, Labels
from jmdp.base.luck import Shock
from jmdp.base.savable import Reportable, Savable
from jmdp.base.settings import asks_for_seed, short
from jmdp.distribute.pools import Pool
from jmdp.errors import SimulatorError, UnavailableError
from jmdp.methods.method import Method
from jmdp.methods.neural_gram.lookahead import Lookahead
from jmdp.methods.neural_gram.lookahead_rollouts import LookaheadSimulation
from jmdp.methods.neural_gram.network import Features, GramNetwork, covariances, outputs
from jmdp.models.actors.actor import Actor, numpy_of
from jmdp.models.coupling import Coupling
from jmdp.results.calibration import Calibration, Judgement
from jmdp.results.certificate import Outcome
from jmdp.results.evaluation import Evaluation
from jmdp.results.result import LearningCurve, labelled_arrays
from jmdp.results.text import html_of
from jmdp.simulators.rollouts.pair_walks import PairedRollouts, PairWalks, WalkPlan
from jmdp.simulators.simulator import Simulator

if TYPE_CHECKING:
    import pandas as pd
    import xarray
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class LearnedEvaluation(Savable, Reportable):
    """Joint moments of returns learned by a network, for any state of the simulator.

    There is no certificate. `calibration` compares learned gaps with simulated ones in held-out states. `outcome` is
    its verdict: whether learned gap variances are better than one constant for all states. The same states decide when
    training stops, so `calibrate` with another seed is a stricter test.
    """

    network: GramNetwork
    simulator: Simulator
    actor: Actor
    coupling: Coupling
    method: Method[LearnedEvaluation]
    discount: float
    horizon: int  # steps of the simulated reference rollouts
    actions: Labels
    outcome: Outcome
    learning: LearningCurve
    calibration: Calibration | None
    observation: tuple[tuple[int, ...], str]  # shape and dtype
    encoder: Any  # its settings, or the user's own

    certificate = None

    def at(self, state: Any, lookahead: Lookahead | None = None) -> Evaluation:
        """Return the evaluation of one state, named "here": ``learned.at(state).gap(0, a, b)``.

        Covariance matrices are always positive semidefinite. A `lookahead` simulates some steps first.
        """
        if lookahead is None:
            mean, covariance = _moments(self.network, self._seen(state)[None])
        else:
            simulation = LookaheadSimulation(self.simulator, self.actor, self.coupling, self.actions)
            rollouts = simulation.run(state, lookahead, self.discount)
            mean, covariance = rollouts.moments(self.network, self.equivalent_rollouts)
        return Evaluation(
            mean=mean,
            covariance=covariance,
            certificate=None,
            outcome=self.outcome,
            coupling=self.coupling,
            method=self.method,
            states=Labels.of("state", 1, ["here"]),
            actions=self.actions,
            residuals=np.zeros(0),
        )

    def connected(self, simulator: Any, policy: Any) -> LearnedEvaluation:
        """Give an evaluation from a file (`jmdp.load`) its simulator and policy, as in `jmdp.evaluate`.

        Without them, `at` takes an observation instead of a state, and nothing can be simulated.
        """
        from jmdp.models.actors.as_policy import as_policy
        from jmdp.simulators import as_simulator

        found = as_simulator(simulator)
        if found.actions is None or list(found.actions) != list(self.actions):
            raise SimulatorError(f"The actions of {short(simulator)} are not those that were learned.")
        return replace(self, simulator=found, actor=as_policy(policy, found.actions))

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
        root, spacing = Shock.of_sample(seed, 0).derived(b"calibration"), 40
        plan = WalkPlan(min(states, 16), spacing, rollouts, self.horizon)
        pairs = PairedRollouts(self.simulator, self.actor, self.coupling)
        walks = pairs.collect(plan, seed=root.seed(), blocks=-(-states // plan.visits), pool=pool)
        return calibration_of(self.network, walks, self.discount, seed)

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each gap in a held-out state: learned and simulated mean and variance."""
        return self._judged.to_dataframe()

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

    def plot(self) -> Figure:
        """Draw `jmdp.plots.calibration_scatter` of the held-out states."""
        return self._judged.plot()

    @property
    def _judged(self) -> Calibration:
        if self.calibration is None:
            raise UnavailableError("No states were held out. Train with held_out=…, or use calibrate(seed=…).")
        return self.calibration

    def _repr_html_(self) -> str:
        return html_of(repr(self))

    def _seen(self, state: Any) -> npt.NDArray[Any]:
        return np.asarray(numpy_of(self.simulator.observe(state)))

    @property
    def _so_far(self) -> str:
        """Verdict on a network whose training was interrupted; other outcomes are verdicts themselves."""
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
    """Return the outcome of an uninterrupted run, given its calibration."""
    return Outcome.NOT_JUDGED if record is None else _OUTCOMES[record.verdict]


_OUTCOMES = {
    Judgement.USEFUL: Outcome.TRAINED,
    Judgement.NOT_BETTER: Outcome.NOT_BETTER,
    Judgement.NOTHING_VARIED: Outcome.NOTHING_VARIED,
}


def calibration_of(
    network: GramNetwork, walks: PairWalks, discount: float, seed: int, closed_form: Floats | None = None
) -> Calibration:
    """Compare learned gaps with simulated ones, from several long rollouts per state."""
    returns = walks.returns(discount)
    every, M = returns.shape[1], len(returns)
    mean, covariance = _moments(network, walks.observation[::every, 0, 0])
    i, (a, b) = np.arange(M), walks.action[::every, 0].T
    own = covariance[i, a, a] + covariance[i, b, b]
    return Calibration(
        state=i,
        first=a,
        second=b,
        mean=mean[i, a] - mean[i, b],
        variance=np.maximum(own - 2 * covariance[i, a, b], 0.0),
        independent=own,
        returns=returns,
        seed=seed,
        closed_form=closed_form,
    )


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
