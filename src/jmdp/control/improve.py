"""`improve`: the policy that gains most over an incumbent, within a limit on how much or how often it is worse.

`ShadowPolicy`: a policy that acts on the step, the state, the incumbent's shadow and the gap so far.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jmdp.base.interval import Estimate
from jmdp.base.labels import Label, PolicyLike, StartsLike
from jmdp.base.machine import interruptible
from jmdp.base.rounding import share_of_cases
from jmdp.base.settings import choice, number, short, whole_number
from jmdp.control import shadow_kernel as kernel
from jmdp.control.frontier import Answered, statistics_row
from jmdp.control.search import OPTIMUM, Search
from jmdp.control.shadow import Problem, ShadowActions, Statistics
from jmdp.errors import PolicyError, SettingsError
from jmdp.models.coupling import Coupling
from jmdp.results.text import shown

if TYPE_CHECKING:
    from jmdp.models.tabular import TabularJMDP


@dataclass(frozen=True, eq=False, repr=False)
class Improvement(Answered):
    """A policy within a limit, certified against the incumbent, beside the policy with the largest gain."""

    _index: ClassVar = ("policy",)

    policy: ShadowPolicy
    statistics: Statistics
    optimum: Statistics  # of the policy with the largest gain
    limit: str
    coin: Estimate | None  # gain with one coin before the first step; no policy has more than its upper end

    @property
    def answer(self) -> str:
        """What the policy gains and risks, and what a coin would add."""
        own, best = self.statistics, self.optimum
        if own.gain.high <= 0 or float(own.gain) <= 0:
            return f"No policy was found that gains anything over the incumbent with {self.limit}."
        said = (
            f"The policy gains {shown(own.gain)} over the incumbent, {float(own.gain) / float(best.gain):.0%} of the "
            f"largest gain. It falls short of it by {shown(own.shortfall)} on average, and is worse in "
            f"{share_of_cases(own.chance)} (limit: {self.limit})."
        )
        if self.coin is not None and float(self.coin) > float(own.gain) * (1 + 1e-6):
            said += f" A coin before the first step would add {float(self.coin) - float(own.gain):.3g}."
        return said

    def rows(self) -> list[dict[str, Any]]:
        """The incumbent, the policy, and the one with the largest gain."""
        named = {"incumbent": None, "improved": self.statistics, OPTIMUM: self.optimum}
        return [statistics_row(name, one) for name, one in named.items()]


@interruptible
def improve(
    model: TabularJMDP,
    incumbent: PolicyLike,
    coupling: Coupling | None = None,
    *,
    horizon: int,
    terminal_value: Any = None,
    discount: float | None = None,
    starts: StartsLike,
    max_shortfall: float | None = None,
    max_chance: float | None = None,
    observed: str = "state",
    tie_tolerance: float | None = None,
) -> Improvement:
    """Find the single policy that gains most over an incumbent within a limit on doing worse than it.

    Parameters
    ----------
    model, incumbent, coupling, horizon, terminal_value, discount, starts, tie_tolerance
        As in `frontier`.
    max_shortfall
        Largest mean shortfall E[max(0, −G)], G the gap to the incumbent under the same scenarios. The policy is the
        best corner of the frontier within the limit.
    max_chance
        Largest probability P(G < 0). A limit on it alone rewards gambles, so chance and shortfall are weighed together,
        and only policies count whose shortfall and worst 5% are no worse than those of the policy with the largest
        gain.
    observed
        What the policy sees after each step: "state", its own next state; "state and reward"; or "scenario". It must
        say where the incumbent would be; otherwise a `PolicyError` names a state, shadow and action for which it does
        not.

    Returns
    -------
    Improvement
        Its `policy` acts on the step, the state, the shadow and the gap so far.
    """
    if (max_shortfall is None) == (max_chance is None):
        raise SettingsError("Give one of max_shortfall= and max_chance=.")
    problem = Problem(
        model, incumbent, horizon=horizon, terminal_value=terminal_value, discount=discount, starts=starts,
        tie_tolerance=tie_tolerance, coupling=coupling,
    )  # fmt: skip
    seen = check_observed(problem, observed)
    search = Search(problem)
    coin = None
    if max_shortfall is not None:
        limit = number("max_shortfall", max_shortfall, 0)
        found, coin = search.within_shortfall(limit)
        said = f"a shortfall of at most {limit:.4g}"
    else:
        limit = number("max_chance", max_chance, 0, 1)
        found = search.within_chance(limit)
        said = f"a chance of being worse of at most {limit:.4g}"
    policy = ShadowPolicy(problem, found.actions, seen)
    return Improvement(policy, found.point.statistics, search.best.point.statistics, said, coin)


OBSERVED = ("state", "state and reward", "scenario")
"""What a policy sees after a step: its own next state; its reward too; or the scenario."""


class ShadowPolicy:
    """A policy beside the shadow of an incumbent: the state that the incumbent would be in under the same scenarios.

    `act` gives its action. It is also a policy with memory, as `compare_policies` and `review` take it: an episode
    begins with ``reset()``, the policy is called with each observation, and `seen` is called after each step.
    """

    def __init__(self, problem: Problem, actions: ShadowActions, observed: str) -> None:
        self._problem, self._actions, self.observed = problem, actions, observed
        self._state_of: Any = None
        self.reset()

    def act(self, step: int, state: Label, shadow: Label, gap: float) -> Label:
        """The action in this step (from 0), with the shadow in this state and this discounted gap so far."""
        problem = self._problem
        h = whole_number("step", step, 0, problem.steps - 1)
        s, t = problem.model.states.index(state), problem.model.states.index(shadow)
        cells = number("gap", gap) / problem.cell
        near = round(cells)
        if not abs(cells - near) * problem.cell <= max(problem.tie_tolerance, abs(gap) * 1e-12):
            near = int(np.floor(cells))
        return problem.model.actions.label(self._actions.at(h, s, t, near))

    def reading(self, state_of: Any) -> ShadowPolicy:
        """The same policy for a simulator whose observations are not states of the table.

        `state_of` returns the label of the state for an observation.
        """
        if not callable(state_of):
            raise PolicyError(f"state_of is {short(state_of)}. Give a function from an observation to a state's label.")
        found = ShadowPolicy(self._problem, self._actions, self.observed)
        found._state_of = state_of
        return found

    def reset(self) -> None:
        """Begin an episode."""
        self._step, self._tracked = 0, 0
        self._own: int | None = None
        self._shadow = -1
        self._pending: tuple[int, float, int | None] | None = None

    def __call__(self, observation: Any) -> Label:
        """The action for the observation that follows the last step."""
        model = self._problem.model
        s = model.states.index(observation if self._state_of is None else self._state_of(observation))
        if self._own is None:
            self._shadow = s
        else:
            self._follow(s)
        if self._step >= self._problem.steps:
            raise PolicyError(f"The policy is for {self._problem.steps} steps. Give horizon={self._problem.steps}.")
        self._own, self._pending = s, None
        return model.actions.label(self._actions.at(self._step, s, self._shadow, self._tracked))

    def seen(self, action: Any, reward: float, scenario: int | None) -> None:
        """Note the last step: the action taken, its reward, and the scenario if the simulator reports it."""
        if self._own is None:
            raise PolicyError("seen() was called before the first observation.")
        if self.observed == "scenario" and scenario is None:
            raise PolicyError(
                'The policy was made with observed="scenario", but this simulator does not report scenarios. Use '
                'a table or the simulator of a world, or improve(…, observed="state and reward").'
            )
        self._pending = self._problem.model.actions.index(action), number("reward", reward), scenario

    def _follow(self, after: int) -> None:
        """Move the shadow and the gap by the step that led to this state."""
        if self._pending is None:
            raise PolicyError("The policy was called again without seen(action, reward, scenario) after the last step.")
        action, reward, scenario = self._pending
        problem, s, t = self._problem, self._own, self._shadow
        k = self._scenario(after, action, reward, scenario)
        b, h = int(problem.incumbent[self._step, t]), self._step
        self._tracked += problem.increment(h, int(s or 0), t, k, action)
        self._shadow = int(problem.next_state[t, k, b])
        self._step += 1

    def _scenario(self, after: int, action: int, reward: float, scenario: int | None) -> int:
        """A scenario that explains what was seen; all that do move the shadow equally."""
        problem, s = self._problem, self._own
        possible = problem.next_state[s, :, action] == after
        if self.observed == "scenario":
            possible &= problem.scenarios == scenario
        elif self.observed == "state and reward":
            off = np.abs(problem.reward[s, :, action] - reward)
            possible &= off <= problem.near
        if not possible.any():
            model = problem.model
            raise PolicyError(
                f"No scenario of the table leads from state {model.states.name(int(s or 0))} with action "
                f"{model.actions.name(action)} to state {model.states.name(after)} with what was seen. The simulator "
                "and the table differ."
            )
        return int(possible.argmax())

    def __deepcopy__(self, memo: Any) -> ShadowPolicy:
        return copy.copy(self)  # an episode replaces its attributes and changes none

    def __repr__(self) -> str:
        return f"ShadowPolicy({self._problem.steps} steps, observed={self.observed!r})"


def check_observed(problem: Problem, observed: Any) -> str:
    """Raise unless what is seen determines how the shadow and the gap move, for all reachable pairs and actions."""
    asked = choice("observed", observed, OBSERVED)
    if asked == "scenario":
        return asked
    model = problem.model
    for h in range(problem.steps):
        step = (*problem.pairs[h], problem.incumbent[h], 1.0, 0)
        limit = problem.near if asked == "state and reward" else np.inf
        i, a = kernel.undetermined(problem.kernel_model(problem.units), step, problem.reward, limit)
        if i >= 0:
            s, t = (int(x[i]) for x in problem.pairs[h])
            raise PolicyError(
                f'observed="{asked}" does not say where the shadow goes: in state {model.states.name(s)}, with the '
                f"shadow in state {model.states.name(t)} and action {model.actions.name(a)}, scenarios that look the "
                "same to the new policy differ in the shadow's next state or in the gap. Give "
                + ('observed="state and reward", or ' if asked == "state" else "")
                + 'observed="scenario" if the scenario (the demand, the weather) is observed after each step.'
            )
    return asked
