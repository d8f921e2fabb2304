"""The scenario table: a finite joint Markov decision process, validated once and immutable.

In state s, scenario k has probability ``prob[s, k]`` and determines the reward and the next state of *every* action.
An ordinary MDP has no such joint distribution of the outcomes of different actions.

Checks of the discount factor, a property of the model or simulator or else an argument; and finite horizons: the number
of steps, and the value of each state after the last.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays, optional
from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.labels import Label, Labels
from jmdp.base.savable import Savable
from jmdp.base.settings import instance, integer, number, real_number, short, whole_number
from jmdp.errors import ModelError, SettingsError
from jmdp.models import outcomes
from jmdp.models.outcomes import MarginalMDP, OutcomeDistribution, Outcomes

if TYPE_CHECKING:
    import xarray


Actions = Label | Sequence[Label] | npt.NDArray[np.integer]
"""One action, or several in any order."""

LARGEST_RETURN = 1e150
"""Returns up to this size have squares that float64 can represent."""


PRODUCT_TOLERANCE = 1e-9
"""Largest difference between the probability of a scenario and the product of those of its sources."""

_BYTES = 12.0
"""Memory for each number of a table while it is checked: the number, and masks of one part at a time."""


@dataclass(frozen=True, init=False, eq=False)
class TabularJMDP(arrays.FrozenArrays, Savable):
    """A joint MDP with finitely many states, scenarios and actions.

    The model is defined by its stored table, with each row of `prob` divided by its exact sum. Rows whose sum differs
    from 1 by more than rounding but less than 1e-6 are normalised first; a larger difference raises an error. Rows of
    terminal states are ignored and replaced by one certain scenario that stays in the state with reward 0. Rewards of
    scenarios with probability 0 must be finite too, and are set to 0. Probabilities of a table that `couple` has made
    are rounded; `prob_error` bounds the effect, which certificates include.

    Paper: Definition 4.3 (JMDP). Here the reward and next state of one action are drawn jointly; the paper's
    Definition 3.2, Eq. (2) and Eq. (4) write them as independent.

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
        ``[S]`` booleans: the return from a terminal state is 0. The reward of the step into it counts.
    state_names, action_names
        Unique strings. Default: states and actions are named by index. Names that are integers, such as "20", are also
        found by the integer; an integer is then a label, not an index.
    sources
        Independent sources of randomness that scenarios combine, with the number of outcomes of each: with
        ``{"demand": 12, "lead": 3}``, scenario 3 d + l is outcome d of the demand and l of the lead time. In every
        state, ``prob`` must be the product of their probabilities to within 1e-9. `Comparison.explain` uses them.
    """

    prob: Floats  # [S, K]
    reward: Floats  # [S, K, A]
    next_state: Integers  # [S, K, A]
    discount: float
    terminal: Booleans  # [S]
    states: Labels
    actions: Labels
    reward_bound: float  # B = max |reward| over outcomes that can happen
    normalised: float = 0.0  # largest |sum of a given row of prob − 1| that was corrected; 0 if there was only rounding
    prob_error: float = 0.0  # bound on the relative error of the probability of any outcome of an action, by `couple`
    coupled_by: str | None = None  # how `couple` made the table of marginals, e.g. "Maximal()"; None if it was given
    sources: Mapping[str, int] | None = None  # independent sources of randomness, and their numbers of outcomes

    def __init__(
        self,
        prob: npt.ArrayLike,
        reward: npt.ArrayLike,
        next_state: npt.ArrayLike,
        discount: float,
        terminal: npt.ArrayLike | None = None,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        sources: Mapping[str, int] | None = None,
    ) -> None:
        arrays.refuse_large_copies("The table", [prob, reward, next_state, terminal], _BYTES)
        p = arrays.floats("prob", prob, "[S, K]", ModelError)
        r = arrays.floats("reward", reward, "[S, K, A]", ModelError)
        n = arrays.integers("next_state", next_state, "[S, K, A]", ModelError)
        S, K, A = r.shape
        if min(S, K, A) == 0:
            raise ModelError(f"reward has shape {r.shape}. Give at least one state, scenario and action.")
        ends = arrays.booleans("terminal", np.zeros(S, bool) if terminal is None else terminal, "[S]", ModelError)
        for name, array, shape in (("prob", p, (S, K)), ("next_state", n, (S, K, A)), ("terminal", ends, (S,))):
            if array.shape != shape:
                raise ModelError(f"{name} has shape {array.shape}, but reward {r.shape} = [S, K, A] requires {shape}.")
        gamma = checked_discount(discount)
        states, actions = Labels.of_table("state", S, state_names), Labels.of_table("action", A, action_names)

        def where(at: Sequence[int]) -> str:
            action = f", action {actions.name(at[2])}" if len(at) == 3 else ""
            return f"state {states.name(at[0])}, scenario {at[1]}{action}"

        nonterminal = ~ends[:, None]
        bad_p = nonterminal & ~((p >= 0) & (p <= 1 + arrays.ROW_SUM_TOLERANCE))
        arrays.refuse_where(bad_p, p, "prob", "a probability must be in [0, 1]", where, ModelError)
        bad_r = nonterminal[:, :, None] & ~np.isfinite(r)
        arrays.refuse_where(bad_r, r, "reward", "a reward must be a finite number", where, ModelError)
        bad_n = nonterminal[:, :, None] & ((n < 0) | (n >= S))
        arrays.refuse_where(bad_n, n, "next_state", f"a state must be an index from 0 to {S - 1}", where, ModelError)
        p[ends] = np.eye(1, K)
        r[ends] = 0.0
        r[p == 0] = 0.0
        n[ends] = np.flatnonzero(ends)[:, None, None]
        p, correction = _normalised(p, states)
        bound = arrays.largest(r)
        if bound > LARGEST_RETURN * (1 - gamma):
            raise ModelError(_OVERFLOW.format(bound, gamma))
        known = None if sources is None else _checked_sources(sources, p, states)
        vars(self).update(prob=p, reward=r, next_state=n, discount=gamma, terminal=ends, states=states, actions=actions)
        vars(self).update(reward_bound=bound, normalised=correction, sources=known)
        self.freeze()

    @property
    def shape(self) -> tuple[int, int, int]:
        """(S, K, A): numbers of states, scenarios and actions."""
        S, K, A = self.reward.shape
        return S, K, A

    def sample(
        self, state: Label, actions: Actions | None = None, *, rng: np.random.Generator, size: int | None = None
    ) -> Outcomes:
        """Draw the joint outcomes of several actions (None: all) in one state.

        Draws ((R_i, S'_i))_i ~ J_m(· | s, a_1 … a_m): one scenario, which determines the rewards and next states of all
        m actions. Arrays are [m], or [size, m] if `size` is given. A terminal state gives reward 0 and stays.

        Paper: Definition 4.1 (m-JSTM), Eq. (3); with one action Definition 3.2 (STM), given the state and action.
        Actions need not be distinct: a repeated one repeats its outcome.
        """
        s = self.states.index(state)
        return outcomes.draw(self.prob[s], self.reward[s], self.next_state[s], self._actions_asked(actions), rng, size)

    def outcome_distribution(self, state: Label, actions: Actions | None = None) -> OutcomeDistribution:
        """Exact distribution J_m(· | s, a_1 … a_m) of the outcomes that `sample` draws; see `OutcomeDistribution`.

        Paper: Eq. (6).
        """
        s = self.states.index(state)
        return outcomes.distribution(self.prob[s], self.reward[s], self.next_state[s], self._actions_asked(actions))

    def marginal_mdp(self) -> MarginalMDP:
        """Ordinary MDP (Definition 3.1) of single actions, in the format of other packages; see `MarginalMDP`."""
        return outcomes.marginal_mdp(self.prob, self.reward, self.next_state, self.discount)

    @cached_property
    def coupling_distance(self) -> Floats:
        """Total variation distance [S] between J(· | s) and the product of its single-action marginals, up to rounding.

        It bounds the error in the probability of any one-step event if actions are assumed to be independent.
        Paper: Definition 4.2.
        """
        distance = outcomes.coupling_distance(self.prob, self.reward, self.next_state)
        arrays.frozen(distance)
        return distance

    @property
    def is_coupled(self) -> bool:
        """Whether outcomes of actions are dependent in any state, beyond rounding: a coupled-dynamics environment.

        If J(· | s) of all actions is a product distribution, so is every J_m. Paper: Definition 4.2.
        """
        _, K, A = self.shape
        return bool(self.coupling_distance.max() > outcomes.rounding_allowance(K, A))

    def to_xarray(self) -> xarray.Dataset:
        """The table with labels."""
        axes = ("state", "scenario", "action")
        about = {} if self.coupled_by is None else {"coupled_by": self.coupled_by}
        found: xarray.Dataset = optional("xarray", 'Labelled arrays need xarray: pip install "jmdp[io]"').Dataset(
            {
                "prob": (axes[:2], self.prob),
                "reward": (axes, self.reward),
                "next_state": (axes, self.next_state),
                "terminal": (axes[:1], self.terminal),
            },
            {"state": list(self.states), "action": list(self.actions)},
            {"discount": self.discount} | about,
        )
        return found

    def _actions_asked(self, actions: Actions | None) -> Integers:
        if actions is None:
            return np.arange(self.actions.size)
        arrays.refuse_masked("actions", actions, SettingsError)
        arrays.refuse_large_copies("actions", [actions], 100.0)
        asked: Any = actions.tolist() if isinstance(actions, np.ndarray) else actions
        if isinstance(asked, str) or not isinstance(asked, Sequence):
            asked = [asked]
        if len(asked) == 0:
            raise SettingsError("actions is empty. Give at least one action, or omit it for all.")
        return np.array([self.actions.index(a) for a in asked])

    def __repr__(self) -> str:
        S, K, A = self.shape
        made = "" if self.coupled_by is None else f", coupled_by={self.coupled_by}"
        return (
            f"TabularJMDP({S} states, {K} scenarios, {A} actions, discount={self.discount:g}, "
            f"{int(self.terminal.sum())} terminal, reward_bound={self.reward_bound:g}{made})"
        )


_OVERFLOW = (
    "Rewards up to {:g} at discount {:g} give returns whose squares overflow. "
    "Divide the rewards by a constant; moments of order k scale by its k-th power."
)


def _normalised(prob: Floats, states: Labels) -> tuple[Floats, float]:
    """Rows divided by their sums, and the largest correction; 0 if there was only rounding."""
    off = float(np.abs(prob.sum(axis=1) - 1).max())
    prob = arrays.normalised_rows(prob, lambda s: f"prob of state {states.name(s)}", ModelError)
    return prob, off if off > prob.shape[1] * np.finfo(float).eps else 0.0


def _checked_sources(sources: Any, prob: Floats, states: Labels) -> dict[str, int]:
    """The sources; raise unless scenarios are their combinations, and `prob` the product of their probabilities."""
    hint = 'Give the number of outcomes of each source: sources={"demand": 12, "lead": 3}.'
    if not isinstance(sources, Mapping) or not sources or not all(isinstance(name, str) for name in sources):
        raise ModelError(f"sources is {short(sources)}. {hint}")
    sizes = {str(name): integer(size) or 0 for name, size in sources.items()}
    S, K = prob.shape
    if min(sizes.values()) < 1 or math.prod(sizes.values()) != K:
        raise ModelError(f"sources is {short(sources)}, but there are {K} scenarios. {hint} Their product is {K}.")
    parts = prob.reshape(S, *sizes.values())
    product = np.ones((S, *[1] * len(sizes)))
    for axis in range(1, len(sizes) + 1):
        product = product * parts.sum(axis=tuple(i for i in range(1, parts.ndim) if i != axis), keepdims=True)
    off = np.abs(parts - product).reshape(S, K)
    if off.max() > PRODUCT_TOLERANCE:
        s, k = np.unravel_index(off.argmax(), off.shape)
        raise ModelError(
            f"The sources {', '.join(sizes)} are not independent in state {states.name(int(s))}: scenario {k} has "
            f"probability {prob[s, k]:.6g}, the product of those of its sources is {product.reshape(S, K)[s, k]:.6g}. "
            "Declare dependent ones as a single source."
        )
    return sizes


def check_model(model: object) -> None:
    """Raise unless this is a table."""
    instance("model", model, TabularJMDP, ModelError)


def changed(model: TabularJMDP, **fields: Any) -> TabularJMDP:
    """Copy of a table with other values of some fields, which are not checked: a finite horizon allows discount 1."""
    other = copy.copy(model)
    vars(other).update(fields)
    return other


def with_read_labels(model: TabularJMDP) -> TabularJMDP:
    """Copy of a table that records that its names, if it has any, come from a file or frame."""
    states, actions = (replace(labels, read=labels.names is not None) for labels in (model.states, model.actions))
    return changed(model, states=states, actions=actions)


def checked_discount(discount: Any) -> float:
    """Discount of a table as a float; raise `ModelError` if it is invalid."""
    gamma = real_number(discount)
    if math.isnan(gamma):
        raise ModelError(f"discount is {short(discount)}. Give a number γ with 0 ≤ γ < 1.")
    if not 0 <= gamma < 1:
        raise ModelError(f"discount is {gamma!r}. Give 0 ≤ γ < 1, e.g. 1 − 1/horizon, so that returns are finite.")
    return gamma


def problem_discount(own: float | None, given: Any, *, horizon: Any = None) -> float:
    """Discount of the model or simulator, or the given one if it has none; raise if both differ.

    With a `horizon` that was given, a discount of 1 is the sum of the rewards of its steps, whatever the problem's own.
    """
    if own is not None:
        if given is None or real_number(given) == own:
            return own
        if horizon is not None and real_number(given) == 1:
            return 1.0
        summed = "" if horizon is None else ", or give discount=1 for the plain sum of the rewards"
        raise SettingsError(f"discount is {short(given)}, but the problem's own is {own!r}. Omit discount{summed}.")
    if given is None:
        raise SettingsError(
            "This simulator has no discount. Give one: discount=1.0 for the plain sum of an episode's rewards (with "
            "horizon=… if the simulator has no time limit), or e.g. discount=0.99."
        )
    gamma = real_number(given)
    if not 0 <= gamma <= 1:
        raise SettingsError(f"discount is {short(given)}. Give a number from 0 to 1.")
    return gamma


_MOST_STEPS = 10_000_000


@dataclass(frozen=True, eq=False)
class Horizon:
    """Number of steps, and value [S] of each state after the last step."""

    steps: int
    final: Floats

    @classmethod
    def of(cls, model: TabularJMDP, steps: Any, final: Any) -> Horizon:
        """Check the number of steps and the values against the model."""
        count = whole_number("horizon", steps, 1)
        if count > _MOST_STEPS:
            raise SettingsError(f"horizon is {count}. Give at most {_MOST_STEPS} steps.")
        S = model.shape[0]
        values = np.zeros(S) if final is None else arrays.floats("terminal_value", final, "[S]", SettingsError)
        if values.shape != (S,) or not np.isfinite(values).all():
            raise SettingsError(f"terminal_value has shape {values.shape}. Give {S} finite numbers.")
        if values[model.terminal].any():
            s = int(np.flatnonzero(model.terminal & (values != 0))[0])
            raise SettingsError(
                f"terminal_value of state {model.states.name(s)} is {values[s]:g}, but the return from a terminal "
                "state is 0. Give 0 there, and add the amount to the reward of the step into it."
            )
        if model.reward_bound * count + np.abs(values).max() > LARGEST_RETURN:
            raise SettingsError(f"Squares of returns over {count} steps overflow. Divide the rewards by a constant.")
        return cls(count, values)


def horizon_model(model: TabularJMDP, discount: float | None) -> TabularJMDP:
    """Model with another discount from 0 to 1, which a finite horizon allows; None keeps its own."""
    if discount is None:
        return model
    return changed(model, discount=number("discount", discount, 0, 1))
