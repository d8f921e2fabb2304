"""Figures of studies: what they show is what the study found."""

from __future__ import annotations

from importlib import import_module
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import jmdp
from jmdp.errors import SettingsError, UnavailableError
from jmdp.show.plots.studies import PALETTE, _thinned, colours, short_names

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")


class Cell(NamedTuple):
    depth: int
    width: int


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    world = jmdp.worlds.windy_gridworld(5, 5)
    path = tmp_path_factory.mktemp("grid")
    return jmdp.study(world, world.policies["goal_directed"], seed=1, path=path, max_samples=64, progress=False)


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    simulator = jmdp.worlds.inventory().simulator
    path = tmp_path_factory.mktemp("line")
    states = [(k,) for k in range(11)]
    policy = simulator.policies["base_stock"]
    return jmdp.study(simulator, policy, states, seed=1, path=path, max_samples=200, horizon=10, progress=False)


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """Cells of a triangle, from (−1, 5) on, of which those of depth 1 fail."""
    simulator = jmdp.simulators.FunctionSimulator(
        reward=lambda state, action, luck: float(action * (state[1] - 6)) + luck,
        next_state=lambda state, action, luck: Cell(state[0] + 10, 6),
        actions=["wait", "wash", "sell"],
        luck=lambda rng: rng.random(),
        start=Cell(0, 0),
    )

    def policy(state):
        if state[0] == 11:
            raise RuntimeError("no rule at depth 11")
        return 0

    states = [Cell(i, j) for i in range(-1, 3) for j in range(5, 9 - i)]
    path = tmp_path_factory.mktemp("failing")
    return jmdp.study(
        simulator, policy, states, seed=1, path=path, max_samples=64, discount=0.9, horizon=2, progress=False
    )


def legend(figure: Figure) -> list[str]:
    [found] = figure.legends
    return [text.get_text() for text in found.get_texts()]


def image(axes):
    [found] = axes.get_images()
    return found.get_array()


def check_no_texts_overlap(figure: Figure):
    figure.draw_without_rendering()
    texts = [text for axes in figure.axes for text in (axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts)]
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    texts += [text for found in figure.legends for text in found.get_texts()] + figure.texts
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts if text.get_text() and text.get_visible()]
    page = figure.bbox
    for said, box in boxes:
        assert box.x0 >= page.x0 - 1, said
        assert box.x1 <= page.x1 + 1, said
        assert box.y0 >= page.y0 - 1, said
        assert box.y1 <= page.y1 + 1, said
    for (said, one), (other, two) in combinations(boxes, 2):
        apart = one.x1 <= two.x0 + 1 or two.x1 <= one.x0 + 1 or one.y1 <= two.y0 + 1 or two.y1 <= one.y0 + 1
        assert apart, (said, other)


def test_map_shows_leaders_and_gaps_in_their_cells(grid):
    figure = grid.plot()
    leaders, gaps, bar = figure.axes
    best = grid.best()
    assert len(best) == 24
    shown = image(leaders)
    assert shown.shape == (5, 5, 3)
    for _, found in best.iterrows():
        colour = np.array(to_rgb(PALETTE[grid.alternatives.index(found["leader"])]))
        here = shown[found["row"], found["column"]]
        if found["decided"]:
            np.testing.assert_allclose(here, colour)
        else:
            assert (here >= colour).all()
            assert here.sum() > colour.sum() + 0.5
        assert image(gaps)[found["row"], found["column"]] == found["gap"]
    assert len(leaders.texts) == 24
    assert {text.get_text() for text in leaders.texts} <= set("↑→↓←")
    assert image(gaps).mask.sum() == 1  # the goal
    assert bar.get_ylabel() == "mean gap to the runner-up"
    counts = best["leader"].value_counts()
    undecided = int((~best["decided"]).sum())
    assert legend(figure) == [
        *(f"{name} ({counts.get(name, 0)})" for name in "URDL"),
        f"pale: undecided ({undecided})",
        "no result",
    ]
    for axes in (leaders, gaps):
        assert (axes.get_ylabel(), axes.get_xlabel()) == ("row", "column")
        assert axes.get_xlim() == (-0.5, 4.5)
        assert axes.get_ylim() == (4.5, -0.5)
        assert list(axes.get_xticks()) == [0, 1, 2, 3, 4]
    assert figure.get_suptitle() == f"Best action: decided in {24 - undecided} of 24 states"
    check_no_texts_overlap(figure)
    assert jmdp.plots.study_map(grid, title="mine").get_suptitle() == "mine"


