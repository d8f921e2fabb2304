"""Checks of simulators: steps are pure, and draw the same randomness from the shock for every action and state.

`check_simulator` is thorough and visits many states. `quick_check` costs a few dozen steps and runs before sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jmdp.base.interrupts import interruptible
from jmdp.base.settings import refuse_unreadable, whole_number
from jmdp.errors import SimulatorError
from jmdp.simulators.candidates import all_actions, listed_actions
from jmdp.simulators.checking.many_steps import many_steps_fault
from jmdp.simulators.checking.probe import GLOBALS, Finding, Findings, SavedGenerator
from jmdp.simulators.checking.shared_draws import AMONG_ACTIONS, AMONG_STATES
from jmdp.simulators.checking.visits import Visits
from jmdp.simulators.objects.advice import not_a_simulator
from jmdp.simulators.simulator import Simulator

_MOST_ACTIONS = 8
"""Maximum number of actions tried in one state."""

_STEPS_A_VISIT = 8
"""Further steps per visited state, of which only the draws are compared."""

_QUICK_ACTIONS = 6
_QUICK_STATES = 4
"""Numbers tried by `quick_check`; in states beyond the first, three actions."""


@interruptible
def check_simulator(
    simulator: Simulator, state: Any = None, *, actions: Sequence[Any] | None = None, seed: int = 0, steps: int = 50
) -> Findings:
    """Search for faults that make comparisons under shared randomness wrong, along rollouts of random actions.

    Findings with `fault` make results wrong; the others may be intended. An empty list means that no problem was found
    in the states that were reached. `explored` gives their number, and is part of the printed result. Global generators
    are restored after each call.

    Parameters
    ----------
    simulator
        Any simulator.
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
    if not isinstance(simulator, Simulator):
        refuse_unreadable("simulator", simulator, SimulatorError)
        raise not_a_simulator(simulator)
    steps = whole_number("steps", steps, 1)
    if actions is None:
        if simulator.actions is None:
            raise SimulatorError(f"{type(simulator).__name__} has no finite list of actions. Give some: actions=[…].")
        actions = all_actions(simulator.actions)
    actions, seed = listed_actions(actions), whole_number("seed", seed, 0)
    check = Visits(simulator, actions, seed)
    starts = check.starts(state)
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


def quick_check(
    simulator: Simulator,
    state: Any,
    actions: Sequence[Any],
    *,
    shared_in_a_state: bool = True,
    shared_between_states: bool = False,
) -> bool:
    """Raise `SimulatorError` if a few steps from one state show a fault that matters under this coupling.

    Return whether any step used its shock. States and generators are the same as before the call.
    """
    trace = getattr(simulator, "trace", None)  # of a function compiled by JAX, which is pure except while it is traced
    if trace is not None and not _check_trace(simulator, trace, state):
        return True
    check = Visits(simulator, actions[:_QUICK_ACTIONS], seed=0)
    order = list(range(len(check.actions)))
    outcomes = check.visit(state, order, thorough=False)
    if shared_between_states and not check.findings():
        _visit_more_states(check, [outcome.state for outcome in outcomes.values() if not outcome.ended])
    harmless = (*(() if shared_in_a_state else AMONG_ACTIONS), *(() if shared_between_states else AMONG_STATES))
    _refuse(simulator, [finding for finding in check.findings() if finding.kind not in harmless])
    fault = many_steps_fault(simulator, state, check.actions)
    _refuse(simulator, [Finding("step_many differs", f"{fault}.", True)] if fault else [])
    return check.asked or check.varied


def _visit_more_states(check: Visits, unfinished: list[Any]) -> None:
    """Compare draws in the first and last of these states, and in some that follow."""
    unfinished = [*unfinished[:1], *unfinished[1:][-1:]]
    for k in range(_QUICK_STATES - 1):
        if not unfinished:
            return
        here, shock = unfinished.pop(0), check.root.derived(b"quick", k)
        for i in range(len(check.actions))[:3]:
            log = check.logged(here, i, shock)
            check.compare_states(here, i, shock, log)
        if not log.step[2]:
            unfinished.append(log.step[1])


def _check_trace(simulator: Simulator, trace: Any, state: Any) -> bool:
    """Raise if a step draws while JAX traces it, because draws become constants. Return whether steps call Python."""
    before = {name: SavedGenerator.of(generator) for name, generator in GLOBALS.items()}
    programs = [trace(state) for _ in range(2)]
    moved = [name for name, generator in GLOBALS.items() if SavedGenerator.of(generator) != before[name]]
    for name in moved:
        before[name].put_back(GLOBALS[name])
    if moved or programs[0] != programs[1]:
        source = f"the global {' and '.join(moved)}" if moved else "something besides its arguments"
        what = f"step uses {source} while JAX traces it. The number drawn becomes a constant of the compiled program"
        _refuse(simulator, [Finding("global generator", f"{what}. Draw from the key: jax.random.normal(key).", True)])
    return "callback" in programs[0]


def _refuse(simulator: Simulator, findings: list[Finding]) -> None:
    faults = [str(finding) for finding in findings if finding.fault]
    if faults:
        raise SimulatorError(f"{simulator!r} cannot be used to compare actions.\n- " + "\n- ".join(faults))
