"""The result of `compare_runs`: which design is better, by how much and how surely, for each measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.reportable import Reportable
from jmdp.base.rounding import confidence_percent
from jmdp.base.savable import Savable
from jmdp.base.settings import cut, short
from jmdp.comparisons.answer import IS_BETTER, Wording
from jmdp.comparisons.comparison import WholeComparison
from jmdp.comparisons.comparison_table import aligned, assumptions, effort, in_one_run, stopped, table_rows, whole_table
from jmdp.errors import LabelError
from jmdp.results.result import Tabulated, figure, forgotten, labelled_arrays, wrapped

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunComparison(WholeComparison):
    """Designs compared by whole simulation runs with the same randomness: a `Comparison` of designs.

    `mean` and `gap` are in the units of the runs. `advantage`, `superiority` and `regret` are positive where the first
    design is better, whether larger or smaller values are.
    """

    index: ClassVar = ("design",)
    alternative: ClassVar[str] = "design"
    run: ClassVar[str] = "run"
    wording: ClassVar[Wording] = IS_BETTER

    measure: str | None  # name of the number that is compared; None if runs return a single number
    minimized: bool  # smaller values are better

    @property
    def designs(self) -> list[str]:
        """Names of the designs compared."""
        return self.actions

    @property
    def mean_title(self) -> str:
        """Title of the column of means."""
        return "mean" if self.measure is None else f"mean {self.measure}"

    @property
    def sign(self) -> float:
        """1 if larger values are better, −1 if smaller ones are."""
        return -1.0 if self.minimized else 1.0

    def run_results(self) -> Floats:
        """[n, D], the value of each design in each sample, in the order they were drawn; nan after its elimination."""
        return np.array(self.draws.returns)

    def __repr__(self) -> str:
        return whole_table(self, _about(self))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunComparisons(Tabulated, Savable, Reportable, Mapping[str, RunComparison]):
    """Comparisons of several measures of the same runs, by name.

    The error probability 1 − `confidence` is divided equally among the measures, so all statements hold jointly.
    """

    index: ClassVar = ("measure", "design")

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
            titles = {comparison.mean_title: "mean", f"advantage over {comparison.reference}": "advantage"}
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
        said = [wrapped(f"{len(self)} measures of {_about(each)}. {joint}.", "  ")]
        for name, c in self.items():
            rows = aligned(table_rows(c, c.beside_reference))
            better = "smaller is better" if c.minimized else "larger is better"
            said += ["", wrapped(f"{name} ({better}; {stopped(c)})", "  "), wrapped(c.answer, "  "), *rows]
            said += [wrapped(sentence, "  ") for sentence in (*in_one_run(c), *c.pairing.sentences())]
        return "\n".join([*said, "", *(wrapped(line, "  ") for line in (effort(each), *assumptions(each)))])


def _about(c: RunComparison) -> str:
    better = "" if c.measure is not None else "; smaller is better" if c.minimized else "; larger is better"
    return f"{len(c.designs)} designs; draws with equal keys are equal in all of them{better}"
