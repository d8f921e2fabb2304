"""Samples and summaries of given returns, without a simulator."""

from __future__ import annotations

import numpy as np

import jmdp
from jmdp.base.labels import Labels
from jmdp.methods.monte_carlo.monte_carlo import MonteCarlo
from jmdp.simulators.rollouts.draws import ENDED, Draws
from jmdp.statistics.means import Sampling
from jmdp.statistics.sample_summary import SampleSummary
from jmdp.statistics.selection import Limits

SEQUENTIAL = Sampling()


def block(returns):
    """Draws of these returns [n, k], of episodes that have ended."""
    ends, gains = np.full(returns.shape, ENDED), np.ascontiguousarray(returns).view(np.int64)
    return Draws(returns, ends, gains, float(np.abs(returns).max()), returns.size, 0, True)


def summary(samples, rule, sampling=SEQUENTIAL, **assume):
    """Summary of samples, with the confidence and error of a rule."""
    return SampleSummary(
        samples=samples,
        labels=Labels("action", samples.alternatives),
        limits=Limits.of_draws([stage.draws for stage in samples.stages], 1.0, 1, None),
        coupling=jmdp.Synchronous(),
        discount=1.0,
        horizon=1,
        seed=0,
        confidence=rule.confidence,
        error=rule.error,
        sampling=sampling,
        assume=jmdp.Assumptions(**assume),
        method=MonteCarlo(seed=0),
    )
