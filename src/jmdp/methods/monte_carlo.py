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
from jmdp.methods.method import Method, check_table
from jmdp.methods.progress import state_bar
from jmdp.methods.return_range import ReturnRange
from jmdp.methods.sampled_laws import SampledLaws
from jmdp.methods.shaping import scaled_error, unit_rewards
from jmdp.model import TabularJMDP
from jmdp.policy import TabularPolicy
from jmdp.settings import probability, whole

_LONGEST = 100_000_000
"""Steps of a rollout beyond which it is not started."""

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

    `Gap.law` and `Evaluation.return_law` give empirical laws with a band that holds for the whole law at `confidence`;
    they draw the state's rollouts again.

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
        whole(self, "seed", 0)
        whole(self, "samples", 2)
        probability(self, "confidence")
        whole(self, "horizon", 1, _LONGEST, optional=True)

    def run(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, progress: bool) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        from scipy.special import stdtrit

        S, _, A = model.shape
        sampler = _Sampler(model, policy, coupling, self)
        quantile = float(stdtrit(self.samples - 1, (1 + self.confidence) / 2))
        mean, mean_error = np.zeros((2, S, A))
        covariance, covariance_error, correlation_error, gap_mean_error, gap_variance_error = np.zeros((5, S, A, A))
        actions = np.arange(A)
        cut = sampler.lost
        for s in state_bar(type(self).__name__, np.flatnonzero(~model.terminal), progress):
            returns, _, _ = sampler.draw(int(s), actions)
            mean[s] = returns.mean(axis=0)
            returns -= mean[s]
            std = returns.std(axis=0, ddof=1)
            inverse = 1 / np.where(std > cut, std, np.inf)
            mean_error[s] = quantile * std / math.sqrt(self.samples) + cut
            for a in range(A):
                own = returns[:, [a]]
                covariance[s, a], noise = _covariance(own, returns)
                covariance_error[s, a] = quantile * noise + cut * (std[a] + std) + cut * cut
                noise = _correlation_noise(own * inverse[a], returns * inverse)
                correlation_error[s, a] = quantile * noise + 2 * cut * (inverse[a] + inverse)
                gaps = own - returns
                variance, noise = _covariance(gaps, gaps)
                gap_mean_error[s, a] = quantile * np.sqrt(variance / self.samples) + 2 * cut
                gap_variance_error[s, a] = quantile * noise + 4 * cut * np.sqrt(variance) + 4 * cut * cut
        e, ranges = sampler.exponent, ReturnRange(model, policy)
        certificate = Certificate(
            "statistical",
            scaled_error(mean_error, e),
            scaled_error(covariance_error, 2 * e),
            scaled_error(gap_mean_error, e),
            scaled_error(gap_variance_error, 2 * e),
            model.discount,
            model.reward_bound,
            self.confidence,
            correlation_error,
        )
        return Evaluation(
            np.ldexp(mean, e),
            np.ldexp(covariance, 2 * e),
            certificate,
            Outcome.SAMPLED,
            coupling,
            self,
            model.states,
            model.actions,
            np.zeros(0),
            laws=SampledLaws(
                sampler.draw_all,
                scaled_error(sampler.cut, e),
                scaled_error(sampler.rounding, e),
                ranges,
                self.confidence,
            ),
            ranges=ranges,
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
        self.cut, self.rounding = gamma**self.horizon * most, (self.horizon + 64) * UNIT * most
        self.lost = self.cut + self.rounding
        self._tables = (
            cumulative_rows(model.prob),
            reward,
            model.next_state,
            model.terminal,
            cumulative_rows(policy.probs),
            coupling.shared_in_a_state,
            coupling.shared_between_states,
            coupling.policy_luck == "shared",
            gamma,
            self.horizon,
        )

    def draw(self, state: int, actions: Integers) -> tuple[Floats, Integers, Integers]:
        """[samples, actions], returns of these actions from one state; ends and gains as in `sample_returns`."""
        from jmdp.kernels.branches import sample_returns

        rng = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(self.seed, spawn_key=(state,))))
        out = np.empty((self.samples, actions.size))
        ends, gains = np.empty((2, self.samples, actions.size), np.int64)
        # In pieces, for an interrupt is noticed only between calls of the kernel; the numbers are the same.
        rows = max(1, _STEPS_A_CALL // (self.horizon * actions.size))
        for start in range(0, self.samples, rows):
            part = slice(start, start + rows)
            sample_returns(rng, *self._tables, state, actions, out[part], ends[part], gains[part])
        return out, ends, gains

    def draw_all(self, state: int) -> tuple[Floats, Integers, Integers]:
        """Draw all actions, on rewards as they were given."""
        returns, ends, gains = self.draw(state, np.arange(self._actions))
        return np.ldexp(returns, self.exponent), ends, gains


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
    n = x.shape[0]
    product = x * y
    covariance = product.sum(axis=0) / (n - 1)
    spread = product.var(axis=0)
    variances = (x * x).mean(axis=0) * (y * y).mean(axis=0)
    return covariance, np.sqrt(spread / n + (variances + covariance**2) / (n * (n - 1)))


def _correlation_noise(x: Floats, y: Floats) -> Floats:
    """Standard errors of sample correlations: of the mean of x y − ρ (x² + y²)/2 on standardised samples."""
    product = x * y
    influence = product - product.mean(axis=0) * (x * x + y * y) / 2
    return np.asarray(influence.std(axis=0) / math.sqrt(x.shape[0]))
