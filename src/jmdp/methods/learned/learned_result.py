"""Learned joint moments at any state of a simulator: what all methods that learn them give."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import Floats
from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.base.machine import Threads
from jmdp.base.savable import Reportable, Savable
from jmdp.base.settings import asks_for_seed, short, whole_number
from jmdp.distribute.pools import Pool, one_thread
from jmdp.distribute.process_pool import pool_of
from jmdp.errors import PolicyError, SettingsError, SimulatorError, UnavailableError
from jmdp.methods.learned.candidates import Moments, distinct
from jmdp.methods.learned.inputs import Inputs
from jmdp.methods.learned.stack import CovarianceStack, MeanStack
from jmdp.methods.learned.visited import (
    BLOCK,
    VisitedStates,
    VisitPlan,
    blocks_within,
    calibration_of,
    default_steps,
)
from jmdp.methods.method import Method
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.results.bootstrap import Judgement
from jmdp.results.calibration import Calibration
from jmdp.results.certificate import Outcome
from jmdp.results.evaluation import Evaluation
from jmdp.results.text import html_of
from jmdp.simulators.adapters.functions import table_of
from jmdp.simulators.rollouts.pair_walks import numbers_of
from jmdp.simulators.simulator import Simulator

if TYPE_CHECKING:
    import pandas as pd
    import xarray
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LearnedResult(Savable, Reportable):
    """Learned joint moments of returns, for any state of the simulator.

    There is no certificate. `calibration` compares learned gaps with simulated ones in held-out states. `outcome` is
    its verdict: whether learned gap variances are better than constant ones.
    """

    simulator: Simulator
    actor: Actor | Mapping[str, Actor]  # several policies by name
    coupling: Coupling
    method: Method[Any]
    discount: float
    horizon: int  # steps of the simulated reference rollouts
    actions: Labels  # or several policies, whose returns are then those of the whole policies
    outcome: Outcome
    calibration: Calibration | None
    observation: tuple[tuple[int, ...], str]  # shape and dtype

    certificate = None

    @property
    @abstractmethod
    def effort(self) -> str:
        """How much was simulated or trained, in words."""

    @property
    @abstractmethod
    def caveats(self) -> list[str]:
        """Sentences on how far to trust the answer."""

    @abstractmethod
    def moments(self, observations: npt.NDArray[Any]) -> tuple[Floats, Floats]:
        """Means [n, A] and covariances [n, A, A] of the returns of all actions, for observations [n, …]."""

    @abstractmethod
    def means(self, observations: npt.NDArray[Any]) -> Floats:
        """Means [n, A] of the returns of all actions, for observations [n, …]."""

    def at(self, state: Any) -> Evaluation:
        """Return the evaluation of one state, named "here": ``learned.at(state).gap(0, a, b)``.

        Covariance matrices are always positive semidefinite.
        """
        return self._here(*self.moments(self._seen(state)[None]))

    def at_all(self, states: Any) -> tuple[Floats, Floats]:
        """Return `moments` of a sequence of states."""
        if not len(states):
            raise SettingsError("states is empty. Give at least one state.")
        return self.moments(np.stack([self._seen(state) for state in states]))

    def connected(self, simulator: Any, policy: Any) -> Self:
        """Give an evaluation from a file (`jmdp.load`) its simulator and policy or policies, as in `jmdp.evaluate`.

        Without them, `at` takes an observation instead of a state, and nothing can be simulated.
        """
        from jmdp.models.actors.as_policy import as_policy
        from jmdp.simulators import as_simulator

        found = as_simulator(simulator)
        table = table_of(found)
        if self.actions.kind == "policy":
            if not isinstance(policy, Mapping) or list(policy) != list(self.actions):
                raise PolicyError(f"policy is {short(policy)}. Give those that were learned: {self.actions.shown}.")
            actors = {name: as_policy(one, found.actions, table=table) for name, one in policy.items()}
            return replace(self, simulator=found, actor=actors)
        if found.actions is None or list(found.actions) != list(self.actions):
            raise SimulatorError(f"The actions of {short(simulator)} are not those that were learned.")
        return replace(self, simulator=found, actor=as_policy(policy, found.actions, table=table))

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each gap in a held-out state: learned and simulated mean and variance."""
        return self._judged.to_dataframe()

    def plot(self) -> Figure:
        """Draw `jmdp.plots.calibration_scatter` of the held-out states."""
        return self._judged.plot()

    @property
    def _judged(self) -> Calibration:
        if self.calibration is None:
            raise UnavailableError("No states were held out. Train with held_out=…, or use calibrate(seed=…).")
        return self.calibration

    def _here(self, mean: Floats, covariance: Floats) -> Evaluation:
        return Evaluation(
            mean=mean,
            covariance=covariance,
            certificate=None,
            outcome=self.outcome,
            coupling=self.coupling,
            method=self.method,
            states=Labels.of("state", 1, ["here"]),
            actions=self.actions,
            residuals=np.zeros(0),
        )

    def _seen(self, state: Any) -> npt.NDArray[Any]:
        return np.asarray(numbers_of(self.simulator, self.simulator.observe(state)))

    def _policies(self) -> list[str]:
        if not isinstance(self.actor, Mapping):
            return [f"  policy       {self.actor!r}"]
        return [f"  policy       {name}: {actor!r}" for name, actor in self.actor.items()]

    def _repr_html_(self) -> str:
        return html_of(repr(self))

    def _lines(self, trained: str, steps: int) -> str:
        """The first lines of the text."""
        so_far = "" if self.outcome is not Outcome.INTERRUPTED else f"; so far {judged(self.calibration).value}"
        return "\n".join(
            [
                f"{type(self).__name__} of {self.simulator!r}, {self.outcome.name}: {self.outcome.value}{so_far}",
                f"  coupling     {self.coupling}",
                *self._policies(),
                f"  {trained:<11}  {steps:,}",
                "  certificate  none",
            ]
        )


