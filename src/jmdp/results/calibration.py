"""Calibration of learned gaps against Monte Carlo gaps in held-out states.

Simulated gaps are noisy, so every statistic has an interval. There are two kinds. Intervals over states, the default,
cover the choice of held-out states and of their rollouts. Intervals over rollouts cover the choice of rollouts for
these states only. Neither covers the variation between training runs.

Split-half reliability of simulated gaps: expected correlation with a second simulation of the same size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Floats, Integers
from jmdp.base.interval import ANYWHERE, Estimate, Interval
from jmdp.base.rounding import counted
from jmdp.base.savable import Reportable, Savable
from jmdp.base.settings import instance, number, short, whole_number
from jmdp.errors import SettingsError
from jmdp.results import bootstrap
from jmdp.results.bootstrap import CONFIDENCE, Judgement, Ranks, StateBootstrap
from jmdp.results.result import Tabulated, figure, labelled_arrays
from jmdp.results.text import lines, written

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


_HALVINGS = 16


def split_halves(gap: Floats, seeds: Sequence[int]) -> list[tuple[Floats, Floats]]:
    """Random splits of simulated gaps [M, n] into two halves, the same in all states; an odd rollout is dropped."""
    n = gap.shape[1]
    half, generator = n // 2, bootstrap.generator(seeds, b"halves of rollouts")
    orders = [generator.permutation(n) for _ in range(_HALVINGS)]
    return [(gap[:, order[:half]], gap[:, order[half : 2 * half]]) for order in orders]


def reliability_of(correlations: Sequence[Floats] | Floats, rollouts: int) -> Floats:
    """Spearman–Brown reliability k r/(1 + (k − 1) r), with r the mean split-half correlation and k = n/(n // 2)."""
    longer, r = rollouts / (rollouts // 2), np.maximum(np.mean(correlations, axis=0), 0.0)
    return np.asarray(longer * r / (1 + (longer - 1) * r))


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(arrays.FrozenArrays, Tabulated, Savable, Reportable):
    """Learned gaps and simulated gaps in held-out states, with statistics of their agreement.

    Held-out states are assumed to be drawn independently of each other from the distribution of interest, and rollouts
    of different states to be independent. States of one episode are alike, so intervals are too narrow for them.
    Rollouts with the same index of different gaps in one state may share random numbers.
    """

    _index: ClassVar = ("state", "first", "second")

    state: Integers  # [M], the held-out state of each gap; several gaps may share one
    first: Integers  # [M], actions of the gap Z(state, first) − Z(state, second)
    second: Integers  # [M]
    mean: Floats  # [M], learned E[gap]
    variance: Floats  # [M], learned Var(gap); negative values are possible for some methods
    independent: Floats  # [M], learned Var Z(first) + Var Z(second), the variance for independent returns
    returns: Floats  # [M, n, 2], simulated returns of both actions under shared randomness, n ≥ 4
    seed: int | tuple[int, ...]  # of the simulation, or of all simulations of joined records
    closed_form: Floats | None = None  # [M], Var(gap) from a formula without learning, if available
    reference: Floats | None = None  # [M], constant Var(gap) that the verdict compares with; None: that of these gaps

    def __post_init__(self) -> None:
        checked: dict[str, npt.NDArray[np.generic]] = {}
        for name in ("state", "first", "second"):
            whole = arrays.integers(name, getattr(self, name), "[M]", SettingsError)
            arrays.refuse_where(whole < 0, whole, name, "give numbers ≥ 0", _at_gap, SettingsError)
            checked[name] = whole
        optional = (name for name in ("closed_form", "reference") if getattr(self, name) is not None)
        moments = ("mean", "variance", "independent", *optional)
        for name, axes in (*((name, "[M]") for name in moments), ("returns", "[M, n, 2]")):
            real = arrays.floats(name, getattr(self, name), axes, SettingsError)
            arrays.refuse_where(~np.isfinite(real), real, name, "give finite numbers", _at_gap, SettingsError)
            checked[name] = real
        gaps = checked["state"].size
        if gaps == 0:
            raise SettingsError("state is empty. Give at least one gap.")
        for name, array in checked.items():
            if array.shape[0] != gaps:
                raise SettingsError(f"{name} has {array.shape[0]} rows, but state has {gaps}. Give one row per gap.")
            arrays.frozen(array)
            object.__setattr__(self, name, array)
        if self.returns.shape[1] < 4 or self.returns.shape[2] != 2:
            raise SettingsError(
                f"returns has shape {self.returns.shape}. Its axes are [M, n, 2]: gaps, n ≥ 4 rollouts per gap, and "
                "the returns of the gap's first and its second action."
            )
        if not self.seeds:
            raise SettingsError("seed is an empty tuple. Give the seed of the simulation, an integer ≥ 0.")
        seeds = tuple(whole_number("seed", seed, 0) for seed in self.seeds)
        object.__setattr__(self, "seed", seeds if isinstance(self.seed, tuple) else seeds[0])

    @classmethod
    def joined(cls, parts: Sequence[Calibration]) -> Calibration:
        """Join several records, e.g. of training runs on different data; their states count as distinct.

        If the records use the same states and random numbers, build one record with common state numbers instead;
        otherwise the intervals are too narrow.
        """
        if not isinstance(parts, (list, tuple)):
            raise SettingsError(f"parts is {short(parts)}. Give a list of records.")
        if not parts:
            raise SettingsError("parts is empty. Give at least one record.")
        for part in parts:
            instance("A part", part, Calibration)
        lengths = sorted({part.rollouts for part in parts})
        if len(lengths) > 1:
            counts = " and ".join(map(str, lengths))
            raise SettingsError(
                f"The records have {counts} rollouts per gap. Use the same number, or cut all returns to {lengths[0]}."
            )
        optional: dict[str, Any] = {}
        for name in ("closed_form", "reference"):
            given = [getattr(part, name) for part in parts if getattr(part, name) is not None]
            if len(given) not in (0, len(parts)):
                raise SettingsError(
                    f"{len(given)} of {len(parts)} records have a {name.replace('_', ' ')}. Give it to all of them, or "
                    f"omit it with dataclasses.replace(record, {name}=None)."
                )
            if given:
                optional[name] = np.concatenate(given)
        names = ("first", "second", "mean", "variance", "independent", "returns")
        stacked = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return cls(
            state=_numbered_apart([part._place for part in parts]),
            seed=tuple(dict.fromkeys(seed for part in parts for seed in part.seeds)),
            **optional,
            **stacked,
        )

    @property
    def gaps(self) -> int:
        """Number of gaps, M."""
        return self.state.size

    @property
    def states(self) -> int:
        """Number of held-out states."""
        return int(self._place.max()) + 1

    @property
    def rollouts(self) -> int:
        """Number of rollouts per gap, n."""
        return int(self.returns.shape[1])

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the simulation, or of all joined records."""
        return self.seed if isinstance(self.seed, tuple) else (self.seed,)

    @cached_property
    def simulated_mean(self) -> Floats:
        """Means of the simulated gaps, [M]."""
        return np.asarray(self._gap.mean(axis=1))

    @cached_property
    def simulated_variance(self) -> Floats:
        """Unbiased variances of the simulated gaps, [M]; 0 if only rounding errors vary."""
        return self._variances(self._gap)

    @cached_property
    def simulated_mean_error(self) -> Floats:
        """Standard errors of `simulated_mean`, [M]."""
        return np.sqrt(self.simulated_variance / self.rollouts)

    @cached_property
    def simulated_variance_error(self) -> Floats:
        """Jackknife standard errors of `simulated_variance`, [M]; too small if rare outcomes were not drawn."""
        return np.sqrt(bootstrap.jackknife(self._squares))

    @cached_property
    def ratio(self) -> Estimate:
        """Σ learned variances / Σ simulated variances: 1 for a perfect learner; large variances count most.

        The interval is a studentised bootstrap over states, whose coverage is better than that of percentiles if few
        states have most of the variance. The value is nan if no gap varies; the interval is unbounded for one state.
        """
        return self._share(self.variance)

    @cached_property
    def independent_ratio(self) -> Estimate:
        """`ratio` for independent returns: the factor by which ignoring shared randomness changes the variance."""
        return self._share(self.independent)

    @cached_property
    def closed_form_ratio(self) -> Estimate | None:
        """`ratio` of the closed form; None if unavailable."""
        return None if self.closed_form is None else self._share(self.closed_form)

    @property
    def ratio_rollout_interval(self) -> Interval:
        """Interval of `ratio` for these states, due to the noise of the simulation only."""
        return self.over_rollouts(self.ratio)

    def over_rollouts(self, ratio: float) -> Interval:
        """Interval over rollouts of any of the three ratios, exp(ln ratio ± 1.96 e).

        e is the standard error of ln Σ simulated variances: the jackknife over rollouts in each state, whose gaps may
        share random numbers, summed over states. It is slightly too small for very skewed gaps.
        """
        total = float(self.simulated_variance.sum())
        if total == 0:
            return ANYWHERE
        ratio = number("ratio", ratio)
        squares = StateBootstrap(self._place, self.seeds).sums(self._squares)
        noise = math.sqrt(float(bootstrap.jackknife(squares).sum())) / total
        ends = (ratio * math.exp(side * bootstrap.NORMAL * noise) for side in (-1, 1))
        return Interval(*sorted(ends))

    @cached_property
    def gap_ratio(self) -> Estimate:
        """1 over the mean of simulated / learned variance, with equal weight for every gap: 1 for a perfect learner.

        Simulated variances are unbiased, so the mean of simulated / learned is as well, for any distribution of gaps
        and any number of rollouts; a median of learned / simulated is not. Returns 0 if the learned variance is 0 for a
        gap that varies. Interval: studentised bootstrap over states.
        """
        still = self.variance <= self._nothing
        if (still & (self._varies | (self.variance < -self._nothing))).any():
            return Estimate(0.0, 0.0, math.inf)
        share = np.divide(self.simulated_variance, self.variance, out=np.ones(self.gaps), where=~still)
        return self._over_states.quotient(np.ones(self.gaps), share, 0.0)

    @cached_property
    def variance_gain(self) -> Estimate:
        """Score gain of the learned variances k over one constant c, in nats: mean of ½(ln(c/k) + s²/c − s²/k).

        For normal gaps this is the gain in log-likelihood per rollout. For any distribution it is a proper score, so
        the noise of the simulated variances s² cancels in the difference. c is the `reference` of the gap, if there is
        one; otherwise the mean of s², the best constant for these states, so that no constant has a gain above 0. A k
        or c below a hundredth of the mean of s² counts as that. Interval: studentised bootstrap over states.
        """
        best = float(self.simulated_variance.mean())
        if best == 0:
            return bootstrap.UNKNOWN
        learned, simulated = np.maximum(self.variance / best, 0.01), self.simulated_variance / best
        constant = np.ones(1) if self.reference is None else np.maximum(self.reference / best, 0.01)
        gain = (simulated / constant - simulated / learned - np.log(learned / constant)) / 2
        return self._over_states.quotient(gain, np.ones(self.gaps))

    @cached_property
    def mean_gain(self) -> Estimate:
        """R² of learned mean gaps relative to the constant 0 (no gap): 1 − Σ (learned − simulated)²/Σ simulated².

        Because of the noise of simulated means, a perfect learner stays below 1. Interval: studentised bootstrap over
        states.
        """
        size = float(max(np.abs(self.mean).max(), np.abs(self.simulated_mean).max())) or 1.0
        learned, simulated = self.mean / size, self.simulated_mean / size
        return self._over_states.quotient(simulated**2 - (learned - simulated) ** 2, simulated**2)

    @property
    def verdict(self) -> Judgement:
        """Verdict on the learned gap variances: `Judgement.USEFUL` if the interval of `variance_gain` is above 0."""
        return Judgement.of(self.variance_gain, varied=bool(self._varies.any()))

    @property
    def mean_verdict(self) -> Judgement:
        """Verdict on the learned mean gaps: `Judgement.USEFUL` if the interval of `mean_gain` is above 0."""
        return Judgement.of(self.mean_gain, varied=bool((self.simulated_mean**2 > self._nothing).any()))

    @cached_property
    def rank_correlation(self) -> Estimate:
        """Spearman's rank correlation of learned and simulated variances across gaps.

        Noise of the simulation lowers it; `rank_ceiling` is its attainable maximum. Interval: percentiles over states.
        """
        learned, simulated = Ranks(self.variance), Ranks(self.simulated_variance)
        return self._over_states.percentiles(lambda w: bootstrap.rank_correlation(w, learned, simulated), (-1, 1))

    @cached_property
    def rank_reliability(self) -> Estimate:
        """Expected rank correlation of the simulated variances with those of a second simulation, from 0 to 1.

        Spearman's correlation r of two halves of the rollouts, averaged over random splits and extrapolated from n/2 to
        n rollouts by the Spearman–Brown formula 2r/(1 + r), which is exact for scores and approximate for ranks. Its
        interval is slightly too short: its coverage was about 90% in simulations of normal gaps.
        """
        halves, n = split_halves(self._gap, self.seeds), self.rollouts
        pairs = [(Ranks(self._variances(one)), Ranks(self._variances(other))) for one, other in halves]
        return self._over_states.percentiles(
            lambda w: reliability_of([bootstrap.rank_correlation(w, one, other) for one, other in pairs], n), (0, 1)
        )

    @property
    def rank_ceiling(self) -> Estimate:
        """Approximate `rank_correlation` of a perfect learner: √reliability, as only the simulation is noisy."""
        return bootstrap.square_root(self.rank_reliability)

    @cached_property
    def mean_correlation(self) -> Estimate:
        """Uncentred correlation Σ xy/√(Σx² Σy²) of learned and simulated mean gaps.

        The means are not subtracted, unlike in Pearson's correlation, because the order of the two actions is arbitrary
        and the result must not depend on the sign of a gap. `mean_ceiling` is its attainable maximum. Interval:
        percentiles over states.
        """
        return self._over_states.percentiles(lambda w: bootstrap.cosine(w, self.mean, self.simulated_mean), (-1, 1))

    @cached_property
    def mean_reliability(self) -> Estimate:
        """`rank_reliability` for mean gaps, with the uncentred correlation of `mean_correlation`."""
        halves, n = split_halves(self._gap, self.seeds), self.rollouts
        one, other = np.mean(halves, axis=3).swapaxes(0, 1)  # each [halvings, M]
        return self._over_states.percentiles(lambda w: reliability_of(bootstrap.cosine(w, one, other), n), (0, 1))

    @property
    def mean_ceiling(self) -> Estimate:
        """Approximate `mean_correlation` of a perfect learner: √reliability."""
        return bootstrap.square_root(self.mean_reliability)

    @cached_property
    def mean_error(self) -> Estimate:
        """Root mean square error of learned mean gaps, corrected for the noise of the simulation, in units of return.

        The square root of the mean of (learned − simulated)² − Var/n, which is unbiased; 0 if noise alone explains it.
        """
        beyond = (self.mean - self.simulated_mean) ** 2 - self.simulated_variance / self.rollouts
        return bootstrap.square_root(self._over_states.quotient(beyond, np.ones(self.gaps)))

    def rows(self) -> list[dict[str, Any]]:
        """One row per gap; intervals of simulated numbers are ±1.96 standard errors."""
        return [
            {
                "state": int(self.state[i]),
                "first": int(self.first[i]),
                "second": int(self.second[i]),
                "learned mean": float(self.mean[i]),
                "simulated mean": _around(self.simulated_mean[i], self.simulated_mean_error[i]),
                "learned variance": float(self.variance[i]),
                "simulated variance": _around(self.simulated_variance[i], self.simulated_variance_error[i]),
                "learned variance if independent": float(self.independent[i]),
            }
            for i in range(self.state.size)
        ]

    def to_xarray(self) -> xarray.Dataset:
        """Learned moments and simulated returns of each gap."""
        names = ("state", "first", "second", "mean", "variance", "independent", "closed_form", "reference")
        own = {name: (("gap",), getattr(self, name)) for name in names if getattr(self, name) is not None}
        found: xarray.Dataset = labelled_arrays().Dataset(
            own | {"returns": (("gap", "rollout", "alternative"), self.returns)},
            {"alternative": ["first", "second"]},
            {"seeds": ", ".join(map(str, self.seeds)), "verdict": self.verdict.name},
        )
        return found

    def plot(self) -> Figure:
        """Draw `jmdp.plots.calibration_scatter`."""
        return figure("calibration_scatter", self)

    def to_dict(self) -> dict[str, object]:
        """All numbers for JSON, each with its intervals, counts and seed; None if unavailable."""
        c = self
        about: dict[str, object] = {
            "gaps": c.gaps,
            "states": c.states,
            "rollouts": c.rollouts,
            "seed": [int(seed) for seed in c.seeds] if isinstance(c.seed, tuple) else int(c.seed),
        }
        said: dict[str, object] = {**about, "confidence": CONFIDENCE}
        said |= {"verdict": c.verdict.name, "mean_verdict": c.mean_verdict.name}
        for name in _RATIOS | _OTHERS:
            estimate: Estimate | None = getattr(c, name)
            if estimate is None:
                said[name] = None
                continue
            number: dict[str, object] = {
                "value": _plain(estimate),
                "low": _plain(estimate.low),
                "high": _plain(estimate.high),
            }
            if name in _RATIOS:
                near = c.over_rollouts(estimate)
                number |= {"rollout_low": _plain(near.low), "rollout_high": _plain(near.high)}
            said[name] = number | about
        return said

    def __repr__(self) -> str:
        c = self
        rows = []
        for name, words in (_RATIOS | _OTHERS).items():
            estimate: Estimate | None = getattr(c, name)
            if estimate is not None:
                near = written(Estimate.within(estimate, c.over_rollouts(estimate))).interval if name in _RATIOS else ""
                rows.append({"": words, "value, 95% over states": estimate, "95% over rollouts": near})
        return "\n".join(
            [
                f"Calibration on {counted(c.gaps, 'gap')} in {held_out(c)}, {c.rollouts} rollouts each ({seeds(c)})",
                f"Gap variances: {c.verdict.value}. Mean gaps: {c.mean_verdict.value}.",
                *lines(rows),
            ]
        )

    @cached_property
    def _place(self) -> Integers:
        """[M], states numbered consecutively from 0."""
        return np.unique(self.state, return_inverse=True)[1].astype(np.int64)

    @cached_property
    def _over_states(self) -> StateBootstrap:
        return StateBootstrap(self._place, self.seeds)

    @cached_property
    def _gap(self) -> Floats:
        """Simulated gaps, [M, n]."""
        return np.asarray(self.returns[:, :, 0] - self.returns[:, :, 1])

    @cached_property
    def _nothing(self) -> Floats:
        """[M], variances up to this size are rounding errors."""
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


def _numbered_apart(parts: Sequence[Integers]) -> Integers:
    """Concatenate numbers from 0, such that those of different parts differ."""
    before = np.cumsum([0, *(int(part.max()) + 1 for part in parts)])
    return np.concatenate([part + start for part, start in zip(parts, before[:-1], strict=True)])


def _at_gap(at: Sequence[int]) -> str:
    return f"gap {at[0]}"


def _around(value: Any, error: Any) -> Estimate:
    return Estimate.around(float(value), bootstrap.NORMAL * float(error))


_RATIOS = {
    "ratio": "variance: learned / simulated",
    "independent_ratio": "  independent / simulated",
    "closed_form_ratio": "  closed form / simulated",
}
_OTHERS = {
    "gap_ratio": "  learned / simulated, gap by gap",
    "variance_gain": "  gain over a constant, nats",
    "rank_correlation": "  rank correlation",
    "rank_ceiling": "  … of a perfect learner, about",
    "rank_reliability": "  reliability of simulated ranks",
    "mean_gain": "mean: R² relative to no gap",
    "mean_correlation": "  correlation",
    "mean_ceiling": "  … of a perfect learner, about",
    "mean_reliability": "  reliability of simulated means",
    "mean_error": "  rms error beyond noise",
}


def held_out(record: Calibration) -> str:
    """The number of states in words."""
    return counted(record.states, "held-out state")


def seeds(record: Calibration) -> str:
    """The seeds in words."""
    return f"seed{'s' * (len(record.seeds) > 1)} {', '.join(map(str, record.seeds))}"


def _plain(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
