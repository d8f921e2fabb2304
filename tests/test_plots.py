"""Figures carry what they should; how they look is for eyes."""

from __future__ import annotations

import numpy as np
import pytest

import jmdp
from jmdp.errors import MissingExtraError, SettingsError, UnavailableError


@pytest.fixture(scope="module")
def world():
    return jmdp.worlds.windy_gridworld(3, 3)


@pytest.fixture(scope="module")
def result(world):
    return jmdp.evaluate(world.model, world.policies["goal_directed"])


def test_residual_curve_shows_every_sweep(world, result, tmp_path):
    jipe = jmdp.evaluate(world.model, world.policies["goal_directed"], method=jmdp.JIPE())
    figure = jmdp.plots.residual_curve({"paper": jipe, "pairs": result})
    [axes] = figure.axes
    assert axes.get_yscale() == "log"
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert f"paper ({jipe.residuals.size} sweeps)" in lines
    np.testing.assert_array_equal(
        lines[f"paper ({jipe.residuals.size} sweeps)"].get_ydata(), jipe.residuals[jipe.residuals > 0]
    )
    assert "γ = 0.95 per sweep" in lines
    figure.savefig(tmp_path / "residuals.png")
    assert jmdp.plots.residual_curve(result, title="mine").axes[0].get_title() == "mine"


def test_residual_curve_refuses_what_did_not_sweep(world):
    sampled = jmdp.evaluate(world.model, world.policies["uniform"], method=jmdp.MonteCarlo(seed=0, samples=10))
    with pytest.raises(UnavailableError, match="MonteCarlo does not sweep"):
        jmdp.plots.residual_curve(sampled)


def test_correlation_grid_is_laid_out_as_the_grid(world, result, tmp_path):
    figure = jmdp.plots.correlation_grid(result, world.grid, terminal=["0,2"])
    tiles = figure.axes[:9]
    assert [tile.get_title() for tile in tiles] == [f"{r},{c}" for r in range(3) for c in range(3)]
    for s, tile in enumerate(tiles):
        np.testing.assert_array_equal(tile.get_images()[0].get_array().filled(np.nan), result.correlation[s])
    assert [text.get_text() for text in tiles[2].texts] == ["end"]
    figure.savefig(tmp_path / "grid.png")
    with pytest.raises(SettingsError, match=r"grid is \(2, 3\), that is 6 cells, for 9 states"):
        jmdp.plots.correlation_grid(result, (2, 3))
    with pytest.raises(SettingsError, match="not the cells of a grid"):
        jmdp.plots.correlation_grid(result, None)


def test_there_must_be_something_to_show():
    alone = jmdp.TabularJMDP([[1.0]], [[[1.0]]], [[[0]]], 0.5)
    with pytest.raises(SettingsError, match="no gap to show"):
        jmdp.plots.gap_chart(jmdp.evaluate(alone, jmdp.TabularPolicy([[1.0]])), 0)
    with pytest.raises(SettingsError, match="no evaluation to show"):
        jmdp.plots.residual_curve({})


@pytest.mark.parametrize("sampled", [False, True])
def test_gap_chart_shows_each_gap(world, result, tmp_path, sampled):
    if sampled:
        method = jmdp.MonteCarlo(seed=0, samples=100)
        result = jmdp.evaluate(world.model, world.policies["goal_directed"], method=method)
    figure = jmdp.plots.gap_chart(result, "2,0", action="R")
    axes = figure.axes[0]
    order = sorted("UDL", key=lambda b: result.gap("2,0", "R", b).mean)
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"R − {b}" for b in order]
    widths = [bar.get_width() for bar in axes.patches]
    np.testing.assert_allclose(widths, [2 * result.gap("2,0", "R", b).std for b in order])
    figure.savefig(tmp_path / "gaps.png")


def test_without_matplotlib_the_door_says_what_to_type(result, monkeypatch):
    import builtins

    real = builtins.__import__

    def refuse(name, *rest, **more):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r'pip install "jmdp\[plot\]"'):
        jmdp.plots.gap_chart(result, "2,0")
