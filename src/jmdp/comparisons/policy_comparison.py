"""The result of `compare_policies`: which policy is better, by how much, from which starts, and the gain of pairing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate
from jmdp.base.labels import Label, Labels
from jmdp.base.rounding import plus_minus
from jmdp.comparisons.comparison import WholeComparison
from jmdp.comparisons.comparison_table import aligned, whole_table
from jmdp.errors import UnavailableError
from jmdp.results.parts import VarianceSplit
from jmdp.results.result import Tabulated
from jmdp.simulators.episodes import EpisodeDraws
from jmdp.simulators.starts import Starts
from jmdp.statistics.drawn_samples import DrawnSamples
from jmdp.statistics.sample_summary import SampleSummary


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
        return np.array(self.draws.returns)

    def __repr__(self) -> str:
        coupling = self.summary.coupling
        shared = f"{type(coupling).__name__} coupling, policy_luck {coupling.policy_luck}"
        about = f"{len(self.policies)} policies of {self.simulator}; {shared}, discount {self.discount:g}"
        return whole_table(self, f"{about}, horizon {self.horizon}")


@dataclass(frozen=True, eq=False, repr=False)
class ByStart(Tabulated):
    """Means of the policies and advantages over `reference` for each start, with intervals.

    Each interval holds with the confidence of the comparison on its own, not jointly with those of other starts. A
    number without one has too few samples for it.
    """

    index: ClassVar = ("start",)

    starts: Starts
    summary: SampleSummary
    reference: str

    @property
    def draws(self) -> EpisodeDraws:
        """The samples in which every policy was simulated."""
        return cast(EpisodeDraws, self.summary.samples.complete)

    @property
    def policies(self) -> Labels:
        """Names of the policies."""
        return self.summary.labels

    def rows(self) -> Sequence[dict[str, Any]]:
        """One row per start: probability, samples, mean return of each policy, and advantages over `reference`.

        Samples whose policies have different starts count for each policy separately.
        """
        rows = []
        for number, name in enumerate(self.starts.names):
            row: dict[str, Any] = {"start": name, "probability": float(self.starts.probabilities[number])}
            row["samples"] = int((self.draws.starts == number).sum(axis=0).min())
            for i in range(self.policies.size):
                row[f"mean return of {self.policies.name(i)}"] = float(self._mean(number, i))
            for i in range(self.policies.size):
                if self.policies.name(i) != self.reference:
                    row[f"advantage of {self.policies.name(i)}"] = self._gap(number, i)
            rows.append(row)
        return rows

    def gap_variance(self, policy: Label) -> VarianceSplit:
        """Variance of policy − reference within and between starts, from the paired samples.

        Between: Σ p_s (m_s − m)² less Σ p_s (1 − p_s) v_s/n_s, the part due to sampling errors of the means m_s.
        """
        i, r, n = self.policies.index(policy), self.policies.index(self.reference), self.draws.paired
        gaps, starts = self.draws.returns[:n, i] - self.draws.returns[:n, r], self.draws.starts[:n]
        numbers = np.where(starts[:, i] == starts[:, r], starts[:, i], -1)
        p, m, v, error = [], [], [], []
        for number, probability in enumerate(self.starts.probabilities):
            here = gaps[numbers == number]
            if len(here) >= 2:
                p.append(float(probability))
                m.append(float(here.mean()))
                v.append(float(here.var(ddof=1)))
                error.append(v[-1] / len(here))
        if not p:
            return VarianceSplit(math.nan, math.nan)
        weight = np.array(p) / sum(p)
        spread = float(weight @ (np.array(m) - weight @ np.array(m)) ** 2)
        return VarianceSplit(float(weight @ v), max(0.0, spread - float((weight * (1 - weight)) @ error)))

    def _at(self, number: int, i: int) -> SampleSummary | None:
        """The samples in which a policy has this start; None if there are none."""
        rows = np.flatnonzero(self.draws.starts[:, i] == number)
        samples = DrawnSamples(self.policies.size).with_block(range(self.policies.size), self.draws.rows(rows))
        if not rows.size:
            return None
        whole = self.summary
        sampling = replace(whole.sampling, most=round(whole.sampling.most * self.starts.probabilities[number]))
        return replace(whole, samples=samples, sampling=sampling, error=1 - whole.confidence, shares=None)

    def _mean(self, number: int, i: int) -> Estimate:
        found = self._at(number, i)
        return _UNKNOWN if found is None else Estimate(*(float(part[i]) for part in found.means))

    def _gap(self, number: int, i: int) -> Estimate:
        """Mean gap from one start, from pairs or from independent samples."""
        r, found = self.policies.index(self.reference), self._at(number, i)
        first, second = self._mean(number, i), self._mean(number, r)
        if found is not None and ((self.draws.starts[:, i] == number) == (self.draws.starts[:, r] == number)).all():
            return Estimate.within(float(first) - float(second), found.gap_interval(i, r))
        return Estimate.around(float(first) - float(second), math.hypot(first.error, second.error))

    def __repr__(self) -> str:
        rows = self.rows()
        cells = [[_shown(value) for value in row.values()] for row in rows]
        lines = [
            f"Advantages over {self.reference} for each of {len(rows)} starts",
            "",
            *aligned([list(rows[0]), *cells]),
        ]
        for i in range(self.policies.size):
            name = self.policies.name(i)
            if name != self.reference:
                split = self.gap_variance(i)
                lines.append(
                    f"variance of {name} − {self.reference}: {split.within:.3g} within starts, {split.between:.3g} "
                    "between starts"
                )
        return "\n".join(lines)


_UNKNOWN = Estimate.within(math.nan, None)


def _shown(value: Any) -> str:
    if isinstance(value, Estimate) and value.has_interval:
        return plus_minus(value)
    return value if isinstance(value, str) else f"{float(value):.4g}"
