"""Joint one-step outcomes of several actions: draws, exact distributions, marginals, coupling distances.

The functions take scenario tables, ``prob [S, K]``, ``reward`` and ``next_state [S, K, A]``, or the rows of one state.
They implement methods of `TabularJMDP`; use those instead.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats, Integers
from jmdp.base.settings import integer, short
from jmdp.errors import SettingsError

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Outcomes(NamedTuple):
    """Rewards and next states of m actions in one state, for one draw or several."""

    reward: Floats  # [m] or [size, m]
    next_state: Integers  # [m] or [size, m]


@dataclass(frozen=True, eq=False)
class OutcomeDistribution(arrays.FrozenArrays):
    """The distribution J_m(· | s, a_1 … a_m): outcome l, with probability ``prob[l]``, has all rewards and next states.

    Outcomes are distinct and have positive probability. They are sorted by the first action's reward, its next state,
    the second action's reward and so on, so that equal distributions have equal arrays in whatever order their
    scenarios were given.

    Paper: Definition 4.1 (m-JSTM), induced from the table as in Eq. (6); with one action the classical J_1, Eq. (5).
    """

    prob: Floats  # [L]
    reward: Floats  # [L, m]
    next_state: Integers  # [L, m]

    def __post_init__(self) -> None:
        self.freeze()


@dataclass(frozen=True, eq=False)
class MarginalMDP(arrays.FrozenArrays):
    """Ordinary MDP of a joint MDP: its marginal distributions for single actions.

    This is QuantEcon's form by state-action pairs: with ``s, a = np.divmod(np.arange(S * A), A)`` it is
    ``DiscreteDP(mdp.reward.ravel(), mdp.transition, mdp.discount, s, a)``. Dense, P(s' | s, a) is
    ``P = mdp.transition.toarray().reshape(S, A, S)``, QuantEcon's product form beside `reward`; pymdptoolbox takes
    ``P.transpose(1, 0, 2)``, also beside `reward`. Terminal states stay in place with reward 0.

    Paper: Remark 4.4, Definition 3.1 (MDP). The dependence between reward and next state of one action is also lost.
    """

    reward: Floats  # [S, A], E[R | s, a]
    transition: csr_array[np.float64, tuple[int, int]]  # [S·A, S], row s·A + a
    discount: float


def draw(
    prob: Floats, reward: Floats, next_state: Integers, actions: Integers, rng: np.random.Generator, size: int | None
) -> Outcomes:
    """Draw from J_m, one scenario for all m actions, in the state with rows prob [K], reward and next_state [K, A].

    Paper: Eq. (3).
    """
    if not isinstance(rng, np.random.Generator):
        seed = short(rng) if type(rng) is int else "seed"
        raise SettingsError(
            f"rng is {short(rng)}. Give a generator, rng = np.random.default_rng({seed}), and pass the same one each "
            "time."
        )
    shape = () if size is None else (_whole_size(size),)
    arrays.refuse_large(f"A sample of size {short(size)}", 24.0 * min(math.prod(shape), 2**62) * actions.size)
    luck = rng.random((*shape, 1))
    scenario = np.searchsorted(arrays.cumulative_rows(prob[None])[0], luck, side="right")
    return Outcomes(reward[scenario, actions], next_state[scenario, actions])


def _whole_size(size: object) -> int:
    found = integer(size)
    if found is None or found < 0:
        raise SettingsError(f"size is {short(size)}. Give a whole number of draws, or None for a single one.")
    return found


def distribution(prob: Floats, reward: Floats, next_state: Integers, actions: Integers) -> OutcomeDistribution:
    """J_m in the state with rows prob [K], reward and next_state [K, A]; sums of probabilities are rounded once.

    Paper: Eq. (6); Eq. (5) for one action.
    """
    chances: defaultdict[tuple[tuple[float, int], ...], list[float]] = defaultdict(list)
    for p, r, n in zip(prob.tolist(), reward[:, actions].tolist(), next_state[:, actions].tolist(), strict=True):
        if p > 0:
            chances[tuple(zip(r, n, strict=True))].append(p)
    outcomes = sorted(chances)
    return OutcomeDistribution(
        np.array([math.fsum(chances[outcome]) for outcome in outcomes]),
        np.array([[r for r, _ in outcome] for outcome in outcomes]) + 0.0,  # no −0.0: it equals 0.0
        np.array([[n for _, n in outcome] for outcome in outcomes], np.int64),
    )


def marginal_mdp(prob: Floats, reward: Floats, next_state: Integers, discount: float) -> MarginalMDP:
    """E[R | s, a] = Σ_k prob[s, k] reward[s, k, a] and P(s' | s, a) = Σ_k prob[s, k] 1{next_state[s, k, a] = s'}."""
    mean = np.einsum("sk,ska->sa", prob, reward)
    arrays.frozen(mean)
    return MarginalMDP(mean, one_step(prob, next_state), discount)


def one_step(prob: Floats, next_state: Integers) -> csr_array[np.float64]:
    """Transition probabilities [S·A, S] from each (state, action), for scenario probabilities [S, K]."""
    from scipy.sparse import csr_array

    S, K, A = next_state.shape
    row = np.broadcast_to(np.arange(S * A).reshape(S, 1, A), (S, K, A))
    chance = np.broadcast_to(prob[:, :, None], (S, K, A))
    used = chance > 0
    return csr_array((chance[used], (row[used], next_state[used])), shape=(S * A, S))


def coupling_distance(prob: Floats, reward: Floats, next_state: Integers) -> Floats:
    """Total variation distance [S] between J(· | s) and the product of its single-action marginals.

    TV(J, ⊗J_1) = Σ_o (J(o) − Π_a J_1(o_a))⁺. Only outcomes o in the table contribute, because otherwise J(o) = 0. So
    the sum has K terms, not one for each of up to K^A combinations.
    """
    S, K, A = reward.shape
    first = K * np.arange(S)[:, None]

    def chances(numbers: Integers) -> Floats:
        """Probability [S·K] of each number in each state."""
        found: Floats = np.zeros(S * K)
        np.add.at(found, first + numbers, prob)
        return found

    joint, product = np.zeros((S, K), np.int64), np.ones((S, K))
    for a in range(A):
        alone = _numbered(reward[:, :, a], next_state[:, :, a])
        product *= chances(alone)[first + alone]
        joint = _numbered(joint, alone)
    independent = np.zeros(S * K)
    independent[first + joint] = product  # scenarios with the same outcome have the same product
    distance: Floats = np.maximum(chances(joint) - independent, 0.0).reshape(S, K).sum(axis=1)
    return distance


def rounding_allowance(scenarios: int, actions: int) -> float:
    """Largest `coupling_distance` that rounding alone can cause: 4 (K + A) (A + 1) u, with u = 2⁻⁵³.

    Sums of stored rows differ from 1 by up to 2Ku. Sums of K terms add a relative error of Ku, and products of A
    factors one of Au, so the error of the distance is at most 3K(A + 1)u + (K + A)u. If the table itself was computed
    in float64 as a product of marginals, each entry has an error of (A + 1)u, a true distance of up to (A + 1)²u.
    """
    return 4 * (scenarios + actions) * (actions + 1) * 2.0**-53


def _numbered(*keys: Floats | Integers) -> Integers:
    """Number the entries of each row [S, K] from 0; entries equal in all keys have equal numbers."""
    order = np.lexsort(keys, axis=1)
    new = np.zeros(order.shape, np.bool_)
    for key in keys:
        ordered = np.take_along_axis(key, order, axis=1)
        new[:, 1:] |= ordered[:, 1:] != ordered[:, :-1]
    numbers = np.empty(order.shape, np.int64)
    np.put_along_axis(numbers, order, np.cumsum(new, axis=1), axis=1)
    return numbers
