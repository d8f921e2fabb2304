"""Compiled rollouts of JAX simulators: run `lockstep` for many samples on all devices, and sum the rewards."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jmdp.base import settings
from jmdp.base.arrays import Floats
from jmdp.errors import PolicyError, SettingsError, SimulatorError
from jmdp.simulators.jax.lockstep import CHUNK, ChunkTotals, Lockstep
from jmdp.simulators.simulator import ENDED, Draws, exact_gains, is_exact_sum

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


class CompiledRollouts:
    """Compiled lockstep rollouts, run for many samples on all devices.

    Sample k is always lane ``k % samples`` of a block of this size, in the same compiled program. So its result is
    bitwise independent of the number of requested samples and of devices. Rewards leave the devices step by step and
    are summed in double precision.
    """

    def __init__(self, lockstep: Lockstep, samples: int) -> None:
        self.lockstep = lockstep
        self.samples = samples  # per device
        mesh = Mesh(np.array(jax.local_devices()), ("samples",))
        everywhere, by_sample, lanes, steps = (
            PartitionSpec(*axes)  # type: ignore[no-untyped-call]
            for axes in ((), ("samples",), (None, "samples"), (None, None, "samples"))
        )
        totals: Any = [steps, *[lanes] * (len(ChunkTotals._fields) - 1)]
        self._everywhere, self._by_sample = NamedSharding(mesh, everywhere), NamedSharding(mesh, by_sample)
        self._begin = _on_all(mesh, lockstep.begin, (everywhere,) * 3 + (by_sample,), (by_sample, lanes))
        given = (by_sample, lanes, *(everywhere,) * 4)
        self._advance = _on_all(mesh, lockstep.advance, given, (lanes, ChunkTotals(*totals)))
        self._last: tuple[list[Any], _BlockTotals] | None = None

    def draws(self, start: Any, parameters: Any, actions: npt.NDArray[np.int32], request: Request) -> Draws:
        """Draw the requested samples."""
        discount, horizon, seed, first, count = vars(request).values()
        weights = np.float64(discount) ** np.arange(horizon)
        at_once = self.samples * self._by_sample.num_devices
        asked = [discount, horizon, seed, *actions.tolist()]
        leaves = jax.tree.leaves((start, parameters))
        placed = jax.device_put((start, parameters), self._everywhere)
        parts: list[Draws] = []
        begin = first - first % self.samples
        while begin < first + count:
            block = self._known(asked, leaves, begin)
            if block is None:
                numbers = (begin + np.arange(at_once)).astype(np.uint32)
                block = self._block(placed[0], placed[1], actions, weights, seed, numbers)
                self._last = [*asked, *leaves], block
            parts.append(block.draws(self.lockstep, slice(max(first - begin, 0), min(first + count - begin, at_once))))
            begin += at_once
        return Draws.joined(parts)

    def _known(self, asked: list[Any], leaves: list[Any], begin: int) -> _BlockTotals | None:
        """Return the previous block if it is the requested one, for callers that draw few samples at a time."""
        if self._last is None or self._last[1].samples[0] != begin:
            return None
        before = self._last[0]
        same = len(before) == len(asked) + len(leaves) and before[: len(asked)] == asked
        return self._last[1] if same and all(map(operator.is_, before[len(asked) :], leaves)) else None

    def _block(
        self, start: Any, parameters: Any, actions: npt.NDArray[np.int32], weights: Floats, seed: int,
        samples: npt.NDArray[np.uint32],
    ) -> _BlockTotals:  # fmt: skip
        words = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
        roots, lanes = self._begin(start, actions, words, jax.device_put(samples, self._by_sample))
        block = _BlockTotals(actions, samples)
        waiting: tuple[int, ChunkTotals] | None = None
        for t in range(0, weights.size, CHUNK):
            steps = np.int32(min(CHUNK, weights.size - t))
            lanes, totals = self._advance(roots, lanes, start, parameters, np.int32(t), steps)
            if waiting is not None:  # while the devices compute
                block.add(weights, *waiting)
            waiting = t, totals
            if not np.asarray(lanes.alive).any():
                break
        if waiting is not None:
            block.add(weights, *waiting)
        block.alive, block.action = np.asarray(lanes.alive).T, np.asarray(lanes.action).T
        block.place = _joined(*(np.asarray(half).T for half in lanes.place))
        return block


class _BlockTotals:
    """Sums over all steps, of all branches of a block of samples."""

    alive: npt.NDArray[np.bool_]  # [N, B], as the next two: state of the branches at the horizon
    action: npt.NDArray[np.int32]
    place: npt.NDArray[np.uint64]

    def __init__(self, actions: npt.NDArray[np.int32], samples: npt.NDArray[np.uint32]) -> None:
        self.actions, self.samples = actions, samples
        shape = actions.size, samples.size
        self.returns = np.zeros(shape)
        self.gains = np.zeros((2, *shape), np.uint32)
        self.exact = np.ones(shape, bool)
        self.largest = np.zeros(shape)
        self.steps, self.shared = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.fault = np.zeros(shape, bool)

    def add(self, weights: Floats, first: int, totals: ChunkTotals) -> None:
        """Add the totals of one call; rewards are added step by step in double precision."""
        for weight, reward in zip(weights[first:], np.asarray(totals.rewards), strict=False):
            before = self.returns
            self.returns = before + np.multiply(reward, weight, dtype=np.float64)
            self.exact &= (reward == 0) | ((weight == 1) & is_exact_sum(before, np.float64(reward), self.returns))
        for half in range(2):
            self.gains[half] += np.asarray(totals.gains[half])
        np.maximum(self.largest, totals.largest, out=self.largest)
        self.steps += np.asarray(totals.steps)  # otherwise the sum would become a JAX array
        self.shared += np.asarray(totals.shared)
        self.fault |= np.asarray(totals.fault)

    def draws(self, lockstep: Lockstep, rows: slice) -> Draws:
        """Draws of some of the samples; raise if the policy or a reward was invalid."""
        returns, fault = np.ascontiguousarray(self.returns.T[rows]), self.fault.T[rows]
        if fault.any():
            raise PolicyError(
                f"The policy returned invalid probabilities or an invalid action in {self._where(fault, rows)}. "
                f"Return {lockstep.actions} numbers ≥ 0 that sum to 1, or one integer from 0 to "
                f"{lockstep.actions - 1}. For logits, use jax.nn.softmax."
            )
        bad = ~np.isfinite(returns)
        if bad.any():
            raise SimulatorError(f"A reward is not finite in {self._where(bad, rows)}. Check the output of step.")
        shared = int(self.shared[:, rows].sum())
        steps = int(self.steps[:, rows].sum()) - shared
        gains = np.ascontiguousarray(_joined(*self.gains).T[rows]).view(np.int64)
        gains = exact_gains(gains, returns, self.exact.T[rows])
        ends = self._ends(lockstep.coupling.shared_in_a_state, rows)
        return Draws(returns, ends, gains, float(self.largest[:, rows].max()), steps, shared, True)

    def _ends(self, meet: bool, rows: slice) -> npt.NDArray[np.int64]:
        """For each sample and branch: the first branch in the same state with the same action."""
        alive, action, place = self.alive[rows], self.action[rows], self.place[rows]
        ends = np.tile(np.arange(alive.shape[1]), (len(alive), 1))
        for i in reversed(range(alive.shape[1] if meet else 0)):
            ends = np.where((place == place[:, [i]]) & (action == action[:, [i]]) & alive[:, [i]], i, ends)
        return np.where(alive, ends, ENDED)

    def _where(self, bad: npt.NDArray[np.bool_], rows: slice) -> str:
        n, i = np.argwhere(bad)[0]
        return f"sample {self.samples[rows][n]}, in the branch with first action {self.actions[i]}"


def _on_all(mesh: Mesh, function: Callable[..., Any], given: Any, returned: Any) -> Callable[..., Any]:
    """Compile a function; if there are several devices, each runs the same program on its own samples."""
    if mesh.size > 1:
        new = hasattr(jax, "shard_map")
        shard_map: Any = jax.shard_map if new else import_module("jax.experimental.shard_map").shard_map
        unchecked = {"check_vma" if new else "check_rep": False}
        function = shard_map(function, mesh=mesh, in_specs=given, out_specs=returned, **unchecked)
    return jax.jit(function)


def samples_at_once(start: Any, branches: int, lanes: int) -> int:
    """Number of samples that a device simulates at once. It depends on constants only, such as the size of a state."""
    size = 64 + sum(int(leaf.nbytes) for leaf in jax.tree.leaves(start))
    most = max(1, min(lanes, MOST_STATE_BYTES.get(jax.default_backend(), 2**27) // size) // branches)
    return most if most < 16 else most - most % 16


def _joined(high: npt.NDArray[np.uint32], low: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    return (high.astype(np.uint64) << np.uint64(32)) | low
