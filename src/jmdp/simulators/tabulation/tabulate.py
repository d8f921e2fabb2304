"""`tabulate`: the scenario table of a simulator with finitely many states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats
from jmdp.base.labels import SimulatorLike, StartsLike, is_unicode
from jmdp.base.machine import interruptible
from jmdp.base.progress import count_bar
from jmdp.base.rounding import at_most, counted
from jmdp.base.settings import probability, whole
from jmdp.errors import SettingsError, SimulatorError
from jmdp.models.coupling import Local
from jmdp.models.lazy import LazyJMDP
from jmdp.models.tabular import TabularJMDP, checked_discount, problem_discount
from jmdp.simulators import as_simulator
from jmdp.simulators.adapters.functions import ScenarioSimulator, TabularSimulator
from jmdp.simulators.checking.sampling import check_before_sampling
from jmdp.simulators.simulator import Simulator, all_actions
from jmdp.simulators.starts import Starts
from jmdp.simulators.tabulation.exploring import Exploration
from jmdp.simulators.tabulation.finite_luck import Cells
from jmdp.simulators.tabulation.joint_rows import lazy_table, reachable_states, return_error

_LONGEST_NAME = 40

_ENDED = "ended"
"""Name of the state after the end of an episode."""


@dataclass(frozen=True, eq=False, repr=False)
class Tabulation:
    """The scenario table of a simulator, and how exact it is. Methods and comparisons accept `model`."""

    model: TabularJMDP
    states: Sequence[Any]
    """The simulator's own states, by their index in the table; None for the state after the end of an episode."""
    exact: bool
    """True if no probability of the table was sampled: then it is that of the simulator, up to rounding. The starts may
    have been sampled; `notes` says so."""
    error: Floats
    """``[S]``: bound on the total variation distance between the joint outcomes of a state in the table and in the
    simulator; 0 if they were enumerated. All bounds hold jointly with the given confidence."""
    start: Floats | None
    """``[S]``: probability that an episode begins in a state; frequencies if the starts were sampled."""
    aligned: bool
    """True if scenario k is the same random event in all states, so that `Synchronous` means in the table what it means
    in the simulator."""
    samples: int | None
    """Shocks per sampled state, or of the starts; None if nothing was sampled."""
    seed: int | None
    confidence: float
    notes: Sequence[str] = field(default=())
    """How the table was made: why states were sampled, and whether the starts were."""

    @cached_property
    def return_error(self) -> Floats:
        """``[S]``: bound on the error of the mean return from each state, for every policy.

        It holds with the given confidence if no reward lies outside the range of the rewards seen (and 0). By the
        simulation lemma: at most max(error) · (highest − lowest reward)/(1 − γ)².
        """
        found = return_error(self.model, self.error)
        arrays.frozen(found)
        return found

    def __repr__(self) -> str:
        S, K, A = self.model.shape
        kind = "exact" if self.exact else "sampled"
        lines = [f"Table of {S:,} states, {K:,} scenarios and {A:,} actions: {kind}", *self.notes]
        if not self.exact:
            low, high = min(float(self.model.reward.min()), 0.0), max(float(self.model.reward.max()), 0.0)
            size, width = float(self.return_error.max()), (high - low) / (1 - self.model.discount)
            lines.append(
                f"error of joint probabilities at most {at_most(float(self.error.max()), 2)} (total variation in a "
                f"state; all states jointly with confidence {self.confidence:g})"
            )
            lines.append(
                f"error of mean returns at most {at_most(size, 2)}, if all rewards are in [{low:g}, {high:g}]"
                if size < width
                else "error of mean returns: no useful bound. Give more samples; errors fall with 1/√samples"
            )
        if not self.aligned:
            lines.append("scenarios of different states are not known to be related: use Local(), not Synchronous()")
        return "\n  ".join(lines)


@interruptible
def tabulate(
    simulator: SimulatorLike,
    starts: StartsLike = None,
    *,
    discount: float | None = None,
    samples: int = 1000,
    seed: int | None = None,
    max_states: int = 100_000,
    confidence: float = 0.95,
    progress: bool = True,
) -> Tabulation:
    """Scenario table of all states that a simulator can reach from its starts.

    A scenario of a state is the joint outcome of all actions under the same shock. If the draws of a state are finite
    (none, or `integers` and `choice` of the shock's generator, the same for all actions), they are enumerated and its
    probabilities are exact. Otherwise the state is simulated with `samples` shocks, and `Tabulation.error` bounds the
    error of the frequencies. The end of an episode is one terminal state, the last one.

    Parameters
    ----------
    simulator
        What `compare` accepts, with a finite list of actions; or a `LazyJMDP`, which is enumerated exactly. A table is
        returned as it is.
    starts
        List of states, or {state: probability}. None: the simulator's own start, which is enumerated or sampled too.
    discount
        Discount factor γ < 1, if the simulator has none.
    samples
        Shocks for each state whose draws are not finite. Those of a state depend on the seed and the state only.
    seed
        Random seed; needed only if something must be sampled.
    max_states
        Largest number of states; an error is raised if there are more.
    confidence
        Confidence level of all errors jointly.
    progress
        Show a progress bar on a terminal.
    """
    settings = _TabulationSettings(samples, seed, max_states, confidence)
    model = simulator if isinstance(simulator, LazyJMDP) else getattr(simulator, "model", None)
    if isinstance(model, LazyJMDP):
        problem_discount(model.discount, discount)
        return _of_lazy(model, starts, settings, progress)
    source = as_simulator(simulator)
    gamma = checked_discount(problem_discount(source.discount, discount))
    if isinstance(source, TabularSimulator):
        return _of_table(source, starts, getattr(simulator, "start", None), settings)
    return _of_simulator(source, starts, gamma, settings, progress)


