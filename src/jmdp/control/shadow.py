"""The problem behind control: the new policy, the incumbent's shadow beside it, and the gap so far.

Under `Synchronous()` both see the same scenarios, so the state t in which the incumbent would be is known while the new
policy acts in s. With g the discounted gap so far, E[u(G)] of a non-decreasing utility u is a dynamic programme on
(step, s, t, g), whose optimum is global over all policies that act on the start, earlier scenarios and own coins.

Gaps are counted in cells. If the discount is 1 and rewards lie on a lattice, a cell is its step and nothing is rounded.
Otherwise the policy tracks a gap whose increments are rounded down, so its value is a lower bound; the programme with
increments rounded up gives an upper bound of all policies. An increment of 0 is not rounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import ROUNDOFF, Floats, Integers
from jmdp.base.interval import Estimate
from jmdp.base.machine import budget, require
from jmdp.base.settings import number, short
from jmdp.control import shadow_kernel as kernel
from jmdp.errors import CouplingError, ModelError, PolicyError
from jmdp.models.coupling import Coupling, Synchronous
from jmdp.models.policy import policy_steps
from jmdp.models.tabular import Horizon, TabularJMDP, horizon_model
from jmdp.simulators.adapters.functions import TabularSimulator
from jmdp.simulators.starts import Starts

TAIL = 0.05
"""The worst outcomes whose mean is stated."""

_WORK = 2e9
"""Most products of a rounded programme; the cells are as small as this allows."""

_MOST_CELLS = 1e9
"""A lattice with more cells, over all steps and pairs, is too fine: gaps are rounded."""


@dataclass(frozen=True)
class Utility:
    """u(G) = G − weight × max(0, kink − G) − loss × 1{G < kink}."""

    weight: float = 0.0
    loss: float = 0.0
    kink: int = 0  # in cells


@dataclass(frozen=True)
class Statistics:
    """What is said about the gap G between a policy and the incumbent."""

    gain: Estimate  # E[G]
    shortfall: Estimate  # E[max(0, −G)]
    chance: Estimate  # P(G < 0)
    worst: Estimate  # mean of the worst 5% of G
    equal: Estimate  # P(G = 0)
    barely: Estimate  # P(0 < G ≤ a tenth of the largest gain)


@dataclass(frozen=True, eq=False)
class Cells:
    """The steps of a programme with one rounding: increments, and the cells that the gap so far can reach."""

    rounding: int
    scale: Floats  # [H + 1], cells in a unit at each step; the last is of the terminal value
    past: list[tuple[Integers, Integers, Integers]]  # low, count and first [P] of each step 0 … H
    least: list[Integers]  # [P] of each step, the rest of the gap in cells
    most: list[Integers]

    @property
    def total(self) -> int:
        """Number of all cells."""
        return sum(int(count.sum()) for _, count, _ in self.past)


@dataclass(frozen=True, eq=False)
class ShadowActions:
    """Actions of a policy by step, state, shadow and cell of the gap so far; elsewhere those of the largest gain."""

    tables: list[kernel.Table]
    actions: list[npt.NDArray[np.int16]]  # flat, of each step
    outside: Integers  # [H, S]
    cell: float
    value: float  # of the utility
    error: float  # by rounding of floats, and by choosing the first of nearly equal actions

    def at(self, step: int, s: int, t: int, gap: int) -> int:
        """The action, for a gap in cells."""
        index, low, count, first = self.tables[step]
        i = index[s, t]
        if i >= 0 and 0 <= gap - low[i] < count[i]:
            return int(self.actions[step][first[i] + gap - low[i]])
        return int(self.outside[step, s])


class Problem:
    """Model, incumbent, horizon and starts, with the pairs (state, shadow) that can be reached in each step."""

    def __init__(
        self,
        model: Any,
        incumbent: Any,
        *,
        horizon: Any,
        terminal_value: Any = None,
        discount: Any = None,
        starts: Any = None,
        tie_tolerance: Any = None,
        coupling: Any = None,
        like: Problem | None = None,
    ) -> None:
        if not isinstance(model, TabularJMDP):
            raise ModelError(
                f"model is a {type(model).__name__}. Control needs a table: TabularJMDP, or jmdp.tabulate."
            )
        _check_coupling(coupling, model)
        over = Horizon.of(model, horizon, terminal_value)
        self.model, self.steps, self.final = model, over.steps, over.final
        self.discount = horizon_model(model, discount).discount
        tables = policy_steps(incumbent, model, self.steps)
        for h, table in enumerate(tables):
            if not (table.certain | model.terminal).all():
                s = int(np.flatnonzero(~(table.certain | model.terminal))[0])
                raise PolicyError(
                    f"The incumbent draws its action at random in state {model.states.name(s)} (step {h}). What "
                    "it would have drawn is not known while another policy acts. Give one action for each state."
                )
        self.given = np.array([table.probs.argmax(axis=1) for table in tables])  # [H, S]
        found = Starts.of(starts, TabularSimulator(model))
        self.start = np.zeros(model.shape[0])
        self.start[list(found.states)] = found.probabilities
        alive = np.flatnonzero(~model.terminal)
        prob = model.prob[alive[0]] if alive.size else model.prob[0]
        self.scenarios = np.flatnonzero(prob > 0)
        self.p = prob[self.scenarios]
        self.reward = np.ascontiguousarray(model.reward[:, self.scenarios])
        self.next_state = np.ascontiguousarray(model.next_state[:, self.scenarios])
        if self.scenarios.size < prob.size or model.terminal.any():
            self.reward[model.terminal] = 0.0
            self.next_state[model.terminal] = np.flatnonzero(model.terminal)[:, None, None]
        self.same = self._classes()
        self.incumbent = np.take_along_axis(self.same[None], self.given[:, :, None], axis=2)[:, :, 0]
        self.distinct = self.same == np.arange(model.shape[2])
        size = max(model.reward_bound, float(np.abs(self.final).max()))
        tolerance = 1e-9 * size if tie_tolerance is None else number("tie_tolerance", tie_tolerance, 0)
        self.tie_tolerance = tolerance
        self.near = 1e-9 * size  # rewards that differ by less are equal up to rounding
        self.cell = 0.0
        self._explore()
        self._set_cells(like)

    def _classes(self) -> Integers:
        """First action [S, A] with the same outcomes; the incumbent's of step 0 comes first."""
        S, _, A = self.reward.shape
        same = np.tile(np.arange(A), (S, 1))
        rows = np.concatenate([self.reward, self.next_state.astype(np.float64)], axis=1)  # [S, 2K, A]
        for a in range(A - 1, -1, -1):
            equal = (rows == rows[:, :, a : a + 1]).all(axis=1)  # [S, A]
            same[equal] = np.broadcast_to(a, same.shape)[equal]
        own = self.given[0]
        of_own = same == np.take_along_axis(same, own[:, None], axis=1)
        return np.where(of_own, own[:, None], same)

    def _explore(self) -> None:
        """Find the pairs of each step."""
        S, K, _A = self.reward.shape
        need = (self.steps + 1) * 8.0 * S * S
        require(need, budget(None), "The pairs of states and shadows", "Give a shorter horizon or a smaller table.")
        at = np.flatnonzero(self.start > 0)
        index = np.full((S, S), -1)
        index[at, at] = np.arange(at.size)
        self.pairs, self.index, self.ways = [(at, at.copy())], [index], 0
        for h in range(self.steps):
            index = np.full((S, S), -1)
            s, t, ways = kernel.reached(
                self.kernel_model(self.reward), (*self.pairs[h], self.incumbent[h], 1.0, 0), index
            )
            self.pairs.append((s, t))
            self.index.append(index)
            self.ways += ways + K + 4

    def kernel_model(self, reward: Floats) -> kernel.Model:
        """Probabilities, these rewards, next states and distinct actions, for kernels."""
        return self.p, reward, self.next_state, self.distinct

    def _set_cells(self, like: Problem | None) -> None:
        """Choose the cell of the gap: the step of the lattice of rewards, or as small as the work allows."""
        H, powers = self.steps, np.asarray(self.discount ** np.arange(self.steps + 1), np.float64)
        unit: float = _lattice([self.reward, self.final]) if like is None else like.cell
        self.units, self.final_units, self.unit, self.deviation = self.reward, self.final, 1.0, 0.0
        if unit:
            units, final = (np.rint((x - x.min()) / unit) for x in (self.reward, self.final))
            off = [
                float(np.abs(x - x.min() - unit * n).max() + 8 * ROUNDOFF * np.abs(x).max())
                for x, n in ((self.reward, units), (self.final, final))
            ]
            deviation = 2 * (off[0] * float(powers[:-1].sum()) + off[1] * float(powers[-1]))
            if deviation <= self.tie_tolerance and unit > 2 * self.tie_tolerance:
                self.units, self.final_units, self.unit, self.deviation = units, final, unit, deviation
            else:
                unit = 0.0
        self.exact = bool(unit) and self.discount == 1.0
        if self.exact:
            self.cell = unit
            self.down = self.up = self._cells(0, np.ones(H + 1))
            if self.down.total <= _MOST_CELLS or like is not None:
                return
            self.exact = False
        if like is not None:
            self.cell = like.cell
        else:
            _S, K, A = self.reward.shape
            span = 1024
            self.cell = self._largest_gap() / span
            coarse = self._cells(-1, powers * (self.unit / self.cell))
            self.cell *= max(coarse.total * K * A / _WORK, 2.0**-5) if self.cell else 1.0
        if not self.cell:  # all actions earn the same
            self.cell, self.exact = 1.0, True
            self.down = self.up = self._cells(0, np.ones(H + 1))
            return
        self.down, self.up = (self._cells(mode, powers * (self.unit / self.cell)) for mode in (-1, 1))

    def _largest_gap(self) -> float:
        powers = self.discount ** np.arange(self.steps + 1)
        return float(np.ptp(self.reward) * powers[:-1].sum() + np.ptp(self.final) * powers[-1])

    def _step(self, h: int, cells: Cells) -> kernel.Step:
        return (*self.pairs[h], self.incumbent[h], float(cells.scale[h]), cells.rounding)

    def _cells(self, rounding: int, scale: Floats) -> Cells:
        H, model = self.steps, self.kernel_model(self.units)
        least, most = np.zeros(self.pairs[0][0].size, np.int64), np.zeros(self.pairs[0][0].size, np.int64)
        cells = Cells(rounding, scale, [_table(least, most)], [], [])
        for h in range(H):
            size = self.pairs[h + 1][0].size
            later_least, later_most = np.full(size, 1 << 60), np.full(size, -(1 << 60))
            kernel.past_ranges(model, self._step(h, cells), self.index[h + 1], least, most, later_least, later_most)
            least, most = later_least, later_most
            cells.past.append(_table(least, most))
        low, high = (self.last_increments(cells, mode if rounding else 0) for mode in (-1, 1))
        ranges = [(low, high)]
        for h in range(H - 1, -1, -1):
            low, high = (np.empty(self.pairs[h][0].size, np.int64) for _ in range(2))
            kernel.future_ranges(model, self._step(h, cells), self.index[h + 1], *ranges[-1], low, high)
            ranges.append((low, high))
        cells.least.extend(low for low, _ in reversed(ranges))
        cells.most.extend(high for _, high in reversed(ranges))
        return cells

    def last_increments(self, cells: Cells, rounding: int) -> Integers:
        """Differences of terminal values [P of the last step], in cells."""
        s, t = self.pairs[-1]
        x = (self.final_units[s] - self.final_units[t]) * float(cells.scale[-1])
        near = np.abs(x) * 1e-12
        found = np.rint(x) if rounding == 0 else np.floor(x - near) if rounding < 0 else np.ceil(x + near)
        return found.astype(np.int64)

    @cached_property
    def best(self) -> tuple[Floats, Integers, Floats]:
        """Largest mean values [H + 1, S], the actions [H, S] that reach them, and the incumbent's values [H + 1, S]."""
        H, S = self.incumbent.shape
        largest, own = np.empty((H + 1, S)), np.empty((H + 1, S))
        actions = np.empty((H, S), np.int64)
        largest[H] = own[H] = self.final
        everyone = np.arange(S)
        for h in range(H - 1, -1, -1):
            q = np.einsum("k,ska->sa", self.p, self.reward + self.discount * largest[h + 1][self.next_state])
            b = self.incumbent[h]
            margin = 1e-13 * np.abs(q).max()
            q[~self.distinct] = -np.inf
            top = q.max(axis=1)
            first = q.argmax(axis=1)
            actions[h] = np.where(q[everyone, b] >= top - margin, b, first)
            largest[h] = np.maximum(q[everyone, actions[h]], q[everyone, b])
            after = own[h + 1][self.next_state[everyone, :, b]]
            own[h] = (self.reward[everyone, :, b] + self.discount * after) @ self.p
        return largest, actions, own

    @property
    def largest_gain(self) -> float:
        """Largest E[G] of all policies."""
        largest, _, own = self.best
        return float(self.start @ (largest[0] - own[0]))

    def fixed(self, acting: Integers) -> ShadowActions:
        """A policy that takes these actions [H, S] and looks at neither shadow nor gap."""
        empty = np.zeros(0, np.int64)
        table = np.full((self.start.size,) * 2, -1), empty, empty, empty
        nothing = [np.zeros(0, np.int16)] * self.steps
        return ShadowActions([table] * self.steps, nothing, acting, self.cell, 0.0, 0.0)

    def increment(self, h: int, s: int, t: int, k: int, a: int) -> int:
        """Change of the tracked gap, in cells, in scenario k of those that can happen."""
        difference = float(self.units[s, k, a] - self.units[t, k, int(self.incumbent[h, t])])
        return int(kernel.cells(difference, float(self.down.scale[h]), self.down.rounding))

    def upper_value(self, utility: Utility, solved: ShadowActions) -> float:
        """Upper bound of the utility of all policies, of which `solved` is the best up to rounding."""
        found = solved if self.exact else self.solve(utility, upper=True)
        return found.value + found.error

    def solve(self, utility: Utility, *, upper: bool = False) -> ShadowActions:
        """Maximise the utility with increments rounded down, or up for the value that no policy exceeds."""
        cells = self.up if upper else self.down
        largest, outside, own = self.best
        model, H = self.kernel_model(self.units), self.steps
        cell = self.cell
        slope, loss = 1 + utility.weight, utility.loss + utility.weight * utility.kink * cell
        extent = max(int(np.abs(x).max()) for x in (*cells.least, *cells.most))
        size = slope * (2 * extent + abs(utility.kink)) * cell + utility.loss
        margin = 1e-12 * size
        powers = self.discount ** np.arange(H + 1)

        def rest(h: int) -> Floats:
            s, t = self.pairs[h]
            return np.asarray(powers[h] * (largest[h][s] - own[h][t]))

        def table(h: int) -> kernel.Table:
            low, count, _ = cells.past[h]
            start = np.maximum(utility.kink - cells.most[h], low)
            end = np.minimum(utility.kink - cells.least[h], low + count)
            n = np.maximum(end - start, 0)
            return self.index[h], start, n, np.cumsum(n) - n

        tables = [table(h) for h in range(H + 1)]
        last = tables[H]
        inside = np.repeat(self.last_increments(cells, cells.rounding) + last[1] - last[3], last[2])
        z = inside + np.arange(inside.size)
        value = np.where(z < utility.kink, slope * cell * z - loss, cell * z)
        later_rest, actions = rest(H), []
        for h in range(H - 1, -1, -1):
            total = int(tables[h][2].sum())
            result, chosen = np.empty(total), np.empty(total, np.int16)
            given = (cell, slope, loss, margin)
            later = (*tables[h + 1], value, later_rest)
            kernel.backward(model, self._step(h, cells), tables[h], later, given, result, chosen)
            value, later_rest = result, rest(h)
            actions.append(chosen)
        _, low, count, first = tables[0]
        at = np.array([
            value[f] if n > 0 and lo == 0 else slope * w - loss if lo > 0 else w
            for lo, n, f, w in zip(low.tolist(), count.tolist(), first.tolist(), later_rest.tolist(), strict=True)
        ])  # fmt: skip
        found = math.fsum(self.start[self.pairs[0][0]] * at)
        error = H * ((self.p.size + 8) * 4 * ROUNDOFF + self.model.prob_error) * size + H * margin
        return ShadowActions(tables, actions[::-1], outside, cell, found, error + slope * self.deviation)

    def statistics(self, policy: ShadowActions, barely: float = 0.0) -> Statistics:
        """Exact statistics of the gap under a policy, which may be that of another problem with the same cells."""
        cells, H = self.down, self.steps
        model = self.kernel_model(self.units)
        powers = self.discount ** np.arange(H + 1)
        mass = self.start[self.pairs[0][0]].copy()
        gains, sizes = [], []
        for h in range(H):
            result = np.zeros(int(cells.past[h + 1][1].sum()))
            later = (self.index[h + 1], *cells.past[h + 1])
            chosen = (*policy.tables[h], policy.actions[h], policy.outside[h])
            gain, size = kernel.forward(
                model, self._step(h, cells), self.reward * powers[h], cells.past[h], mass, later, chosen, result
            )
            gains.append(gain)
            sizes.append(size)
            mass = result
        low, count, first = cells.past[H]
        s, t = self.pairs[H]
        last = powers[H] * (self.final[s] - self.final[t])
        held = np.add.reduceat(np.append(mass, 0.0), first) if mass.size else mass
        gains.append(math.fsum(held * last))
        sizes.append(math.fsum(held * np.abs(last)))
        places = np.repeat(low + self.last_increments(cells, cells.rounding) - first, count) + np.arange(mass.size)
        kept = mass > 0
        places, mass = places[kept], mass[kept]
        least = int(places.min())
        z = np.arange(least, int(places.max()) + 1)
        return self._summary(
            z, np.bincount(places - least, mass).astype(np.float64), math.fsum(gains), math.fsum(sizes), barely
        )

    def _summary(self, z: Integers, mass: Floats, gain: float, size: float, barely: float) -> Statistics:
        """Estimates from the distribution of the tracked gap, z in cells, and the exact mean of the gap."""
        H, K, A = self.steps, *self.reward.shape[1:]
        share = (self.ways + 2 * K + 64) * 1.2 * ROUNDOFF + 1.2 * H * self.model.prob_error  # relative error of masses
        adding = (max(s.size for s, _ in self.pairs) * K * A + H + 8) * 1.2 * ROUNDOFF
        exact_gain = Estimate.around(gain, size * (share + adding + self.p.size * ROUNDOFF))
        g = np.asarray(z * self.cell, np.float64)
        loss = self.deviation if self.exact else (H + 1) * self.cell * (1 + 1e-9) + self.deviation
        off = self.deviation

        def chance(of: Any, sure: Any = None) -> Estimate:
            value = math.fsum(mass[of])
            least = value if sure is None else math.fsum(mass[sure])
            return Estimate(min(value, 1.0), max(least * (1 - share), 0.0), min(value * (1 + share), 1.0))

        below = mass * np.maximum(-g, 0.0)
        most = math.fsum(below)
        slack = (
            0.0 if self.exact else max(exact_gain.high - math.fsum(mass * g) + share * math.fsum(mass * np.abs(g)), 0)
        )
        least = max(math.fsum(mass * np.maximum(-g - loss, 0.0)), most - slack, 0.0) if not self.exact else most
        shortfall = Estimate(most, max(least * (1 - share) - off, 0.0), most * (1 + share) + off if most else off)
        worst = _tail(g, mass)
        error = 4 * share * float(np.abs(g).max()) / TAIL + off
        higher = worst + (0.0 if self.exact else min(loss, slack / TAIL))
        sure = None if self.exact else g + loss < -self.tie_tolerance
        if self.exact:
            equal, close = chance(z == 0), chance((z > 0) & (g <= barely))
        else:
            equal = chance((z <= 0) & (g + loss >= -self.tie_tolerance), np.zeros(z.size, bool))
            close = chance((z >= 0) & (g <= barely), (z > 0) & (g + loss <= barely))
        worst_one = Estimate(worst, worst - error, higher + error)
        return Statistics(exact_gain, shortfall, chance(z < 0, sure), worst_one, equal, close)


