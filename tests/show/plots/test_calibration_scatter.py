"""The picture of a calibration: dots are its gaps, and no text is off the page or on another."""

from __future__ import annotations

import dataclasses
from itertools import combinations

import numpy as np
import pytest

import jmdp
from jmdp.results import bootstrap
from results.calibration.test_record import record

pytest.importorskip("matplotlib")

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch):
    """Pictures look the same with intervals that are a little rougher."""
    monkeypatch.setattr(bootstrap, "_RESAMPLES", 60)


def some_zeros(**settings):
    c = record(**settings)
    returns, variance = c.returns.copy(), c.variance.copy()
    returns[:4] = 0.0
    variance[2:7] = [0.0, 0.0, 0.0, -1.0, 1e-30]
    return dataclasses.replace(c, returns=returns, variance=variance)


def scaled(factor):
    c = record()
    square = factor**2
    return dataclasses.replace(
        c,
        mean=factor * c.mean,
        variance=square * c.variance,
        independent=square * c.independent,
        returns=factor * c.returns,
    )


CASES = {
    "plain": record,
    "many": lambda: record(states=150, per_state=4),
    "narrow": lambda: record(spread=0.05),
    "wide": lambda: record(spread=3.0),
    "one gap": lambda: record(states=1),
    "zeros": some_zeros,
    "nothing varies": lambda: dataclasses.replace(
        record(), returns=np.zeros((100, 4, 2)), variance=np.zeros(100), mean=np.zeros(100)
    ),
    "no marginals": lambda: dataclasses.replace(record(), independent=np.zeros(100)),
    "small": lambda: scaled(1e-5),
    "large": lambda: scaled(1e5),
    "joined": lambda: jmdp.results.Calibration.joined([record(), dataclasses.replace(record(), seed=7)]),
}


def texts(figure):
    """All that can be read, with its box in pixels; ticks beyond the limits are kept, but not drawn."""
    FigureCanvasAgg(figure).draw()
    hidden = {
        label
        for axes in figure.axes
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim()))
        for tick in axis.get_major_ticks()
        if not limits[0] <= tick.get_loc() <= limits[1]
        for label in (tick.label1, tick.label2)
    }
    found = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return {text: text.get_window_extent() for text in found if text not in hidden}


@pytest.mark.parametrize("case", CASES)
def test_all_is_on_the_page_and_nothing_on_top_of_another(case):
    figure = jmdp.plots.calibration_scatter(CASES[case]())
    boxes, page = texts(figure), figure.bbox
    assert len(boxes) > 12
    for text, box in boxes.items():
        assert page.x0 <= box.x0, text
        assert page.y0 <= box.y0, text
        assert box.x1 <= page.x1, text
        assert box.y1 <= page.y1, text
    for (one, box), (other, beside) in combinations(boxes.items(), 2):
        separate = box.x1 <= beside.x0 or beside.x1 <= box.x0 or box.y1 <= beside.y0 or beside.y1 <= box.y0
        assert separate, (one, other)


def lines(axes, marker):
    return [line.get_xydata() for line in axes.get_lines() if line.get_marker() == marker]


def test_dots_are_the_gaps_and_titles_say_the_numbers():
    c = record()
    left, right = jmdp.plots.calibration_scatter(c).axes
    np.testing.assert_array_equal(lines(left, "o")[0], np.column_stack((c.variance, c.simulated_variance)))
    np.testing.assert_array_equal(lines(left, "x")[0], np.column_stack((c.independent, c.simulated_variance)))
    np.testing.assert_array_equal(lines(right, "o")[0], np.column_stack((c.mean, c.simulated_mean)))
    for axes in (left, right):
        [identity] = [line.get_xydata() for line in axes.get_lines() if line.get_linewidth() == 1]
        np.testing.assert_array_equal(identity[:, 0], identity[:, 1])
    assert f"learned / simulated variance {c.ratio:.2f}" in left.get_title(loc="left")
    assert f"rank correlation {c.rank_correlation:.2f}" in left.get_title(loc="left")
    assert f"correlation of means {c.mean_correlation:.2f}" in right.get_title(loc="left")
    named = jmdp.plots.calibration_scatter(c, title="mine")
    assert "mine" in [text.get_text() for text in texts(named)]


def test_what_a_logarithm_has_no_place_for_is_at_the_edge():
    c = some_zeros()
    left = jmdp.plots.calibration_scatter(c).axes[0]
    edge = left.get_xlim()[0]
    assert left.get_ylim()[0] == edge
    [to_the_left], [below] = lines(left, "<"), lines(left, "v")
    assert (to_the_left[:, 0] == edge).all()
    assert len(to_the_left) == 5
    assert (below[:, 1] == edge).all()
    np.testing.assert_array_equal(below[:, 0], c.variance[:2])
    assert len(lines(left, "o")[0]) == c.gaps - 7
