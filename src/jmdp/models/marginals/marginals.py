"""Marginals: an ordinary finite MDP, in which the outcomes of different actions are not related.

`jmdp.couple` makes a scenario table of them, by a rule that says how the outcomes of different actions hang together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.labels import Label, Labels
from jmdp.errors import ModelError
from jmdp.models.marginals.arrays import (
    BYTES,
    Listed,
    checked,
    first_outcomes,
    read_mdptoolbox,
    read_quantecon,
    read_toy_text,
)
from jmdp.models.marginals.storm_files import read_storm
from jmdp.models.tabular import checked_discount

Names = Sequence[str] | None


class OutcomeList(NamedTuple):
    """Outcomes of one action in one state, in the order in which they were listed."""

    prob: Floats  # [L]
    reward: Floats  # [L]
    next_state: Integers  # [L]


@dataclass(frozen=True, init=False, eq=False)
class Marginals(arrays.FrozenArrays):
    """An ordinary MDP with finitely many states and actions: a list of outcomes for each state and action.

    It determines the distribution of each single return, but not how the returns of two actions vary together.
    `couple` adds what is missing. The order of the outcomes is kept because some couplings depend on it; outcomes with
    probability 0 are left out. Probabilities are stored as given, and the sum of each list must be 1 up to 1e-6; the
    distribution is the list divided by its exact sum. Rows of terminal states are ignored and replaced by a certain
    outcome that stays in the state with reward 0.

    Other packages and files: `from_toy_text` (Gymnasium), `from_quantecon`, `from_mdptoolbox` and `from_storm` (PRISM,
    JANI and DRN files).

    Paper: Definition 3.1 (MDP), with the reward and next state of an action drawn jointly.

    Parameters
    ----------
    count
        ``[S, A]``, number of outcomes of each state and action. Each nonterminal state needs at least one for every
        action.
    prob, reward
        ``[N]``, probability and reward of each outcome: those of state 0 and action 0 first, then those of state 0 and
        action 1 and so on.
    next_state
        ``[N]``, integers in 0 … S−1.
    discount
        γ, 0 ≤ γ < 1.
    terminal
        ``[S]`` booleans: the return from a terminal state is 0.
    state_names, action_names
        Unique strings. Default: states and actions are named by index.
    """

    first: Integers  # [S·A + 1], outcomes of (s, a) are first[s·A + a] … first[s·A + a + 1] − 1
    prob: Floats  # [N]
    reward: Floats  # [N]
    next_state: Integers  # [N]
    discount: float
    terminal: Booleans  # [S]
    states: Labels
    actions: Labels

    def __init__(
        self,
        count: npt.ArrayLike,
        prob: npt.ArrayLike,
        reward: npt.ArrayLike,
        next_state: npt.ArrayLike,
        discount: float,
        terminal: npt.ArrayLike | None = None,
        state_names: Names = None,
        action_names: Names = None,
    ) -> None:
        arrays.refuse_large_copies("The lists of outcomes", [prob], BYTES)
        c = arrays.integers("count", count, "[S, A]", ModelError)
        p = arrays.floats("prob", prob, "[N]", ModelError)
        r = arrays.floats("reward", reward, "[N]", ModelError)
        n = arrays.integers("next_state", next_state, "[N]", ModelError)
        if c.size and not (c.min() >= 0 and c.max() <= p.size and c.sum() == p.size):
            raise ModelError(f"count adds up to {c.sum()} with a minimum of {c.min()}, but prob has {p.size} entries.")
        for name, array in (("reward", r), ("next_state", n)):
            if array.shape != p.shape:
                raise ModelError(f"{name} has {array.size} entries, but prob has {p.size}. Give one for each outcome.")
        self._fill(Listed(c, p, r, n, _terminal(terminal, len(c))), discount, state_names, action_names)

    def _fill(self, listed: Listed, discount: Any, state_names: Names, action_names: Names, read: bool = False) -> None:
        S, A = listed.counts.shape
        if min(S, A) == 0:
            raise ModelError(f"There are {S} states and {A} actions. Give at least one of each.")
        gamma = checked_discount(discount)
        states = Labels.of_table("state", S, state_names, read=read)
        actions = Labels.of_table("action", A, action_names, read=read)
        count, p, r, n, ends = checked(listed, states, actions)
        first = first_outcomes(count)
        vars(self).update(first=first, prob=p, reward=r, next_state=n, discount=gamma, terminal=ends)
        vars(self).update(states=states, actions=actions)
        self.freeze()

    @classmethod
    def _of(
        cls, listed: Listed, discount: Any, state_names: Names, action_names: Names, read: bool = False
    ) -> Marginals:
        """Marginals of arrays that are used nowhere else; `read` if the names come from a file."""
        made = cls.__new__(cls)
        made._fill(listed, discount, state_names, action_names, read)
        return made

    @classmethod
    def from_toy_text(
        cls, env: Any, discount: float, state_names: Names = None, action_names: Names = None
    ) -> Marginals:
        """Read a Gymnasium environment with a table, such as FrozenLake, Taxi and CliffWalking.

        `env` is the environment or its ``P[state][action] = [(prob, next_state, reward, done), …]``. An outcome that is
        done ends the episode. If the state that it reaches has no other outcomes than staying there, done and with
        reward 0, that state is terminal; else the outcome leads to an added terminal state "ended".

        The listed order is kept. Gymnasium inverts one uniform number by the cumulative sums in that order, so
        ``couple(marginals, CommonUniform(across_states=True))`` with the coupling `Synchronous` has the randomness of
        the environment itself when copies of it share a generator. A time limit is not part of the table.
        """
        listed, names = read_toy_text(env, state_names)
        return cls._of(listed, discount, names, action_names)

    @classmethod
    def from_quantecon(
        cls,
        R: Any,
        Q: Any = None,
        discount: float | None = None,
        s_indices: npt.ArrayLike | None = None,
        a_indices: npt.ArrayLike | None = None,
        *,
        state_names: Names = None,
        action_names: Names = None,
    ) -> Marginals:
        """Read QuantEcon's arrays: rewards R [S, A] and transition probabilities Q [S, A, S].

        By state-action pairs, R is [L] and Q [L, S], which may be a SciPy sparse array, for the pairs
        (s_indices[l], a_indices[l]) in any order. A ``quantecon.markov.DiscreteDP`` in place of R has all of them.
        Outcomes are listed by next state. R = −inf marks an action that is not available, which is refused.
        """
        return cls._of(*read_quantecon(R, Q, discount, s_indices, a_indices), state_names, action_names)

    @classmethod
    def from_mdptoolbox(
        cls, P: Any, R: Any, discount: float, *, state_names: Names = None, action_names: Names = None
    ) -> Marginals:
        """Read the arrays of pymdptoolbox: P [A, S, S] and R [S], [S, A] or [A, S, S].

        P and R may also be lists of A matrices [S, S], dense or SciPy sparse. Rewards of transitions are kept, where
        pymdptoolbox averages them. Outcomes are listed by next state.
        """
        return cls._of(read_mdptoolbox(P, R), discount, state_names, action_names)

    @classmethod
    def from_storm(
        cls, path: Any, discount: float, rewards: str | None = None, constants: str = "", terminal: str | None = None
    ) -> Marginals:
        """Read an MDP or Markov chain from a file of PRISM (.prism, .nm, .pm, …), JANI (.jani) or Storm (.drn).

        Requires stormpy, ``pip install "jmdp[storm]"``, which is published under the GPL. Storm runs in a separate
        process, because some malformed files end the process that parses them.

        Parameters
        ----------
        path
            The file, of at most 64 MiB.
        discount
            γ, 0 ≤ γ < 1, which these files do not contain.
        rewards
            Name of the reward structure; None if there is only one. Rewards of a state are added to the reward of each
            of its actions.
        constants
            Values of undefined constants, e.g. ``"N=3,p=0.1"``.
        terminal
            Label of the states that end the episode, e.g. ``"done"``. Rewards in these states do not count.
        """
        listed, state_names, action_names = read_storm(path, rewards, constants, terminal)
        return cls._of(listed, discount, state_names, action_names, read=True)

    @property
    def shape(self) -> tuple[int, int]:
        """(S, A): numbers of states and actions."""
        return self.states.size, self.actions.size

    @property
    def count(self) -> Integers:
        """Number of outcomes [S, A] of each state and action."""
        return np.diff(self.first).reshape(self.shape)

    def outcomes(self, state: Label, action: Label) -> OutcomeList:
        """Outcomes of an action in a state, in the listed order and without those of probability 0.

        Probabilities are divided by their sum if it differs from 1 by more than rounding.
        """
        row = self.states.index(state) * self.actions.size + self.actions.index(action)
        part = slice(int(self.first[row]), int(self.first[row + 1]))
        rows = arrays.normalised_rows(self.prob[None, part].copy(), lambda _: "prob", ModelError)
        return OutcomeList(rows[0], self.reward[part], self.next_state[part])

    def __repr__(self) -> str:
        S, A = self.shape
        return (
            f"Marginals({S} states, {A} actions, {self.prob.size} outcomes, discount={self.discount:g}, "
            f"{int(self.terminal.sum())} terminal)"
        )


def _terminal(terminal: npt.ArrayLike | None, states: int) -> Booleans:
    found = arrays.booleans("terminal", np.zeros(states, bool) if terminal is None else terminal, "[S]", ModelError)
    if found.shape != (states,):
        raise ModelError(f"terminal has {found.size} entries for {states} states. Give one True or False each.")
    return found
