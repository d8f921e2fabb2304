"""Check that the steps of whole episodes draw the same random numbers under all policies, by a log of their draws."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

from jmdp.base.luck import Shock
from jmdp.simulators.checking.draw_log import DrawLog, logged, out_of_step, swapped
from jmdp.simulators.checking.shared_draws import STREAMS
from jmdp.simulators.episodes import EpisodePlan

_STEPS, _DRAWS = 50, 500
"""Steps of an episode, and draws of a step, that are logged."""

_SLOW_STEPS = 8
"""Steps of which it is also found out whether they could draw differently, because of the arguments of the draws."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LoggedPlan(EpisodePlan):
    """A plan that logs what the first steps of its episodes draw. The samples are the same as without a log."""

    logs: dict[tuple[int, bytes], list[tuple[int, DrawLog]]] = field(default_factory=dict)  # by step and shock

    def step_shock(self, root: Shock, t: int, digest: bytes, branch: int) -> Shock:
        """Shock that a branch receives in step t."""
        shock = super().step_shock(root, t, digest, branch)
        if t >= _STEPS:
            return shock
        log = DrawLog(_DRAWS)
        self.logs.setdefault((t, shock.words), []).append((branch, log))
        return logged(shock, log)

    def warn_if_out_of_step(self) -> None:
        """Warn of the first step in which policies that share its shock draw different numbers for one purpose."""
        for (t, _), logs in sorted(self.logs.items()):
            (first, mine), *others = logs
            for branch, theirs in others:
                spot = out_of_step(mine, theirs, could=t < _SLOW_STEPS) or swapped(mine, theirs)
                if spot is not None:
                    warnings.warn(
                        f"Policies {self.actors[first]!r} and {self.actors[branch]!r} do not share all random numbers: "
                        f"in step {t} their actions or states use different amounts of the shock's numbers, or in "
                        f"another order, before {spot}, so this draw differs between them. Intervals are valid, but "
                        "wider than they need to be. Make the same draws in the same order in every step, before the "
                        f"action is used, or {STREAMS}.",
                        stacklevel=2,
                    )
                    return
