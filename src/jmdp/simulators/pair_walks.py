"""Pairs of branches, step by step: from a state two actions, then the policy, under the luck that a coupling shares.

`paired_draws` adds rewards up; here every step is kept, for methods that learn from transitions and for those who want
to look at one. Walks come in blocks. A block is a pure function of the seed and its number, so it does not matter which
process walks it, or when.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.base.settings import whole
from jmdp.errors import SettingsError, SimulatorError
from jmdp.models.actors.actor import Actor, numpy_of
from jmdp.models.coupling import Coupling
from jmdp.simulators.digests import digest_of
from jmdp.simulators.simulator import Simulator, finite_step


@dataclass(frozen=True, eq=False)
class PairWalks(arrays.FrozenArrays):
    """N walks of L steps, two branches each. A branch that has ended stays where it is and earns nothing.

    Rows of one `visit` begin in the same state with the same two actions, and share no luck.
    """

    observation: npt.NDArray[Any]  # [N, L + 1, 2, ...]
    action: Integers  # [N, L + 1, 2], which is taken there; 0 where the branch has ended
    reward: Floats  # [N, L, 2]
    ended: Booleans  # [N, L + 1, 2]
    same: Booleans  # [N, L + 1], both branches share the luck of one state; with equal actions there they are one
    visit: Integers  # [N]

    def __post_init__(self) -> None:
        for array in (self.observation, self.action, self.reward, self.ended, self.same, self.visit):
            arrays.frozen(array)

    def __len__(self) -> int:
        return len(self.visit)

    @property
    def length(self) -> int:
        """L, steps of a walk."""
        return int(self.reward.shape[1])

    def returns(self, discount: float) -> Floats:
        """[visits, repeats, 2], discounted sums of rewards; every visit has as many walks."""
        sums: Floats = (self.reward * (discount ** np.arange(self.length))[None, :, None]).sum(axis=1)
        return sums.reshape(len(np.unique(self.visit)), -1, 2)

    @classmethod
    def joined(cls, parts: Sequence[PairWalks]) -> PairWalks:
        """One after the other; visits are numbered on."""
        before = np.cumsum([0, *(1 + part.visit.max() for part in parts)])
        parts = [replace(part, visit=part.visit + n) for part, n in zip(parts, before, strict=False)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))


@dataclass(frozen=True)
class WalkPlan:
    """What a block of walks is."""

    visits: int  # states in which walks of a block begin
    spacing: int  # steps of the policy between them
    repeats: int  # walks from each, of one pair of actions, each with its own luck
    length: int  # steps of a walk

    def __post_init__(self) -> None:
        for name in ("visits", "spacing", "repeats", "length"):
            whole(self, name, 1)

    def walk(self, simulator: Simulator, actor: Actor, coupling: Coupling, seed: int, block: int) -> PairWalks:
        """Block number `block` of the walks with this seed."""
        return _BlockOfWalks(simulator, actor, coupling, self, Shock.of_sample(seed, block)).run()


def paired_actions(simulator: Simulator, coupling: Coupling) -> Labels:
    """The actions of which pairs are drawn; raise if there are none, or if luck cannot be shared like this."""
    if simulator.actions is None:
        raise SettingsError(
            f"The actions of {simulator!r} are not numbered, so pairs of them cannot be drawn. Take a simulator with "
            "finitely many, or compare some in one state: jmdp.compare(…, actions=[…])."
        )
    if simulator.actions.size < 2:
        raise SettingsError(f"{simulator!r} has one action. A pair needs two; take a simulator with more.")
    simulator.check_coupling(coupling)
    return simulator.actions


_Row = tuple[int, Any, list[int]]
"""Visit, state and two actions with which a walk begins."""
_PolicyRequest = tuple[int, int, Any, Shock]
"""Walk, branch, what it sees and the policy's luck."""


