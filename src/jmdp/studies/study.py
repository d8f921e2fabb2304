"""The results of a study, complete or still growing."""

from __future__ import annotations

import glob
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.savable import Reportable
from jmdp.base.settings import boolean_value, cut, short
from jmdp.errors import SettingsError, UnavailableError
from jmdp.results.certificate import Outcome
from jmdp.results.result import dataframes, figure, labelled_arrays
from jmdp.results.text import html_of
from jmdp.studies.folder import Folder
from jmdp.studies.parts import arrow, read_parts

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow
    import xarray
    from matplotlib.figure import Figure

DECIDED = (Outcome.BEST_FOUND, Outcome.GOOD_ENOUGH, Outcome.EQUAL_BEST)


@dataclass(frozen=True)
class Progress:
    """How far a study has come, in numbers of states."""

    states: int
    outcomes: Mapping[str, int]  # finished states by `Outcome`
    rung: int  # the last one with finished states
    missing: int = 0
    """States whose part is missing or changed. They are not finished: the same call of `study` simulates them again."""

    @property
    def finished(self) -> int:
        """States that are finished."""
        return sum(self.outcomes.values())

    @property
    def failed(self) -> int:
        """States whose comparison raised an error."""
        return self.outcomes.get(Outcome.FAILED.name, 0)

    @property
    def decided(self) -> int:
        """States in which one alternative is known to be best, or within `indifference` of the best."""
        return sum(self.outcomes.get(outcome.name, 0) for outcome in DECIDED)

    @property
    def complete(self) -> bool:
        """True if all states are finished."""
        return self.finished == self.states

    def __str__(self) -> str:
        said = [f"{n:,} {name}" for name, n in sorted(self.outcomes.items(), key=lambda item: -item[1])]
        of = f"{self.finished:,} of {self.states:,} states finished"
        said += [f"{self.missing:,} missing or changed"] if self.missing else []
        return f"{of}: {', '.join(said)}" if said else of


