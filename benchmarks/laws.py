"""Certified chances that one action beats another, in how long, and against a million simulated pairs."""

from __future__ import annotations

import time
from itertools import combinations

import jmdp
from benchmarks.report import DisagreementError, Goal, Report

_FALSE_ALARM = 1e-6
"""That simulation disagrees with a right law anywhere."""


def compare(quick: bool) -> Report:
    """The 5 × 5 windy gridworld, all states and pairs of actions, under each of its policies."""
    report = Report("laws", quick)
    side, samples = (3, 2000) if quick else (5, 1_000_000)
    world = jmdp.worlds.windy_gridworld(side, side, discount=0.95)
    world_of_one = jmdp.worlds.anti_correlated_bandit()
    jmdp.evaluate(world_of_one.model, world_of_one.policies["first"], method=jmdp.ExactLaw())  # compiles
    for name, policy in world.policies.items():
        start = time.perf_counter()
        result = jmdp.evaluate(world.model, policy, method=jmdp.ExactLaw(tolerance=0.02))
        seconds = time.perf_counter() - start
        pairs = [(s, a, b) for s in range(side * side) for a, b in combinations(range(4), 2)]
        sampled = jmdp.MonteCarlo(seed=1, samples=samples, confidence=1 - _FALSE_ALARM / len(pairs))
        simulated = jmdp.evaluate(world.model, policy, method=sampled)
        widest = atoms = 0.0
        for s, a, b in pairs:
            law, drawn = result.gap(s, a, b).law(), simulated.gap(s, a, b).law()
            for one, other in (
                (law.superiority(), drawn.superiority()),
                (law.inferiority(), drawn.inferiority()),
                (law.ties(), drawn.ties()),
            ):
                if not (one.low <= other.high and other.low <= one.high):
                    raise DisagreementError(f"{name}, state {s}, actions {a} and {b}: {one!r} against {other!r}")
            width = law.superiority().interval.width
            at_zero = float(law.mass[(law.low <= 0) & (law.high >= 0) & (law.high - law.low < 1e-9)].sum())
            exact = law.ties().low  # known to be at 0, so it blurs nothing
            widest, atoms = max(widest, width - max(at_zero - exact, 0.0)), max(atoms, at_zero - exact)
        report.rows.append(
            {
                "policy": name,
                "gaps": len(pairs),
                "seconds": seconds,
                "sweeps": result.residuals.size,
                "widest interval of P(gap > 0)": widest,
                "mass that rounding cannot tell from 0": atoms,
                "simulated pairs of each": samples,
            }
        )
        report.goals += [
            Goal.at_most(f"{name}: seconds", seconds, 60.0),
            Goal.at_most(f"{name}: widest interval", widest, 0.02),
        ]
    report.notes.append(
        f"Every simulated band meets the certified interval, at a false alarm of {_FALSE_ALARM:g} for each policy."
    )
    return report
