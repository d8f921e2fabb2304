"""Checks in one state of a simulator: steps must be pure, with all randomness from the shock.

The same step is repeated in another order, after other branches and from an equal state, while all other generators
that the simulator could draw from are moved. None of this may change the outcome.

Check that `step_many` of a simulator returns the outcomes of `step`.

Quick check of a simulator before sampling: a few dozen steps must be pure, and draw the same for all actions.

`jmdp.testing.check_simulator` is thorough and visits many states.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Collection, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from jmdp.base.luck import Shock
from jmdp.base.luck_batch import Shocks
from jmdp.base.settings import whole_number
from jmdp.errors import SimulatorError, UnavailableError
from jmdp.simulators.checking.draw_log import AMONG_ACTIONS, AMONG_STATES, DrawProbe
from jmdp.simulators.checking.probe import GLOBALS, Finding, Look, Probe, SavedGenerator, StepOutcome, StopVisitError
from jmdp.simulators.rollouts.batched_states import codes_of, has_many_steps, many_steps, rows_of
from jmdp.simulators.simulator import Simulator, finite_step

_VISITS = 6
"""States in which all actions are tried."""


def many_steps_fault(simulator: Simulator, state: Any, actions: Sequence[int], seed: int = 0) -> str | None:
    """Description of the first difference between `step_many` and `step`, in a few states; None if there is none."""
    if not has_many_steps(simulator):
        return None
    root = Shock.of_sample(seed, 0)
    calls: list[tuple[Any, int, Shock]] = []
    outcomes = []
    for t in range(_VISITS):
        shock = root.derived(b"many", t)
        calls += [(state, action, shock) for action in actions]
        outcomes += [finite_step(simulator, simulator.step, state, action, shock, t) for action in actions]
        unfinished = [step.state for step in outcomes[-len(actions) :] if not step.terminated]
        if not unfinished:
            break
        state = unfinished[t % len(unfinished)]
    states, taken, shocks = zip(*calls, strict=True)
    rewards, after, ended = many_steps(
        simulator, rows_of(simulator, list(states)), np.array(taken), Shocks.of(list(shocks)), 0
    )
    found = codes_of(after)
    for i, step in enumerate(outcomes):
        row = rows_of(simulator, [step.state])
        same_state = step.terminated or (codes_of(row.astype(after.dtype)) == found[i]).all()
        if rewards[i] == step.reward and ended[i] == step.terminated and same_state:
            continue
        many = f"({rewards[i].item()!r}, {after[i].tolist()}, {bool(ended[i])})"
        return (
            f"step_many returns {many} for action {taken[i]} in the state {states[i]!r}, but step returns "
            f"{tuple(step)!r}. Both must be equal to the last bit: use the same operations in the same order, and the "
            "same numbers of the shock"
        )
    return None


_BRANCHED_AT, _CONTINUED = 3, 5
"""Number of steps after which an episode is branched, besides its start, and of further steps that are compared."""


def branch_fault(simulator: Simulator, actions: Sequence[Any]) -> str | None:
    """How branches from states of an episode differ from the episode itself, stepped in place; None if they do not."""
    probe, root = Probe(simulator, actions), Shock.of_sample(0, 0)
    start = partial(simulator.start, root)
    turns = [(t % len(probe.actions), root.derived(b"branch", t)) for t in range(_BRANCHED_AT + _CONTINUED)]

    def play(state: Any, at: int, end: int, verb: str = "advance") -> list[StepOutcome]:
        """Outcomes of these steps from a state, the first one by `verb`, the others in place."""
        found: list[StepOutcome] = []
        for i, shock in turns[at:end]:
            found.append(probe.step(state, i, shock, verb))
            state, verb = found[-1].state, "advance"
        return found

    episode = simulator.episode(root, start(), truncated_ends=True)
    overs = (episode.step(probe.actions[i], shock)[1] for i, shock in turns)
    length = next((t for t, over in enumerate(overs, 1) if over), len(turns))
    whole = play(start(), 0, length)
    for at in (0, min(_BRANCHED_AT, length - 1)):
        end = min(at + _CONTINUED, length)
        expected = whole[at:end]
        before = play(start(), 0, at)
        state = before[-1].state if before else start()
        probe.step(state, 0, root.derived(b"elsewhere"))
        if any(play(state, at, end, "step") != expected for _ in range(2)):
            return "a branch continues differently from the episode itself"
        if play(state, at, end) != expected:
            return "a branch changes the state in which it begins"
    return None


class Visits(DrawProbe):
    """Visits of states one after the other, and the findings."""

    def __init__(self, simulator: Simulator, actions: Sequence[Any], seed: int) -> None:
        super().__init__(simulator, actions)
        self.root = Shock.of_sample(whole_number("seed", seed, 0, 2**128), 0)
        self.firsts: list[Look] = []  # of start states
        self.views: dict[bytes, bytes | None] = {}  # fingerprints of observations, by digest
        self.visited: dict[bytes, tuple[Any, Shock, dict[int, StepOutcome]]] = {}
        self.differ = False  # True once two actions had different outcomes
        self.varied = False  # True once an outcome depended on the shock
        self.starts_differ = False

    def findings(self) -> list[Finding]:
        """All findings, faults first."""
        found = super().findings()
        if not found and self.visits > 1 and len(self.actions) > 1 and not self.differ:
            message = f"all actions have the same outcome per shock ({self.visits} of {self.visits} states visited)."
            found = [Finding("equal actions", f"{message} Use the action in step, and in the keys of caches.")]
        if self.visits > 1 and not self.varied and self.starts_differ and not self.noted("hidden start"):
            message = f"no outcome depends on the shock ({self.visits} of {self.visits} states visited), but starts"
            found.append(Finding("one future", f"{message} differ. {ONE_FUTURE}"))
        return found

    def starts(self, state: Any) -> list[Any]:
        """Start states; their digests and observations are recorded."""
        self.watch({})
        states = [] if state is None else [state]
        try:
            for k in range(5):
                shock = self.root.derived(b"start", k)
                found = self.call("start", shock)
                self.firsts.append(self.look(found))
                if state is None:
                    states.append(found)
                if k == 0 and self.digest(self.call("start", shock)) != self.firsts[0][0] == self.digest(found):
                    fix = "Take all randomness of start from its shock, and keep no data in the simulator."
                    self.add("hidden state", "start", "start returns different states for the same shock", fix)
        except UnavailableError:
            if state is None:
                raise
            self.firsts.append(self.look(state))
        return states

    def compare_starts(self) -> None:
        """Check whether starts differ, and whether some with equal observations differ later under one shock."""
        reset = getattr(self.simulator, "reset", None)  # its start may be the current state
        try:
            starts = [
                self.call("reset", k) if reset else self.call("start", self.root.derived(b"start", k)) for k in range(5)
            ]
        except UnavailableError:
            return
        looks = [self.look(state) for state in starts]
        self.starts_differ = len({digest for digest, _ in looks}) > 1
        for (one, look), (other, its_look) in combinations(zip(starts, looks, strict=True), 2):
            if look[1] is None or look[1] != its_look[1] or look[0] == its_look[0]:
                continue
            for k in range(3):
                shock = self.root.derived(b"from start", k)
                first, second = (self.step(state, 0, shock) for state in (one, other))
                seen = [(outcome.reward, outcome.termination, outcome.look[1]) for outcome in (first, second)]
                if seen[0] != seen[1]:
                    what = "starts with equal observations differ later under one shock: start draws unobserved values"
                    self.add("hidden start", "", what, ONE_FUTURE, fault=False)
                    return
                if first.ended:
                    break
                one, other = first.state, second.state

    def compare_branches(self) -> None:
        """Check that branches from a state continue as the episode that leads to it."""
        with contextlib.suppress(UnavailableError):  # there is no start
            fault = branch_fault(self.simulator, self.actions)
            if fault is not None:
                self.add("branches differ", "", fault, "Copy all that later steps depend on into each new state.")

    def visit(self, state: Any, order: list[int], *, thorough: bool) -> dict[int, StepOutcome]:
        """Try these actions in the state in all ways that must not change the outcome."""
        self.visits += 1
        shock = self.root.derived(b"check", self.visits)
        outcomes: dict[int, StepOutcome] = {}
        left: dict[int, dict[str, SavedGenerator]] = {}
        try:
            self.watch(self.own_generators(state))
            before = self.check_asked_twice(state)
            for i in order:
                outcomes[i] = self.step(state, i, shock)
                left[i] = self.generators_after(outcomes[i])
                self.check_unchanged(state, before, "step", i)
            self.differ = self.differ or any(outcomes[i] != outcomes[order[0]] for i in order)
            self.check_other_generators(state, order[::-1], shock, outcomes, left)
            self.check_other_branches(state, before, order, shock, outcomes, thorough)
            self.compare_draws(state, order, shock)
            other = self.step(state, order[0], shock.derived(b"other"))
            self.varied = self.varied or other != outcomes[order[0]]
            self.compare_digests(state, before, order, shock, outcomes)
            self.check_no_auto_reset(before, outcomes)
        except StopVisitError:
            pass
        return outcomes

    def check_asked_twice(self, state: Any) -> Look:
        """Check that digest and observation depend on the state alone, and return them."""
        self.careful = True
        digest = self.digest(state)
        if self.digest(state) != digest:
            self.add_unreliable_digest("digest of a state changes when it is called again")
        before, again = self.look(state), self.look(state)
        if again[0] != before[0]:
            self.add_mutated_state("observe")
        if again != before:
            fix = "Return a function of the state alone."
            self.add("hidden state", "observe", "observe returns something else when it is called again", fix)
            self.stop_looking("hidden state", "observe")
            self.steady = False
            before = before[0], None
        self.careful = self.looking_draws
        return before

    # ---------------------------------------------------------------------------------------------- randomness

    def own_generators(self, state: Any) -> dict[str, Any]:
        """The simulator's generators, except the global ones and those that cannot be restored (operating system)."""
        found = {}
        for name, generator in self.simulator.generators(state).items():
            same = next((known for known, one in GLOBALS.items() if one is generator), None)
            if same is not None:
                self.aliases[same] = f": {name} is that module or its generator"
            elif not isinstance(generator, random.SystemRandom):
                found[name] = generator
        return found

    def generators_after(self, outcome: StepOutcome) -> dict[str, SavedGenerator]:
        """States of the generators after a step, and of their copies in the next state."""
        after = dict(self.after)
        if len(self.watched) > len(GLOBALS) and not outcome.ended:
            copies = self.own_generators(outcome.state)
            after |= {name + _COPY: SavedGenerator.of(copies[name]) for name in self.watched if name in copies}
        return after

    def check_other_generators(
        self,
        state: Any,
        order: list[int],
        shock: Shock,
        outcomes: dict[int, StepOutcome],
        left: dict[int, dict[str, SavedGenerator]],
    ) -> None:
        """Repeat the steps in another order, with all generators but the shock's moved before.

        A step draws from a generator if it moves the generator to a position that depends on the previous one. A
        generator that is set from the shock is allowed.
        """
        before = self.generator_states()
        before |= {name + _COPY: saved for name, saved in before.items()}
        for k, i in enumerate(order):
            again, after = self.step_with_moved_generators(state, i, shock, self.watched)
            moved = [name for name in left[i] if name in after and left[i][name] not in (before[name], after[name])]
            for name in sorted({name.removesuffix(_COPY) for name in moved}):
                self.add_hidden_generator(name, "step", i)
            if moved or again == outcomes[i]:
                continue
            when = "when repeated" if k == 0 else "when actions were tried in another order"
            if all(self.check_same_again(i, outcomes[i], self.step(state, i, shock), when) for _ in range(2)):
                for name in self.watched:  # the generator is restored by the step, or not found in the next state
                    again, _ = self.step_with_moved_generators(state, i, shock, [name])
                    if again != outcomes[i]:
                        self.check_digests_alone_differ(i, outcomes[i], again)
                        self.add_hidden_generator(name, "step", i)

    def step_with_moved_generators(
        self, state: Any, i: int, shock: Shock, names: Collection[str]
    ) -> tuple[StepOutcome, dict[str, SavedGenerator]]:
        """A step after these generators were moved, and the states of the generators after it."""
        self.moved_before_call = names
        outcome = self.step(state, i, shock)
        return outcome, self.generators_after(outcome)

    # -------------------------------------------------------------------------------------------------- states

    def check_other_branches(
        self, state: Any, before: Look, order: list[int], shock: Shock, outcomes: dict[int, StepOutcome], thorough: bool
    ) -> None:
        """Simulate another branch, by `step` and by `advance`, then repeat the first steps."""
        first, last = order[0], order[-1]
        unfinished = [i for i in order if not outcomes[i].ended]
        if unfinished:
            b, later = unfinished[0], shock.derived(b"later")
            held, other = outcomes[b], self.step(state, b, shock)
            self.check_same_again(b, held, other, "when repeated")
            if thorough:
                self.step(held.state, first, later)  # in case a cache stores states without actions
            there = self.step(held.state, last, later)
            self.check_unchanged(held.state, held.look, "step", last)
            moved = self.step(other.state, last, later, "advance")
            self.check_unchanged(held.state, held.look, "advance", last)
            if moved != there and not self.noted("own generator"):
                third = self.step(self.step(state, b, shock).state, last, later)
                if self.check_same_again(last, there, third, "from an equal state") and not self.noted("hidden state"):
                    what = f"advance and step differ in {' and '.join(moved.differs_from(there))}"
                    fix = "It may change the state it is given, but must return the same outcome."
                    self.add("advance differs", "", what, fix, last)
            for k in range(2 if thorough else 0):
                if not moved.ended:
                    moved = self.step(moved.state, order[k % len(order)], later.derived(b"on", k), "advance")
        self.check_same_again(last, outcomes[last], self.step(state, last, shock), "after another branch")
        self.check_unchanged(state, before, "a later step or advance")
        for i in unfinished:
            self.check_unchanged(outcomes[i].state, outcomes[i].look, "a later step", i)

    def compare_digests(
        self, state: Any, before: Look, order: list[int], shock: Shock, outcomes: dict[int, StepOutcome]
    ) -> None:
        """Check that states with the same digest have equal observations and outcomes."""
        unfinished = [i for i in order if not outcomes[i].ended]
        for digest, view in [before, *(outcomes[i].look for i in unfinished)]:
            known = self.views.setdefault(digest, view)
            if known is None:
                self.views[digest] = view
            elif view is not None and view != known:
                self.add_coarse_digest("have different observations")
        if before[0] in self.visited:
            one, its_shock, known_outcomes = self.visited[before[0]]
            for i in known_outcomes.keys() & outcomes.keys():
                self.check_equal_digests(one, state, i, its_shock, known_outcomes[i])
        else:
            self.visited[before[0]] = state, shock, outcomes
        twins = [(i, j) for i, j in combinations(unfinished, 2) if outcomes[i].look[0] == outcomes[j].look[0]]
        for i, j in twins[:1]:
            self.check_equal_digests(outcomes[i].state, outcomes[j].state, order[-1], shock.derived(b"later"))

    def check_no_auto_reset(self, before: Look, outcomes: dict[int, StepOutcome]) -> None:
        """Check that a step that ends an episode does not return the start of the next."""
        if not self.firsts:
            return
        digests, views = {look[0] for look in self.firsts}, {look[1] for look in self.firsts} - {None}
        for i, outcome in outcomes.items():
            digest, view = outcome.look
            fix = "Remove automatic resets: return the state in which the episode ended, e.g. use step_env, not step."
            if outcome.ended and digest in digests - {before[0]}:
                self.add("auto-reset", "", "a step that ends the episode returns a start state", fix, i)
            elif outcome.ended and view in views - {before[1]}:
                what = "a step that ends the episode returns the observation of a start state"
                self.add("auto-reset", "seen", what, f"This may be intended. If not: {fix}", i, fault=False)


