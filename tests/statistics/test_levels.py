"""Estimates and variances of scores by level, against the tests that textbooks have for each design."""

import numpy as np
import pytest
from scipy.stats import trim_mean, ttest_ind, ttest_rel

from jmdp.errors import SettingsError
from jmdp.statistics.levels import Levels, linearised
from jmdp.statistics.means import FIXED

GAP = [-1.0, 1.0]


def levels(scores, names, **given):
    """Levels of an array [A, outer, inner]."""
    a, u, e = (index.ravel() for index in np.indices(scores.shape))
    units = np.stack([u, e][: len(names)], axis=1)
    return Levels(scores.ravel(), a, units, names, len(scores), **given)


def test_few_pairs_are_a_paired_t_test():
    scores = np.random.default_rng(0).normal(size=(2, 6, 3))
    mean, below, above = levels(scores, ("task", "trial")).errors(GAP, 0.05, FIXED)
    means = scores.mean(axis=2)
    expected = ttest_rel(means[1], means[0]).confidence_interval(0.95)
    assert (mean - below, mean + above) == pytest.approx((expected.low, expected.high))


def test_own_units_are_welchs_test():
    scores = np.random.default_rng(1).normal(size=(2, 7, 1))
    mean, below, above = levels(scores, ("seed",), own=("seed",)).errors(GAP, 0.05, FIXED)
    expected = ttest_ind(scores[1, :, 0], scores[0, :, 0], equal_var=False).confidence_interval(0.95)
    assert (mean - below, mean + above) == pytest.approx((expected.low, expected.high))


def test_trials_of_fixed_tasks_have_the_pooled_variance():
    scores = np.random.default_rng(2).normal(size=(2, 4, 5)) + np.arange(4)[:, None] * 10
    found = levels(scores, ("task", "trial"), fixed=("task",)).spread(GAP)
    assert found.variance == pytest.approx(scores.var(axis=2, ddof=1).sum() / 5 / 4**2)
    assert found.mean == pytest.approx(scores[1].mean() - scores[0].mean())


def test_fixed_tasks_need_two_trials():
    with pytest.raises(SettingsError, match="two or more trials of each task"):
        levels(np.zeros((2, 4, 1)), ("task",), fixed=("task",)).spread(GAP)


def test_the_variance_of_crossed_levels_is_unbiased():
    """3,000 simulated tables, within four standard errors: seeds of each alternative, the same episodes."""
    rng, n, m = np.random.default_rng(3), 4, 6
    sizes = {"seed": 1.5, "episode": 0.8, "rest": 1.0}
    truth = 2 * sizes["seed"] ** 2 / n + 2 * sizes["episode"] ** 2 / m + 2 * sizes["rest"] ** 2 / (n * m)
    found = []
    for _ in range(3_000):
        scores = (
            sizes["seed"] * rng.normal(size=(2, n, 1))
            + rng.normal(size=m) * 9  # both alternatives meet the same episodes
            + sizes["episode"] * rng.normal(size=(2, 1, m))
            + sizes["rest"] * rng.normal(size=(2, n, m))
        )
        spread = levels(scores, ("seed", "episode"), crossed=True, own=("seed",)).spread(GAP)
        found.append(sum(part.variance for part in spread.parts) - spread.common.variance)
    assert abs(np.mean(found) - truth) < 4 * np.std(found) / np.sqrt(3_000)


def test_residuals_that_are_larger_than_the_levels_do_no_harm():
    """Scores that vary within the table alone: the variance is that of the larger level, and so is its freedom."""
    s, e = np.indices((3, 20))
    scores = np.stack([k + 0.1 * ((s + 2 * e + k) % 3) for k in (0, 1)]).astype(float)
    spread = levels(scores, ("seed", "episode"), crossed=True, own=("seed",)).spread(GAP)
    assert spread.variance == max(part.variance for part in spread.parts)
    assert spread.freedom >= 2
    assert max(spread.errors(0.05)) < 0.1


def test_shares_of_the_variance_are_those_of_the_model():
    """Tasks twice as variable as four trials each: two thirds and one third."""
    rng = np.random.default_rng(4)
    scores = rng.normal(size=(2, 20_000, 1)) + np.sqrt(2.0) * rng.normal(size=(2, 20_000, 4))
    shares = levels(scores, ("task", "trial")).shares(GAP)
    assert shares["task"] == pytest.approx(2 / 3, abs=0.02)
    assert sum(shares.values()) == pytest.approx(1)


def test_shares_of_crossed_levels():
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(2, 300, 1)) + rng.normal(size=(2, 1, 300)) + 0.1 * rng.normal(size=(2, 300, 300))
    shares = levels(scores, ("seed", "episode"), crossed=True, own=("seed",)).shares(GAP)
    assert shares["seed"] == pytest.approx(0.5, abs=0.06)
    assert shares["both"] < 0.01


@pytest.mark.parametrize(("statistic", "of"), [("iqm", lambda x: trim_mean(x, 0.25)), ("median", np.median)])
def test_other_statistics_have_their_standard_error(statistic, of):
    """The linearised values have the statistic as their mean, and about its standard error over 600 samples."""
    rng, found, errors = np.random.default_rng(6), [], []
    for _ in range(600):
        x = rng.normal(size=40)
        z = linearised(x, statistic)
        assert z.mean() == pytest.approx(of(x))
        found.append(of(x))
        errors.append(z.std(ddof=1) / np.sqrt(40))
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(found), rel=0.12)


def test_units_of_one_alternative_alone_are_not_used():
    scores = np.random.default_rng(7).normal(size=(2, 10, 2))
    whole = levels(scores, ("task", "trial"))
    kept = ~((whole.alternative == 0) & (whole.units[:, 0] == 3))
    some = Levels(whole.values[kept], whole.alternative[kept], whole.units[kept], whole.names, 2)
    assert some.in_all.tolist() == [u != 3 for u in range(10)]
    rest = levels(np.delete(scores, 3, axis=1), ("task", "trial"))
    assert some.errors(GAP, 0.05, FIXED) == pytest.approx(rest.errors(GAP, 0.05, FIXED))
