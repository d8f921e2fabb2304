"""Explored part of a model that is never enumerated, and bounds on the part beyond it.

Cut a rollout at the first exit τ from a set of states R, and add a value u of the state reached there:
Zᵘ = Σ_{n<τ} γⁿ R_n + γ^τ u(S_τ). This is the return of a finite table whose exits are terminal. It differs from
the return by γ^τ (Z(S_τ) − u(S_τ)), so in mean square, for any coupling,

    ‖Z(x) − Zᵘ(x)‖² = E_x[ γ^{2τ} M(S_τ) ],        M(s) = E[(Z(s) − u(s))²] ≤ (B / (1 − γ) + |u(s)|)²,

a sum along the chain of single states. The errors of a covariance, of a gap's standard deviation and of a correlation
are bounded by the norms of the missing parts.

Everything is computed on rewards divided by the power of two just above their bound, as in `shaping`, so that squares
of returns are in the range of floats at any scale of the rewards. Products with a probability or a discount can
still underflow; wherever one may, UNDERFLOW is added.

There are two sets. The wide one is for single states only: cut there with u = 0, it gives the value v and the
spread M of nearly every reachable state. The near one, inside it, is for pairs of states: cut there with u = v,
where M is a variance instead of the square of a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base.arrays import ROUNDOFF, UNDERFLOW, Booleans, Floats, Integers, Scale, dimensions, floats
from jmdp.base.progress import count_bar
from jmdp.base.settings import short
from jmdp.errors import PolicyError
from jmdp.methods.kernels.tables import Chain
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.policy_chain import ChainSolver, discounted_total, policy_chain_solver
from jmdp.methods.shared.shaping import shape_rewards
from jmdp.models.coupling import Independent
from jmdp.models.lazy import LazyJMDP
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP, changed

_MOST_PUSHES = 10_000_000
"""Maximum pushes of mass per call. Near γ = 1 they would not end, and they only set the order of exploration."""

_LEAST_MASS = 2.0**-1022
"""Smaller masses are not pushed further."""

_UP = 1 + 2.0**-40
"""Upper bound on a few relative rounding errors."""


class Explorer:
    """States that a policy reaches from one state, explored in order of discounted mass."""

    def __init__(self, model: LazyJMDP, policy: Callable[[Any], Any], origin: int) -> None:
        self.model, self.policy, self.origin = model, policy, origin
        self.scale = Scale.above(model.reward_bound)
        self.bound = self.scale.divide(model.reward_bound) / (1 - model.discount) * _UP  # of any return
        model.expand(origin)
        self.probs: Floats = np.zeros((0, 1))  # [found, A]
        self.asked: Booleans = np.zeros(0, bool)  # [found]
        self.reached: Booleans = np.zeros(0, bool)  # [found], whether an explored state leads there
        self.mass: Floats = np.zeros(0)  # [found], discounted mass that arrived and was not pushed further
        self.fit()
        self._ask(origin)
        if not model.terminal[origin]:
            np.add.at(self.mass, model.next_state[origin], model.discount * model.prob[origin][:, None])

    def explore(self, threshold: float, max_states: int, progress: bool) -> None:
        """Expand all states that receive at least this much discounted mass, up to `max_states`."""
        from jmdp.methods.kernels.arrivals import push

        model = self.model
        if self.complete:
            return
        with count_bar("states explored", progress, int(self.asked.sum())) as bar:
            while True:
                chain = Chain(model.prob, model.next_state, self.probs, self.asked, model.terminal)
                push(chain, model.discount, max(threshold, _LEAST_MASS), self.mass, _MOST_PUSHES)
                new = np.flatnonzero(self.reached & ~self.asked & (self.mass >= threshold))
                left = max_states - int(self.asked.sum())
                if new.size == 0 or left <= 0:
                    return
                new = new[np.argsort(-self.mass[new], kind="stable")][:left]
                for i in new.tolist():
                    model.expand(i)
                    self.fit()
                    self._ask(i)
                bar(int(self.asked.sum()))

    @property
    def complete(self) -> bool:
        """Whether explored states lead only to explored ones, by actions the policy takes or any of the origin's."""
        return not (self.reached & ~self.asked).any()

    @property
    def frontier(self) -> float:
        """Largest discounted mass of an unexplored state."""
        return float(self.mass[~self.asked].max(initial=0.0))

    def outcomes(self, states: Integers) -> tuple[Floats, Integers, bool]:
        """Rewards of size 1 and next states, both [·, K, A], and whether an underflow changed a reward.

        An action that the policy never takes matters only in the origin. Elsewhere it is replaced by a self-loop with
        reward 0.
        """
        taken = (self.probs[states] > 0) | (states == self.origin)[:, None]
        counts = (self.model.prob[states, :, None] > 0) & taken[:, None, :]
        given = np.where(counts, self.model.reward[states], 0.0)
        following = np.where(counts, self.model.next_state[states], states[:, None, None])
        scaled = self.scale.divide(given)
        return scaled, following, not np.array_equal(self.scale.restore(scaled), given)

    def ask(self, states: Integers) -> None:
        """Query the policy in these states too, whether or not it reaches them."""
        for i in states[~self.asked[states]].tolist():
            self.model.expand(i)
            self.fit()
            self._ask(i)

    def fit(self) -> None:
        """Resize the arrays to all states that the model has found so far."""
        size, A = len(self.model.known), self.model.reward.shape[2]
        if len(self.asked) < size or self.probs.shape[1] != A:
            for name, shape in (("probs", (size, A)), ("asked", (size,)), ("reached", (size,)), ("mass", (size,))):
                old = getattr(self, name)
                new = np.zeros(shape, old.dtype)
                if old.ndim == 1 or old.shape[1] == A:
                    new[: len(old)] = old
                setattr(self, name, new)

    def _ask(self, i: int) -> None:
        """Query the policy in a state, and mark the successors."""
        if not self.model.terminal[i]:
            state = self.model.states[i]
            try:
                found = self.policy(state)
            except Exception as error:
                error.add_note(f"Raised by the policy in state {short(state)}.")
                raise
            try:
                if dimensions(found) == 0:
                    raise PolicyError(f"It returned {short(found)}. Return one probability for each action.")
                row = TabularPolicy([floats("policy", found, "[A]", PolicyError)]).probs[0]
            except PolicyError as wrong:
                raise PolicyError(f"Invalid policy in state {short(state)}: {wrong}") from wrong
            if row.size != self.probs.shape[1]:
                raise PolicyError(f"The policy returned {row.size} probabilities in state {short(state)}; "
                                  f"there are {self.probs.shape[1]} actions.")  # fmt: skip
            self.probs[i] = row
            taken = np.ones(row.size, bool) if i == self.origin else row > 0
            self.reached[self.model.next_state[i][np.ix_(self.model.prob[i] > 0, taken)]] = True
        self.asked[i] = True