_COPY = " in the next state"
ONE_FUTURE = (
    "compare() branches from one state and keeps all earlier draws fixed, so it simulates one of many futures. That is "
    "correct for a deterministic simulator. If randomness is drawn in start or reset (a shuffled deck, a list of "
    "demands), draw it in step instead, when it is needed, or compare from several starts."
)


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
    if hasattr(simulator, "trace") and not _calls_python(simulator, state):
        return True  # compiled by JAX, so pure once it is traced
    return simulator.in_block(partial(_checked, simulator, state, actions, shared_in_a_state, shared_between_states))


def _checked(
    simulator: Simulator, state: Any, actions: Sequence[Any], shared_in_a_state: bool, shared_between_states: bool
) -> bool:
    """`quick_check` of simulators whose steps are called."""
    check = Visits(simulator, actions[:_QUICK_ACTIONS], seed=0)
    order = list(range(len(check.actions)))
    outcomes = check.visit(state, order, thorough=False)
    found = check.findings()
    if shared_between_states and not found:
        _visit_more_states(check, [outcome.state for outcome in outcomes.values() if not outcome.ended])
        found = check.findings()
    harmless = (*(() if shared_in_a_state else AMONG_ACTIONS), *(() if shared_between_states else AMONG_STATES))
    _refuse(simulator, [finding for finding in found if finding.fault and finding.kind not in harmless])
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


