"""Evaluations over a finite horizon, of one policy's actions or of several policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.labels import Labels
from jmdp.base.scale import Scale
from jmdp.methods.exact_pairs.finite_horizon import HorizonRange, Recursion, horizon_problem, recursion
from jmdp.methods.exact_pairs.horizon_step import HorizonStep
from jmdp.methods.exact_pairs.policy_pairs import PolicyMoments, PolicyRanges, places, value_gaps
from jmdp.models.coupling import Coupling
from jmdp.models.horizon import Horizon
from jmdp.models.policy import TabularPolicy
from jmdp.models.policy_blocks import PolicyBlocks
from jmdp.models.tabular import TabularJMDP
from jmdp.results.certificate import Certificate
from jmdp.results.evaluation import Evaluation
from jmdp.results.outcome import Outcome
from jmdp.results.parts import MethodSettings

_UP = 1 + 2.0**-40


@dataclass(frozen=True, eq=False)
class ActionsAhead:
    """Covariances of the returns of first actions in different states, by a lookahead of one step."""

    step: HorizonStep
    H: Floats  # [S, S], with one step less to go
    error: Floats  # [S, A]; the error of a covariance is at most the product of two entries

    def cross_covariance(self, s: int, a: int, t: int, b: int) -> float:
        """Cov(Z(s, a), Z(t, b)) for s ≠ t."""
        return self.step.shaped.scale.restore(self.step.cross_covariance(self.H, s, a, t, b), 2)

    def cross_covariance_error(self, s: int, a: int, t: int, b: int) -> float:
        """Bound on the error of `cross_covariance`."""
        return self.step.shaped.scale.restore_error(float(self.error[s, a] * self.error[t, b]) * _UP, 2)


@dataclass(frozen=True, eq=False)
class PoliciesAhead:
    """Covariances of the returns of different policies from different states."""

    scale: Scale
    blocks: PolicyBlocks
    H: Floats  # [S, S] over the states of all blocks
    error: Floats  # [S]; the error of a covariance is at most the product of two entries

    def cross_covariance(self, s: int, i: int, t: int, j: int) -> float:
        """Covariance of the returns of policy i from s and of policy j from t."""
        return self.scale.restore(float(self.H[places(self.blocks, s, i, t, j)]), 2)

    def cross_covariance_error(self, s: int, i: int, t: int, j: int) -> float:
        """Bound on the error of `cross_covariance`."""
        x, y = places(self.blocks, s, i, t, j)
        return self.scale.restore_error(float(self.error[x] * self.error[y]) * _UP, 2)


class HorizonSolver:
    """Evaluator over one finite horizon, of moments up to a given order."""

    def __init__(self, method: MethodSettings, order: int, coupling: Coupling, horizon: Horizon) -> None:
        self._method, self._order, self._coupling, self._horizon = method, order, coupling, horizon

    def of_actions(self, model: TabularJMDP, policy: Sequence[TabularPolicy], progress: bool) -> Evaluation:
        """Evaluate each first action, followed by the policy."""
        problem = horizon_problem(model, self._coupling, self._horizon, None)
        found = recursion(problem, policy, self._order, progress)
        step = found.step
        error = step.action_error()
        return self._evaluation(
            model,
            model.actions,
            found,
            (step.shaped.mean, step.shaped.mean_errors),
            step.shaped.gap_means(),
            (step.covariance(found.before[1, 1]), error[:, :, None] * error[:, None, :] * _UP),
            {
                "cross": ActionsAhead(step, found.before[1, 1], error),
                "moments": found.moments(self._order) if self._order > 2 else None,
                "ranges": HorizonRange(model, policy, self._horizon.final),
            },
        )

    def of_policies(
        self, model: TabularJMDP, policies: Mapping[str, Sequence[TabularPolicy]], progress: bool
    ) -> Evaluation:
        """Evaluate each policy from the first step on."""
        blocks = PolicyBlocks.of([model] * len(policies))
        together = [blocks.policy(now) for now in zip(*policies.values(), strict=True)]
        problem = horizon_problem(model, self._coupling, self._horizon, blocks)
        found = recursion(problem, together, self._order, progress)
        values, shaped = found.step.after, found.step.shaped
        covariance = blocks.within_states(values.moments[2], found.after[1, 1])
        own = values.pair_error + values.error
        error = blocks.at(own)
        return self._evaluation(
            model,
            Labels.of("policy", len(policies), list(policies)),
            found,
            (blocks.at(shaped.value.high), blocks.at(shaped.value_errors + np.abs(shaped.value.low))),
            value_gaps(shaped, blocks),
            (covariance, error[:, :, None] * error[:, None, :] * _UP),
            {
                "cross": PoliciesAhead(shaped.scale, blocks, found.after[1, 1], own),
                "moments": PolicyMoments(found.drawn_moments(self._order), blocks) if self._order > 2 else None,
                "ranges": PolicyRanges(
                    [HorizonRange(model, steps, self._horizon.final) for steps in policies.values()]
                ),
            },
        )

    def _evaluation(
        self,
        model: TabularJMDP,
        alternatives: Labels,
        found: Recursion,
        mean: tuple[Floats, Floats],  # values and errors
        gap_mean: tuple[Floats, Floats],  # the same, on the original scale
        covariance: tuple[Floats, Floats],
        parts: dict[str, Any],  # those of the evaluation that answer later questions
    ) -> Evaluation:
        scale = found.step.shaped.scale
        mean_error = scale.restore_error(mean[1] * _UP)
        return Evaluation(
            mean=scale.restore(mean[0]),
            gap_mean=gap_mean[0],
            covariance=scale.restore(covariance[0], 2),
            certificate=Certificate.certified(
                mean_error, scale.restore_error(covariance[1], 2), model.discount, model.reward_bound, gap_mean[1]
            ),
            outcome=Outcome.ALL_STEPS,
            coupling=self._coupling,
            method=self._method,
            states=model.states,
            actions=alternatives,
            residuals=np.zeros(0),
            **parts,
        )
