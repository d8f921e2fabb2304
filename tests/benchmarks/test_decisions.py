"""Decisions in worlds whose best action is known: seldom wrong, and with as many fewer samples as exact moments say."""

from importlib import import_module

import numpy as np
import pytest
from scipy.stats import binom

import jmdp
from jmdp.statistics.means import Sampling

pytest.importorskip("jax")

STATES, SEEDS = 20, 1
ALARM = 1e-6
"""False-alarm rate of a count of wrong decisions, or of intervals without the truth, were 5% of them so."""


@pytest.fixture(scope="module")
def decisions():
    return import_module("benchmarks.decisions")


@pytest.fixture(scope="module")
def asked(decisions):
    found = decisions.questions(decisions.problems(quick=True), STATES)
    assert len(found) == STATES
    return found


@pytest.fixture(scope="module")
def runs(decisions, asked):
    return [(question, *decisions.decided(question, seed)) for seed in range(SEEDS) for question in asked]


def allowed(n):
    return int(binom.isf(ALARM, n, 0.05))


def test_few_decisions_are_wrong_and_all_are_made(runs):
    for side in (1, 2):
        assert sum(run[side].wrong for run in runs) <= allowed(len(runs))
        assert not any(run[side].undecided for run in runs)


def test_samples_are_as_many_fewer_as_exact_moments_say(runs):
    """The median of 20 ratios of stopping times, each within a look or two of what is expected: factor 2."""
    found = [
        unpaired.samples / paired.samples / (question.unpaired_needs / question.paired_needs)
        for question, paired, unpaired in runs
    ]
    assert 0.5 < np.median(found) < 2


def test_five_times_fewer_steps_where_the_variance_ratio_is_five(runs):
    times = [unpaired.steps / paired.steps for question, paired, unpaired in runs if question.variance_ratio >= 5]
    assert len(times) >= 5
    assert np.mean(times) >= 5


def test_deciding_too_early_would_be_caught(decisions, asked, monkeypatch):
    """A planted bug: whoever leads after 64 samples is the best."""
    monkeypatch.setattr(Sampling, "mean_errors", lambda self, values, error: (0.0 * values[0], 0.0 * values[0]))
    hard = [question for question in asked if question.unpaired_needs > 1000]
    found = [decisions._run(question, jmdp.Independent(), seed) for seed in range(60 // len(hard)) for question in hard]
    assert sum(run.wrong for run in found) > allowed(len(found))


def test_the_truth_is_in_all_intervals_but_as_often_as_allowed(decisions, asked):
    found = [decisions.watched(asked[i % STATES], jmdp.Synchronous(), 100 + i, 300) for i in range(40)]
    assert np.sum(found, axis=0).max() <= allowed(40)


def test_looks_are_those_of_compare(decisions, runs):
    looks = set(decisions.looks(decisions.BUDGET))
    assert {run.samples for _, *pair in runs for run in pair} <= looks


def test_the_bound_on_wrong_decisions(decisions):
    assert decisions.upper_bound(0, 200) == pytest.approx(1 - 0.05 ** (1 / 200))
    assert binom.cdf(7, 200, decisions.upper_bound(7, 200)) == pytest.approx(0.05)
    assert decisions.upper_bound(5, 5) == 1


def test_a_table_in_jax_is_the_table(asked):
    """Means by simulation within 5.5 standard errors of the exact ones, a false alarm in 10⁶ for all 20 questions."""
    for question in asked:
        drawn = question.ask(jmdp.Synchronous(), 1, 500, precision=1e-9).summary.samples.returns
        off = np.abs(drawn.mean(axis=0) - question.problem.paired.mean[question.state])
        assert (off <= 5.5 * drawn.std(axis=0) / np.sqrt(len(drawn)) + 0.02).all()
