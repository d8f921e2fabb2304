"""Exact values of a table, with certified errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Floats
from jmdp.methods.shared.shaping import shape_rewards
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.reviews.values import Point, Reference, StepValues

_UP = 1 + 2.0**-40
"""Covers the rounding of an error that is itself computed in floats."""


@dataclass(frozen=True, eq=False)
class ExactTable:
    """Values of all states of a table; its settings are none."""

    reference: Reference
    probs: Floats  # [S, A], the reference policy
    value: Floats  # [S], v
    value_errors: Floats  # [S]
    mean: Floats  # [S, A], q
    errors: Floats  # [S, A]

    @classmethod
    def of(cls, reference: Reference, model: TabularJMDP, probs: Floats) -> ExactTable:
        """Solve for the values of this policy."""
        shaped = shape_rewards(model, TabularPolicy(probs))
        scale = shaped.scale
        value, mean = scale.restore(shaped.value.high), scale.restore(shaped.mean)
        value_errors = scale.restore_error((shaped.value_errors + np.abs(shaped.value.low)) * _UP)
        return cls(reference, probs, value, value_errors, mean, scale.restore_error(shaped.mean_errors))

    def __call__(self, point: Point) -> StepValues:
        """Values at a point.

        v is that of the solution, not the average of the rounded q: rows of a policy sum to 1 only up to rounding. It
        equals q if the policy has one action here.
        """
        s, alternatives = int(point.state), self.reference.alternatives
        at = list(alternatives.listed)
        taken = np.flatnonzero(self.probs[s])
        only = int(taken[0]) if taken.size == 1 else None
        value, error = (
            (self.value[s], self.value_errors[s]) if only is None else (self.mean[s, only], self.errors[s, only])
        )
        q, errors = self.mean[s, at], self.errors[s, at]
        mine = 0 if point.taken is None else alternatives.index(point.taken)
        rounding = 8 * ROUNDOFF * (np.abs(q) + abs(q[mine]))
        gap_errors = (errors + errors[mine] + rounding) * _UP
        skill_error = (errors[mine] + error + 8 * ROUNDOFF * (abs(q[mine]) + abs(value))) * _UP
        return StepValues(
            action_values=q,
            action_errors=errors,
            gap_errors=np.where(np.arange(len(at)) == mine, 0.0, gap_errors),
            average=float(value),
            skill_error=0.0 if at[mine] == only else float(skill_error),
            value=float(value),
            value_error=float(error),
            samples=0,
            steps=0,
        )
