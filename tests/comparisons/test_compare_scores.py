"""Scores that exist: what is paired, what is said of it, and how often it is wrong."""

import math

import numpy as np
import pandas as pd
import pytest
import score_coverage
from scipy.stats import binom, ttest_ind

import jmdp
from jmdp.errors import LabelError, SettingsError, UnavailableError
from jmdp.statistics.levels import Levels
from jmdp.statistics.means import ENOUGH, Sampling

N = 60


def scores(n=N, gap=0.2, seed=0):
    """Scores of two alternatives on the same tasks."""
    rng = np.random.default_rng(seed)
    task, own = rng.normal(size=n), rng.normal(size=(2, n)) * 0.3
    return {
        name: {f"task {i}": float(task[i] + own[a, i] + gap * a) for i in range(n)}
        for a, name in enumerate(("old", "new"))
    }


def frame(given):
    rows = [(name, task, value) for name, found in given.items() for task, value in found.items()]
    return pd.DataFrame(rows, columns=["alternative", "id", "score"])


# ------------------------------------------------------------------------------------------------ pairs


def test_pairs_are_by_name_and_never_by_position():
    given = scores()
    found = jmdp.compare_scores(given, baseline="old")
    shuffled = frame(given).sample(frac=1, random_state=1)
    again = jmdp.compare_scores(shuffled, baseline="old")
    assert found.gap("new", "old").mean == pytest.approx(again.gap("new", "old").mean, abs=1e-15)
    assert found.gap("new", "old").correlation == pytest.approx(again.gap("new", "old").correlation)
    assert found.best == "new"
    lists = {name: list(values.values()) for name, values in given.items()}
    with pytest.raises(SettingsError, match='A position is not an id: give pair="position"'):
        jmdp.compare_scores(lists)
    by_position = jmdp.compare_scores(lists, pair="position", baseline="old")
    assert by_position.gap("new", "old").mean == pytest.approx(found.gap("new", "old").mean)


def test_what_is_missing_is_counted_and_said():
    given = scores()
    del given["old"]["task 3"]
    given["new"] |= {"task 5": math.nan, "only new": 9.0}
    found = jmdp.compare_scores(given)
    assert found.scores.left_out == {"old": 1, "new": 2}
    assert found.samples == N - 2
    assert "2 items of new are left out, because another alternative has no score of them" in " ".join(
        repr(found).split()
    )
    assert found.counts == {"old": N - 2, "new": N - 2}


def test_a_missing_trial_is_said():
    given = {name: {i: [0.5 * i, 1.0 + k, None if i == 3 else 0.25] for i in range(9)} for k, name in enumerate("ab")}
    found = jmdp.compare_scores(given)
    assert found.samples == 9
    assert "2 scores are missing" in repr(found)


def test_names_that_never_agree_are_shown():
    given = scores()
    with pytest.raises(LabelError, match=r"Only 0 items have a score of every alternative.*'task 0'.*'Task 0'"):
        jmdp.compare_scores({"old": given["old"], "new": {key.title(): one for key, one in given["new"].items()}})


def test_unpaired_scores_are_welchs_test():
    given = {"a": list(range(9)), "b": [x + 3.5 for x in range(12)]}
    found = jmdp.compare_scores(given, pair=None, baseline="a")
    gap = found.gap("b", "a")
    expected = ttest_ind(given["b"], given["a"], equal_var=False).confidence_interval(0.95)
    assert gap.mean == pytest.approx(np.mean(given["b"]) - np.mean(given["a"]))
    assert (gap.mean_interval.low, gap.mean_interval.high) == pytest.approx((expected.low, expected.high))
    assert "9 items of each" in found.answer or "9 to 12 items" in repr(found)


def test_repeated_names_are_trials():
    rng = np.random.default_rng(3)
    given = {name: {i: list(rng.normal(size=4) + i) for i in range(30)} for name in ("old", "new")}
    found = jmdp.compare_scores(given)
    assert found.samples == 30
    means = {name: {i: float(np.mean(one)) for i, one in tasks.items()} for name, tasks in given.items()}
    assert found.gap("new", "old").mean_interval == jmdp.compare_scores(means).gap("new", "old").mean_interval
    assert sum(found.variance_by_level("new", "old").values()) == pytest.approx(1)
    assert "more items both" in " ".join(repr(found).split()) or "more trials per item" in " ".join(repr(found).split())


def test_trials_that_would_not_help_are_said_not_to():
    rng = np.random.default_rng(4)
    given = {name: {i: list(rng.normal() + 0.3 * rng.normal(size=8)) for i in range(40)} for name in ("old", "new")}
    said = " ".join(repr(jmdp.compare_scores(given)).split())
    assert "more trials per item would not help, more items would" in said


