"""MonteCarlo: joint moments from simulated branches, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Floats, Integers
from jmdp.base.labels import Label, Labels
from jmdp.base.luck import Shock
from jmdp.base.progress import state_bar
from jmdp.base.settings import probability, whole
from jmdp.errors import SettingsError
from jmdp.methods.kernels.tables import BranchTables, SampledReturns
from jmdp.methods.method import Method, check_table
from jmdp.methods.shared.return_range import ReturnRange
from jmdp.methods.shared.shaping import scaled_error, unit_rewards
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.certificate import Certificate
from jmdp.results.evaluation import Evaluation
from jmdp.results.outcome import Outcome
from jmdp.results.samples.sample_moments import sample_moments
from jmdp.results.samples.sampled_distributions import SampledDistributions
from jmdp.simulators.checking.sampling import check_before_sampling, check_repeatable
from jmdp.simulators.functions import TabularSimulator
from jmdp.simulators.rollouts import paired_draws
from jmdp.simulators.simulator import Draws, Simulator

_LONGEST = 100_000_000
"""Steps of a rollout beyond which it is not started."""

_STEPS_A_CALL = 5_000_000
"""Steps of branches that one call of the kernel may take: a fraction of a second."""

_BIAS_OVER_NOISE = 1e-3
"""Without a horizon, rollouts are cut where what is lost is this fraction of B/√samples."""


@dataclass(frozen=True, kw_only=True)
class MonteCarlo(Method[Evaluation]):
    """Joint moments from simulation: all actions of a state live through the same luck, again and again.

    Branches follow the recursive process that defines the joint distribution (paper, section 4, "one-step coupling"):
    they share what the coupling says they share, and branches that stand on the same state and action stay equal.
    States are simulated apart from one another, each from its own stream of random numbers, so adding a state changes
    no other's numbers.

    Intervals are the usual large-sample ones (Student's t, with the standard error of a sample covariance),
    widened by what cutting a rollout after `horizon` steps can hide. They know only what was sampled: an outcome
    too rare to be drawn even once is not in them.

    `Gap.distribution` and `Evaluation.return_distribution` give empirical distributions with a band that holds for the
    whole distribution at `confidence`; they draw the state's rollouts again.

    Parameters
    ----------
    seed
        Seed of all randomness; the same seed gives the same numbers.
    samples
        Rollouts of each state.
    confidence
        Of each interval on its own.
    horizon
        Steps of a rollout. None cuts where at most B/(1000 √samples) of the return is lost; on a simulator other than
        a table, whose steps cost more, where at most B/(1000 (1 − γ)) is. B is the largest reward; of a simulator that
        does not know it (`Simulator.largest_reward_from`), the largest met, and the certificate says so.
    states
        States of a simulator to evaluate. None is the state it starts in. For tables all are evaluated.
    """

    seed: int
    samples: int = 10_000
    confidence: float = 0.95
    horizon: int | None = None
    states: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        whole(self, "seed", 0)
        whole(self, "samples", 2)
        probability(self, "confidence")
        whole(self, "horizon", 1, _LONGEST, optional=True)
        if self.states is not None and (not isinstance(self.states, Sequence) or isinstance(self.states, str)):
            raise SettingsError(f"states is a {type(self.states).__name__}. Give a list of states.")
        if self.states is not None and not len(self.states):
            raise SettingsError("states is empty. Give the states to evaluate, or None for the one it starts in.")

    @property
    def _quantile(self) -> float:
        from scipy.special import stdtrit

        return float(stdtrit(self.samples - 1, (1 + self.confidence) / 2))

    def on_table(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, progress: bool) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        if self.states is not None:
            raise SettingsError("states are for simulators. Of a table all are evaluated; leave them out.")
        quantile = self._quantile
        S, _, A = model.shape
        sampler = _Sampler(model, policy, coupling, self)
        mean, mean_error = np.zeros((2, S, A))
        covariance, covariance_error, correlation_error, gap_mean_error, gap_variance_error = np.zeros((5, S, A, A))
        actions = np.arange(A)
        cut = sampler.lost
        for s in state_bar(type(self).__name__, np.flatnonzero(~model.terminal), progress):
            returns, _, _ = sampler.draw(int(s), actions)
            found = sample_moments(returns, quantile, cut)
            mean[s], mean_error[s], covariance[s] = found.mean, found.mean_error, found.covariance
            covariance_error[s], correlation_error[s] = found.covariance_error, found.correlation_error
            gap_mean_error[s], gap_variance_error[s] = found.gap_mean_error, found.gap_variance_error
        e, ranges = sampler.exponent, ReturnRange(model, policy)
        certificate = Certificate(
            kind="statistical",
            mean_error=scaled_error(mean_error, e),
            covariance_error=scaled_error(covariance_error, 2 * e),
            gap_mean_error=scaled_error(gap_mean_error, e),
            gap_variance_error=scaled_error(gap_variance_error, 2 * e),
            discount=model.discount,
            reward_bound=model.reward_bound,
            confidence=self.confidence,
            correlation_error=correlation_error,
            large_sample=True,
        )
        return Evaluation(
            mean=np.ldexp(mean, e),
            covariance=np.ldexp(covariance, 2 * e),
            certificate=certificate,
            outcome=Outcome.SAMPLED,
            coupling=coupling,
            method=self,
            states=model.states,
            actions=model.actions,
            residuals=np.zeros(0),
            distributions=SampledDistributions(
                sampler.draw_all,
                scaled_error(sampler.cut, e),
                scaled_error(sampler.rounding, e),
                ranges,
                self.confidence,
            ),
            ranges=ranges,
        )

    def on_simulator(
        self, simulator: Simulator, actor: Actor, coupling: Coupling, discount: float, progress: bool
    ) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        from jmdp.results.samples.drawn_evaluation import Limits, drawn_evaluation, known_reward_bound

        if simulator.actions is None:
            raise SettingsError("The actions of this simulator are not numbered. Use jmdp.compare(…, actions=[…]).")
        simulator.check_coupling(coupling)
        horizon = enough_steps_of(simulator, discount, self.horizon, self.samples)
        states = [simulator.start(Shock.of_sample(self.seed, 0))] if self.states is None else self.states
        bound = known_reward_bound(simulator, states, None)
        every = range(simulator.actions.size)

        def draw(s: int, actor: Actor, first: int, count: int = 1) -> Draws:
            return paired_draws(
                simulator, states[s], every, actor, coupling,
                discount=discount, horizon=horizon, seed=_seed_of(self.seed, s), first=first, count=count,
            )  # fmt: skip

        check_before_sampling(simulator, states[0], every, coupling)
        draws = [
            draw(s, actor, 0, self.samples) for s in state_bar(type(self).__name__, np.arange(len(states)), progress)
        ]
        check_repeatable(draws[0], simulator, states[0], actor, partial(draw, 0))
        return drawn_evaluation(
            draws,
            method=self,
            coupling=coupling,
            states=Labels.of("state", len(states), None),
            actions=simulator.actions,
            discount=discount,
            limits=Limits.of(draws, discount, horizon, bound),
            quantile=self._quantile,
            confidence=self.confidence,
        )


def gap_samples(
    model: TabularJMDP,
    policy: TabularPolicy,
    s: Label,
    a: Label,
    b: Label,
    *,
    seed: int,
    samples: int = 10_000,
    coupling: Coupling,
    horizon: int | None = None,
) -> Floats:
    """[samples], draws of Z(s, a) − Z(s, b) under shared luck.

    Settings as in `MonteCarlo`. A draw is cut after `horizon` steps, so it is off by at most 2 γ^horizon B/(1 − γ).
    """
    check_table(model, policy, coupling)
    state, pair = model.states.index(s), np.array([model.actions.index(a), model.actions.index(b)])
    sampler = _Sampler(model, policy, coupling, MonteCarlo(seed=seed, samples=samples, horizon=horizon))
    if pair[0] == pair[1]:  # one coordinate has one return
        return np.zeros(samples)
    returns, _, _ = sampler.draw(state, pair)
    return np.asarray(np.ldexp(returns[:, 0] - returns[:, 1], sampler.exponent))


class _Sampler:
    """The tables as the kernel wants them, on rewards divided by 2**exponent, and how long a rollout is."""

    def __init__(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, settings: MonteCarlo) -> None:
        self.seed, self.samples = settings.seed, settings.samples
        self._actions = model.shape[2]
        gamma = model.discount
        self.horizon = settings.horizon or enough_steps(gamma, _BIAS_OVER_NOISE / math.sqrt(self.samples))
        if self.horizon > _LONGEST:
            raise SettingsError(
                f"At discount {gamma!r} a rollout needs {self.horizon} steps before what is left is negligible. "
                "Name a horizon (what it cuts off is then in the intervals), or use ExactPairs()."
            )
        self.exponent, bound, reward = unit_rewards(model)
        # What the steps not taken, and rounding in the sum of those taken, can amount to.
        most = bound / (1 - gamma)
        self.cut, self.rounding = gamma**self.horizon * most, (self.horizon + 64) * ROUNDOFF * most
        self.lost = self.cut + self.rounding
        self._discount, self._tables = gamma, BranchTables.of(model, policy, coupling, reward)

    def draw(self, state: int, actions: Integers) -> tuple[Floats, Integers, Integers]:
        """[samples, actions], returns of these actions from one state; ends and gains as in `sample_returns`."""
        from jmdp.methods.kernels.branches import sample_returns

        rng = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(self.seed, spawn_key=(state,))))
        out = np.empty((self.samples, actions.size))
        ends, gains = np.empty((2, self.samples, actions.size), np.int64)
        # In pieces, for an interrupt is noticed only between calls of the kernel; the numbers are the same.
        rows = max(1, _STEPS_A_CALL // (self.horizon * actions.size))
        for start in range(0, self.samples, rows):
            part = slice(start, start + rows)
            block = SampledReturns(out[part], ends[part], gains[part])
            sample_returns(rng, self._tables, self._discount, self.horizon, state, actions, block)
        return out, ends, gains

    def draw_all(self, state: int) -> tuple[Floats, Integers, Integers]:
        """Draw all actions, on rewards as they were given."""
        returns, ends, gains = self.draw(state, np.arange(self._actions))
        return np.ldexp(returns, self.exponent), ends, gains


def _seed_of(seed: int, state: int) -> int:
    """A seed for each state, so that their luck is apart."""
    return int.from_bytes(Shock.of_sample(seed, state).derived(b"state").words[:7], "little")


def enough_steps_of(simulator: Simulator, discount: float, horizon: int | None, samples: int) -> int:
    """The horizon of rollouts of a simulator, or say that one is needed. A table's horizon is that of the table."""
    if horizon is not None:
        return horizon
    if discount > 1 - 1e-5:
        raise SettingsError(f"With discount {discount!r} rollouts would be too long. Say how many steps: horizon=….")
    table = isinstance(simulator, TabularSimulator)
    return enough_steps(discount, _BIAS_OVER_NOISE / math.sqrt(samples) if table else 1e-3 / (1 - discount))


def enough_steps(discount: float, lost: float) -> int:
    """Return the least horizon T ≥ 1 with γ^T/(1 − γ) ≤ lost."""
    if discount == 0:
        return 1
    return max(1, math.ceil(math.log(lost * (1 - discount)) / math.log(discount)))
