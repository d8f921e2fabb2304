"""Exact values of a table, with certified errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jmdp.base.arrays import ROUNDOFF, Floats
from jmdp.methods.shared.shaping import shape_rewards
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.reviews.values import Point, Reference, StepValues


@dataclass(frozen=True, eq=False)
class ExactTable:
    """Values of all states of a table; its settings are none."""

    reference: Reference
    probs: Floats  # [S, A], the reference policy
    mean: Floats  # [S, A], q
    errors: Floats  # [S, A]

    @classmethod
    def of(cls, reference: Reference, model: TabularJMDP, probs: Floats) -> ExactTable:
        """Solve for the values of this policy."""
        shaped = shape_rewards(model, TabularPolicy(probs))
        mean = shaped.scale.restore(shaped.mean)
        errors = np.asarray(shaped.scale.restore_error(shaped.mean_errors))
        return cls(reference, probs, mean, errors)

    def __call__(self, point: Point) -> StepValues:
        """Values at a point."""
        s, alternatives = int(point.state), self.reference.alternatives
        at = list(alternatives.listed)
        values, errors = self.mean[s], self.errors[s]
        shares = self.probs[s]
        average = float(shares @ values)
        error = float(shares @ errors) + 2 * len(values) * ROUNDOFF * float(np.abs(values).max())
        sure = float(shares.max()) == 1.0  # the average is then one of the values
        q, low = values[at], errors[at]
        mine = 0 if point.taken is None else alternatives.index(point.taken)
        rounding = 8 * ROUNDOFF * (np.abs(q) + abs(q[mine]))
        skill = float(low[mine]) + error + 8 * ROUNDOFF * (abs(float(q[mine])) + abs(average))
        skill = 0.0 if sure and shares[at[mine]] == 1.0 else skill
        return StepValues(
            action_values=q,
            action_errors=low,
            gap_errors=np.where(np.arange(len(at)) == mine, 0.0, low + low[mine] + rounding),
            average=average,
            skill_error=skill,
            value=average,
            value_error=float(errors[int(shares.argmax())]) if sure else error,
            samples=0,
            steps=0,
        )