def test_map_has_coordinates_of_states_and_marks_failures(failing, tmp_path):
    figure = failing.plot()
    leaders, gaps, _ = figure.axes
    assert (leaders.get_ylabel(), leaders.get_xlabel()) == ("depth", "width")
    assert leaders.get_xlim() == (4.5, 9.5)
    assert leaders.get_ylim() == (2.5, -1.5)
    for axes in (leaders, gaps):
        [marks] = [line for line in axes.get_lines() if line.get_marker() == "x"]
        assert sorted(marks.get_xdata()) == [5, 6, 7]
        assert set(marks.get_ydata()) == {1}
    assert "failed (3)" in legend(figure)
    assert "no result" in legend(figure)
    texts = {text.get_position(): text.get_text() for text in leaders.texts}
    assert len(texts) == failing.progress.finished - 3
    assert texts[7, -1] == "sel"
    check_no_texts_overlap(figure)
    figure.savefig(tmp_path / "map.png")


@pytest.mark.parametrize(("down", "across"), [(3, 3), (2, 5)])
def test_cells_of_larger_steps_are_neighbours(down, across, tmp_path):
    """Every third level of two stocks is a whole map, and not isolated cells between empty ones."""
    simulator = jmdp.simulators.FunctionSimulator(
        reward=lambda state, action, luck: action * (state[1] - 12.5 + 0.1 * luck),
        next_state=lambda state, action, luck: state,
        actions=["wait", "sell"],
        luck=lambda rng: rng.random(),
        start=Cell(0, 0),
    )
    states = [Cell(down * i - 1, across * j + 2) for i in range(4) for j in range(5)]
    study = jmdp.study(simulator, "uniform", states, seed=1, path=tmp_path, max_samples=64, discount=1.0, horizon=1,
                       progress=False)  # fmt: skip
    figure = study.plot()
    leaders, gaps, _ = figure.axes
    assert image(leaders).shape == (4, 5, 3)
    for _, found in study.best().iterrows():
        row, column = (found["depth"] + 1) // down, (found["width"] - 2) // across
        np.testing.assert_allclose(image(leaders)[row, column], to_rgb(PALETTE[int(found["width"] > 12)]))
        assert image(gaps)[row, column] == found["gap"]
    assert "no result" not in legend(figure)
    assert list(leaders.get_xticks()) == [across * j + 2 for j in range(5)]
    assert list(leaders.get_yticks()) == [down * i - 1 for i in range(4)]
    assert leaders.get_xlim() == (2 - across / 2, 2 + 4.5 * across)
    assert sorted({text.get_position() for text in leaders.texts}) == sorted((s.width, s.depth) for s in states)
    figure.draw_without_rendering()
    (x0, y0), (x1, y1) = leaders.transData.transform([(0, 0), (across, down)])
    assert abs(x1 - x0) == pytest.approx(abs(y1 - y0), rel=1e-6)  # squares
    check_no_texts_overlap(figure)


def test_map_needs_two_whole_coordinates(line, tmp_path):
    with pytest.raises(UnavailableError, match="1 coordinates"):
        jmdp.plots.study_map(line)
    simulator = jmdp.worlds.inventory().simulator
    far = {"a": (0,), "b": (1,)}
    named = jmdp.study(
        simulator,
        simulator.policies["base_stock"],
        far,
        seed=1,
        path=tmp_path,
        max_samples=16,
        horizon=2,
        progress=False,
    )
    with pytest.raises(UnavailableError, match="0 coordinates"):
        jmdp.plots.study_map(named)
    with pytest.raises(SettingsError, match="title"):
        jmdp.plots.study_map(line, title=3)
    with pytest.raises(SettingsError, match="study"):
        jmdp.plots.study_gaps(3)