def _calls_python(simulator: Any, state: Any) -> bool:
    """Whether steps that JAX traces call Python. Each kind of state is traced, and checked, once."""
    kind = simulator.kind(state)
    if kind not in simulator.checked:
        simulator.checked[kind] = _check_trace(simulator, state)
    found: bool = simulator.checked[kind]
    return found


def _check_trace(simulator: Any, state: Any) -> bool:
    """Raise if a step draws while JAX traces it, because draws become constants. Return whether steps call Python."""
    before = {name: SavedGenerator.of(generator) for name, generator in GLOBALS.items()}
    programs = [simulator.trace(state) for _ in range(2)]
    moved = [name for name, generator in GLOBALS.items() if SavedGenerator.of(generator) != before[name]]
    for name in moved:
        before[name].put_back(GLOBALS[name])
    if moved or programs[0] != programs[1]:
        source = f"the global {' and '.join(moved)}" if moved else "something besides its arguments"
        what = f"step uses {source} while JAX traces it. The number drawn becomes a constant of the compiled program"
        _refuse(simulator, [Finding("global generator", f"{what}. Draw from the key: jax.random.normal(key).", True)])
    return "callback" in programs[0]


def _refuse(simulator: Simulator, faults: list[Finding]) -> None:
    if faults:
        raise SimulatorError(f"{simulator!r} cannot be used to compare actions.\n- " + "\n- ".join(map(str, faults)))
