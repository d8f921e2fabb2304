"""The result of `compare_policies`: which policy is better, by how much, from which starts, and the gain of pairing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jmdp.base.arrays import Floats
from jmdp.comparisons.by_start import ByStart
from jmdp.comparisons.whole_comparison import WholeComparison
from jmdp.comparisons.whole_table import whole_table
from jmdp.errors import UnavailableError
from jmdp.simulators.starts import Starts


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PolicyComparison(WholeComparison):
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

    def by_start(self) -> ByStart:
        """Means and gaps for each given start separately, and the variance of gaps within and between starts.

        From the samples in which every policy was simulated. Intervals are those of the comparison's kind of sampling,
        for each start on its own.
        """
        if not self.starts.given:
            raise UnavailableError(
                "The simulator drew the starts, so it is unknown which of them are equal. Pass them: starts=[…]."
            )
        return ByStart(self.starts, self.summary, self.reference)

    def episode_returns(self) -> Floats:
        """[n, P], the return of each policy in each sample, in the order they were drawn; nan after its elimination."""
        return self._all_returns()

    def __repr__(self) -> str:
        coupling = self.summary.coupling
        shared = f"{type(coupling).__name__} coupling, policy_luck {coupling.policy_luck}"
        about = f"{len(self.policies)} policies of {self.simulator}; {shared}, discount {self.discount:g}"
        return whole_table(self, f"{about}, horizon {self.horizon}")
