"""Comparison of alternatives over whole episodes or runs: relative to a baseline, with the gain of pairing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from jmdp.base.interval import Estimate
from jmdp.base.labels import Label
from jmdp.comparisons.comparison import Comparison
from jmdp.comparisons.comparison_table import whole_columns
from jmdp.comparisons.pairing import LuckShares, Pairing, gain_with_interval, pairing_ceiling, pairing_gain
from jmdp.simulators.episodes import EpisodeDraws


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WholeComparison(Comparison):
    """Base class of `PolicyComparison` and `RunComparison`.

    Means and their intervals use all samples. Standard deviations, correlations, chances, distributions and regret use
    the first `paired_samples`, which were drawn under the requested coupling: sampling continues independently if
    pairing increases the variance of the gaps.
    """

    @property
    def paired_samples(self) -> int:
        """Number of samples drawn under the requested coupling."""
        return sum(cast(EpisodeDraws, stage.draws).paired for stage in self.draws.stages)

    @cached_property
    def pairing(self) -> Pairing:
        """Gain in variance by sharing randomness for the gaps to `reference`, and the sources of randomness.

        From the samples in which every alternative was simulated.
        """
        r, scale = self._at(self.reference), self.limits.scale
        draws = cast(EpisodeDraws, self.draws.complete)
        noise = float(2 * scale.divide(self.limits.rounding))
        returns = scale.divide(draws.one_coupling.returns)
        sampling, error = self.summary.sampling, 1 - self.confidence
        probes = [cast(EpisodeDraws, stage.draws).probe for stage in self.draws.stages]
        return Pairing(
            gain=gain_with_interval(returns, r, noise * noise, sampling, error),
            ceiling=pairing_ceiling(returns, r, noise),
            correlation=pairing_gain(returns, r, noise * noise)[1],
            samples=draws.paired,
            shares=next((LuckShares.of(probe) for probe in probes if probe is not None), None),
            independent=self.samples - self.paired_samples,
            run=self.run,
        )

    def beside_reference(self, name: Label) -> dict[str, Estimate]:
        """One row of the table: the mean of an alternative, and its advantage over `reference`."""
        return self._beside(name, name, self.reference, ("better", "worse"))

    def rows(self) -> list[dict[str, Any]]:
        """One row per alternative, with the columns of the printed table."""
        titles = whole_columns(self)
        return [
            {self.alternative: name}
            | {titles[key]: value for key, value in self.beside_reference(name).items()}
            | self._in_one_run(name, self.reference)
            | self._about(name)
            for name in self.actions
        ]
