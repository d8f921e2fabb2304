"""Figures of reviews: what they show is what the review found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmdp
from jmdp.errors import SettingsError
from jmdp.show.plots.reviews import MOST_DRAWN, axis_limits, finite_ends, summary, thinned
from show.plots.made_reviews import made, several
from show.plots.test_study_plots import check_no_texts_overlap

RNG = np.random.default_rng(3)


def texts(axes):
    return [text.get_text() for text in axes.texts]


def lines(axes, marker):
    return [line for line in axes.get_lines() if line.get_marker() == marker]


@pytest.fixture(scope="module")
def review():
    """Four steps: two mistakes, one undecided decision and a right one."""
    return made([0.5, 0.04, 2.0, 0.0], [0.0, 0.0, 0.0, 1.0], [1.0, 1.5, 1.2, 1.22])


def test_values_luck_and_decisions_are_those_of_the_review(review):
    figure = review.plot()
    value, luck, left, right = (figure.axes[i] for i in (2, 3, 0, 1))
    [line] = lines(value, "o")
    np.testing.assert_array_equal(line.get_ydata(), [1.0, 1.5, 1.2, 1.22])
    [wrong] = lines(value, "v")
    assert list(wrong.get_xdata()) == [0, 2]
    assert texts(value) == ["2: hit", "0: hit"]
    bars = {
        tuple(np.round(part[:, 1], 9)): found.get_alpha()
        for found in luck.collections
        for part in found.get_segments()
        if part[0, 1] == 0
    }
    found = [float(one.luck) for one in review.decisions]
    assert sorted(end for _, end in bars) == pytest.approx(sorted(found))
    assert bars[(0.0, 0.02)] == 0.4  # its interval includes 0
    assert bars[(0.0, 0.5)] == 1.0
    on_the_right = {
        (round(float(x), 6), line.get_markerfacecolor() != "white")
        for line in lines(right, "o")
        for x in line.get_xdata()
    }
    assert on_the_right == {(0.5, True), (0.04, False), (2.0, True)}
    assert sum(len(line.get_xdata()) for line in lines(left, "o")) == 1
    assert {"mistake,\ngood luck", "mistake,\nbad luck", "0", "2"} < set(texts(right))
    assert texts(left) == ["right decision,\ngood luck", "right decision,\nbad luck"]
    assert figure.get_suptitle() == summary(review) == "Episode 0: luck unclear; 2 mistakes in 4 steps"
    assert "64 rollouts of each action" in figure.legends[0].get_title().get_text()
    assert "seed 7" in figure.legends[0].get_title().get_text()
    check_no_texts_overlap(figure)
    assert jmdp.plots.review_chart(review, title="mine").get_suptitle() == "mine"


CASES = {
    "one step": made([0.3], [1.0], [0.5]),
    "one certain step": made([0.0], [0.5], [0.5], error=0.0, samples=0),
    "equal values": made([0.0] * 5, [0.0] * 5, [3.0] * 5, error=0.0, samples=0, terminated=False),
    "names": made(
        [0.5, 0, 2.0], [1, -1, 0], [1, 2, 3], names=("$x^{2$\n<script>" + "w" * 300, "\u202e$$"), labels=["$" * 50] * 3
    ),
    "without intervals": made([0.5, 0, 2.0], [1, -1, 0], [1, 2, 3], error=math.inf, samples=0),
    "huge": made([5e299, 0, 2e300], [1e300, -1e300, 0], [1e300, 2e300, 3e300], error=1e299),
    "tiny": made([5e-320, 0, 2e-320], [1e-320, -1e-320, 0], [1e-320, 2e-320, 3e-320], error=0.0),
    "all wrong": made(RNG.random(40) + 1, RNG.normal(size=40), np.linspace(50, 60, 40), terminated=False, first=900),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("error")
def test_any_review_can_be_drawn(case, tmp_path):
    figure = CASES[case].plot()
    figure.savefig(tmp_path / "chart.png")
    if case not in ("huge", "tiny"):  # whose axes have exponents
        check_no_texts_overlap(figure)


def test_a_certain_outcome_is_no_luck():
    figure = CASES["one certain step"].plot()
    assert "nothing is random" in texts(figure.axes[3])
    assert "no decision has a regret" in texts(figure.axes[1])
    assert figure.get_suptitle() == "Episode 0: nothing random; no mistake shown in 1 step"
    assert figure.legends[0].get_title().get_text() == "exact values · seed 7"


def test_many_steps_are_thinned_and_mistakes_stay():
    steps = 3 * MOST_DRAWN
    regrets = np.zeros(steps)
    regrets[[5, 1234, 2999]] = 1.0
    figure = made(regrets, np.zeros(steps), np.zeros(steps)).plot()
    [wrong] = lines(figure.axes[2], "v")
    assert list(wrong.get_xdata()) == [5, 1234, 2999]
    assert figure.legends[0].get_title().get_text().startswith("1,000 of 3,000 steps drawn")
    check_no_texts_overlap(figure)


@given(st.integers(1, 5000))
def test_thinning_takes_the_most_important_of_each_part(count):
    importance = np.random.default_rng(count).random(count)
    at = thinned(importance)
    assert len(at) == min(count, MOST_DRAWN)
    assert (np.diff(at) > 0).all()
    assert int(importance.argmax()) in at


finite = st.floats(-1e300, 1e300)


@settings(max_examples=200)
@given(st.lists(st.tuples(finite, st.one_of(st.floats(0, 1e300), st.just(math.inf))), min_size=1, max_size=5))
def test_limits_contain_the_values(pairs):
    values, errors = (np.array(part) for part in zip(*pairs, strict=True))
    with np.errstate(over="ignore"):
        ends = finite_ends(values / 1e10, errors)
        low, high = axis_limits(np.concatenate([values / 1e10, *ends]), 0.1)
    assert low < high
    assert low <= (values / 1e10).min()
    assert high >= (values / 1e10).max()


def test_several_reviews_are_drawn_by_state_and_by_luck(tmp_path):
    reviews = several([made([0.5, x], [0.0, x + y], [1.0, 1.5]) for x in (0.0, 0.25, 1.0) for y in (-1.0, 2.0)])
    figure = reviews.plot()
    states, returns = figure.axes
    rows = reviews.rows()
    assert [text.get_text() for text in states.get_yticklabels()] == [row["state"] for row in rows]
    assert [bar.get_width() for bar in states.patches] == pytest.approx(
        [float(row["regret per episode"]) for row in rows]
    )
    [points] = lines(returns, "o")
    np.testing.assert_allclose(points.get_xdata(), [float(one.luck) for one in reviews])
    np.testing.assert_allclose(points.get_ydata(), [one.earned for one in reviews])
    [line] = [one for one in returns.get_lines() if one.get_linestyle() == "--"]
    x, y = line.get_data()
    np.testing.assert_allclose(y - x, np.mean([one.earned - float(one.luck) for one in reviews]))
    assert figure.get_suptitle().startswith("6 episodes: luck is 100%")
    check_no_texts_overlap(figure)
    figure.savefig(tmp_path / "reviews.png")
    assert jmdp.plots.reviews_chart(reviews, title="mine").get_suptitle() == "mine"


@pytest.mark.filterwarnings("error")
def test_reviews_without_regret_or_spread_can_be_drawn(tmp_path):
    same = several([made([0.0], [1.0], [1.0], error=0.0, samples=0)] * 3)
    figure = same.plot()
    assert texts(figure.axes[0]) == ["no decision has a regret"]
    assert figure.get_suptitle() == "3 episodes: all returns are equal"
    figure.savefig(tmp_path / "reviews.png")
    many = several(
        [made(RNG.random(30), RNG.normal(size=30), np.ones(30), labels=["$" * 80 + str(i) for i in range(30)])] * 2
    )
    figure = many.plot()
    assert len(figure.axes[0].patches) == 10
    assert "the worst 10 of 30 states" in figure.axes[0].get_title(loc="left")
    check_no_texts_overlap(figure)


def test_other_results_are_refused():
    with pytest.raises(SettingsError, match=r"Give a result of jmdp\.review"):
        jmdp.plots.review_chart(3)
    with pytest.raises(SettingsError, match="with episodes="):
        jmdp.plots.reviews_chart(CASES["one step"])
    with pytest.raises(SettingsError, match="title"):
        jmdp.plots.review_chart(CASES["one step"], title=3)
