"""Checks before and after sampling: the simulator has no fault, and samples are equal when drawn again.

Every sampled result relies on this: a rollout is a function of the seed, its number and its first action, whatever else
is simulated before or beside it. Simulators and policies with a memory of earlier calls violate this.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jmdp.base.luck import Shock
from jmdp.errors import PolicyError, SimulatorError
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.simulators.batched_states import has_many_steps
from jmdp.simulators.checking.draw_log import DrawLog, logged, out_of_step, swapped
from jmdp.simulators.checking.quick_check import quick_check
from jmdp.simulators.checking.shared_draws import STREAMS
from jmdp.simulators.digests import digest_of
from jmdp.simulators.draws import Draws
from jmdp.simulators.episodes import EpisodeDraws, EpisodePlan, paired_episodes
from jmdp.simulators.functions import TabularSimulator
from jmdp.simulators.rollouts import RolloutPlan, paired_draws
from jmdp.simulators.simulator import Simulator

_OR_MANY = "; or step_many and step differ in a state that was not checked"

_ASKED_AGAIN = 128
"""Number of observations on which a policy is called again."""

_STEPS, _DRAWS = 50, 500
"""Steps of an episode, and draws of a step, that are logged."""

_SLOW_STEPS = 8
"""Steps of which it is also found out whether they could draw differently, because of the arguments of the draws."""


def check_before_sampling(simulator: Simulator, state: Any, actions: Sequence[Any], coupling: Coupling) -> bool:
    """Raise `SimulatorError` if a few dozen steps show a fault; return whether steps use their randomness.

    Tables and simulators with `check` False are not checked; the result is True for both.
    """
    if isinstance(simulator, TabularSimulator) or not simulator.check:
        return True
    return quick_check(
        simulator,
        state,
        list(actions),
        shared_in_a_state=coupling.shared_in_a_state,
        shared_between_states=coupling.shared_between_states,
    )


def check_repeatable(
    drawn: Draws, simulator: Simulator, actor: Actor, plan: RolloutPlan, *, late: bool = False
) -> None:
    """Draw the first and the last of these samples again, each alone, and raise unless they are equal.

    Unless it is late, the policy is then called again on the same observations, in other orders. Compiled programs
    have no memory and are not checked.
    """
    arrays = has_many_steps(simulator)  # single samples are simulated step by step
    if not simulator.check or (not arrays and simulator.compiled_draws(actor, plan) is not None):
        return
    recorder = _RecordingActor(actor)
    samples = sorted({0, len(drawn.returns) - 1}, reverse=True)
    again = {sample: paired_draws(simulator, recorder, plan, sample, 1) for sample in samples}
    if not late:
        recorder.ask_again()
    for sample, single in again.items():
        wrong = np.flatnonzero((single.returns[0] != drawn.returns[sample]) | (single.gains[0] != drawn.gains[sample]))
        if wrong.size:
            a = int(wrong[0])
            raise SimulatorError(
                f"{simulator!r} is not reproducible: candidate {a} of sample {sample} returned "
                f"{float(drawn.returns[sample, a])!r}, but {float(single.returns[0, a])!r} when simulated again. In a "
                "state that the quick check did not reach, a step depends on more than state, action and shock; or the "
                f"policy has a memory{_OR_MANY * has_many_steps(simulator)}. Find the cause with "
                "jmdp.testing.check_simulator(simulator, steps=500)."
            )


def check_episodes(drawn: EpisodeDraws, simulator: Simulator, plan: EpisodePlan, *, late: bool) -> None:
    """Run the first and the last of these samples again, each alone, and raise unless they are equal.

    Unless it is late, warn if policies draw different numbers in a step. Compiled programs are not checked.
    """
    if not has_many_steps(simulator) and simulator.compiled_episodes(plan) is not None:
        return
    if not late:
        plan = LoggedPlan(**vars(plan))
    for sample in sorted({0, len(drawn.returns) - 1}, reverse=True):
        again = paired_episodes(simulator, plan, sample, 1)
        wrong = np.flatnonzero((again.returns[0] != drawn.returns[sample]) | (again.gains[0] != drawn.gains[sample]))
        if wrong.size:
            i = int(wrong[0])
            raise SimulatorError(
                f"{simulator!r} is not reproducible: policy {i} ({plan.actors[i]!r}) returned "
                f"{float(drawn.returns[sample, i])!r} in sample {sample}, but {float(again.returns[0, i])!r} when run "
                "again from the same seed. Possible causes: it draws from a generator that is not set to the key of "
                "the step (draw from the shock; in a FunctionSimulator from the argument of luck; in a Gymnasium "
                "environment from self.np_random, or use GymnasiumSimulator(env, global_generators=True) for the "
                "global ones); it or a wrapper keeps data from earlier episodes, such as running means (make the "
                "environment without it); or the policy has a memory without a "
                f"reset() method{_OR_MANY * has_many_steps(simulator)}."
            )
    if isinstance(plan, LoggedPlan):
        plan.warn_if_out_of_step()


@dataclass(frozen=True, kw_only=True, eq=False)
class LoggedPlan(EpisodePlan):
    """A plan that logs what the first steps of its episodes draw. The samples are the same as without a log."""

    logs: dict[tuple[int, bytes], list[tuple[int, DrawLog]]] = field(default_factory=dict)  # by step and shock

    def step_shock(self, root: Shock, t: int, digest: bytes, branch: int) -> Shock:
        """Shock that a branch receives in step t."""
        shock = super().step_shock(root, t, digest, branch)
        if t >= _STEPS:
            return shock
        log = DrawLog(_DRAWS)
        self.logs.setdefault((t, shock.words), []).append((branch, log))
        return logged(shock, log)

    def warn_if_out_of_step(self) -> None:
        """Warn of the first step in which policies that share its shock draw different numbers for one purpose."""
        for (t, _), logs in sorted(self.logs.items()):
            (first, mine), *others = logs
            for branch, theirs in others:
                spot = out_of_step(mine, theirs, could=t < _SLOW_STEPS) or swapped(mine, theirs)
                if spot is not None:
                    warnings.warn(
                        f"Policies {self.actors[first]!r} and {self.actors[branch]!r} do not share all random numbers: "
                        f"in step {t} their actions or states use different amounts of the shock's numbers, or in "
                        f"another order, before {spot}, so this draw differs between them. Intervals are valid, but "
                        "wider than they need to be. Make the same draws in the same order in every step, before the "
                        f"action is used, or {STREAMS}.",
                        stacklevel=2,
                    )
                    return


def policy_draws(simulator: Simulator, state: Any, action: Any, actor: Actor) -> bool:
    """True if the policy takes different actions under different shocks, in a few states after this action."""
    root = Shock.of_sample(0, 0)
    for t in range(8):
        _, state, terminated = simulator.step(state, action, root.derived(b"environment", t))
        if terminated:
            break
        shocks = [root.derived(b"policy", t, bytes([k])) for k in range(8)]
        actions = actor.act([simulator.observe(state)] * len(shocks), shocks)
        if len({digest_of(taken) for taken in actions}) > 1:
            return True
        action = actions[0]
    return False


class _RecordingActor(Actor):
    """A policy that records its calls."""

    def __init__(self, actor: Actor) -> None:
        self._actor, self.needs_luck = actor, actor.needs_luck
        self._asked: list[tuple[Any, Shock, Any]] = []

    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        actions = self._actor.act(observations, shocks)
        left = _ASKED_AGAIN - len(self._asked)
        if left > 0:  # copies, because some environments overwrite observations
            seen = copy.deepcopy(list(observations[:left]))
            self._asked += zip(seen, shocks[:left], actions[:left], strict=True)
        return actions

    def ask_again(self) -> None:
        """Raise `PolicyError` unless actions are the same in other orders, one observation at a time."""
        mixed = np.random.Generator(np.random.Philox(key=0)).permutation(len(self._asked))
        for observation, shock, action in (*reversed(self._asked), *(self._asked[i] for i in mixed)):
            (found,) = self._actor.act([observation], [shock])
            if digest_of(found) != digest_of(action):
                raise PolicyError(
                    f"The policy, {self._actor!r}, returned {action!r}, but {found!r} for the same observation after "
                    "other calls. It has a memory, or draws from a generator of its own. Many rollouts call one policy "
                    "in turn, so actions must depend on the observation alone, or for f(obs, rng) on both arguments. "
                    "Put the memory into the observation, e.g. with gymnasium.wrappers.FrameStackObservation, or into "
                    "the simulator's state."
                )
