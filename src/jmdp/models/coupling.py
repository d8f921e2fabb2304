"""Couplings: which randomness (luck) branches share in a time step.

A coupling defines whether two branches receive the same scenario if they are in the *same* state, and if they are in
*different* states. The setting `policy_luck` defines the same for the randomness of the policy.

=================  ============  =================  =========================================
coupling           same state    different states   the paper's name
=================  ============  =================  =========================================
`Local()`          shared        independent        one-step coupling
`Synchronous()`    shared        shared             Assumption 4.5 read literally
`Independent()`    independent   independent        independent marginals, the baseline
=================  ============  =================  =========================================

All couplings give the same mean and distribution of each single return.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from jmdp.base.luck import STEP, Shock
from jmdp.base.settings import choice
from jmdp.errors import CouplingError
from jmdp.models.tabular import TabularJMDP, check_model

_USE = "Use Local(), Synchronous() or Independent()."

PolicyLuck = Literal["independent", "shared"]


@dataclass(frozen=True)
class Coupling:
    """Which randomness branches share: `Local`, `Synchronous` or `Independent`.

    There are no other couplings. Methods on tables depend on these definitions and would ignore overridden methods, so
    defining a subclass raises an error.

    Parameters
    ----------
    policy_luck
        "independent": branches on distinct (state, action) pairs draw their next actions independently, as in the
        paper. "shared": all branches invert the same uniform number per time step through π(· | state), so that
        branches in the same state take the same action.
    """

    policy_luck: PolicyLuck = "independent"

    shared_in_a_state: ClassVar[bool]
    shared_between_states: ClassVar[bool]

    def __init_subclass__(cls) -> None:
        if cls.__module__ != __name__:
            raise CouplingError(
                f"{cls.__name__} is a subclass of {cls.__mro__[1].__name__}. Couplings cannot be extended: methods "
                f"on tables would ignore the methods that {cls.__name__} overrides. {_USE}"
            )

    def __post_init__(self) -> None:
        if type(self) is Coupling:
            raise CouplingError(f"Coupling() is abstract. {_USE}")
        luck = choice("policy_luck", self.policy_luck, ("independent", "shared"), CouplingError)
        object.__setattr__(self, "policy_luck", luck)

    def check_fits(self, model: TabularJMDP) -> None:
        """Raise unless the coupling is possible in this model."""
        check_model(model)

    def environment_shock(self, root: Shock, step: int, state: bytes, branch: int) -> Shock:
        """Shock of the environment in one step.

        Local H(root, t, state), Synchronous H(root, t), Independent H(root, t, i), with the number i of the branch.
        `state` must be equal for branches of a sample in equal states, and for no others: a digest of the state, or the
        smallest number of the branches in it, which needs no digest.
        """
        if self.shared_between_states:
            return root.derived(STEP, step)
        return root.derived(STEP, step, state if self.shared_in_a_state else branch.to_bytes(8, "little"))

    def policy_shock(self, root: Shock, step: int, coordinate: bytes, branch: int) -> Shock:
        """Shock of the policy after a step from a coordinate x = (state, action).

        H(root, t, x), or H(root, t) if shared. `coordinate` must be equal for branches of a sample at equal
        coordinates, and for no others, like `state` above.
        """
        if self.policy_luck == "shared":
            return root.derived(b"policy", step)
        place = coordinate if self.shared_in_a_state else branch.to_bytes(8, "little")
        return root.derived(b"policy", step, place)


class Local(Coupling):
    """One scenario draw per state and time step, independent between states: the paper's one-step coupling (Section 4).

    In two different states it gives Eq. (17), in one state Eq. (18). Branches in the same state share its draw. Two
    branches with the same state and action have merged and stay equal. `policy_luck` as in `Coupling`.
    """

    shared_in_a_state = True
    shared_between_states = False


class Synchronous(Coupling):
    """One scenario draw per time step for all states: common random numbers, as the term is used in simulation.

    Paper: Assumption 4.5 read literally, where Eq. (8) has one U_t for every state.

    Scenario k must be the same event in all states (today's demand, today's weather), so ``prob[s]`` must be equal for
    all non-terminal states. `policy_luck` as in `Coupling`.
    """

    shared_in_a_state = True
    shared_between_states = True

    def check_fits(self, model: TabularJMDP) -> None:
        """Raise unless all non-terminal states have the same scenario probabilities."""
        check_model(model)
        nonterminal = np.flatnonzero(~model.terminal)
        if nonterminal.size == 0:
            return
        difference = np.abs(model.prob[nonterminal] - model.prob[nonterminal[0]]).max(axis=1)
        worst = int(difference.argmax())
        if difference[worst] > 0:
            one, other = model.states.name(int(nonterminal[0])), model.states.name(int(nonterminal[worst]))
            raise CouplingError(
                f"Synchronous() shares one scenario between states, but prob of state {one} and of state {other} "
                f"differ by {difference[worst]:.3g}. Use Local(), or rebuild the model with common probabilities."
            )


class Independent(Coupling):
    """Independent scenario draws for every branch: the baseline, the "independent marginals" of Section C.

    With policy_luck="independent" the returns of distinct (state, action) pairs have covariance 0. Branches never
    merge.
    """

    shared_in_a_state = False
    shared_between_states = False