class Study(Reportable):
    """Results of a study up to the moment at which it was opened; open it again to see more.

    The files can also be read without jmdp: ``polars.read_parquet(study.files)``.
    """

    def __init__(self, folder: Folder, stopped: str | None = None) -> None:
        self._folder, self._stopped = folder, stopped

    @classmethod
    def open(cls, path: str | Path, *, trusted: bool = True) -> Study:
        """Open the folder of a study, also while it runs.

        Raises `StudyError` if the ledger is damaged. Parts are checked by name and size; `missing` lists those that are
        not as they were written. `verify` reads them.

        With ``trusted=False`` files are read in child processes with limits of memory and time, as "Security" in the
        documentation says. Needs Linux.
        """
        try:
            folder = Path(path)
        except TypeError:
            raise SettingsError(f"path is {short(path)}. Give the folder of a study.") from None
        return cls(Folder.read(folder, boolean_value("trusted", trusted)))

    @property
    def path(self) -> Path:
        """Folder of the study."""
        return self._folder.path

    @property
    def outcome(self) -> Outcome | None:
        """`Outcome.INTERRUPTED` if the call of `study` that returned this ended early; otherwise None."""
        return None if self._stopped is None else Outcome.INTERRUPTED

    @property
    def missing(self) -> list[str]:
        """Parts that are missing or have another size, with their states; the same call of `study` restores them."""
        return [str(damage) for damage in self._folder.damaged.values()]

    def verify(self) -> list[str]:
        """Read all parts and compare their checksums: what is damaged, [] if nothing is.

        The same call of `study` simulates the states of these parts again.
        """
        return [str(damage) for damage in self._folder.damages(checksums=True)]

    @property
    def files(self) -> str:
        """Pattern of the Parquet files, for pandas, polars or DuckDB."""
        return str(Path(glob.escape(str(self.path))) / "parts" / "*.parquet")

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the study."""
        return dict(self._folder.header["settings"])

    @property
    def alternative(self) -> str:
        """What is compared: "action" or "policy"."""
        return str(self._folder.header["alternative"])

    @property
    def alternatives(self) -> list[str]:
        """Names of the actions or policies compared."""
        return list(self._folder.header["alternatives"])

    @property
    def coordinates(self) -> list[str]:
        """Columns with the coordinates of the states: names or numbers of the entries of a state that is a tuple."""
        return list(self._folder.header["coordinates"])

    @cached_property
    def progress(self) -> Progress:
        """How far the study has come."""
        folder = self._folder
        sound = [chunk for key, chunk in folder.chunks.items() if key not in folder.damaged]
        outcomes: Counter[str] = sum((Counter(chunk.outcomes) for chunk in sound), Counter())
        rung = max((chunk.rung for chunk in sound), default=0)
        missing = sum(damage.chunk.finished for damage in folder.damaged.values())
        return Progress(folder.header["states"], dict(outcomes), rung, missing)

    def to_arrow(self) -> pyarrow.Table:
        """One row for each finished state and alternative, in the order of the states."""
        folder = self._folder
        parts = [
            (folder.part_path(chunk.rung, chunk.first, chunk.last), chunk.part)
            for chunk in folder.chunks.values()
            if chunk.rows
        ]
        tables = read_parts(parts, folder.columns, folder.trusted) if parts else []
        table = arrow().concat_tables(tables) if tables else folder.columns.schema().empty_table()
        numbers = table["number"].to_numpy()
        return table.take(numbers.argsort(kind="stable"))

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each finished state and alternative; see the table of columns in the documentation."""
        dataframes()
        return self.to_arrow().to_pandas(use_threads=False)

    def best(self) -> pd.DataFrame:
        """One row for each finished state: the leader, whether it is known to be best, and its gap to the runner-up.

        States that failed are not included; see `failures`.
        """
        rows = self.to_dataframe()
        rows = rows[rows["leader"]].drop(columns=["leader", "error"])
        names = {"best": "decided", self.alternative: "leader", "rival": "runner_up"}
        return rows.rename(columns=names).set_index("number")

    def failures(self) -> pd.DataFrame:
        """One row for each state whose comparison raised an error, with its key and the traceback."""
        rows = self.to_dataframe()
        failed = rows[(rows["outcome"] == Outcome.FAILED.name) & (rows[self.alternative] == self.alternatives[0])]
        return failed[["number", "state", *self.coordinates, "key", "error"]].set_index("number")

    def to_xarray(self) -> xarray.Dataset:
        """Dimensions: the finished states by number, and the alternatives. Labels and coordinates are coordinates."""
        rows = self.to_dataframe().drop(columns=["error"])
        indexed = rows.set_index(["number", self.alternative])
        found: xarray.Dataset = (
            labelled_arrays().Dataset.from_dataframe(indexed).reindex({self.alternative: self.alternatives})
        )
        per_state = ["state", *self.coordinates, "outcome", "key"]
        found = found.assign({name: found[name].isel({self.alternative: 0}, drop=True) for name in per_state})
        return found.set_coords(per_state[:-2]).assign_attrs(
            {name: str(value) for name, value in self.settings.items() if value is not None}
        )

    def plot(self) -> Figure:
        """A map of the best alternative if the states are the cells of a grid; otherwise the sorted gaps."""
        if not self.progress.finished - self.progress.failed:
            raise UnavailableError("No state is finished yet. Open the study again later.")
        return figure("study_map" if self._is_grid() else "study_gaps", self)

    def _repr_html_(self) -> str:
        return html_of(repr(self))

    def _is_grid(self) -> bool:
        """Whether two whole coordinates place most states in a rectangle."""
        if list(self._folder.header["coordinates"].values()) != ["int", "int"]:
            return False
        found = self.best()[self.coordinates].to_numpy(dtype=float)
        found = found[~np.isnan(found).any(axis=1)]
        if not len(found):
            return False
        (_, _, height), (_, _, width) = lattice(found)
        return min(height, width) > 1 and height * width <= _SPARSEST * self.progress.states

    def __repr__(self) -> str:
        header, progress = self._folder.header, self.progress
        width = len(f"{progress.states:,}")
        confidence, n = self.settings.get("confidence"), progress.finished - progress.failed
        kind = "policies" if self.alternative == "policy" else "actions"
        lines = [
            f"Study in {self.path}: {progress.states:,} states of {header['simulator']}",
            f"{len(self.alternatives)} {kind}: {cut(', '.join(self.alternatives), 90)}",
            *(f"  {count:>{width},} {name}: {Outcome[name].value}" for name, count in progress.outcomes.items()),
        ]
        if isinstance(confidence, float) and self.settings.get("tolerance") is None and progress.decided:
            lines.append(
                f"Each decision has confidence {confidence:g}: on average at most {(1 - confidence) * n:,.1f} of the "
                f"{n:,} states are decided wrongly."
            )
        lines += [f"{text[0].upper()}{text[1:]}." for text in self.missing[:_SHOWN]]
        if len(self.missing) > _SHOWN:
            lines.append(f"{len(self.missing) - _SHOWN:,} other parts are missing or changed.")
        if self.outcome is not None:
            lines.append(f"{self.outcome.name}: {self._stopped}")
        if not progress.complete:
            left = progress.states - progress.finished
            lines.append(f"{left:,} states are not finished. The same call of study continues.")
        return "\n".join(lines)


def lattice(places: Floats) -> list[tuple[int, int, int]]:
    """First coordinate, step and number of the rows, and of the columns, of the coarsest grid with these cells [n, 2].

    Coordinates are whole. Those of some studies have larger steps than 1: every third level of two stocks.
    """
    found = []
    for column in places.T:
        at = [int(x) for x in np.unique(column)]
        step = reduce(math.gcd, (after - before for before, after in pairwise(at)), 0) or 1
        found.append((at[0], step, (at[-1] - at[0]) // step + 1))
    return found


_SHOWN = 5
"""Damaged parts that are printed."""

_SPARSEST = 4
"""A rectangle with more cells than so many times the number of states is no grid of states."""