@dataclass(frozen=True, eq=False)
class Cut:
    """Finite table of some states and one more that every exit leads to. Rewards are of size 1."""

    model: TabularJMDP
    policy: TabularPolicy
    square_chain: ChainSolver  # with discount γ²
    missing: Floats  # [S − 1], upper bounds on the root of E[γ^{2τ} M(S_τ)]
    missing_ahead: Floats  # [A], the same from the origin with its first action given
    lost: float  # error of a return by underflow when rewards are divided

    @classmethod
    def at(cls, explorer: Explorer, inside: Integers, value: Floats, spread: Floats) -> Cut:
        """Cut at the exits from `inside`, of value `value` and root mean square error `spread` (both [found])."""
        lazy = explorer.model
        place = np.full(len(lazy.known), inside.size)
        place[inside] = np.arange(inside.size)
        reward, following, lossy = explorer.outcomes(inside)
        to = place[following]
        gamma = lazy.discount
        earned = np.where(to == inside.size, value[following], 0.0)
        model, policy = _table(explorer, inside, reward + gamma * earned, to)
        squares = _squares_at_exits(gamma, reward, earned, np.where(to == inside.size, spread[following], 0.0))
        prob = lazy.prob[inside] * ~lazy.terminal[inside, None]
        gain = _sum(policy.probs[:-1], _sum(prob[:, :, None], squares, 1), 1)
        square, one_minus_square = gamma * gamma, (1 - gamma) * (1 + gamma)
        chain = policy_chain_solver(model, policy, square, one_minus_square)
        missing = discounted_total(model, policy, chain, np.append(gain, 0.0), square, one_minus_square)
        missing[-1] = 0.0
        origin = int(place[explorer.origin])
        later = _no_less(square * missing, (gamma > 0) & (missing > 0))[to[origin]]
        rounding = 1 + 8 * (prob.shape[1] + 8) * ROUNDOFF + 2 * lazy.prob_error
        ahead = _sum(prob[origin][:, None], squares[origin] + later, 0) * rounding
        lost = UNDERFLOW if lossy else 0.0
        return cls(model, policy, chain, np.sqrt(missing[:-1]) * _UP + lost, np.sqrt(ahead) * _UP + lost, lost)


def _table(explorer: Explorer, inside: Integers, reward: Floats, to: Integers) -> tuple[TabularJMDP, TabularPolicy]:
    """Table of the states inside, with these rewards and next states, and one terminal state beyond."""
    lazy, A = explorer.model, explorer.probs.shape[1]
    names = [str(lazy.states[i]) for i in inside.tolist()] + ["beyond"]
    model = TabularJMDP(
        np.concatenate([lazy.prob[inside], np.eye(1, lazy.prob.shape[1])]),
        np.concatenate([reward, np.zeros((1, *reward.shape[1:]))]),
        np.concatenate([to, np.full((1, *to.shape[1:]), inside.size)]),
        lazy.discount,
        np.append(lazy.terminal[inside], True),
        names if len(set(names)) == len(names) else None,
    )
    rows = np.where(lazy.terminal[inside, None], np.eye(1, A), explorer.probs[inside])
    return changed(model, prob_error=lazy.prob_error), TabularPolicy(np.concatenate([rows, np.eye(1, A)]))


