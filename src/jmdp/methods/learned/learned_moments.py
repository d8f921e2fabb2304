"""LearnedMoments: regressions that learn the joint moments of returns for every state, without settings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.base.progress import count_bar
from jmdp.base.settings import asks_for_seed, nonnegative, whole
from jmdp.distribute.pools import Pool, one_thread
from jmdp.distribute.process_pool import check_pool, pool_of
from jmdp.errors import MissingExtraError, PolicyError, SettingsError
from jmdp.methods.learned.candidates import Moments
from jmdp.methods.learned.inputs import Inputs
from jmdp.methods.learned.learned_result import RegressedEvaluation, actors_of, gap_variances, judged
from jmdp.methods.learned.stack import CovarianceStack, MeanStack, covariance_rows, variation
from jmdp.methods.learned.visited import (
    BLOCK,
    FEWEST_BLOCKS,
    ROLLOUTS,
    VisitedStates,
    VisitPlan,
    blocks_within,
    calibration_of,
)
from jmdp.methods.method import COVERS, Method
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.results.calibration import Calibration
from jmdp.results.certificate import Outcome
from jmdp.simulators.rollouts.pair_walks import paired_actions
from jmdp.simulators.rollouts.plan import reference_steps
from jmdp.simulators.simulator import Simulator

_HELD_OUT_ROLLOUTS = 8
_FEWEST_HELD_OUT = 8

_CERTAIN = 24
"""Blocks after which the simulation ends if no gap has varied."""


@asks_for_seed
@dataclass(frozen=True, kw_only=True)
class LearnedMoments(Method["RegressedEvaluation"]):
    """Joint moments of returns for every state of a simulator, by regression on visited states. No setting is needed.

    In states of different episodes of the policy, all actions are simulated four times under shared randomness. Means
    and covariance matrices are regressed on the observation by several candidates: the average of all states, of equal
    observations, of nearest neighbours, extremely randomised trees, gamma regression, and for means linear regression.
    The answer is their average, with the weights that predict states best which were not used to fit them.
    Covariance matrices stay positive semidefinite, because candidates average or scale whole matrices.

    Every seventh block of states is held out and simulated eight times. They judge the result: TRAINED if gap
    variances are better than one constant per pair of actions (95% interval of the gain in score above 0). Otherwise
    the constant is the answer, and `RegressedEvaluation.advice` says what may help. Few rollouts in many states are
    better than many in few.

    Several policies, {"old": p, "new": q}, visit states in turn, in which all of them are simulated. The answer is then
    the moments of their returns, and the gap of two policies, in any state.

    Needs ``pip install "jmdp[learn]"``. The result is a `RegressedEvaluation`.

    Parameters
    ----------
    seed
        Random seed; the same seed gives the same numbers, unless `max_seconds` ends the simulation.
    max_steps
        Largest number of simulated steps, without those in held-out states. By default 4 (72,000 + 1,536 T) for
        rollouts of T steps, where γ^T ≤ 0.01, in at most 2,000 states; with `max_steps` in at most 200,000, and at
        least 64.
    max_seconds
        Time after which no new states are simulated; the regressions follow.
    pool
        Number of worker processes that simulate, or a `ProcessPool`; None uses this process. Results do not depend on
        it.
    """

    covers = COVERS["LearnedMoments(seed=…)"]

    seed: int
    max_steps: int | None = None
    max_seconds: float | None = None
    pool: int | Pool | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        whole(self, "seed", 0)
        whole(self, "max_steps", 1, optional=True)
        if self.max_seconds is not None:
            nonnegative(self, "max_seconds")
        object.__setattr__(self, "pool", check_pool(self.pool))

    def on_simulator(
        self, simulator: Simulator, actor: Actor, coupling: Coupling, discount: float, progress: bool
    ) -> RegressedEvaluation:
        """Evaluate; see `jmdp.evaluate`."""
        return self._learn(simulator, actor, paired_actions(simulator, coupling), coupling, discount, progress)

    def on_simulated_policies(
        self, simulator: Simulator, actors: Mapping[str, Actor], coupling: Coupling, discount: float, progress: bool
    ) -> RegressedEvaluation:
        """Evaluate; see `jmdp.evaluate`."""
        if len(actors) < 2:
            raise PolicyError('There is one policy, but a gap needs two. Give {"old": p, "new": q}.')
        simulator.check_coupling(coupling)
        policies = Labels.of("policy", len(actors), list(actors))
        return self._learn(simulator, actors, policies, coupling, discount, progress)

    def _learn(
        self,
        simulator: Simulator,
        actor: Actor | Mapping[str, Actor],
        actions: Labels,
        coupling: Coupling,
        discount: float,
        progress: bool,
    ) -> RegressedEvaluation:
        _check(discount)
        horizon = reference_steps(discount)
        if simulator.episode_limit is not None:
            horizon = min(horizon, simulator.episode_limit)
        blocks = blocks_within(self.max_steps, actions.size, horizon)
        seed = Shock.of_sample(self.seed, 0).derived(b"states").seed()
        plan = VisitPlan(simulator, actors_of(actor), coupling, discount, horizon, seed)
        train, held_out, interrupted = self._simulate(plan, blocks, progress)
        inputs = Inputs.of(train.observation)
        constant = CovarianceStack.constant(train.returns)
        varied = _varied(train)
        x = inputs(train.observation)
        with one_thread():  # more threads are slower, and change the last bits
            means = MeanStack.fit(x, train.returns)
            covariances = CovarianceStack.fit(x, train.returns) if varied else constant
        average = Moments(actions.size).matrices(constant(x[:1]))[0]

        seen = inputs(held_out.observation)
        predicted_means, reference = means(seen), gap_variances(average)

        def record_of(chosen: CovarianceStack) -> Calibration:
            covariance = Moments(actions.size).matrices(chosen(seen))
            return calibration_of(held_out, predicted_means, covariance, reference, self.seed)

        record = record_of(covariances)
        if judged(record) is not Outcome.TRAINED:
            covariances, record = constant, record_of(constant)
        return RegressedEvaluation(
            simulator=simulator,
            actor=actor,
            coupling=coupling,
            method=self,
            discount=discount,
            horizon=horizon,
            actions=actions,
            outcome=Outcome.INTERRUPTED if interrupted else judged(record),
            calibration=record,
            observation=(train.observation.shape[1:], train.observation.dtype.str),
            inputs=inputs,
            mean_stack=means,
            covariance_stack=covariances,
            constant=average,
            states=len(train.returns),
            rollouts=ROLLOUTS,
            variation=variation(train.returns) if varied else 0.0,
        )

    def _simulate(self, plan: VisitPlan, blocks: int, progress: bool) -> tuple[VisitedStates, VisitedStates, bool]:
        """Visited states for the regressions, held-out ones, and whether the simulation was interrupted."""
        every = max(1, blocks // max(_FEWEST_HELD_OUT, blocks // 6))
        kinds = [i % (every + 1) == every for i in range(blocks + max(_FEWEST_HELD_OUT, blocks // every))]
        parts: tuple[list[VisitedStates], list[VisitedStates]] = [], []
        begun, interrupted = time.monotonic(), False
        jobs = ((i, _HELD_OUT_ROLLOUTS if kind else ROLLOUTS, kind) for i, kind in enumerate(kinds))
        with count_bar("LearnedMoments", progress, 0, BLOCK * len(kinds)) as report, pool_of(self.pool) as workers:
            try:
                for i, part in enumerate(workers.ordered(plan, jobs)):
                    parts[kinds[i]].append(part)
                    report(BLOCK * (i + 1))
                    late = self.max_seconds is not None and time.monotonic() - begun > self.max_seconds
                    if _enough(parts) and (late or (i == _CERTAIN - 1 and not _varied(VisitedStates.joined(parts[0])))):
                        break
            except KeyboardInterrupt:
                if not _enough(parts):
                    raise
                interrupted = True
        return VisitedStates.joined(parts[0]), VisitedStates.joined(parts[1]), interrupted


def _check(discount: float) -> None:
    try:
        import sklearn.ensemble
        import sklearn.linear_model  # noqa: F401 (before the simulation, and before threads are limited)
    except ImportError:
        raise MissingExtraError('LearnedMoments needs scikit-learn: pip install "jmdp[learn]"') from None
    if discount >= 1:
        raise SettingsError("LearnedMoments needs a discount below 1.")


def _enough(parts: tuple[list[VisitedStates], list[VisitedStates]]) -> bool:
    return len(parts[0]) >= FEWEST_BLOCKS and len(parts[1]) >= 1


def _varied(visited: VisitedStates) -> bool:
    """Whether any gap varied beyond rounding errors."""
    pairs = len(Moments(visited.returns.shape[2]).pairs[0])
    rounding = float((1e-12 * np.abs(visited.returns).max()) ** 2)
    return bool((covariance_rows(visited.returns)[:, :pairs] > rounding).any())
