"""Certified probabilities that one action beats another: time, and comparison with a million simulated pairs."""

from __future__ import annotations

import math
import time
from itertools import combinations

import numpy as np

import jmdp
from benchmarks.report import Goal, Report, agree
from jmdp.methods.monte_carlo.monte_carlo import rollout_horizon
from jmdp.methods.monte_carlo.samples import CompiledTable
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import paired_draws

_FALSE_ALARM = 1e-6
"""Probability that simulation disagrees with a correct distribution anywhere, per policy."""


def compare(quick: bool) -> Report:
    """Evaluate the 5 × 5 windy gridworld: all states and pairs of actions, under each policy."""
    report = Report("distributions", quick, seeds="1")
    side, samples = (3, 2000) if quick else (5, 1_000_000)
    world = jmdp.worlds.windy_gridworld(side, side, discount=0.95)
    bandit = jmdp.worlds.anti_correlated_bandit()
    jmdp.evaluate(bandit.model, bandit.policies["first"], jmdp.Local(), method=jmdp.ExactDistribution())  # compiles
    for name, policy in world.policies.items():
        start = time.perf_counter()
        result = jmdp.evaluate(world.model, policy, jmdp.Local(), method=jmdp.ExactDistribution(tolerance=0.02))
        seconds = time.perf_counter() - start
        simulator, actor = CompiledTable(world.model), jmdp.as_policy(policy, world.model.actions)
        live = np.flatnonzero(~world.model.terminal)
        questions = 3 * 6 * live.size
        radius = math.sqrt(math.log(2 * questions / _FALSE_ALARM) / (2 * samples))  # Hoeffding, simultaneously for all
        widest = furthest = 0.0
        for s in live:
            plan = BranchPlan.of_actions(
                actor,
                state=int(s),
                actions=range(4),
                coupling=jmdp.Local(),
                discount=world.model.discount,
                horizon=rollout_horizon(simulator, world.model.discount, None, samples),
                seed=1,
            )
            drawn = paired_draws(simulator, plan, 0, samples)
            returns, ends, gains = drawn.returns, drawn.ends, drawn.gains
            for a, b in combinations(range(4), 2):
                distribution = result.gap(int(s), a, b).distribution()
                tie = (gains[:, a] == gains[:, b]) & (ends[:, a] == ends[:, b])
                better = (returns[:, a] > returns[:, b]) & ~tie
                worse = (returns[:, a] < returns[:, b]) & ~tie
                for stated, seen in (
                    (distribution.superiority(), better),
                    (distribution.inferiority(), worse),
                    (distribution.ties(), tie),
                ):
                    frequency = float(seen.mean())
                    off = max(stated.low - frequency, frequency - stated.high, 0.0)
                    furthest = max(furthest, agree(f"{name}, state {s}, actions {a}, {b}", off, radius))
                widest = max(widest, distribution.superiority().interval.width)
        report.rows.append(
            {
                "policy": name,
                "gaps": 6 * live.size,
                "seconds": seconds,
                "sweeps": result.residuals.size,
                "widest interval of P(gap > 0)": widest,
                "simulated pairs per gap": samples,
                "largest distance of a frequency from its interval": furthest,
                "allowed distance": radius,
            }
        )
        report.goals += [
            Goal.at_most(f"{name}: seconds", seconds, 60.0),
            Goal.at_most(f"{name}: widest interval", widest, 0.02),
        ]
    report.notes.append(
        f"The false-alarm rate of the comparison with simulation is 1 in {1 / _FALSE_ALARM:.0g} per policy."
    )
    return report
