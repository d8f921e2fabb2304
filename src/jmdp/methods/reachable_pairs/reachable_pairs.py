"""ReachablePairs: certified intervals at one state of a model that is never enumerated."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.labels import Labels
from jmdp.base.machine import budget
from jmdp.base.settings import nonnegative, short, whole
from jmdp.errors import SettingsError
from jmdp.methods.method import COVERS, Method
from jmdp.methods.reachable_pairs.region import Explorer
from jmdp.methods.reachable_pairs.search import Search, SearchLimits
from jmdp.models.coupling import Coupling
from jmdp.models.lazy import LazyJMDP
from jmdp.models.policy import Policies, TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.certificate import Outcome
from jmdp.results.evaluation import Evaluation


@dataclass(frozen=True)
class ReachablePairs(Method[Evaluation]):
    """Certified intervals of gap mean, variance and correlation at one state, from the states reachable from it.

    Rollouts are cut where they leave a set of states. The finite table inside is solved by `ExactPairs`, and the part
    cut off is bounded in mean square by sums along the chain of single states
    (`jmdp.methods.reachable_pairs.region`). The set grows until the intervals are narrow enough or the budget is
    exhausted. The intervals are certified in either case.

    The evaluation has one state, with index 0 or its own name. Its `residuals` are the widths of the widest interval
    after each round, as fractions like `tolerance`.

    Parameters
    ----------
    state
        The decision state: for a `LazyJMDP` the state itself, for a `TabularJMDP` its index or name.
    tolerance
        Stop when every interval is narrow enough: for variances of gaps and returns, narrower than this fraction of the
        variance; for means, than this fraction of the standard deviation; for correlations, than this. Variances are
        taken to be at least `tolerance` times the largest variance of a return and `tolerance`² times the largest
        squared mean.
    max_states
        Maximum number of states to explore.
    memory_budget
        Maximum memory of the table of pairs in bytes; by default 80% of the free memory.
    max_seconds
        Start no new round after this time; None for no limit.
    """

    covers = COVERS["ReachablePairs(state)"]

    state: Hashable
    tolerance: float = 0.01
    max_states: int = 1_000_000
    memory_budget: int | None = None
    max_seconds: float | None = None

    step_name = "round"
    residual_name = "width"

    def __post_init__(self) -> None:
        try:
            repr(self.state)
        except (ValueError, RecursionError) as error:  # an integer that is too long to print
            raise SettingsError(f"state is {short(self.state)}, whose repr raised {type(error).__name__}.") from error
        nonnegative(self, "tolerance")
        whole(self, "max_states", 1)
        whole(self, "memory_budget", 1, optional=True)
        nonnegative(self, "max_seconds", optional=True)

    def on_table(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, progress: bool) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        state = model.states.index(self.state)  # type: ignore[arg-type]
        lazy = LazyJMDP.of(model)
        explorer = Explorer(lazy, lambda s: policy.probs[s], lazy.index(state))
        return self._search([explorer], None, model.states.name(state), coupling, progress)

    def on_policies(
        self, model: TabularJMDP, policies: Policies, coupling: Coupling, start: Floats | None, progress: bool
    ) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        if start is not None:
            raise SettingsError(
                "ReachablePairs evaluates one state. For starts=…, use ExactPairs() or MonteCarlo(seed=…)."
            )
        state, lazy = model.states.index(self.state), LazyJMDP.of(model)  # type: ignore[arg-type]
        origin = lazy.index(state)
        tables = [policy.probs for policy in policies.values()]
        explorers = [Explorer(lazy, probs.__getitem__, origin) for probs in tables]
        labels = Labels.of("policy", len(tables), list(policies))
        return self._search(explorers, labels, model.states.name(state), coupling, progress)

    def on_lazy_model(
        self, model: LazyJMDP, policy: Callable[[Any], Any], coupling: Coupling, progress: bool
    ) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        explorer = Explorer(model, policy, model.index(self.state))
        name = str(self.state).encode(errors="replace").decode()  # a lone surrogate cannot be printed
        return self._search([explorer], None, name, coupling, progress)

    def _search(
        self, explorers: list[Explorer], alternatives: Labels | None, name: str, coupling: Coupling, progress: bool
    ) -> Evaluation:
        """Run rounds until the search ends; the alternatives are the actions if None."""
        started = time.monotonic()
        limits = SearchLimits(self.tolerance, self.max_states, budget(self.memory_budget))
        search = Search(limits, explorers, coupling, progress)
        outcome = Outcome.BUDGET_EXHAUSTED
        try:
            while search.round():
                if self.max_seconds is not None and time.monotonic() - started >= self.max_seconds:
                    break
            else:
                outcome = search.outcome
        except KeyboardInterrupt:
            outcome = Outcome.INTERRUPTED
        if alternatives is None:
            alternatives = explorers[0].model.actions or Labels.of("action", len(search.best.mean), None)
        widths = np.array(search.widths)
        return search.best.evaluation(explorers[0], alternatives, name, outcome, coupling, self, widths)
