"""`check_simulator`: thorough check of a simulator along rollouts of random actions.

Steps must be pure, and draw the same randomness from the shock for every action and state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jmdp.base.labels import SimulatorLike
from jmdp.base.machine import interruptible
from jmdp.base.settings import whole_number
from jmdp.errors import SimulatorError
from jmdp.simulators import as_simulator
from jmdp.simulators.adapters.functions import table_state
from jmdp.simulators.checking.probe import Finding, Findings
from jmdp.simulators.checking.visits import Visits, many_steps_fault
from jmdp.simulators.simulator import all_actions, listed_actions

_MOST_ACTIONS = 8
"""Maximum number of actions tried in one state."""

_STEPS_A_VISIT = 8
"""Further steps per visited state, of which only the draws are compared."""


@interruptible
def check_simulator(
    simulator: SimulatorLike, state: Any = None, *, actions: Sequence[Any] | None = None, seed: int = 0, steps: int = 50
) -> Findings:
    """Search for faults that make comparisons under shared randomness wrong, along rollouts of random actions.

    Findings with `fault` make results wrong; the others may be intended. An empty list means that no problem was found
    in the states that were reached. `explored` gives their number, and is part of the printed result. Global generators
    are restored after each call.

    Parameters
    ----------
    simulator
        What `jmdp.compare` takes: a Gymnasium or gymnax environment, a table, or any `Simulator`.
    state
        Start state of the rollouts. None calls the simulator's `start`.
    actions
        Actions to try, by index or name; required without a finite list of actions. None tries all of them. At most
        eight are tried in one state.
    seed
        Random seed of all actions and shocks.
    steps
        Number of states to visit. Each costs about four steps per action tried. If they show no fault, eight times as
        many steps follow in longer rollouts, to find rare states that draw differently.
    """
    simulator = as_simulator(simulator)
    steps = whole_number("steps", steps, 1)
    labels = simulator.actions
    if actions is None:
        if labels is None:
            raise SimulatorError(
                f"{type(simulator).__name__} has no finite list of actions. Give the ones to try: "
                "check_simulator(simulator, actions=[…]), with values that its step accepts."
            )
        tried: list[Any] = list(all_actions(labels))
    else:
        tried = [action if labels is None else labels.index(action) for action in listed_actions(actions)]
    check = Visits(simulator, tried, whole_number("seed", seed, 0))
    starts = check.starts(None if state is None else table_state(simulator, state))
    walk = check.root.derived(b"walk").generator()
    length, episode, here = max(5, steps // 5), 0, None
    for i in range(steps):
        if here is None or i % length == 0:
            here = starts[episode % len(starts)]
            episode += 1
        order = walk.permutation(len(check.actions))[:_MOST_ACTIONS].tolist()
        outcomes = check.visit(here, order, thorough=True).values()
        unfinished = [outcome.state for outcome in outcomes if not outcome.ended]
        here = unfinished[walk.integers(len(unfinished))] if unfinished else None
    reached = set(check.visited)
    if not any(finding.fault for finding in check.findings()):
        length = max(length, 25)
        more = max(1, _STEPS_A_VISIT * steps // length)
        _explore(check, starts, more, length, reached)
        check.compare_starts()
        check.compare_branches()
        episode += more
    fault = many_steps_fault(simulator, starts[0], check.actions[:_MOST_ACTIONS], seed)
    findings = [*([Finding("step_many differs", f"{fault}.", True)] if fault else []), *check.findings()]
    explored = f"explored {len(reached):,} distinct states in {episode} rollouts of up to {length} steps"
    return Findings(findings, f"{explored}; states not reached are not checked")


def _explore(check: Visits, starts: list[Any], rollouts: int, length: int, reached: set[bytes]) -> None:
    """Simulate longer rollouts of one repeated action or of random ones, and visit states that draw differently.

    Only the draws of each step are compared, so the cost is one simulated step per step.
    """
    walk, count = check.root.derived(b"explore").generator(), len(check.actions)
    moved: set[Any] = set()
    for rollout in range(rollouts):
        here = starts[rollout % len(starts)]
        for t in range(length):
            i = int(walk.integers(count)) if rollout % 2 else rollout // 2 % count
            shock = check.root.derived(b"explore", rollout * length + t)
            log = check.logged(here, i, shock)
            stirred = (i, *check.moved())
            if check.is_new(i, log) or (len(stirred) > 1 and stirred not in moved):
                moved.add(stirred)
                check.compare_states(here, i, shock, log)
                order = [i, *(j for j in range(count) if j != i)][:_MOST_ACTIONS]
                check.visit(here, order, thorough=False)
            _, here, terminated = log.step
            if terminated:
                break
            reached.add(check.digest(here))
