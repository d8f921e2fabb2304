"""Episodes of several policies on a scenario table, simulated by a compiled kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jmdp.base.arrays import Floats, cumulative_rows, refuse_large
from jmdp.base.luck import Shock
from jmdp.methods.kernels.tables import PolicyTables, SampledReturns, Unsigned
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.draws import exact_gains
from jmdp.simulators.episodes import EpisodeDraws, EpisodePlan

BLOCK = 64
"""Samples that share one generator. A sample depends only on the seed and its number."""

STEPS_A_CALL = 5_000_000
"""Maximum steps of one call of the kernel: a fraction of a second."""

SAMPLE_BYTES, KEY_BYTES = 64.0, 140.0
"""Memory of one return of a sample with its fingerprint and temporaries, and of the random keys of a sample."""


class TableEpisodes:
    """Episodes of policies [S, A] of a table."""

    def __init__(self, model: TabularJMDP, policies: Sequence[Floats], plan: EpisodePlan) -> None:
        self._plan = plan
        self._root = Shock.of_sample(plan.seed, 0).derived(b"table episodes")
        self._tables = PolicyTables(
            cumulative_rows(model.prob),
            model.reward,
            model.next_state,
            model.terminal,
            np.stack([cumulative_rows(probabilities) for probabilities in policies]),
            np.array([model.states.position(state) for state in plan.starts.states]),
            plan.starts.cumulative,
            plan.coupling.shared_in_a_state,
            plan.coupling.shared_between_states,
            plan.coupling.policy_luck == "shared",
        )

    def draw(self, first: int, count: int) -> EpisodeDraws:
        """Samples first … first + count − 1."""
        from jmdp.methods.kernels.policies import policy_returns

        plan = self._plan
        shape = (count, len(plan.actors))
        refuse_large(f"{count:,} samples of {shape[1]} policies", (KEY_BYTES + SAMPLE_BYTES * shape[1]) * count)
        keys = self.keys(first, count)
        starts = np.tile(plan.start_numbers(first, count)[:, None], shape[1])
        returns, ends, gains = np.empty(shape), np.empty(shape, np.int64), np.empty(shape, np.int64)
        exact, totals = np.empty(shape, np.bool_), np.zeros(3)
        rows = max(1, STEPS_A_CALL // (plan.horizon * shape[1]))
        for row in range(0, count, rows):  # in parts, because an interrupt is noticed only between calls
            part = slice(row, row + rows)
            out = SampledReturns(returns[part], ends[part], gains[part], exact[part], totals)
            policy_returns(self._tables, keys[part], plan.discount, plan.horizon, starts[part], out)
        steps, _, largest = totals
        gains = exact_gains(gains, returns, exact)
        return EpisodeDraws(returns, ends, gains, float(largest), int(steps), 0, True, starts, count)

    def keys(self, first: int, count: int) -> Unsigned:
        """[count, 3], keys of start, steps and policies; separate keys for the parts that the plan lists as fresh."""
        start, stop = first // BLOCK, -(-(first + count) // BLOCK)
        generator, blocks = self._root.generator(), []
        for block in range(start, stop):
            self._root.derived(b"block", block, self._plan.subset).restart(generator)
            blocks.append(generator.integers(2**64, size=(BLOCK, 5), dtype=np.uint64))
        columns = [0, 3 if "steps" in self._plan.fresh else 1, 4 if "policies" in self._plan.fresh else 2]
        return np.ascontiguousarray(np.concatenate(blocks)[first - start * BLOCK :][:count, columns])
