"""Whole policies with known truth: intervals cover it at every look, decisions are right, and pairing never costs much.

Tables are small and their draws compiled. The gate runs few of them; ``pytest -m long`` the number that is promised. A
limit for a count is the binomial one that chance alone exceeds less than once in a million.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from scipy.stats import t as student

import jmdp
from jmdp.comparisons.compare_policies import policy_question
from jmdp.comparisons.question import ComparisonSettings
from jmdp.comparisons.sampling import answer
from jmdp.statistics.means import looks as schedule
from reference.episodes import gap_moments

SHARED = jmdp.Synchronous(policy_luck="shared")
STARTS = {0: 0.4, 1: 0.6}


def problem(seed, S=6, K=4, A=2, discount=0.7, opposite=False):
    """A random table, two policies and the exact mean gap; `opposite`: what helps the one action hurts the other."""
    rng = np.random.default_rng([17, seed])
    prob = np.tile(rng.dirichlet(np.full(K, 3.0)), (S, 1))
    reward = rng.normal(size=(S, K, A)) + 2 * rng.normal(size=(1, K, 1)) * (np.array([1.0, -1.0]) if opposite else 1.0)
    model = jmdp.TabularJMDP(prob, reward, rng.integers(S, size=(S, K, A)), discount, terminal=np.zeros(S, bool))
    skew = np.full(A, 0.3) if not opposite else np.ones(A)
    old, new = (rng.dirichlet(skew, size=S) for _ in range(2))
    if opposite:
        old, new = 0.9 * np.eye(A)[[0] * S] + 0.1 * old, 0.9 * np.eye(A)[[1] * S] + 0.1 * new
    mean, variance = gap_moments(model, new, old, SHARED, STARTS)
    return model, {"old": old, "new": new}, mean, variance


def question(model, pair, seed, samples, **settings):
    given = {"seed": seed, "coupling": SHARED, "max_samples": samples} | settings
    return policy_question(model, pair, STARTS, None, "old", ComparisonSettings(**given))


def looks(model, pair, seed, samples):
    """What is known at each look; a precision that is never reached keeps the comparison open."""
    found = answer(question(model, pair, seed, 64, precision=1e-300))
    yield found
    for n in itertools.takewhile(lambda n: n <= samples, schedule()):
        if n > 64:
            found = found.continued(n)
            yield found


def watch(runs, samples, opposite=False):
    """Runs in which an interval ever missed the mean gap, and widths relative to a t interval at the last look."""
    ever, widths = 0, []
    model, pair, mean, _ = problem(3, opposite=opposite)
    for run in range(runs):
        missed, found = False, None
        for found in looks(model, pair, run, samples):
            interval = found.gap("new", "old").mean_interval
            missed |= interval is not None and mean not in interval  # samples with too long tails have none
        ever += missed
        gaps = found.summary.samples.returns[:, 1] - found.summary.samples.returns[:, 0]
        fixed = student.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / math.sqrt(len(gaps))
        widths.append(found.gap("new", "old").mean_interval.width / 2 / fixed)
    return ever, float(np.median(widths))


def decide(problems, samples):
    wrong = decided = 0
    for seed in range(problems):
        model, pair, mean, _ = problem(seed)
        found = jmdp.compare_policies(
            model, pair, starts=STARTS, seed=seed, baseline="old", max_samples=samples, progress=False
        )
        if found.best is not None:
            decided += 1
            wrong += found.best != ("new" if mean > 0 else "old")
    return wrong, decided


def limit(runs, rate=0.05):
    return int(binom.isf(1e-6, runs, rate))


@pytest.mark.parametrize("opposite", [False, True])
def test_intervals_cover_the_truth_at_every_look(opposite):
    ever, width = watch(40, 1000, opposite)
    assert ever <= limit(40)
    assert width <= 2


def test_decisions_are_right():
    wrong, decided = decide(40, 2000)
    assert decided >= 20
    assert wrong <= limit(decided)


@pytest.mark.long
@pytest.mark.parametrize("opposite", [False, True])
def test_intervals_cover_the_truth_at_every_look_2000_runs(opposite):
    ever, width = watch(2000, 1000, opposite)
    print(f"opposite={opposite}: {ever} of 2000 runs ever missed; width {width:.2f} × a t interval at n = 1000")
    assert ever <= 0.05 * 2000
    assert width <= 2


@pytest.mark.long
def test_decisions_are_right_400_problems():
    wrong, decided = decide(400, 10_000)
    print(f"{wrong} of {decided} decisions wrong, of 400 problems")
    assert decided >= 300
    assert wrong <= 0.05 * decided


def episodes_needed(coupling, seeds, half_width):
    """Mean samples until the mean gap is known to ± half_width."""
    total = 0
    for seed in seeds:
        model, pair, _, _ = problem(3, opposite=True)
        asked = question(model, pair, seed, 100_000, precision=half_width, coupling=coupling)
        total += answer(asked).samples
    return total / len(seeds)


def test_pairing_that_costs_needs_few_more_episodes_than_independent_runs():
    """Where what helps one policy hurts the other, pairing is given up: at most 1.05 × as many episodes on average.

    Looks come after batches, so single counts are steps of a quarter; the mean over seeds is compared.
    """
    paired = episodes_needed(SHARED, range(20), 0.25)
    apart = episodes_needed(jmdp.Independent(), range(20), 0.25)
    assert paired <= 1.05 * apart


def test_a_loss_of_sharing_is_caught_here_too():
    """Planted: policies with luck of their own have another variance of the gap."""
    model, pair, _, variance = problem(3)
    asked = question(model, pair, 0, 200_000)
    plans = [asked.plan, replace(asked.plan, coupling=jmdp.Synchronous())]
    found = [asked.simulator.program(plan)(0, 200_000).returns for plan in plans]
    errors = []
    for returns in found:
        gaps = returns[:, 1] - returns[:, 0]
        spread = np.std((gaps - gaps.mean()) ** 2) / math.sqrt(len(gaps))
        errors.append(abs(gaps.var() - variance) / spread)
    assert errors[0] < 5
    assert errors[1] > 5
