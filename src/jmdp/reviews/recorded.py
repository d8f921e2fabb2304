"""Reviews of recorded periods: where expectations come from, and how close the simulator is to what was observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.recorded_luck import RecordedLuck
from jmdp.base.records import Period
from jmdp.base.rounding import counted
from jmdp.base.settings import instance, short
from jmdp.errors import SettingsError, SimulatorError
from jmdp.models.actors.actor import numpy_of
from jmdp.simulators.adapters.exogenous import read_by
from jmdp.simulators.simulator import Simulator
from jmdp.statistics.history import Dependence


@dataclass(frozen=True)
class Deviation:
    """How close simulated states are to recorded ones."""

    largest: float
    step: int  # before which it is
    tolerance: float  # that was accepted

    def sentence(self) -> str:
        """The largest deviation in words."""
        where = f", before step {self.step}" if self.largest else ""
        accepted = f" (accepted: {self.tolerance:.6g})" if self.tolerance else ""
        return f"simulated states differ from the recorded ones by at most {self.largest:.6g}{where}{accepted}"


@dataclass(frozen=True)
class RecordedMonth:
    """The reviewed periods of a history, and where expectations come from."""

    name: str  # of a period: "day"
    first: Period  # reviewed
    last: Period  # reviewed
    until: Period  # last period of the history; rollouts end there
    purposes: tuple[str, ...]  # that the steps read
    resampled: tuple[str, ...]  # of these, the ones whose expectations are of blocks of other periods
    block: int  # length of these blocks

    @property
    def period(self) -> str:
        """The reviewed periods."""
        return f"{self.first} to {self.last}"

    def of_steps(self, history: RecordedLuck, steps: range) -> RecordedMonth:
        """The same for these steps."""
        return replace(self, first=history.periods[steps[0]], last=history.periods[steps[-1]])

    def sentences(self) -> list[str]:
        """What was recorded, and where expectations come from."""
        later = f"; rollouts go on to {self.until}" if self.until != self.last else ""
        said = [f"luck is {' and '.join(self.purposes)} as recorded, {self.period}{later}"]
        if self.resampled:
            said.append(
                f"expectations are over {' and '.join(self.resampled)} in blocks of {counted(self.block, self.name)} "
                f"from the other {self.name}s of the history, so skill is no hindsight; intervals are about these "
                f"rollouts, not about how well the history shows what other {self.name}s may bring"
            )
        if drawn := [one for one in self.purposes if one not in self.resampled]:
            about = f"expectations are over {' and '.join(drawn)} as the simulator draws it"
            said.append(f"{about}, so skill is no hindsight")
        return said


def of_history(history: Any, simulator: Simulator) -> tuple[RecordedMonth, RecordedLuck | None]:
    """What is recorded, and the history of rollouts: blocks outside the reviewed periods; None if all is drawn."""
    instance("luck", history, RecordedLuck, hint=" Give luck=history.part(first, last), the reviewed periods.")
    if history.is_resampled:
        raise SettingsError("luck is resampled. A review is of the history as it was: omit resampled().")
    purposes = read_by(simulator, history)
    sources = simulator.exogenous if isinstance(simulator.exogenous, Mapping) else {}
    resampled = [name for name in purposes if not callable(sources.get(name))]
    ends = history.periods[0], history.periods[-1]
    about = RecordedMonth(history.period, *ends, ends[1], tuple(purposes), tuple(resampled), 0)
    if not resampled:
        return about, None
    whole = history.whole()
    if len(whole) - len(history) < len(history):
        raise SettingsError(
            f"luck has {len(whole)} periods, of which {len(history)} are reviewed. Expectations come from the others, "
            "of which there must be as many at least. Give history.part(first, last) of a longer history, or a "
            f"function that draws: exogenous={{{resampled[0]!r}: lambda luck: …}}."
        )
    others = np.delete(np.arange(len(whole)), history.span)
    known = (_dependence(whole.column(name)[others], others % history.season) for name in resampled)
    block = history.block or max((one.block for one in known if one is not None), default=1)
    return replace(about, block=block), history.outside(block, resampled)


def _dependence(values: Floats, phases: Integers) -> Dependence | None:
    """The dependence of successive values, less the mean of their phase of the season."""
    return Dependence.of(values - (np.bincount(phases, values) / np.maximum(np.bincount(phases), 1))[phases], 1)


def compared_states(
    simulator: Simulator, states: Sequence[Any], first: int, recorded: Sequence[Any], tolerance: float
) -> Deviation:
    """The largest deviation of simulated observations from recorded ones; raise if it is larger than accepted."""
    if len(recorded) not in (len(states) - 1, len(states)):
        raise SettingsError(
            f"recorded has {len(recorded)} states. Give one before each of the {len(states) - 1} steps, as the policy "
            "observes it, and perhaps the one after the last."
        )
    worst, at = 0.0, first
    for i, (state, one) in enumerate(zip(states, recorded, strict=False)):
        seen = simulator.observe(state)
        mine, theirs = _numbers(seen), _numbers(one)
        if mine.shape != theirs.shape:
            raise SettingsError(f"recorded[{i}] is {short(one)}, but the simulated state is observed as {short(seen)}.")
        off = float(np.abs(mine - theirs).max(initial=0.0))
        if not off <= tolerance:
            raise SimulatorError(
                f"The simulated state before step {first + i} is {short(seen)}, the recorded one {short(one)}: they "
                f"differ by {off:.6g}, more than tolerance={tolerance:.6g}. The simulator does not describe what "
                "happened: correct its start, its steps, the actions or the history, or accept more."
            )
        if off > worst:
            worst, at = off, first + i
    return Deviation(worst, at, tolerance)


def _numbers(observation: Any) -> Floats:
    try:
        return numpy_of(observation).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{short(observation)} is no number or array of numbers, so it is not compared.") from error
