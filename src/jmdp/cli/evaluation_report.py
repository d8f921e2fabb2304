"""Report of a table's evaluation as text and as JSON: means, and gaps to the policy's action."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jmdp
from jmdp.base.interval import Estimate
from jmdp.base.labels import Label
from jmdp.base.rounding import at_most, plus_minus, supported_digits
from jmdp.comparisons.comparison_table import aligned
from jmdp.errors import UnavailableError
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.gap import Gap

_MOST_STATES = 30
"""Largest number of states printed: as many as fit on a screen."""


@dataclass(frozen=True, eq=False)
class EvaluationReport:
    """Report of an evaluation at one state or at all states."""

    result: Evaluation
    model: TabularJMDP
    policy: TabularPolicy
    state: int | None  # None: all states
    actions: Sequence[int]

    def text(self) -> str:
        """Return the method, the error bounds and the tables as text."""
        S = self.model.shape[0]
        state = 0 if S == 1 else self.state
        parts = [repr(self.result)]
        if state is not None:
            parts += [self._means([state]), self._gaps(state)]
        elif S <= _MOST_STATES:
            example = f"--state {self.model.states.name(S // 2)}"
            parts += [self._means(range(S)), f"For gaps between actions, choose a state: {example}"]
        else:
            names = ", ".join(repr(self.model.states.name(s)) for s in range(3))
            parts.append(f"There are {S} states. Choose one to print its means and gaps: --state NAME, e.g. {names}.")
        return "\n\n".join(parts)

    def record(self) -> dict[str, Any]:
        """Return all results, state by state."""
        result, certificate = self.result, self.result.certificate
        states = range(self.model.shape[0]) if self.state is None else [self.state]
        return {
            "discount": self.model.discount,
            "coupling": result.coupling,
            "method": result.method,
            "outcome": result.outcome,
            "converged": result.outcome.successful,
            "certificate": None if certificate is None else certificate.kind,
            "confidence": None if certificate is None else certificate.confidence,
            "states": [self._state_record(s) for s in states],
            "jmdp": jmdp.__version__,
        }

    def _state_record(self, s: int) -> dict[str, Any]:
        reference, name = self._reference(s), self.model.actions.name
        pairs = [(a, b) for a in self.actions for b in self.actions]
        return {
            "state": self.model.states.name(s),
            "means": {name(a): self._mean(s, a) for a in self.actions},
            "covariances": [
                {"actions": [name(a), name(b)], "covariance": self._covariance(s, a, b)} for a, b in pairs if a <= b
            ],
            "reference": name(reference),
            "gaps": [_gap_record(self._gap(s, reference, a)) for a in self.actions if a != reference],
        }

    def _means(self, states: Sequence[int]) -> str:
        rows = [["mean return in state", *map(self.model.actions.name, self.actions)]]
        for s in states:
            cells = [_short(self._mean(s, a)) for a in self.actions]
            rows.append([self.model.states.name(s), *cells])
        return "\n".join([*aligned(rows), "Means are rounded to six digits; --json prints all digits."])

    def _gaps(self, s: int) -> str:
        reference, name = self._reference(s), self.model.actions.name
        others = [a for a in self.actions if a != reference]
        if not others:
            return "A gap needs two actions: add one to --actions."
        gaps = {name(a): self._gap(s, reference, a) for a in others}
        chances = {action: no_better(gap) for action, gap in gaps.items()}
        bound = any(chance is not None and is_bound for chance, is_bound in chances.values())
        rows = [
            [
                f"gap: {name(reference)} minus",
                "mean",
                "std",
                "correlation",
                "P(gap ≤ 0) at most*" if bound else "P(gap ≤ 0)",
            ]
        ]
        for action, gap in gaps.items():
            chance = chances[action][0]
            rows.append(
                [
                    action,
                    plus_minus(Estimate.within(gap.mean, gap.mean_interval)),
                    plus_minus(Estimate.within(gap.std, gap.std_interval)),
                    "–" if math.isnan(gap.correlation) else plus_minus(_correlation(gap)),
                    "–" if chance is None else at_most(chance) if bound else plus_minus(chance),
                ]
            )
        lines = aligned(rows)
        if bound:
            lines.append(
                "* upper bound from mean and variance (Cantelli); --method exact-distribution gives the probability"
            )
        if self.result.certificate is None:
            lines.append(
                "no error bound: this method gives estimates only; --method exact-pairs gives certified intervals"
            )
        return "\n".join(lines)

    def _reference(self, s: int) -> int:
        """Return the policy's action if it is deterministic and reported, else the one with the largest mean."""
        taken = int(self.policy.probs[s].argmax())
        if self.policy.certain[s] and taken in self.actions:
            return taken
        return max(self.actions, key=lambda a: float(self.result.mean[self._at(s), a]))

    def _mean(self, s: int, a: int) -> Estimate:
        return self.result.mean_of(self.at(s), self.result.actions[a])

    def _covariance(self, s: int, a: int, b: int) -> Estimate:
        actions = self.result.actions
        wide = self.result.covariance_interval(self.at(s), actions[a], actions[b])
        return Estimate.within(self.result.covariance[self._at(s), a, b], wide)

    def _gap(self, s: int, a: int, b: int) -> Gap:
        return self.result.gap(self.at(s), self.result.actions[a], self.result.actions[b])

    def at(self, s: int) -> Label:
        """Return the label in the result of a state of the model."""
        return self.result.states[self._at(s)]

    def _at(self, s: int) -> int:
        """Return the state's index in the result, which may contain one state only."""
        return s if self.result.states.size == self.model.shape[0] else 0


def no_better(gap: Gap) -> tuple[Estimate | None, bool]:
    """Return P(gap ≤ 0), the probability that the first action is no better, and whether it is a bound."""
    try:
        return gap.distribution().cdf(0.0), False
    except UnavailableError:
        if gap.mean_interval is None:
            return None, True
        most = gap.inferiority_bound()
        return Estimate(most, 0.0, most), True


def _gap_record(gap: Gap) -> dict[str, Any]:
    chance, is_bound = no_better(gap)
    return {
        "first": gap.first,
        "second": gap.second,
        "mean": Estimate.within(gap.mean, gap.mean_interval),
        "std": Estimate.within(gap.std, gap.std_interval),
        "variance": Estimate.within(gap.variance, gap.variance_interval),
        "correlation": _correlation(gap),
        "no_better_at_most" if is_bound else "no_better": chance,
    }


def _correlation(gap: Gap) -> Estimate:
    return Estimate.within(gap.correlation, gap.correlation_interval)


def _short(value: Estimate) -> str:
    """Return a number to six digits, with its error if that does not support them."""
    digits = supported_digits(value, 6) if value.has_interval else 6
    return plus_minus(value) if digits is None else f"{float(value):.{digits}g}"
