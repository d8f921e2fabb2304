"""What is looked at of a model that is never enumerated, and what its edge can hide.

Cut the walk at the first exit τ from a set of states R, and count as earned there some value u of the state
reached: Zᵘ = Σ_{n<τ} γⁿ R_n + γ^τ u(S_τ). This is the return of a finite table whose exits are terminal. What
it misses is γ^τ (Z(S_τ) − u(S_τ)), so in mean square, whatever the coupling,

    ‖Z(x) − Zᵘ(x)‖² = E_x[ γ^{2τ} M(S_τ) ],        M(s) = E[(Z(s) − u(s))²] ≤ (B / (1 − γ) + |u(s)|)²,

a sum along the chain of single states; and a covariance, a gap's standard deviation or a correlation moves by no more
than the norms of the parts that are missing.

There are two sets. The wide one is for single states only: cut there with u = 0, it gives the value v and the
spread M of nearly every state one can get to. The near one, inside it, is for pairs of states: cut there with u = v,
where M is a variance and no longer the square of a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.arrays import Booleans, Floats, Integers
from jmdp.coupling import Independent
from jmdp.errors import PolicyError
from jmdp.lazy_model import LazyJMDP
from jmdp.methods.pair_operator import PairOperator
from jmdp.methods.policy_chain import ChainSolver, discounted_total, policy_chain_solver
from jmdp.methods.shaping import shape
from jmdp.model import TabularJMDP
from jmdp.policy import TabularPolicy
from jmdp.progress import count_bar

_MOST_PUSHES = 10_000_000
"""Pushes of mass at a time: near γ = 1 there is no end to them, and they only say where to look first."""


class Explorer:
    """The states that a policy gets to from one state, most of its discounted mass first."""

    def __init__(self, model: LazyJMDP, policy: Callable[[Any], Any], origin: int) -> None:
        self.model, self.policy, self.origin = model, policy, origin
        model.expand(origin)
        self.probs: Floats = np.zeros((0, 1))  # [found, A]
        self.asked: Booleans = np.zeros(0, bool)  # [found]
        self.mass: Floats = np.zeros(0)  # [found], on its way through these states
        self._fit()
        self._ask(origin)
        if not model.terminal[origin]:
            np.add.at(self.mass, model.next_state[origin], model.discount * model.prob[origin][:, None])

    def explore(self, threshold: float, max_states: int, progress: bool) -> None:
        """Ask for the tables of all states that at least this much discounted mass gets to; at most so many."""
        from jmdp.kernels.arrivals import push

        model = self.model
        if self.complete:
            return
        with count_bar("states looked at", progress, int(self.asked.sum())) as bar:
            while True:
                push(
                    model.prob, model.next_state, self.probs, self.asked, model.terminal, model.discount, threshold,
                    self.mass, _MOST_PUSHES,
                )  # fmt: skip
                new = np.flatnonzero(~self.asked & (self.mass >= threshold))
                room = max_states - int(self.asked.sum())
                if new.size == 0 or room <= 0:
                    return
                new = new[np.argsort(-self.mass[new], kind="stable")][:room]
                for i in new.tolist():
                    model.expand(i)
                    self._fit()
                    self._ask(i)
                bar(int(self.asked.sum()))

    @property
    def complete(self) -> bool:
        """Whether no state looked at leads to one that was not."""
        going = np.flatnonzero(self.asked & ~self.model.terminal)
        leads = (self.model.prob[going, :, None] > 0) & ~self.asked[self.model.next_state[going]]
        return not leads.any()

    @property
    def frontier(self) -> float:
        """The most discounted mass that stands before a state not looked at."""
        return float(self.mass[~self.asked].max(initial=0.0))

    def _fit(self) -> None:
        size, A = len(self.model.known), self.model.reward.shape[2]
        if len(self.asked) < size or self.probs.shape[1] != A:
            for name, shape in (("probs", (size, A)), ("asked", (size,)), ("mass", (size,))):
                old = getattr(self, name)
                new = np.zeros(shape, old.dtype)
                if old.ndim == 1 or old.shape[1] == A:
                    new[: len(old)] = old
                setattr(self, name, new)

    def _ask(self, i: int) -> None:
        """Ask for the policy in a state."""
        if not self.model.terminal[i]:
            state = self.model.states[i]
            try:
                row = TabularPolicy(np.asarray(self.policy(state), float)[None]).probs[0]
            except (PolicyError, ValueError, TypeError) as wrong:
                raise PolicyError(f"The policy in state {state!r}: {wrong}") from wrong
            if row.size != self.probs.shape[1]:
                raise PolicyError(f"The policy gives {row.size} probabilities in state {state!r}; "
                                  f"there are {self.probs.shape[1]} actions.")  # fmt: skip
            self.probs[i] = row
        self.asked[i] = True


@dataclass(frozen=True, eq=False)
class Cut:
    """A finite table: some states, and one more where every exit leads."""

    model: TabularJMDP
    policy: TabularPolicy
    square_chain: ChainSolver  # with discount γ²
    missing: Floats  # [S − 1], E[γ^{2τ} M(S_τ)] at most
    missing_ahead: Floats  # [A], the same from the origin with its first action given

    @classmethod
    def at(cls, explorer: Explorer, inside: Integers, value: Floats, spread: Floats) -> Cut:
        """Cut at the exits from `inside`, which earn `value` and miss `spread` in mean square (both [found])."""
        lazy = explorer.model
        place = np.full(len(lazy.known), inside.size)
        place[inside] = np.arange(inside.size)
        following = lazy.next_state[inside]
        to = place[following]
        leaves = to == inside.size
        gamma = lazy.discount
        reward = lazy.reward[inside] + np.where(leaves, gamma * value[following], 0.0)
        A = explorer.probs.shape[1]
        prob = lazy.prob[inside] * ~lazy.terminal[inside, None]
        names = [str(lazy.states[i]) for i in inside.tolist()] + ["beyond"]
        model = TabularJMDP(
            np.concatenate([lazy.prob[inside], np.eye(1, prob.shape[1])]),
            np.concatenate([reward, np.zeros((1, *reward.shape[1:]))]),
            np.concatenate([to, np.full((1, *to.shape[1:]), inside.size)]),
            gamma,
            np.append(lazy.terminal[inside], True),
            names if len(set(names)) == len(names) else None,
        )
        rows = np.where(lazy.terminal[inside, None], np.eye(1, A), explorer.probs[inside])
        policy = TabularPolicy(np.concatenate([rows, np.eye(1, A)]))
        square = gamma * gamma
        at_exit = np.where(leaves, spread[following], 0.0)
        gain = square * np.einsum("sk,ska,sa->s", prob, at_exit, policy.probs[:-1])
        one_minus_square = (1 - gamma) * (1 + gamma)
        chain = policy_chain_solver(model, policy, square, one_minus_square)
        missing = discounted_total(model, policy, chain, np.append(gain, 0.0), square, one_minus_square)
        missing[-1] = 0.0
        origin = int(place[explorer.origin])
        ahead = square * np.einsum("k,ka->a", prob[origin], at_exit[origin] + missing[to[origin]])
        return cls(model, policy, chain, missing[:-1], ahead * (1 + 2.0**-40))


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The wide cut: the value and spread of every state found, and how often each is met."""

    model: TabularJMDP
    value: Floats  # [found], v; 0 for states that were not looked at
    spread: Floats  # [found], at most E[(Z − value)²]
    met: Floats  # [found], E Σ γ^{2n} 1{S_n = s} over the origin's actions
    mean: Floats  # [A], of the origin's returns
    mean_error: Floats  # [A]
    leak: float  # what the wide cut itself misses, in mean square, of the origin's worst action

    @classmethod
    def of(cls, explorer: Explorer) -> Surroundings:
        """Look around with the tables asked for so far."""
        lazy = explorer.model
        gamma = lazy.discount
        bound = lazy.return_bound
        found = len(lazy.known)
        inside = np.flatnonzero(explorer.asked)
        nothing = np.zeros(found)
        cut = Cut.at(explorer, inside, nothing, np.full(found, bound * bound))
        shaped = shape(cut.model, cut.policy)
        operator = PairOperator(cut.model, cut.policy, Independent(), shaped)
        scale = 2.0**shaped.exponent
        value, spread = nothing.copy(), np.full(found, bound * bound)
        value[inside] = scale * shaped.value.high[:-1]
        mean_error = scale * shaped.mean_error
        variance = scale * scale * (operator.V[:-1] + operator.variance_error())
        spread[inside] = (np.sqrt(variance) + np.sqrt(cut.missing) + mean_error) ** 2
        np.minimum(spread, (bound + np.abs(value)) ** 2, out=spread)
        # r + γ v(n) is rounded: an error of v(n) of that over γ.
        rounding = 2.0**-48 * bound / gamma if gamma else 0.0
        spread[:] = (np.sqrt(spread) + rounding) ** 2 * (1 + 2.0**-40)
        origin = int(np.flatnonzero(inside == explorer.origin)[0])
        start = np.zeros(inside.size + 1)
        np.add.at(start, cut.model.next_state[origin], gamma * gamma * cut.model.prob[origin][:, None])
        met = nothing.copy()
        met[inside] = cut.square_chain.transposed(start)[:-1]
        # |E γ^τ Z(S_τ)| ≤ B/(1 − γ) E γ^τ, which is again a sum along the chain
        going = cut.model.prob[:-1] * ~lazy.terminal[inside, None]
        leaves = cut.model.next_state[:-1] == inside.size
        gain = gamma * np.einsum("sk,ska,sa->s", going, leaves, cut.policy.probs[:-1])
        chain = policy_chain_solver(cut.model, cut.policy, gamma, 1 - gamma)
        exits = discounted_total(cut.model, cut.policy, chain, np.append(gain, 0.0), gamma, 1 - gamma)
        exits[-1] = 1.0
        off = gamma * np.einsum("k,ka->a", going[origin], exits[cut.model.next_state[origin]])
        return cls(
            cut.model,
            value,
            spread,
            met,
            scale * shaped.mean[origin],
            (bound * off + mean_error) * (1 + 2.0**-40),
            float(cut.missing_ahead.max()),
        )
