"""The scenario table: a finite joint Markov decision process, checked once and frozen.

In state s, scenario k has probability ``prob[s, k]`` and fixes the reward and the next state of *every* action
at once. That joint row is what an ordinary MDP lacks: it says how the actions' outcomes move together.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.labels import Label, Labels
from jmdp.errors import ModelError, SettingsError
from jmdp.models import outcomes
from jmdp.models.discount import checked_discount
from jmdp.models.outcomes import MarginalMDP, OutcomeDistribution, Outcomes

Actions = Label | Sequence[Label] | npt.NDArray[np.integer]
"""Actions as a user asks for them: one, or several in any order."""

LARGEST_RETURN = 1e150
"""Returns up to here have second moments that float64 can hold."""


@dataclass(frozen=True, init=False, eq=False)
class TabularJMDP(arrays.FrozenArrays):
    """A joint MDP with finitely many states, scenarios and actions.

    The model *is* its stored table: each row of `prob` divided by its exact sum. Rows that miss 1 by more than
    rounding but less than 1e-6 are divided by their sum on the way in; others are refused. What cannot happen is
    not kept: rows of terminal states are never read and stored as one certain scenario that stays there for no
    reward, and rewards of scenarios with probability 0 are stored as 0.

    Paper: Definition 4.3 (JMDP); the reward and next state of one action are drawn jointly here, where the
    paper's Definition 3.2 writes them as independent.

    Parameters
    ----------
    prob
        ``[S, K]``, probability of scenario k in state s.
    reward
        ``[S, K, A]``, any finite numbers.
    next_state
        ``[S, K, A]``, integers in 0 … S−1.
    discount
        γ, 0 ≤ γ < 1.
    terminal
        ``[S]`` booleans: return 0 from here on. The reward of the step into a terminal state counts.
    state_names, action_names
        Unique strings; without them states and actions are called by index.
    """

    prob: Floats  # [S, K]
    reward: Floats  # [S, K, A]
    next_state: Integers  # [S, K, A]
    discount: float
    terminal: Booleans  # [S]
    states: Labels
    actions: Labels
    reward_bound: float  # B = max |reward| over outcomes that can happen

    def __init__(
        self,
        prob: npt.ArrayLike,
        reward: npt.ArrayLike,
        next_state: npt.ArrayLike,
        discount: float,
        terminal: npt.ArrayLike | None = None,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
    ) -> None:
        p = arrays.floats("prob", prob, "[S, K]", ModelError)
        r = arrays.floats("reward", reward, "[S, K, A]", ModelError)
        n = arrays.integers("next_state", next_state, "[S, K, A]", ModelError)
        S, K, A = r.shape
        if min(S, K, A) == 0:
            raise ModelError(f"reward has shape {r.shape}: a model needs a state, a scenario and an action.")
        ends = arrays.booleans("terminal", np.zeros(S, bool) if terminal is None else terminal, "[S]", ModelError)
        for name, array, shape in (("prob", p, (S, K)), ("next_state", n, (S, K, A)), ("terminal", ends, (S,))):
            if array.shape != shape:
                raise ModelError(f"{name} has shape {array.shape}, but reward {r.shape} = [S, K, A] asks for {shape}.")
        gamma = checked_discount(discount)
        states, actions = Labels.of("state", S, state_names), Labels.of("action", A, action_names)

        def where(at: Sequence[int]) -> str:
            action = f", action {actions.name(at[2])}" if len(at) == 3 else ""
            return f"state {states.name(at[0])}, scenario {at[1]}{action}"

        nonterminal = ~ends[:, None]
        bad_p = nonterminal & ~((p >= 0) & (p <= 1 + arrays.ROW_SUM_TOLERANCE))
        arrays.refuse_where(bad_p, p, "prob", "a probability lies in [0, 1]", where, ModelError)
        bad_r = nonterminal[:, :, None] & ~np.isfinite(r)
        arrays.refuse_where(bad_r, r, "reward", "a reward is a finite number", where, ModelError)
        bad_n = nonterminal[:, :, None] & ((n < 0) | (n >= S))
        arrays.refuse_where(bad_n, n, "next_state", f"a state is an index from 0 to {S - 1}", where, ModelError)
        p[ends] = np.eye(1, K)
        r[ends] = 0.0
        r[p == 0] = 0.0
        n[ends] = np.flatnonzero(ends)[:, None, None]
        p = arrays.normalised_rows(p, lambda s: f"prob of state {states.name(s)}", ModelError)
        bound = float(np.abs(r[p > 0]).max())
        if bound > LARGEST_RETURN * (1 - gamma):
            raise ModelError(
                f"Rewards up to {bound:g} at discount {gamma:g} give returns whose squares overflow. "
                "Divide the rewards by a constant; moments of order k scale by its k-th power."
            )
        for array in (p, r, n, ends):
            arrays.frozen(array)
        for name, value in {
            "prob": p,
            "reward": r,
            "next_state": n,
            "discount": gamma,
            "terminal": ends,
            "states": states,
            "actions": actions,
            "reward_bound": bound,
        }.items():
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(S, K, A): how many states, scenarios and actions."""
        S, K, A = self.reward.shape
        return S, K, A

    def sample(
        self, state: Label, actions: Actions | None = None, *, rng: np.random.Generator, size: int | None = None
    ) -> Outcomes:
        """What each of these actions (None: all) would meet in this state, under one and the same luck.

        Draws ((R_i, S'_i))_i ~ J_m(· | s, a_1 … a_m): the scenario once, and from it reward and next state of all m
        actions, as arrays [m], or [size, m] for that many draws. Terminal states earn 0 and stay.

        Paper: Definition 4.1 (m-JSTM). Actions need not be distinct: a repeated one repeats its outcome.
        """
        s = self.states.index(state)
        return outcomes.draw(self.prob[s], self.reward[s], self.next_state[s], self._actions_asked(actions), rng, size)

    def outcome_distribution(self, state: Label, actions: Actions | None = None) -> OutcomeDistribution:
        """The exact distribution J_m(· | s, a_1 … a_m) that `sample` draws from; see `OutcomeDistribution`."""
        s = self.states.index(state)
        return outcomes.distribution(self.prob[s], self.reward[s], self.next_state[s], self._actions_asked(actions))

    def marginal_mdp(self) -> MarginalMDP:
        """The classical MDP of single actions, in the shapes other packages take; see `MarginalMDP`."""
        return outcomes.marginal_mdp(self.prob, self.reward, self.next_state, self.discount)

    @cached_property
    def coupling_distance(self) -> Floats:
        """[S], total variation between J(· | s) and the product of its single-action marginals, up to rounding.

        Taking actions for independent misjudges no event of one step by more. Paper: Definition 4.2.
        """
        distance = outcomes.coupling_distance(self.prob, self.reward, self.next_state)
        arrays.frozen(distance)
        return distance

    @property
    def is_coupled(self) -> bool:
        """Whether actions share luck anywhere, beyond what rounding explains: a coupled-dynamics environment.

        If all of J(· | s) is a product, so is every J_m. Paper: Definition 4.2.
        """
        _, K, A = self.shape
        return bool(self.coupling_distance.max() > outcomes.rounding_allowance(K, A))

    def _actions_asked(self, actions: Actions | None) -> Integers:
        if actions is None:
            return np.arange(self.actions.size)
        asked = actions.tolist() if isinstance(actions, np.ndarray) else actions
        if isinstance(asked, str) or not isinstance(asked, Sequence):
            asked = [asked]
        if len(asked) == 0:
            raise SettingsError("actions is empty. Name at least one, or leave it out for all.")
        return np.array([self.actions.index(a) for a in asked])

    def __repr__(self) -> str:
        S, K, A = self.shape
        return (
            f"TabularJMDP({S} states, {K} scenarios, {A} actions, discount={self.discount:g}, "
            f"{int(self.terminal.sum())} terminal, reward_bound={self.reward_bound:g})"
        )


def with_discount(model: TabularJMDP, discount: float) -> TabularJMDP:
    """The same table with another discount, which is not checked: a finite horizon allows 1."""
    other = copy.copy(model)
    object.__setattr__(other, "discount", discount)
    return other