def _squares_at_exits(gamma: float, reward: Floats, earned: Floats, spread: Floats) -> Floats:
    """Upper bounds on (γ spread + rounding)² [·, K, A]: the squared error of exits, where r + γ v is rounded."""
    rounding = np.where(earned != 0, 2.0**-51 * (np.abs(reward) + gamma * np.abs(earned)) + 2.0**-1070, 0.0)
    missed = (gamma * spread + rounding) * _UP
    hides = (spread > 0) & (gamma > 0) | (rounding > 0)
    return _no_less(missed * missed * _UP, hides)


def _sum(weights: Floats, terms: Floats, axis: int) -> Floats:
    """Upper bound on Σ weights × terms along an axis, none of them negative, whose products may underflow."""
    positive = np.logical_or.reduce((weights > 0) & (terms > 0), axis=axis)
    return _no_less((weights * terms).sum(axis=axis), positive)


def _no_less(products: Floats, positive: Booleans) -> Floats:
    """Add UNDERFLOW where the true products are positive."""
    return np.asarray(products + np.where(positive, UNDERFLOW, 0.0))


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Wide cut: value, spread and visits of every state found.

    All on rewards of size 1, by the scale of the explorer.
    """

    model: TabularJMDP
    value: Floats  # [found], v; 0 for unexplored states
    spread: Floats  # [found], upper bound on the root of E[(Z − value)²]
    visits: Floats  # [found], E Σ γ^{2n} 1{S_n = s} over the origin's actions
    mean: Floats  # [A], of the origin's returns
    mean_error: Floats  # [A]
    leak: float  # root mean square error of the wide cut itself, for the origin's worst action

    @classmethod
    def of(cls, explorer: Explorer) -> Surroundings:
        """Compute the wide cut from the states explored so far."""
        lazy, bound = explorer.model, explorer.bound
        gamma = lazy.discount
        inside = np.flatnonzero(explorer.asked)
        nothing = np.zeros(len(lazy.known))
        spread = nothing + bound
        cut = Cut.at(explorer, inside, nothing, spread)
        shaped = shape_rewards(cut.model, cut.policy)
        scale = shaped.scale
        operator = PairOperator(cut.model, cut.policy, Independent(), shaped)
        value = nothing.copy()
        value[inside] = scale.restore(shaped.value.high[:-1])
        mean_error = scale.restore_error(shaped.mean_error) + cut.lost
        value_error = scale.restore_error(shaped.value_errors[:-1] + np.abs(shaped.value.low[:-1])) + cut.lost
        std = scale.restore_error(np.sqrt(operator.V[:-1] + operator.variance_error()))
        spread[inside] = np.where(lazy.terminal[inside], 0.0, std + cut.missing + value_error)
        spread = np.minimum(spread, bound + np.abs(value)) * _UP
        origin = int(np.flatnonzero(inside == explorer.origin)[0])
        start = np.zeros(inside.size + 1)
        np.add.at(start, cut.model.next_state[origin], gamma * gamma * cut.model.prob[origin][:, None])
        visits = nothing.copy()
        visits[inside] = cut.square_chain.transposed(start)[:-1]
        return cls(
            cut.model,
            value,
            spread,
            visits,
            scale.restore(shaped.mean[origin]),
            (bound * _discounted_exits(cut, origin) + mean_error) * _UP,
            float(cut.missing_ahead.max()),
        )


def _discounted_exits(cut: Cut, origin: int) -> Floats:
    """Upper bounds on E γ^τ [A] from the origin: |E γ^τ Z(S_τ)| ≤ B/(1 − γ) E γ^τ, again a sum along the chain."""
    gamma, beyond = cut.model.discount, cut.model.shape[0] - 1
    prob = cut.model.prob * ~cut.model.terminal[:, None]
    leaves = np.where(cut.model.next_state == beyond, gamma, 0.0)
    gain = _sum(cut.policy.probs, _sum(prob[:, :, None], leaves, 1), 1)
    chain = policy_chain_solver(cut.model, cut.policy, gamma, 1 - gamma)
    exits = discounted_total(cut.model, cut.policy, chain, gain, gamma, 1 - gamma)
    exits[beyond] = 1.0
    later = _no_less(gamma * exits, (gamma > 0) & (exits > 0))[cut.model.next_state[origin]]
    rounding = 1 + 8 * (prob.shape[1] + 8) * ROUNDOFF + 2 * cut.model.prob_error
    return np.asarray(_sum(prob[origin][:, None], later, 0) * rounding)
