"""The gaps of a calibration as rows of a table and as labelled arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from jmdp.base.arrays import Floats, Integers
from jmdp.base.interval import Estimate
from jmdp.base.reportable import Reportable
from jmdp.base.savable import Savable
from jmdp.results.calibration.bootstrap import NORMAL
from jmdp.results.calibration.judgement import Judgement
from jmdp.results.result import Tabulated, figure, labelled_arrays

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


class _Calibration(Protocol):
    """The part of a `Calibration` that is read here; `Calibration` imports this module."""

    @property
    def state(self) -> Integers: ...
    @property
    def first(self) -> Integers: ...
    @property
    def second(self) -> Integers: ...
    @property
    def mean(self) -> Floats: ...
    @property
    def variance(self) -> Floats: ...
    @property
    def independent(self) -> Floats: ...
    @property
    def closed_form(self) -> Floats | None: ...
    @property
    def returns(self) -> Floats: ...
    @property
    def simulated_mean(self) -> Floats: ...
    @property
    def simulated_mean_error(self) -> Floats: ...
    @property
    def simulated_variance(self) -> Floats: ...
    @property
    def simulated_variance_error(self) -> Floats: ...
    @property
    def seeds(self) -> tuple[int, ...]: ...
    @property
    def verdict(self) -> Judgement: ...


class TabulatedGaps(Tabulated, Savable, Reportable):
    """The gaps of a calibration as rows, arrays and a figure."""

    index: ClassVar = ("state", "first", "second")

    def rows(self: _Calibration) -> list[dict[str, Any]]:
        """One row per gap; intervals of simulated numbers are ±1.96 standard errors."""
        return [
            {
                "state": int(self.state[i]),
                "first": int(self.first[i]),
                "second": int(self.second[i]),
                "learned mean": float(self.mean[i]),
                "simulated mean": _around(self.simulated_mean[i], self.simulated_mean_error[i]),
                "learned variance": float(self.variance[i]),
                "simulated variance": _around(self.simulated_variance[i], self.simulated_variance_error[i]),
                "learned variance if independent": float(self.independent[i]),
            }
            for i in range(self.state.size)
        ]

    def to_xarray(self: _Calibration) -> xarray.Dataset:
        """Learned moments and simulated returns of each gap."""
        names = ("state", "first", "second", "mean", "variance", "independent", "closed_form")
        own = {name: (("gap",), getattr(self, name)) for name in names if getattr(self, name) is not None}
        found: xarray.Dataset = labelled_arrays().Dataset(
            own | {"returns": (("gap", "rollout", "alternative"), self.returns)},
            {"alternative": ["first", "second"]},
            {"seeds": ", ".join(map(str, self.seeds)), "verdict": self.verdict.name},
        )
        return found

    def plot(self) -> Figure:
        """Draw `jmdp.plots.calibration_scatter`."""
        return figure("calibration_scatter", self)


def _around(value: Any, error: Any) -> Estimate:
    return Estimate.around(float(value), NORMAL * float(error))