class _BlockOfWalks:
    def __init__(self, simulator: Simulator, actor: Actor, coupling: Coupling, plan: WalkPlan, root: Shock) -> None:
        self._simulator, self._actor, self._coupling, self._plan, self._root = simulator, actor, coupling, plan, root
        self._actions = paired_actions(simulator, coupling)

    def run(self) -> PairWalks:
        choose = self._root.derived(b"actions").generator()
        starts = self._starts()
        return self.walks_from(starts, [choose.choice(self._actions.size, 2, replace=False).tolist() for _ in starts])

    def walks_from(self, starts: Sequence[Any], actions: Sequence[Sequence[int]]) -> PairWalks:
        """Walks that begin in these states with these pairs of actions."""
        rows: list[_Row] = []
        for visit, (state, pair) in enumerate(zip(starts, actions, strict=True)):
            rows += [(visit, state, list(pair))] * self._plan.repeats
        first = _numbers(self._simulator, self._simulator.observe(starts[0]))
        N, L = len(rows), self._plan.length
        self.observation = np.zeros((N, L + 1, 2, *first.shape), first.dtype)
        self.action, self.reward = np.zeros((N, L + 1, 2), np.int64), np.zeros((N, L, 2))
        self.ended, self.same = np.zeros((N, L + 1, 2), np.bool_), np.zeros((N, L + 1), np.bool_)
        self._coalesced = np.zeros(N, np.bool_)  # its branches have met, in state and action
        together = max(1, self._simulator.lanes // 2)
        for start in range(0, N, together):
            self._walk(rows[start : start + together], start)
        visits = np.array([visit for visit, _, _ in rows])
        return PairWalks(self.observation, self.action, self.reward, self.ended, self.same, visits)

    def _starts(self) -> list[Any]:
        """States along a walk of the policy, from a random number of steps on; episodes follow one another."""
        root, plan, simulator = self._root.derived(b"starts"), self._plan, self._simulator
        found: list[Any] = []
        state, episode, age = simulator.start(root.derived(b"start")), 0, 0
        skip = int(root.generator().integers(plan.spacing))
        for t in count():
            go = simulator.advance
            if t >= skip and (t - skip) % plan.spacing == 0:
                found.append(state)
                go = simulator.step  # walks begin here
                if len(found) == plan.visits:
                    break
            (action,) = self._actor.act([simulator.observe(state)], [root.derived(b"policy", t)])
            step = finite_step(simulator, go(state, action, root.derived(b"environment", t)), action, age)
            state, age = step.state, age + 1
            if step.terminated:
                episode, age = episode + 1, 0
                state = simulator.start(root.derived(b"start", episode))
        return found

    def _walk(self, rows: list[_Row], first: int) -> None:
        """Some walks, in step with one another so that a policy is asked for many at once."""
        pairs = [[state, state] for _, state, _ in rows]
        roots = [self._root.derived(b"walk", first + i) for i in range(len(rows))]
        for n, (_, state, actions) in enumerate(rows, first):
            self._look(state, n, 0, 0)
            self.observation[n, 0, 1], self.action[n, 0], self.same[n, 0] = self.observation[n, 0, 0], actions, True
        for t in range(self._plan.length):
            asked: list[_PolicyRequest] = []
            for i, pair in enumerate(pairs):
                asked += self._step(first + i, t, roots[i], pair)
            if asked:
                chosen = self._actor.act([seen for _, _, seen, _ in asked], [shock for _, _, _, shock in asked])
                for (n, b, _, _), action in zip(asked, chosen, strict=True):
                    self.action[n, t + 1, b] = self._actions.index(action)
            one = first + np.flatnonzero(self._coalesced[first : first + len(rows)])
            self.action[one, t + 1, 1] = self.action[one, t + 1, 0]

    def _step(self, n: int, t: int, root: Shock, pair: list[Any]) -> list[_PolicyRequest]:
        """Both branches of a walk go on by a step; who of them has to ask the policy, with which luck."""
        simulator, coupling, asked = self._simulator, self._coupling, []
        coalesced = self._coalesced[n] = self.same[n, t] and self.action[n, t, 0] == self.action[n, t, 1]
        for b in (0,) if coalesced else (0, 1):
            if self.ended[n, t, b]:
                self.ended[n, t + 1, b], self.observation[n, t + 1, b] = True, self.observation[n, t, b]
                continue
            # Luck depends on where a branch stands. Of two branches it is enough to know whether that is one place: a
            # number does for a digest, which costs a fifth of a step of an emulator.
            place, action = bytes([0 if self.same[n, t] else b]), int(self.action[n, t, b])
            shock = coupling.environment_shock(root, t, place, b)
            outcome = (simulator.advance if t else simulator.step)(pair[b], action, shock)
            self.reward[n, t, b], pair[b], self.ended[n, t + 1, b] = finite_step(simulator, outcome, action, t)
            seen = self._look(pair[b], n, t + 1, b)
            if not self.ended[n, t + 1, b]:
                taken = digest_of(action)
                asked.append((n, b, seen, coupling.policy_shock(root, t, place, taken, b)))
        if coalesced:
            for array, at in ((self.reward, t), (self.ended, t + 1), (self.observation, t + 1)):
                array[n, at, 1] = array[n, at, 0]
            self.same[n, t + 1] = True
        elif coupling.shared_in_a_state and not (self.ended[n, t + 1, 0] or self.ended[n, t + 1, 1]):
            self.same[n, t + 1] = _alike(*self.observation[n, t + 1]) and (
                simulator.digest(pair[0]) == simulator.digest(pair[1])
            )
        return asked

    def _look(self, state: Any, n: int, t: int, b: int) -> Any:
        """What is seen of a state, noted down."""
        seen = self._simulator.observe(state)
        stored = self.observation
        known = type(seen) is np.ndarray and seen.dtype == stored.dtype  # nearly always, and looked at in every step
        array = seen if known else _numbers(self._simulator, seen)
        if array.shape != stored.shape[3:] or not (known or np.can_cast(array.dtype, stored.dtype)):
            raise SimulatorError(
                f"{self._simulator!r} shows {stored.dtype} of shape {stored.shape[3:]} first, then {array.dtype} of "
                f"shape {array.shape}. Walks keep observations in one array: make them alike in observe()."
            )
        stored[n, t, b] = array
        return seen


def _alike(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    if one.dtype.kind == "f":
        return np.array_equal(one, other, equal_nan=True)
    return bool((one == other).all())


def _numbers(simulator: Simulator, seen: Any) -> npt.NDArray[Any]:
    """An observation as walks keep it."""
    if not isinstance(seen, (dict, tuple)):
        with contextlib.suppress(ValueError):  # lists of different lengths
            array = numpy_of(seen)
            if array.dtype.kind in "biuf":
                return array
    raise SimulatorError(
        f"{simulator!r} shows a {type(seen).__name__}. Walks keep observations as arrays of numbers, for that is what "
        "an encoder sees. Flatten them: in observe(), or with gymnasium.wrappers.FlattenObservation."
    )