def table(seeds=5, episodes=12, seed=0):
    rng = np.random.default_rng(seed)
    ease = rng.normal(size=episodes)
    rows = []
    for name, mean in (("ppo", 1.0), ("a2c", 0.0)):
        for s in range(seeds):
            skill = rng.normal()
            rows += [(name, s, e, mean + skill + ease[e] + 0.3 * rng.normal()) for e in range(episodes)]
    return pd.DataFrame(rows, columns=["alternative", "seed", "episode", "score"])


TWO = {"levels": ["seed", "episode"], "crossed": ["episode"], "own": ["seed"]}


def test_training_seeds_are_not_pairs():
    """Both levels count; taking episodes alone, or all scores, for independent claims far too much."""
    found = jmdp.compare_scores(table(), **TWO)
    wide = found.gap("ppo", "a2c").mean_interval
    episodes = jmdp.compare_scores(table(), pair="episode").gap("ppo", "a2c").mean_interval
    assert wide.high - wide.low > 3 * (episodes.high - episodes.low)
    said = " ".join(repr(found).split())
    assert "seeds are of each alternative alone, and their variances add" in said
    assert "the interval assumes normal effects between seeds: there are only 5" in said
    assert found.variance_by_level("ppo", "a2c")["seed"] > 0.8


@pytest.mark.parametrize("renamed", [{0: 3, 1: 0, 2: 4, 3: 1, 4: 2}, {i: f"other {i}" for i in range(5)}])
def test_names_of_training_seeds_mean_nothing(renamed):
    one, other = table(), table().astype({"seed": object})
    other.loc[other.alternative == "a2c", "seed"] = other.seed.map(renamed)
    first, second = (jmdp.compare_scores(given, **TWO).gap("ppo", "a2c") for given in (one, other))
    assert (first.mean_interval.low, first.mean_interval.high) == pytest.approx(
        (second.mean_interval.low, second.mean_interval.high), rel=1e-12
    )


def test_crossed_levels_must_be_complete():
    with pytest.raises(SettingsError, match="crossed levels are incomplete"):
        jmdp.compare_scores(table().drop(index=7), **TWO)


# ------------------------------------------------------------------------------------------------ success rates


def successes(both, first, second, none):
    """Successes of new and old on so many items of each kind."""
    new = [1] * (both + first) + [0] * (second + none)
    old = [1] * both + [0] * first + [1] * second + [0] * none
    return {"old": dict(enumerate(old)), "new": dict(enumerate(new))}


def test_one_success_of_each_is_mcnemars_table():
    found = jmdp.compare_scores(successes(109, 30, 12, 69), baseline="old")
    assert found.mcnemar("new", "old") == pytest.approx(0.008, abs=0.0005)
    said = " ".join(repr(found).split())
    assert "only new succeeded in 30 of 220 items, only old in 12" in said
    assert "p = 0.0079 (without pairs p = 0.08" in said
    assert "Tango's score interval" in said
    gap = found.gap("new", "old")
    assert gap.mean_interval.low > 0
    assert found.best == "new"


def test_few_successes_have_an_exact_interval():
    found = jmdp.compare_scores(successes(20, 6, 0, 4), baseline="old")
    assert "exact and unconditional" in " ".join(repr(found).split())
    assert found.gap("new", "old").mean_interval.low > 0
    nothing = jmdp.compare_scores(successes(20, 0, 0, 4), baseline="old").gap("new", "old").mean_interval
    assert -0.2 < nothing.low < 0 < nothing.high < 0.2


def test_several_trials_are_no_mcnemar():
    given = {name: {i: [0, 1, i % 2] for i in range(20)} for name in ("old", "new")}
    with pytest.raises(UnavailableError, match="several trials of a task"):
        jmdp.compare_scores(given).mcnemar("new", "old")


# ------------------------------------------------------------------------------------------------ the result


def test_margins_relative_and_absolute():
    given = {name: {key: value + 10 for key, value in found.items()} for name, found in scores(gap=-0.05).items()}
    found = jmdp.compare_scores(given, baseline="old", margin="5%")
    assert found.not_worse("5%").verdict is jmdp.results.Verdict.YES
    assert found.decided
    assert found.not_worse(0.1).verdict is jmdp.results.Verdict.UNKNOWN


def test_a_gap_that_is_always_the_same_has_a_verdict_and_no_interval():
    given = scores()
    found = jmdp.compare_scores({"old": given["old"], "new": {key: value + 0.5 for key, value in given["old"].items()}})
    assert found.best == "new"
    assert not math.isfinite(found.advantage("new", "old").high)
    assert "This reverses only if" in found.answer