def _check_coupling(coupling: Any, model: TabularJMDP) -> None:
    """Raise unless the coupling is synchronous and possible in the model."""
    if coupling is not None and not isinstance(coupling, Synchronous):
        kind = type(coupling).__name__ if isinstance(coupling, Coupling) else short(coupling)
        raise CouplingError(
            f"Control needs Synchronous(), not {kind}: once the states differ, the scenario of the incumbent's state "
            "is not observed under another coupling, so where the incumbent would be is unknown."
        )
    Synchronous().check_fits(model)


def _table(least: Integers, most: Integers) -> tuple[Integers, Integers, Integers]:
    count = most - least + 1
    return least, count, np.cumsum(count) - count


def _tail(g: Floats, mass: Floats) -> float:
    """Mean of the worst outcomes."""
    before = np.cumsum(mass) - mass
    taken = np.clip(TAIL - before, 0.0, mass)
    total = math.fsum(taken)
    return math.fsum(taken * g) / total if total > 0 else float(g[-1])


def _lattice(groups: list[Floats]) -> float:
    """Largest step of which all differences within each group are multiples, up to rounding; 0 if there is none."""
    differences = np.concatenate([np.unique(x - x.min()) for x in groups])
    largest = float(differences.max())
    near = largest * 1e-10
    step = 0.0
    for x in differences.tolist():
        while x > near:
            step, x = x, abs(step - x * round(step / x))
            if step < largest * 2.0**-24:
                return 0.0
    return largest / round(largest / step) if step else 0.0
