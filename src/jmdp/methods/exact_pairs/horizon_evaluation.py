"""Evaluations over a finite horizon, of one policy's actions or of several policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.labels import Labels
from jmdp.methods.exact_pairs.finite_horizon import HorizonRange, Recursion, horizon_problem, recursion
from jmdp.methods.exact_pairs.policy_pairs import PolicyMoments, PolicyRanges
from jmdp.models.coupling import Coupling
from jmdp.models.horizon import Horizon
from jmdp.models.policy import TabularPolicy
from jmdp.models.policy_blocks import PolicyBlocks
from jmdp.models.tabular import TabularJMDP
from jmdp.results.certificate import Certificate
from jmdp.results.evaluation import Evaluation
from jmdp.results.outcome import Outcome
from jmdp.results.parts import HigherMoments, MethodSettings, Ranges

_UP = 1 + 2.0**-40


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
            (step.covariance(found.before[1, 1]), error[:, :, None] * error[:, None, :] * _UP),
            moments=found.moments(self._order) if self._order > 2 else None,
            ranges=HorizonRange(model, policy, self._horizon.final),
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
        error = blocks.at(values.pair_error + values.error)
        return self._evaluation(
            model,
            Labels.of("policy", len(policies), list(policies)),
            found,
            (blocks.at(shaped.value.high), blocks.at(shaped.value_errors + np.abs(shaped.value.low))),
            (covariance, error[:, :, None] * error[:, None, :] * _UP),
            moments=PolicyMoments(found.drawn_moments(self._order), blocks) if self._order > 2 else None,
            ranges=PolicyRanges([HorizonRange(model, steps, self._horizon.final) for steps in policies.values()]),
        )

    def _evaluation(
        self,
        model: TabularJMDP,
        alternatives: Labels,
        found: Recursion,
        mean: tuple[Floats, Floats],  # values and errors
        covariance: tuple[Floats, Floats],
        *,
        moments: HigherMoments | None,
        ranges: Ranges,
    ) -> Evaluation:
        scale = found.step.shaped.scale
        mean_error = scale.restore_error(mean[1] * _UP)
        return Evaluation(
            mean=scale.restore(mean[0]),
            covariance=scale.restore(covariance[0], 2),
            certificate=Certificate.certified(
                mean_error, scale.restore_error(covariance[1], 2), model.discount, model.reward_bound
            ),
            outcome=Outcome.ALL_STEPS,
            coupling=self._coupling,
            method=self._method,
            states=model.states,
            actions=alternatives,
            residuals=np.zeros(0),
            moments=moments,
            ranges=ranges,
        )