@pytest.mark.parametrize(("statistic", "n"), [("iqm", 12), ("median", 32)])
@pytest.mark.parametrize("runs", [150, pytest.param(2_000, marks=pytest.mark.long)])
def test_intervals_of_other_statistics_hold(statistic, n, runs):
    """Shifted skewed scores, whose true difference is the shift: at least 93%, with a false alarm below 1e-3."""
    rng, hits = np.random.default_rng(8), 0
    for _ in range(runs):
        task = rng.exponential(size=n)
        both = np.stack([task, task + 0.3]) + 0.3 * rng.normal(size=(2, n))
        a, u = (index.ravel() for index in np.indices(both.shape))
        levels = Levels(both.ravel(), a, u[:, None], ("task",), 2, statistic=statistic)
        mean, below, above = levels.errors([-1.0, 1.0], 0.05, Sampling("fixed"))
        hits += mean - below <= 0.3 <= mean + above
    assert binom.cdf(hits, runs, 0.93) > 1e-3, hits / runs


def test_few_tasks_have_no_interval_of_a_median():
    assert not jmdp.compare_scores(scores(20), statistic="median").advantage("new", "old").has_interval


def test_smaller_can_be_better():
    found = jmdp.compare_scores(scores(), minimize=True, baseline="old")
    assert found.best == "old"
    assert found.advantage("old", "new") > 0


def test_three_alternatives_share_the_error():
    given = scores() | {"third": {key: value - 1 for key, value in scores()["old"].items()}}
    found = jmdp.compare_scores(given)
    assert found.best == "new"
    assert [row["alternative"] for row in found.rows()] == ["old", "new", "third"]
    two = jmdp.compare_scores(scores()).gap("new", "old").mean_interval
    three = found.gap("new", "old").mean_interval
    assert three.low < two.low < two.high < three.high


@pytest.mark.parametrize(
    "given", [{}, {"running": True}, {"statistic": "iqm"}, {"assume": jmdp.Assumptions(return_range=(-9, 9))}]
)
def test_more_scores_can_be_added(given):
    whole = scores()
    first = {name: dict(list(found.items())[:40]) for name, found in whole.items()}
    rest = {name: dict(list(found.items())[40:]) for name, found in whole.items()}
    found = jmdp.compare_scores(first, **given).continued(rest)
    expected = jmdp.compare_scores(whole, **given)
    assert repr(found) == repr(expected)