def judged(record: Calibration | None) -> Outcome:
    """Return the outcome of an uninterrupted run, given its calibration."""
    return Outcome.NOT_JUDGED if record is None else _OUTCOMES[record.verdict]


_OUTCOMES = {
    Judgement.USEFUL: Outcome.TRAINED,
    Judgement.NOT_BETTER: Outcome.NOT_BETTER,
    Judgement.NOTHING_VARIED: Outcome.NOTHING_VARIED,
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RegressedEvaluation(LearnedResult):
    """Joint moments of returns from regressions on visited states; the result of `LearnedMoments`.

    Of several policies, `actions` are the policies: ``learned.at(state).gap(0, "new", "old")``.

    Where the held-out states do not show that covariances which depend on the state are better, one covariance matrix
    for all states is the answer, and `advice` says what may help.
    """

    inputs: Inputs
    mean_stack: MeanStack
    covariance_stack: CovarianceStack
    constant: Floats  # [A, A], average covariance matrix of all states
    states: int  # that were simulated, without the held-out ones
    rollouts: int  # of each action or policy in each of them
    variation: float  # relative standard deviation of true gap variances between states, as estimated

    def moments(self, observations: npt.NDArray[Any]) -> tuple[Floats, Floats]:
        """Means [n, A] and covariances [n, A, A] of the returns of all actions, for observations [n, …].

        Many observations are predicted in parts, one for each core at a time. Those that recur are predicted once.
        """
        inputs = self._inputs_of(observations)
        first, place = distinct(inputs)
        if 2 * len(first) <= len(inputs):
            mean, covariance = self._moments(inputs[first])
            return mean[place], covariance[place]
        return self._moments(inputs)

    def _moments(self, inputs: Floats) -> tuple[Floats, Floats]:
        A = self.actions.size
        mean, covariance = np.empty((len(inputs), A)), np.empty((len(inputs), A, A))

        def predict(first: int, step: int) -> None:
            for start in range(first * _PART, len(inputs), step * _PART):
                part = slice(start, start + _PART)
                mean[part] = self.mean_stack(inputs[part])
                covariance[part] = Moments(A).matrices(self.covariance_stack(inputs[part]))

        if len(inputs) <= _PART:
            predict(0, 1)
        else:
            with one_thread(), Threads() as threads:
                threads.run(predict, (), ())
        return mean, covariance

    def means(self, observations: npt.NDArray[Any]) -> Floats:
        """Means [n, A] of the returns of all actions, for observations [n, …]."""
        return self.mean_stack(self._inputs_of(observations))

    def _inputs_of(self, observations: npt.NDArray[Any]) -> Floats:
        observations = np.asarray(observations)
        if observations.ndim == 0 or observations.shape[1:] != self.observation[0]:
            raise SettingsError(
                f"observations has shape {observations.shape}. Give an array of shape "
                f"{('n', *self.observation[0])!r}, one observation per row."
            )
        return self.inputs(observations)

    @property
    def effort(self) -> str:
        """How much was simulated, in words."""
        return f"Regressions on {self.states:,} states with {self.rollouts} rollouts of each {self.actions.kind}"

    @property
    def caveats(self) -> list[str]:
        """Sentences on how far to trust the answer."""
        shares = "; ".join(f"{name} {share:.0%}" for name, share in self.weights.items())
        return [
            "There is no certificate: predictions in a single state are estimates, no interval.",
            f"Weights of the candidates for covariances: {shares}.",
            *([self.advice] if self.advice else []),
        ]

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each candidate in the covariances, the largest first."""
        found = zip(self.covariance_stack.names, self.covariance_stack.weights.tolist(), strict=True)
        return dict(sorted(found, key=lambda one: -one[1]))

    @property
    def advice(self) -> str:
        """What may lead to a better answer, in one sentence; empty if the outcome is TRAINED."""
        if self.outcome in (Outcome.TRAINED, Outcome.NOT_JUDGED):
            return ""
        settings: Any = self.method
        planned = BLOCK * blocks_within(settings.max_steps, self.actions.size, self.horizon)
        if self.outcome is Outcome.NOTHING_VARIED:
            return (
                f"No gap varied in {self.states:,} states with {self.rollouts} rollouts each. If rewards are "
                "deterministic, or all randomness is shared and cancels, that is the answer. If rewards that vary come "
                f"later than {self.horizon:,} steps, where returns are cut, use a larger discount. Rare ones may be "
                "missing."
            )
        if self.outcome is Outcome.INTERRUPTED:
            return f"The run was interrupted after {self.states:,} states. Run it again to the end."
        if settings.max_seconds is not None and self.states < planned:
            return (
                f"The limit of {settings.max_seconds:g} seconds ended the simulation after {self.states:,} of "
                f"{planned:,} states. Use a larger one, or none: LearnedMoments(seed=…, max_seconds=None)."
            )
        steps = max(4 * self.states * self.rollouts * self.actions.size * self.horizon, default_steps(self.horizon))
        more = f"LearnedMoments(seed=…, max_steps={steps})"
        if self.variation < _LITTLE:
            return (
                f"Gap variances hardly differ between states: by {self.variation:.0%} of their mean, as far as "
                f"{self.states:,} states show. The constant is then the right answer. To find small differences, use "
                f"more states: {more}."
            )
        return (
            f"Gap variances differ between states by about {self.variation:.0%} of their mean, but {self.states:,} "
            f"states were too few to learn how. Use more: {more}, or give observations that say more about the state."
        )

    @asks_for_seed
    def calibrate(
        self, *, seed: int, states: int = 160, rollouts: int = 24, pool: int | Pool | None = None
    ) -> Calibration:
        """Compare learned gaps with simulated ones in new states, which differ from those of training for any seed."""
        root = Shock.of_sample(whole_number("seed", seed, 0), 0).derived(b"calibration")
        blocks = -(-whole_number("states", states, 1) // BLOCK)
        plan = VisitPlan(self.simulator, actors_of(self.actor), self.coupling, self.discount, self.horizon, root.seed())
        with pool_of(pool) as workers:
            jobs = ((block, whole_number("rollouts", rollouts, 4), True) for block in range(blocks))
            visited = VisitedStates.joined(list(workers.ordered(plan, jobs)))
        mean, covariance = self.moments(visited.observation)
        return calibration_of(visited, mean, covariance, gap_variances(self.constant), seed)

    def to_xarray(self) -> xarray.Dataset:
        """The gaps of `calibration`."""
        about = {"outcome": self.outcome.name, "coupling": repr(self.coupling), "method": repr(self.method)}
        return self._judged.to_xarray().assign_attrs(about)

    def __repr__(self) -> str:
        named = "; ".join(f"{name} {share:.0%}" for name, share in self.weights.items())
        lines = [
            self._lines("states", self.states),
            f"  rollouts     {self.rollouts} of each {self.actions.kind} in each state, {self.horizon:,} steps",
            f"  covariances  {named}",
        ]
        if self.advice:
            lines.append(f"  advice       {self.advice}")
        return "\n".join(lines) + ("" if self.calibration is None else f"\n{self.calibration!r}")


def actors_of(policy: Actor | Mapping[str, Actor]) -> tuple[Actor, ...]:
    """The policy or policies of a result."""
    return tuple(policy.values()) if isinstance(policy, Mapping) else (policy,)


_PART = 2048
"""Observations that are predicted together."""

_LITTLE = 0.15
"""Relative standard deviation of gap variances between states below which a constant is called right."""


def gap_variances(covariance: Floats) -> Floats:
    """[A, A], variances of the gaps of this covariance matrix."""
    own = np.diagonal(covariance)
    return np.asarray(np.maximum(own[:, None] + own - 2 * covariance, 0.0))
