"""Scenario tables of ordinary MDPs: a rule says how the outcomes of different actions hang together.

Every rule keeps the distribution of each single action: given probabilities, divided by the exact sum of their list, up
to one rounding, which the errors of results include. The gaps between actions depend on it, so it is a choice that
must fit the problem, and the table records it.

==================  =====================================================================================
rule                the outcomes of different actions in a state
==================  =====================================================================================
`CommonUniform()`   are functions of one uniform number: common random numbers by inversion
`Product()`         are independent
`Maximal()`         have the same next state as often as possible
`JointTable(…)`     have the joint distribution that is given
==================  =====================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.settings import boolean, choice, instance, short
from jmdp.errors import ModelError, SettingsError
from jmdp.models.joint_scenarios import (
    common_first,
    common_scenarios,
    product_scenarios,
    table_scenarios,
    uniform_scenarios,
)
from jmdp.models.marginals.marginals import Marginals
from jmdp.models.outcome_lists import Scenarios, as_given, by_reward, by_rows
from jmdp.models.tabular import TabularJMDP, changed

_BYTES = 300.0
"""Memory for each outcome while lists are sorted and added in integers; the table is planned apart."""


_LARGEST_ERROR = 1e-6
"""Largest relative error of probabilities; certificates neglect its square."""


class OutcomeCoupling:
    """How the outcomes of different actions hang together: `CommonUniform`, `Product`, `Maximal` or `JointTable`."""

    def __repr__(self) -> str:
        """The class with the settings that are not the default."""
        shown = ((f.name, getattr(self, f.name), f.default) for f in fields(self))  # type: ignore[arg-type]
        return (
            f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value, usual in shown if value != usual)})"
        )


@dataclass(frozen=True, repr=False)
class CommonUniform(OutcomeCoupling):
    """One uniform number U for all actions: action a has outcome j if F_a(j − 1) ≤ U < F_a(j).

    F_a are the cumulative sums of its probabilities. Scenarios are the intervals between the breakpoints of all
    actions, in exact arithmetic. If breakpoints that are meant to be equal differ by the rounding of the given
    probabilities, as 0.1 + 0.2 and 0.3 do, a scenario of a tiny probability lies between them.

    Parameters
    ----------
    order
        "given": outcomes in the listed order, as Gymnasium's toy-text environments draw them. "reward": by reward, then
        by next state. Large rewards of different actions then coincide, which makes the variance of the difference of
        two rewards as small as possible.
    across_states
        One U for all states: scenario k is the same interval in every state, as `Synchronous` requires. The number of
        scenarios may then be much larger.
    """

    order: Literal["given", "reward"] = "given"
    across_states: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", choice("order", self.order, ("given", "reward")))
        boolean(self, "across_states")


@dataclass(frozen=True, repr=False)
class Product(OutcomeCoupling):
    """Independent actions: P(o_1 … o_A) = Π_a p_a(o_a). There is a scenario for each combination of outcomes."""


@dataclass(frozen=True, repr=False)
class Maximal(OutcomeCoupling):
    """All actions move to the same next state with probability Σ_n min_a p_a(n), the largest that is possible.

    p_a(n) is the probability that action a moves to n, and m(n) = min_a p_a(n). With probability m(n), all actions move
    to n; their rewards, given n, are inverted from one uniform number in the listed order. Otherwise the outcome of
    action a has a probability in proportion to p_a(o) (1 − m(n)/p_a(n)), where n is its next state, and the outcomes of
    all actions are inverted from one uniform number in the listed order.

    For two actions, the probability of different next states is the total variation distance of p_1 and p_2. For more,
    this maximises the probability that *all* agree; a pair of them may differ more often than necessary.
    """


@dataclass(frozen=True, repr=False, eq=False)
class JointTable(OutcomeCoupling, arrays.FrozenArrays):
    """An explicit joint distribution. It is refused if it changes the distribution of an action by more than rounding.

    A probability of an outcome may differ by 1e-9 of its own size, and errors of results include the difference.

    Parameters
    ----------
    prob
        ``[S, K]``, probability of scenario k in state s. Rows of terminal states are ignored.
    outcome
        ``[S, K, A]``, number of the outcome of each action, from 0, in ``marginals.outcomes(state, action)``.
    """

    prob: npt.ArrayLike
    outcome: npt.ArrayLike

    def __post_init__(self) -> None:
        arrays.refuse_large_copies("The table", [self.prob, self.outcome], 8.0)
        prob = arrays.floats("prob", self.prob, "[S, K]", ModelError)
        outcome = arrays.integers("outcome", self.outcome, "[S, K, A]", ModelError)
        if prob.shape != outcome.shape[:2] or outcome.size == 0:
            raise ModelError(f"prob {prob.shape} = [S, K] and outcome {outcome.shape} = [S, K, A] do not match.")
        for name, array in (("prob", prob), ("outcome", outcome)):
            arrays.frozen(array)
            object.__setattr__(self, name, array)

    def __repr__(self) -> str:
        S, K, A = self.outcome.shape  # type: ignore[union-attr]
        return f"JointTable({S} states, {K} scenarios, {A} actions)"


def couple(marginals: Marginals, by: OutcomeCoupling) -> TabularJMDP:
    """Scenario table in which each action has the given distribution, and all together those of the rule `by`.

    The table records the rule in `coupled_by`. States with fewer scenarios than others have some of probability 0.

    Parameters
    ----------
    marginals
        An ordinary MDP.
    by
        `CommonUniform`, `Product`, `Maximal` or `JointTable`.
    """
    instance("marginals", marginals, Marginals, ModelError)
    N = marginals.prob.size
    arrays.refuse_large(f"The coupling of {N} outcomes", _BYTES * N)
    prob, reward, next_state, error = _scenarios(marginals, by)
    if error > _LARGEST_ERROR:
        raise ModelError(
            f"There are probabilities as small as {marginals.prob.min():.3g}. Below 1e-308 float64 has fewer digits, "
            f"too few for {by!r} here. Leave out outcomes below 1e-290: give them the probability 0."
        )
    names = marginals.states.names, marginals.actions.names
    model = TabularJMDP(prob, reward, next_state, marginals.discount, marginals.terminal, *names)
    labels = {"states": marginals.states, "actions": marginals.actions}
    return changed(model, **labels, prob_error=error, coupled_by=repr(by))


def _scenarios(marginals: Marginals, by: OutcomeCoupling) -> Scenarios:
    if isinstance(by, CommonUniform):
        lists = by_reward(marginals) if by.order == "reward" else as_given(marginals)
        if by.across_states:
            return common_scenarios(by_rows(lists, common=True))
        return uniform_scenarios(by_rows(lists))
    if isinstance(by, Maximal):
        return uniform_scenarios(common_first(as_given(marginals)))
    if isinstance(by, Product):
        return product_scenarios(by_reward(marginals))
    if isinstance(by, JointTable):
        return table_scenarios(marginals, by.prob, by.outcome)  # type: ignore[arg-type]
    raise SettingsError(f"by is {short(by)}. Use CommonUniform(), Product(), Maximal() or JointTable(prob, outcome).")
