"""What is tried in one state of a simulator: steps must be pure, with all randomness from the shock.

A simulator is asked for the same step again, in another order, after other branches and from an equal state, while all
other generators that it could draw from are moved. None of this may make a difference.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from itertools import combinations
from typing import Any

from jmdp.base.luck import Shock
from jmdp.base.settings import whole_number
from jmdp.errors import UnavailableError
from jmdp.simulators.checking.probe import GLOBALS, Finding, Look, SavedGenerator, StepOutcome, StopVisitError
from jmdp.simulators.checking.shared_draws import DrawProbe
from jmdp.simulators.simulator import Simulator


class Visits(DrawProbe):
    """States visited one after the other, and what was found in them."""

    def __init__(self, simulator: Simulator, actions: Sequence[Any], seed: int) -> None:
        super().__init__(simulator, actions)
        self.root = Shock.of_sample(whole_number("seed", seed, 0, 2**128), 0)
        self.firsts: list[Look] = []  # of states to begin in
        self.views: dict[bytes, bytes | None] = {}  # what is seen, by digest
        self.visited: dict[bytes, tuple[Any, Shock, dict[int, StepOutcome]]] = {}
        self.differ = False  # did any two actions?
        self.varied = False  # did an outcome depend on the shock?
        self.starts_differ = False

    def findings(self) -> list[Finding]:
        """Faults first."""
        found = super().findings()
        if not found and self.visits > 1 and len(self.actions) > 1 and not self.differ:
            message = f"under equal luck all actions did the same (in {self.visits} of {self.visits} states visited)."
            found = [Finding("equal actions", f"{message} Is the action used? Does a cache forget it?")]
        if self.visits > 1 and not self.varied and self.starts_differ and not self.noted("hidden start"):
            message = f"other shocks changed no outcome (in {self.visits} of {self.visits} states visited), but starts"
            found.append(Finding("one future", f"{message} differ. {ONE_FUTURE}"))
        return found

    def starts(self, state: Any) -> list[Any]:
        """States to begin in, and how to know them again."""
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
                    fix = "Take the luck of start from its shock, and keep nothing in the simulator."
                    self.add("hidden state", "start", "start gives different states for the same shock", fix)
        except UnavailableError:
            if state is None:
                raise
            self.firsts.append(self.look(state))
        return states

    def compare_starts(self) -> None:
        """Do starts differ, and do some that look the same go different ways under one shock?"""
        reset = getattr(self.simulator, "reset", None)  # whose start may be where it stands
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
                    what = "starts that look the same go different ways under one shock: start draws what is not seen"
                    self.add("hidden start", "", what, ONE_FUTURE, fault=False)
                    return
                if first.ended:
                    break
                one, other = first.state, second.state

    def visit(self, state: Any, order: list[int], *, thorough: bool) -> dict[int, StepOutcome]:
        """Try these actions in the state in every way that must make no difference."""
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
        """Digest and observation must be the state's alone."""
        self.careful = True
        digest = self.digest(state)
        if self.digest(state) != digest:
            self.add_unreliable_digest("digest of a state changes when it is asked again")
        before, again = self.look(state), self.look(state)
        if again[0] != before[0]:
            self.add_mutated_state("observe")
        if again != before:
            fix = "Return what the state alone decides."
            self.add("hidden state", "observe", "observe gives something else when it is asked again", fix)
            self.stop_looking("hidden state", "observe")
            self.steady = False
            before = before[0], None
        self.careful = self.looking_draws
        return before

    # ---------------------------------------------------------------------------------------------------- luck

    def own_generators(self, state: Any) -> dict[str, Any]:
        """But for those of the operating system, which cannot be put back."""
        found = self.simulator.generators(state).items()
        return {name: generator for name, generator in found if not isinstance(generator, random.SystemRandom)}

    def generators_after(self, outcome: StepOutcome) -> dict[str, SavedGenerator]:
        """How a step left the generators, and where copies of them stand in the next state."""
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
        """Ask again in another order, with all generators but the shock's elsewhere than they were.

        A generator that a step moves, and to a place that depends on where it was, is drawn from. One that is set from
        the shock is not.
        """
        before = {name: SavedGenerator.of(generator) for name, generator in self.watched.items()}
        before |= {name + _COPY: saved for name, saved in before.items()}
        for k, i in enumerate(order):
            again, after = self.step_with_moved_generators(state, i, shock, self.watched)
            moved = [name for name in left[i] if name in after and left[i][name] not in (before[name], after[name])]
            for name in sorted({name.removesuffix(_COPY) for name in moved}):
                self.add_hidden_generator(name, "step", i)
            if moved or again == outcomes[i]:
                continue
            when = "when asked again" if k == 0 else "when actions were asked in another order"
            if all(self.check_same_again(i, outcomes[i], self.step(state, i, shock), when) for _ in range(2)):
                for name in self.watched:  # it is one that is put back, or not found in the next state
                    again, _ = self.step_with_moved_generators(state, i, shock, [name])
                    if again != outcomes[i]:
                        self.check_digests_alone_differ(i, outcomes[i], again)
                        self.add_hidden_generator(name, "step", i)

    def step_with_moved_generators(
        self, state: Any, i: int, shock: Shock, names: Collection[str]
    ) -> tuple[StepOutcome, dict[str, SavedGenerator]]:
        """A step that meets these generators elsewhere than they were, and how it left them."""
        self.moved_before_call = names
        outcome = self.step(state, i, shock)
        return outcome, self.generators_after(outcome)

    # -------------------------------------------------------------------------------------------------- states

    def check_other_branches(
        self, state: Any, before: Look, order: list[int], shock: Shock, outcomes: dict[int, StepOutcome], thorough: bool
    ) -> None:
        """Go down another branch, by `step` and by `advance`, and come back."""
        first, last = order[0], order[-1]
        unfinished = [i for i in order if not outcomes[i].ended]
        if unfinished:
            b, later = unfinished[0], shock.derived(b"later")
            held, other = outcomes[b], self.step(state, b, shock)
            self.check_same_again(b, held, other, "when asked again")
            if thorough:
                self.step(held.state, first, later)  # should a cache know states but not actions
            there = self.step(held.state, last, later)
            self.check_unchanged(held.state, held.look, "step", last)
            moved = self.outcome("advance", other.state, last, later)
            self.check_unchanged(held.state, held.look, "advance", last)
            if moved != there and not self.noted("own generator"):
                third = self.step(self.step(state, b, shock).state, last, later)
                if self.check_same_again(last, there, third, "from an equal state") and not self.noted("hidden state"):
                    what = f"advance gives another {' and '.join(moved.differs_from(there))} than step"
                    fix = "It may use the state up, but must lead to the same."
                    self.add("advance differs", "", what, fix, last)
            for k in range(2 if thorough else 0):
                if not moved.ended:
                    moved = self.outcome("advance", moved.state, order[k % len(order)], later.derived(b"on", k))
        self.check_same_again(last, outcomes[last], self.step(state, last, shock), "after another branch")
        self.check_unchanged(state, before, "a step or advance further on")
        for i in unfinished:
            self.check_unchanged(outcomes[i].state, outcomes[i].look, "a later step", i)

    def compare_digests(
        self, state: Any, before: Look, order: list[int], shock: Shock, outcomes: dict[int, StepOutcome]
    ) -> None:
        """States with the same digest must be seen as the same, and do the same."""
        unfinished = [i for i in order if not outcomes[i].ended]
        for digest, view in [before, *(outcomes[i].look for i in unfinished)]:
            known = self.views.setdefault(digest, view)
            if known is None:
                self.views[digest] = view
            elif view is not None and view != known:
                self.add_coarse_digest("are seen as different")
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
        """A step that ends an episode must not lead to the beginning of the next."""
        digests, views = {look[0] for look in self.firsts}, {look[1] for look in self.firsts} - {None}
        for i, outcome in outcomes.items():
            digest, view = outcome.look
            fix = (
                "Take automatic resets out: a final state is where the game ended, e.g. use step_env in place of step."
            )
            if outcome.ended and digest in digests - {before[0]}:
                self.add("auto-reset", "", "a step that ends the game leads to a state where it starts", fix, i)
            elif outcome.ended and view in views - {before[1]}:
                what = "a step that ends the game leads to what is seen where it starts"
                self.add("auto-reset", "seen", what, f"It may be meant. If not: {fix}", i, fault=False)


_COPY = " in the next state"
ONE_FUTURE = (
    "compare() branches from one state and holds fixed what was drawn before it, so it sees one of many futures. That "
    "is right for a deterministic simulator. If randomness is drawn in start or reset (a shuffled deck, a tape of "
    "demands), draw it in step instead, when it is needed, or compare from several starts."
)