@pytest.mark.parametrize("kind", ["pairs", "unpaired", "crossed", "fixed"])
def test_saved_and_loaded(tmp_path, kind):
    trials = {name: {key: [value, value + 1] for key, value in found.items()} for name, found in scores().items()}
    found = {
        "pairs": lambda: jmdp.compare_scores(scores(), baseline="old", margin="5%"),
        "unpaired": lambda: jmdp.compare_scores({"a": [1.0, 2, 4], "b": [3.0, 5, 9, 2]}, pair=None),
        "crossed": lambda: jmdp.compare_scores(table(), **TWO),
        "fixed": lambda: jmdp.compare_scores(trials, fixed=["id"]),
    }[kind]()
    found.save(tmp_path / "scores.nc")
    again = jmdp.load(tmp_path / "scores.nc")
    assert repr(again) == repr(found)
    assert again.gap(0, 1).mean_interval == found.gap(0, 1).mean_interval
    found.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "by scores" in page
    assert "seed 0" not in page


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"levels": ["task", "trial", "run"]}, "levels has 3 names"),
        ({"own": ["seed"]}, "'seed' is no level"),
        ({"pair": None, "levels": ["task"]}, "which of them the alternatives do not share"),
        ({"levels": ["seed", "episode"], "own": ["episode"]}, "always of one alternative"),
        ({"fixed": ["id"], "statistic": "iqm"}, "drawn units of one level"),
        ({"running": True, "fixed": ["id"]}, "pairs of drawn units"),
        ({"margin": 1.0}, "A margin needs a baseline"),
        ({"statistic": "mode"}, "statistic"),
        ({"confidence": 2}, "confidence"),
        ({"score": "reward"}, "no column 'reward'"),
        ({"trusted": "no"}, "trusted is 'no'"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(SettingsError, match=message):
        jmdp.compare_scores(frame(scores()), **given)


@pytest.mark.parametrize(
    "bad", [None, 3, [], {}, {"a": {}}, {"a": {"x": 1}, "b": 5}, {"a": {"x": "many"}, "b": {"x": 1}}]
)
def test_scores_of_another_kind_are_refused(bad):
    with pytest.raises((SettingsError, LabelError)):
        jmdp.compare_scores(bad)


# ------------------------------------------------------------------------------------------------ how often it is wrong


@pytest.mark.parametrize("runs", [80, pytest.param(2_000, marks=pytest.mark.long)])
def test_intervals_hold_in_every_design(runs):
    """False alarm of the gate's size: 38 cells at 0.01% each. A naive interval fails: the check has power."""
    failed, naive = [], []
    for design in score_coverage.DESIGNS:
        for kind in score_coverage.KINDS:
            for units, each in score_coverage.SIZES:
                if not score_coverage.identified(design, units, each):
                    continue
                (share, other), _ = score_coverage.coverage(design, kind, units, each, runs)
                cell = f"{design}, {kind}, {units} × {each}"
                if runs == 80:
                    few = min(units, each) if design == "crossed" else units * each if design == "fixed" else units
                    if (few >= 8 or kind == "normal") and binom.cdf(round(share * runs), runs, 0.93) < 1e-4:
                        failed.append(f"{cell}: {share:.1%}")
                elif not score_coverage.holds(share, runs, units, each, kind, design):
                    failed.append(f"{cell}: {share:.1%}")
                if binom.cdf(round(other * runs), runs, 0.93) < 1e-4:
                    naive.append(cell)
    assert failed == []
    assert len(naive) >= 8


@pytest.mark.parametrize("runs", [40, pytest.param(2_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["normal", "skewed", "binary"])
def test_running_scores_are_seldom_wrong_at_any_stop(kind, runs):
    """Looked at after every 8th task up to 400: wrong at some look in at most 5%; a t interval is wrong far more often.

    False alarm: below 0.1% for each kind, if the interval is wrong in 5%.
    """
    rng, wrong, plain, weights = np.random.default_rng(5), 0, 0, [-1.0, 1.0]
    for _ in range(runs):
        if kind == "binary":
            u = rng.random(400)
            both, truth = (rng.random((2, 400)) < np.stack([u, u**0.8])).astype(float), 1 / 1.8 - 0.5
        else:
            both, truth = score_coverage.noise(rng, kind, 2, 400) * 0.5 + rng.normal(size=400), 0.0
        a, u = (index.ravel() for index in np.indices(both.shape))
        ever, at_times = False, False
        for n in range(ENOUGH, 401, 8):
            kept = u < n
            some = Levels(both.ravel()[kept], a[kept], u[kept][:, None], ("task",), 2)
            for kind_of, sampling in (("running", Sampling("sequential")), ("fixed", Sampling("fixed"))):
                mean, below, above = some.errors(weights, 0.05, sampling)
                outside = not mean - below <= truth <= mean + above
                ever |= outside and kind_of == "running"
                at_times |= outside and kind_of == "fixed"
        wrong, plain = wrong + ever, plain + at_times
    assert binom.sf(wrong - 1, runs, 0.05) > 1e-3, (wrong, runs)
    assert plain > 2 * 0.05 * runs, (plain, runs)


def test_an_undecided_gap_says_how_many_tasks_would_find_it():
    rng = np.random.default_rng(0)
    scores = {name: dict(enumerate(rng.normal(size=40))) for name in ("old", "new")}
    found = jmdp.compare_scores(scores)
    size = float(f"{abs(found.mean_of('new') - found.mean_of('old')):.2g}")
    count = float(f"{found.plan(difference=size).fixed:.2g}")
    assert f"to find a gap of {size:g}, about {count:,.0f} items: found.plan(difference={size:g})" in found.remarks()
    assert "to find" not in repr(
        jmdp.compare_scores({"old": {i: i for i in range(9)}, "new": {i: i + 1 for i in range(9)}})
    )


def test_the_index_of_a_series_names_its_scores():
    pandas = pytest.importorskip("pandas")
    old, new = {"a": 1.0, "b": 2.0, "c": 0.0}, {"c": 1.0, "a": 3.0, "b": 5.0}
    found = jmdp.compare_scores({"old": pandas.Series(old), "new": pandas.Series(new)})
    assert found.answer == jmdp.compare_scores({"old": old, "new": new}).answer


def test_a_column_for_each_alternative(tmp_path):
    rows = [("task", "old", "new"), *((f"task {i}", i % 3, i % 3 + 0.1 * (i % 2)) for i in range(20))]
    (tmp_path / "wide.csv").write_text("\n".join(",".join(map(str, row)) for row in rows))
    wide = jmdp.compare_scores(tmp_path / "wide.csv", pair="task", score=["old", "new"])
    long = {name: {row[0]: row[i] for row in rows[1:]} for i, name in enumerate(("old", "new"), 1)}
    assert str(wide) == str(jmdp.compare_scores(long, pair="task"))
    with pytest.raises(SettingsError, match="no column 'now'"):
        jmdp.compare_scores(tmp_path / "wide.csv", pair="task", score=["old", "now"])
    with pytest.raises(SettingsError, match="score names 2 columns"):
        jmdp.compare_scores({"a": tmp_path / "wide.csv"}, pair="task", score=["old", "new"])
