"""All samples of a comparison: alternatives that are eliminated have fewer than the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.simulators.draws import Draws
from jmdp.simulators.episodes import EpisodeDraws, LuckProbe
from jmdp.simulators.runs import RunDraws


@dataclass(frozen=True, eq=False)
class Stage:
    """Consecutive samples of the same alternatives."""

    alternatives: tuple[int, ...]  # numbers of the simulated ones, in increasing order
    draws: Draws  # [samples, alternatives]


@dataclass(frozen=True, eq=False)
class DrawnSamples:
    """Samples of k alternatives, in stages. Every stage simulates some of the alternatives of the stage before.

    Sample i has the same number in every alternative, so the samples that two alternatives have in common are the first
    ones of both.
    """

    alternatives: int  # k
    stages: tuple[Stage, ...] = ()

    def with_block(self, alternatives: Sequence[int], draws: Draws) -> DrawnSamples:
        """Append samples of these alternatives."""
        active, stages = tuple(alternatives), self.stages
        if stages and stages[-1].alternatives == active:
            last = stages[-1].draws
            draws, stages = last.joined([last, draws]), stages[:-1]
        return replace(self, stages=(*stages, Stage(active, draws)))

    def with_probe(self, probe: LuckProbe, steps: int) -> DrawnSamples:
        """Add samples that were run again, and the steps they took."""
        *before, last = self.stages
        assert isinstance(last.draws, EpisodeDraws)
        draws = replace(last.draws, probe=probe, steps=last.draws.steps + steps)
        return replace(self, stages=(*before, replace(last, draws=draws)))

    def __len__(self) -> int:
        """Number of samples, those of the alternatives that were simulated to the end."""
        return sum(len(stage.draws.returns) for stage in self.stages)

    @cached_property
    def counts(self) -> Integers:
        """[k], number of samples of each alternative."""
        found = np.zeros(self.alternatives, np.int64)
        for stage in self.stages:
            found[list(stage.alternatives)] += len(stage.draws.returns)
        return found

    def of(self, *alternatives: int) -> Draws:
        """The samples that these alternatives have in common, in this order of columns; all without arguments."""
        asked = alternatives or tuple(range(self.alternatives))
        parts = [
            stage.draws
            if asked == stage.alternatives
            else stage.draws.columns(list(map(stage.alternatives.index, asked)))
            for stage in self.stages
            if set(asked) <= set(stage.alternatives)
        ]
        return parts[0] if len(parts) == 1 else parts[0].joined(parts)

    def measure(self, j: int) -> DrawnSamples:
        """Values of one measure of runs that return several."""
        parts = [(stage.alternatives, cast(RunDraws, stage.draws).measure(j)) for stage in self.stages]
        return DrawnSamples(self.alternatives, tuple(Stage(*part) for part in parts))

    @cached_property
    def complete(self) -> Draws:
        """The samples in which every alternative was simulated."""
        return self.of()

    @cached_property
    def returns(self) -> Floats:
        """[n, k], returns of all samples; nan where an alternative was not simulated."""
        found, row = np.full((len(self), self.alternatives), np.nan), 0
        for stage in self.stages:
            rows = len(stage.draws.returns)
            found[row : row + rows, list(stage.alternatives)] = stage.draws.returns
            row += rows
        return found

    @property
    def steps(self) -> int:
        """Simulated steps."""
        return sum(stage.draws.steps for stage in self.stages)

    @property
    def shared_steps(self) -> int:
        """Steps skipped because a branch had merged with another."""
        return sum(stage.draws.shared_steps for stage in self.stages)

    @property
    def largest_reward(self) -> float:
        """Largest |reward| observed."""
        return max(stage.draws.largest_reward for stage in self.stages)


@dataclass(frozen=True, eq=False)
class Sampled:
    """All that later samples depend on: the samples so far, and the decisions at the scheduled looks."""

    samples: DrawnSamples
    active: tuple[int, ...]  # alternatives that are still simulated
    paired: bool = True  # False once samples are drawn independently because pairing increases the variance
    worse_than: tuple[tuple[int, int], ...] = ()  # eliminated alternatives, each with the one that is better
    decided: bool = False
    looks: int = 1  # at fixed numbers of samples, or schedules: a plan that was continued has two
