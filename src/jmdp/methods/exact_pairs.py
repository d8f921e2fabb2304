"""ExactPairs: all second moments from a table over pairs of states, certified."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from jmdp.arrays import Floats, largest
from jmdp.coupling import Coupling
from jmdp.evaluation import Certificate, Evaluation
from jmdp.methods.fixed_point import iterate
from jmdp.methods.memory import budget, require
from jmdp.methods.method import Method
from jmdp.methods.pair_operator import PairOperator, PairTables
from jmdp.methods.progress import sweep_bar
from jmdp.methods.settings import nonnegative, whole
from jmdp.methods.shaping import shape
from jmdp.model import TabularJMDP
from jmdp.policy import TabularPolicy

_REMEMBERED = 16e6
"""How many bytes are worth keeping of past tables to combine: many small tables, or a few large ones."""

_SWEEP_TABLES = 5
"""Tables in use at once without any past ones: the point, its sweep, the best point, and two while they are formed."""


@dataclass(frozen=True)
class ExactPairs(Method):
    """Exact means and covariances by dynamic programming on state pairs.

    Solves v = r_π + γ P_π v, replaces rewards by TD errors, and iterates W = b + γ² L W over pairs of states (see
    `jmdp.methods.pair_operator`); covariances of actions are one step ahead of W. The paper's operator lives on pairs
    of (state, action); this one gives the same moments from A² times less memory, without subtracting squares. Plain
    sweeps contract with γ²; past sweeps are combined to do better (`jmdp.methods.fixed_point`).

    The certificate is (‖residual‖ + rounding)/(1 − γ²), one step ahead: every stated interval contains the truth.

    Parameters
    ----------
    tolerance
        Stop when every certified error is small enough: means to `tolerance` times the root mean square of the largest
        return; covariances to `tolerance` times the largest variance or, where returns hardly vary, to `tolerance`²
        times the largest mean square. Relative, so that rewards in cents and in euros stop alike.
    max_sweeps
        Give up after so many.
    memory_budget
        Bytes it may use; by default 80% of what is free. It needs five tables of S² numbers, and keeps more past ones
        to combine while there is room.
    """

    tolerance: float = 1e-10
    max_sweeps: int = 100_000
    memory_budget: int | None = None

    def __post_init__(self) -> None:
        nonnegative(self, "tolerance")
        whole(self, "max_sweeps", 1)
        if self.memory_budget is not None:
            whole(self, "memory_budget", 1)

    def run(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, progress: bool) -> Evaluation:
        """Evaluate; see `jmdp.evaluate`."""
        remembered = self._plan(model)
        shaped = shape(model, policy)
        operator = PairOperator(model, policy, coupling, shaped)
        mean_square = largest(shaped.mean) ** 2

        def enough(tables: Floats, residual: float) -> bool:
            variance = operator.variance_scale(tables)
            scale = variance + mean_square
            if shaped.mean_error > self.tolerance * math.sqrt(scale):
                return False
            allowed = self.tolerance * max(variance, self.tolerance * scale)
            return operator.covariance_error(tables, residual) <= allowed

        e = shaped.exponent
        with sweep_bar(type(self).__name__, progress, 2 * e) as report:
            found = iterate(
                operator.sweep,
                np.zeros(operator.size),
                norm=largest,
                enough=enough,
                floor=operator.floor,
                rate=model.discount * model.discount,
                max_sweeps=self.max_sweeps,
                memory=remembered,
                report=report,
            )
        tables = PairTables(operator, found.point)
        certificate = Certificate.certified(
            scaled_error(shaped.mean_error, e),
            scaled_error(operator.covariance_error(found.point, found.residual), 2 * e),
            model.discount,
            model.reward_bound,
        )
        return Evaluation(
            np.ldexp(shaped.mean, e),
            np.ldexp(operator.covariance(found.point), 2 * e),
            certificate,
            found.outcome,
            coupling,
            self,
            model.states,
            model.actions,
            np.ldexp(found.residuals, 2 * e),
            tables,
        )

    def _plan(self, model: TabularJMDP) -> int:
        """How many past tables fit beside those that a sweep needs; refuses where not even those do."""
        S = model.shape[0]
        table = 8.0 * (S * S + S)
        allowed = budget(self.memory_budget)
        mend = "Use MonteCarlo(seed=…), which needs no table of pairs"
        require(_SWEEP_TABLES * table, allowed, f"ExactPairs on {S} states", mend)
        room = (allowed / table - _SWEEP_TABLES) // 2  # each past sweep keeps a step and its residual
        return int(min(max(_REMEMBERED // table, 3), 40, max(room, 0)))


def scaled_error(error: float, exponent: int) -> float:
    """Return error × 2**exponent, with what an underflow on the way back can hide."""
    if not error:
        return 0.0
    try:
        return math.ldexp(error, exponent) + 2.0**-1073
    except OverflowError:
        return math.inf
