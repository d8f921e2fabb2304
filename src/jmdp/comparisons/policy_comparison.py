"""The result of `compare_policies`: which policy is better, by how much, from which starts, and the gain of pairing.

The result of `compare_runs`: which design is better, by how much and how surely, for each measure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate
from jmdp.base.labels import Label, Labels
from jmdp.base.rounding import confidence_percent
from jmdp.base.savable import Reportable, Savable
from jmdp.base.settings import cut, short
from jmdp.comparisons.answer import EARNS, IS_BETTER, Wording
from jmdp.comparisons.comparison import WholeComparison
from jmdp.comparisons.comparison_table import assumptions, effort, in_one_run, stopped, table_lines, whole_table
from jmdp.errors import LabelError, UnavailableError
from jmdp.results.parts import VarianceSplit
from jmdp.results.result import Tabulated, figure, forgotten, labelled_arrays
from jmdp.results.text import lines, paragraphs
from jmdp.simulators.rollouts.draws import EpisodeDraws
from jmdp.simulators.starts import Starts
from jmdp.statistics.drawn_evaluation import DrawnSamples
from jmdp.statistics.sample_summary import SampleSummary

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PolicyComparison(WholeComparison):
    """Policies compared from the same starts under shared randomness: a `Comparison` whose alternatives are policies.

    Means and their intervals use all samples. Standard deviations, correlations, chances, distributions and regret use
    the first `paired_samples`, which were drawn under the requested coupling: sampling continues independently if
    pairing increases the variance of the gaps.
    """

    _index: ClassVar = ("policy",)
    policy: str  # the policies, in order
    starts: Starts

    @property
    def wording(self) -> Wording:
        """Words for an episode, its mean and the gap, for texts."""
        return replace(EARNS, run="episode")

    @property
    def policies(self) -> list[str]:
        """Names of the policies compared."""
        return self.alternatives

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
        return np.array(self.summary.samples.returns)

    def __repr__(self) -> str:
        coupling = self.summary.coupling
        shared = f"{type(coupling).__name__} coupling, policy_luck {coupling.policy_luck}"
        about = f"{len(self.policies)} policies of {self.simulator}; {shared}, discount {self.summary.discount:g}"
        return whole_table(self, f"{about}, horizon {self.summary.horizon}")


@dataclass(frozen=True, eq=False, repr=False)
class ByStart(Tabulated):
    """Means of the policies and advantages over `reference` for each start, with intervals.

    Each interval holds with the confidence of the comparison on its own, not jointly with those of other starts. A
    number without one has too few samples for it.
    """

    _index: ClassVar = ("start",)

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
                row[f"mean return of {self.policies.name(i)}"] = self._mean(number, i)
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
        rows, splits = self.rows(), []
        for i in range(self.policies.size):
            name = self.policies.name(i)
            if name != self.reference:
                split = self.gap_variance(i)
                parts = f"{split.within:.3g} within starts, {split.between:.3g} between starts"
                splits.append(f"variance of {name} − {self.reference}: {parts}")
        title = f"Advantages over {self.reference} for each of {len(rows)} starts"
        return paragraphs([title, lines(rows), *splits])


_UNKNOWN = Estimate.within(math.nan, None)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunComparison(WholeComparison):
    """Designs compared by whole simulation runs with the same randomness: a `Comparison` of designs.

    `mean` and `gap` are in the units of the runs. `advantage`, `superiority` and `regret` are positive where the first
    design is better, whether larger or smaller values are.
    """

    _index: ClassVar = ("design",)
    measure: str | None  # name of the number that is compared; None if runs return a single number
    minimized: bool  # smaller values are better

    @property
    def designs(self) -> list[str]:
        """Names of the designs compared."""
        return self.alternatives

    @property
    def wording(self) -> Wording:
        """Words for a run, its mean and the gap, for texts."""
        return IS_BETTER if self.measure is None else replace(IS_BETTER, mean=f"mean {self.measure}")

    def run_results(self) -> Floats:
        """[n, D], the value of each design in each sample, in the order they were drawn; nan after its elimination."""
        return np.array(self.summary.samples.returns)

    def __repr__(self) -> str:
        return whole_table(self, _about(self))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunComparisons(Tabulated, Savable, Reportable, Mapping[str, RunComparison]):
    """Comparisons of several measures of the same runs, by name.

    The error probability 1 − `confidence` is divided equally among the measures, so all statements hold jointly.
    """

    _index: ClassVar = ("measure", "design")

    comparisons: Mapping[str, RunComparison]
    confidence: float  # of all measures jointly
    continue_with: Callable[[int, Mapping[str, Any]], RunComparisons] = field(repr=False)

    def __getitem__(self, measure: str) -> RunComparison:
        if not isinstance(measure, str) or measure not in self.comparisons:
            raise LabelError(f"There is no measure {short(measure)}: the runs return {cut(', '.join(self))}.")
        return self.comparisons[measure]

    def __iter__(self) -> Iterator[str]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    @property
    def answer(self) -> str:
        """The answers of all measures, a line each."""
        return "\n".join(f"{name}: {found.answer}" for name, found in self.items())

    def continued(
        self, samples: int, *, precision: float | Mapping[str, float] | None = None, **given: Any
    ) -> RunComparisons:
        """Continue to this many runs of each design, or until every measure is decided if it is not.

        With `precision`, for all measures or by name, until their mean gaps are known to ± this value. Comparisons from
        a file must be given their `runs`: ``continued(5000, runs={…})``.
        """
        return self.continue_with(samples, {"precision": precision, **given})

    def rows(self) -> list[dict[str, Any]]:
        """One row per measure and design."""
        found = []
        for name, comparison in self.items():
            titles = {comparison.wording.mean: "mean", f"advantage over {comparison.reference}": "advantage"}
            for row in comparison.rows():
                found.append({"measure": name} | {titles.get(key, key): value for key, value in row.items()})
        return found

    def to_xarray(self) -> xarray.Dataset:
        """Means, covariances and correlations of each measure, with labels and errors."""
        parts = [comparison.to_xarray() for comparison in self.values()]
        measures = labelled_arrays().Variable("measure", list(self))
        found: xarray.Dataset = labelled_arrays().concat(parts, measures, combine_attrs="drop_conflicts")
        return found.assign_attrs(answer=self.answer)

    def plot(self, measure: str | None = None) -> Figure:
        """Draw `jmdp.plots.comparison_chart` of all measures, one below the other, or of one."""
        return figure("comparison_chart", self) if measure is None else self[measure].plot()

    def _title(self) -> str:
        return self.answer

    def _note(self) -> str:
        return f"{effort(next(iter(self.values())))}; {confidence_percent(self.confidence)} confidence jointly"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "continue_with": forgotten}

    def __repr__(self) -> str:
        each = next(iter(self.values()))
        together, alone = confidence_percent(self.confidence), confidence_percent(each.confidence)
        joint = f"All statements hold jointly at {together} confidence: each measure at {alone}"
        said: list[str | list[str]] = [f"{len(self)} measures of {_about(each)}. {joint}."]
        for name, c in self.items():
            better = "smaller is better" if c.minimized else "larger is better"
            said += [[], f"{name} ({better}; {stopped(c)})", c.answer, table_lines(c)]
            said += [*in_one_run(c), *c.pairing.sentences()]
        return paragraphs([*said, [], effort(each), *assumptions(each)])


def _about(c: RunComparison) -> str:
    better = "" if c.measure is not None else "; smaller is better" if c.minimized else "; larger is better"
    return f"{len(c.designs)} designs; draws with equal keys are equal in all of them{better}"
