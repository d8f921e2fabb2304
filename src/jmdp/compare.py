"""The verb at a decision point: every action from one state, the same luck, until one is known to be better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jmdp import anytime
from jmdp.actors.as_policy import as_policy
from jmdp.arrays import Floats
from jmdp.comparison import Comparison, Decision
from jmdp.coupling import Coupling, Synchronous
from jmdp.errors import CouplingError, SettingsError
from jmdp.labels import Label, Labels
from jmdp.luck import Shock, whole_seed
from jmdp.methods.drawn_evaluation import drawn_evaluation
from jmdp.methods.method import check_kind
from jmdp.methods.monte_carlo import MonteCarlo, rollout_length
from jmdp.methods.progress import count_bar
from jmdp.rollouts import paired_draws
from jmdp.simulator import Draws
from jmdp.simulators import as_simulator
from jmdp.simulators.python_function import TabularSimulator

_FIRST = 64
"""Rollouts of each action before anything is decided: intervals are large-sample ones."""


def compare(
    simulator: Any,
    state: Any = None,
    policy: Any = None,
    actions: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    seed: int,
    discount: float | None = None,
    coupling: Coupling = Synchronous(),
    confidence: float = 0.95,
    precision: float | None = None,
    samples: int = 10_000,
    max_steps: int | None = None,
    horizon: int | None = None,
    progress: bool = True,
) -> Comparison:
    """Compare actions from one state under shared luck, and stop when the question is decided.

    Each sample rolls out every action, then the policy, all branches meeting the luck that `coupling` has them share.
    After every batch the mean gaps have intervals that hold whenever one stops.

    Parameters
    ----------
    simulator
        A Gymnasium environment, a gymnax one, a table, or any `Simulator`.
    state
        Where to compare. None is where the simulator stands, or starts.
    policy
        What is followed after the first action: a table, a function of the observation, a model of stable-baselines3, a
        torch module, a JAX function; see `as_policy`.
    actions
        The candidates, by index or name; None takes all. Where actions are not numbered, the actions themselves, or a
        dictionary from names to actions.
    seed
        Of all luck. Sample i depends on the seed and i alone.
    discount
        γ; a table has its own. With 1 the return is the sum over `horizon` steps.
    coupling
        `Synchronous`: common random numbers, one shock for all branches in each step. `Local`, the paper's: branches
        share a shock only while they are in the same state; where states never recur that is the first step alone.
        `Independent`: nothing is shared, the baseline.
    confidence
        Of the decision, and of all gaps of one action together.
    precision
        If given, stop when every mean gap is known to ± this, instead of when one action is known to be best.
    samples, max_steps
        The budget: rollouts of each action, and simulated steps, if limited.
    horizon
        Steps of a rollout. None is where γ^horizon ≤ 1/1000. What is cut off is in the intervals, by the largest reward
        met; pairs that have met or ended lose nothing.
    progress
        Show a bar on a terminal when the work is long.
    """
    question = _Question(
        simulator, state, policy, actions, discount, seed, coupling, confidence, precision, max_steps, horizon, progress
    )
    return question.answer([], samples)


class _Question:
    """All that is settled before the first rollout."""

    def __init__(
        self,
        source: Any,
        state: Any,
        policy: Any,
        actions: Sequence[Any] | Mapping[str, Any] | None,
        discount: float | None,
        seed: int,
        coupling: Coupling,
        confidence: float,
        precision: float | None,
        max_steps: int | None,
        horizon: int | None,
        progress: bool,
    ) -> None:
        check_kind("coupling", coupling, Coupling, CouplingError)
        settings = MonteCarlo(seed=whole_seed(seed), confidence=confidence, horizon=horizon)
        if precision is not None and not precision > 0:
            raise SettingsError(f"precision is {precision!r}. Give a number > 0, or None.")
        if max_steps is not None and not max_steps > 0:
            raise SettingsError(f"max_steps is {max_steps!r}. Give a number > 0, or None.")
        self.simulator = as_simulator(source)
        if isinstance(self.simulator, TabularSimulator):
            coupling.check_fits(self.simulator.model)
        self.discount, self.horizon = rollout_length(self.simulator, discount, settings.horizon)
        self.coupling, self.seed, self.confidence = coupling, settings.seed, settings.confidence
        self.precision, self.max_steps, self.progress = precision, max_steps, progress
        self.state = self.simulator.start(Shock.of_sample(self.seed, 0)) if state is None else state
        self.candidates, self.labels = _candidates(self.simulator.actions, actions)
        self.error = (1 - self.confidence) / (len(self.candidates) - 1)
        self.actor = as_policy(policy, self.simulator.actions)

    def answer(self, drawn: list[Draws], samples: int) -> Comparison:
        if samples < 2:
            raise SettingsError(f"samples is {samples!r}. Give at least 2.")
        outcome = Decision.BUDGET_SPENT
        n = sum(len(part.returns) for part in drawn)
        try:
            with count_bar("compare", self.progress, n, samples) as report:
                while n < samples and not (self.max_steps and sum(part.steps for part in drawn) >= self.max_steps):
                    count = min(samples - n, _FIRST if n < _FIRST else max(_FIRST // 2, n // 4))
                    drawn = [*drawn, self._draw(n, count)]
                    n += count
                    report(n)
                    decided = self._decided(np.concatenate([part.returns for part in drawn]), drawn)
                    if decided is not None:
                        outcome = decided
                        break
        except KeyboardInterrupt:
            if n < 2:
                raise
            outcome = Decision.INTERRUPTED
        return self._comparison(drawn, outcome)

    def _draw(self, first: int, count: int) -> Draws:
        return paired_draws(
            self.simulator,
            self.state,
            self.candidates,
            self.actor,
            self.coupling,
            discount=self.discount,
            horizon=self.horizon,
            seed=self.seed,
            first=first,
            count=count,
        )

    def _decided(self, returns: Floats, drawn: list[Draws]) -> Decision | None:
        comparison = self._comparison(drawn, Decision.BUDGET_SPENT)
        certificate = comparison.evaluation.certificate
        assert certificate is not None
        if self.precision is not None:
            return Decision.PRECISE if np.max(certificate.gap_mean_error) <= self.precision else None
        return Decision.BEST_FOUND if comparison.best is not None else None

    def _comparison(self, drawn: list[Draws], outcome: Decision) -> Comparison:
        draws = _joined(drawn)
        n = len(draws.returns)

        def mean_errors(deviations: Floats, spread: Floats) -> Floats:
            return anytime.mean_errors(deviations, self.error, spread)

        evaluation = drawn_evaluation(
            [draws],
            method=MonteCarlo(seed=self.seed, samples=n, confidence=self.confidence, horizon=self.horizon),
            coupling=self.coupling,
            states=Labels.of("state", 1, ["here"]),
            actions=self.labels,
            discount=self.discount,
            horizon=self.horizon,
            quantile=anytime.mean_radius(n, self.error),
            confidence=self.confidence,
            law_slack=anytime.law_slack,
            mean_errors=mean_errors,
        )
        assert evaluation.certificate is not None
        means, errors = evaluation.mean[0], np.asarray(evaluation.certificate.gap_mean_error)[0]
        lead = int(means.argmax())
        others = np.arange(means.size) != lead
        sure = n >= _FIRST and bool((means[lead] - means > errors[lead])[others].all())
        return Comparison(
            evaluation,
            draws,
            outcome,
            self.labels.name(lead) if sure else None,
            repr(self.simulator),
            repr(self.actor),
            self.discount,
            self.horizon,
            self.seed,
            self.confidence,
            lambda samples: self.answer(drawn, samples),
        )


def _candidates(numbered: Labels | None, actions: Sequence[Any] | Mapping[str, Any] | None) -> tuple[list[Any], Labels]:
    """What a simulator is given for each candidate, and how they are called."""
    if numbered is None:
        if actions is None:
            raise SettingsError(
                "The actions of this simulator are not numbered. Give the ones to compare: actions=[…], or with names, "
                'actions={"left": …, "right": …}.'
            )
        named = actions if isinstance(actions, Mapping) else {_called(action): action for action in actions}
        chosen, names = list(named.values()), list(named)
        count = len(actions)
    else:
        labels: Sequence[Label] = range(numbered.size) if actions is None else list(actions)
        chosen = [numbered.index(label) for label in labels]
        names = [numbered.name(a) for a in chosen]
        count = len(set(chosen))
    if len(chosen) < 2 or count != len(names):
        raise SettingsError(f"actions are {names}. Give two or more different ones.")
    return chosen, Labels.of("action", len(chosen), names)


def _called(action: Any) -> str:
    return np.array2string(np.asarray(action), precision=4, separator=", ") if hasattr(action, "shape") else str(action)


def _joined(parts: list[Draws]) -> Draws:
    return Draws(
        np.concatenate([part.returns for part in parts]),
        np.concatenate([part.ends for part in parts]),
        np.concatenate([part.gains for part in parts]),
        max(part.largest_reward for part in parts),
        sum(part.steps for part in parts),
        sum(part.shared_steps for part in parts),
    )
