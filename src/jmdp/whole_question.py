"""Comparisons of whole episodes or runs: relative to a baseline, and paired as long as that reduces the variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from jmdp.results.pairing import pairing_costs
from jmdp.results.samples.selection import SelectionRule
from jmdp.sequential import Question
from jmdp.simulators.episodes import EpisodeDraws

_FIRST = 32
"""Samples after which pairing may be switched off."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WholeQuestion(Question):
    """A comparison of policies or designs."""

    baseline: str | None

    @cached_property
    def rule(self) -> SelectionRule:
        """Rule of elimination and stopping."""
        number = None if self.baseline is None else self.labels.index(self.baseline)
        return replace(super().rule, baseline=number)

    def pairing_increases_variance(self, past: EpisodeDraws, active: Sequence[int]) -> bool:
        """Whether the gain of pairing these samples of the active alternatives is clearly below 1."""
        if past.paired < _FIRST:
            return False
        reference = self.rule.reference(self.sign * past.returns.mean(axis=0), active)
        return pairing_costs(past.returns, active.index(reference))


def same_objects(objects: Sequence[Any]) -> tuple[int, ...]:
    """For each object the position of the first that is the same."""
    keys = list(map(id, objects))
    return tuple(map(keys.index, keys))
