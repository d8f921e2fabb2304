"""Compiled rollouts of JAX simulators: run `lockstep` for many samples on all devices, and sum the rewards.

Compiled episodes of several policies on a JAX simulator: `lockstep` with random starts and one policy per branch.

Keys are those of `lockstep`, with two more words of a sample: w(2³² − 2) for its start and w(2³² − 1) for the first
action. Branches of different policies do not merge: a policy's uniform number uses the number of its own branch, unless
policy_luck="shared". Random numbers that are redrawn (`fresh`) have their words XORed with constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jmdp.base import settings
from jmdp.base.arrays import Floats
from jmdp.base.machine import cores
from jmdp.errors import PolicyError, SettingsError, SimulatorError
from jmdp.simulators.adapters.jax.lockstep import (
    CHUNK,
    ChunkTotals,
    Lanes,
    Lockstep,
    Seats,
    WordPair,
    branch_words,
    key_of,
)
from jmdp.simulators.rollouts.draws import ENDED, Draws, EpisodeDraws, exact_gains, is_exact_sum
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.starts import GOLDEN

MOST_STATE_BYTES = {"cpu": 2**19}
"""Bytes of all simulated states per device, by backend: on a CPU they fit into the cache; otherwise 2²⁷."""


@dataclass(frozen=True)
class Request:
    """Numbers of the requested samples, and the settings that they depend on."""

    discount: float
    horizon: int
    seed: int
    first: int
    count: int

    def __post_init__(self) -> None:
        settings.nonnegative(self, "discount")
        if self.discount > 1:
            raise SettingsError(f"discount is {self.discount!r}. Give a number from 0 to 1.")
        settings.whole(self, "horizon", 1, 2**31 - 64)
        settings.whole(self, "seed", 0, 2**64 - 1)
        settings.whole(self, "first", 0, 2**31)
        settings.whole(self, "count", 1, 2**31 - self.first)


class _Block(NamedTuple):
    """Arguments of the compiled functions that all blocks of a call share."""

    start: Any
    parameters: Any
    seats: Seats
    seed: npt.NDArray[np.uint32]  # two words
    weights: Floats


class CompiledRollouts:
    """Compiled lockstep rollouts, run for many samples on all devices.

    Sample k is always at the same position ``k % samples`` of a block, and the same compiled program simulates any
    number of branches. So its result is bitwise independent of the number of requested samples and of devices, and
    nothing is compiled again when fewer branches are requested. Rewards leave the devices step by step and are summed
    in double precision. On a CPU, blocks are simulated by as many threads as there are cores, because the operations of
    one block are too small for several.
    """

    def __init__(self, lockstep: Lockstep, lanes: int) -> None:
        self.lockstep = lockstep
        self.lanes = lanes  # per device
        mesh = Mesh(np.array(jax.local_devices()), ("lanes",))
        everywhere, by_lane, steps = (
            PartitionSpec(*axes)  # type: ignore[no-untyped-call]
            for axes in ((), ("lanes",), (None, "lanes"))
        )
        totals: Any = [steps, *[by_lane] * (len(ChunkTotals._fields) - 1)]
        self._everywhere, self._by_lane = NamedSharding(mesh, everywhere), NamedSharding(mesh, by_lane)
        given: Any = (everywhere, by_lane, everywhere, everywhere)
        self._begin = _on_all(mesh, lockstep.begin, given, (by_lane, by_lane))
        given = (*(by_lane,) * 3, *(everywhere,) * 4)
        self._advance = _on_all(mesh, lockstep.advance, given, (by_lane, ChunkTotals(*totals)), donated=0)
        self._threads = cores() if mesh.size == 1 and jax.default_backend() == "cpu" else 1
        self._compiled = False
        self._last: tuple[list[Any], _Block, _BlockTotals] | None = None

    def draws(
        self, start: Any, parameters: Any, actions: npt.NDArray[np.int32], branches: Sequence[int], request: Request
    ) -> Draws:
        """Draw the requested samples of branches with these first actions and numbers."""
        discount, horizon, seed, first, count = vars(request).values()
        devices, samples = self._by_lane.num_devices, self.lanes // len(actions)
        leaves, tree = jax.tree.flatten((start, parameters))
        asked = [tree, discount, horizon, seed, *actions.tolist(), *branches, *leaves]
        last = self._last  # for callers that draw few samples at a time
        if last is not None and not (len(last[0]) == len(asked) and all(map(_is_same, last[0], asked))):
            last = None

        @cache  # the samples may be in the previous block
        def block() -> _Block:
            if last is not None:
                return last[1]
            state, given = jax.device_put((start, parameters), self._everywhere)
            seats = jax.device_put(_seats(self.lanes, devices, actions, branches), self._by_lane)
            words = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
            return _Block(state, given, seats, words, np.float64(discount) ** np.arange(horizon))

        def part(begin: int) -> Draws:
            if last is not None and last[2].begin == begin:
                totals = last[2]
            else:
                totals = _BlockTotals(devices, self.lanes, actions, begin)
                self._simulate(block(), totals)
                if begin + samples * devices >= first + count:
                    self._last = asked, block(), totals
            return totals.draws(self.lockstep.actions, slice(max(first - begin, 0), first + count - begin))

        begins = range(first - first % samples, first + count, samples * devices)
        return Draws.joined(list(self._all(part, begins)))

    def _all(self, part: Callable[[int], Draws], begins: Sequence[int]) -> Iterator[Draws]:
        """Parts of the draws, in their order."""
        if not self._compiled:  # by one thread only
            yield part(begins[0])
            self._compiled, begins = True, begins[1:]
        if len(begins) <= 1 or self._threads == 1:
            yield from map(part, begins)
            return
        pool = ThreadPoolExecutor(self._threads)
        try:
            yield from pool.map(part, begins)
        finally:
            pool.shutdown(cancel_futures=True)  # after an error or an interrupt

    def _simulate(self, block: _Block, totals: _BlockTotals) -> None:
        """Simulate all samples of a block."""
        start, parameters, seats, seed, weights = block
        roots, lanes = self._begin(start, seats, seed, np.uint32(totals.begin))
        waiting: tuple[int, ChunkTotals] | None = None
        for t in range(0, weights.size, CHUNK):
            steps = np.int32(min(CHUNK, weights.size - t))
            lanes, chunk = self._advance(lanes, seats, roots, start, parameters, np.int32(t), steps)
            if waiting is not None:  # while the devices compute
                totals.add(weights, *waiting)
            waiting = t, chunk
            if (np.asarray(chunk.ends) == ENDED).all():
                break
        assert waiting is not None
        totals.add(weights, *waiting)


class _BlockTotals:
    """Sums over all steps, of all lanes of a block of samples."""

    ends: npt.NDArray[np.int32]

    def __init__(self, devices: int, lanes: int, actions: npt.NDArray[np.int32], begin: int) -> None:
        self.devices, self.actions, self.begin = devices, actions, begin
        n = devices * lanes
        self.returns, self.largest = np.zeros(n), np.zeros(n)
        self.gains = np.zeros((2, n), np.uint32)
        self.steps, self.shared = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.exact, self.fault = np.ones(n, bool), np.zeros(n, bool)

    def add(self, weights: Floats, first: int, chunk: ChunkTotals) -> None:
        """Add the totals of one call; rewards are added step by step in double precision."""
        weight = weights[first : first + CHUNK, None]
        rewards = np.asarray(chunk.rewards)[: len(weight)]
        running = np.concatenate([self.returns[None], weight * rewards])
        np.add.accumulate(running, axis=0, out=running)
        n = int((weight == 1).sum())  # the first step, or all of them
        plain = is_exact_sum(running[:n], rewards[:n].astype(np.float64), running[1 : n + 1])
        self.exact &= plain.all(0) & ~rewards[n:].any(0)
        self.returns = running[-1].copy()  # a view would keep all of `running`
        self.gains += np.stack([np.asarray(half) for half in chunk.gains])
        np.maximum(self.largest, np.asarray(chunk.largest), out=self.largest)
        self.steps += np.asarray(chunk.steps)
        self.shared += np.asarray(chunk.shared)
        self.fault |= np.asarray(chunk.fault)
        self.ends = np.asarray(chunk.ends)

    def draws(self, actions: int, rows: slice) -> Draws:
        """Draws of some of the samples; raise if the policy, which has so many actions, or a reward was invalid."""

        def of(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
            """Values [n, B] of the requested samples."""
            used = values.reshape(self.devices, -1)[:, : self._samples * self.actions.size]
            return np.ascontiguousarray(used.reshape(-1, self.actions.size)[rows])

        fault, returns = of(self.fault), of(self.returns)
        if fault.any():
            raise PolicyError(
                f"The policy returned invalid probabilities or an invalid action in {self._where(fault, rows)}. "
                f"Return {actions} numbers ≥ 0 that sum to 1, or one integer from 0 to {actions - 1}. For logits, use "
                "jax.nn.softmax."
            )
        bad = ~np.isfinite(returns)
        if bad.any():
            raise SimulatorError(f"A reward is not finite in {self._where(bad, rows)}. Check the output of step.")
        gains = (self.gains[0].astype(np.uint64) << np.uint64(32)) | self.gains[1]
        gains = exact_gains(of(gains).view(np.int64), returns, of(self.exact))
        steps, shared = int(of(self.steps).sum()), int(of(self.shared).sum())
        ends = of(self.ends).astype(np.int64)
        return Draws(returns, ends, gains, float(of(self.largest).max()), steps - shared, shared, True)

    @property
    def _samples(self) -> int:
        return self.returns.size // self.devices // self.actions.size

    def _where(self, bad: npt.NDArray[np.bool_], rows: slice) -> str:
        n, i = np.argwhere(bad)[0]
        return f"sample {self.begin + rows.start + n}, in the branch with first action {self.actions[i]}"


def _seats(lanes: int, devices: int, actions: npt.NDArray[np.int32], branches: Sequence[int]) -> Seats:
    """Seats of the lanes of all devices, which simulate as many samples as possible, one after another."""
    samples, lane = lanes // actions.size, np.arange(lanes)
    used = lane < samples * actions.size
    position = np.where(used, lane % actions.size, -1).astype(np.int32)
    sample = (np.arange(devices)[:, None] * samples + lane // actions.size).astype(np.uint32)
    alike = (
        np.tile(values, devices) for values in (position, np.array(branches, np.uint32)[position], actions[position])
    )
    return Seats(sample.ravel(), *alike)


def _is_same(one: Any, other: Any) -> bool:
    plain = int, float, jax.tree_util.PyTreeDef
    return one is other or (isinstance(one, plain) and isinstance(other, plain) and one == other)


def _on_all(
    mesh: Mesh, function: Callable[..., Any], given: Any, returned: Any, donated: int | None = None
) -> Callable[..., Any]:
    """Compile a function; if there are several devices, each runs the same program on its own lanes."""
    if mesh.size > 1:
        new = hasattr(jax, "shard_map")
        shard_map: Any = jax.shard_map if new else import_module("jax.experimental.shard_map").shard_map
        unchecked = {"check_vma" if new else "check_rep": False}
        function = shard_map(function, mesh=mesh, in_specs=given, out_specs=returned, **unchecked)
    return jax.jit(function, donate_argnums=donated)


def lanes_at_once(start: Any, branches: int, lanes: int) -> int:
    """Number of lanes that a device simulates at once. It depends on constants only, such as the size of a state."""
    size = 64 + sum(int(leaf.nbytes) for leaf in jax.tree.leaves(start))
    most = min(lanes, MOST_STATE_BYTES.get(jax.default_backend(), 2**27) // size)
    return max(branches, most if most < 16 else most - most % 16)


_START, _FIRST_CHOICE = np.uint32(2**32 - 2), np.uint32(2**32 - 1)
_FRESH = np.uint32(0xA3C59AC3), np.uint32(0x6C8E9CF5)


@dataclass(frozen=True)
class EpisodeLockstep(Lockstep):
    """Lockstep simulation in which branch i follows policy i, from a random start of each sample."""

    policies: Sequence[Callable[[Any], Any]] = ()  # functions of an observation
    draw_start: Callable[[Any, Any], Any] = field(default=lambda key, sample: key)  # of a key and a sample's number
    fresh: frozenset[str] = frozenset()

    def begin(self, start: Any, seats: Seats, seed: jax.Array, sample: jax.Array) -> tuple[jax.Array, Lanes]:
        """Root keys [L], and all branches at the start of their sample with their first actions."""
        roots = self._roots(seats, seed, sample)
        drawn = jax.vmap(self.draw_start)(self.start_keys(roots, seats.branch), sample + seats.sample)
        state = jax.tree.map(lambda leaf, like: leaf.astype(like.dtype) if leaf.dtype != like.dtype else leaf,
                             drawn, start)  # fmt: skip
        action, _ = self._choose(self._words(roots, _FIRST_CHOICE), seats.branch, state, None)
        return roots, self._lanes(state, action, seats.position >= 0)

    def start_keys(self, roots: jax.Array, branches: jax.Array) -> jax.Array:
        """Keys [L] of the starts, equal for all branches of a sample unless the coupling is independent."""
        w = self._words(roots, _START)
        if not self.coupling.shared_in_a_state:
            e = branch_words(branches)
            w = w[0] ^ e[0], w[1] ^ e[1]
        return key_of(jnp.stack(w, -1))

    def _numbers(self, lanes: Lanes, seats: Seats) -> WordPair:
        return super()._numbers(lanes, seats)[0], seats.branch

    def _environment(self, w: WordPair, lanes: Lanes, numbers: jax.Array) -> tuple[jax.Array, Any, jax.Array]:
        return super()._environment(self._anew(w, "steps"), lanes, numbers)

    def _choose(self, w: WordPair, numbers: jax.Array, state: Any, parameters: Any) -> tuple[jax.Array, jax.Array]:
        """Next action of each branch by its own policy, and a mask of invalid ones."""
        w, B = self._anew(w, "policies"), len(self.policies)
        found = []
        for i, policy in enumerate(self.policies):  # lanes i, i + B, i + 2B, …
            mine = jax.tree.map(lambda leaf, i=i: leaf[i::B], (w, numbers, state))
            given = jax.vmap(lambda s, policy=policy: policy(self.observe(s)))(mine[2])
            found.append(self._chosen(given, *mine[:2]))
        action, fault = (jnp.stack(parts, 1).reshape(-1) for parts in zip(*found, strict=True))
        return action, fault

    def _anew(self, w: WordPair, luck: str) -> WordPair:
        return (w[0] ^ _FRESH[0], w[1] ^ _FRESH[1]) if luck in self.fresh else w


class CompiledEpisodes:
    """Compiled episodes of one plan."""

    def __init__(self, lockstep: EpisodeLockstep, plan: BranchPlan, example: Any, lanes: int) -> None:
        self._plan, self._example, self._lockstep = plan, example, lockstep
        self._program = CompiledRollouts(lockstep, lanes - lanes % lockstep.branches)
        self._numbers = jax.jit(self._start_numbers)

    def draw(self, first: int, count: int) -> EpisodeDraws:
        """Draw samples first … first + count − 1."""
        plan, which = self._plan, np.arange(len(self._plan.actors), dtype=np.int32)
        request = Request(plan.discount, plan.horizon, plan.seed, first, count)
        drawn = self._program.draws(self._example, None, which, plan.branches, request)
        starts = np.full(drawn.ends.shape, -1)
        if plan.starts.given:
            words = np.array([plan.seed >> 32, plan.seed & 0xFFFFFFFF], np.uint32)
            samples = np.arange(first, first + count, dtype=np.uint32)
            starts = np.stack([np.asarray(self._numbers(words, samples, branch)) for branch in plan.branches], 1)
        return EpisodeDraws(
            drawn.returns,
            drawn.ends,
            drawn.gains,
            drawn.largest_reward,
            drawn.steps,
            0,
            True,
            starts.astype(np.int64),
            count,
        )

    def _start_numbers(self, seed: jax.Array, samples: jax.Array, branch: jax.Array) -> jax.Array:
        roots = jax.vmap(lambda sample: jax.random.fold_in(key_of(seed), sample))(samples)
        keys = self._lockstep.start_keys(roots, jnp.broadcast_to(branch, samples.shape))
        numbers: jax.Array = jax.vmap(start_number(self._plan))(keys, samples)
        return numbers


def start_number(plan: BranchPlan) -> Callable[[Any, Any], Any]:
    """Function of a key and the number of a sample: the index of its start state."""
    starts = plan.starts
    inner = np.asarray(starts.cumulative[:-1], np.float32)
    (order, offset), (whole, part) = starts.order(plan.seed), np.divmod(starts.edges, np.uint64(2**32))
    places, wholes, parts = (np.asarray(x, np.uint32) for x in (order, whole, part))

    def drawn(key: Any, sample: Any) -> Any:
        return (jax.random.uniform(key) >= inner).sum()

    def in_shares(key: Any, sample: Any) -> Any:  # as in `Starts.in_shares`, with words of 32 bits
        k = jnp.asarray(places)[sample % np.uint32(order.size)]
        f = np.uint32(offset) + sample // np.uint32(order.size) * np.uint32(GOLDEN)
        return ((wholes < k) | ((wholes == k) & (parts <= f))).sum()

    return in_shares if plan.stratify else drawn
