"""The chart of an explanation: a pair of bars for each source."""

from __future__ import annotations

import numpy as np
import pytest

import jmdp
from jmdp.base.interval import Estimate
from jmdp.comparisons.explanation import Explanation
from jmdp.errors import SettingsError
from show.plots.test_study_plots import check_no_texts_overlap

pytest.importorskip("matplotlib")


def explanation(*sources, shares=(0.71, 0.2, 0.0), samples=400):
    """Shares alone, and 0.05 more with interactions."""
    numbers = np.zeros((len(sources), 5, 3))
    for i, share in enumerate(shares):
        for j, value in enumerate((share, share + 0.05)):
            numbers[i, j] = value, value - 0.08, value + 0.07
    numbers[2:, :2, 1:] = -np.inf, np.inf  # a source that never changed the gap has no interval
    return Explanation(
        first="new", second="old", sources=sources, numbers=numbers, interactions=Estimate(0.09, 0.02, 0.16),
        confidence=0.95 if samples else None, samples=samples, runs=10 * samples, seed=3,
    )  # fmt: skip


@pytest.mark.parametrize("samples", [400, 0])
def test_bars_and_numbers(samples):
    found = explanation("lead time", "demand", "breakdowns of the northern machine", samples=samples)
    figure = found.plot()
    [axes] = figure.axes
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([0.71, 0.76, 0.2, 0.25, 0, 0.05])
    assert [text.get_text() for text in axes.texts][:2] == ["71% [63, 79]", "76% [68, 84]"]
    assert axes.get_yticklabels()[0].get_text() == "lead time"
    assert figure.get_suptitle() == "What explains the variance of new − old"
    assert figure.legends[0].get_title().get_text() == (
        "400 samples · seed 3 · 95% confidence each" if samples else "from the table"
    )
    check_no_texts_overlap(figure)


def test_title_and_wrong_arguments():
    assert jmdp.plots.explanation_chart(explanation("a", "b", "c"), title="mine").get_suptitle() == "mine"
    with pytest.raises(SettingsError, match=r"Give a result of explain\(\)"):
        jmdp.plots.explanation_chart(3)
