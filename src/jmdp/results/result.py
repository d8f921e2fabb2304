"""The protocol of results, and its parts that are common to all kinds of results.

What an evaluation of a table was asked, so that it can be saved and parts of it computed again.

Learning curves: TD errors per window of a run.

Quantities that each method provides, and the error messages that list the methods that provide one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from jmdp.base import arrays, optional
from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate
from jmdp.errors import UnavailableError
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.text import html_table

if TYPE_CHECKING:
    import pandas as pd
    import xarray
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False)
class EvaluationInput:
    """Model, policies and horizon of an evaluation of a table."""

    model: TabularJMDP
    discount: float
    names: tuple[str, ...] | None  # of several policies; None: actions of one policy were evaluated
    policies: tuple[tuple[TabularPolicy, ...], ...]  # for each policy one table for all steps, or one for each step
    start: Floats | None = None  # [S]
    horizon: int | None = None
    terminal_value: Floats | None = None  # [S]


@dataclass(frozen=True, eq=False)
class LearningCurve(arrays.FrozenArrays):
    """TD errors δ = target − estimate of each block, averaged over windows of the run.

    `rms` decreases to the noise of a single sample. In `drift` the noise averages out, so it decreases further.
    """

    blocks: tuple[str, ...]  # the paper's kinds of coordinates
    updates: Floats  # [T], number of updates at the end of the window
    rms: Floats  # [T, blocks], root mean square of δ; nan if a block had no update
    drift: Floats  # [T, blocks], mean of δ
    floor: Floats | None = None  # [blocks], rms of δ due to the noise of a single sample, if measured

    def __post_init__(self) -> None:
        self.freeze()


class Quantity(Enum):
    """Outputs that only some methods provide."""

    CROSS_COVARIANCES = "covariances between states"
    HIGHER_MOMENTS = "moments of order 3 and higher"
    DISTRIBUTIONS = "distributions"
    VARIANCE_INTERVALS = "intervals of variances"
    SWEEPS = "residuals of sweeps"
    CHECKED_TABLES = "certificates that can be verified from the tables"


_Q = Quantity

GIVES: dict[str, frozenset[Quantity]] = {
    "ExactPairs()": frozenset(
        {
            _Q.CROSS_COVARIANCES,
            _Q.HIGHER_MOMENTS,
            _Q.VARIANCE_INTERVALS,
            _Q.SWEEPS,
            _Q.CHECKED_TABLES,
        }
    ),
    "ExactDistribution()": frozenset(
        {
            _Q.CROSS_COVARIANCES,
            _Q.DISTRIBUTIONS,
            _Q.VARIANCE_INTERVALS,
            _Q.SWEEPS,
            _Q.CHECKED_TABLES,
        }
    ),
    "JIPE()": frozenset({_Q.CROSS_COVARIANCES, _Q.HIGHER_MOMENTS, _Q.VARIANCE_INTERVALS, _Q.SWEEPS, _Q.CHECKED_TABLES}),
    "ReachablePairs(state)": frozenset({_Q.VARIANCE_INTERVALS}),
    "MonteCarlo(seed=…)": frozenset({_Q.DISTRIBUTIONS, _Q.VARIANCE_INTERVALS}),
    "Incremental(seed=…)": frozenset({_Q.CROSS_COVARIANCES, _Q.VARIANCE_INTERVALS}),
    "LinearProjected(features)": frozenset({_Q.CROSS_COVARIANCES, _Q.VARIANCE_INTERVALS}),
    "LearnedMoments(seed=…)": frozenset(),
    "NeuralGram(seed=…)": frozenset(),
}
"""Methods, as written in code, and the quantities they provide; checked by `tests/methods/test_contract.py`."""


def gives(method: str) -> frozenset[Quantity]:
    """Quantities that the method of this name provides; empty for methods outside jmdp."""
    return next((given for call, given in GIVES.items() if call.partition("(")[0] == method), frozenset())


def who_gives(quantity: Quantity) -> str:
    """Methods that provide the quantity, as text: "ExactPairs(), JIPE() and Incremental(seed=…)"."""
    calls = [call for call, given in GIVES.items() if quantity in given]
    return calls[0] if len(calls) == 1 else f"{', '.join(calls[:-1])} and {calls[-1]}"


def unavailable(method: str, quantity: Quantity) -> UnavailableError:
    """The error for a method that does not provide the quantity, or not for the question of this evaluation."""
    if quantity in gives(method):
        return UnavailableError(
            f"This evaluation has no {quantity.value}. {method} provides them, but not for a random start, nor for a "
            "policy that is given twice."
        )
    verb = "provides" if who_gives(quantity).count("(") == 1 else "provide"
    return UnavailableError(f"{method} does not provide {quantity.value}. {who_gives(quantity)} {verb} them.")


@runtime_checkable
class Result(Protocol):
    """The common interface of `Evaluation`, `Comparison` and ``learned.at(state)``."""

    @property
    def mean(self) -> Floats:
        """Means of the returns: [S, A], or [A] for a single state."""

    @property
    def gap(self) -> Any:
        """Method that returns the `Gap` of two alternatives, given by index or name."""

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each alternative, with intervals."""

    def to_xarray(self) -> xarray.Dataset:
        """Arrays with labels and errors."""

    def plot(self) -> Figure:
        """The main figure of this kind of result."""

    def _repr_html_(self) -> str:
        """HTML for notebooks."""


class Tabulated(ABC):
    """A result whose numbers are rows of a table; provides the dataframe, the labelled arrays and HTML."""

    _index: ClassVar[tuple[str, ...]]  # the columns that identify a row

    @abstractmethod
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows: labels, and estimates with intervals, by the column titles of the printed table."""

    def to_dataframe(self) -> pd.DataFrame:
        """One row per alternative; an estimate has three columns: value, low and high (nan if it has no interval)."""
        found: pd.DataFrame = dataframes().DataFrame([_flat(row) for row in self.rows()]).set_index(list(self._index))
        return found

    def to_xarray(self) -> xarray.Dataset:
        """The columns of `to_dataframe` as arrays with labels."""
        found: xarray.Dataset = labelled_arrays().Dataset.from_dataframe(self.to_dataframe())
        return found

    def _title(self) -> str:
        """The sentence above the HTML table."""
        return repr(self).partition("\n")[0]

    def _note(self) -> str:
        """The line below the HTML table: samples, seed and confidence, or the certificate."""
        return ""

    def _repr_html_(self) -> str:
        note = f"<p>{escape(self._note())}</p>" if self._note() else ""
        return f"<p>{escape(self._title())}</p>{html_table(self.rows())}{note}"


def dataframes() -> Any:
    """The module pandas."""
    return optional("pandas", 'Dataframes need pandas: pip install "jmdp[io]"')


def labelled_arrays() -> Any:
    """The module xarray."""
    return optional("xarray", 'Labelled arrays need xarray: pip install "jmdp[io]"')


def figure(name: str, *arguments: Any) -> Figure:
    """Draw with the function of this name in `jmdp.plots`, imported here because results do not depend on plots."""
    drawn: Figure = getattr(import_module("jmdp.plots"), name)(*arguments)
    return drawn


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Estimate):
            low, high = (value.low, value.high) if value.has_interval else (math.nan, math.nan)
            flat |= {name: float(value), f"{name} low": low, f"{name} high": high}
        else:
            flat[name] = value
    return flat


def forgotten(samples: int, given: Mapping[str, Any]) -> Any:
    """Raise: `continue_with` of a comparison that was pickled."""
    raise UnavailableError(
        "A pickled comparison has no simulator to continue with. Use save(path) and jmdp.load(path)."
    )
