"""Paired rollouts with all their steps: two actions from one state, then the policy, under shared randomness.

`paired_draws` returns sums of rewards only; here every step is kept, for methods that learn from transitions and for
inspection. Rollouts are simulated in blocks. A block is a pure function of the seed and its number, so it does not
matter which process simulates it, or when.

Blocks of paired rollouts, simulated by a pool and joined in order.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.base.progress import count_bar
from jmdp.base.settings import short, whole, whole_number
from jmdp.distribute.pools import Pool
from jmdp.distribute.process_pool import pool_of
from jmdp.errors import CouplingError, PolicyError, SettingsError, SimulatorError
from jmdp.models.actors.actor import Actor, numpy_of
from jmdp.models.coupling import Coupling
from jmdp.simulators.digests import digest_of
from jmdp.simulators.simulator import Simulator, finite_step


@dataclass(frozen=True, eq=False)
class PairWalks(arrays.FrozenArrays):
    """N paired rollouts of L steps, two branches each. A branch that has ended keeps its observation and has reward 0.

    Rows with the same `visit` start in the same state with the same two actions, and share no randomness.
    """

    observation: npt.NDArray[Any]  # [N, L + 1, 2, ...]
    action: Integers  # [N, L + 1, 2], action taken; 0 if the branch has ended
    reward: Floats  # [N, L, 2]
    ended: Booleans  # [N, L + 1, 2]
    same: Booleans  # [N, L + 1], both branches share the randomness of one state; with equal actions they merge
    visit: Integers  # [N], number of the start state

    def __post_init__(self) -> None:
        for array in (self.observation, self.action, self.reward, self.ended, self.same, self.visit):
            arrays.frozen(array)

    def __len__(self) -> int:
        return len(self.visit)

    @property
    def length(self) -> int:
        """L, the number of steps of a rollout."""
        return int(self.reward.shape[1])

    def returns(self, discount: float) -> Floats:
        """[visits, repeats, 2], discounted sums of rewards; all visits must have equally many rollouts."""
        sums: Floats = (self.reward * (discount ** np.arange(self.length))[None, :, None]).sum(axis=1)
        return sums.reshape(len(np.unique(self.visit)), -1, 2)

    @classmethod
    def joined(cls, parts: Sequence[PairWalks]) -> PairWalks:
        """Concatenate paired rollouts; visits are numbered consecutively."""
        before = np.cumsum([0, *(1 + part.visit.max() for part in parts)])
        parts = [replace(part, visit=part.visit + n) for part, n in zip(parts, before, strict=False)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))


@dataclass(frozen=True)
class WalkPlan:
    """Size of a block of paired rollouts."""

    visits: int  # number of start states in a block
    spacing: int  # steps of the policy between start states
    repeats: int  # independent rollouts from each start state, with one pair of actions
    length: int  # steps of a rollout

    def __post_init__(self) -> None:
        for name in ("visits", "spacing", "repeats", "length"):
            whole(self, name, 1)

    def walk(self, simulator: Simulator, actor: Actor, coupling: Coupling, seed: int, block: int) -> PairWalks:
        """Simulate block number `block` of the paired rollouts with this seed."""
        walks = _BlockOfWalks(simulator, actor, coupling, self, Shock.of_sample(seed, block))
        return simulator.in_block(walks.run)


def paired_actions(simulator: Simulator, coupling: Coupling) -> Labels:
    """Actions from which pairs are drawn; raise if there are fewer than two, or if the coupling is unsupported."""
    if not isinstance(simulator, Simulator):
        raise SimulatorError(f"simulator is {short(simulator)}. Use jmdp.simulators.as_simulator(…).")
    if not isinstance(coupling, Coupling):
        raise CouplingError(f"coupling is {short(coupling)}. Use Local(), Synchronous() or Independent().")
    if simulator.actions is None:
        raise SettingsError(
            f"{simulator!r} has no finite list of actions, so pairs of actions cannot be drawn. Use a simulator with "
            "finitely many actions, or compare some in one state: jmdp.compare(…, actions=[…])."
        )
    if simulator.actions.size < 2:
        raise SettingsError(f"{simulator!r} has one action, but a pair needs two. Use a simulator with more.")
    simulator.check_coupling(coupling)
    return simulator.actions


def states_of_episodes(
    simulator: Simulator, actor: Actor, root: Shock, count: int, spacing: int, within: int, after: int = 0
) -> list[Any]:
    """States along episodes of the policy, `spacing` steps apart, the first after `after` and up to `within` steps."""
    found: list[Any] = []
    state, episode, age = simulator.start(root.derived(b"start")), 0, 0
    skip = after + int(root.generator().integers(within))
    for t in itertools.count():
        go = simulator.advance
        if t >= skip and (t - skip) % spacing == 0:
            found.append(state)
            go = simulator.step  # rollouts start in this state
            if len(found) == count:
                break
        (action,) = actor.act([simulator.observe(state)], [root.derived(b"policy", t)])
        step = finite_step(simulator, go, state, action, root.derived(b"environment", t), age)
        state, age = step.state, age + 1
        if step.terminated:
            episode, age = episode + 1, 0
            state = simulator.start(root.derived(b"start", episode))
    return found


_Row = tuple[int, Any, list[int]]
"""Visit, state and pair of actions at the start of a rollout."""
_PolicyRequest = tuple[int, int, Any, Shock]
"""Rollout, branch, observation and shock of the policy."""


class _BlockOfWalks:
    def __init__(self, simulator: Simulator, actor: Actor, coupling: Coupling, plan: WalkPlan, root: Shock) -> None:
        self._simulator, self._actor, self._coupling, self._plan, self._root = simulator, actor, coupling, plan, root
        self._actions = paired_actions(simulator, coupling)

    def run(self) -> PairWalks:
        choose = self._root.derived(b"actions").generator()
        plan, root = self._plan, self._root.derived(b"starts")
        starts = states_of_episodes(self._simulator, self._actor, root, plan.visits, plan.spacing, plan.spacing)
        return self.walks_from(starts, [choose.choice(self._actions.size, 2, replace=False).tolist() for _ in starts])

    def walks_from(self, starts: Sequence[Any], actions: Sequence[Sequence[int]]) -> PairWalks:
        """Simulate paired rollouts from these states with these pairs of actions."""
        rows: list[_Row] = []
        for visit, (state, pair) in enumerate(zip(starts, actions, strict=True)):
            rows += [(visit, state, list(pair))] * self._plan.repeats
        first = numbers_of(self._simulator, self._simulator.observe(starts[0]))
        N, L = len(rows), self._plan.length
        self.observation = np.zeros((N, L + 1, 2, *first.shape), first.dtype)
        self.action, self.reward = np.zeros((N, L + 1, 2), np.int64), np.zeros((N, L, 2))
        self.ended, self.same = np.zeros((N, L + 1, 2), np.bool_), np.zeros((N, L + 1), np.bool_)
        self._coalesced = np.zeros(N, np.bool_)  # rollouts whose branches have merged
        together = max(1, self._simulator.lanes // 2)
        for start in range(0, N, together):
            self._walk(rows[start : start + together], start)
        visits = np.array([visit for visit, _, _ in rows])
        return PairWalks(self.observation, self.action, self.reward, self.ended, self.same, visits)

    def _walk(self, rows: list[_Row], first: int) -> None:
        """Simulate some rollouts in lockstep, so that the policy is called on batches."""
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
                    self.action[n, t + 1, b] = self._actions.position(action)
            one = first + np.flatnonzero(self._coalesced[first : first + len(rows)])
            self.action[one, t + 1, 1] = self.action[one, t + 1, 0]

    def _step(self, n: int, t: int, root: Shock, pair: list[Any]) -> list[_PolicyRequest]:
        """Advance both branches of a rollout by one step; return the calls of the policy that they need."""
        simulator, coupling, asked = self._simulator, self._coupling, []
        coalesced = self._coalesced[n] = self.same[n, t] and self.action[n, t, 0] == self.action[n, t, 1]
        for b in (0,) if coalesced else (0, 1):
            if self.ended[n, t, b]:
                self.ended[n, t + 1, b], self.observation[n, t + 1, b] = True, self.observation[n, t, b]
                continue
            # The shock depends on the state. For two branches it is enough to know whether their states are equal, so
            # a number replaces the digest, which takes a fifth of the time of an emulator step.
            place, action = bytes([0 if self.same[n, t] else b]), int(self.action[n, t, b])
            shock = coupling.environment_shock(root, t, place, b)
            go = simulator.advance if t else simulator.step
            step = finite_step(simulator, go, pair[b], action, shock, t)
            self.reward[n, t, b], pair[b], self.ended[n, t + 1, b] = step
            seen = self._look(pair[b], n, t + 1, b)
            if not self.ended[n, t + 1, b]:
                taken = digest_of(action)
                asked.append((n, b, seen, coupling.policy_shock(root, t, place + taken, b)))
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
        """Observe a state and store the observation."""
        seen = self._simulator.observe(state)
        stored = self.observation
        known = type(seen) is np.ndarray and seen.dtype == stored.dtype  # the usual case, in a check of every step
        array = seen if known else numbers_of(self._simulator, seen)
        if array.shape != stored.shape[3:] or not (known or np.can_cast(array.dtype, stored.dtype)):
            raise SimulatorError(
                f"{self._simulator!r} returned observations of {stored.dtype} and shape {stored.shape[3:]} first, then "
                f"{array.dtype} and shape {array.shape}. Return the same dtype and shape from observe() in all states."
            )
        stored[n, t, b] = array
        return seen


def _alike(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    if one.dtype.kind == "f":
        return np.array_equal(one, other, equal_nan=True)
    return bool((one == other).all())


def numbers_of(simulator: Simulator, seen: Any) -> npt.NDArray[Any]:
    """Observation as an array of numbers; those of a dict or a tuple one after another."""
    if isinstance(seen, (dict, tuple)):
        parts = [numbers_of(simulator, part) for part in (seen.values() if isinstance(seen, dict) else seen)]
        if parts:
            return np.concatenate([part.ravel() for part in parts]).astype(np.float64)
    else:
        with contextlib.suppress(ValueError):  # lists of different lengths
            array = numpy_of(seen)
            if array.dtype.kind in "biuf":
                return array
    raise SimulatorError(
        f"{simulator!r} returned an observation of type {type(seen).__name__}. Observations must be arrays of numbers, "
        "or dicts or tuples of them. Convert them in observe(), or with a wrapper of the environment."
    )


@dataclass(frozen=True, eq=False)
class PairedRollouts:
    """Paired rollouts of a simulator: two actions from one state, then the policy, under shared randomness.

    Blocks are pure functions of the plan, the seed and their number, so results do not depend on the pool.
    """

    simulator: Simulator
    policy: Actor
    coupling: Coupling

    def __post_init__(self) -> None:
        paired_actions(self.simulator, self.coupling)
        if not isinstance(self.policy, Actor):
            raise PolicyError(f"policy is {short(self.policy)}. Use jmdp.as_policy(policy, simulator.actions).")

    def __call__(self, plan: WalkPlan, seed: int, block: int) -> PairWalks:
        """Simulate one block."""
        return plan.walk(self.simulator, self.policy, self.coupling, seed, block)

    def collect(
        self,
        plan: WalkPlan,
        *,
        seed: int,
        blocks: int,
        first: int = 0,
        pool: int | Pool | None = None,
        progress: bool = True,
    ) -> PairWalks:
        """Simulate blocks first … first + blocks − 1 of the paired rollouts with this seed, and concatenate them.

        A `pool` of workers, or a number of worker processes, simulates several blocks at the same time.
        """
        if not isinstance(plan, WalkPlan):
            raise SettingsError(f"plan is {short(plan)}. Give a jmdp.simulators.WalkPlan.")
        seed, first = whole_number("seed", seed, 0), whole_number("first", first, 0)
        numbers = range(first, first + whole_number("blocks", blocks, 1))
        found: list[PairWalks] = []
        with count_bar("blocks of rollouts", progress, 0, len(numbers)) as report, pool_of(pool) as workers:
            for walks in workers.ordered(self, ((plan, seed, block) for block in numbers)):
                found.append(walks)
                report(len(found))
        return PairWalks.joined(found)