@dataclass(frozen=True)
class _TabulationSettings:
    samples: int
    seed: int | None
    max_states: int
    confidence: float

    def __post_init__(self) -> None:
        whole(self, "samples", 1)
        whole(self, "max_states", 1)
        whole(self, "seed", 0, optional=True)
        probability(self, "confidence")


def _of_simulator(
    source: Simulator, starts: Any, gamma: float, settings: _TabulationSettings, progress: bool
) -> Tabulation:
    if source.actions is None:
        raise SimulatorError(
            f"{source!r} has no finite list of actions, so it has no table. Simulate a list of actions: define a "
            "Simulator with actions = jmdp.simulators.action_labels([…])."
        )
    actions = all_actions(source.actions)
    cells = Cells(source.weights) if isinstance(source, ScenarioSimulator) else None
    search = Exploration(source, cells, settings.seed, settings.samples, settings.max_states)
    begun = search.begin(None if starts is None else Starts.of(starts, source))
    check_before_sampling(source, search.states[0], actions, Local())
    with count_bar("tabulate", progress, 0) as report:
        search.run(report)
    table = search.table()
    states = [*search.states, *[None] * table.has_end]
    model = TabularJMDP(
        table.prob,
        table.reward,
        table.next_state,
        gamma,
        np.arange(len(states)) >= len(search.states),
        _names(source, search.states, table.has_end),
        source.actions.names,
    )
    error, start = np.zeros(len(states)), np.zeros(len(states))
    error[: len(search.states)] = search.errors(settings.confidence)
    for s, chance in begun:
        start[s] += chance
    found = _tabulation(model, states, error, start, table.aligned, settings, _notes(search, settings))
    return found if search.start_counts is None else replace(found, samples=settings.samples)


def _notes(search: Exploration, settings: _TabulationSettings) -> list[str]:
    """How the states and starts were found."""
    S, sampled = len(search.states), len(search.counts)
    notes = [f"{counted(S - sampled, 'state')} enumerated: all values of their draws"] if sampled < S else []
    for reason, count in search.reasons.most_common(3):
        notes.append(f"{counted(count, 'state')} sampled with {settings.samples:,} shocks each, because {reason}")
    if search.start_counts is not None:
        rare = at_most(-np.log(1 - settings.confidence) / search.start_counts, 1)
        notes.append(f"starts sampled {search.start_counts:,} times; a start rarer than {rare} may be missing")
    return notes


def _of_lazy(lazy: LazyJMDP, starts: Any, settings: _TabulationSettings, progress: bool) -> Tabulation:
    if starts is None:
        raise SettingsError("A LazyJMDP has no start state. Give starts=[…], from which all states are found.")
    begun = Starts.of(starts, cast("Simulator", lazy))  # only tables are converted in another way
    with count_bar("tabulate", progress, 0) as report:
        found = reachable_states(lazy, begun.states, settings.max_states, report)
    states = [lazy.states[i] for i in found]
    model = lazy_table(lazy, found, _plain_names(states))
    start = np.zeros(len(states))
    number = {i: s for s, i in enumerate(found)}
    for state, chance in zip(begun.states, begun.probabilities.tolist(), strict=True):
        start[number[lazy.index(state)]] += chance
    notes = [f"{counted(len(states), 'state')} enumerated from a LazyJMDP"]
    return _tabulation(model, states, np.zeros(len(states)), start, True, settings, notes)


def _of_table(source: TabularSimulator, starts: Any, own: Any, settings: _TabulationSettings) -> Tabulation:
    model, start = source.model, own if isinstance(own, np.ndarray) else None
    if starts is not None:
        begun = Starts.of(starts, source)
        start = np.bincount(begun.states, begun.probabilities, model.states.size)
    S = model.states.size
    return _tabulation(model, list(range(S)), np.zeros(S), start, True, settings, ["the simulator's own table"])


def _tabulation(
    model: TabularJMDP,
    states: list[Any],
    error: Floats,
    start: Floats | None,
    aligned: bool,
    settings: _TabulationSettings,
    notes: list[str],
) -> Tabulation:
    exact = not error.any()
    for array in (error, start):
        if array is not None:
            arrays.frozen(array)
    return Tabulation(
        model=model,
        states=tuple(states),
        exact=exact,
        error=error,
        start=start,
        aligned=aligned,
        samples=None if exact else settings.samples,
        seed=settings.seed,
        confidence=settings.confidence,
        notes=tuple(notes),
    )


def _names(simulator: Simulator, states: list[Any], has_end: bool) -> list[str] | None:
    """Names of the states: their texts, or those of their observations; None if these are long or not unique."""
    ending = [_ENDED] * has_end
    found = _plain_names([*states, *ending])
    if found is None:
        try:
            found = _plain_names([*simulator.observe_all(states), *ending])
        except Exception:  # of any kind: observations are not needed for a table
            return None
    return found


def _plain_names(values: Sequence[Any]) -> list[str] | None:
    names = []
    for value in values:
        if not isinstance(value, (str, int, float, tuple, np.generic)):
            return None
        name = str(value.item() if isinstance(value, np.generic) else value)
        if len(name) > _LONGEST_NAME or not is_unicode(name):
            return None
        names.append(name)
    return names if len(set(names)) == len(names) else None
