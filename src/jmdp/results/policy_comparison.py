"""The result of `compare_policies`: which policy is better, by how much, from which starts, and the gain of pairing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

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

    draws: EpisodeDraws
    starts: Starts
    baseline: str | None  # the policy that the others are compared with; None: the leader

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
        return self.draws.paired

    @cached_property
    def pairing(self) -> Pairing:
        """Gain in variance by sharing randomness for the gaps to `reference`, and the sources of randomness."""
        r, scale = self._at(self.reference), self.limits.scale
        noise = (2 * scale.divide(self.limits.rounding)) ** 2
        gain, correlation, _ = pairing_gain(scale.divide(self.draws.returns[: self.paired_samples]), r, noise)
        shares = None if self.draws.probe is None else LuckShares.of(self.draws.probe)
        return Pairing(gain, correlation, self.paired_samples, shares, self.samples - self.paired_samples)

    def by_start(self) -> ByStart:
        """Means and gaps for each given start separately, and the variance of gaps within and between starts."""
        if not self.starts.given:
            raise UnavailableError(
                "The simulator drew the starts, so it is unknown which of them are equal. Pass them: starts=[…]."
            )
        return ByStart(self.starts, self.draws, self.evaluation.actions, self.reference)

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
        about, titles = self._about(), policy_columns(self.reference)
        return [
            {"policy": policy} | {titles[key]: value for key, value in self.beside_reference(policy).items()} | about
            for policy in self.policies
        ]

    def episode_returns(self) -> Floats:
        """[n, P], the return of each policy in each sample, in the order they were drawn."""
        return np.array(self.draws.returns)

    def __repr__(self) -> str:
        return policy_table(self)