def test_labels_of_cells_are_short_and_distinct():
    assert short_names(["U", "L"]) == ["↑", "←"]
    assert short_names(["order 0", "order 10", "order 1"]) == ["0", "10", "1"]
    assert short_names(["a1", "a2"]) == ["a1", "a2"]
    assert short_names(["action1", "action12"]) == ["1", "12"]
    assert short_names(["base_stock", "reorder"]) == ["b", "r"]
    assert short_names(["none", "one", "two", "three"]) == ["no", "on", "tw", "th"]
    assert short_names(["go to the north", "go to the north-east"]) is None
    assert short_names(["same", "same"]) is None


def test_eighteen_alternatives_have_distinct_colours():
    found = colours(18)
    assert min(np.abs(a - b).sum() for a, b in combinations(found, 2)) > 0.15


def test_gaps_are_sorted_with_their_intervals(line, tmp_path):
    figure = line.plot()
    [axes] = figure.axes
    best = line.best().sort_values("gap", kind="stable")
    decided = best["outcome"].isin(["BEST_FOUND", "GOOD_ENOUGH", "EQUAL_BEST"]).to_numpy()
    assert 0 < decided.sum() < 11
    points = {
        int(x): (y, drawn.get_color(), drawn.get_markerfacecolor() != "white")
        for drawn in axes.get_lines()
        if drawn.get_marker() == "o"
        for x, y in zip(drawn.get_xdata(), drawn.get_ydata(), strict=True)
    }
    leaders = [line.alternatives.index(name) for name in best["leader"]]
    assert len(set(leaders)) > 1
    assert points == {
        x: (gap, PALETTE[a], sure) for x, (gap, a, sure) in enumerate(zip(best["gap"], leaders, decided, strict=True))
    }
    counts = best["leader"].value_counts()
    listed = [f"{name} ({counts[name]})" for name in line.alternatives if name in counts]
    n = int(decided.sum())
    assert legend(figure) == [*listed, f"filled: decided ({n})", f"open: undecided ({11 - n})"]
    ends = {round(found[0][0]): (found[0][1], found[1][1]) for c in axes.collections for found in c.get_segments()}
    known = dict(enumerate(zip(best["gap_low"], best["gap_high"], strict=True)))
    assert ends == {x: pair for x, pair in known.items() if np.isfinite(pair).all()}
    assert [text.get_text() for text in axes.get_xticklabels()] == best["state"].to_list()
    assert axes.get_xlabel() == "states, sorted by gap"
    assert axes.get_ylabel() == "mean gap to the runner-up"
    assert figure.get_suptitle() == "Leading action and gap to the runner-up in 11 of 11 states"
    check_no_texts_overlap(figure)
    figure.savefig(tmp_path / "gaps.png")


def test_gaps_count_what_failed(failing):
    figure = jmdp.plots.study_gaps(failing)
    assert legend(figure)[-1] == "failed, not shown: 3 states"
    finished = failing.progress.finished
    said = f"Leading action and gap to the runner-up in {finished - 3} of {finished} states"
    assert figure.get_suptitle().replace("\n", " ") == said
    check_no_texts_overlap(figure)


def test_many_states_are_thinned(grid, monkeypatch):
    module = import_module("jmdp.show.plots.studies")
    monkeypatch.setattr(module, "_MOST_DRAWN", 10)
    monkeypatch.setattr(module, "_MOST_LABELLED", 5)
    figure = jmdp.plots.study_gaps(grid)
    [axes] = figure.axes
    undecided = int((~grid.best()["decided"]).sum())
    opened = [line for line in axes.get_lines() if line.get_marker() == "o" and line.get_markerfacecolor() == "white"]
    assert undecided > 10
    assert sum(len(line.get_xdata()) for line in opened) == 10
    assert f"open: undecided ({undecided})" in legend(figure)
    assert "at most 10 of each kind drawn" in axes.get_xlabel()
    check_no_texts_overlap(figure)


def test_thinning_keeps_both_ends():
    ranks = np.arange(5, 7000)
    assert _thinned(ranks)[[0, -1]].tolist() == [5, 6999]
    assert len(set(_thinned(ranks))) == 1000
    np.testing.assert_array_equal(_thinned(ranks[:1000]), ranks[:1000])
