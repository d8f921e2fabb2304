"""TD errors of what a network learned, on the same axes as those of a table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import jmdp
from jmdp.errors import SettingsError, UnavailableError
from jmdp.results.result import LearningCurve

BLOCKS = ("mean", "diagonal", "same state", "cross", "gap mean", "gap")
FLOOR = np.array([0.5, 3.0, 1.0, np.nan, 0.25, 0.125])
STD = 2.0


def learned(seed: int = 0, windows: int = 12, floor: Any = FLOOR, std: float = STD) -> Any:
    """As much of a LearnedEvaluation as the figure looks at: √t falls towards the noise, and a drift."""
    updates = 50.0 * np.arange(1, windows + 1)
    size = np.where(np.isnan(FLOOR), 2.0, FLOOR)
    rms = (size * (1 + 4 / np.sqrt(updates / 50))[:, None]) * (1 + 0.1 * seed)
    drift = rms * np.array([0.1, -0.2, 0.3, -0.1, 0.05, 0.2])
    rms[: windows // 3, 3] = drift[: windows // 3, 3] = np.nan  # branches are still in one state
    curve = LearningCurve(BLOCKS, updates, rms, drift, floor)
    return SimpleNamespace(learning=curve, network=SimpleNamespace(std=std), coupling=jmdp.Synchronous(), method=None)


def named(axes: Any) -> dict[str, Any]:
    return {line.get_label().partition(",")[0]: line for line in axes.get_lines() if line.get_label()[0] != "_"}


def floors(axes: Any) -> dict[str, float]:
    """Heights of the thin lines, by colour."""
    return {x.get_color(): x.get_ydata()[0] for x in axes.get_lines() if x.get_label().startswith("_noise")}


def test_all_blocks_are_shares_of_the_spread_of_returns(tmp_path):
    run = learned(windows=1)
    left, right = (named(axes) for axes in jmdp.plots.td_errors(run).axes)
    assert list(left) == [block for block in BLOCKS if block != "cross" or not np.isnan(run.learning.rms[0, 3])]
    for i, block in enumerate(BLOCKS):
        if block in left:
            scale = STD if block in ("mean", "gap mean") else STD**2
            np.testing.assert_allclose(left[block].get_ydata(), run.learning.rms[:, i] / scale)
            np.testing.assert_allclose(right[block].get_ydata(), np.abs(run.learning.drift[:, i]) / scale)
    figure = jmdp.plots.td_errors(learned(windows=200))
    assert "Var(Z(s,a) − Z(t,b))" in [text.get_text() for text in figure.legends[0].get_texts()][-1]
    figure.savefig(tmp_path / "learned.png")


def test_noise_of_one_sample_is_a_thin_line_where_it_is_known():
    figure = jmdp.plots.td_errors([learned(0), learned(1)])
    left, right = figure.axes
    known = floors(left)
    lines = named(left)
    scales = dict(zip(BLOCKS, (STD if "mean" in block else STD**2 for block in BLOCKS), strict=True))
    expected = {lines[b].get_color(): f / scales[b] for b, f in zip(BLOCKS, FLOOR, strict=True) if not np.isnan(f)}
    assert known == pytest.approx(expected)
    assert floors(right) == {}
    low, high = left.get_ylim()
    assert all(low < height < high for height in known.values())
    assert floors(jmdp.plots.td_errors(learned(floor=None)).axes[0]) == {}


def test_spread_is_the_largest_of_all_runs():
    figure = jmdp.plots.td_errors([learned(0, std=2.0), learned(1, std=4.0)])
    note = figure.legends[0].get_title().get_text().replace("\n", " ")
    assert "as first seen, 4;" in note
    assert "square, 16." in note
    assert "mean of 2 seeds" in figure.get_suptitle()


def test_what_cannot_be_shown_is_refused():
    world = jmdp.worlds.windy_gridworld(3, 3)
    method = jmdp.Incremental(seed=0, updates=20_000)
    table = jmdp.evaluate(world.model, world.policies["uniform"], jmdp.Local(), method=method, throw=False)
    with pytest.raises(SettingsError, match="not updated alike"):
        jmdp.plots.td_errors([learned(), table])
    with pytest.raises(UnavailableError, match="before its first"):
        jmdp.plots.td_errors(learned(windows=0))
