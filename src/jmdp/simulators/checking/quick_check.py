"""Quick check of a simulator before sampling: a few dozen steps must be pure, and draw the same for all actions.

`jmdp.testing.check_simulator` is thorough and visits many states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jmdp.errors import SimulatorError
from jmdp.simulators.checking.many_steps import many_steps_fault
from jmdp.simulators.checking.probe import GLOBALS, Finding, SavedGenerator
from jmdp.simulators.checking.shared_draws import AMONG_ACTIONS, AMONG_STATES
from jmdp.simulators.checking.visits import Visits
from jmdp.simulators.simulator import Simulator

_QUICK_ACTIONS = 6
_QUICK_STATES = 4
"""Numbers tried by `quick_check`; in states beyond the first, three actions."""


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
