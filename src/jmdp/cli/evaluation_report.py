"""An evaluation of a table as text and as JSON: means, and the gaps to the action that the policy takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jmdp
from jmdp.base.interval import Estimate
from jmdp.base.rounding import at_most, plus_minus
from jmdp.errors import UnavailableError
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.comparison_table import aligned
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.gap import Gap

_MOST_STATES = 30
"""As many as fit on a screen."""


@dataclass(frozen=True, eq=False)
class EvaluationReport:
    """What is to be shown of an evaluation."""

    result: Evaluation
    model: TabularJMDP
    policy: TabularPolicy
    state: int | None  # all of them
    actions: Sequence[int]

    def text(self) -> str:
        """How it was found, how far it can be off, and tables."""
        S = self.model.shape[0]
        state = 0 if S == 1 else self.state
        parts = [repr(self.result)]
        if state is not None:
            parts += [self._means([state]), self._gaps(state)]
        elif S <= _MOST_STATES:
            example = f"--state {self.model.states.name(S // 2)}"
            parts += [self._means(range(S)), f"For the gaps between actions choose a state: {example}"]
        else:
            names = ", ".join(repr(self.model.states.name(s)) for s in range(3))
            parts.append(f"There are {S} states. Choose one to see its means and gaps: --state …, one of {names}, …")
        return "\n\n".join(parts)

    def record(self) -> dict[str, Any]:
        """All that is known, state by state."""
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
        at, name = self._at(s), self.model.actions.name
        reference = self._reference(s)
        pairs = [(a, b) for a in self.actions for b in self.actions]
        return {
            "state": self.model.states.name(s),
            "means": {name(a): self._mean(s, a) for a in self.actions},
            "covariances": [
                {"actions": [name(a), name(b)], "covariance": self._covariance(s, a, b)} for a, b in pairs if a <= b
            ],
            "reference": name(reference),
            "gaps": [_gap_record(self.result.gap(at, reference, a)) for a in self.actions if a != reference],
        }

    def _means(self, states: Sequence[int]) -> str:
        rows = [["mean return in", *map(self.model.actions.name, self.actions)]]
        for s in states:
            cells = [_short(self._mean(s, a)) for a in self.actions]
            rows.append([self.model.states.name(s), *cells])
        return "\n".join([*aligned(rows), "Means are rounded to at most six digits; --json has all of them."])

    def _gaps(self, s: int) -> str:
        reference, at, name = self._reference(s), self._at(s), self.model.actions.name
        others = [a for a in self.actions if a != reference]
        if not others:
            return "Two actions have a gap: give another to --actions."
        gaps = {name(a): self.result.gap(at, reference, a) for a in others}
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
                "* a bound by mean and variance alone (Cantelli); --method exact-distribution gives the chance itself"
            )
        return "\n".join(lines)

    def _reference(self, s: int) -> int:
        """The action that the policy takes, where that is one of those looked at; else the one with the best mean."""
        taken = int(self.policy.probs[s].argmax())
        if self.policy.probs[s, taken] == 1 and taken in self.actions:
            return taken
        return max(self.actions, key=lambda a: float(self.result.mean[self._at(s), a]))

    def _mean(self, s: int, a: int) -> Estimate:
        at = self._at(s)
        return Estimate.within(self.result.mean[at, a], self.result.mean_interval(at, a))

    def _covariance(self, s: int, a: int, b: int) -> Estimate:
        at = self._at(s)
        return Estimate.within(self.result.covariance[at, a, b], self.result.covariance_interval(at, a, b))

    def _at(self, s: int) -> int:
        """Where it is in the result, which may be of one state alone."""
        return s if self.result.states.size == self.model.shape[0] else 0


def no_better(gap: Gap) -> tuple[Estimate | None, bool]:
    """P(gap ≤ 0), the chance that the first action does no better; and whether it is but a bound."""
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
    """A number alone, to the digit of its error but to no more than six."""
    return min(f"{float(value):.6g}", plus_minus(value).split(" ")[0], key=len)
