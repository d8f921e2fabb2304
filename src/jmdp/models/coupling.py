"""Couplings: how luck is shared among branches that live through the same time step.

A coupling answers two questions of scenario luck. Do two branches in the *same* state meet the same scenario? And
two branches in *different* states? A second dial, `policy_luck`, asks the same of the policy's own randomness.

=================  ============  =================  =========================================
coupling             same state    different states   the paper's name
=================  ============  =================  =========================================
`Local()`          shared        independent        one-step coupling; the default
`Synchronous()`    shared        shared             Assumption 4.5 read literally
`Independent()`    independent   independent        independent marginals, the baseline
=================  ============  =================  =========================================

All couplings agree on the mean and on the distribution of each single return.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from jmdp.base.luck import Shock
from jmdp.errors import CouplingError
from jmdp.models.tabular import TabularJMDP

_USE = "Use Local(), Synchronous() or Independent()."

PolicyLuck = Literal["independent", "shared"]


@dataclass(frozen=True)
class Coupling:
    """How luck is shared: `Local`, `Synchronous` or `Independent`.

    These three are all there are. Methods on tables rest on their definitions and would ignore what a subclass
    overrides, so a subclass is refused where it is defined.

    Parameters
    ----------
    policy_luck
        "independent": branches on distinct (state, action) pairs draw their next actions independently, as in the
        paper. "shared": one uniform number per time step, inverted through π(· | state) by every branch, so that
        branches in one state take one action.
    """

    policy_luck: PolicyLuck = "independent"

    shared_in_a_state: ClassVar[bool]
    shared_between_states: ClassVar[bool]

    def __init_subclass__(cls) -> None:
        if cls.__module__ != __name__:
            raise CouplingError(
                f"{cls.__name__} is a subclass of {cls.__mro__[1].__name__}. Couplings are a closed set: methods on "
                f"tables would ignore what {cls.__name__} overrides. {_USE}"
            )

    def __post_init__(self) -> None:
        if type(self) is Coupling:
            raise CouplingError(f"Coupling() does not say which luck is shared. {_USE}")
        if self.policy_luck not in ("independent", "shared"):
            raise CouplingError(f"policy_luck is {self.policy_luck!r}. It is 'independent' or 'shared'.")

    def check_fits(self, model: TabularJMDP) -> None:
        """Raise unless the coupling makes sense for this model."""

    def environment_shock(self, root: Shock, step: int, state: bytes, branch: int) -> Shock:
        """What a branch of a simulation that stands in the state with this digest meets in this step.

        Local H(root, t, state), Synchronous H(root, t), Independent H(root, t, branch): equal keys are equal luck, so
        branches that have met need no further care.
        """
        return root.derived(b"environment", step, self._place(state, branch))

    def policy_shock(self, root: Shock, step: int, state: bytes, action: bytes, branch: int) -> Shock:
        """The policy's own luck after this action in this state: H(root, t, state, action), or H(root, t) if shared."""
        if self.policy_luck == "shared":
            return root.derived(b"policy", step)
        place = state + action if self.shared_in_a_state else branch.to_bytes(8, "little")
        return root.derived(b"policy", step, place)

    def _place(self, state: bytes, branch: int) -> bytes:
        if self.shared_between_states:
            return b""
        return state if self.shared_in_a_state else branch.to_bytes(8, "little")


class Local(Coupling):
    """One scenario draw per state and time step, independent between states: the paper's one-step coupling.

    Branches that meet in a state share its draw. Once two branches stand on the same state and action they have
    coalesced and stay equal for ever. `policy_luck` as in `Coupling`.
    """

    shared_in_a_state = True
    shared_between_states = False


class Synchronous(Coupling):
    """One scenario draw per time step, used in every state: common random numbers as simulation people mean it.

    Scenario k must mean the same luck everywhere (today's demand, today's weather), so ``prob[s]`` must be one row for
    all states that go on. `policy_luck` as in `Coupling`.
    """

    shared_in_a_state = True
    shared_between_states = True

    def check_fits(self, model: TabularJMDP) -> None:
        """Raise unless every state that goes on has the same scenario probabilities."""
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
    """Every branch has its own draws and nothing of the environment is ever shared: the baseline.

    With independent `policy_luck` the returns of distinct (state, action) pairs have covariance 0. Branches that meet
    do not coalesce.
    """

    shared_in_a_state = False
    shared_between_states = False
