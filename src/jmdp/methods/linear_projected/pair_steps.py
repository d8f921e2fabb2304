"""One step of pairs of coordinates: transitions of two branches, distinct or merged, given shared randomness.

Weights of pairs of coordinates for a projected fit, and the contraction of the pair chain under them.

P₂ is the step of two branches on coordinates x ≠ y; branches on the same coordinate have merged and step together. With
any weights w for which w P₂ ≤ c w, Jensen's inequality gives ‖P₂ f‖²_w ≤ Σ w P₂ f² ≤ c ‖f‖²_w (Lemma B.3 has c = 1). A
pair with an ended branch has moment 0 and weight 0; the mean's weights ν still count the other branch.

After a step, actions are drawn from the policy, so all of w except the start is a table over states:

    w(x, y) = start(x, y) + ρ(s, t) ψ_st(a, b)          s ≠ t, ψ the joint distribution of two action draws (π ⊗ π)
    w(x, y) = start(x, y) + ρ(s, s) ψ_ss(a, b) + 1{a = b} ζ(s) π(a)          s = t
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.labels import Label
from jmdp.base.settings import listed, probability, short
from jmdp.errors import CouplingError, ModelError, SettingsError
from jmdp.methods.shared.policy_chain import averaged_step, policy_chain_solver, shared_choices, shared_scenarios
from jmdp.models.coupling import Coupling
from jmdp.models.outcomes import one_step
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_MOST_CHOICES = 64
"""Maximum number of values of shared policy luck: the work grows with its square."""

_DENSE = 200
"""Maximum number of coordinates at which matrices are dense: sparse ones would be slower."""


@dataclass(frozen=True, eq=False)
class SharedLuck:
    """Randomness shared by two branches in different states, which are independent given its value."""

    scenarios: list[tuple[float, Floats]]  # weights, and [S, K] given each value
    choices: list[tuple[float, Floats]]  # weights, and [S, A]

    @classmethod
    def of(cls, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling) -> SharedLuck:
        """Shared randomness of a coupling in which branches in the same state share its scenario."""
        scenarios = shared_scenarios(model, coupling)
        if coupling.policy_luck == "independent":
            return cls(scenarios, [(1.0, policy.probs)])
        widths, actions = shared_choices(policy)
        if widths.size > _MOST_CHOICES:
            raise CouplingError(
                f"With policy_luck='shared' this policy has {widths.size} break points; LinearProjected supports at "
                f"most {_MOST_CHOICES}. Use ExactPairs(), or policy_luck='independent'."
            )
        one_hot = np.eye(policy.probs.shape[1])
        return cls(scenarios, [(float(w), one_hot[chosen]) for w, chosen in zip(widths, actions, strict=True)])

    def same_state(self) -> Floats:
        """Joint distribution ψ_ss [S, A, A] of two action draws in one state."""
        return np.asarray(sum(w * choice[:, :, None] * choice[:, None, :] for w, choice in self.choices))


class PairSteps:
    """One step of the distribution of pairs, from their coordinates to their next states: the P₂ of Eq. (66)."""

    def __init__(self, model: TabularJMDP, policy: TabularPolicy, luck: SharedLuck) -> None:
        from scipy.sparse import csr_array

        S, _, A = model.shape
        self.model, self.policy, self.luck = model, policy, luck
        self.prob: Floats = model.prob * ~model.terminal[:, None]
        dense = S * A <= _DENSE
        self._steps: list[tuple[float, Any]] = [
            (p * w, _stored(averaged_step(model, scenarios, choice).T.tocsr(), dense))
            for p, scenarios in luck.scenarios
            for w, choice in luck.choices
        ]
        n = model.next_state
        entry = (n[:, :, :, None] * S + n[:, :, None, :])[:, :, ~np.eye(A, dtype=bool)]  # [S, K, A (A − 1)]
        self._targets, row = np.unique(entry, return_inverse=True)
        column = np.broadcast_to(np.arange(S * A * (A - 1)).reshape(S, 1, -1), entry.shape)
        chance = np.broadcast_to(self.prob[:, :, None], entry.shape)
        shape = (self._targets.size, S * A * (A - 1))
        self._parting = _stored(csr_array((chance.ravel(), (row.ravel(), column.ravel())), shape=shape), dense)
        self._other = ~np.eye(A, dtype=bool)
        self.one = one_step(self.prob, model.next_state)
        self._one = _stored(self.one.T.tocsr(), dense)
        self._same = luck.same_state()

    def __call__(self, between: Floats, same: Floats) -> tuple[Floats, Floats]:
        """Weights w P₂ after one step, from ρ [S, S] and same-state weights [S, A, A], in the same form."""
        arrived = np.zeros_like(between)
        for weight, step in self._steps:
            arrived += weight * (step @ np.ascontiguousarray((step @ between).T))
        arrived.ravel()[self._targets] += self._parting @ same[:, self._other].ravel()
        one = self._one @ np.einsum("saa->sa", same).ravel()
        return self.arrive(arrived, one)

    def arrive(self, arrived: Floats, one: Floats) -> tuple[Floats, Floats]:
        """Draw actions in the next states; pairs with an ended branch are dropped."""
        arrived[self.model.terminal], arrived[:, self.model.terminal] = 0.0, 0.0
        inside = arrived.diagonal()[:, None, None] * self._same
        np.einsum("saa->sa", inside)[...] += (one * ~self.model.terminal)[:, None] * self.policy.probs
        np.fill_diagonal(arrived, 0.0)
        return arrived, inside

    def from_extra(self, x: Integers, y: Integers, weight: Floats) -> tuple[Floats, Floats]:
        """Weights after one step of start pairs in different states."""
        from scipy.sparse import csr_array

        S = self.model.shape[0]
        arrived = np.zeros((S, S))
        for p, scenarios in self.luck.scenarios:
            step = one_step(scenarios * ~self.model.terminal[:, None], self.model.next_state)
            both = csr_array(step[x].multiply(weight[:, None])).T @ step[y]
            arrived += p * np.asarray(both.todense())
        return self.arrive(arrived, np.zeros(S))


def _stored(matrix: csr_array[np.float64], dense: bool) -> Any:
    return matrix.toarray() if dense else matrix


Pair = tuple[tuple[Label, Label], tuple[Label, Label]]

_SETTLED = 1e-8
"""Relative growth of every weight in a step at which summation stops; the measured c includes the remainder."""

_STILL = 1e-14
"""Total change of mass in a step at which a distribution is treated as stationary."""

_MOST_STEPS, _MOST_STARTS = 20_000, 10_000_000
_LOOKS = 8
"""Number of steps between convergence checks of the series."""

_LEAST = 1e-270
"""Minimum positive weight of a pair: c is measured for any weights, and underflow would invalidate it."""

_SMALLEST = 1e-300
"""Smaller products of a weight and a probability may underflow, which would invalidate c."""

_ROUNDING = 1 + 1e-9
"""Upper bound on the relative rounding error of a ratio of sums of positive terms."""


@dataclass(frozen=True)
class Restart:
    """Weights of pairs visited from a start distribution with restarts: w = (1 − α) Σ_t α^t w₀ P₂^t.

    Then α w P₂ ≤ w, so ‖P₂ f‖²_w ≤ ‖f‖²_w/α and the projected operator contracts with γ²/√α. Deviates from the paper,
    whose stationary distribution is concentrated on the diagonal and gives no weight to gaps (docs/projection.md).

    Parameters
    ----------
    continuation
        Probability α of no restart at a step, γ² < α < 1. None uses γ, or ½ if γ = 0.
    start
        Pairs ((s, a), (t, b)) of interest, equally likely. None uses all pairs of actions of one state, in every
        non-terminal state.
    """

    continuation: float | None = None
    start: Sequence[Pair] | None = None

    def __post_init__(self) -> None:
        if self.continuation is not None:
            probability(self, "continuation")
        if self.start is None:
            return
        pairs = listed(self.start, _MOST_STARTS)
        if pairs is not None and len(pairs) > _MOST_STARTS:
            raise SettingsError(f"start has more than {_MOST_STARTS:,} pairs. Give fewer.")
        try:
            start = tuple(((s, a), (t, b)) for (s, a), (t, b) in pairs or self.start)
        except (TypeError, ValueError):
            raise SettingsError(f"start is {short(self.start, 200)}. Give pairs ((s, a), (t, b)).") from None
        if not start:
            raise SettingsError("start is empty. Give pairs ((s, a), (t, b)), or None for all pairs in one state.")
        object.__setattr__(self, "start", start)

    def alpha(self, discount: float) -> float:
        """Continuation probability at this discount; raises `SettingsError` if it is too small."""
        if self.continuation is None:
            return discount if discount > 0 else 0.5
        if self.continuation <= discount**2:
            raise SettingsError(
                f"continuation is {self.continuation!r}. With discount {discount!r} it must exceed "
                f"γ² = {discount**2:.6g}; give a number between that and 1."
            )
        return self.continuation


@dataclass(frozen=True)
class Stationary:
    """Stationary weights of pairs from the default start: w = w P₂, the paper's μ₂ (Eq. (66)).

    P₂ is non-expansive in this norm (Lemma B.3). Assumption B.2 is not required: bounds hold on the support of w. In an
    irreducible aperiodic chain branches merge almost surely, so w is concentrated on pairs (x, x): the fit determines
    variances, but not gaps.
    """


@dataclass(frozen=True, eq=False)
class PairWeights:
    """Weights w of pairs, ν of coordinates, and c with w P₂ ≤ c w, ν P_π ≤ c₁ ν.

    They define the norms of Eq. (68) and Eq. (65). Pairs with positive weight are the support of Eq. (67).
    """

    between: Floats  # [S, S], ρ for s ≠ t, 0 on the diagonal
    same: Floats  # [S, A, A], w((s, a), (s, b)), sum of all parts
    extra: tuple[Integers, Integers, Floats]  # x, y, weight of start pairs in different states
    mean: Floats  # [S, A], ν
    contraction: float
    mean_contraction: float
    luck: SharedLuck
    drawn: list[tuple[float, Floats]]  # ψ of ρ: weights, and [S, A] of both branches

    @cached_property
    def _extra(self) -> dict[tuple[int, int], float]:
        found: dict[tuple[int, int], float] = {}
        for x, y, weight in zip(*(part.tolist() for part in self.extra), strict=True):
            found[x, y] = found.get((x, y), 0.0) + weight
        return found

    def everywhere(self, model: TabularJMDP) -> PairWeights:
        """Uniform weights, for equations of pairs without weight. They do not imply a contraction."""
        S, _, A = model.shape
        not_terminal = (~model.terminal).astype(np.float64)
        same = np.broadcast_to(not_terminal[:, None, None], (S, A, A)) / A**2
        between = np.multiply.outer(not_terminal, not_terminal) - np.diag(not_terminal)
        none = self.extra[0][:0], self.extra[1][:0], self.extra[2][:0]
        drawn = [(1.0, np.full((S, A), 1 / A))]
        return replace(self, between=between, same=same, extra=none, drawn=drawn)

    def weight(self, s: int, a: int, t: int, b: int) -> float:
        """w((s, a), (t, b))."""
        if s == t:
            return float(self.same[s, a, b])
        A = self.same.shape[1]
        drawn = sum(w * float(choice[s, a] * choice[t, b]) for w, choice in self.drawn)
        return float(self.between[s, t]) * drawn + self._extra.get((s * A + a, t * A + b), 0.0)


def pair_weights(
    settings: Restart | Stationary, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling
) -> PairWeights:
    """Weights of a setting, with their contraction."""
    steps = PairSteps(model, policy, SharedLuck.of(model, policy, coupling))
    if isinstance(settings, Stationary):
        return _stationary(steps)
    same, extra = start_weights(settings, model)
    return _restart(steps, same, extra, settings.alpha(model.discount))


def start_weights(settings: Restart, model: TabularJMDP) -> tuple[Floats, tuple[Integers, Integers, Floats]]:
    """Start weights w₀: within states [S, A, A], and pairs in different states with weights; symmetric, total 1."""
    S, _, A = model.shape
    same = np.zeros((S, A, A))
    if settings.start is None:
        same[~model.terminal] = 1.0 / max(1, A * A * int((~model.terminal).sum()))
        return same, (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    x, y = [], []
    for (s, a), (t, b) in settings.start:
        i, j = model.states.index(s), model.states.index(t)
        if model.terminal[i] or model.terminal[j]:
            name = model.states.name(i if model.terminal[i] else j)
            raise SettingsError(f"start contains state {name}, which is terminal: its returns are 0. Leave it out.")
        k, m = model.actions.index(a), model.actions.index(b)
        if i == j:
            same[i, k, m] += 0.5 / len(settings.start)
            same[i, m, k] += 0.5 / len(settings.start)
        else:
            x += [i * A + k, j * A + m]
            y += [j * A + m, i * A + k]
    return same, (np.array(x, np.int64), np.array(y, np.int64), np.full(len(x), 0.5 / len(settings.start)))


def _restart(steps: PairSteps, start: Floats, extra: tuple[Integers, Integers, Floats], alpha: float) -> PairWeights:
    """Solve w = (1 − α) w₀ + α w P₂ by iteration until every weight has converged, and ν likewise by LU."""
    model, policy = steps.model, steps.policy
    S, _, A = model.shape
    first, more = (1 - alpha) * start, (extra[0], extra[1], (1 - alpha) * extra[2])
    from_more = steps.from_extra(*more)
    between, same = np.zeros((S, S)), first
    for i in range(_MOST_STEPS):
        next_between, next_same = (part + given for part, given in zip(steps(between, same), from_more, strict=True))
        new = _lifted(alpha * next_between), _lifted(first + alpha * next_same)
        looks = i % _LOOKS == 0 or i == _MOST_STEPS - 1
        if looks and max(_growth(new[0], between), _growth(new[1], same)) <= 1 + _SETTLED:
            break
        between, same = new
    following = zip(steps(between, same), from_more, (between, same), strict=True)
    contraction = max(_growth(part + given, here) for part, given, here in following)
    mean = (1 - alpha) * start.sum(axis=2).ravel()
    np.add.at(mean, extra[0], more[2])
    arrive = alpha * (steps.one.T @ mean) * ~model.terminal
    visits = policy_chain_solver(model, policy, alpha, 1 - alpha).transposed(arrive) * ~model.terminal
    nu = mean.reshape(S, A) + np.maximum(visits, 0.0)[:, None] * policy.probs
    return _weights(steps, between, same, more, nu, contraction)


def _stationary(steps: PairSteps) -> PairWeights:
    """Limit of w₀ ((I + P₂)/2)^n, which exists for periodic chains too; transient weights are set to 0."""
    model = steps.model
    S, _, _ = model.shape
    _refuse_an_end(steps)
    same, _ = start_weights(Restart(), model)
    between = np.zeros((S, S))
    for _ in range(_MOST_STEPS):
        next_between, next_same = steps(between, same)
        change = float(np.abs(next_between - between).sum() + np.abs(next_same - same).sum())
        between, same = (between + next_between) / 2, (same + next_same) / 2
        total = float(between.sum() + same.sum())
        between, same = between / total, same / total
        if change <= _STILL * S:
            break
    for least in (1e-8, 1e-10, 1e-12, 1e-14, 0.0):  # the first set that no mass leaves is the recurrent part
        recurrent = np.where(between > least, between, 0.0), np.where(same > least, same, 0.0)
        following = steps(*recurrent)
        contraction = max(_growth(*pair) for pair in zip(following, recurrent, strict=True))
        if contraction <= 1 + 1e-4:
            break
    between, same = recurrent
    drawn = between.sum(axis=1)[:, None] * steps.policy.probs
    nothing = np.zeros(0, np.int64)
    return _weights(steps, between, same, (nothing, nothing, np.zeros(0)), drawn + same.sum(axis=2), contraction)


def _refuse_an_end(steps: PairSteps) -> None:
    """Raise if a terminal state can be reached from every state."""
    step = averaged_step(steps.model, steps.model.prob, steps.policy.probs)
    ends = steps.model.terminal.copy()
    while True:
        more = ends | ((step @ ends.astype(float)) > 0)
        if (more == ends).all():
            break
        ends = more
    if ends.all():
        raise ModelError(
            "This policy can reach a terminal state from every state, so pairs have no stationary distribution. "
            "Use weights=Restart()."
        )


def _weights(
    steps: PairSteps,
    between: Floats,
    same: Floats,
    extra: tuple[Integers, Integers, Floats],
    nu: Floats,
    contraction: float,
) -> PairWeights:
    same = (same + same.transpose(0, 2, 1)) / 2
    between = (between + between.T) / 2
    seen = same.sum(axis=2) + between.sum(axis=1)[:, None] * steps.policy.probs
    np.add.at(seen.reshape(-1), extra[0], extra[2])
    nu = np.maximum(nu, seen)  # in spite of rounding in either
    arrive = np.asarray(steps.one.T @ nu.ravel()) * ~steps.model.terminal
    mean_contraction = _growth(arrive[:, None] * steps.policy.probs, nu)
    chance = _least(steps.prob) * _least(steps.policy.probs)
    if min(_least(between), _least(same), _least(extra[2])) * chance**2 < _SMALLEST:
        contraction = np.inf
    if _least(nu) * chance < _SMALLEST:
        mean_contraction = np.inf
    return PairWeights(
        between, same, extra, nu, contraction * _ROUNDING, mean_contraction * _ROUNDING, steps.luck, steps.luck.choices
    )


def _lifted(weights: Floats) -> Floats:
    return np.where(weights > 0, np.maximum(weights, _LEAST), 0.0)


def _least(weights: Floats) -> float:
    """Smallest positive weight, or 1 if all are larger or 0."""
    return float(weights[weights > 0].min(initial=1.0))


def _growth(new: Floats, old: Floats) -> float:
    """Maximum of new/old; infinite if a weight of 0 becomes positive, 0 if all new weights are 0."""
    if (new[old == 0] > 0).any():
        return np.inf
    there = old > 0
    return float((new[there] / old[there]).max(initial=0.0))
