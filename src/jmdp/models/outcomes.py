"""What one step does to several actions at once: draws, exact distributions, marginals, coupling distances.

Everything here is of scenario tables, ``prob [S, K]``, ``reward`` and ``next_state [S, K, A]``, or of one state's rows.
Use the methods of `TabularJMDP`; these are what they call.
"""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats, Integers
from jmdp.errors import SettingsError

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Outcomes(NamedTuple):
    """Rewards and next states of m actions in one state, or of many draws of them."""

    reward: Floats  # [m] or [size, m]
    next_state: Integers  # [m] or [size, m]


@dataclass(frozen=True, eq=False)
class OutcomeDistribution(arrays.FrozenArrays):
    """The distribution J_m(· | s, a_1 … a_m): outcome l, with probability ``prob[l]``, says what each action meets.

    No two outcomes are equal and none is impossible. They are sorted by the first action's reward, its next state, the
    second action's reward and so on, so that equal distributions have equal arrays however their scenarios were written
    down.

    Paper: Definition 4.1 (m-JSTM), induced from the table as in Remark 4.4; with one action the classical J_1.
    """

    prob: Floats  # [L]
    reward: Floats  # [L, m]
    next_state: Integers  # [L, m]


@dataclass(frozen=True, eq=False)
class MarginalMDP(arrays.FrozenArrays):
    """The classical MDP of a joint one: what is left of it when one action is looked at at a time.

    This is QuantEcon's form by state-action pairs: with ``s, a = np.divmod(np.arange(S * A), A)`` it is
    ``DiscreteDP(mdp.reward.ravel(), mdp.transition, mdp.discount, s, a)``. Dense, P(s' | s, a) is
    ``P = mdp.transition.toarray().reshape(S, A, S)``, QuantEcon's product form beside `reward`; pymdptoolbox takes
    ``P.transpose(1, 0, 2)``, also beside `reward`. Terminal states stay in place for no reward.

    Paper: Remark 4.4. That reward and next state of one action may depend on one another is lost here too.
    """

    reward: Floats  # [S, A], E[R | s, a]
    transition: csr_array[np.float64, tuple[int, int]]  # [S·A, S], row s·A + a
    discount: float


def draw(
    prob: Floats, reward: Floats, next_state: Integers, actions: Integers, rng: np.random.Generator, size: int | None
) -> Outcomes:
    """Draw from J_m in the state with rows prob [K], reward and next_state [K, A]: one scenario for all m actions."""
    if not isinstance(rng, np.random.Generator):
        seed = rng if isinstance(rng, int) else "seed"
        raise SettingsError(
            f"rng is {rng!r}. Give a generator, rng = np.random.default_rng({seed}), and pass the same one each time."
        )
    shape = () if size is None else (_whole_size(size),)
    luck = rng.random((*shape, 1))
    scenario = np.searchsorted(arrays.cumulative_rows(prob[None])[0], luck, side="right")
    return Outcomes(reward[scenario, actions], next_state[scenario, actions])


def _whole_size(size: int) -> int:
    try:
        number = -1 if isinstance(size, bool) else operator.index(size)
    except TypeError:
        number = -1
    if number < 0:
        raise SettingsError(f"size is {size!r}. Give a whole number of draws, or None for a single one.")
    return number


def distribution(prob: Floats, reward: Floats, next_state: Integers, actions: Integers) -> OutcomeDistribution:
    """J_m in the state with rows prob [K], reward and next_state [K, A]; sums of probabilities are rounded once."""
    chances: defaultdict[tuple[tuple[float, int], ...], list[float]] = defaultdict(list)
    for p, r, n in zip(prob.tolist(), reward[:, actions].tolist(), next_state[:, actions].tolist(), strict=True):
        if p > 0:
            chances[tuple(zip(r, n, strict=True))].append(p)
    outcomes = sorted(chances)
    found = OutcomeDistribution(
        np.array([math.fsum(chances[outcome]) for outcome in outcomes]),
        np.array([[r for r, _ in outcome] for outcome in outcomes]) + 0.0,  # no −0.0: it equals 0.0
        np.array([[n for _, n in outcome] for outcome in outcomes], np.int64),
    )
    for array in (found.prob, found.reward, found.next_state):
        arrays.frozen(array)
    return found


def marginal_mdp(prob: Floats, reward: Floats, next_state: Integers, discount: float) -> MarginalMDP:
    """E[R | s, a] = Σ_k prob[s, k] reward[s, k, a] and P(s' | s, a) = Σ_k prob[s, k] 1{next_state[s, k, a] = s'}."""
    mean = np.einsum("sk,ska->sa", prob, reward)
    arrays.frozen(mean)
    return MarginalMDP(mean, one_step(prob, next_state), discount)


def one_step(prob: Floats, next_state: Integers) -> csr_array[np.float64]:
    """[S·A, S], where each coordinate goes under scenario probabilities [S, K]."""
    from scipy.sparse import csr_array

    S, K, A = next_state.shape
    row = np.broadcast_to(np.arange(S * A).reshape(S, 1, A), (S, K, A))
    chance = np.broadcast_to(prob[:, :, None], (S, K, A))
    used = chance > 0
    return csr_array((chance[used], (row[used], next_state[used])), shape=(S * A, S))


def coupling_distance(prob: Floats, reward: Floats, next_state: Integers) -> Floats:
    """Total variation between J(· | s) and the product of its single-action marginals, in each state: [S].

    TV(J, ⊗J_1) = Σ_o (J(o) − Π_a J_1(o_a))⁺. Only outcomes o of the table count: elsewhere J(o) = 0. Hence K terms and
    not one for each of up to K^A combinations.
    """
    S, K, A = reward.shape
    first = K * np.arange(S)[:, None]

    def chances(numbers: Integers) -> Floats:
        """The probability of each number in each state: [S·K]."""
        found: Floats = np.zeros(S * K)
        np.add.at(found, first + numbers, prob)
        return found

    joint, product = np.zeros((S, K), np.int64), np.ones((S, K))
    for a in range(A):
        alone = _numbered(reward[:, :, a], next_state[:, :, a])
        product *= chances(alone)[first + alone]
        joint = _numbered(joint, alone)
    independent = np.zeros(S * K)
    independent[first + joint] = product  # scenarios with one outcome have one product
    distance: Floats = np.maximum(chances(joint) - independent, 0.0).reshape(S, K).sum(axis=1)
    return distance


def rounding_allowance(scenarios: int, actions: int) -> float:
    """No larger `coupling_distance` comes of rounding alone: 4 (K + A) (A + 1) u, with u = 2⁻⁵³.

    Rows are stored with sums up to 2Ku off 1, sums of K terms are off by Ku and products of A factors by Au more, so
    the distance found is off by at most 3K(A + 1)u + (K + A)u. And where the table is itself a product of marginals in
    float64, each entry is off by (A + 1)u, which is a true distance of up to (A + 1)²u.
    """
    return 4 * (scenarios + actions) * (actions + 1) * 2.0**-53


def _numbered(*keys: Floats | Integers) -> Integers:
    """Number the entries of each row [S, K] from 0, equal ones (in all keys) alike."""
    order = np.lexsort(keys, axis=1)
    new = np.zeros(order.shape, np.bool_)
    for key in keys:
        ordered = np.take_along_axis(key, order, axis=1)
        new[:, 1:] |= ordered[:, 1:] != ordered[:, :-1]
    numbers = np.empty(order.shape, np.int64)
    np.put_along_axis(numbers, order, np.cumsum(new, axis=1), axis=1)
    return numbers
