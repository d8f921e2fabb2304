"""Exact shares of the variance of a gap by source, for tables whose scenarios combine independent sources.

Two copies of the gap that have the draws of some sources in common, and all others drawn on their own, have the
covariance Var(E[gap | these sources]). A branch of one copy and a branch of the other never coalesce, and what only one
of them draws can be seen as a part of its action. So this is the covariance of the returns of two policies in a table
whose scenarios are the outcomes of the common sources, and whose actions are pairs of an action and an outcome of the
others: systems between pairs of states, which `ExactPairs` solves.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate
from jmdp.methods.evaluate import evaluate
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

if TYPE_CHECKING:
    from jmdp.comparisons.question import Question


@dataclass(frozen=True, eq=False)
class TableGap:
    """The gap of two deterministic policies from one state of a table with sources."""

    model: TabularJMDP
    coupling: Coupling
    state: int
    policies: tuple[Floats, Floats]  # [S + 1, A] each; state S is the first one, in which actions may be chosen
    discount: float
    horizon: int | None  # None: infinite

    @classmethod
    def of(
        cls,
        question: Question,
        model: TabularJMDP,
        state: int,
        policies: Sequence[Floats | None],
        actions: Sequence[int] = (),
    ) -> Self | None:
        """From the policies [S, A], after a first action if one is given; None if there is no exact solution."""
        coupling, tables = question.settings.coupling, [policy for policy in policies if policy is not None]
        random = [policy for policy in tables if ((policy > 0) & (policy < 1))[~model.terminal].any()]
        if model.sources is None or random or len(tables) < 2 or not coupling.shared_in_a_state:
            return None
        first = [np.eye(model.shape[2])[a] for a in actions] or [policy[state] for policy in tables]
        one, other = (np.vstack([policy, row]) for policy, row in zip(tables, first, strict=True))
        horizon = question.horizon if question.discount == 1 else None
        return cls(model, type(coupling)(), state, (one, other), question.discount, horizon)

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources."""
        return tuple(self.model.sources or ())

    @cached_property
    def shares(self) -> tuple[Floats, Floats]:
        """Numbers of each source [k, 5, 3] and share of interactions [3], as `gap_shares`, with certified intervals."""
        whole = self.given(self.sources)
        found = []
        for name in self.sources:
            own, rest = self.given([name]), self.given([other for other in self.sources if other != name])
            left = [_difference(one, other) for one, other in zip(whole, rest, strict=True)]
            moves = [[math.sqrt(max(0.0, end)) for end in _ends(left[i])] for i in range(3)]
            found.append([_ratio(own[2], whole[2]), _ratio(left[2], whole[2]), *moves])
        numbers = np.array(found)
        alone = numbers[:, 0].sum(axis=0)
        return numbers, 1 - alone[[0, 2, 1]]

    def given(self, sources: Collection[str]) -> tuple[Estimate, Estimate, Estimate]:
        """Var(E[· | sources]) of both returns and of their gap."""
        evaluation = evaluate(*self._with_common(sources), self.coupling, **self._horizon, progress=False)
        found, certificate = evaluation.covariance[-1], evaluation.certificate
        assert certificate is not None
        errors = np.broadcast_to(certificate.covariance_error, evaluation.covariance.shape)[-1]
        gap = found[0, 1] + found[2, 3] - 2 * found[0, 2]
        error = errors[0, 1] + errors[2, 3] + 2 * errors[0, 2] + 8 * np.finfo(float).eps * np.abs(found).max()
        return _estimate(found[0, 1], errors[0, 1]), _estimate(found[2, 3], errors[2, 3]), _estimate(gap, error)

    @property
    def _horizon(self) -> dict[str, Any]:
        return {} if self.horizon is None else {"horizon": self.horizon, "discount": self.discount}

    def _with_common(self, sources: Collection[str]) -> tuple[TabularJMDP, dict[str, TabularPolicy]]:
        """Table whose scenarios are those of some sources, and two copies of each policy that draw the others."""
        model, sizes = self.model, self.model.sources or {}
        S, _, A = model.shape
        rows = np.append(np.arange(S), self.state)
        axes = [1 + i for i, name in enumerate(sizes) if name in sources]
        own = [1 + i for i, name in enumerate(sizes) if name not in sources]

        def split(table: Any) -> Any:
            parts = table[rows].reshape(S + 1, *sizes.values(), -1)
            shape = math.prod(parts.shape[i] for i in axes), math.prod(parts.shape[i] for i in own), parts.shape[-1]
            return parts.transpose(0, *axes, *own, parts.ndim - 1).reshape(S + 1, *shape)

        prob = split(model.prob[..., None])[..., 0]  # [S + 1, C, R]
        C, R = prob.shape[1:]
        reduced = TabularJMDP(
            prob.sum(axis=2),
            split(model.reward).reshape(S + 1, C, R * A),
            split(model.next_state).reshape(S + 1, C, R * A),
            model.discount,
            model.terminal[rows],
        )
        drawn = prob.sum(axis=1)[:, :, None]
        both = [TabularPolicy((drawn * policy[:, None]).reshape(S + 1, R * A)) for policy in self.policies]
        return reduced, {name: both[i // 2] for i, name in enumerate(("first", "again", "second", "again too"))}


def _estimate(value: np.float64, error: np.float64) -> Estimate:
    return Estimate.around(float(value), float(error))


def _ends(value: Estimate) -> tuple[float, float, float]:
    return float(value), value.low, value.high


def _difference(one: Estimate, other: Estimate) -> Estimate:
    return Estimate.within(one - other, one.interval + other.negative().interval)


def _ratio(part: Estimate, whole: Estimate) -> tuple[float, float, float]:
    """Share of a positive variance."""
    if not whole.low > 0:
        return part / whole, -math.inf, math.inf
    ends = [x / y for x in (part.low, part.high) for y in (whole.low, whole.high)]
    return part / whole, math.nextafter(min(ends), -math.inf), math.nextafter(max(ends), math.inf)
