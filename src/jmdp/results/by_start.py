"""A comparison of policies start by start, and how much of a gap's variance lies between starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.labels import Label, Labels
from jmdp.results.comparison_table import aligned
from jmdp.results.parts import VarianceSplit
from jmdp.results.result import Tabulated
from jmdp.simulators.episodes import EpisodeDraws
from jmdp.simulators.starts import Starts


@dataclass(frozen=True, eq=False, repr=False)
class ByStart(Tabulated):
    """Means of the policies and gaps to `reference` for each start, with standard errors, which are no intervals."""

    index: ClassVar = ("start",)

    starts: Starts
    draws: EpisodeDraws
    policies: Labels
    reference: str

    def rows(self) -> Sequence[dict[str, Any]]:
        """One row a start: its probability, n, the mean of each policy and the gap to `reference`, policy − reference.

        Samples with starts of their own for each policy count for each policy apart.
        """
        rows = []
        for number, name in enumerate(self.starts.names):
            row: dict[str, Any] = {"start": name, "probability": float(self.starts.probabilities[number])}
            row["samples"] = int((self.draws.starts == number).sum(axis=0).min())
            for i in range(self.policies.size):
                row[f"mean_{self.policies.name(i)}"] = self._mean(number, i)
            for i in range(self.policies.size):
                if self.policies.name(i) != self.reference:
                    gap, error = self._gap(number, i)
                    row[f"gap_{self.policies.name(i)}"] = gap
                    row[f"gap_{self.policies.name(i)}_standard_error"] = error
            rows.append(row)
        return rows

    def gap_variance(self, policy: Label) -> VarianceSplit:
        """The variance of policy − reference within and between starts, from the paired samples.

        Between: Σ p_s (m_s − m)² less Σ p_s (1 − p_s) v_s/n_s, by which sample means m_s spread of themselves.
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
        """The mean gap from one start and its standard error: of pairs, and of independent samples apart."""
        r, n = self.policies.index(self.reference), self.draws.paired
        both = (self.draws.starts[:, i] == number) & (self.draws.starts[:, r] == number)
        if both[:n].all() or (both == (self.draws.starts[:, i] == number)).all():
            gaps = (self.draws.returns[:, i] - self.draws.returns[:, r])[both]
            return _mean_and_error(gaps)
        first, second = (_mean_and_error(self.draws.returns[self.draws.starts[:, k] == number, k]) for k in (i, r))
        return first[0] - second[0], math.hypot(first[1], second[1])

    def __repr__(self) -> str:
        rows = self.rows()
        cells = [list(rows[0])]
        cells += [[value if isinstance(value, str) else f"{value:.4g}" for value in row.values()] for row in rows]
        head = [name.replace("_", " ") for name in cells[0]]
        lines = aligned([head, *cells[1:]])
        for i in range(self.policies.size):
            name = self.policies.name(i)
            if name != self.reference:
                split = self.gap_variance(i)
                lines.append(
                    f"variance of {name} − {self.reference}: {split.within:.3g} within starts, {split.between:.3g} "
                    "between them"
                )
        return "\n".join(lines)


def _mean_and_error(values: Floats) -> tuple[float, float]:
    n = len(values)
    mean = float(values.mean()) if n else math.nan
    return mean, float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
