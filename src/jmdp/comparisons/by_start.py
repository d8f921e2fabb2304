"""A comparison of policies for each start separately, and the variance of gaps within and between starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.labels import Label, Labels
from jmdp.comparisons.comparison_table import aligned
from jmdp.results.parts import VarianceSplit
from jmdp.results.result import Tabulated
from jmdp.simulators.episodes import EpisodeDraws
from jmdp.simulators.starts import Starts


@dataclass(frozen=True, eq=False, repr=False)
class ByStart(Tabulated):
    """Means of the policies and advantages over `reference` for each start, with standard errors (not intervals)."""

    index: ClassVar = ("start",)

    starts: Starts
    draws: EpisodeDraws
    policies: Labels
    reference: str

    def rows(self) -> Sequence[dict[str, Any]]:
        """One row per start: probability, samples, mean return of each policy, and advantages over `reference`.

        Samples whose policies have different starts count for each policy separately.
        """
        rows = []
        for number, name in enumerate(self.starts.names):
            row: dict[str, Any] = {"start": name, "probability": float(self.starts.probabilities[number])}
            row["samples"] = int((self.draws.starts == number).sum(axis=0).min())
            for i in range(self.policies.size):
                row[f"mean return of {self.policies.name(i)}"] = self._mean(number, i)
            for i in range(self.policies.size):
                if self.policies.name(i) != self.reference:
                    gap, error = self._gap(number, i)
                    row[f"advantage of {self.policies.name(i)}"] = gap
                    row[f"standard error of {self.policies.name(i)}"] = error
            rows.append(row)
        return rows

    def gap_variance(self, policy: Label) -> VarianceSplit:
        """Variance of policy − reference within and between starts, from the paired samples.

        Between: Σ p_s (m_s − m)² less Σ p_s (1 − p_s) v_s/n_s, the part due to sampling errors of the means m_s.
        """
        gaps, numbers = self._paired_gaps(self.policies.index(policy))
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

    def _paired_gaps(self, i: int) -> tuple[Floats, Any]:
        r, n = self.policies.index(self.reference), self.draws.paired
        returns, starts = self.draws.returns[:n], self.draws.starts[:n]
        same = starts[:, i] == starts[:, r]
        return (returns[:, i] - returns[:, r])[same], starts[same, i]

    def _mean(self, number: int, i: int) -> float:
        here = self.draws.returns[self.draws.starts[:, i] == number, i]
        return float(here.mean()) if here.size else math.nan

    def _gap(self, number: int, i: int) -> tuple[float, float]:
        """Mean gap from one start and its standard error, from pairs or from independent samples."""
        r, n = self.policies.index(self.reference), self.draws.paired
        both = (self.draws.starts[:, i] == number) & (self.draws.starts[:, r] == number)
        if both[:n].all() or (both == (self.draws.starts[:, i] == number)).all():
            gaps = (self.draws.returns[:, i] - self.draws.returns[:, r])[both]
            return _mean_and_error(gaps)
        first, second = (_mean_and_error(self.draws.returns[self.draws.starts[:, k] == number, k]) for k in (i, r))
        return first[0] - second[0], math.hypot(first[1], second[1])

    def __repr__(self) -> str:
        rows = self.rows()
        cells = [[value if isinstance(value, str) else f"{value:.4g}" for value in row.values()] for row in rows]
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


def _mean_and_error(values: Floats) -> tuple[float, float]:
    n = len(values)
    mean = float(values.mean()) if n else math.nan
    return mean, float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
