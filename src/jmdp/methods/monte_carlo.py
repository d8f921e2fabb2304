"""MonteCarlo: joint moments from simulated branches, with confidence intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from jmdp.arrays import Floats, Integers, cumulative_rows
from jmdp.coupling import Coupling, Local
from jmdp.errors import SettingsError
from jmdp.evaluation import UNIT, Certificate, Evaluation, Outcome
from jmdp.labels import Label
from jmdp.methods.method import Method
from jmdp.methods.progress import state_bar
from jmdp.methods.settings import at_least
from jmdp.model import TabularJMDP
from jmdp.policy import TabularPolicy

_STEPS_A_CALL = 5_000_000
"""Steps of branches that one call of the kernel may take: a fraction of a second."""

_BIAS_OVER_NOISE = 1e-3
"""Without a horizon, rollouts are cut where what is lost is this fraction of B/√samples."""


@dataclass(frozen=True, kw_only=True)
class MonteCarlo(Method):
    """Joint moments from simulation: all actions of a state live through the same luck, again and again.

    Branches follow the recursive process that defines the joint law (paper, section 4, "one-step coupling"): they share
    what the coupling says they share, and branches that stand on the same state and action stay equal. States are
    simulated apart from one another, each from its own stream of random numbers, so adding a state changes no
    other's numbers.

    Intervals are the usual large-sample ones (Student's t, with the standard error of a sample covariance),
    widened by what cutting a rollout after `horizon` steps can hide. They know only what was sampled: an outcome
    too rare to be drawn even once is not in them.

    Parameters
    ----------
    seed
        Seed of all randomness; the same seed gives the same numbers.
    samples
        Rollouts of each state.
    confidence
        Of each interval on its own.
    horizon
        Steps of a rollout. None cuts where at most B/(1000 √samples) of the return is lost.
    """

    seed: int
    samples: int = 10_000
    confidence: float = 0.95
    horizon: int | None = None

    def __post_init__(self) -> None:
        at_least("seed", self.seed, 0)
        at_least("samples", self.samples, 2)
        if self.horizon is not None:
            at_least("horizon", self.horizon, 1)
        if not 0 < self.confidence < 1:
            raise SettingsError(f"confidence is {self.confidence!r}. Give a probability, e.g. 0.95.")

    def run(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, progress: bool) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        from scipy.special import stdtrit

        S, _, A = model.shape
        sampler = _Sampler(model, policy, coupling, self.seed, self.samples, self.horizon)
        quantile = float(stdtrit(self.samples - 1, (1 + self.confidence) / 2))
        mean, covariance = np.zeros((S, A)), np.zeros((S, A, A))
        mean_error, covariance_error = np.zeros((S, A)), np.zeros((S, A, A))
        gap_mean_error, gap_variance_error = np.zeros((S, A, A)), np.zeros((S, A, A))
        correlation_error = np.zeros((S, A, A))
        actions = np.arange(A)
        for s in state_bar(type(self).__name__, np.flatnonzero(~model.terminal), progress):
            returns = sampler.draw(int(s), actions)
            mean[s] = returns.mean(axis=0)
            returns -= mean[s]
            covariance[s], noise = _covariance(returns[:, :, None], returns[:, None, :])
            std = np.sqrt(np.diag(covariance[s]))
            cut = sampler.lost
            mean_error[s] = quantile * std / math.sqrt(self.samples) + cut
            covariance_error[s] = quantile * noise + cut * (std[:, None] + std) + cut * cut
            correlation_error[s] = quantile * _correlation_noise(returns, std)
            inverse = 1 / np.where(std > cut, std, np.inf)
            correlation_error[s] += 2 * cut * (inverse[:, None] + inverse)
            for a in range(A):
                gaps = returns[:, [a]] - returns
                variance, noise = _covariance(gaps, gaps)
                gap_mean_error[s, a] = quantile * np.sqrt(variance / self.samples) + 2 * cut
                gap_variance_error[s, a] = quantile * noise + 4 * cut * np.sqrt(variance) + 4 * cut * cut
        certificate = Certificate(
            "statistical",
            mean_error,
            covariance_error,
            gap_mean_error,
            gap_variance_error,
            model.discount,
            model.reward_bound,
            self.confidence,
            correlation_error,
        )
        return Evaluation(
            mean, covariance, certificate, Outcome.SAMPLED, coupling, self, model.states, model.actions, np.zeros(0)
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
    coupling: Coupling = Local(),
    horizon: int | None = None,
) -> Floats:
    """[samples], draws of Z(s, a) − Z(s, b) under shared luck.

    Settings as in `MonteCarlo`. A draw is cut after `horizon` steps, so it is off by at most 2 γ^horizon B/(1 − γ).
    """
    policy.check_fits(model)
    coupling.check_fits(model)
    settings = MonteCarlo(seed=seed, samples=samples, horizon=horizon)
    sampler = _Sampler(model, policy, coupling, settings.seed, settings.samples, settings.horizon)
    pair = np.array([model.actions.index(a), model.actions.index(b)])
    returns = sampler.draw(model.states.index(s), pair)
    return np.asarray(returns[:, 0] - returns[:, 1])


class _Sampler:
    """The tables as the kernel wants them, and how long a rollout is."""

    def __init__(
        self,
        model: TabularJMDP,
        policy: TabularPolicy,
        coupling: Coupling,
        seed: int,
        samples: int,
        horizon: int | None,
    ) -> None:
        self.seed, self.samples = seed, samples
        self.horizon = horizon or enough_steps(model.discount, _BIAS_OVER_NOISE / math.sqrt(samples))
        # What the steps not taken, and rounding in the sum of those taken, can amount to.
        slip = model.discount**self.horizon + (self.horizon + 64) * UNIT
        self.lost = slip * model.reward_bound / (1 - model.discount)
        self._tables = (
            cumulative_rows(model.prob),
            model.reward,
            model.next_state,
            model.terminal,
            cumulative_rows(policy.probs),
            coupling.shared_in_a_state,
            coupling.shared_between_states,
            coupling.policy_luck == "shared",
            model.discount,
            self.horizon,
        )

    def draw(self, state: int, actions: Integers) -> Floats:
        """[samples, actions], returns of these actions from one state."""
        from jmdp.kernels.branches import sample_returns

        rng = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(self.seed, spawn_key=(state,))))
        out = np.empty((self.samples, actions.size))
        # In pieces, for an interrupt is noticed only between calls of the kernel; the numbers are the same.
        rows = max(1, _STEPS_A_CALL // (self.horizon * actions.size))
        for start in range(0, self.samples, rows):
            sample_returns(rng, *self._tables, state, actions, out[start : start + rows])
        return out


def enough_steps(discount: float, lost: float) -> int:
    """Return the least horizon T ≥ 1 with γ^T/(1 − γ) ≤ lost."""
    if discount == 0:
        return 1
    return max(1, math.ceil(math.log(lost * (1 - discount)) / math.log(discount)))


def _covariance(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Covariance over axis 0 of centred samples, and its standard error.

    Var(ĉ) = (μ₂₂ − c²)/n + (σ_x² σ_y² + c²)/(n(n − 1)). The second term is what is left where x y does not vary, as for
    a fair coin, whose sample variance errs by 1/n and not by 1/√n.
    """
    n = max(x.shape[0], y.shape[0])
    product = x * y
    covariance = product.sum(axis=0) / (n - 1)
    spread = np.maximum(0.0, (product * product).mean(axis=0) - product.mean(axis=0) ** 2)
    variances = (x * x).mean(axis=0) * (y * y).mean(axis=0)
    return covariance, np.sqrt(spread / n + (variances + covariance**2) / (n * (n - 1)))


def _correlation_noise(centred: Floats, std: Floats) -> Floats:
    """[A, A], standard errors of sample correlations: of the mean of x y − ρ (x² + y²)/2 on standardised samples."""
    n = centred.shape[0]
    unit = centred / np.where(std > 0, std, 1.0)
    product = unit[:, :, None] * unit[:, None, :]
    square = unit * unit
    influence = product - product.mean(axis=0) * (square[:, :, None] + square[:, None, :]) / 2
    return np.asarray(influence.std(axis=0) / math.sqrt(n))
