"""What `compare_policies` brings back: which policy is better, by how much, where, and what sharing luck gained."""

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
from jmdp.results.policy_table import answer_sentence, policy_table
from jmdp.simulators.episodes import EpisodeDraws
from jmdp.simulators.starts import Starts


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PolicyComparison(Comparison):
    """Whole policies compared from the same starts under shared luck: a `Comparison` whose alternatives are policies.

    Means and their intervals are of all samples. Standard deviations, correlations, chances, distributions and regret
    are of those drawn under the coupling asked for, the first `paired_samples`: sampling goes on independently where
    pairing costs more than it gains.
    """

    index: ClassVar = ("policy",)
    alternative: ClassVar[str] = "policy"
    run: ClassVar[str] = "episode"

    draws: EpisodeDraws
    starts: Starts
    baseline: str | None  # the policy that the others are compared with; None is the leader

    @property
    def policies(self) -> list[str]:
        """Names of the policies compared."""
        return self.actions

    @property
    def reference(self) -> str:
        """The one that the others are shown beside: the baseline, else the leader."""
        return self.leader if self.baseline is None else self.baseline

    @property
    def paired_samples(self) -> int:
        """Samples that were drawn under the coupling asked for."""
        return self.draws.paired

    @cached_property
    def pairing(self) -> Pairing:
        """What sharing randomness gained or cost for the gaps to `reference`, and where the randomness is."""
        r, scale = self._at(self.reference), self.limits.scale
        noise = (2 * scale.divide(self.limits.rounding)) ** 2
        gain, correlation, _ = pairing_gain(scale.divide(self.draws.returns[: self.paired_samples]), r, noise)
        shares = None if self.draws.probe is None else LuckShares.of(self.draws.probe)
        return Pairing(gain, correlation, self.paired_samples, shares, self.samples - self.paired_samples)

    @property
    def answer(self) -> str:
        """The answer in one sentence."""
        return answer_sentence(self)

    def by_start(self) -> ByStart:
        """Means and gaps for each start apart, where starts were given; and the variance of gaps split by start."""
        if not self.starts.given:
            raise UnavailableError(
                "Starts were drawn by the simulator, so no two are known to be the same. Give them: starts=[…]."
            )
        return ByStart(self.starts, self.draws, self.evaluation.actions, self.reference)

    def beside_reference(self, policy: Label) -> dict[str, Estimate]:
        """One policy's line of a table: its mean, and its gap to `reference`, policy − reference."""
        reference = self.reference
        gap = self.gap(policy, reference)
        same = gap.first == gap.second
        zero = Estimate(0.0, 0.0, 0.0)
        return {
            "mean": self.mean_of(policy),
            "gap": Estimate.within(gap.mean, gap.mean_interval),
            "gap_std": zero if same else Estimate.within(gap.std, gap.std_interval),
            "better": self.superiority(policy, reference),
            "worse": self.superiority(reference, policy),
            "correlation": Estimate(1.0, 1.0, 1.0)
            if same
            else Estimate.within(gap.correlation, gap.correlation_interval),
            "variance_reduction": self.variance_reduction(reference, policy),
        }

    def rows(self) -> list[dict[str, Any]]:
        """One row a policy, beside `reference`."""
        about = {"samples": self.samples, "seed": self.seed, "confidence": self.confidence}
        return [{"policy": policy} | self.beside_reference(policy) | about for policy in self.policies]

    def episode_returns(self) -> Floats:
        """[n, P], the return of each policy in each sample, in the order drawn."""
        return np.array(self.draws.returns)

    def __repr__(self) -> str:
        return policy_table(self)
