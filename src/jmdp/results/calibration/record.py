"""Learned gaps beside Monte Carlo's, in states that were not learned from.

Simulations are noisy too, so every comparison comes with what the noise allows. Intervals are of two kinds. Over
states, the default: what other held-out states, and other rollouts of them, might have said. Over rollouts: these
states and no others, and what other rollouts might have said. Neither says what another run of learning would have
learned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Floats, Integers
from jmdp.base.interval import ANYWHERE, Estimate, Interval
from jmdp.errors import SettingsError
from jmdp.results.calibration import bootstrap, reliability, table
from jmdp.results.calibration.bootstrap import Ranks, StateBootstrap
from jmdp.results.calibration.judgement import Judgement


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(arrays.FrozenArrays):
    """Learned gaps against simulated ones, in states that were not learned from.

    States are taken as drawn from those one asks about, and rollouts of different states as independent. Rollout i of
    all gaps in one state may be under the same luck, or not.
    """

    state: Integers  # [M], the held-out state of each gap; several gaps may share one
    first: Integers  # [M], actions of the gap Z(state, first) − Z(state, second)
    second: Integers  # [M]
    mean: Floats  # [M], learned E[gap]
    variance: Floats  # [M], learned Var(gap); below 0 where a method does not forbid it
    independent: Floats  # [M], learned Var Z(first) + Var Z(second): what independent marginals would say
    returns: Floats  # [M, n, 2], simulated returns of both actions under the luck they share, n ≥ 4
    seed: int | tuple[int, ...]  # of the simulation; of all of them where records were joined
    closed_form: Floats | None = None  # [M], a formula without learning for Var(gap), where somebody has one

    def __post_init__(self) -> None:
        checked: dict[str, npt.NDArray[np.generic]] = {}
        for name in ("state", "first", "second"):
            whole = arrays.integers(name, getattr(self, name), "[M]", SettingsError)
            arrays.refuse_where(whole < 0, whole, name, "give numbers from 0 on", _at_gap, SettingsError)
            checked[name] = whole
        moments = ("mean", "variance", "independent") + (() if self.closed_form is None else ("closed_form",))
        for name, axes in (*((name, "[M]") for name in moments), ("returns", "[M, n, 2]")):
            real = arrays.floats(name, getattr(self, name), axes, SettingsError)
            arrays.refuse_where(~np.isfinite(real), real, name, "give finite numbers", _at_gap, SettingsError)
            checked[name] = real
        gaps = checked["state"].size
        if gaps == 0:
            raise SettingsError("state is empty. Give at least one gap.")
        for name, array in checked.items():
            if array.shape[0] != gaps:
                raise SettingsError(f"{name} is of {array.shape[0]} gaps, but state is of {gaps}. Give one row a gap.")
            arrays.frozen(array)
            object.__setattr__(self, name, array)
        if self.returns.shape[1] < 4 or self.returns.shape[2] != 2:
            raise SettingsError(
                f"returns has shape {self.returns.shape}. Its axes are [M, n, 2]: n ≥ 4 rollouts, the same number for "
                "every gap, and the returns of its first and its second action."
            )
        for seed in self.seeds:
            if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
                raise SettingsError(f"seed is {self.seed!r}. Give the whole number ≥ 0 that the simulation had.")

    @classmethod
    def joined(cls, parts: Sequence[Calibration]) -> Calibration:
        """One record of several, e.g. of runs that learned from different data; their states count as different ones.

        Where runs were held against the very same states and luck, build one record with common numbers of states
        instead, else intervals come out too narrow.
        """
        if not parts:
            raise SettingsError("There is no record to join.")
        lengths = sorted({part.rollouts for part in parts})
        if len(lengths) > 1:
            counts = " and ".join(map(str, lengths))
            raise SettingsError(
                f"The records have {counts} rollouts of each gap. Simulate alike, or cut all returns to {lengths[0]}."
            )
        formulas = [part.closed_form for part in parts if part.closed_form is not None]
        if len(formulas) not in (0, len(parts)):
            raise SettingsError(
                f"{len(formulas)} of {len(parts)} records have a closed form. Give it to all of them, or leave it out "
                "with dataclasses.replace(record, closed_form=None)."
            )
        before = np.cumsum([0, *(part.states for part in parts)])
        names = ("first", "second", "mean", "variance", "independent", "returns")
        stacked = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return cls(
            state=np.concatenate([part._place + start for part, start in zip(parts, before[:-1], strict=True)]),
            seed=tuple(dict.fromkeys(seed for part in parts for seed in part.seeds)),
            closed_form=np.concatenate(formulas) if formulas else None,
            **stacked,
        )

    @property
    def gaps(self) -> int:
        """M."""
        return self.state.size

    @property
    def states(self) -> int:
        """How many there are."""
        return self._over_states.states

    @property
    def rollouts(self) -> int:
        """n, of each gap."""
        return int(self.returns.shape[1])

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of the simulation, or of all that were joined."""
        return self.seed if isinstance(self.seed, tuple) else (self.seed,)

    @cached_property
    def simulated_mean(self) -> Floats:
        """[M], means of the simulated gaps."""
        return np.asarray(self._gap.mean(axis=1))

    @cached_property
    def simulated_variance(self) -> Floats:
        """[M], variances of the simulated gaps, without bias; 0 where nothing but rounding varies."""
        return self._variances(self._gap)

    @cached_property
    def simulated_mean_error(self) -> Floats:
        """[M], standard errors of `simulated_mean`."""
        return np.sqrt(self.simulated_variance / self.rollouts)

    @cached_property
    def simulated_variance_error(self) -> Floats:
        """[M], standard errors of `simulated_variance`, by the jackknife; too small where what is rare was not seen."""
        return np.sqrt(bootstrap.jackknife(self._squares))

    @cached_property
    def ratio(self) -> Estimate:
        """Σ learned variances / Σ simulated ones: 1 for a perfect learner; large variances count most.

        The interval is a studentised bootstrap of states, which misses less than percentiles where few states have most
        of the variance. Not a number where no gap varies, and no interval where all gaps are in one state.
        """
        return self._share(self.variance)

    @cached_property
    def independent_ratio(self) -> Estimate:
        """`ratio` for independent marginals: how much is lost by not asking for the luck that is shared."""
        return self._share(self.independent)

    @cached_property
    def closed_form_ratio(self) -> Estimate | None:
        """`ratio` of the closed form; None where there is none."""
        return None if self.closed_form is None else self._share(self.closed_form)

    @property
    def ratio_rollout_interval(self) -> Interval:
        """Where `ratio` may be in these very states: the simulation's own noise, and nothing else."""
        return self.over_rollouts(self.ratio)

    def over_rollouts(self, ratio: float) -> Interval:
        """The interval over rollouts of any of the three ratios, exp(ln ratio ± 1.96 e).

        e is the standard error of ln Σ simulated variances: the jackknife's of rollouts in each state, whose gaps may
        share their luck, added up over states. It is a little short where gaps are very skewed.
        """
        total = float(self.simulated_variance.sum())
        if total == 0:
            return ANYWHERE
        noise = math.sqrt(float(bootstrap.jackknife(self._over_states.sums(self._squares)).sum())) / total
        ends = (ratio * math.exp(side * bootstrap.NORMAL * noise) for side in (-1, 1))
        return Interval(*sorted(ends))

    @cached_property
    def gap_ratio(self) -> Estimate:
        """1 over the mean of simulated / learned variance, where every gap counts alike: 1 for a perfect learner.

        Simulated variances have no bias, so neither has their mean share of the learned ones, for any distribution of
        gaps and any number of rollouts; a median of learned / simulated would have. It is 0 where a gap that varies was
        learned as one that does not. Interval: a studentised bootstrap of states.
        """
        still = self.variance <= self._nothing
        if (still & (self._varies | (self.variance < -self._nothing))).any():
            return Estimate(0.0, 0.0, math.inf)
        share = np.divide(self.simulated_variance, self.variance, out=np.ones(self.gaps), where=~still)
        return self._over_states.quotient(np.ones(self.gaps), share, 0.0)

    @cached_property
    def variance_gain(self) -> Estimate:
        """Mean over gaps of ½(ln(c/k) + s²/c − s²/k): what learned variances k tell beyond one constant c, in nats.

        The log-likelihood that a rollout of normal gaps gains; for any distribution it is a proper score, so the noise
        of the simulated variances s² cancels in the difference. c is the mean of s², the best constant in these very
        states, so no constant has a gain above 0. A k below c/100 counts as c/100. Interval: a studentised bootstrap of
        states.
        """
        best = float(self.simulated_variance.mean())
        if best == 0:
            return bootstrap.UNKNOWN
        learned, simulated = np.maximum(self.variance / best, 0.01), self.simulated_variance / best
        gain = (simulated - simulated / learned - np.log(learned)) / 2
        return self._over_states.quotient(gain, np.ones(self.gaps))

    @cached_property
    def mean_gain(self) -> Estimate:
        """1 − Σ (learned − simulated)²/Σ simulated² of mean gaps: the share that is gained over the constant 0, no gap.

        Noise of simulated means keeps a perfect learner below 1. Interval: a studentised bootstrap of states.
        """
        size = float(max(np.abs(self.mean).max(), np.abs(self.simulated_mean).max())) or 1.0
        learned, simulated = self.mean / size, self.simulated_mean / size
        return self._over_states.quotient(simulated**2 - (learned - simulated) ** 2, simulated**2)

    @property
    def verdict(self) -> Judgement:
        """Of learned variances of gaps: `Judgement.USEFUL` where all of `variance_gain`'s interval is above 0."""
        return Judgement.of(self.variance_gain, varied=bool(self._varies.any()))

    @property
    def mean_verdict(self) -> Judgement:
        """The same of learned mean gaps, by `mean_gain`."""
        return Judgement.of(self.mean_gain, varied=bool((self.simulated_mean**2 > self._nothing).any()))

    @cached_property
    def rank_correlation(self) -> Estimate:
        """Spearman's, of learned and simulated variances across gaps: does it know where luck decides?

        Noise of the simulation holds it down: see `rank_ceiling`. Interval: percentiles over states.
        """
        learned, simulated = Ranks(self.variance), Ranks(self.simulated_variance)
        return self._over_states.percentiles(lambda w: bootstrap.rank_correlation(w, learned, simulated), (-1, 1))

    @cached_property
    def rank_reliability(self) -> Estimate:
        """How the ranks of simulated variances would agree with those of another simulation as long, from 0 to 1.

        Spearman's correlation r of two halves of the rollouts, averaged over random halvings and stepped up from n/2 to
        n rollouts by Spearman and Brown's 2r/(1 + r), which is exact for scores and near enough for ranks. Its
        interval is a little short: it held in about 9 of 10 simulations of normal gaps.
        """
        halves, n = reliability.halves(self._gap, self.seeds), self.rollouts
        pairs = [(Ranks(self._variances(one)), Ranks(self._variances(other))) for one, other in halves]
        return self._over_states.percentiles(
            lambda w: reliability.of_all([bootstrap.rank_correlation(w, one, other) for one, other in pairs], n), (0, 1)
        )

    @property
    def rank_ceiling(self) -> Estimate:
        """About the `rank_correlation` of a perfect learner: √reliability, as only one of the two is noisy."""
        return bootstrap.square_root(self.rank_reliability)

    @cached_property
    def mean_correlation(self) -> Estimate:
        """Σ xy/√(Σx² Σy²) of learned and simulated mean gaps: does it know which action is better, and by how much?

        Not Pearson's, which subtracts averages: which action is called first is arbitrary, and a gap turned round must
        change nothing. So 0 is the place to measure from. Its ceiling is `mean_ceiling`. Interval: percentiles over
        states.
        """
        return self._over_states.percentiles(lambda w: bootstrap.cosine(w, self.mean, self.simulated_mean), (-1, 1))

    @cached_property
    def mean_reliability(self) -> Estimate:
        """`rank_reliability` for mean gaps, with the correlation that `mean_correlation` is."""
        halves, n = reliability.halves(self._gap, self.seeds), self.rollouts
        one, other = np.mean(halves, axis=3).swapaxes(0, 1)  # each [halvings, M]
        return self._over_states.percentiles(lambda w: reliability.of_all(bootstrap.cosine(w, one, other), n), (0, 1))

    @property
    def mean_ceiling(self) -> Estimate:
        """About the `mean_correlation` of a perfect learner: √reliability."""
        return bootstrap.square_root(self.mean_reliability)

    @cached_property
    def mean_error(self) -> Estimate:
        """Root mean square error of learned mean gaps beyond the simulation's own noise, in units of return.

        √ of the mean of (learned − simulated)² − Var/n, which has no bias; 0 where noise alone explains it.
        """
        beyond = (self.mean - self.simulated_mean) ** 2 - self.simulated_variance / self.rollouts
        return bootstrap.square_root(self._over_states.quotient(beyond, np.ones(self.gaps)))

    def to_dict(self) -> dict[str, object]:
        """All numbers for JSON, each with its intervals, counts and seed; None for what is not known."""
        return table.calibration_dict(self)

    def __repr__(self) -> str:
        return table.calibration_table(self)

    @cached_property
    def _place(self) -> Integers:
        """[M], states numbered from 0 without holes."""
        return np.unique(self.state, return_inverse=True)[1].astype(np.int64)

    @cached_property
    def _over_states(self) -> StateBootstrap:
        return StateBootstrap(self._place, self.seeds)

    @cached_property
    def _gap(self) -> Floats:
        """[M, n]."""
        return np.asarray(self.returns[:, :, 0] - self.returns[:, :, 1])

    @cached_property
    def _nothing(self) -> Floats:
        """[M], variances up to this are rounding."""
        return np.asarray((bootstrap.ROUNDING * np.abs(self.returns).max(axis=(1, 2))) ** 2)

    def _variances(self, gap: Floats) -> Floats:
        found = gap.var(axis=1, ddof=1)
        return np.where(found > self._nothing, found, 0.0)

    @property
    def _varies(self) -> arrays.Booleans:
        return self.simulated_variance > 0

    @property
    def _squares(self) -> Floats:
        """[M, n], squared deviations of gaps from their means."""
        return np.where(self._varies[:, None], (self._gap - self.simulated_mean[:, None]) ** 2, 0.0)

    def _share(self, variance: Floats) -> Estimate:
        least = 0.0 if (variance >= 0).all() else -math.inf
        return self._over_states.quotient(variance, self.simulated_variance, least)


def _at_gap(at: Sequence[int]) -> str:
    return f"gap {at[0]}"
