"""The result of `compare_policies`: which policy is better, by how much, from which starts, and the gain of pairing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate
from jmdp.base.labels import Label
from jmdp.errors import UnavailableError
from jmdp.results.by_start import ByStart
from jmdp.results.comparison import Comparison
from jmdp.results.pairing import LuckShares, Pairing, pairing_gain
from jmdp.results.policy_table import policy_columns, policy_table
from jmdp.simulators.episodes import EpisodeDraws
from jmdp.simulators.starts import Starts


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PolicyComparison(Comparison):
    """Policies compared from the same starts under shared randomness: a `Comparison` whose alternatives are policies.

    Means and their intervals use all samples. Standard deviations, correlations, chances, distributions and regret use
    the first `paired_samples`, which were drawn under the requested coupling: sampling continues independently if
    pairing increases the variance of the gaps.
    """

    index: ClassVar = ("policy",)
    alternative: ClassVar[str] = "policy"
    run: ClassVar[str] = "episode"

    starts: Starts

    @property
    def policies(self) -> list[str]:
        """Names of the policies compared."""
        return self.actions

    @property
    def reference(self) -> str:
        """The policy that the table compares the others with: the baseline if given, else the leader."""
        return self.leader if self.baseline is None else self.baseline

    @property
    def paired_samples(self) -> int:
        """Number of samples drawn under the requested coupling."""
        return sum(cast(EpisodeDraws, stage.draws).paired for stage in self.draws.stages)

    @cached_property
    def pairing(self) -> Pairing:
        """Gain in variance by sharing randomness for the gaps to `reference`, and the sources of randomness.

        From the samples in which every policy was simulated.
        """
        r, scale = self._at(self.reference), self.limits.scale
        draws = cast(EpisodeDraws, self.draws.complete)
        noise = (2 * scale.divide(self.limits.rounding)) ** 2
        gain, correlation, _ = pairing_gain(scale.divide(draws.one_coupling.returns), r, noise)
        probes = [cast(EpisodeDraws, stage.draws).probe for stage in self.draws.stages]
        shares = next((LuckShares.of(probe) for probe in probes if probe is not None), None)
        return Pairing(gain, correlation, draws.paired, shares, self.samples - self.paired_samples)

    def by_start(self) -> ByStart:
        """Means and gaps for each given start separately, and the variance of gaps within and between starts.

        From the samples in which every policy was simulated.
        """
        if not self.starts.given:
            raise UnavailableError(
                "The simulator drew the starts, so it is unknown which of them are equal. Pass them: starts=[…]."
            )
        draws = cast(EpisodeDraws, self.draws.complete)
        return ByStart(self.starts, draws, self.summary.labels, self.reference)

    def beside_reference(self, policy: Label) -> dict[str, Estimate]:
        """One row of the table: the mean of a policy, and its advantage over `reference`, policy − reference."""
        reference = self.reference
        gap = self.gap(policy, reference)
        same = gap.first == gap.second
        zero = Estimate(0.0, 0.0, 0.0)
        return {
            "mean": self.mean_of(policy),
            "advantage": Estimate.within(gap.mean, gap.mean_interval),
            "advantage_std": zero if same else Estimate.within(gap.std, gap.std_interval),
            "better": self.superiority(policy, reference),
            "worse": self.superiority(reference, policy),
            "correlation": Estimate(1.0, 1.0, 1.0)
            if same
            else Estimate.within(gap.correlation, gap.correlation_interval),
            "variance_reduction": self.variance_reduction(reference, policy),
        }

    def rows(self) -> list[dict[str, Any]]:
        """One row per policy, with the columns of the printed table."""
        titles = policy_columns(self.reference)
        return [
            {"policy": policy}
            | {titles[key]: value for key, value in self.beside_reference(policy).items()}
            | self._about(policy)
            for policy in self.policies
        ]

    def episode_returns(self) -> Floats:
        """[n, P], the return of each policy in each sample, in the order they were drawn; nan after its elimination."""
        return np.array(self.draws.returns)

    def __repr__(self) -> str:
        return policy_table(self)
