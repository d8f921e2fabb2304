"""Checks that steps with one shock draw the same numbers for the same purposes, across actions and across states.

Under `Local` and `Synchronous` branches in one state share a shock, so actions must draw alike. Under `Synchronous`
branches in different states share it too, so states must draw alike. Under `Independent` nothing is shared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from jmdp.base.luck import Shock
from jmdp.simulators.checking.draw_log import DrawLog, draws_of, out_of_step, out_of_step_by_arguments, swapped, uneven
from jmdp.simulators.checking.probe import Probe
from jmdp.simulators.simulator import Simulator

_MOST_PATTERNS = 8
"""Maximum number of patterns per action that are kept for comparison."""

AMONG_ACTIONS = ("out of step", "swapped draws")
"""Kinds of findings that are harmless under `Independent`."""

AMONG_STATES = ("out of step between states", "swapped draws between states")
"""Kinds of findings that matter under `Synchronous` only."""


class DrawProbe(Probe):
    """A probe that compares the draws of steps from their shocks."""

    def __init__(self, simulator: Simulator, actions: Sequence[Any]) -> None:
        super().__init__(simulator, actions)
        self.asked = False  # True once a step used its shock
        self.patterns: defaultdict[int, dict[Any, tuple[Any, DrawLog]]] = defaultdict(dict)  # by action

    def logged(self, state: Any, i: int, shock: Shock) -> DrawLog:
        """Simulate a step and log its draws."""
        log: DrawLog = self.call("step", self.simulator, state, self.actions[i], shock, using=draws_of)
        self.asked = self.asked or log.asked
        return log

    def is_new(self, i: int, log: DrawLog) -> bool:
        """True if the action has not had this pattern yet, and fewer than `_MOST_PATTERNS` others."""
        return log.pattern not in self.patterns[i] and len(self.patterns[i]) < _MOST_PATTERNS

    def compare_draws(self, state: Any, order: Sequence[int], shock: Shock) -> None:
        """Check that each action draws the same numbers for the same purposes, here and in earlier states."""
        logs = {i: self.logged(state, i, shock) for i in order}
        for i, j in combinations(order, 2):
            if not self._draw_differently(
                logs[i], logs[j], AMONG_ACTIONS, "actions", _SAME_FOR_ACTIONS, i, j
            ) and uneven(logs[i], logs[j]):
                what = "actions draw different amounts of random numbers, in code they do not share"
                fix = f"If some draws should be shared: {_SAME_FOR_ACTIONS}"
                self.add("uneven luck", "", what, fix, i, j, fault=False)
        for i in order:
            self.compare_states(state, i, shock, logs[i])

    def compare_states(self, state: Any, i: int, shock: Shock, log: DrawLog) -> None:
        """Check that this action draws here as in earlier states."""
        known = self.patterns[i]
        if log.pattern in known:
            spot = out_of_step_by_arguments(log, known[log.pattern][1])
            if spot is not None:
                self._add_uneven(AMONG_STATES[0], "different states", spot, _SAME_FOR_STATES, i)
        if not self.is_new(i, log):
            return
        for other, _ in list(known.values()):
            theirs = self.logged(other, i, shock)
            self._draw_differently(log, theirs, AMONG_STATES, "different states", _SAME_FOR_STATES, i)
        known[log.pattern] = state, log

    def _add_uneven(self, kind: str, who: str, spot: str, fix: str, *actions: int) -> None:
        what = f"{who} use different amounts of the shock's numbers before {spot}, so this draw differs between them"
        self.add(kind, spot.split(",")[0], what, fix, *actions)

    def _draw_differently(
        self, one: DrawLog, other: DrawLog, kinds: tuple[str, str], who: str, fix: str, *actions: int
    ) -> bool:
        """Record a finding and return True if two steps under one shock draw differently."""
        spot = out_of_step(one, other)
        if spot is not None:
            self._add_uneven(kinds[0], who, spot, fix, *actions)
            return True
        spot = swapped(one, other)
        if spot is not None:
            what = f"{who} make the same draws in a different order: {spot} is not at the same position"
            self.add(kinds[1], "", what, fix, *actions)
        return spot is not None


STREAMS = (
    'use a separate generator for each purpose: shock.derived(b"demand").generator(), or '
    "np.random.default_rng(self.np_random.integers(2**63)) created at the beginning of a step"
)
_SAME_FOR_ACTIONS = (
    f"Make all draws before the action is used, or {STREAMS}. It matters under Synchronous() and Local(), which "
    "give all actions in a state one shock, but not under Independent()."
)
_SAME_FOR_STATES = (
    f"Make the same draws in the same order in every state, or {STREAMS}. It matters under Synchronous(), which gives "
    "all states of a time step one shock, but not under Local() and Independent()."
)
