"""Compiled rollouts of JAX simulators: run `lockstep` for many samples on all devices, and sum the rewards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jmdp.base import settings
from jmdp.base.arrays import Floats
from jmdp.base.machine import cores
from jmdp.errors import PolicyError, SettingsError, SimulatorError
from jmdp.simulators.draws import ENDED, Draws, exact_gains, is_exact_sum
from jmdp.simulators.jax.lockstep import CHUNK, ChunkTotals, Lockstep, Seats

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
        self._last: tuple[list[Any], _BlockTotals] | None = None

    def draws(
        self, start: Any, parameters: Any, actions: npt.NDArray[np.int32], branches: Sequence[int], request: Request
    ) -> Draws:
        """Draw the requested samples of branches with these first actions and numbers."""
        discount, horizon, seed, first, count = vars(request).values()
        devices, samples = self._by_lane.num_devices, self.lanes // len(actions)
        asked = [discount, horizon, seed, *actions.tolist(), *branches, *jax.tree.leaves((start, parameters))]
        start, parameters = jax.device_put((start, parameters), self._everywhere)
        seats = jax.device_put(_seats(self.lanes, devices, actions, branches), self._by_lane)
        words = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
        block = _Block(start, parameters, seats, words, np.float64(discount) ** np.arange(horizon))

        def part(begin: int) -> Draws:
            totals = self._known(asked, begin)
            if totals is None:
                totals = _BlockTotals(devices, self.lanes, actions, begin)
                self._simulate(block, totals)
                if begin + samples * devices >= first + count:
                    self._last = asked, totals
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

    def _known(self, asked: list[Any], begin: int) -> _BlockTotals | None:
        """Return the previous block if it is the requested one, for callers that draw few samples at a time."""
        if self._last is None or self._last[1].begin != begin:
            return None
        before, known = self._last
        same = len(before) == len(asked) and all(map(_is_same, before, asked))
        return known if same else None

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
    return one is other or (isinstance(one, (int, float)) and isinstance(other, (int, float)) and one == other)


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
